//! Files and folders of this user alone, whatever the umask says: profiles, recordings and what is loaded into
//! programs must not be changed by others, and the arguments in a recording may hold passwords.

use std::{
    fs::{DirBuilder, File, OpenOptions, Permissions},
    io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Reading and writing, for the owner.
pub const FILE_MODE: u32 = 0o600;

/// Everything, for the owner.
pub const FOLDER_MODE: u32 = 0o700;

/// [`FOLDER_MODE`], for builders that want permissions.
pub fn folder_permissions() -> Permissions {
    Permissions::from_mode(FOLDER_MODE)
}

/// Makes a folder and those above it that are missing.
pub fn create_folders(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
}

/// Opens a file to be written from its beginning. One that is there keeps its mode.
pub fn create_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(FILE_MODE).open(path)
}

/// The same of a file that must not be there yet, nor a link in its place.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Opens a file to be read and written, made if it is not there; else like [`open_own_file`].
pub fn make_own_file(path: &Path) -> io::Result<File> {
    let made = OpenOptions::new().read(true).write(true).create_new(true).mode(FILE_MODE).open(path);
    made.or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => open_own_file(path),
        _ => Err(error),
    })
}

/// Opens a file to be read and written that must be ours and not a link, and becomes ours alone.
pub fn open_own_file(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(path)?;
    if file.metadata()?.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Opens a file to be written behind its end.
pub fn append_to_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(FILE_MODE).open(path)
}
