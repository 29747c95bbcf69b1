//! Where the library lies.

use std::{fs, io, os::unix::fs::MetadataExt as _, path::Path};

use rustix::fs::StatVfsMountFlags;

use crate::passing::{self, PassingFolder, PassingUse};

/// A folder that programs may be loaded from, with a name that `LD_PRELOAD` can hold.
pub(super) fn make() -> io::Result<PassingFolder> {
    let is_fit = |place: &Path| {
        let text = place.as_os_str().as_encoded_bytes();
        let name_fits = text.first() == Some(&b'/') && !text.iter().any(|byte| b": $".contains(byte));
        let flags = rustix::fs::statvfs(place).map(|about| about.f_flag);
        let may_load = flags.is_ok_and(|flags| !flags.contains(StatVfsMountFlags::NOEXEC));
        name_fits && may_load && nobody_else_can_move(place)
    };
    let mut trouble = io::Error::other("no folder for temporary files from which programs may be loaded");
    for place in passing::places().iter().filter(|place| is_fit(place)) {
        match PassingFolder::make_in(place, PassingUse::Library) {
            Ok(folder) => return Ok(folder),
            Err(error) => trouble = error,
        }
    }
    Err(trouble)
}

/// Whether no other user but root can put something else in the place of what is in a folder: it and all folders above
/// it belong to us or root, and where others may write, they may not remove what is not theirs.
pub(crate) fn nobody_else_can_move(folder: &Path) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    const STICKY: u32 = 0o1000;
    let us = rustix::process::geteuid().as_raw();
    let Ok(folder) = folder.canonicalize() else { return false };
    folder.ancestors().all(|folder| {
        fs::metadata(folder).is_ok_and(|about| {
            let is_guarded = about.mode() & OTHERS_WRITE == 0 || about.mode() & STICKY != 0;
            is_guarded && [0, us].contains(&about.uid())
        })
    })
}
