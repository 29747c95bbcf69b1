//! Which recordings are before and which after: as they are given, never by guessing in silence.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{failure::Failure, output};

/// Recordings of both sides.
#[derive(Debug, PartialEq, Eq)]
pub struct Sides {
    /// First.
    pub before: Vec<PathBuf>,
    /// Then.
    pub after: Vec<PathBuf>,
}

/// What recordings in a folder end with.
const ENDING: &str = "sqlite";

/// Names of a side that are all told.
const FEW_NAMES: usize = 3;

impl Sides {
    /// From two words, or from the lists of both sides.
    pub fn of(words: &[String], before: &[String], after: &[String]) -> Result<Self, Failure> {
        match words {
            [] if !before.is_empty() && !after.is_empty() => {
                Ok(Self { before: side(before)?, after: side(after)? })
            }
            [] | [_] => Err(Failure::Usage(
                "compare what? give a recording before and one after, two folders of them, or programs: 'memwall compare \
                 --runs 10 -- ./old -- ./new'"
                    .to_owned(),
            )),
            [before, after] => Ok(Self {
                before: side(std::slice::from_ref(before))?,
                after: side(std::slice::from_ref(after))?,
            }),
            many => by_name(many),
        }
    }
}

/// More than two: a pattern that the shell resolved. Names that differ by their numbers alone are one side; two such are
/// what was meant, and it is said which.
fn by_name(words: &[String]) -> Result<Sides, Failure> {
    let mut groups: Vec<(String, Vec<PathBuf>)> = Vec::new();
    for word in words {
        let stem = without_numbers(word);
        match groups.iter_mut().find(|(known, _)| *known == stem) {
            Some((_, group)) => group.push(word.into()),
            None => groups.push((stem, vec![word.into()])),
        }
    }
    match <[_; 2]>::try_from(groups) {
        Ok([(_, before), (_, after)]) => {
            output::say(&format!("before: {}; after: {}", names(&before), names(&after)));
            Ok(Sides { before, after })
        }
        Err(_) => Err(Failure::Usage(format!(
            "{} recordings: which are before and which after? write --before {} … --after …, or give two folders",
            words.len(),
            words[0]
        ))),
    }
}

fn without_numbers(word: &str) -> String {
    word.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

/// All recordings that the words of one side name: files, folders, patterns, lists with commas.
fn side(words: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for word in words.iter().flat_map(|word| word.split(',')) {
        let path = Path::new(word);
        if path.is_dir() {
            found.extend(in_folder(path, |_| true, word)?);
        } else if !path.exists() && word.contains(['*', '?']) {
            found.extend(matching(word)?);
        } else {
            found.push(path.to_owned());
        }
    }
    Ok(found)
}

/// Recordings whose name matches the last part of the word.
fn matching(word: &str) -> Result<Vec<PathBuf>, Failure> {
    let path = Path::new(word);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let pattern: Vec<char> = path.file_name().unwrap_or_default().to_string_lossy().chars().collect();
    let fits = |name: &str| fits(&pattern, &name.chars().collect::<Vec<char>>());
    in_folder(folder.unwrap_or(Path::new(".")), fits, word)
}

/// `*` is any letters, `?` is one.
fn fits(pattern: &[char], name: &[char]) -> bool {
    match (pattern, name) {
        ([], name) => name.is_empty(),
        (['*', rest @ ..], name) => (0..=name.len()).any(|skipped| fits(rest, &name[skipped..])),
        (['?', rest @ ..], [_, name @ ..]) => fits(rest, name),
        ([letter, rest @ ..], [first, name @ ..]) => letter == first && fits(rest, name),
        (_, []) => false,
    }
}

fn in_folder(folder: &Path, is_wanted: impl Fn(&str) -> bool, word: &str) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(folder).map_err(|error| Failure::Usage(format!("{word}: {error}")))?;
    let mut found: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
        .filter(|path| path.file_name().is_some_and(|name| is_wanted(&name.to_string_lossy())))
        .collect();
    found.sort();
    if found.is_empty() {
        return Err(Failure::Usage(format!("{word}: no recording (*.{ENDING}) is there")));
    }
    Ok(found)
}

/// `a1.sqlite, a2.sqlite, a3.sqlite`; of many the first, the last and how many.
pub fn names(paths: &[PathBuf]) -> String {
    let name = |path: &PathBuf| path.display().to_string();
    match paths {
        [first, .., last] if paths.len() > FEW_NAMES => {
            format!("{} to {}, {} recordings", name(first), name(last), paths.len())
        }
        few => few.iter().map(name).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn counts(line: &str) -> Result<(usize, usize), Failure> {
        Sides::of(&words(line), &[], &[]).map(|sides| (sides.before.len(), sides.after.len()))
    }

    #[test]
    fn six_recordings_of_two_names_are_three_and_three() {
        assert_eq!(counts("a1.sqlite a2.sqlite a3.sqlite b1.sqlite b2.sqlite b3.sqlite").ok(), Some((3, 3)));
        assert_eq!(counts("a.sqlite b.sqlite").ok(), Some((1, 1)));
        assert_eq!(counts("a1.sqlite,a2.sqlite b.sqlite").ok(), Some((2, 1)));
        let lists = Sides::of(&[], &words("x y"), &words("z u v")).ok();
        assert_eq!(lists.map(|sides| (sides.before.len(), sides.after.len())), Some((2, 3)));
        for odd in ["a1.sqlite b1.sqlite c1.sqlite", "a1.sqlite a2.sqlite a3.sqlite", "a.sqlite", ""] {
            assert!(matches!(counts(odd), Err(Failure::Usage(_))), "{odd}");
        }
    }

    #[test]
    fn folders_and_patterns_name_the_recordings_in_them() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["a1.sqlite", "a2.sqlite", "b1.sqlite", "a.txt"] {
            fs::write(folder.path().join(name), "").expect("written");
        }
        let at = |name: &str| folder.path().join(name).display().to_string();
        let named = |word: String| side(&[word]).map(|found| found.len()).ok();
        assert_eq!(named(folder.path().display().to_string()), Some(3));
        assert_eq!(named(at("a*.sqlite")), Some(2));
        assert_eq!(named(at("?1*")), Some(2));
        assert_eq!(named(at("c*")), None);
    }

    #[test]
    fn many_names_are_told_by_the_ends() {
        let paths: Vec<PathBuf> = (1..=5).map(|index| format!("a{index}").into()).collect();
        assert_eq!(names(&paths[..2]), "a1, a2");
        assert_eq!(names(&paths), "a1 to a5, 5 recordings");
    }
}
