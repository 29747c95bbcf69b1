//! Opening a request: every group on every seat, and what becomes of those that are refused.

use std::collections::{BTreeMap, BTreeSet};

use events::{CountRefusal, CountRequest, CountedPlace, Event as Asked, Missing, Scope, Signal, TooMany};

use super::{
    PerfEvents,
    encode::Domain,
    gather::CountedPart,
    plan::{CounterGroup, ReadForm},
    resctrl::{MonGroup, Monitor},
    seats::{self, Seat},
    session::{CountingMember, OpenedEvents, PerfCounting},
    words::{nothing_opened, whom},
};
use crate::{Errno, KernelEvent, OpenCounter, event::Modes, refusal::Need};

/// How often a process is looked at again while it keeps starting threads.
const ATTEMPTS: usize = 16;

/// What is open so far.
pub(super) struct Opening<'p, 'k> {
    here: &'p PerfEvents<'k>,
    asked: &'p [Asked],
    groups: Vec<OpenedEvents<'k>>,
    /// What could not be opened.
    refused: Vec<(CountedPart, Errno)>,
    /// Boxes that could not, by event.
    phantoms: BTreeMap<usize, Vec<(CountedPart, Errno)>>,
    pub notes: BTreeSet<String>,
    /// Threads that ended before their turn.
    gone: usize,
    /// The kernel does not read inherited groups as a whole.
    reads_singly: bool,
}

pub(super) fn open<'k>(
    here: &PerfEvents<'k>,
    request: &CountRequest,
) -> Result<PerfCounting<'k>, CountRefusal> {
    if request.too_many == TooMany::AllAtOnce {
        return Err(CountRefusal::Failed {
            what: "counting all events at once".into(),
            reason: "a real PMU has only so many counters; let events take turns, or split them over runs"
                .into(),
        });
    }
    let events = here.with_leaders(&request.events);
    let (forms, mut refused) = here.forms(&events);
    if request.too_many == TooMany::Refuse
        && let Some(refusal) =
            CountRefusal::unless_one_round(&request.events, &here.plan_runs(&request.events))
    {
        return Err(refusal);
    }
    let (monitored, monitors) = monitors(here, request, &mut refused);
    let (groups, split) =
        if here.probes { here.probed(here.plan(forms)) } else { (here.plan(forms), Vec::new()) };
    let mut opening = attach(here, request, &events, &groups)?;
    for group in split {
        let names: Vec<_> = group.forms.iter().map(|form| &*events[form.event].name).collect();
        opening.notes.insert(format!(
            "{} opened as one group and got no counter; split into smaller groups",
            names.join(", ")
        ));
    }
    opening.settle_phantoms();
    let mut parts: Vec<CountedPart> = opening.refused.into_iter().map(|(part, _)| part).collect();
    for (event, refusal) in refused {
        let missing = Missing::Refused(refusal.into());
        parts.push(CountedPart {
            event,
            seat: 0,
            place: CountedPlace::Target,
            pmu: None,
            value: Err(missing),
        });
    }
    let was_asked_for =
        |group: &OpenedEvents<'_>| group.members.iter().any(|member| member.event < request.events.len());
    if !opening.groups.iter().any(was_asked_for) && monitors.is_empty() {
        return Err(nothing_opened(request, &parts));
    }
    Ok(PerfCounting {
        names: events.iter().map(|event| event.name.clone()).collect(),
        asked: request.events.len(),
        share: request.share,
        groups: opening.groups,
        refused: parts,
        monitors,
        monitored,
        notes: opening.notes,
        has_watchdog: here.has_watchdog(),
    })
}

/// The events resctrl keeps, with the group it keeps them for.
fn monitors(
    here: &PerfEvents<'_>,
    request: &CountRequest,
    refused: &mut BTreeMap<usize, CountRefusal>,
) -> (Option<MonGroup>, Vec<Monitor>) {
    let mut monitors = Vec::new();
    for (event, asked) in request.events.iter().enumerate() {
        let Signal::Resctrl(counter) = &asked.signal else {
            continue;
        };
        match Monitor::new(event, &asked.name, counter, &here.source) {
            Ok(monitor) => monitors.push((event, monitor)),
            Err(refusal) => {
                refused.insert(event, refusal);
            }
        }
    }
    if monitors.is_empty() {
        return (None, Vec::new());
    }
    let group = MonGroup::create(&here.source)
        .and_then(|group| group.admit(&request.scope, &here.source).map(|()| group));
    match group {
        Ok(group) => (Some(group), monitors.into_iter().map(|(_, monitor)| monitor).collect()),
        Err(reason) => {
            for (event, _) in monitors {
                let name = request.events[event].name.clone();
                refused.insert(event, CountRefusal::NotHere { event: name, reason: reason.clone() });
            }
            (None, Vec::new())
        }
    }
}

