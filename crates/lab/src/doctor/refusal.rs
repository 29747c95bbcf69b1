//! What a refused event means, and what would lift the refusal.

use pmu::Errno;
use record::doctor::{Capability, State};

use super::{Patient, row::Subject};

/// What an event asks of the kernel's permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
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
pub(super) enum Step {
    /// `perf_event_open`.
    Open,
    /// Mapping the ring or the control page.
    Map,
    /// Starting, stopping or reading it.
    Use,
}

/// A failed trial of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    /// Where.
    pub step: Step,
    /// Why.
    pub errno: Errno,
}

impl Trouble {
    pub fn open(errno: Errno) -> Self {
        Self { step: Step::Open, errno }
    }

    pub fn map(errno: Errno) -> Self {
        Self { step: Step::Map, errno }
    }

    pub fn using(errno: Errno) -> Self {
        Self { step: Step::Use, errno }
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
pub(super) struct Refusal {
    /// Missing or blocked.
    pub state: State,
    /// The errno and its meaning here.
    pub words: String,
    /// The command that lifts it.
    pub unlock_with: Option<String>,
}

impl Refusal {
    fn blocked(words: String, unlock_with: Option<&str>) -> Self {
        Self { state: State::Blocked, words, unlock_with: unlock_with.map(str::to_owned) }
    }

    /// The row this refusal makes.
    pub fn row(self, subject: &Subject) -> Capability {
        match self.state {
            State::Blocked => subject.blocked(self.words, self.unlock_with),
            State::Missing | State::Found => subject.missing(self.words),
        }
    }
}

/// Starts a container that may open events: its default filter lets `perf_event_open` through with this capability.
const CONTAINER: &str = "docker run --cap-add PERFMON IMAGE";

impl Patient<'_> {
    /// What `trouble` with an event means on this machine.
    pub(super) fn refusal(&self, trouble: Trouble, need: Need) -> Refusal {
        let errno = trouble.errno;
        match (trouble.step, errno.0) {
            (Step::Map, libc::EPERM) => self.locked_memory(),
            (_, libc::EACCES) => self.paranoid(errno, need),
            (_, libc::EPERM) if self.is_filtered() => Refusal::blocked(
                format!("{errno}: a seccomp filter (a container's) forbids perf_event_open, even to root"),
                Some(CONTAINER),
            ),
            (_, libc::EPERM) => {
                Refusal::blocked(format!("{errno}: not permitted"), Some("sudo memwall doctor"))
            }
            (_, libc::ENOSYS) if self.paranoid_level().is_some() => Refusal::blocked(
                format!("{errno}: the kernel has perf_event_open, a sandbox hides it"),
                Some(CONTAINER),
            ),
            (_, libc::ENOSYS) => missing(format!("{errno}: this kernel was built without perf events")),
            (_, libc::EMFILE) => {
                Refusal::blocked(format!("{errno}: all file descriptors are taken"), Some("ulimit -n 4096"))
            }
            _ if errno.is_shortage() => Refusal::blocked(format!("{errno}: all are in use by others"), None),
            (_, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::ENXIO) => {
                missing(format!("{errno}: nothing behind it on this machine"))
            }
            _ => missing(format!("{errno}: the kernel refuses it")),
        }
    }

    /// `kernel.perf_event_paranoid`.
    pub(super) fn paranoid_level(&self) -> Option<i64> {
        self.number("proc/sys/kernel/perf_event_paranoid")
    }

    fn paranoid(&self, errno: Errno, need: Need) -> Refusal {
        match self.paranoid_level() {
            Some(level) if level > need.level() => Refusal::blocked(
                format!(
                    "{errno}: kernel.perf_event_paranoid is {level}, this needs {} or less",
                    need.level()
                ),
                Some(&format!("sudo sysctl kernel.perf_event_paranoid={}", need.level())),
            ),
            Some(level) => Refusal::blocked(
                format!("{errno}, although kernel.perf_event_paranoid is {level}: a security module refuses"),
                None,
            ),
            None => Refusal::blocked(format!("{errno}: not permitted"), Some("sudo memwall doctor")),
        }
    }

    fn locked_memory(&self) -> Refusal {
        let limit = self.number("proc/sys/kernel/perf_event_mlock_kb").unwrap_or(516);
        Refusal::blocked(
            format!("EPERM: the ring would lock more than the {limit} KiB a user may lock"),
            Some(&format!("sudo sysctl kernel.perf_event_mlock_kb={}", limit.saturating_mul(2))),
        )
    }

    /// Whether a seccomp filter stands between us and the kernel.
    fn is_filtered(&self) -> bool {
        let status = self.text("proc/self/status").unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
    }
}

fn missing(words: String) -> Refusal {
    Refusal { state: State::Missing, words, unlock_with: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::script::Script;

    fn refusal(script: &Script, errno: i32, need: Need) -> (State, String, Option<String>) {
        let refusal = script.patient().refusal(Trouble::open(Errno(errno)), need);
        (refusal.state, refusal.words, refusal.unlock_with)
    }

    #[test]
    fn paranoid_levels_name_the_level_that_suffices() {
        for (level, need, wanted) in [
            (4, Need::User, Some(2)),
            (3, Need::User, Some(2)),
            (2, Need::Kernel, Some(1)),
            (2, Need::WholeCpu, Some(0)),
            (1, Need::WholeCpu, Some(0)),
            (2, Need::User, None),
            (-1, Need::WholeCpu, None),
        ] {
            let script = Script::new();
            script.write("proc/sys/kernel/perf_event_paranoid", &format!("{level}\n"));
            let (state, words, unlock) = refusal(&script, libc::EACCES, need);
            assert_eq!(state, State::Blocked);
            assert!(words.starts_with("EACCES") && words.contains(&format!("is {level}")), "{words}");
            let command = wanted.map(|level| format!("sudo sysctl kernel.perf_event_paranoid={level}"));
            assert_eq!(unlock, command, "{words}");
        }
    }

    #[test]
    fn eperm_is_the_containers_filter_where_there_is_one() {
        let script = Script::new();
        script.write("proc/self/status", "Name:\tmemwall\nSeccomp:\t2\nSeccomp_filters:\t1\n");
        let (state, words, unlock) = refusal(&script, libc::EPERM, Need::User);
        assert_eq!((state, unlock.as_deref()), (State::Blocked, Some(CONTAINER)));
        assert!(words.contains("seccomp"), "{words}");
        script.write("proc/self/status", "Seccomp:\t0\n");
        let (state, words, _) = refusal(&script, libc::EPERM, Need::User);
        assert_eq!((state, words.as_str()), (State::Blocked, "EPERM: not permitted"));
    }

    #[test]
    fn no_hardware_is_missing_and_a_shortage_is_blocked() {
        let script = Script::new();
        for errno in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::EINVAL, 4095] {
            let (state, words, unlock) = refusal(&script, errno, Need::User);
            assert_eq!((state, unlock), (State::Missing, None), "{words}");
            assert!(words.starts_with(&Errno(errno).to_string()), "{words}");
        }
        for errno in [libc::ENOSPC, libc::EBUSY] {
            assert_eq!(refusal(&script, errno, Need::User).0, State::Blocked);
        }
        let (state, _, unlock) = refusal(&script, libc::EMFILE, Need::User);
        assert_eq!((state, unlock.as_deref()), (State::Blocked, Some("ulimit -n 4096")));
    }

    #[test]
    fn no_system_call_is_told_from_a_hidden_one() {
        let script = Script::new();
        assert_eq!(refusal(&script, libc::ENOSYS, Need::User).0, State::Blocked);
        script.remove("proc/sys/kernel/perf_event_paranoid");
        assert_eq!(refusal(&script, libc::ENOSYS, Need::User).0, State::Missing);
        let (state, words, _) = refusal(&script, libc::EACCES, Need::User);
        assert_eq!((state, words.as_str()), (State::Blocked, "EACCES: not permitted"));
    }

    #[test]
    fn a_ring_too_large_to_lock() {
        let script = Script::new();
        script.write("proc/sys/kernel/perf_event_mlock_kb", "4\n");
        let refusal = script.patient().refusal(Trouble::map(Errno(libc::EPERM)), Need::User);
        assert_eq!(refusal.unlock_with.as_deref(), Some("sudo sysctl kernel.perf_event_mlock_kb=8"));
    }
}
