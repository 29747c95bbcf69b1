//! Counts of parts of a scenario's time on a simulated machine.
//!
//! It repeats to the bit: a first run says when what happens, a second one counts between these moments.

use std::{sync::atomic::AtomicBool, time::Duration};

use events::{Count, CountRefusal, CountShare, TooMany, Value};
use record::{
    count::{CountedInterval, CountedRun, Counts, MachineFigures},
    scenario::ScenarioRun,
};
use sim::{
    pmu::{CountedPart, SimulatedPmu},
    time::Time,
};

use super::{CountError, Selection, begin};
use crate::{
    host::Host,
    meter::Meter,
    scenario::{self, ScenarioJob},
};

/// Every one has counters of its own.
const MOST_INTERVALS: f64 = 10_000.0;

/// What to count of a scenario, part by part.
pub struct PartsRequest<'a> {
    /// What runs.
    pub job: ScenarioJob<'a>,
    /// Events and groups.
    pub selection: &'a Selection,
    /// Values of each CPU apart.
    pub share: CountShare,
    /// What was measured of the machine.
    pub measured: Option<&'a MachineFigures>,
    /// Share of the machine's memory that lies at the packages counted on.
    pub memory_share: f64,
    /// Package of each CPU.
    pub packages: Vec<(u32, u32)>,
}

/// Until when, in nanoseconds, a run is whose part.
type Cut<'a> = dyn Fn(&ScenarioRun) -> Result<Vec<(f64, usize)>, CountRefusal> + 'a;

/// What a scenario did, and what was counted in each part.
pub(super) struct CountedParts {
    pub ran: ScenarioRun,
    pub counts: Vec<Vec<Count>>,
}

impl PartsRequest<'_> {
    /// Counts it in parts. Nothing if it was stopped.
    pub(super) fn count(
        &self,
        host: &mut dyn Host,
        pmu: &SimulatedPmu,
        interrupt: &AtomicBool,
        cut: &Cut<'_>,
    ) -> Result<Option<CountedParts>, CountError> {
        let ran = scenario::run(&self.job, host, interrupt)?;
        if ran.interrupted {
            return Ok(None);
        }
        let part = |(end_ns, part)| CountedPart { until: Time::from_ns(end_ns), part };
        let parts: Vec<CountedPart> = cut(&ran)?.into_iter().map(part).collect();
        let asked = events::CountRequest {
            events: self.selection.events().to_vec(),
            scope: host.scope(self.job.cpus),
            too_many: TooMany::AllAtOnce,
            share: self.share,
        };
        let mut counting = pmu.open_parts(&asked, &parts)?;
        let meter = Some(&mut counting as &mut dyn Meter);
        let counted = scenario::run_metered(&self.job, host, meter, interrupt)?;
        let number = parts.iter().map(|part| part.part + 1).max().unwrap_or(0);
        let counts = (0..number).map(|part| counting.read_part(part)).collect();
        Ok((!counted.interrupted).then_some(CountedParts { ran, counts }))
    }
}

/// Counts a scenario as a whole, and what every so much of its time added.
pub fn count_intervals(
    request: &PartsRequest<'_>,
    every: Duration,
    host: &mut dyn Host,
    pmu: &SimulatedPmu,
    interrupt: &AtomicBool,
) -> Result<Counts, CountError> {
    let every_ns = every.as_nanos() as f64;
    let ends = |ran: &ScenarioRun| -> Vec<f64> {
        let intervals = (ran.wall_ns / every_ns).ceil().max(1.0) as usize;
        (1..=intervals).map(|number| (number as f64 * every_ns).min(ran.wall_ns)).collect()
    };
    let cut = |ran: &ScenarioRun| match ran.wall_ns / every_ns {
        few if few <= MOST_INTERVALS => Ok(ends(ran).into_iter().zip(0..).collect()),
        many => Err(CountRefusal::Failed {
            what: format!("{many:.0} intervals of {every:?}"),
            reason: format!("at most {MOST_INTERVALS} of them can be counted; make them longer"),
        }),
    };
    let mut counts = begin(request.selection, &request.packages);
    counts.instrument = events::Instrument::name(pmu);
    counts.target = format!("scenario {}", request.job.scenario.name);
    let Some(CountedParts { ran, counts: of_parts }) = request.count(host, pmu, interrupt, &cut)? else {
        counts.interrupted = true;
        return Ok(counts);
    };
    let mut run = run_of(ran.wall_ns, sum(&of_parts));
    let interval =
        |(end_ns, counts): (f64, Vec<Count>)| CountedInterval { end_ns: end_ns.round() as u64, counts };
    run.intervals = ends(&ran).into_iter().zip(of_parts).map(interval).collect();
    counts.runs = vec![run];
    counts.metrics = request.selection.metrics(&counts, request.measured, request.memory_share);
    Ok(counts)
}

/// Parts together, event by event and place by place.
fn sum(parts: &[Vec<Count>]) -> Vec<Count> {
    let mut sums: Vec<Count> = Vec::new();
    for count in parts.iter().flatten() {
        let Some(sum) = sums.iter_mut().find(|sum| sum.event == count.event && sum.place == count.place)
        else {
            sums.push(count.clone());
            continue;
        };
        match (&mut sum.value, &count.value) {
            (
                Value::Counted { raw, enabled_ns, running_ns },
                Value::Counted { raw: more, enabled_ns: enabled, running_ns: running },
            ) => {
                *raw += more;
                *enabled_ns += enabled;
                *running_ns += running;
            }
            // What did not run in one part may in another; what is refused is so in all.
            (missing @ Value::Missing(_), counted @ Value::Counted { .. }) => *missing = counted.clone(),
            (_, Value::Missing(_)) => {}
        }
    }
    sums
}

pub(super) fn run_of(elapsed_ns: f64, counts: Vec<Count>) -> CountedRun {
    let elapsed_ns = elapsed_ns.round() as u64;
    CountedRun { elapsed_ns, ending: None, usage: None, counts, intervals: Vec::new() }
}