/// Opens on every seat. A process is only covered if no thread appeared meanwhile: one that did may have inherited
/// its events or not, and nothing tells which. Then all are closed and opened again.
fn attach<'p, 'k>(
    here: &'p PerfEvents<'k>,
    request: &'p CountRequest,
    events: &'p [Asked],
    groups: &[CounterGroup],
) -> Result<Opening<'p, 'k>, CountRefusal> {
    let mut attempt = 1;
    loop {
        let seats = seats::seats(&request.scope, &here.source)?;
        let mut opening = Opening::new(here, events);
        for (number, seat) in seats.iter().enumerate() {
            opening.seat(number, seat, groups);
        }
        if opening.gone > 0 && opening.gone == seats.len() {
            return Err(CountRefusal::Failed {
                what: format!("attaching to {}", whom(&request.scope)),
                reason: "ESRCH: it has ended; start it again, or look for its new number".into(),
            });
        }
        let newcomers = match request.scope {
            Scope::Process(pid) => newcomers(here, pid, &seats),
            _ => 0,
        };
        if newcomers > 0 && attempt < ATTEMPTS {
            attempt += 1;
            continue;
        }
        if newcomers > 0 {
            opening.notes.insert(format!(
                "the process kept starting threads while it was attached to: {newcomers} may be missing"
            ));
        }
        opening.boxes(&request.scope, groups);
        return Ok(opening);
    }
}

/// How many threads run now that had no seat.
fn newcomers(here: &PerfEvents<'_>, pid: u32, seats: &[Seat]) -> usize {
    let seated = |tid: &u32| seats.iter().any(|seat| seat.place == CountedPlace::Thread(*tid));
    // A process that ended has no new threads either.
    let threads = seats::threads(pid, &here.source).unwrap_or_default();
    threads.iter().filter(|tid| !seated(tid)).count()
}

impl<'p, 'k> Opening<'p, 'k> {
    pub fn new(here: &'p PerfEvents<'k>, asked: &'p [Asked]) -> Self {
        Self {
            here,
            asked,
            groups: Vec::new(),
            refused: Vec::new(),
            phantoms: BTreeMap::new(),
            notes: BTreeSet::new(),
            gone: 0,
            reads_singly: false,
        }
    }

    /// Opens everything that follows the target on one seat.
    fn seat(&mut self, number: usize, seat: &Seat, groups: &[CounterGroup]) {
        let mut gone = false;
        for group in groups {
            let elsewhere = match group.domain() {
                Domain::Box { .. } => true,
                Domain::Core { cpus: Some(cpus), .. } => seat.cpu().is_some_and(|cpu| !cpus.contains(cpu)),
                _ => false,
            };
            if !elsewhere {
                gone |= self.group(number, seat, group);
            }
        }
        self.gone += usize::from(gone);
    }

    /// Opens one group; gives whether the thread has ended.
    fn group(&mut self, number: usize, seat: &Seat, group: &CounterGroup) -> bool {
        let mut members: Vec<CountingMember<'k>> = Vec::new();
        let mut reads_whole = false;
        for form in &group.forms {
            let opened = match members.first() {
                None => self.lead(seat, form, group.forms.len() > 1).map(|(counter, whole)| {
                    reads_whole = whole;
                    counter
                }),
                Some(leader) => self.one(seat, form, Some(&leader.counter), false),
            };
            match opened {
                Ok(counter) => members.push(CountingMember::new(form, number, seat, counter)),
                Err(Errno(libc::ESRCH)) if seat.inherits && !seat.on_exec => return true,
                // It does not fit the group after all; alone it may.
                Err(Errno(libc::EINVAL)) if !members.is_empty() => self.alone(number, seat, form),
                Err(errno) => self.refuse(number, seat, form, errno),
            }
        }
        if !members.is_empty() {
            self.groups.push(OpenedEvents { members, reads_whole, on_exec: seat.on_exec });
        }
        false
    }

    /// Opens the first of a group, to be read as a whole where the kernel does that; gives whether it does.
    fn lead(
        &mut self,
        seat: &Seat,
        form: &ReadForm,
        several: bool,
    ) -> Result<(OpenCounter<'k>, bool), Errno> {
        let whole = several && !self.reads_singly;
        match self.one(seat, form, None, whole) {
            Err(Errno(libc::EINVAL)) if whole && seat.inherits => {
                // Older kernels do not read inherited groups as a whole.
                let counter = self.one(seat, form, None, false)?;
                self.reads_singly = true;
                Ok((counter, false))
            }
            answer => answer.map(|counter| (counter, whole)),
        }
    }

    fn alone(&mut self, number: usize, seat: &Seat, form: &ReadForm) {
        match self.one(seat, form, None, false) {
            Ok(counter) => {
                let name = &self.asked[form.event].name;
                self.notes
                    .insert(format!("{name} was refused beside the others (EINVAL) and counts on its own"));
                let members = vec![CountingMember::new(form, number, seat, counter)];
                self.groups.push(OpenedEvents { members, reads_whole: false, on_exec: seat.on_exec });
            }
            Err(errno) => self.refuse(number, seat, form, errno),
        }
    }

