//! How large a program may be that a strength does not harm: the largest of known ones.
//!
//! Victims far larger than the cache tell how much room there is, not what fits into it: sets of a cache fill unevenly, and
//! queues to memory before memory is busy all the time. A chase waits for every miss and a paced stream for every delay, so
//! that a program that is harmed needs more than they do.

use host::VictimLength;
use machine::{Bytes, squeezing::Interference};

use super::{SqueezeError, measuring::SqueezeBench};

/// Working sets, as shares of the cache.
const STEPS: u64 = 20;
/// Empty operations between two reads of a paced stream, fastest first.
const PAUSES: [u64; 12] = [0, 40, 50, 60, 75, 90, 110, 140, 180, 250, 350, 500];
/// The same of reading what a core's own cache holds: long enough for the shared one to have forgotten it.
const PRIVATE: VictimLength = VictimLength { warm_up: 4000, timed: 24_000 };
/// Steps of an iteration of a chase.
const CHASE_STEPS: u64 = 16;
/// A slowdown below this is no harm.
const HARM: f64 = 0.05;
/// Iterations of a simulated paced stream, of four lines each.
const PACED: VictimLength = VictimLength { warm_up: 600, timed: 1200 };

/// Times of known programs when nothing is taken.
#[derive(Clone, Debug, Default)]
pub(super) struct AloneTimes {
    /// Nanoseconds of a step of a chase, by twentieths of the cache.
    chases: Vec<Option<f64>>,
    /// Nanoseconds of a pass of the one that lives in caches of its own.
    private: Option<f64>,
    /// Bytes per second, by pause.
    streams: Vec<Option<f64>>,
}

impl SqueezeBench<'_> {
    /// The largest chase that these do not harm, bytes, among those of at most `left`; 0 if even one is that needs none of the
    /// shared cache.
    pub fn largest_set(&mut self, taken: &[Interference], left: f64) -> Result<Option<f64>, SqueezeError> {
        let cache = self.domain.cache.0 as f64;
        let most = ((left / cache * STEPS as f64).ceil() as u64).clamp(1, STEPS);
        let least = (2.0 * self.domain.private.0 as f64 / cache * STEPS as f64).ceil() as u64;
        // One that lives in caches of its own, and is driven out of them where the shared one has to hold all they do. It reads
        // as fast as it can, so that each line it loses costs it most.
        let private = (self.domain.private.0 / 2) as f64;
        let alone = self.private_alone(taken)?;
        if self.read_private()? / alone - 1.0 > HARM {
            return Ok(Some(0.0));
        }
        let mut harmed: Option<(f64, f64)> = None;
        for step in (least.max(1)..=most).rev() {
            let size = cache * step as f64 / STEPS as f64;
            let alone = self.chase_alone(step as usize, size, taken)?;
            let slowdown = self.chase(size)? / alone - 1.0;
            if slowdown <= HARM {
                return Ok(Some(crossing((size, slowdown), harmed)));
            }
            harmed = Some((size, slowdown));
        }
        Ok(Some(private))
    }

    /// The fastest paced stream that these do not harm, bytes per second; none if even the slowest is.
    pub fn fastest_stream(&mut self, taken: &[Interference]) -> Result<Option<f64>, SqueezeError> {
        let mut harmed: Option<(f64, f64)> = None;
        for (index, pause) in PAUSES.into_iter().enumerate() {
            let alone = self.stream_alone(index, taken)?;
            let slowdown = alone / self.paced(pause)? - 1.0;
            if slowdown <= HARM {
                return Ok(Some(crossing((alone, slowdown), harmed)));
            }
            harmed = Some((alone, slowdown));
        }
        Ok(None)
    }

    /// Measured once, with nothing beside it; then what was taken is taken again.
    fn chase_alone(&mut self, step: usize, size: f64, taken: &[Interference]) -> Result<f64, SqueezeError> {
        self.alone.chases.resize(STEPS as usize + 1, None);
        if let Some(known) = self.alone.chases[step] {
            return Ok(known);
        }
        self.squeeze(&[])?;
        let found = self.chase(size)?;
        self.alone.chases[step] = Some(found);
        self.squeeze(taken)?;
        Ok(found)
    }

    fn stream_alone(&mut self, index: usize, taken: &[Interference]) -> Result<f64, SqueezeError> {
        self.alone.streams.resize(PAUSES.len(), None);
        if let Some(known) = self.alone.streams[index] {
            return Ok(known);
        }
        self.squeeze(&[])?;
        let found = self.paced(PAUSES[index])?;
        self.alone.streams[index] = Some(found);
        self.squeeze(taken)?;
        Ok(found)
    }

    fn private_alone(&mut self, taken: &[Interference]) -> Result<f64, SqueezeError> {
        if let Some(known) = self.alone.private {
            return Ok(known);
        }
        self.squeeze(&[])?;
        let found = self.read_private()?;
        self.alone.private = Some(found);
        self.squeeze(taken)?;
        Ok(found)
    }

    /// Nanoseconds of reading half of each core's own cache once, on all CPUs of the program.
    fn read_private(&mut self) -> Result<f64, SqueezeError> {
        let own = self.domain.own.clone();
        let job = self.host.job("load", Bytes(self.domain.private.0 / 2 * own.len() as u64), &own)?;
        let reading = self.host.watch_victim(&job, PRIVATE, &self.request.repeat, self.interrupt)?;
        reading.measured.repeated.time_ns().map(|time| time.value).ok_or(SqueezeError::Interrupted)
    }

    /// Nanoseconds of a step of a chase.
    fn chase(&mut self, size: f64) -> Result<f64, SqueezeError> {
        let size = Bytes((size as u64 / 4096).max(1) * 4096);
        let cpu = self.domain.own.first().copied().unwrap_or(0);
        let job = self.host.job("chase", size, &[cpu])?;
        let pass = size.0 / 64 / CHASE_STEPS;
        let length = VictimLength { warm_up: 2 * pass, timed: pass.max(1) };
        let reading = self.host.watch_victim(&job, length, &self.request.repeat, self.interrupt)?;
        reading.measured.step_ns().map(|step| step.value).ok_or(SqueezeError::Interrupted)
    }

    /// Bytes per second of whole lines of a paced stream on all CPUs of the program.
    fn paced(&mut self, pause: u64) -> Result<f64, SqueezeError> {
        let own = self.domain.own.clone();
        let size = self.stream_bytes(own.len());
        let job = self.host.job("delayed-read", size, &own)?;
        let job = job.with("nops", pause).map_err(|error| host::HostError::new("delayed-read", error))?;
        let reading = self.host.watch_victim(&job, PACED, &self.request.repeat, self.interrupt)?;
        let time = reading.measured.repeated.time_ns().ok_or(SqueezeError::Interrupted)?;
        Ok(reading.measured.size.0 as f64 / time.value * 1e9)
    }
}

/// Where harm begins, between a program that is not harmed and the next that is.
fn crossing(unharmed: (f64, f64), harmed: Option<(f64, f64)>) -> f64 {
    let Some(harmed) = harmed else { return unharmed.0 };
    let share = (HARM - unharmed.1) / (harmed.1 - unharmed.1);
    unharmed.0 + (harmed.0 - unharmed.0) * share.clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_begins_between_two() {
        assert_eq!(crossing((10.0, 0.0), None), 10.0);
        assert!((crossing((10.0, 0.03), Some((12.0, 0.07))) - 11.0).abs() < 1e-9);
        assert_eq!(crossing((10.0, 0.05), Some((12.0, 0.5))), 10.0);
    }
}
