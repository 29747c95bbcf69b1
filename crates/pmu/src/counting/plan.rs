//! Which events go into which group, and which run.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use events::{
    CountRefusal, CountedPlace, Demand, Event, PmuResources, Signal,
    event::Counters,
    placement::{Candidate, Round, groups, leader_among, rounds, with_leaders},
};

use super::{
    PerfEvents,
    encode::{Domain, Encoded},
    seats::Seat,
};
use crate::{Errno, OpenCounter};

/// An event of the request in one of its forms.
#[derive(Clone, Debug)]
pub(super) struct ReadForm {
    /// Which of the events asked for, or a leader that one of them needs.
    pub event: usize,
    /// As it is opened.
    pub encoded: Encoded,
    /// The event that must lead its group.
    pub leader: Option<usize>,
}

/// What each form takes of the PMU they share, and whom it follows.
fn demands<'a>(forms: impl Iterator<Item = &'a ReadForm> + Clone) -> Vec<Demand> {
    let place = |event: usize| forms.clone().position(|form| form.event == event);
    let demand =
        |form: &ReadForm| Demand { follows: form.leader.and_then(place), ..form.encoded.demand.clone() };
    forms.clone().map(demand).collect()
}

/// Events that are opened as one group.
#[derive(Clone, Debug)]
pub(super) struct CounterGroup {
    /// Leader first; never empty.
    pub forms: Vec<ReadForm>,
}

impl CounterGroup {
    /// Where its events compete.
    pub fn domain(&self) -> &Domain {
        &self.forms[0].encoded.domain
    }
}

/// Counters of a box that no file describes.
const UNKNOWN_BOX: u32 = 4;

/// How long a group is tried before it is said to get no counter.
const TRIAL: Duration = Duration::from_micros(300);

