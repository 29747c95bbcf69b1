//! What an instrument offers: open a set of events, start, stop, read.

use std::collections::BTreeSet;

use machine::CpuSet;

use crate::{Conflict, Count, Event, placement::Round};

/// Something that counts events: perf_event, or the PMU of a simulated machine.
pub trait Instrument {
    /// What it calls itself in reports: `perf_event`, `simulated haswell-ep-e5-2680v3`.
    fn name(&self) -> String;

    /// The event of a name, as this machine has it.
    fn resolve(&self, name: &str) -> Result<Event, CountRefusal>;

    /// All it knows, with what it would say if asked for each.
    fn offers(&self) -> Vec<Offer>;

    /// Divides events into sets that can each be counted without sharing counters; one per run of the program.
    fn runs(&self, events: &[Event], scope: &Scope) -> Result<Vec<Vec<usize>>, CountRefusal>;

    /// Opens all events of a request, stopped. What is refused becomes a missing value, not an error, as long as one
    /// event can be opened.
    fn open<'a>(&'a self, request: &CountRequest) -> Result<Box<dyn Counting + 'a>, CountRefusal>;
}

/// Events that are open.
pub trait Counting {
    /// Starts all.
    fn start(&mut self) -> Result<(), CountRefusal>;
    /// Stops all.
    fn stop(&mut self) -> Result<(), CountRefusal>;
    /// Every event at every place, counted from the first start on.
    fn read(&mut self) -> Result<Vec<Count>, CountRefusal>;

    /// What a reader of the values should know beside them: boxes that were skipped, modes that were left out, why an
    /// event most likely never ran. Whole sentences.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What to count, and of whom.
#[derive(Clone, Debug, PartialEq)]
pub struct CountRequest {
    /// The events.
    pub events: Vec<Event>,
    /// Of whom.
    pub scope: Scope,
    /// What to do if the counters do not suffice.
    pub too_many: TooMany,
    /// Whether values are kept apart by thread or CPU.
    pub share: CountShare,
}

/// Whom to measure: to count, or to sample. What a user asks for may have to be started first, and says so by its own
/// type; what the kernel is asked for is one thread or CPU at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The calling thread.
    ThisThread,
    /// One thread, and nothing that it starts.
    Thread(u32),
    /// A process that has not begun yet, from its `exec` on, with all it starts.
    Child(u32),
    /// A running process, all its threads and what they start.
    Process(u32),
    /// Everything on these CPUs. On a simulated machine: these cores.
    Cpus(CpuSet),
    /// Everything in a control group, by its path below the cgroup mount, on these CPUs.
    Cgroup(String, CpuSet),
}

/// What to do with more events than counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooMany {
    /// Let them take turns; values are scaled and say so.
    Multiplex,
    /// Refuse: the caller splits them with [`Instrument::runs`].
    Refuse,
    /// Count all at once; only a simulated PMU can.
    AllAtOnce,
}

/// How finely values are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountShare {
    /// One value per event for the whole target.
    Together,
    /// One per thread or CPU.
    Each,
}

/// One thing an instrument knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// The name to type.
    pub name: String,
    /// What it counts, in words.
    pub summary: String,
    /// Where the name comes from: `catalogue`, `sysfs`, `kernel`, `group`.
    pub origin: &'static str,
    /// Why it cannot be counted here; none if it can, as tried.
    pub refused: Option<String>,
}

/// Why an instrument does not do what was asked. The sentence says what was asked, what came back, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CountRefusal {
    /// The name means nothing here.
    #[error("unknown event '{name}': {hint}")]
    UnknownEvent {
        /// As typed.
        name: String,
        /// Near names, or how to list.
        hint: String,
    },
    /// The event is known, and cannot be counted here.
    #[error("{event} cannot be counted: {reason}")]
    NotHere {
        /// Which.
        event: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The counters do not hold all at once, and none may wait.
    #[error("counting {asked} events at once: {}; split them over {runs} runs, or let them take turns",
        no_room(.waiting, .conflict))]
    NoRoom {
        /// How many were asked for.
        asked: usize,
        /// Those that would have to wait.
        waiting: Vec<String>,
        /// Why the first of them would.
        conflict: Conflict,
        /// In how many runs all can be counted.
        runs: usize,
    },
    /// Counting could not start, stop or be read.
    #[error("{what}: {reason}")]
    Failed {
        /// What was tried.
        what: String,
        /// Errno's name, its meaning, what to do.
        reason: String,
    },
}

impl CountRefusal {
    /// The refusal to count in one round what needs several; none where one is enough.
    pub fn unless_one_round(events: &[Event], rounds: &[Round]) -> Option<Self> {
        let (_, later) = rounds.split_first()?;
        let conflict = later.first()?.because.clone().unwrap_or(Conflict::Counters);
        let waiting: BTreeSet<usize> = later.iter().flat_map(|round| &round.members).copied().collect();
        Some(Self::NoRoom {
            asked: events.len(),
            waiting: waiting.into_iter().map(|event| events[event].name.clone()).collect(),
            conflict,
            runs: rounds.len(),
        })
    }
}

fn no_room(waiting: &[String], conflict: &Conflict) -> String {
    let names = waiting.join(", ");
    match conflict {
        Conflict::Counters => format!("there is no counter left for {names}"),
        other => format!("{names} cannot be counted beside the others: {other}"),
    }
}
