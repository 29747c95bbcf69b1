//! A program counted as a whole and by the regions that it marks: threads read their own counters where regions begin and end.

use std::{cell::RefCell, collections::BTreeMap, ffi::OsString, path::Path};

use events::{
    Count, CountRefusal, CountShare, CountedPlace, Counting, EventRefusal, Instrument as _, Missing, Scope,
    TooMany, Value,
};
use machine::Source;
use pmu::{AtMarks, CounterReading, Errno, LinuxKernel, MarkedPlan, PerfEvents, ThreadAccount};
use record::count::{CountedRun, Counts};
use recorder::{
    MarkedCounts, MarkedEvent, MarkedRegion, MarkedThread, ProgramOutput, ReadAtMarks, RecordError,
    RecordRequest, RecordTarget, Watchers,
};

use super::{CountError, CountRequest, begin};

/// Samples per second: the kernel's records are what is needed, who starts which thread and maps which code.
const RATE_HZ: u32 = 10;

/// A program that marks its regions, and how it is run.
pub struct MarkedProgram<'a> {
    /// It and its arguments.
    pub command: &'a [OsString],
    /// Where its standard output goes.
    pub output: ProgramOutput,
    /// Where a recording may lie meanwhile.
    pub recording: &'a Path,
    /// The kernel that counts.
    pub kernel: &'a dyn LinuxKernel,
    /// What files say of the machine.
    pub source: &'a Source,
}

/// Runs a program once and counts it: as a whole, and each of its regions by its path.
pub fn count_marked(
    request: &CountRequest<'_>,
    here: &PerfEvents<'_>,
    program: &MarkedProgram<'_>,
) -> Result<(Counts, Vec<(String, Counts)>), CountError> {
    let events = request.selection.events();
    let plan = here.at_marks(events);
    if let Some(refusal) = nothing_at_marks(&plan) {
        return Err(refusal.into());
    }
    let asked = RecordRequest {
        rate_hz: RATE_HZ,
        at_marks: read_at_marks(&plan),
        program_output: program.output,
        ..RecordRequest::new(RecordTarget::Launch(program.command.to_vec()), program.recording)
    };
    let whole: RefCell<Option<Result<Box<dyn Counting + '_>, CountRefusal>>> = RefCell::new(None);
    let mut at_gate = |pid: u32| {
        let (events, share) = (events.to_vec(), request.share);
        let scope = Scope::Child(pid);
        let opened = here.open(&events::CountRequest { events, scope, too_many: TooMany::Multiplex, share });
        let started = opened.and_then(|mut counting| counting.start().map(|()| counting));
        *whole.borrow_mut() = Some(started);
    };
    let watchers = Watchers { at_gate: Some(&mut at_gate), ..Watchers::default() };
    let outcome =
        recorder::record_watched(&asked, program.kernel, program.source, watchers).map_err(not_recorded)?;
    let mut counts = begin(request.selection, &request.packages);
    counts.instrument = here.name();
    counts.target = program.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let elapsed_ns = u64::try_from(outcome.elapsed.as_nanos()).unwrap_or(u64::MAX);
    let mut run = CountedRun {
        elapsed_ns,
        ending: Some(outcome.ending),
        usage: None,
        counts: Vec::new(),
        intervals: Vec::new(),
    };
    let mut counting = whole.into_inner().transpose()?;
    if let Some(counting) = &mut counting {
        counting.stop()?;
        run.counts = counting.read()?;
        counts.remarks.extend(counting.notes());
    }
    counts.runs = vec![run];
    counts.metrics = request.selection.metrics(&counts, request.measured, request.memory_share);
    for note in &plan.notes {
        if !counts.remarks.contains(note) {
            counts.remarks.push(note.clone());
        }
    }
    counts.remarks.extend(no_regions(&outcome.marked, outcome.refusal.as_deref()));
    let regions = outcome.marked.regions.iter().map(|region| {
        let refused = &outcome.marked.refused;
        let of = RegionOf { request, plan: &plan, refused, region, program: &counts.runs };
        (region.name.clone(), of.counts(here))
    });
    let regions = regions.collect();
    Ok((counts, regions))
}

