//! Events that threads of a program read themselves, where regions of it begin and end.
//!
//! A thread reads its own counters from the page that the kernel shows of each (`rdpmc`), or asks the kernel for the accounts it keeps
//! of every thread. Whether that can be had is tried here, on a thread of ours.

use events::{Event as Asked, EventRefusal, Missing, Signal};
use perf_event_open_sys::bindings;

use super::{
    PerfEvents,
    encode::Domain,
    gather::one_seat,
    open::Opening,
    plan::{CounterGroup, ReadForm},
    seats::Seat,
};
use crate::{CounterReading, Errno, KernelEvent, OpenCounter, live};

/// How events are read at marks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MarkedPlan {
    /// How each event that was asked for is read, in that order.
    pub events: Vec<AtMarks>,
    /// What each thread opens.
    pub forms: Vec<MarkedForm>,
    /// What limits the counts, in plain sentences.
    pub notes: Vec<String>,
}

/// How an event is read at marks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtMarks {
    /// The kernel keeps an account of it for each thread.
    Account(ThreadAccount),
    /// By the thread itself; forms of the plan are of this event.
    Read,
    /// Not at all.
    Missing(Missing),
}

/// What the kernel keeps of each thread, whoever asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadAccount {
    /// Processor time in nanoseconds.
    ProcessorTime,
    /// Page faults, with disk or without.
    PageFaults,
    /// Page faults that needed no disk.
    MinorFaults,
    /// Page faults that did.
    MajorFaults,
    /// Context switches.
    ContextSwitches,
}

/// An event as a thread opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedForm {
    /// Which of the events asked for; beyond them, a leader that one of them needs.
    pub event: usize,
    /// The form that leads its group; none if it leads or is alone.
    pub leader: Option<usize>,
    /// The kernel's form of it (`perf_event_attr`).
    pub attr: Vec<u8>,
}

impl MarkedPlan {
    /// One thread's reading of an event from the readings of its forms; none if one is missing.
    pub fn reading(
        &self,
        event: usize,
        of_form: impl Fn(usize) -> Option<CounterReading>,
    ) -> Option<CounterReading> {
        let mine = self.forms.iter().enumerate().filter(|(_, form)| form.event == event);
        let readings: Vec<CounterReading> = mine.map(|(number, _)| of_form(number)).collect::<Option<_>>()?;
        (!readings.is_empty()).then(|| one_seat(&readings.iter().collect::<Vec<_>>()))
    }
}

impl PerfEvents<'_> {
    /// How events can be read at the marks of a program's regions.
    pub fn at_marks(&self, asked: &[Asked]) -> MarkedPlan {
        let mut plan = MarkedPlan {
            events: asked
                .iter()
                .map(|event| account(event).map_or(AtMarks::Read, AtMarks::Account))
                .collect(),
            ..MarkedPlan::default()
        };
        let events = self.with_leaders(asked);
        let (mut forms, refused) = self.forms(&events);
        forms.retain(|form| !matches!(plan.events.get(form.event), Some(AtMarks::Account(_))));
        for (event, refusal) in refused {
            plan.refuse(event, Missing::Refused(refusal.into()));
        }
        let (own, other): (Vec<_>, Vec<_>) =
            forms.into_iter().partition(|form| matches!(form.encoded.domain, Domain::Core { .. }));
        for form in other {
            plan.refuse(form.event, Missing::Refused(not_of_a_thread(&events[form.event], &form)));
        }
        let mut trial = Trial { here: self, events: &events, opening: Opening::new(self, &events) };
        for group in self.plan(own) {
            trial.group(&group, &mut plan);
        }
        plan.notes.extend(trial.opening.notes);
        for (event, asked) in asked.iter().enumerate() {
            if matches!(asked.signal, Signal::Resctrl(_)) {
                let reason = "resctrl keeps it for whole processes, not for threads".to_owned();
                plan.refuse(event, Missing::Refused(EventRefusal::of(&asked.name, "resctrl", reason)));
            }
        }
        plan
    }
}

