//! Names of code that a running program wrote itself (JIT), as it lists them in `/tmp/perf-PID.map`.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::ops::Range;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use machine::regular;

use crate::error::ImageError;

/// More than any program wrote so far; the rest of a longer file is not read.
const READ_LIMIT_BYTES: u64 = 256 << 20;

/// Whose files are believed everywhere.
const SUPERUSER: u32 = 0;

/// The names of generated code by address. Where entries overlap, the later line of the file holds: code space is
/// reused.
#[derive(Debug, Default, Clone)]
pub struct PerfMap {
    /// By start: the end and the name. Ranges do not overlap.
    entries: BTreeMap<u64, (u64, Box<str>)>,
    skipped_lines: usize,
}

impl PerfMap {
    /// Where process `pid` lists its generated code, in the file system tree under `root`.
    #[must_use]
    pub fn path(root: &Path, pid: u32) -> PathBuf {
        root.join(format!("tmp/perf-{pid}.map"))
    }

    /// Reads the list of process `pid`. A process that generates no code has none: `Ok(None)`.
    ///
    /// Anyone may put a file there, before the process is started even: it must be of the superuser, of ourselves or of
    /// the user of the process, and no link to what we alone may read.
    pub fn open(root: &Path, pid: u32) -> Result<Option<Self>, ImageError> {
        let path = Self::path(root, pid);
        let file = match regular::open_unlinked(&path) {
            Ok(file) => file,
            Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(source) if regular::is_not_regular(&source) => return Err(ImageError::NotRegular { path }),
            Err(source) => return Err(ImageError::Unreadable { path, source }),
        };
        let owner = match file.metadata() {
            Ok(metadata) => metadata.uid(),
            Err(source) => return Err(ImageError::Unreadable { path, source }),
        };
        let of_process =
            || root.join(format!("proc/{pid}")).metadata().is_ok_and(|found| found.uid() == owner);
        if owner != SUPERUSER && owner != rustix::process::geteuid().as_raw() && !of_process() {
            return Err(ImageError::OtherOwner { path, owner });
        }
        let mut bytes = Vec::new();
        match file.take(READ_LIMIT_BYTES).read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(Self::parse(&bytes))),
            Err(source) => Err(ImageError::Unreadable { path, source }),
        }
    }

    /// Reads `START SIZE NAME` lines, numbers in hexadecimal. Lines that are something else are counted and skipped.
    ///
    /// ```
    /// let map = symbols::PerfMap::parse(b"7f00 20 LazyCompile:*walk list.js:3\ngarbage\n");
    /// assert_eq!(map.at(0x7f10), Some((0x7f00..0x7f20, "LazyCompile:*walk list.js:3")));
    /// assert_eq!(map.skipped_lines(), 1);
    /// ```
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let mut map = Self::default();
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            match parse_line(&String::from_utf8_lossy(line)) {
                Some((range, name)) => map.insert(range, name),
                None => map.skipped_lines += 1,
            }
        }
        map
    }

    /// Names a range; an empty one is left out.
    pub(crate) fn add(&mut self, range: Range<u64>, name: Box<str>) {
        if range.start < range.end {
            self.insert(range, name);
        }
    }

    fn insert(&mut self, range: Range<u64>, name: Box<str>) {
        // Ranges do not overlap, so those that reach into the new one are neighbours from its end downwards.
        while let Some((&start, (end, _))) = self.entries.range(..range.end).next_back()
            && *end > range.start
        {
            let Some((old_end, old_name)) = self.entries.remove(&start) else { break };
            if old_end > range.end {
                self.entries.insert(range.end, (old_end, old_name.clone()));
            }
            if start < range.start {
                self.entries.insert(start, (range.start, old_name));
            }
        }
        self.entries.insert(range.start, (range.end, name));
    }

    /// The range and name of the generated code at this address.
    #[must_use]
    pub fn at(&self, address: u64) -> Option<(Range<u64>, &str)> {
        let (&start, (end, name)) = self.entries.range(..=address).next_back()?;
        (address < *end).then_some((start..*end, &**name))
    }

    /// How many lines made no sense.
    #[must_use]
    pub fn skipped_lines(&self) -> usize {
        self.skipped_lines
    }

    /// How many ranges are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn parse_line(line: &str) -> Option<(Range<u64>, Box<str>)> {
    let mut fields = line.trim().splitn(3, ' ');
    let mut number = || {
        let field = fields.next()?;
        u64::from_str_radix(field.strip_prefix("0x").unwrap_or(field), 16).ok()
    };
    let (start, size) = (number()?, number()?);
    let name = fields.next()?.trim();
    if size == 0 || name.is_empty() {
        return None;
    }
    Some((start..start.checked_add(size)?, name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(map: &PerfMap, address: u64) -> Option<&str> {
        map.at(address).map(|(_, name)| name)
    }

    #[test]
    fn reused_space_has_the_later_name() {
        let map = PerfMap::parse(b"100 100 old\n140 10 new\n1f0 20 tail\n");
        assert_eq!(name(&map, 0x13f), Some("old"));
        assert_eq!(name(&map, 0x140), Some("new"));
        assert_eq!(name(&map, 0x150), Some("old"));
        assert_eq!(name(&map, 0x1f0), Some("tail"));
        assert_eq!(name(&map, 0x210), None);
        assert_eq!(name(&map, 0xff), None);
    }

    #[test]
    fn a_map_is_read_under_its_root() {
        let root = tempfile::tempdir().expect("a directory");
        assert!(PerfMap::open(root.path(), 42).expect("absence is no error").is_none());
        std::fs::create_dir(root.path().join("tmp")).expect("a directory");
        std::fs::write(PerfMap::path(root.path(), 42), b"0x10 0x10 a b\n\xff").expect("a file");
        let map = PerfMap::open(root.path(), 42).expect("readable").expect("present");
        assert_eq!(name(&map, 0x1f), Some("a b"));
        assert_eq!(map.skipped_lines(), 1);
        std::fs::create_dir(PerfMap::path(root.path(), 43)).expect("a directory");
        assert!(matches!(PerfMap::open(root.path(), 43), Err(ImageError::NotRegular { .. })));
        std::os::unix::fs::symlink(PerfMap::path(root.path(), 42), PerfMap::path(root.path(), 44))
            .expect("a link");
        assert!(matches!(PerfMap::open(root.path(), 44), Err(ImageError::NotRegular { .. })));
    }

    #[test]
    fn a_map_of_another_user_is_believed_of_their_own_processes() {
        const OTHER: u32 = 65_534;
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("tmp")).expect("a directory");
        let path = PerfMap::path(root.path(), 42);
        std::fs::write(&path, b"0x10 0x10 a\n").expect("a file");
        if std::os::unix::fs::chown(&path, Some(OTHER), None).is_err() {
            prerequisites::skip(prerequisites::Need::Root, "files cannot be given away");
            return;
        }
        assert!(matches!(PerfMap::open(root.path(), 42), Err(ImageError::OtherOwner { owner: OTHER, .. })));
        let process = root.path().join("proc/42");
        std::fs::create_dir_all(&process).expect("a directory");
        assert!(PerfMap::open(root.path(), 42).is_err(), "our process");
        std::os::unix::fs::chown(&process, Some(OTHER), None).expect("given away");
        assert!(PerfMap::open(root.path(), 42).expect("readable").is_some());
    }

    proptest! {
        /// Against painting every address in file order.
        #[test]
        fn lookups_agree_with_painting(lines in prop::collection::vec((0usize..200, 1usize..60), 0..30)) {
            let mut painted = [None; 300];
            let mut text = String::new();
            for (index, (start, size)) in lines.iter().enumerate() {
                text.push_str(&format!("{start:x} {size:x} f{index}\n"));
                painted[*start..start + size].fill(Some(index));
            }
            let map = PerfMap::parse(text.as_bytes());
            for (address, owner) in painted.iter().enumerate() {
                let expected = owner.map(|index| format!("f{index}"));
                prop_assert_eq!(name(&map, address as u64), expected.as_deref());
            }
        }

        #[test]
        fn garbage_is_skipped(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let map = PerfMap::parse(&bytes);
            prop_assert!(map.len() <= 300);
        }
    }
}
