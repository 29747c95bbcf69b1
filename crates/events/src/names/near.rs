//! Names that look like one that was not found.

/// Names longer than this are compared only this far: what a user mistypes is not that long.
const LONGEST: usize = 96;

/// Up to three of `names` that look like `name`, best first.
pub fn nearest<'a>(name: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let wanted = letters(name);
    if wanted.is_empty() {
        return Vec::new();
    }
    let limit = wanted.len() / 4 + 1;
    let mut found: Vec<(usize, &str)> = names
        .filter_map(|name| {
            let letters = letters(name);
            let distance = distance(&wanted, &letters, limit);
            // What was typed may be a piece of the name.
            let part = wanted.len() > 3 && letters.windows(wanted.len()).any(|window| window == wanted);
            (distance <= limit).then_some(distance).or(part.then_some(limit)).map(|rank| (rank, name))
        })
        .collect();
    found.sort();
    found.into_iter().take(3).map(|(_, name)| name.to_owned()).collect()
}

fn letters(name: &str) -> Vec<char> {
    let letters = name.trim().chars().filter(|c| !c.is_whitespace()).take(LONGEST);
    letters.map(|c| if c == ':' { '.' } else { c.to_ascii_lowercase() }).collect()
}

/// Letters to change, add or take away; `limit + 1` if more than `limit`.
fn distance(one: &[char], other: &[char], limit: usize) -> usize {
    if one.len().abs_diff(other.len()) > limit {
        return limit + 1;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let replace = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[other.len()].min(limit + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slips_are_found() {
        let names = ["L2_TRANS.L1D_WB", "L2_TRANS.L2_WB", "INST_RETIRED.ANY"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("l2_trans:l1d_wv"), ["L2_TRANS.L1D_WB", "L2_TRANS.L2_WB"]);
        assert_eq!(near("inst_retired"), ["INST_RETIRED.ANY"]);
        assert!(near("").is_empty());
        assert!(near("zzz").is_empty());
    }

    proptest! {
        #[test]
        fn distance_is_symmetric(one in "[abc]{0,8}", other in "[abc]{0,8}") {
            let (one, other) = (letters(&one), letters(&other));
            prop_assert_eq!(distance(&one, &other, 20), distance(&other, &one, 20));
            prop_assert_eq!(distance(&one, &one, 20), 0);
        }
    }
}
