//! Refusals in words: what was asked, what the kernel said, and what to do.

use events::{CountRefusal, CountRequest, Event as Asked, EventRefusal, Missing, Scope};

use super::{
    PerfEvents,
    encode::{Domain, Encoded},
    gather::CountedPart,
};
use crate::{
    Errno,
    refusal::{Need, Trouble},
};

impl PerfEvents<'_> {
    /// What was asked, what the kernel said, and what to do.
    pub(super) fn words(&self, asked: &Asked, encoded: &Encoded, errno: Errno, need: Need) -> EventRefusal {
        let what = describe(encoded);
        let explanation = self.surroundings.explain(Trouble::open(errno), need);
        let hint = match (&encoded.domain, errno.0) {
            (Domain::Breakpoints, libc::ENOSPC) => {
                format!("{errno}: all debug registers are in use; watch fewer addresses, or detach debuggers")
            }
            (Domain::Breakpoints, libc::EINVAL) => {
                format!("{errno}: the address must be a multiple of the length, which is 1, 2, 4 or 8")
            }
            (Domain::Core { pmu, .. }, libc::EINVAL) if pmu.starts_with("ibs_") => {
                format!("{errno}: IBS takes samples and counts nothing; sample it instead")
            }
            (_, libc::EINVAL) => {
                format!(
                    "{errno}: the kernel does not accept this encoding; compare it with the PMU's format files"
                )
            }
            (_, libc::ENODATA) => {
                format!("{errno}: this event must follow its auxiliary event in a group (mem-loads-aux)")
            }
            (_, libc::ESRCH) => format!("{errno}: the thread has ended"),
            (Domain::Core { .. }, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) if self.is_guest() => {
                format!("{errno}: the hypervisor passes no counters through; software and clock events work")
            }
            _ => explanation.sentence(),
        };
        EventRefusal::of(&asked.name, &what, hint)
    }
}

/// The event as the kernel was asked for it.
fn describe(encoded: &Encoded) -> String {
    let event = &encoded.event;
    match &encoded.domain {
        Domain::Kernel => format!("type {} number {}", event.kind, event.config),
        Domain::Breakpoints => format!("breakpoint at {:#x}, {} bytes", event.config1, event.config2),
        Domain::Core { pmu, .. } | Domain::Box { pmu, .. } => {
            let mut words = format!("{pmu} config={:#x}", event.config);
            for (name, value) in
                [("config1", event.config1), ("config2", event.config2), ("config3", event.config3)]
            {
                if value != 0 {
                    words += &format!(",{name}={value:#x}");
                }
            }
            words
        }
    }
}

/// Those whom a scope means, in words.
pub(super) fn whom(scope: &Scope) -> String {
    match scope {
        Scope::ThisThread => "this thread".into(),
        Scope::Thread(tid) => format!("thread {tid}"),
        Scope::Child(_) => "the program".into(),
        Scope::Process(pid) => format!("process {pid}"),
        Scope::Cpus(cpus) => format!("CPUs {cpus}"),
        Scope::Cgroup(path, _) => format!("control group {path}"),
    }
}

/// Everything was refused: the most telling reason first.
pub(super) fn nothing_opened(request: &CountRequest, parts: &[CountedPart]) -> CountRefusal {
    let mut reasons: Vec<&EventRefusal> = Vec::new();
    for part in parts {
        if let Err(Missing::Refused(refusal)) = &part.value
            && !reasons.contains(&refusal)
        {
            reasons.push(refusal);
        }
    }
    if let [only] = reasons[..]
        && let Some(refusal) = only.not_here()
    {
        return refusal;
    }
    let reason = match reasons.split_first() {
        None => "no event was asked for; name at least one".to_owned(),
        Some((first, [])) => first.to_string(),
        Some((first, rest)) => format!("{first} (and {} more)", rest.len()),
    };
    CountRefusal::Failed { what: format!("counting for {}", whom(&request.scope)), reason }
}