fn read_at_marks(plan: &MarkedPlan) -> ReadAtMarks {
    let clock = AtMarks::Account(ThreadAccount::ProcessorTime);
    let form = |form: &pmu::MarkedForm| MarkedEvent { leader: form.leader, attr: form.attr.clone() };
    ReadAtMarks { clock: plan.events.contains(&clock), events: plan.forms.iter().map(form).collect() }
}

/// Why nothing of all that was asked for can be read at marks; none if something can.
fn nothing_at_marks(plan: &MarkedPlan) -> Option<CountRefusal> {
    let reasons: Option<Vec<&Missing>> = plan
        .events
        .iter()
        .map(|event| match event {
            AtMarks::Missing(missing) => Some(missing),
            _ => None,
        })
        .collect();
    let first = match *reasons?.first()? {
        Missing::Refused(refusal) => refusal.to_string(),
        other => format!("{other:?}"),
    };
    Some(CountRefusal::Failed { what: "counting regions".to_owned(), reason: first })
}

fn not_recorded(error: RecordError) -> CountError {
    match error {
        RecordError::NoProgram { program } => {
            let reason = format!("no such program; {}", recorder::where_to_look(&program));
            CountError::Program { program, reason }
        }
        RecordError::NotExecutable { program, source } => {
            CountError::Program { program, reason: format!("cannot be executed: {source}") }
        }
        RecordError::System { what, source } => CountError::System { what, source },
        other => {
            CountRefusal::Failed { what: "watching regions".to_owned(), reason: other.to_string() }.into()
        }
    }
}

fn no_regions(marked: &MarkedCounts, refusal: Option<&str>) -> Option<String> {
    if !marked.regions.is_empty() {
        return None;
    }
    Some(match refusal {
        Some(refusal) => format!("Regions are not known: {refusal}."),
        None => "The program marked no region (docs/regions.md says how), or could not be entered: statically linked \
                 programs and those with rights of their own cannot."
            .to_owned(),
    })
}

/// One region, and what its counts are made with.
struct RegionOf<'a> {
    request: &'a CountRequest<'a>,
    plan: &'a MarkedPlan,
    refused: &'a BTreeMap<u64, u64>,
    region: &'a MarkedRegion,
    /// What was counted of all of it.
    program: &'a [CountedRun],
}

