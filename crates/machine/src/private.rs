//! Files and folders of this user alone, whatever the umask says: profiles, recordings and what is loaded into
//! programs must not be changed by others, and the arguments in a recording may hold passwords.

use std::{
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
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
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        create_folders(above)?;
    }
    match DirBuilder::new().mode(FOLDER_MODE).create(path) {
        // A umask takes rights away from whoever sets it, too.
        Ok(()) => fs::set_permissions(path, folder_permissions()),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes a file that is not there, with its mode whatever the umask says; `options` say what for.
fn made(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// The same, or opens the one that is there, which keeps its mode.
fn made_or_opened(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    match made(options, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            options.create_new(false).create(true).open(path)
        }
        done => done,
    }
}

/// Opens a file to be written from its beginning. One that is there keeps its mode.
pub fn create_file(path: &Path) -> io::Result<File> {
    made_or_opened(OpenOptions::new().write(true).truncate(true), path)
}

/// The same of a file that must not be there yet, nor a link in its place.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    made(OpenOptions::new().write(true), path)
}

/// Opens a file to be read and written, made if it is not there; else like [`open_own_file`].
pub fn make_own_file(path: &Path) -> io::Result<File> {
    made(OpenOptions::new().read(true).write(true), path).or_else(|error| match error.kind() {
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
    made_or_opened(OpenOptions::new().append(true), path)
}
