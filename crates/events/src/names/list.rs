//! Lists of events: names between commas, groups between braces.

use super::NameError;

/// Longest list that is read.
const LONGEST: usize = 1 << 16;

/// One name of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The name.
    pub text: &'a str,
    /// Its first byte within the list.
    pub at: usize,
}

/// Splits `a,b,{c,d},pmu/x=1,y=2/` at commas outside slashes; each group holds what must be counted together.
pub fn split(list: &str) -> Result<Vec<Vec<Piece<'_>>>, NameError> {
    let error = |at, message: &str| NameError::new(list, at, message);
    if list.len() > LONGEST {
        return Err(NameError::new("", 0, format!("a list of events has at most {LONGEST} bytes")));
    }
    let mut groups = Vec::new();
    let mut open: Option<(usize, Vec<Piece>)> = None;
    let (mut start, mut slash, mut after_group) = (0, None, false);
    for (at, c) in list.char_indices().chain([(list.len(), ',')]) {
        match c {
            '/' if slash.is_some() => slash = None,
            // A breakpoint has one slash, before its length.
            '/' if list[start..at].trim_start().starts_with("mem:") => {}
            '/' => slash = Some(at),
            _ if slash.is_some() && at < list.len() => {}
            '{' if open.is_none() && list[start..at].trim().is_empty() && !after_group => {
                open = Some((at, Vec::new()));
                start = at + 1;
            }
            '{' => return Err(error(at, "a group cannot begin here: write a comma before it")),
            ',' | '}' => {
                if let Some(slash) = slash {
                    return Err(error(slash, "this slash is never closed"));
                }
                let text = list[start..at].trim();
                let offset = list[start..at].len() - list[start..at].trim_start().len();
                let piece = Piece { text, at: start + offset };
                match (&mut open, text.is_empty(), c) {
                    (_, false, _) if after_group => {
                        return Err(error(piece.at, "expected a comma after the group"));
                    }
                    (Some((_, group)), false, _) => group.push(piece),
                    (None, false, _) => groups.push(vec![piece]),
                    (None, true, ',') if after_group => {}
                    (_, true, _) => return Err(error(at, "expected an event here")),
                }
                after_group = false;
                start = at + c.len_utf8();
                if c == '}' {
                    let Some((_, group)) = open.take() else {
                        return Err(error(at, "this brace closes no group"));
                    };
                    groups.push(group);
                    after_group = true;
                }
            }
            _ => {}
        }
    }
    match open {
        Some((at, _)) => Err(error(at, "this group is never closed")),
        None => Ok(groups),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn texts(list: &str) -> Vec<Vec<&str>> {
        split(list).unwrap().iter().map(|group| group.iter().map(|piece| piece.text).collect()).collect()
    }

    #[test]
    fn commas_split_outside_slashes_only() {
        assert_eq!(texts("a, b"), [["a"], ["b"]]);
        assert_eq!(texts("cpu/event=1,umask=2/u,b"), [["cpu/event=1,umask=2/u"], ["b"]]);
        assert_eq!(texts("{a,b},c"), [vec!["a", "b"], vec!["c"]]);
        assert_eq!(texts("c,{ a }"), [["c"], ["a"]]);
        assert_eq!(texts("mem:0x10/8:w,b"), [["mem:0x10/8:w"], ["b"]]);
    }

    #[test]
    fn mistakes_have_a_place() {
        let error = |list| split(list).unwrap_err().to_string();
        assert!(error("a,,b").contains("at 3"), "{}", error("a,,b"));
        assert!(error("").contains("expected an event"));
        assert!(error("a,").contains("expected an event"));
        assert!(error("{a,b").contains("never closed"));
        assert!(error("a}").contains("closes no group"));
        assert!(error("cpu/event=1").contains("slash is never closed"));
        assert!(error("{a}b").contains("comma after the group"));
        assert!(error("{{a}}").contains("cannot begin here"));
        assert!(error(&"x".repeat(LONGEST + 1)).contains("at most"));
    }

    proptest! {
        #[test]
        fn no_list_panics(list in "[a-z,{}/:é ]{0,24}") {
            if let Ok(groups) = split(&list) {
                for piece in groups.iter().flatten() {
                    prop_assert_eq!(&list[piece.at..piece.at + piece.text.len()], piece.text);
                    prop_assert!(!piece.text.is_empty());
                }
            }
        }
    }
}
