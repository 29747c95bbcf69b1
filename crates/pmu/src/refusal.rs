//! What a refused event means, and what would lift the refusal.

use std::{fs, path::Path};

use crate::Errno;

/// What an event asks of the kernel's permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Our own threads in user mode.
    User,
    /// Our own threads in every mode.
    Kernel,
    /// Everything on a CPU, as uncore events do.
    WholeCpu,
}

impl Need {
    /// The highest `kernel.perf_event_paranoid` that allows it to an ordinary user.
    pub fn level(self) -> i64 {
        match self {
            Self::User => 2,
            Self::Kernel => 1,
            Self::WholeCpu => 0,
        }
    }
}

/// Which step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// `perf_event_open`.
    Open,
    /// Mapping the ring or the control page.
    Map,
    /// Starting, stopping or reading it.
    Use,
}

/// A failed trial of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Where.
    pub step: NextStep,
    /// Why.
    pub errno: Errno,
}

impl Trouble {
    /// It could not be opened.
    pub fn open(errno: Errno) -> Self {
        Self { step: NextStep::Open, errno }
    }

    /// It could not be mapped.
    pub fn map(errno: Errno) -> Self {
        Self { step: NextStep::Map, errno }
    }

    /// It was open, and could not be used.
    pub fn using(errno: Errno) -> Self {
        Self { step: NextStep::Use, errno }
    }

    /// How much it tells: a permission says more than a shortage, and that more than a plain no.
    pub fn weight(self) -> u8 {
        match self.errno {
            errno if errno.is_permission() => 2,
            errno if errno.is_shortage() => 1,
            _ => 0,
        }
    }
}

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Something could lift it; else there is nothing behind the event here.
    pub is_blocked: bool,
    /// The errno and its meaning here.
    pub words: String,
    /// The command that lifts it.
    pub unlock_with: Option<String>,
}

impl Explanation {
    fn blocked(words: String, unlock_with: Option<&str>) -> Self {
        Self { is_blocked: true, words, unlock_with: unlock_with.map(str::to_owned) }
    }

    fn missing(words: String) -> Self {
        Self { is_blocked: false, words, unlock_with: None }
    }

    /// Words and command as one sentence.
    pub fn sentence(&self) -> String {
        match &self.unlock_with {
            Some(command) => format!("{}; try `{command}`", self.words),
            None => self.words.clone(),
        }
    }
}

/// Starts a container that may open events: its default filter lets `perf_event_open` through with this capability.
pub const CONTAINER: &str = "docker run --cap-add PERFMON IMAGE";

/// What stands between this process and the counters, as far as files tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// `kernel.perf_event_paranoid`; none on a kernel without perf events.
    pub paranoid_level: Option<i64>,
    /// KiB of ring a user may lock per CPU.
    pub ring_kib: i64,
    /// A seccomp filter judges our system calls.
    pub is_filtered: bool,
    /// What to run with more rights where nothing smaller helps.
    pub with_more_rights: String,
}

impl Surroundings {
    /// Reads what `root` has of `proc`.
    pub fn read(root: &Path, with_more_rights: &str) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let number = |path: &str| text(path)?.trim().parse().ok();
        let status = text("proc/self/status").unwrap_or_default();
        Self {
            paranoid_level: number("proc/sys/kernel/perf_event_paranoid"),
            ring_kib: number("proc/sys/kernel/perf_event_mlock_kb").unwrap_or(516),
            is_filtered: status
                .lines()
                .any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2")),
            with_more_rights: with_more_rights.to_owned(),
        }
    }

    /// What `trouble` with an event that needs `need` means here.
    pub fn explain(&self, trouble: Trouble, need: Need) -> Explanation {
        let errno = trouble.errno;
        let (blocked, missing) = (Explanation::blocked, Explanation::missing);
        match (trouble.step, errno.0) {
            (NextStep::Map, libc::EPERM) => self.locked_memory(),
            (_, libc::EACCES) => self.paranoid(errno, need),
            (_, libc::EPERM) if self.is_filtered => blocked(
                format!("{errno}: a seccomp filter (a container's) forbids perf_event_open, even to root"),
                Some(CONTAINER),
            ),
            (_, libc::EPERM) => blocked(format!("{errno}: not permitted"), Some(&self.with_more_rights)),
            (_, libc::ENOSYS) if self.paranoid_level.is_some() => blocked(
                format!("{errno}: the kernel has perf_event_open, a sandbox hides it"),
                Some(CONTAINER),
            ),
            (_, libc::ENOSYS) => missing(format!("{errno}: this kernel was built without perf events")),
            (_, libc::EMFILE) => {
                blocked(format!("{errno}: all file descriptors are taken"), Some("ulimit -n 4096"))
            }
            _ if errno.is_shortage() => blocked(format!("{errno}: all are in use by others"), None),
            (_, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
                missing(format!("{errno}: nothing behind it on this machine"))
            }
            _ => missing(format!("{errno}: the kernel refuses it")),
        }
    }

    fn paranoid(&self, errno: Errno, need: Need) -> Explanation {
        let wanted = need.level();
        match self.paranoid_level {
            Some(level) if level > wanted => Explanation::blocked(
                format!("{errno}: kernel.perf_event_paranoid is {level}, this needs {wanted} or less"),
                Some(&format!("sudo sysctl kernel.perf_event_paranoid={wanted}")),
            ),
            Some(level) => Explanation::blocked(
                format!("{errno}, although kernel.perf_event_paranoid is {level}: a security module refuses"),
                None,
            ),
            None => Explanation::blocked(format!("{errno}: not permitted"), Some(&self.with_more_rights)),
        }
    }

    fn locked_memory(&self) -> Explanation {
        let limit = self.ring_kib;
        Explanation::blocked(
            format!("EPERM: the ring would lock more than the {limit} KiB a user may lock"),
            Some(&format!("sudo sysctl kernel.perf_event_mlock_kb={}", limit.saturating_mul(2))),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_with_what_to_do() {
        let here = Surroundings {
            paranoid_level: Some(2),
            ring_kib: 516,
            is_filtered: false,
            with_more_rights: "sudo memwall count".into(),
        };
        let sentence = |errno| here.explain(Trouble::open(Errno(errno)), Need::WholeCpu).sentence();
        assert_eq!(
            sentence(libc::EACCES),
            "EACCES: kernel.perf_event_paranoid is 2, this needs 0 or less; try `sudo sysctl \
             kernel.perf_event_paranoid=0`"
        );
        assert_eq!(sentence(libc::EPERM), "EPERM: not permitted; try `sudo memwall count`");
        assert_eq!(sentence(libc::ENODEV), "ENODEV: nothing behind it on this machine");
    }

    #[test]
    fn files_say_what_stands_in_the_way() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/status"), "Name:\tx\nSeccomp:\t2\n").unwrap();
        let here = Surroundings::read(root.path(), "sudo memwall count");
        assert_eq!((here.paranoid_level, here.ring_kib, here.is_filtered), (None, 516, true));
    }
}
