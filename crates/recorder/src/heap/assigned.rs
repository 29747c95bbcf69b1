//! To which variable a line of source gives the memory it asks for.
//!
//! Debug information tells the line of a call, not where its result goes; the line itself does: `double *a = malloc(n);`,
//! `rows->keys = make(n);`, `let table = vec![0; n];`, `std::vector<int> a(n);`. Two assignments on a line say nothing.

use std::{collections::HashMap, path::Path};

use machine::{Bytes, regular};

/// Longer sources are not read, and no more files than this.
const LONGEST: Bytes = Bytes(4 << 20);
const MOST_FILES: usize = 256;

/// Longer names are none.
const LONGEST_NAME: usize = 60;

/// Sources of a program, as far as they were looked at.
#[derive(Debug, Default)]
pub(super) struct AssignedNames {
    files: HashMap<String, Option<Vec<String>>>,
}

impl AssignedNames {
    /// The variable that a line assigns to; none if the source is not there, or does not tell.
    pub fn at(&mut self, file: &str, line: u32) -> Option<String> {
        if !self.files.contains_key(file) && self.files.len() >= MOST_FILES {
            return None;
        }
        let lines = self.files.entry(file.to_owned()).or_insert_with(|| {
            let bytes = regular::read(Path::new(file), LONGEST).ok()?;
            Some(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect())
        });
        let at = (line as usize).checked_sub(1)?;
        let lines = lines.as_ref()?;
        assigned(lines.get(at)?).or_else(|| {
            // The call may stand on a line behind that of its variable.
            let before = lines.get(at.checked_sub(1)?)?.trim_end();
            assigned(before).filter(|_| !before.ends_with([';', '{', '}']))
        })
    }
}

fn assigned(line: &str) -> Option<String> {
    let code = line.split("//").next().unwrap_or_default();
    let mut assignments = assignments(code);
    let found = match (assignments.next(), assignments.next()) {
        (Some(_), Some(_)) => None,
        (Some(before), None) => name_before(before),
        (None, _) => declared(code),
    };
    found.filter(|name| name.len() <= LONGEST_NAME)
}

/// What stands before each `=` that assigns.
fn assignments(code: &str) -> impl Iterator<Item = &str> {
    code.match_indices('=').filter_map(|(at, _)| {
        let (before, behind) = (&code[..at], &code[at + 1..]);
        let compares = behind.starts_with(['=', '>'])
            || before.ends_with(['=', '<', '>', '!', '+', '-', '*', '/', '|', '&']);
        (!compares).then_some(before)
    })
}

fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The last name before an `=`: `a` of `double *a`, `rows->keys`, `table` of `let mut table: Vec<u64>`.
fn name_before(before: &str) -> Option<String> {
    let before = before.trim();
    let words = before.strip_prefix("let ").map(str::trim_start);
    if let Some(pattern) = words.map(|words| words.strip_prefix("mut ").unwrap_or(words)) {
        let name: String = pattern.chars().take_while(|letter| is_word(*letter)).collect();
        return (!name.is_empty()).then_some(name);
    }
    // An index says which of many: the name is that of all.
    let before = match before.strip_suffix(']') {
        Some(inside) => &before[..inside.rfind('[')?],
        None => before,
    };
    let part = |letter: char| is_word(letter) || matches!(letter, '.' | '-' | '>' | ':');
    let start = before.rfind(|letter| !part(letter)).map_or(0, |at| at + 1);
    let name = before[start..].trim_start_matches(['.', '-', '>', ':']);
    name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_').then(|| name.to_owned())
}

/// The variable of `std::vector<double> a(n);`.
fn declared(code: &str) -> Option<String> {
    let (kind, rest) = code.trim().rsplit_once("> ")?;
    let end = rest.find(['(', '{'])?;
    let name = rest[..end].trim();
    let is_name = !name.is_empty() && name.chars().all(is_word);
    (kind.contains('<') && is_name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_their_variable() {
        for (line, name) in [
            ("    double *a = malloc(n * sizeof *a);", Some("a")),
            ("  rows->keys = make_keys(n);", Some("rows->keys")),
            ("        .links = array(needs & LINKS, 64 * n),", Some("links")),
            ("  table[i] = calloc(n, 8);", Some("table")),
            ("    let mut table: Vec<u64> = vec![0; n];", Some("table")),
            ("  self.rows = np.zeros(n)", Some("self.rows")),
            ("  std::vector<double> a(n);", Some("a")),
            ("  auto p = new int[n];  // x = y", Some("p")),
            ("  a = malloc(n), b = malloc(n);", None),
            ("  if (n == 0) return grow(m);", None),
            ("  return malloc(n);", None),
            ("  use(new int[n]);", None),
            ("", None),
        ] {
            assert_eq!(assigned(line).as_deref(), name, "{line}");
        }
    }

    #[test]
    fn the_source_is_looked_at_as_far_as_it_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.c");
        std::fs::write(&file, "int *a =\n    malloc(9);\nint *b = f();\nmalloc(1);\n").expect("written");
        let file = file.display().to_string();
        let mut names = AssignedNames::default();
        let mut at = |line| names.at(&file, line);
        assert_eq!(at(2).as_deref(), Some("a"));
        assert_eq!(at(3).as_deref(), Some("b"));
        assert_eq!((at(4), at(0), at(99)), (None, None, None));
        assert_eq!(names.at("/nowhere.c", 1), None);
    }
}
