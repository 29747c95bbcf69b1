//! Error numbers that keep their names.

use std::{fmt, io};

/// Why a system call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

/// The numbers perf_event, sysfs, procfs, MSRs and resctrl answer with.
const NAMES: &[(i32, &str)] = &[
    (libc::EPERM, "EPERM"),
    (libc::ENOENT, "ENOENT"),
    (libc::EINTR, "EINTR"),
    (libc::EIO, "EIO"),
    (libc::ENXIO, "ENXIO"),
    (libc::E2BIG, "E2BIG"),
    (libc::EBADF, "EBADF"),
    (libc::EAGAIN, "EAGAIN"),
    (libc::ENOMEM, "ENOMEM"),
    (libc::EACCES, "EACCES"),
    (libc::EFAULT, "EFAULT"),
    (libc::EBUSY, "EBUSY"),
    (libc::EEXIST, "EEXIST"),
    (libc::ENODEV, "ENODEV"),
    (libc::ENOTDIR, "ENOTDIR"),
    (libc::EISDIR, "EISDIR"),
    (libc::EINVAL, "EINVAL"),
    (libc::ENFILE, "ENFILE"),
    (libc::EMFILE, "EMFILE"),
    (libc::ENOSPC, "ENOSPC"),
    (libc::EROFS, "EROFS"),
    (libc::ERANGE, "ERANGE"),
    (libc::ENOSYS, "ENOSYS"),
    (libc::ENODATA, "ENODATA"),
    (libc::EOVERFLOW, "EOVERFLOW"),
    (libc::EOPNOTSUPP, "EOPNOTSUPP"),
    (libc::ESRCH, "ESRCH"),
];

impl Errno {
    /// The error of the system call this thread made last.
    pub fn last() -> Self {
        io::Error::last_os_error().into()
    }

    /// The symbolic name, such as `EACCES`.
    ///
    /// ```
    /// assert_eq!(pmu::Errno(13).name(), Some("EACCES"));
    /// assert_eq!(pmu::Errno(9999).name(), None);
    /// ```
    pub fn name(self) -> Option<&'static str> {
        NAMES.iter().find(|(number, _)| *number == self.0).map(|(_, name)| *name)
    }

    /// A permission, not the hardware, is in the way.
    pub fn is_permission(self) -> bool {
        matches!(self.0, libc::EACCES | libc::EPERM | libc::EROFS)
    }

    /// A limit or another user is in the way: it could work at another time.
    pub fn is_shortage(self) -> bool {
        matches!(
            self.0,
            libc::EMFILE | libc::ENFILE | libc::ENOSPC | libc::EBUSY | libc::EAGAIN | libc::ENOMEM
        )
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.pad(name),
            None => f.pad(&format!("errno {}", self.0)),
        }
    }
}

impl std::error::Error for Errno {}

impl From<io::Error> for Errno {
    /// An error without a number (a short read, say) becomes `EIO`.
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<rustix::io::Errno> for Errno {
    fn from(error: rustix::io::Errno) -> Self {
        Self(error.raw_os_error())
    }
}
