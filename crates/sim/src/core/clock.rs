//! A core's clock: cycles inside, time outside.

use crate::{divider::Divider, time::Time};

/// Converts between the cycles of a core and time. After a change of frequency cycles count on from the moment of
/// the change.
#[derive(Clone, Copy, Debug)]
pub struct CoreClock {
    cycle_fs: Divider,
    epoch_cycle: u64,
    epoch: Time,
}

impl CoreClock {
    /// A clock that begins with cycle 0 at time 0. A frequency of 0 is taken as 1.
    pub fn new(hz: u64) -> Self {
        let cycle_fs = Divider::new(Time::cycle_of(hz.max(1)).0);
        Self { cycle_fs, epoch_cycle: 0, epoch: Time::ZERO }
    }

    /// Another frequency from `cycle` on; moments before it can no longer be converted.
    pub fn change(&mut self, hz: u64, cycle: u64) {
        let epoch = self.time(cycle);
        *self = Self { epoch_cycle: cycle, epoch, ..Self::new(hz) };
    }

    /// Length of a cycle.
    pub fn cycle(&self) -> Time {
        Time(self.cycle_fs.by())
    }

    /// The moment a cycle begins.
    #[inline]
    pub fn time(&self, cycle: u64) -> Time {
        Time(self.epoch.0 + cycle.saturating_sub(self.epoch_cycle) * self.cycle_fs.by())
    }

    /// Whole cycles that cover a span.
    #[inline]
    pub fn cycles(&self, span: Time) -> u64 {
        self.cycle_fs.ceil(span.0)
    }

    /// The first cycle that begins at `time` or later.
    #[inline]
    pub fn cycle_at(&self, time: Time) -> u64 {
        self.epoch_cycle + self.cycles(time.since(self.epoch))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cycles_go_on_after_a_change() {
        let mut clock = CoreClock::new(2_000_000_000);
        assert_eq!(clock.time(10), Time::from_ns(5.0));
        clock.change(1_000_000_000, 10);
        assert_eq!(clock.time(10), Time::from_ns(5.0));
        assert_eq!(clock.time(12), Time::from_ns(7.0));
        assert_eq!(clock.cycle_at(Time::from_ns(7.0)), 12);
        assert_eq!(clock.cycle_at(Time::from_ns(6.5)), 12);
    }

    proptest! {
        #[test]
        fn cycles_cover_a_span_and_no_more(hz in 100_000_000u64..6_000_000_000, span in 0u64..1 << 62) {
            let clock = CoreClock::new(hz);
            let cycles = clock.cycles(Time(span));
            prop_assert!(cycles * clock.cycle().0 >= span);
            prop_assert!(cycles == 0 || (cycles - 1) * clock.cycle().0 < span);
        }
    }
}
