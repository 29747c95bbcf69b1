//! Finding the file into which a distribution or `objcopy` moved the symbols and debug information.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use object::Object as _;

use crate::contents::Contents;
use crate::identity::{build_id, hex};

/// A separate file with symbols and debug information.
#[derive(Debug, Clone)]
pub(crate) struct DebugFile {
    pub contents: Arc<Contents>,
    pub path: PathBuf,
}

/// The debug file of an image: by build id under `root`, then by the name that the image gives, beside the image and
/// under `root`. A file that does not fit the image is passed over.
pub(crate) fn find(file: &object::File<'_>, image_path: Option<&Path>, root: &Path) -> Option<DebugFile> {
    let id = file.build_id().ok().flatten().filter(|id| id.len() > 1);
    by_build_id(id, root).or_else(|| by_link(file, id, image_path, root))
}

fn by_build_id(id: Option<&[u8]>, root: &Path) -> Option<DebugFile> {
    let (first, rest) = id?.split_first()?;
    let path = root.join(format!(".build-id/{first:02x}/{}.debug", hex(rest)));
    open(path, |bytes| build_id(bytes).as_deref() == id)
}

fn by_link(
    file: &object::File<'_>,
    id: Option<&[u8]>,
    image_path: Option<&Path>,
    root: &Path,
) -> Option<DebugFile> {
    let (name, checksum) = file.gnu_debuglink().ok()??;
    let name = Path::new(OsStr::from_bytes(name));
    // The link is a bare name; anything else would lead out of the directories searched.
    if name.file_name() != Some(name.as_os_str()) {
        return None;
    }
    let real = std::fs::canonicalize(image_path?).ok()?;
    let directory = real.parent()?;
    let mirrored = root.join(directory.strip_prefix("/").unwrap_or(directory));
    let places = [directory.join(name), directory.join(".debug").join(name), mirrored.join(name)];
    places.into_iter().filter(|place| *place != real).find_map(|place| {
        open(place, |bytes| match (id, build_id(bytes)) {
            (Some(id), Some(found)) => found == id,
            _ => crc32fast::hash(bytes) == checksum,
        })
    })
}

/// The file with what several debug files share (`.gnu_debugaltlink`).
pub(crate) fn supplement(file: &object::File<'_>, file_path: Option<&Path>) -> Option<DebugFile> {
    let (name, id) = file.gnu_debugaltlink().ok()??;
    let path = file_path?.parent()?.join(OsStr::from_bytes(name));
    open(path, |bytes| build_id(bytes).as_deref() == Some(id))
}

fn open(path: PathBuf, fits: impl Fn(&[u8]) -> bool) -> Option<DebugFile> {
    let (contents, _) = Contents::open(&path).ok()?;
    (fits(&contents) && object::File::parse(&*contents).is_ok())
        .then(|| DebugFile { contents: Arc::new(contents), path })
}
