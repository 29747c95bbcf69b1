//! Names that look like one that was not found.

use strsim::generic_levenshtein;

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
            // Too different in length is too far, and need not be compared.
            let is_near = letters.len().abs_diff(wanted.len()) <= limit;
            let distance = if is_near { generic_levenshtein(&wanted, &letters) } else { limit + 1 };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found() {
        let names = ["L2_TRANS.L1D_WB", "L2_TRANS.L2_WB", "INST_RETIRED.ANY"];
        let near = |name| nearest(name, names.into_iter());
        assert_eq!(near("l2_trans:l1d_wv"), ["L2_TRANS.L1D_WB", "L2_TRANS.L2_WB"]);
        assert_eq!(near("inst_retired"), ["INST_RETIRED.ANY"]);
        assert!(near("").is_empty());
        assert!(near("zzz").is_empty());
    }
}
