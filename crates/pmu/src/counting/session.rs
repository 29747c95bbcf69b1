//! Events that are open.

use std::collections::BTreeSet;

use events::{Count, CountRefusal, CountShare, CountedPlace, Counting, Missing};

use super::{
    encode::Domain,
    gather::{CountedPart, gather},
    plan::ReadForm,
    resctrl::{MonGroup, Monitor},
    seats::Seat,
    self_read::{Instructions, self_read},
};
use crate::{CounterReading, Errno, Mapping, OpenCounter};

/// Open events of a request; closed when dropped.
pub struct PerfCounting<'k> {
    /// Of the events asked for; behind them, of leaders they need.
    pub(super) names: Vec<String>,
    /// How many were asked for.
    pub(super) asked: usize,
    pub(super) share: CountShare,
    pub(super) groups: Vec<OpenedEvents<'k>>,
    /// What could not be opened.
    pub(super) refused: Vec<CountedPart>,
    /// Dropped before its group is: the group is removed last.
    pub(super) monitors: Vec<Monitor>,
    pub(super) monitored: Option<MonGroup>,
    pub(super) notes: BTreeSet<String>,
    pub(super) has_watchdog: bool,
}

/// One open group.
pub(super) struct OpenedEvents<'k> {
    /// Leader first; never empty.
    pub members: Vec<CountingMember<'k>>,
    /// The leader gives all values at once.
    pub reads_whole: bool,
    /// The target starts it by its `exec`.
    pub on_exec: bool,
}

/// One open event.
pub(super) struct CountingMember<'k> {
    /// Which of the events asked for.
    pub event: usize,
    seat: usize,
    place: CountedPlace,
    pmu: Option<String>,
    /// The kernel's side of it.
    pub counter: OpenCounter<'k>,
    /// Its control page, where this thread may read the counter itself.
    page: Option<Mapping>,
}

impl<'k> CountingMember<'k> {
    pub fn new(form: &ReadForm, number: usize, seat: &Seat, counter: OpenCounter<'k>) -> Self {
        let is_core = matches!(form.encoded.domain, Domain::Core { .. });
        let page = if is_core && seat.is_this_thread() { counter.map(0).ok() } else { None };
        Self {
            event: form.event,
            seat: number,
            place: seat.place.clone(),
            pmu: Self::pmu(form, seat),
            counter,
            page: page.filter(Mapping::allows_rdpmc),
        }
    }

    /// The kind of core, where a thread may run on several.
    pub fn pmu(form: &ReadForm, seat: &Seat) -> Option<String> {
        match &form.encoded.domain {
            Domain::Core { pmu, cpus: Some(_) } if seat.cpu().is_none() => Some(pmu.clone()),
            _ => None,
        }
    }

    fn read(&self) -> Result<CounterReading, Errno> {
        let own = self.page.as_ref().zip(Instructions::native());
        match own.and_then(|(page, instructions)| self_read(page, instructions)) {
            Some(reading) => Ok(reading),
            None => self.counter.read(),
        }
    }

    fn part(&self, value: Result<CounterReading, Missing>) -> CountedPart {
        CountedPart {
            event: self.event,
            seat: self.seat,
            place: self.place.clone(),
            pmu: self.pmu.clone(),
            value,
        }
    }
}