impl PerfEvents<'_> {
    /// What the events of a domain share: as the files say, and the counters that CPUID tells of.
    fn resources(&self, domain: &Domain) -> PmuResources {
        let known = PmuResources::of_pmu(domain.pmu(), self.catalogue());
        match (domain, known) {
            (Domain::Core { pmu, .. }, Some(PmuResources::Limited { registers, .. }))
                if self.is_core(pmu) =>
            {
                let counters = self.core_counters();
                let cycles = Counters { programmable: u32::MAX, fixed: Some(1) };
                let taken = if self.has_watchdog() { vec![cycles] } else { Vec::new() };
                PmuResources::Limited { general: counters.general, fixed: counters.fixed, taken, registers }
            }
            (_, Some(known)) => known,
            (Domain::Box { .. }, None) => PmuResources::counters(UNKNOWN_BOX),
            (_, None) => PmuResources::counters(1),
        }
    }

    /// Whether a PMU counts for a core. Where sysfs lists none, generic events are tried all the same.
    fn is_core(&self, pmu: &str) -> bool {
        self.pmus().iter().find(|known| known.name == pmu).is_none_or(|known| known.is_core())
    }

    /// The events with what they need, and behind them the leaders they need that nobody asked for.
    pub(super) fn with_leaders(&self, asked: &[Event]) -> Vec<Event> {
        with_leaders(asked, self.catalogue())
    }

    /// Every form of every event, and the events that have none, with the reason.
    pub(super) fn forms(&self, events: &[Event]) -> (Vec<ReadForm>, BTreeMap<usize, CountRefusal>) {
        let (mut forms, mut refused) = (Vec::new(), BTreeMap::new());
        for (event, asked) in events.iter().enumerate() {
            if matches!(asked.signal, Signal::Resctrl(_)) {
                continue;
            }
            let leader = leader_among(events, event, self.catalogue());
            match self.encode(asked) {
                Ok(encoded) => {
                    forms.extend(encoded.into_iter().map(|encoded| ReadForm { event, encoded, leader }));
                }
                Err(refusal) => {
                    refused.insert(event, refusal);
                }
            }
        }
        (forms, refused)
    }

    /// Divides forms into groups that fit. Breakpoints stay alone: together they would fail together.
    pub(super) fn plan(&self, forms: Vec<ReadForm>) -> Vec<CounterGroup> {
        // In the order of the request and of the boxes.
        let mut domains: Vec<(Domain, Vec<ReadForm>)> = Vec::new();
        for form in forms {
            match domains.iter_mut().find(|(domain, _)| *domain == form.encoded.domain) {
                Some((_, members)) => members.push(form),
                None => domains.push((form.encoded.domain.clone(), vec![form])),
            }
        }
        let mut planned = Vec::new();
        for (domain, forms) in domains {
            if domain == Domain::Breakpoints {
                planned.extend(forms.into_iter().map(|form| CounterGroup { forms: vec![form] }));
                continue;
            }
            for members in groups(&demands(forms.iter()), &self.resources(&domain)) {
                planned.push(CounterGroup {
                    forms: members.into_iter().map(|member| forms[member].clone()).collect(),
                });
            }
        }
        planned
    }

    /// Which events can be counted in one run. What cannot be counted here goes into the first, where opening says why.
    pub(super) fn plan_runs(&self, asked: &[Event]) -> Vec<Round> {
        let events = self.with_leaders(asked);
        let mut candidates: Vec<Candidate<Domain>> =
            events.iter().map(|_| Candidate { parts: Vec::new(), leader: None }).collect();
        let mut resources: BTreeMap<Domain, PmuResources> = BTreeMap::new();
        for form in self.forms(&events).0 {
            candidates[form.event].leader = form.leader;
            let domain = &form.encoded.domain;
            if !resources.contains_key(domain) {
                resources.insert(domain.clone(), self.resources(domain));
            }
            candidates[form.event].parts.push((form.encoded.domain, form.encoded.demand));
        }
        rounds(&candidates, asked.len(), &|domain| &resources[domain])
    }

    /// Halves groups that open and get no counter, until they do or are single. Gives what had to be split.
    pub(super) fn probed(&self, planned: Vec<CounterGroup>) -> (Vec<CounterGroup>, Vec<CounterGroup>) {
        let (mut proven, mut split) = (Vec::new(), Vec::new());
        let mut left: Vec<CounterGroup> = planned.into_iter().rev().collect();
        while let Some(group) = left.pop() {
            let is_hardware = matches!(group.domain(), Domain::Core { .. } | Domain::Box { .. });
            if group.forms.len() < 2 || !is_hardware || self.runs_at_once(&group) != Ok(false) {
                proven.push(group);
                continue;
            }
            let (first, second) = group.forms.split_at(group.forms.len() / 2);
            left.push(CounterGroup { forms: second.to_vec() });
            left.push(CounterGroup { forms: first.to_vec() });
            split.push(group);
        }
        (proven, split)
    }

    /// Whether a group gets counters, tried on this thread or on the first CPU of its boxes.
    fn runs_at_once(&self, group: &CounterGroup) -> Result<bool, Errno> {
        let seat = match group.domain() {
            Domain::Box { cpus, .. } => Seat::on_cpu(cpus.first().unwrap_or(0), CountedPlace::Target),
            _ => Seat::this_thread(),
        };
        let mut counters: Vec<OpenCounter<'_>> = Vec::new();
        for form in &group.forms {
            let mut event = form.encoded.event.clone();
            event.disabled = counters.is_empty();
            counters.push(seat.open(self.kernel, &event, counters.first())?);
        }
        let Some(leader) = counters.first() else {
            return Ok(true);
        };
        leader.start()?;
        let start = Instant::now();
        while start.elapsed() < TRIAL {
            std::hint::spin_loop();
        }
        leader.stop()?;
        let reading = leader.read()?;
        Ok(reading.running_ns > 0 || reading.enabled_ns == 0)
    }
}
