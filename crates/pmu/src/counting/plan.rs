//! Which events go into which group, and which run.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use events::{Event, Place, Refusal, Signal, Unit, event::Needs};

use super::{
    PerfEvents,
    counters::{Capacity, Demand, groups},
    encode::{Domain, Encoded},
    seats::Seat,
};
use crate::{Counter, Errno};

/// An event of the request in one of its forms.
#[derive(Clone, Debug)]
pub(super) struct Form {
    /// Which of the events asked for, or a leader that one of them needs.
    pub event: usize,
    /// As it is opened.
    pub encoded: Encoded,
    /// The event that must lead its group.
    pub leader: Option<usize>,
}

/// What each form takes of the PMU they share, and whom it follows.
fn demands<'a>(forms: impl Iterator<Item = &'a Form> + Clone) -> Vec<Demand> {
    let place = |event: usize| forms.clone().position(|form| form.event == event);
    let demand = |form: &Form| Demand { follows: form.leader.and_then(place), ..form.encoded.demand.clone() };
    forms.clone().map(demand).collect()
}

/// Events that are opened as one group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    /// Leader first; never empty.
    pub forms: Vec<Form>,
}

impl Group {
    /// Where its events compete.
    pub fn domain(&self) -> &Domain {
        &self.forms[0].encoded.domain
    }
}

/// Whether an event is the leader that another needs, under whatever name.
fn leads(event: &Event, leader: &Event) -> bool {
    event.signal == leader.signal && event.modifiers == leader.modifiers
}

/// Debug registers of an x86 core.
const BREAKPOINTS: u32 = 4;

/// Counters of an uncore box by the name of the PMU; the others have four.
const BOXES: [(&str, u32); 2] = [("amd_l3", 6), ("uncore_arb", 2)];

/// PMUs with a counter for each of their events.
const FREE_RUNNING: [&str; 4] = ["power", "msr", "cstate_", "uncore_imc_free_running"];

/// How long a group is tried before it is said to get no counter.
const TRIAL: Duration = Duration::from_micros(300);