impl OpenedEvents<'_> {
    fn read(&self) -> Vec<Result<CounterReading, Errno>> {
        let Some(leader) = self.members.first() else {
            return Vec::new();
        };
        // A leader that reads as a whole can only be read so; a page is as good and needs no system call.
        if self.reads_whole && self.members.iter().any(|member| member.page.is_none()) {
            return match leader.counter.read_group(self.members.len()) {
                Ok(readings) => readings.into_iter().map(Ok).collect(),
                Err(errno) => vec![Err(errno); self.members.len()],
            };
        }
        if !self.reads_whole {
            return self.members.iter().map(CountingMember::read).collect();
        }
        let own: Option<Vec<CounterReading>> = Instructions::native().and_then(|instructions| {
            self.members.iter().map(|member| self_read(member.page.as_ref()?, instructions)).collect()
        });
        match own.map_or_else(|| leader.counter.read_group(self.members.len()), Ok) {
            Ok(readings) => readings.into_iter().map(Ok).collect(),
            Err(errno) => vec![Err(errno); self.members.len()],
        }
    }

    fn never_ran(&self, readings: &[Result<CounterReading, Errno>]) -> bool {
        readings.iter().all(
            |reading| matches!(reading, Ok(reading) if reading.enabled_ns > 0 && reading.running_ns == 0),
        )
    }
}

impl PerfCounting<'_> {
    /// How many groups are open; on every thread or CPU they count as one each.
    pub fn open_groups(&self) -> usize {
        self.groups.len()
    }

    fn switch(&mut self, on: bool) -> Result<(), CountRefusal> {
        for group in self.groups.iter().filter(|group| !(on && group.on_exec)) {
            let Some(leader) = group.members.first() else {
                continue;
            };
            let switched = if on { leader.counter.start() } else { leader.counter.stop() };
            switched.map_err(|errno| CountRefusal::Failed {
                what: format!("{} {}", if on { "starting" } else { "stopping" }, self.names[leader.event]),
                reason: format!("{errno}: the kernel took the event back; open it again"),
            })?;
        }
        if let Some(group) = &self.monitored {
            for monitor in &mut self.monitors {
                if on { monitor.start(group) } else { monitor.stop(group) }
            }
        }
        Ok(())
    }

    /// Why a group that is switched on never gets a counter, most likely.
    fn note_never_ran(&mut self, members: &[usize]) {
        let names: Vec<_> = members.iter().map(|event| &*self.names[*event]).collect();
        let mut reasons = Vec::new();
        if names.len() > 1 {
            reasons.push("they cannot all be counted at the same time");
        }
        reasons.push(if self.has_watchdog {
            "the NMI watchdog holds a counter (try `sudo sysctl kernel.nmi_watchdog=0`)"
        } else {
            "another user of the PMU (perf, a debugger, a virtual machine) holds the counters"
        });
        self.notes.insert(format!("{} never got a counter: {}", names.join(", "), reasons.join(", or ")));
    }
}

impl Counting for PerfCounting<'_> {
    fn start(&mut self) -> Result<(), CountRefusal> {
        self.switch(true)
    }

    fn stop(&mut self) -> Result<(), CountRefusal> {
        self.switch(false)
    }

    fn read(&mut self) -> Result<Vec<Count>, CountRefusal> {
        let mut parts = self.refused.clone();
        let mut idle: BTreeSet<Vec<usize>> = BTreeSet::new();
        for group in &self.groups {
            let readings = group.read();
            // A kind of core the target was never on is no news.
            if group.never_ran(&readings) && group.members.iter().all(|member| member.pmu.is_none()) {
                idle.insert(group.members.iter().map(|member| member.event).collect());
            }
            for (member, reading) in group.members.iter().zip(readings) {
                let value =
                    reading.map_err(|errno| Missing::Failed(unread(&self.names[member.event], errno)));
                parts.push(member.part(value));
            }
        }
        if let Some(group) = &self.monitored {
            parts.extend(self.monitors.iter().flat_map(|monitor| monitor.read(group)));
        }
        for members in idle {
            self.note_never_ran(&members);
        }
        Ok(gather(&parts, self.asked, self.share))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.iter().cloned().collect()
    }
}

fn unread(name: &str, errno: Errno) -> String {
    match errno.0 {
        libc::ENODATA => format!(
            "reading {name}: ENODATA: the kernel gave less than a whole reading; the event is in error, open it again"
        ),
        _ => format!("reading {name}: {errno}: the kernel refuses; open it again"),
    }
}