    fn one(
        &mut self,
        seat: &Seat,
        form: &ReadForm,
        leader: Option<&OpenCounter<'k>>,
        whole: bool,
    ) -> Result<OpenCounter<'k>, Errno> {
        self.one_as(seat, form, leader, whole).map(|(counter, _)| counter)
    }

    /// Opens one event, in user mode alone if that is all we may; gives also what was opened.
    pub fn one_as(
        &mut self,
        seat: &Seat,
        form: &ReadForm,
        leader: Option<&OpenCounter<'k>>,
        whole: bool,
    ) -> Result<(OpenCounter<'k>, KernelEvent), Errno> {
        let event = KernelEvent {
            // A group counts when its leader does.
            disabled: leader.is_none(),
            enable_on_exec: leader.is_none() && seat.on_exec,
            inherit: seat.inherits,
            group_read: whole,
            ..form.encoded.event.clone()
        };
        let level = self.here.surroundings.paranoid_level.unwrap_or(0);
        let user_is_left = form.encoded.may_fall_back_to_user && !seat.is_wide() && level >= 2;
        match seat.open(self.here.kernel, &event, leader) {
            Err(errno) if errno.is_permission() && user_is_left => {
                let event = KernelEvent { modes: Modes::User, ..event };
                let counter = seat.open(self.here.kernel, &event, leader)?;
                self.notes.insert(format!(
                    "{} counts in user mode only: kernel.perf_event_paranoid is {level}, the kernel's share needs 1",
                    self.asked[form.event].name
                ));
                Ok((counter, event))
            }
            answer => answer.map(|counter| (counter, event)),
        }
    }

    fn refuse(&mut self, number: usize, seat: &Seat, form: &ReadForm, errno: Errno) {
        let need = if seat.is_wide() { Need::WholeCpu } else { form.encoded.need };
        let words = self.here.words(&self.asked[form.event], &form.encoded, errno, need);
        let part = CountedPart {
            event: form.event,
            seat: number,
            place: seat.place.clone(),
            pmu: CountingMember::pmu(form, seat),
            value: Err(Missing::Refused(words)),
        };
        self.refused.push((part, errno));
    }

    /// Opens the boxes: once per CPU of their mask, whatever thread the other events follow.
    fn boxes(&mut self, scope: &Scope, groups: &[CounterGroup]) {
        let packages: Option<BTreeSet<u32>> = match scope {
            Scope::Cpus(cpus) | Scope::Cgroup(_, cpus) => {
                Some(cpus.iter().map(|cpu| self.here.package(cpu)).collect())
            }
            _ => None,
        };
        let mut number = 0;
        for group in groups {
            let Domain::Box { pmu, cpus } = group.domain() else {
                continue;
            };
            for cpu in cpus.iter() {
                let package = self.here.package(cpu);
                if packages.as_ref().is_some_and(|packages| !packages.contains(&package)) {
                    continue;
                }
                number += 1;
                let seat = Seat::on_cpu(cpu, CountedPlace::Box { package, name: pmu.clone() });
                let before = self.refused.len();
                self.group(number, &seat, group);
                // Kept apart until it is known whether the other boxes work.
                for (part, errno) in self.refused.split_off(before) {
                    self.phantoms.entry(part.event).or_default().push((part, errno));
                }
            }
        }
    }

    /// A box that is refused while others of the same event work is not there: skipped, and named. If all are, or one
    /// for another reason, the event is refused.
    fn settle_phantoms(&mut self) {
        let open: BTreeSet<usize> =
            self.groups.iter().flat_map(|group| group.members.iter().map(|member| member.event)).collect();
        for (event, phantoms) in std::mem::take(&mut self.phantoms) {
            if !open.contains(&event) || !phantoms.iter().all(|(_, errno)| NOTHING_THERE.contains(&errno.0)) {
                self.refused.extend(phantoms);
                continue;
            }
            let reasons: BTreeSet<String> = phantoms.iter().map(|(_, errno)| errno.to_string()).collect();
            let mut boxes: Vec<&str> =
                phantoms.iter().filter_map(|(part, _)| box_name(&part.place)).collect();
            // Once per package each.
            boxes.dedup();
            let listed = match boxes.as_slice() {
                [one] => format!("{one} is listed by sysfs, but nothing answers there"),
                several => format!("{} are listed by sysfs, but nothing answers there", several.join(", ")),
            };
            let reasons: Vec<_> = reasons.into_iter().collect();
            let name = &self.asked[event].name;
            self.notes.insert(format!("{name}: {listed} ({}); skipped", reasons.join(", ")));
        }
    }
}

/// Refused because nothing is there, not for lack of permission or descriptors.
const NOTHING_THERE: [i32; 6] =
    [libc::ENODEV, libc::ENOENT, libc::ENXIO, libc::EIO, libc::EOPNOTSUPP, libc::EINVAL];

fn box_name(place: &CountedPlace) -> Option<&str> {
    match place {
        CountedPlace::Box { name, .. } => Some(name),
        _ => None,
    }
}