impl MarkedPlan {
    fn refuse(&mut self, event: usize, missing: Missing) {
        if let Some(known) = self.events.get_mut(event)
            && *known == AtMarks::Read
        {
            *known = AtMarks::Missing(missing);
        }
    }
}

/// Opens events on this thread, to see whether threads of a program could.
struct Trial<'p, 'k> {
    here: &'p PerfEvents<'k>,
    events: &'p [Asked],
    opening: Opening<'p, 'k>,
}

impl<'k> Trial<'_, 'k> {
    fn group(&mut self, group: &CounterGroup, plan: &mut MarkedPlan) {
        let seat = Seat::this_thread();
        let mut leader: Option<(usize, OpenCounter<'k>)> = None;
        for form in &group.forms {
            let joined = self.opening.one_as(&seat, form, leader.as_ref().map(|(_, counter)| counter), false);
            // What does not fit the group counts on its own.
            let (opened, follows) = match joined {
                Err(Errno(libc::EINVAL)) if leader.is_some() => {
                    (self.opening.one_as(&seat, form, None, false), false)
                }
                joined => (joined, leader.is_some()),
            };
            let (counter, event) = match opened {
                Ok(opened) => opened,
                Err(errno) => {
                    let words =
                        self.here.words(&self.events[form.event], &form.encoded, errno, form.encoded.need);
                    plan.refuse(form.event, Missing::Refused(words));
                    continue;
                }
            };
            if !counter.map(0).is_ok_and(|page| page.allows_rdpmc()) {
                plan.refuse(form.event, Missing::Refused(unreadable(&self.events[form.event])));
                continue;
            }
            let attr = live::bytes(&KernelEvent { disabled: false, ..event });
            let leads = leader.as_ref().filter(|_| follows).map(|(number, _)| *number);
            plan.forms.push(MarkedForm { event: form.event, leader: leads, attr });
            if leader.is_none() {
                leader = Some((plan.forms.len() - 1, counter));
            }
        }
    }
}

/// The kernel's own account of a software event, whole: of one mode alone it keeps none.
fn account(asked: &Asked) -> Option<ThreadAccount> {
    let Signal::Software(number) = asked.signal else { return None };
    if asked.modifiers.user != asked.modifiers.kernel {
        return None;
    }
    match u32::try_from(number).ok()? {
        bindings::PERF_COUNT_SW_CPU_CLOCK | bindings::PERF_COUNT_SW_TASK_CLOCK => {
            Some(ThreadAccount::ProcessorTime)
        }
        bindings::PERF_COUNT_SW_PAGE_FAULTS => Some(ThreadAccount::PageFaults),
        bindings::PERF_COUNT_SW_PAGE_FAULTS_MIN => Some(ThreadAccount::MinorFaults),
        bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ => Some(ThreadAccount::MajorFaults),
        bindings::PERF_COUNT_SW_CONTEXT_SWITCHES => Some(ThreadAccount::ContextSwitches),
        _ => None,
    }
}

fn by_samples(name: &str) -> String {
    format!("'memwall run --event {name}' counts it in each region by samples")
}

fn not_of_a_thread(asked: &Asked, form: &ReadForm) -> EventRefusal {
    let reason = match form.encoded.domain {
        Domain::Box { .. } => {
            "it counts for a whole package, not for the thread that is in a region".to_owned()
        }
        _ => {
            format!("a thread cannot read it at its marks without a descriptor; {}", by_samples(&asked.name))
        }
    };
    EventRefusal::of(&asked.name, "at marks", reason)
}

fn unreadable(asked: &Asked) -> EventRefusal {
    let reason = format!(
        "the kernel lets no program read its counter itself (rdpmc; see the file rdpmc of the PMU in \
         /sys/bus/event_source/devices); {}",
        by_samples(&asked.name)
    );
    EventRefusal::of(&asked.name, "at marks", reason)
}
