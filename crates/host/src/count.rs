//! Counting events over a program, a process or the whole machine, through any [`Instrument`].

mod at_once;
mod known_work;
mod marked;
mod native;
mod parts;
mod regions;
mod repeats;
mod selection;
mod witnesses;

use std::{ffi::OsString, io, time::Duration};

use events::{Count, CountRefusal, CountShare, Event, Instrument, Scope, TooMany};
use machine::CpuSet;
use record::{
    count::{CountedEvent, CountedInterval, CountedRun, Counts, MachineFigures, SCHEMA},
    run::{Ending, Usage},
};

use crate::{host::HostError, scenario::RunError};

pub use known_work::{CountedKernel, CountedScenario};
pub use marked::{MarkedProgram, count_marked};
pub use native::{Hear, NativeTarget};
pub use parts::{PartsRequest, count_intervals};
pub use regions::{RegionTimes, count_regions};
pub use selection::Selection;

use repeats::CountedSoFar;
use witnesses::{WitnessPlaces, Witnesses};

/// What is counted once per pass.
pub trait Target {
    /// In words: a command line, `process 42`, `CPUs 0-3`.
    fn name(&self) -> String;

    /// Opens with `open`, starts, lets the target do its work, and reads; at every interval too, where asked for.
    fn pass(&mut self, open: &mut Open<'_>, interval: Option<Duration>) -> Result<Pass, CountError>;

    /// Several passes: at the same time where the target can be there more than once and was told so, else one after the other
    /// until one is interrupted.
    fn passes(
        &mut self,
        opens: &mut [&mut Open<'_>],
        interval: Option<Duration>,
    ) -> Result<Vec<Pass>, CountError> {
        one_by_one(opens, &mut |open| self.pass(open, interval))
    }

    /// Whether a second pass can differ from the first: on a simulated machine it is the first to the bit.
    fn can_differ(&self) -> bool {
        true
    }
}

/// Passes until one is interrupted.
fn one_by_one(
    opens: &mut [&mut Open<'_>],
    pass: &mut dyn FnMut(&mut Open<'_>) -> Result<Pass, CountError>,
) -> Result<Vec<Pass>, CountError> {
    let mut passes: Vec<Pass> = Vec::new();
    for open in opens.iter_mut() {
        if passes.last().is_some_and(|last| last.interrupted) {
            break;
        }
        passes.push(pass(&mut **open)?);
    }
    Ok(passes)
}

/// Opens a set of events for a scope that the target knows.
pub type Open<'a> = dyn FnMut(Scope) -> Result<Box<dyn events::Counting + 'a>, CountRefusal> + 'a;

/// What one pass gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Pass {
    /// Time counted.
    pub elapsed_ns: u64,
    /// How the program ended, if one was run.
    pub ending: Option<Ending>,
    /// What it used.
    pub usage: Option<Usage>,
    /// At the end.
    pub counts: Vec<Count>,
    /// Readings so far at the end of each interval.
    pub readings: Vec<(u64, Vec<Count>)>,
    /// What the instrument noticed.
    pub notes: Vec<String>,
    /// The user stopped it.
    pub interrupted: bool,
}

/// What to count.
#[derive(Clone, Debug)]
pub struct CountRequest<'a> {
    /// Events and groups.
    pub selection: &'a Selection,
    /// Repetitions, at least one.
    pub runs: usize,
    /// Of several passes, how many may be made at the same time, at least one.
    pub at_once: usize,
    /// What to do with more events than counters.
    pub fit: Fit,
    /// Values of each thread or CPU apart.
    pub share: CountShare,
    /// Readings in between.
    pub interval: Option<Duration>,
    /// Package of each CPU.
    pub packages: Vec<(u32, u32)>,
    /// What was measured of the machine, for penalties and peaks of its own.
    pub measured: Option<&'a MachineFigures>,
    /// Share of the machine's memory that lies at the packages counted on.
    pub memory_share: f64,
}

impl<'a> CountRequest<'a> {
    /// One run with all events at once, of a machine of which nothing was measured.
    pub fn once(selection: &'a Selection) -> Self {
        Self {
            selection,
            runs: 1,
            at_once: 1,
            fit: Fit::AllAtOnce,
            share: CountShare::Together,
            interval: None,
            packages: Vec::new(),
            measured: None,
            memory_share: 1.0,
        }
    }
}

/// What to do with more events than counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Let them take turns; values are scaled.
    TakeTurns,
    /// Several passes over the target, each with those that fit.
    SeveralPasses,
    /// All at once: only where counters are simulated.
    AllAtOnce,
}

/// Why nothing was counted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The instrument refused.
    #[error(transparent)]
    Refused(#[from] CountRefusal),
    /// The program could not be started.
    #[error("{program}: {reason}")]
    Program {
        /// As it was given.
        program: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The kernel could not be run.
    #[error(transparent)]
    Run(HostError),
    /// The scenario could not be run.
    #[error(transparent)]
    Scenario(RunError),
    /// The system refused something else.
    #[error("cannot {what}")]
    System {
        /// After "cannot".
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Whom a user asks to count on this machine, and the program to start for it. Once that has a number it is a
/// [`Scope`]. `recorder::RecordTarget` is the part of this that can be recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A program and all it starts.
    Program(Vec<OsString>),
    /// A running process.
    Process(u32),
    /// Everything on these CPUs, while a program runs if one is given.
    Cpus(CpuSet, Vec<OsString>),
    /// Everything of a control group on these CPUs, while a program runs if one is given.
    Cgroup(String, CpuSet, Vec<OsString>),
}

/// Counts as asked. `progress` hears how many passes are done and how many there are, as far as is known.
pub fn count(
    request: &CountRequest<'_>,
    instrument: &dyn Instrument,
    target: &mut dyn Target,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Counts, CountError> {
    let events = request.selection.events();
    // Which scope does not matter for what fits together.
    let (passes, too_many): (Vec<Vec<usize>>, _) = match request.fit {
        Fit::SeveralPasses => (instrument.runs(events, &Scope::ThisThread)?, TooMany::Refuse),
        Fit::TakeTurns => (vec![(0..events.len()).collect()], TooMany::Multiplex),
        Fit::AllAtOnce => (vec![(0..events.len()).collect()], TooMany::AllAtOnce),
    };
    // Passes that count different events are only worth comparing if they did the same.
    let witnesses = (passes.len() > 1).then(|| Witnesses::of(instrument));
    let mut counting = Passes {
        request,
        instrument,
        target,
        too_many,
        witnesses,
        counts: begin(request.selection, &request.packages),
    };
    counting.counts.instrument = instrument.name();
    counting.counts.target = counting.target.name();
    let asked = request.runs.max(1);
    let all = asked * passes.len();
    for run in 0..asked {
        let mut parts = Vec::new();
        for batch in at_once::batches(&passes, events, request.at_once) {
            progress(run * passes.len() + parts.len(), all);
            parts.extend(counting.batch(&batch)?);
            if counting.counts.interrupted {
                break;
            }
        }
        counting.keep(&parts);
        if counting.counts.interrupted {
            break;
        }
    }
    counting.repeat(&passes, asked, progress)?;
    let mut counts = counting.counts;
    counts.remarks.extend(witnesses::remark(&counts.witnesses));
    counts.remarks.extend(at_once::remark(&passes, events, request.at_once));
    counts.metrics = request.selection.metrics(&counts, request.measured, request.memory_share);
    Ok(counts)
}

/// Counts of nothing yet.
fn begin(selection: &Selection, packages: &[(u32, u32)]) -> Counts {
    let events = selection.events().iter();
    Counts {
        schema: SCHEMA.to_owned(),
        events: events
            .map(|event| CountedEvent {
                name: event.name.clone(),
                signal: event.signal.clone(),
                scale: event.scale.clone(),
                errata: event.errata.clone(),
                trust: None,
            })
            .collect(),
        packages: packages.to_vec(),
        ..Counts::default()
    }
}

/// Passes over a target, and what they counted.
struct Passes<'a> {
    request: &'a CountRequest<'a>,
    instrument: &'a dyn Instrument,
    target: &'a mut dyn Target,
    too_many: TooMany,
    witnesses: Option<Witnesses>,
    counts: Counts,
}

/// One pass and the events it counted.
struct MadePass<'a> {
    wanted: &'a [usize],
    witnesses: Option<WitnessPlaces>,
    pass: Pass,
}

impl Passes<'_> {
    /// Makes a pass that counts these events, and the witnesses beside them.
    fn pass<'w>(&mut self, wanted: &'w [usize]) -> Result<MadePass<'w>, CountError> {
        let made = self.batch(&[wanted])?.pop();
        made.ok_or(CountError::System { what: "make a pass", source: io::ErrorKind::Interrupted.into() })
    }

    /// Makes passes, each of which counts its events and the witnesses beside them, at the same time if the target can.
    fn batch<'w>(&mut self, batch: &[&'w [usize]]) -> Result<Vec<MadePass<'w>>, CountError> {
        let (instrument, too_many, share) = (self.instrument, self.too_many, self.request.share);
        let events = self.request.selection.events();
        let mut witnesses = Vec::new();
        let mut opens = Vec::new();
        for wanted in batch {
            let mut set: Vec<Event> = wanted.iter().map(|&index| events[index].clone()).collect();
            witnesses.push(self.witnesses.as_ref().map(|witnesses| witnesses.join(instrument, &mut set)));
            opens.push(move |scope: Scope| {
                let events = set.clone();
                instrument.open(&events::CountRequest { events, scope, too_many, share })
            });
        }
        let mut opens: Vec<&mut Open<'_>> = opens.iter_mut().map(|open| open as &mut Open<'_>).collect();
        let passes = self.target.passes(&mut opens, self.request.interval)?;
        let made = batch.iter().zip(witnesses).zip(passes);
        Ok(made
            .map(|((&wanted, witnesses), pass)| self.noted(MadePass { wanted, witnesses, pass }))
            .collect())
    }

    /// Takes over what a pass says beside its counts.
    fn noted<'w>(&mut self, made: MadePass<'w>) -> MadePass<'w> {
        let counts = &mut self.counts;
        counts.witnesses.extend(made.witnesses.as_ref().map(|places| places.read(&made.pass)));
        counts.interrupted |= made.pass.interrupted;
        for note in &made.pass.notes {
            if !counts.remarks.contains(note) {
                counts.remarks.push(note.clone());
            }
        }
        made
    }

    /// Keeps passes as a repetition.
    fn keep(&mut self, parts: &[MadePass<'_>]) {
        let mut run = joined(parts);
        if let Some(witnesses) = &self.witnesses {
            witnesses.average(&self.counts.events, parts, &mut run.counts);
        }
        self.counts.runs.push(run);
    }

    /// Makes passes again as long as that is worth it, each a repetition of its own.
    fn repeat(
        &mut self,
        passes: &[Vec<usize>],
        asked: usize,
        progress: &mut dyn FnMut(usize, usize),
    ) -> Result<(), CountError> {
        let planned = asked * passes.len();
        let mut made = planned;
        while self.target.can_differ() && !self.counts.interrupted {
            let Counts { runs, witnesses, .. } = &self.counts;
            let Some(again) = (CountedSoFar { passes, asked, runs, witnesses }).again() else { break };
            progress(made, made + 1);
            let part = self.pass(&passes[again])?;
            self.keep(&[part]);
            made += 1;
        }
        if made > planned {
            let Counts { runs, witnesses, .. } = &self.counts;
            let so_far = CountedSoFar { passes, asked, runs, witnesses };
            let remark = repeats::remark(&so_far, &self.counts.events, made - planned);
            self.counts.remarks.push(remark);
        }
        Ok(())
    }
}