impl PerfEvents<'_> {
    /// How many events of a domain can be counted at the same time.
    pub(super) fn capacity(&self, domain: &Domain) -> Capacity {
        let plain = |general| Capacity::Counters { general, fixed: 0, taken: Vec::new() };
        match domain {
            Domain::Kernel => Capacity::Unlimited,
            Domain::Breakpoints => plain(BREAKPOINTS),
            Domain::Core { pmu, .. } | Domain::Box { pmu, .. }
                if FREE_RUNNING.iter().any(|name| pmu.starts_with(name)) =>
            {
                Capacity::Unlimited
            }
            Domain::Core { pmu, .. }
                if self.pmus().iter().any(|known| known.name == *pmu && !known.is_core()) =>
            {
                plain(1)
            }
            Domain::Core { .. } => {
                let counters = self.core_counters();
                let cycles = events::event::Counters { programmable: u32::MAX, fixed: Some(1) };
                let taken = if self.has_watchdog() { vec![cycles] } else { Vec::new() };
                Capacity::Counters { general: counters.general, fixed: counters.fixed, taken }
            }
            Domain::Box { pmu, .. } => {
                let known = BOXES.iter().find(|(name, _)| pmu.starts_with(name));
                plain(known.map_or(4, |(_, general)| *general))
            }
        }
    }

    /// The events with what they need, and behind them the leaders they need that nobody asked for.
    pub(super) fn with_leaders(&self, asked: &[Event]) -> Vec<Event> {
        let mut events: Vec<Event> = asked.iter().map(|event| self.with_needs(event)).collect();
        for index in 0..events.len() {
            if let Some(leader) = self.leader(&events[index])
                && !events.iter().any(|event| leads(event, &leader))
            {
                events.push(leader);
            }
        }
        events
    }

    /// An event by its code needs what the catalogue says of that code.
    fn with_needs(&self, event: &Event) -> Event {
        let mut event = event.clone();
        if let Signal::Encoded(encoding) = &event.signal
            && encoding.unit == Unit::Core
            && event.needs == Needs::default()
            && let Some(entry) = self.catalogue().and_then(|catalogue| catalogue.of_encoding(encoding))
        {
            event.needs = entry.needs();
        }
        event
    }

    /// What must lead an event's group, in the modes of the event.
    fn leader(&self, event: &Event) -> Option<Event> {
        let leader = self.catalogue()?.event(event.needs.leader.as_deref()?)?;
        let Signal::Encoded(mut encoding) = leader.signal.clone() else {
            return None;
        };
        if let Signal::Encoded(follower) = &event.signal {
            encoding.pmu.clone_from(&follower.pmu);
        }
        Some(Event { signal: Signal::Encoded(encoding), modifiers: event.modifiers, ..leader })
    }

    /// Every form of every event, and the events that have none, with the reason.
    pub(super) fn forms(&self, events: &[Event]) -> (Vec<Form>, BTreeMap<usize, Refusal>) {
        let (mut forms, mut refused) = (Vec::new(), BTreeMap::new());
        for (event, asked) in events.iter().enumerate() {
            if matches!(asked.signal, Signal::Resctrl(_)) {
                continue;
            }
            let leader = self.leader(asked);
            let leader = leader.and_then(|leader| events.iter().position(|event| leads(event, &leader)));
            match self.encode(asked) {
                Ok(encoded) => {
                    forms.extend(encoded.into_iter().map(|encoded| Form { event, encoded, leader }));
                }
                Err(refusal) => {
                    refused.insert(event, refusal);
                }
            }
        }
        (forms, refused)
    }

    /// Divides forms into groups that fit. Breakpoints stay alone: together they would fail together.
    pub(super) fn plan(&self, forms: Vec<Form>) -> Vec<Group> {
        // In the order of the request and of the boxes.
        let mut domains: Vec<(Domain, Vec<Form>)> = Vec::new();
        for form in forms {
            match domains.iter_mut().find(|(domain, _)| *domain == form.encoded.domain) {
                Some((_, members)) => members.push(form),
                None => domains.push((form.encoded.domain.clone(), vec![form])),
            }
        }
        let mut planned = Vec::new();
        for (domain, forms) in domains {
            if domain == Domain::Breakpoints {
                planned.extend(forms.into_iter().map(|form| Group { forms: vec![form] }));
                continue;
            }
            for members in groups(&demands(forms.iter()), &self.capacity(&domain)) {
                planned
                    .push(Group { forms: members.into_iter().map(|member| forms[member].clone()).collect() });
            }
        }
        planned
    }

    /// The events that would have to share counters: those outside the first group of their domain.
    pub(super) fn without_room(&self, forms: &[Form]) -> Vec<usize> {
        let mut waiting: Vec<usize> = Vec::new();
        let mut domains: BTreeMap<&Domain, Vec<&Form>> = BTreeMap::new();
        for form in forms {
            domains.entry(&form.encoded.domain).or_default().push(form);
        }
        for (domain, forms) in domains {
            let later =
                groups(&demands(forms.iter().copied()), &self.capacity(domain)).into_iter().skip(1).flatten();
            waiting.extend(later.map(|member| forms[member].event));
        }
        waiting.sort_unstable();
        waiting.dedup();
        waiting
    }

    /// The first run with room takes an event. What cannot be counted here goes into the first, where opening says why.
    pub(super) fn plan_runs(&self, events: &[Event]) -> Result<Vec<Vec<usize>>, Refusal> {
        let mut runs: Vec<Vec<usize>> = Vec::new();
        for event in 0..events.len() {
            let room = runs.iter_mut().find(|run| {
                let with: Vec<Event> =
                    run.iter().chain([&event]).map(|&member| events[member].clone()).collect();
                self.without_room(&self.forms(&self.with_leaders(&with)).0).is_empty()
            });
            match room {
                Some(run) => run.push(event),
                None => runs.push(vec![event]),
            }
        }
        Ok(runs)
    }

    /// Halves groups that open and get no counter, until they do or are single. Gives what had to be split.
    pub(super) fn probed(&self, planned: Vec<Group>) -> (Vec<Group>, Vec<Group>) {
        let (mut proven, mut split) = (Vec::new(), Vec::new());
        let mut left: Vec<Group> = planned.into_iter().rev().collect();
        while let Some(group) = left.pop() {
            let is_hardware = matches!(group.domain(), Domain::Core { .. } | Domain::Box { .. });
            if group.forms.len() < 2 || !is_hardware || self.runs_at_once(&group) != Ok(false) {
                proven.push(group);
                continue;
            }
            let (first, second) = group.forms.split_at(group.forms.len() / 2);
            left.push(Group { forms: second.to_vec() });
            left.push(Group { forms: first.to_vec() });
            split.push(group);
        }
        (proven, split)
    }

    /// Whether a group gets counters, tried on this thread or on the first CPU of its boxes.
    fn runs_at_once(&self, group: &Group) -> Result<bool, Errno> {
        let seat = match group.domain() {
            Domain::Box { cpus, .. } => Seat::on_cpu(cpus.first().unwrap_or(0), Place::Target),
            _ => Seat::this_thread(),
        };
        let mut counters: Vec<Counter<'_>> = Vec::new();
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
