//! An event by its name, in the forms in which it can be sampled.

use events::{CountRefusal, Event, Instrument as _};
use machine::CpuSet;

use super::{PerfEvents, encode::Domain};
use crate::{KernelEvent, event::Modes};

/// What it takes to sample an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSampling {
    /// As it was asked for.
    pub name: String,
    /// 0 to 3: how close a sample must lie to its instruction.
    pub precise: u8,
    /// One for each kind of core that has it.
    pub forms: Vec<SamplingForm>,
}

/// An event on one kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplingForm {
    /// As it is opened.
    pub event: KernelEvent,
    /// Where it exists, if not everywhere.
    pub cpus: Option<CpuSet>,
}

impl PerfEvents<'_> {
    /// How to sample the event of this name. In user mode, as the clock, unless its name says otherwise or it only ever
    /// happens in the kernel.
    pub fn sampling(&self, name: &str) -> Result<NamedSampling, CountRefusal> {
        let event: Event = self.resolve(name)?;
        let not_sampled =
            |reason: &str| CountRefusal::NotHere { event: name.to_owned(), reason: reason.to_owned() };
        if event.needs.leader.is_some() {
            return Err(not_sampled("its samples need another event to lead them; --precise samples loads"));
        }
        let mut forms = Vec::new();
        for encoded in self.encode(&event)? {
            let cpus = match encoded.domain {
                Domain::Box { pmu, .. } => {
                    let reason = format!("{pmu} counts for a whole package: whose code it was it cannot say");
                    return Err(not_sampled(&reason));
                }
                Domain::Core { cpus, .. } => cpus,
                Domain::Kernel | Domain::Breakpoints => None,
            };
            let modes = if encoded.may_fall_back_to_user { Modes::User } else { encoded.event.modes };
            forms.push(SamplingForm { event: KernelEvent { modes, ..encoded.event }, cpus });
        }
        Ok(NamedSampling { name: event.name, precise: event.modifiers.precise, forms })
    }
}

#[cfg(test)]
mod tests {
    use machine::Source;
    use perf_event_open_sys::bindings as b;

    use super::*;
    use crate::{Errno, scripted::Scripted};

    fn sampling(name: &str) -> Result<NamedSampling, CountRefusal> {
        let kernel = Scripted::new(|_| Err(Errno(libc::ENOENT)));
        let empty = tempfile::tempdir().unwrap();
        PerfEvents::new(&kernel, Source::under(empty.path())).sampling(name)
    }

    #[test]
    fn events_are_sampled_where_the_program_is() {
        let modes =
            |name| sampling(name).map(|found| found.forms.iter().map(|form| form.event.modes).collect());
        assert_eq!(modes("cycles"), Ok(vec![Modes::User]));
        assert_eq!(modes("page-faults"), Ok(vec![Modes::User]));
        assert_eq!(modes("cycles:k"), Ok(vec![Modes::Kernel]));
        // They happen in the kernel only: in user mode there would never be one.
        assert_eq!(modes("context-switches"), Ok(vec![Modes::All]));
        let precise = sampling("instructions:pp").unwrap();
        assert_eq!((precise.precise, precise.forms[0].event.kind), (2, b::PERF_TYPE_HARDWARE));
        assert!(sampling("no-such-event").is_err());
    }
}
