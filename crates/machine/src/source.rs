//! Where the machine is read from: a root path for sysfs and procfs, and a CPUID source.
//!
//! Each file gives its value or a [`ReadError`] that names it; nothing here fails as a whole. No file is read
//! beyond a fixed length, and nothing but regular files is opened for reading, so that a broken or hostile tree
//! costs neither memory nor a hang.

use std::{
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use crate::{cpuid::Cpuid, letters, regular, topology::Gap};

/// Sysfs attributes are at most a page, lists of CPUs a few.
const ATTRIBUTE_BYTES: usize = 16 << 10;
/// Procfs tables; `/proc/cpuinfo` takes about 1.5 KiB for each CPU.
const TABLE_BYTES: usize = 4 << 20;
/// Directory entries looked at; a CPU or node directory has far fewer.
const ENTRIES: usize = 1 << 16;
/// How much of odd content is shown.
const EXCERPT_CHARS: usize = 40;

/// A machine to read: this one, or the files captured from another.
///
/// ```
/// let machine = machine::Topology::read(&machine::Source::live());
/// assert!(!machine.cpus.is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Source {
    root: PathBuf,
    live: bool,
}

/// Why a file gave nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It is not there.
    #[error("{path}: missing")]
    Missing {
        /// The file, as the machine itself would name it.
        path: String,
    },
    /// It is there and cannot be read.
    #[error("{path}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        path: String,
        /// What the system said.
        why: String,
    },
    /// It holds something else than expected.
    #[error("{path}: holds {read}, not {wanted}")]
    Odd {
        /// The file.
        path: String,
        /// The beginning of what was read.
        read: String,
        /// What should have been there.
        wanted: String,
    },
}

impl ReadError {
    /// Content that is not what was expected, cut to a length that can be shown.
    pub fn odd(path: &str, read: &str, wanted: &str) -> Self {
        Self::Odd { path: absolute(path), read: excerpt(read), wanted: wanted.to_owned() }
    }

    /// Whether the file is simply not there, which is normal for many.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }
}

impl From<ReadError> for Gap {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Missing { path } => Self { what: path, why: "missing".into() },
            ReadError::Unreadable { path, why } => Self { what: path, why: format!("cannot be read: {why}") },
            ReadError::Odd { path, read, wanted } => {
                Self { what: path, why: format!("holds {read}, not {wanted}") }
            }
        }
    }
}

/// A text file, possibly only its beginning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuidTable {
    /// Whole lines.
    pub text: String,
    /// Set if the file went on beyond what is read of any file.
    pub cut: Option<Gap>,
}

impl Source {
    /// This machine: `/`, and CPUID of the CPU we run on.
    pub fn live() -> Self {
        Self { root: PathBuf::from("/"), live: true }
    }