impl RegionOf<'_> {
    fn counts(&self, here: &PerfEvents<'_>) -> Counts {
        let CountRequest { selection, measured, memory_share, .. } = *self.request;
        let longest = |thread: &MarkedThread| thread.counted.as_ref().map_or(0, |counted| counted.wall_ns);
        let elapsed_ns = self.region.threads.iter().map(longest).max().unwrap_or(0);
        let counted = match self.request.share {
            CountShare::Each => self.each(),
            CountShare::Together => self.together(),
        };
        let mut counts = begin(selection, &self.request.packages);
        counts.instrument = here.name();
        counts.target = format!("region {}", self.region.name);
        counts.runs = vec![CountedRun {
            elapsed_ns,
            ending: None,
            usage: None,
            counts: counted,
            intervals: Vec::new(),
        }];
        counts.remarks.extend(self.remark());
        counts.metrics = selection.metrics_of_part(&counts, self.program, measured, memory_share);
        counts
    }

    fn each(&self) -> Vec<Count> {
        let of_thread = |thread: &MarkedThread| {
            let place = CountedPlace::Thread(thread.tid);
            let value =
                |event: usize| Count { event, place: place.clone(), value: self.value(event, thread) };
            (0..self.plan.events.len()).map(value).collect::<Vec<_>>()
        };
        self.region.threads.iter().flat_map(of_thread).collect()
    }

    /// All threads; what one of them lacks is missing. Threads none of whose visits was counted are told of in a remark.
    fn together(&self) -> Vec<Count> {
        let sum = |event: usize| {
            let some = self.region.threads.iter().filter(|thread| thread.counted.is_some());
            let values = some.map(|thread| self.value(event, thread));
            let value = values.reduce(added).unwrap_or(Value::Missing(Missing::NeverEnabled));
            Count { event, place: CountedPlace::Target, value }
        };
        (0..self.plan.events.len()).map(sum).collect()
    }

    fn value(&self, event: usize, thread: &MarkedThread) -> Value {
        let Some(counted) = &thread.counted else { return Value::Missing(Missing::NeverEnabled) };
        let whole = |raw: u64| {
            let ns = counted.wall_ns.max(1);
            Value::Counted { raw, enabled_ns: ns, running_ns: ns }
        };
        match &self.plan.events[event] {
            AtMarks::Missing(missing) => Value::Missing(missing.clone()),
            AtMarks::Account(account) => whole(match account {
                ThreadAccount::ProcessorTime => counted.cpu_ns,
                ThreadAccount::PageFaults => counted.kernel.page_faults(),
                ThreadAccount::MinorFaults => counted.kernel.minor_faults,
                ThreadAccount::MajorFaults => counted.kernel.major_faults,
                ThreadAccount::ContextSwitches => counted.kernel.context_switches(),
            }),
            AtMarks::Read => {
                let of_form = |form: usize| {
                    let count = counted.events.get(&(form as u64))?;
                    let (value, enabled_ns, running_ns) = (count.value, count.enabled_ns, count.running_ns);
                    Some(CounterReading { value, enabled_ns, running_ns })
                };
                match self.plan.reading(event, of_form) {
                    Some(CounterReading { value: raw, enabled_ns, running_ns }) => {
                        Value::Counted { raw, enabled_ns, running_ns }
                    }
                    None => Value::Missing(self.unread(event)),
                }
            }
        }
    }

    /// Why the program could not read what a thread of ours could.
    fn unread(&self, event: usize) -> Missing {
        let mut mine = self.plan.forms.iter().enumerate().filter(|(_, form)| form.event == event);
        let said = mine.find_map(|(form, _)| self.refused.get(&(form as u64)));
        let reason = match said {
            Some(0) => "its counter may not be read there (rdpmc)".to_owned(),
            Some(errno) => Errno(i32::try_from(*errno).unwrap_or(i32::MAX)).to_string(),
            None => "a thread was not counted: too many threads at once, or they ended too soon".to_owned(),
        };
        let name = &self.request.selection.events()[event].name;
        Missing::Refused(EventRefusal::of(name, "within the program", reason))
    }

    fn remark(&self) -> Option<String> {
        let threads = &self.region.threads;
        let visits: u64 = threads.iter().map(|thread| thread.visits).sum();
        let counted =
            |thread: &MarkedThread| thread.counted.as_ref().map_or(0, |counted| counted.kernel.visits);
        let counted: u64 = threads.iter().map(counted).sum();
        (counted < visits).then(|| {
            format!(
                "{counted} of {visits} visits were counted, the values are of these: its marks follow each other too closely to \
                 count all, the program may filter its system calls, or they had not ended"
            )
        })
    }
}

fn added(one: Value, other: Value) -> Value {
    match (one, other) {
        (
            Value::Counted { raw, enabled_ns, running_ns },
            Value::Counted { raw: more, enabled_ns: enabled_more, running_ns: running_more },
        ) => Value::Counted {
            raw: raw.wrapping_add(more),
            enabled_ns: enabled_ns + enabled_more,
            running_ns: running_ns + running_more,
        },
        (Value::Missing(missing), _) | (_, Value::Missing(missing)) => Value::Missing(missing),
    }
}
