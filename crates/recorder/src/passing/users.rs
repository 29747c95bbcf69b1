//! Which processes may still load a library.

use std::{fs, io, os::unix::ffi::OsStrExt as _, path::Path};

use crate::procfs;

/// Numbers of the processes that have something in `folder` mapped, or hand its name on to what they start. Those that we
/// may not look into count too, if they are ours and began after the folder.
pub(super) fn of(folder: &Path, since_s: u64) -> Vec<u32> {
    let name = folder.as_os_str().as_bytes();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| uses(*pid, name, since_s)).collect()
}

fn uses(pid: u32, name: &[u8], since_s: u64) -> bool {
    let names_it = |file: &str| -> io::Result<bool> {
        let bytes = fs::read(format!("/proc/{pid}/{file}"))?;
        Ok(bytes.windows(name.len()).any(|window| window == name))
    };
    match (names_it("environ"), names_it("maps")) {
        (Ok(false), Ok(false)) => false,
        (Ok(true), _) | (_, Ok(true)) => true,
        (Err(error), _) | (_, Err(error)) => {
            error.kind() == io::ErrorKind::PermissionDenied && is_ours(pid) && began_s(pid) >= Some(since_s)
        }
    }
}

fn is_ours(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    procfs::real_user(&status) == Some(rustix::process::getuid().as_raw())
}

/// Whole seconds since boot.
fn began_s(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(procfs::began_ticks(&stat)? / rustix::param::clock_ticks_per_second().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_names_a_folder_uses_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").env("LD_PRELOAD_NOT", folder.path().join("lib.so")).spawn().unwrap();
        // In the middle of an exec there is no environment for a moment.
        let environment = format!("/proc/{}/environ", child.id());
        let began = std::time::Instant::now();
        while fs::read(&environment).is_ok_and(|bytes| bytes.is_empty()) && began.elapsed().as_secs() < 30 {
            std::thread::yield_now();
        }
        let users = of(folder.path(), u64::MAX);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(users, [child.id()]);
        assert!(of(folder.path(), u64::MAX).is_empty());
        assert!(began_s(std::process::id()) > Some(0) && is_ours(std::process::id()));
        assert_eq!((began_s(u32::MAX), is_ours(u32::MAX)), (None, false));
    }
}