    /// The machine whose `sys` and `proc` were copied under `root`. CPUID comes from `root/cpuid.txt` if that
    /// exists; [`Cpuid::parse`] says what it holds.
    pub fn under(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), live: false }
    }

    /// Whether this is the machine we run on.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The root path.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// CPUID, or why there is none. The second value lists lines of a dump that could not be used.
    pub fn cpuid(&self) -> (Option<Cpuid>, Vec<Gap>) {
        if self.live {
            return match Cpuid::native() {
                Some(cpuid) => (Some(cpuid), Vec::new()),
                None => (None, Vec::new()),
            };
        }
        match self.table("cpuid.txt") {
            Ok(table) => {
                let (cpuid, mut gaps) = Cpuid::parse(&table.text);
                gaps.extend(table.cut);
                (cpuid, gaps)
            }
            Err(error) => (None, vec![error.into()]),
        }
    }

    /// The kernel's release, such as `6.1.0-18-amd64`.
    pub fn kernel_release(&self) -> Result<String, ReadError> {
        if self.live {
            return Ok(clean(&rustix::system::uname().release().to_string_lossy()));
        }
        self.value("proc/sys/kernel/osrelease", "a kernel release", name)
    }

    /// The content of a small file, trimmed. `path` is relative to the root.
    pub fn attribute(&self, path: &str) -> Result<String, ReadError> {
        let bytes = self.bytes(path, ATTRIBUTE_BYTES)?;
        if bytes.len() > ATTRIBUTE_BYTES {
            let start = String::from_utf8_lossy(&bytes[..EXCERPT_CHARS]).into_owned();
            return Err(ReadError::odd(path, &start, "a short text"));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Ok(text.trim().to_owned()),
            Err(error) => {
                Err(ReadError::odd(path, &String::from_utf8_lossy(error.as_bytes()), "readable text"))
            }
        }
    }

    /// What `parse` makes of a small file; `wanted` says what it should have held.
    pub fn value<T>(
        &self,
        path: &str,
        wanted: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        let text = self.attribute(path)?;
        parse(&text).ok_or_else(|| ReadError::odd(path, &text, wanted))
    }

    /// A longer text such as `proc/cpuinfo`, up to a length far beyond any real one.
    pub fn table(&self, path: &str) -> Result<CpuidTable, ReadError> {
        let mut bytes = self.bytes(path, TABLE_BYTES)?;
        let cut = (bytes.len() > TABLE_BYTES).then(|| {
            let whole_lines = bytes.iter().rposition(|&byte| byte == b'\n').unwrap_or(TABLE_BYTES);
            bytes.truncate(whole_lines);
            let why = format!("longer than {}; the rest was not read", crate::Bytes(TABLE_BYTES as u64));
            Gap { what: absolute(path), why }
        });
        Ok(CpuidTable { text: String::from_utf8_lossy(&bytes).into_owned(), cut })
    }

    /// The names in a directory, sorted.
    pub fn entries(&self, path: &str) -> Result<Vec<String>, ReadError> {
        let directory = std::fs::read_dir(self.root.join(path)).map_err(|error| failed(path, &error))?;
        let mut names: Vec<_> =
            directory.take(ENTRIES).filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        Ok(names)
    }

    /// The numbers `n` of entries called `prefix` followed by `n`, ascending.
    pub fn numbered(&self, path: &str, prefix: &str) -> Result<Vec<u32>, ReadError> {
        let names = self.entries(path)?;
        let mut numbers: Vec<u32> =
            names.iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Whether the path exists, as far as we may see.
    pub fn exists(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Up to one byte more than `limit`, so that the caller sees whether there was more.
    fn bytes(&self, path: &str, limit: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        regular::open(&self.root.join(path))
            .and_then(|file| file.take(limit as u64 + 1).read_to_end(&mut bytes))
            .map_err(|error| failed(path, &error))?;
        Ok(bytes)
    }
}

fn failed(path: &str, error: &std::io::Error) -> ReadError {
    if error.kind() == ErrorKind::NotFound {
        return ReadError::Missing { path: absolute(path) };
    }
    let text = error.to_string();
    let why = text.split(" (os error").next().unwrap_or_default().to_owned();
    ReadError::Unreadable { path: absolute(path), why }
}

/// How the machine itself names a path that is relative to the root.
fn absolute(path: &str) -> String {
    format!("/{}", path.trim_start_matches('/'))
}

/// The beginning of `text` in quotes, safe to print.
fn excerpt(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() {
        return "nothing".into();
    }
    let mut shown: String = text.chars().take(EXCERPT_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("'{}'", clean(&shown))
}

/// `text` with runs of white space as one space and control characters made visible: names from firmware go to
/// a terminal later.
pub(crate) fn clean(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    letters::visible(&words.join(" "))
}

/// A name that is not empty and not absurdly long.
pub(crate) fn name(text: &str) -> Option<String> {
    let cleaned = clean(text);
    (!cleaned.is_empty() && cleaned.len() <= 256).then_some(cleaned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_content_is_shown_short_and_printable() {
        let error = ReadError::odd("sys/x", &"\u{1b}[31m".repeat(100), "a number");
        let text = error.to_string();
        assert!(text.starts_with("/sys/x: holds '"), "{text}");
        assert!(text.chars().count() < 90 && !text.contains('\u{1b}'), "{text}");
        assert!(ReadError::odd("sys/x", " \n", "a number").to_string().contains("holds nothing"));
    }

    #[test]
    fn long_files_are_cut_at_a_line() {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::write(root.path().join("long"), "0123456789abcde\n".repeat(1 << 19)).expect("a file");
        let source = Source::under(root.path());
        let table = source.table("long").expect("readable");
        assert!(table.text.len() <= TABLE_BYTES && table.text.ends_with("abcde"));
        assert!(table.cut.is_some_and(|gap| gap.why.contains("4 MiB")));
        assert!(matches!(source.attribute("long"), Err(ReadError::Odd { .. })));
    }

    #[test]
    fn pipes_and_directories_are_not_read() {
        let root = tempfile::tempdir().expect("a temporary directory");
        std::fs::create_dir(root.path().join("directory")).expect("a directory");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .expect("a pipe");
        std::os::unix::fs::symlink("loop", root.path().join("loop")).expect("a link");
        let source = Source::under(root.path());
        for path in ["directory", "pipe", "loop"] {
            assert!(matches!(source.attribute(path), Err(ReadError::Unreadable { .. })), "{path}");
        }
        assert!(source.attribute("none").is_err_and(|error| error.is_missing()));
    }
}
