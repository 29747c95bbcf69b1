//! What a copy would cost the program, before it is made, and what it has cost.

use std::time::{Duration, Instant};

use record::relief::{ReliefBarrier, ReliefCost, ReliefRefusal};

/// No pause is longer.
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Relief may take this part of the run in pauses, and as much again in page faults.
const PART: u32 = 100;

/// To copy the entry of a small page, and of a huge one: 2 GiB took 39 to 63 ms, and 1.3 ms.
const SMALL_PAGE: Duration = Duration::from_nanos(120);
const HUGE_PAGE: Duration = Duration::from_nanos(1500);

/// The first write to a page while a copy lives, and after its death: 65536 took 0.96 to 1.2 s, and 70 ms.
const COPIED_PAGE: Duration = Duration::from_micros(16);
const REGAINED_PAGE: Duration = Duration::from_nanos(1100);

const SMALL_BYTES: u64 = 4096;
const HUGE_BYTES: u64 = 2 << 20;

/// Memory of a process, as far as copying it costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CopiedMemory {
    /// Resident and its own, on small pages.
    pub small_bytes: u64,
    /// On huge pages.
    pub huge_bytes: u64,
}

impl CopiedMemory {
    /// From `/proc/PID/smaps_rollup`.
    pub fn parse(rollup: &str) -> Option<Self> {
        let of = |key: &str| {
            let line = rollup.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
            line.split_whitespace().next()?.parse::<u64>().ok().map(|kib| kib * 1024)
        };
        let (anonymous, huge_bytes) = (of("Anonymous")?, of("AnonHugePages")?);
        Some(Self { small_bytes: anonymous.saturating_sub(huge_bytes), huge_bytes })
    }

    /// Of a process.
    pub fn of(pid: i32) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?)
    }

    /// How long the program stands still while it is copied.
    pub fn pause(&self) -> Duration {
        let pages = |bytes: u64, size: u64| u32::try_from(bytes / size).unwrap_or(u32::MAX);
        Duration::from_micros(300)
            + SMALL_PAGE * pages(self.small_bytes, SMALL_BYTES)
            + HUGE_PAGE * pages(self.huge_bytes, HUGE_BYTES)
    }

    /// What the program pays at least if it writes to all of its memory: small pages fault once more when the copy is gone.
    pub fn least_faults(&self) -> Duration {
        REGAINED_PAGE * u32::try_from(self.small_bytes / SMALL_BYTES).unwrap_or(u32::MAX)
    }
}

/// What may still be spent.
#[derive(Clone, Copy, Debug)]
pub struct ReliefBudget {
    began: Instant,
    cost: ReliefCost,
    faults: Duration,
}

impl ReliefBudget {
    /// For a run that began then.
    pub fn since(began: Instant) -> Self {
        Self { began, cost: ReliefCost::default(), faults: Duration::ZERO }
    }

    /// What was spent so far.
    pub fn cost(&self) -> ReliefCost {
        self.cost
    }

    /// Pauses that are left by now.
    pub fn pauses_left(&self, now: Instant) -> Duration {
        let spent = Duration::from_nanos(self.cost.paused_ns);
        (now.saturating_duration_since(self.began) / PART).saturating_sub(spent)
    }

    /// Time for page faults that is left by now.
    pub fn faults_left(&self, now: Instant) -> Duration {
        (now.saturating_duration_since(self.began) / PART).saturating_sub(self.faults)
    }

    /// Whether a copy of this much may be made now, for a loop that writes or does not.
    pub fn allows(&self, memory: &CopiedMemory, writes: bool, now: Instant) -> Result<(), ReliefRefusal> {
        let (pause, faults) = (memory.pause(), memory.least_faults());
        let ms = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        if pause > LONGEST_PAUSE {
            return Err(ReliefRefusal::new(ReliefBarrier::LongPause, ms(pause)));
        }
        if pause > self.pauses_left(now) {
            return Err(ReliefRefusal::new(
                ReliefBarrier::OutOfTime,
                format!("the next would be {}", ms(pause)),
            ));
        }
        if writes && faults > self.faults_left(now) {
            return Err(ReliefRefusal::new(ReliefBarrier::CopyOnWrite, format!("at least {}", ms(faults))));
        }
        Ok(())
    }

    /// Page faults the program may still have while a copy lives.
    pub fn faults_allowed(&self, now: Instant) -> u64 {
        u64::try_from(self.faults_left(now).as_nanos() / COPIED_PAGE.as_nanos()).unwrap_or(u64::MAX).max(64)
    }

    /// Notes a pause.
    pub fn paused(&mut self, pause: Duration) {
        let ns = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
        self.cost.paused_ns = self.cost.paused_ns.saturating_add(ns);
        self.cost.longest_pause_ns = self.cost.longest_pause_ns.max(ns);
    }

    /// Notes a copy that lived, and how many pages the program wrote to meanwhile.
    pub fn copied(&mut self, faults: u64, copy_ns: u64) {
        self.cost.copies += 1;
        self.cost.page_faults += faults;
        self.cost.copies_ns += copy_ns;
        self.faults += COPIED_PAGE * u32::try_from(faults).unwrap_or(u32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLLUP: &str =
        "00400000-7fff rollup\nRss:  200 kB\nAnonymous:   102400 kB\nAnonHugePages:  4096 kB\n";

    #[test]
    fn small_and_huge_pages_are_told_apart() {
        let memory = CopiedMemory::parse(ROLLUP).unwrap();
        assert_eq!(memory, CopiedMemory { small_bytes: 98304 << 10, huge_bytes: 4 << 20 });
        assert_eq!(CopiedMemory::parse("Rss: 1 kB"), None);
    }

    #[test]
    fn large_programs_are_left_alone() {
        let began = Instant::now();
        let later = began + Duration::from_secs(60);
        let budget = ReliefBudget::since(began);
        let refused = |small_bytes, writes| {
            let memory = CopiedMemory { small_bytes, huge_bytes: 0 };
            budget.allows(&memory, writes, later).err().map(|refused| refused.barrier)
        };
        assert_eq!(refused(64 << 20, true), None);
        assert_eq!(refused(3 << 30, false), None);
        assert_eq!(refused(3 << 30, true), Some(ReliefBarrier::CopyOnWrite));
        assert_eq!(refused(8 << 30, false), Some(ReliefBarrier::LongPause));
        let huge = CopiedMemory { small_bytes: 0, huge_bytes: 64 << 30 };
        assert_eq!(budget.allows(&huge, true, later), Ok(()));
    }

    #[test]
    fn pauses_stay_below_a_hundredth() {
        let began = Instant::now();
        let mut budget = ReliefBudget::since(began);
        let small = CopiedMemory { small_bytes: 1 << 20, huge_bytes: 0 };
        assert_eq!(budget.allows(&small, true, began + Duration::from_secs(2)), Ok(()));
        budget.paused(Duration::from_millis(20));
        let refused = budget.allows(&small, true, began + Duration::from_secs(2)).unwrap_err();
        assert_eq!(refused.barrier, ReliefBarrier::OutOfTime);
        assert_eq!(budget.allows(&small, true, began + Duration::from_secs(3)), Ok(()));
        assert_eq!(budget.cost().longest_pause_ns, 20_000_000);
    }
}
