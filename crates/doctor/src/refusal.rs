//! What a refused event means, as a row says it.

use pmu::refusal::Surroundings;
pub(super) use pmu::refusal::{Need, Trouble};
use record::doctor::{Capability, CapabilityState};

use super::{Patient, row::RowSubject};

/// A refusal in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TrialRefusal {
    /// Missing or blocked.
    pub state: CapabilityState,
    /// The errno and its meaning here.
    pub words: String,
    /// The command that lifts it.
    pub unlock_with: Option<String>,
}

impl TrialRefusal {
    /// The row this refusal makes.
    pub fn row(self, subject: &RowSubject) -> Capability {
        match self.state {
            CapabilityState::Blocked => subject.blocked(self.words, self.unlock_with),
            CapabilityState::Missing | CapabilityState::Found => subject.missing(self.words),
        }
    }
}

impl Patient<'_> {
    /// What `trouble` with an event means on this machine.
    pub(super) fn refusal(&self, trouble: Trouble, need: Need) -> TrialRefusal {
        let explanation = self.surroundings().explain(trouble, need);
        let state = if explanation.is_blocked { CapabilityState::Blocked } else { CapabilityState::Missing };
        TrialRefusal { state, words: explanation.words, unlock_with: explanation.unlock_with }
    }

    /// `kernel.perf_event_paranoid`.
    pub(super) fn paranoid_level(&self) -> Option<i64> {
        self.surroundings().paranoid_level
    }

    fn surroundings(&self) -> Surroundings {
        Surroundings::read(self.root, "sudo memwall doctor")
    }
}

#[cfg(test)]
mod tests {
    use pmu::{Errno, refusal::CONTAINER};

    use super::*;
    use crate::script::Script;

    fn refusal(script: &Script, errno: i32, need: Need) -> (CapabilityState, String, Option<String>) {
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
            assert_eq!(state, CapabilityState::Blocked);
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
        assert_eq!((state, unlock.as_deref()), (CapabilityState::Blocked, Some(CONTAINER)));
        assert!(words.contains("seccomp"), "{words}");
        script.write("proc/self/status", "Seccomp:\t0\n");
        let (state, words, _) = refusal(&script, libc::EPERM, Need::User);
        assert_eq!((state, words.as_str()), (CapabilityState::Blocked, "EPERM: not permitted"));
    }

    #[test]
    fn no_hardware_is_missing_and_a_shortage_is_blocked() {
        let script = Script::new();
        for errno in [libc::ENOENT, libc::ENODEV, libc::EOPNOTSUPP, libc::EINVAL, 4095] {
            let (state, words, unlock) = refusal(&script, errno, Need::User);
            assert_eq!((state, unlock), (CapabilityState::Missing, None), "{words}");
            assert!(words.starts_with(&Errno(errno).to_string()), "{words}");
        }
        for errno in [libc::ENOSPC, libc::EBUSY] {
            assert_eq!(refusal(&script, errno, Need::User).0, CapabilityState::Blocked);
        }
        let (state, _, unlock) = refusal(&script, libc::EMFILE, Need::User);
        assert_eq!((state, unlock.as_deref()), (CapabilityState::Blocked, Some("ulimit -n 4096")));
    }

    #[test]
    fn no_system_call_is_told_from_a_hidden_one() {
        let script = Script::new();
        assert_eq!(refusal(&script, libc::ENOSYS, Need::User).0, CapabilityState::Blocked);
        script.remove("proc/sys/kernel/perf_event_paranoid");
        assert_eq!(refusal(&script, libc::ENOSYS, Need::User).0, CapabilityState::Missing);
        let (state, words, _) = refusal(&script, libc::EACCES, Need::User);
        assert_eq!((state, words.as_str()), (CapabilityState::Blocked, "EACCES: not permitted"));
    }

    #[test]
    fn a_ring_too_large_to_lock() {
        let script = Script::new();
        script.write("proc/sys/kernel/perf_event_mlock_kb", "4\n");
        let refusal = script.patient().refusal(Trouble::map(Errno(libc::EPERM)), Need::User);
        assert_eq!(refusal.unlock_with.as_deref(), Some("sudo sysctl kernel.perf_event_mlock_kb=8"));
    }
}
