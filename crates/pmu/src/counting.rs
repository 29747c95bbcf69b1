//! perf_event as an instrument: events of the catalogue counted for a thread, a process, CPUs or a control group.
//!
//! An event is [encoded](encode) once per PMU that has it, [planned](plan) into groups that [fit](events::placement)
//! the counters, opened
//! on every [seat](seats) of the scope, and its readings are [gathered](gather) into the values asked for. What is
//! refused, never ran or was skipped keeps its reason.

mod encode;
mod gather;
mod marked;
mod offers;
mod open;
mod plan;
mod resctrl;
mod sampled;
mod seats;
mod self_read;
mod session;
mod tracepoint;
mod words;

use std::sync::OnceLock;

use events::{
    Catalogue, CountRefusal, CountRequest, Counting, Event, Instrument, Offer, Scope, names::PmuView,
};
use machine::{Source, cpuid::CoreCounters};

pub use marked::{AtMarks, MarkedForm, MarkedPlan, ThreadAccount};
pub use resctrl::abandoned_groups;
pub use sampled::{NamedSampling, SamplingForm};
pub use session::PerfCounting;

use crate::{LinuxKernel, Pmu, refusal::Surroundings};

/// Counts through perf_event, and through resctrl what only that knows.
///
/// ```
/// use events::{Counting, Event, Instrument, CountRequest, CountShare, Scope, Signal, TooMany};
/// let here = pmu::PerfEvents::new(&pmu::Live, machine::Source::live());
/// let request = CountRequest {
///     events: vec![Event::new("page-faults", Signal::Software(2))],
///     scope: Scope::ThisThread,
///     too_many: TooMany::Multiplex,
///     share: CountShare::Together,
/// };
/// match here.open(&request) {
///     Ok(mut counting) => {
///         counting.start()?;
///         counting.stop()?;
///         assert_eq!(counting.read()?.len(), 1);
///     }
///     Err(refusal) => println!("{refusal}"),
/// }
/// # Ok::<(), events::CountRefusal>(())
/// ```
pub struct PerfEvents<'k> {
    kernel: &'k dyn LinuxKernel,
    source: Source,
    surroundings: Surroundings,
    probes: bool,
    /// Read when first needed: servers list hundreds of boxes, and software events need none.
    pmus: OnceLock<Vec<Pmu>>,
    views: OnceLock<Vec<PmuView>>,
    /// Found when first needed, and looked at for every event.
    catalogue: OnceLock<Option<&'static Catalogue>>,
}

impl<'k> PerfEvents<'k> {
    /// Events of `kernel`; what files say is read under the source's root.
    pub fn new(kernel: &'k dyn LinuxKernel, source: Source) -> Self {
        let surroundings = Surroundings::read(source.root(), "sudo memwall count");
        Self {
            kernel,
            source,
            surroundings,
            probes: false,
            pmus: OnceLock::new(),
            views: OnceLock::new(),
            catalogue: OnceLock::new(),
        }
    }

    /// Tries every group of hardware events for a moment before it is used, and halves those that get no counter.
    /// Without it, a group that opens and never runs only shows when it is read.
    pub fn probing(self) -> Self {
        Self { probes: true, ..self }
    }

    /// What sysfs lists.
    pub fn pmus(&self) -> &[Pmu] {
        self.pmus.get_or_init(|| Pmu::list(self.source.root()))
    }

    /// Opens all events of a request, stopped. As [`Instrument::open`], with the type kept.
    pub fn open_counting(&self, request: &CountRequest) -> Result<PerfCounting<'k>, CountRefusal> {
        open::open(self, request)
    }

    /// The NMI watchdog counts cycles on every CPU, on a counter that nobody else gets.
    fn has_watchdog(&self) -> bool {
        self.source.attribute("proc/sys/kernel/nmi_watchdog").is_ok_and(|text| text == "1")
    }

    fn core_counters(&self) -> CoreCounters {
        let (cpuid, _) = self.source.cpuid();
        // Every x86 core since 2008 has as many; the kernel refuses or splits what does not fit after all.
        cpuid.and_then(|cpuid| cpuid.counters()).unwrap_or(CoreCounters { general: 4, fixed: 0 })
    }

    fn is_guest(&self) -> bool {
        self.source.cpuid().0.is_some_and(|cpuid| cpuid.is_guest())
    }

    /// The package of a CPU; 0 where the machine does not say.
    fn package(&self, cpu: u32) -> u32 {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        self.source.value(&path, "a number", |text| text.parse().ok()).unwrap_or(0)
    }
}

impl Instrument for PerfEvents<'_> {
    fn name(&self) -> String {
        "perf_event".to_owned()
    }

    fn resolve(&self, name: &str) -> Result<Event, CountRefusal> {
        self.resolve_name(name)
    }

    fn offers(&self) -> Vec<Offer> {
        self.all_offers()
    }

    fn runs(&self, events: &[Event], _scope: &Scope) -> Result<Vec<Vec<usize>>, CountRefusal> {
        Ok(self.plan_runs(events).into_iter().map(|round| round.members).collect())
    }

    fn open<'a>(&'a self, request: &CountRequest) -> Result<Box<dyn Counting + 'a>, CountRefusal> {
        Ok(Box::new(self.open_counting(request)?))
    }
}
