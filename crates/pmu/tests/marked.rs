//! Which events threads of a program can read at their marks, by what a scripted kernel answers.
#![allow(clippy::unwrap_used)]

use std::fs;

use events::{Event, Missing, Signal};
use machine::Source;
use pmu::{
    AtMarks, CounterReading, Errno, MarkedPlan, PerfEvents, ThreadAccount, bindings,
    event::Modes,
    scripted::{Behaviour, Scripted, ScriptedRequest},
};

const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const UNREADABLE: u64 = 3;
const UNKNOWN: u64 = 5;
const ALONE: u64 = 6;

fn answer(request: ScriptedRequest<'_>) -> Result<Behaviour, Errno> {
    if request.event.modes != Modes::User {
        return Err(Errno(libc::EACCES));
    }
    match request.event.config {
        UNKNOWN => Err(Errno(libc::ENOENT)),
        ALONE if request.group > 0 => Err(Errno(libc::EINVAL)),
        config => {
            let mut page = bindings::perf_event_mmap_page::default();
            page.__bindgen_anon_1.capabilities = if config == UNREADABLE { 0 } else { 1 << 2 | 1 << 3 };
            Ok(Behaviour { map: Ok((page, Vec::new())), ..Behaviour::counts(1) })
        }
    }
}

fn plan(events: &[Event]) -> (MarkedPlan, usize) {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("proc/sys/kernel")).unwrap();
    fs::write(root.path().join("proc/sys/kernel/perf_event_paranoid"), "2\n").unwrap();
    let kernel = Scripted::new(answer);
    let plan = PerfEvents::new(&kernel, Source::under(root.path())).at_marks(events);
    let left_open = kernel.open_events();
    (plan, left_open)
}

fn hardware(name: &str, number: u64) -> Event {
    Event::new(name, Signal::Hardware(number))
}

fn refusal(plan: &MarkedPlan, event: usize) -> String {
    match &plan.events[event] {
        AtMarks::Missing(Missing::Refused(refusal)) => refusal.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn events_are_tried_as_threads_will_open_them() {
    let events =
        [hardware("cycles", CYCLES), hardware("instructions", INSTRUCTIONS), hardware("alone", ALONE)];
    let (plan, left_open) = plan(&events);
    assert_eq!((&plan.events[..], left_open), (&[const { AtMarks::Read }; 3][..], 0));
    let shape: Vec<(usize, Option<usize>)> =
        plan.forms.iter().map(|form| (form.event, form.leader)).collect();
    assert_eq!(shape, [(0, None), (1, Some(0)), (2, None)], "what fits no group leads its own");
    for form in &plan.forms {
        let flags = u64::from_ne_bytes(form.attr[40..48].try_into().unwrap());
        // disabled, inherit, exclude_kernel: it counts at once, for its own thread, in the mode that is allowed.
        assert_eq!((flags & 1, flags >> 1 & 1, flags >> 5 & 1), (0, 0, 1), "{flags:#x}");
        let size = u32::from_ne_bytes(form.attr[4..8].try_into().unwrap());
        assert_eq!(size as usize, form.attr.len());
    }
    assert_eq!(plan.forms[1].attr[8], INSTRUCTIONS as u8);
    assert!(plan.notes.iter().any(|note| note.contains("user mode only")), "{:?}", plan.notes);
}

#[test]
fn what_cannot_be_read_says_why_and_what_else_there_is() {
    let events = [hardware("first", UNREADABLE), hardware("second", UNKNOWN), hardware("cycles", CYCLES)];
    let (plan, _) = plan(&events);
    let unreadable = refusal(&plan, 0);
    assert!(unreadable.contains("rdpmc") && unreadable.contains("memwall run --event first"), "{unreadable}");
    assert!(refusal(&plan, 1).contains("ENOENT"), "{}", refusal(&plan, 1));
    let shape: Vec<(usize, Option<usize>)> =
        plan.forms.iter().map(|form| (form.event, form.leader)).collect();
    assert_eq!(shape, [(2, None)], "it does not follow one that is not there");
}

#[test]
fn what_the_kernel_keeps_of_every_thread_needs_no_event() {
    let software = |name: &str, number: u32| Event::new(name, Signal::Software(number.into()));
    let mut one_mode = software("page-faults:u", bindings::PERF_COUNT_SW_PAGE_FAULTS);
    one_mode.modifiers.user = true;
    let events = [
        software("task-clock", bindings::PERF_COUNT_SW_TASK_CLOCK),
        software("page-faults", bindings::PERF_COUNT_SW_PAGE_FAULTS),
        software("major-faults", bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ),
        software("minor-faults", bindings::PERF_COUNT_SW_PAGE_FAULTS_MIN),
        software("context-switches", bindings::PERF_COUNT_SW_CONTEXT_SWITCHES),
        software("cpu-migrations", bindings::PERF_COUNT_SW_CPU_MIGRATIONS),
        one_mode,
    ];
    let (plan, _) = plan(&events);
    let accounts = [
        ThreadAccount::ProcessorTime,
        ThreadAccount::PageFaults,
        ThreadAccount::MajorFaults,
        ThreadAccount::MinorFaults,
        ThreadAccount::ContextSwitches,
    ];
    assert_eq!(plan.events[..5], accounts.map(AtMarks::Account));
    assert!(refusal(&plan, 5).contains("without a descriptor"), "{}", refusal(&plan, 5));
    assert!(refusal(&plan, 6).contains("without a descriptor"), "no account is kept of one mode");
    assert_eq!(plan.forms, []);
}

#[test]
fn forms_of_one_event_are_one_reading() {
    let (mut plan, _) = plan(&[hardware("cycles", CYCLES)]);
    let mut other = plan.forms[0].clone();
    other.leader = None;
    plan.forms.push(other);
    let readings = [(5, 100, 70), (7, 100, 30)].map(|(value, enabled_ns, running_ns)| CounterReading {
        value,
        enabled_ns,
        running_ns,
    });
    // On two kinds of cores the time switched on is one.
    let both = plan.reading(0, |form| Some(readings[form]));
    assert_eq!(both, Some(CounterReading { value: 12, enabled_ns: 100, running_ns: 100 }));
    assert_eq!(plan.reading(0, |form| (form == 0).then_some(readings[0])), None, "half a reading is none");
}