/// One repetition from its passes: each event from the pass that counted it.
fn joined(parts: &[MadePass<'_>]) -> CountedRun {
    let renumbered = |wanted: &[usize], counts: &[Count]| -> Vec<Count> {
        let renumber = |count: &Count| wanted.get(count.event).map(|&event| Count { event, ..count.clone() });
        counts.iter().filter_map(renumber).collect()
    };
    let elapsed: u64 = parts.iter().map(|part| part.pass.elapsed_ns).sum();
    let mut run = CountedRun {
        elapsed_ns: elapsed / parts.len().max(1) as u64,
        ending: parts.last().and_then(|part| part.pass.ending),
        usage: parts.last().and_then(|part| part.pass.usage),
        counts: Vec::new(),
        intervals: Vec::new(),
    };
    for MadePass { wanted, pass, .. } in parts {
        run.counts.extend(renumbered(wanted, &pass.counts));
        let mut before: Vec<Count> = Vec::new();
        for (end_ns, reading) in &pass.readings {
            let reading = renumbered(wanted, reading);
            let counts = record::count::since(&before, &reading);
            run.intervals.push(CountedInterval { end_ns: *end_ns, counts });
            before = reading;
        }
    }
    run.counts.sort_by_key(|count| count.event);
    run
}

#[cfg(test)]
mod tests;
