//! Telling whether a file is still the one that ran.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

use object::Object as _;

/// What was known of a file when it was mapped. Whatever is known is compared; the build id, where both sides have
/// one, decides alone, since a copy of the same build is as good as the original.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Identity {
    /// The build id, as written by the linker.
    pub build_id: Option<Vec<u8>>,
    /// What the file system said.
    pub stamp: Option<FileStamp>,
}

/// What the file system says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStamp {
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time of the last change of its contents, since 1970.
    pub modified_ns: i128,
}

impl FileStamp {
    /// The stamp of a file that was looked up.
    #[must_use]
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.size(),
            modified_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }
}

impl Identity {
    /// Whether `now` can be the same contents as `self`. Nothing known on either side: it can.
    #[must_use]
    pub fn matches(&self, now: &Self) -> bool {
        match (&self.build_id, &now.build_id) {
            (Some(then), Some(now)) => return then == now,
            (Some(_), None) => return false,
            (None, _) => {}
        }
        match (&self.stamp, &now.stamp) {
            (Some(then), Some(now)) => then == now,
            _ => true,
        }
    }

    /// The build id in hexadecimal digits, as other tools print it.
    #[must_use]
    pub fn build_id_hex(&self) -> Option<String> {
        self.build_id.as_deref().map(hex)
    }
}

/// The build id in an ELF file, if it has one.
#[must_use]
pub fn build_id(bytes: &[u8]) -> Option<Vec<u8>> {
    let file = object::File::parse(bytes).ok()?;
    file.build_id().ok().flatten().filter(|id| !id.is_empty()).map(<[u8]>::to_vec)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(inode: u64) -> FileStamp {
        FileStamp { device: 1, inode, size_bytes: 10, modified_ns: 5 }
    }

    #[test]
    fn the_build_id_decides_where_both_have_one() {
        let then = Identity { build_id: Some(vec![1, 2]), stamp: Some(stamp(1)) };
        assert!(then.matches(&Identity { build_id: Some(vec![1, 2]), stamp: Some(stamp(2)) }));
        assert!(!then.matches(&Identity { build_id: Some(vec![1, 3]), stamp: Some(stamp(1)) }));
        assert!(!then.matches(&Identity { build_id: None, stamp: Some(stamp(1)) }));
    }

    #[test]
    fn the_stamp_decides_without_a_build_id() {
        let then = Identity { build_id: None, stamp: Some(stamp(1)) };
        assert!(then.matches(&Identity { build_id: Some(vec![9]), stamp: Some(stamp(1)) }));
        assert!(!then.matches(&Identity { build_id: Some(vec![9]), stamp: Some(stamp(2)) }));
        assert!(Identity::default().matches(&then));
    }

    #[test]
    fn a_build_id_prints_as_hexadecimal() {
        let identity = Identity { build_id: Some(vec![0x0a, 0xff]), stamp: None };
        assert_eq!(identity.build_id_hex().as_deref(), Some("0aff"));
        assert_eq!(Identity::default().build_id_hex(), None);
    }
}
