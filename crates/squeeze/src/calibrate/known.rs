//! Programs of known need beside every strength: what real ones lose is explained by them.
//!
//! Victims far larger than the cache tell how much room there is, not what a program loses by it: sets fill unevenly, queues
//! form before memory is busy all the time, and a core that waits for each miss loses more than one that has ten under way.

use host::{HostError, VictimLength};
use machine::{
    Bytes,
    squeezing::{KnownPattern, KnownProgram},
};

use super::{SqueezeError, measuring::SqueezeBench};

/// Data that no cache holds, in times of the cache.
const OVERFLOWING: u64 = 4;
/// Empty operations between two reads of a paced stream, fastest first.
const PAUSES: [u64; 22] =
    [0, 30, 40, 50, 55, 60, 65, 70, 75, 80, 85, 90, 100, 115, 130, 150, 175, 200, 240, 280, 340, 400];
/// The same of a stream on one CPU of several.
const LONE_PAUSES: [u64; 4] = [0, 60, 120, 250];
/// Steps of an iteration of a chase.
const CHASE_STEPS: u64 = 16;
const LINE: u64 = 64;
/// Reading what a core's own cache holds, in iterations: long enough for the shared one to have forgotten it.
const PRIVATE_LENGTH: VictimLength = VictimLength { warm_up: 2000, timed: 12_000 };
/// Iterations of a simulated paced stream, of four lines each.
const PACED_LENGTH: VictimLength = VictimLength { warm_up: 600, timed: 1200 };
/// Lines of a simulated program that overflows the cache: enough for queues to be as they stay.
const OVERFLOW_LINES: u64 = 8_000;
/// Random accesses to each line before and while they are timed: all but one of four hundred were met before.
const DRAWS: (u64, u64) = (6, 2);

/// One of the programs, before it is known what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownRecipe {
    pattern: KnownPattern,
    size: Bytes,
    threads: usize,
    pause: u64,
}

/// Every program that is tried, with working sets in so many parts of the cache.
pub(super) fn recipes(cache: Bytes, private: Bytes, own: usize, parts: u64) -> Vec<KnownRecipe> {
    let one = |pattern, size, threads, pause| KnownRecipe { pattern, size, threads, pause };
    let mut all = vec![one(KnownPattern::Private, Bytes(private.0 / 2 * own as u64), own, 0)];
    let least = 2 * private.0;
    for pattern in [KnownPattern::Chase, KnownPattern::Random] {
        let sets = (1..=parts).map(|part| whole_pages(cache.0 * part / parts)).filter(|size| size.0 > least);
        all.extend(sets.map(|size| one(pattern, size, 1, 0)));
        all.push(one(pattern, Bytes(cache.0 * OVERFLOWING), 1, 0));
    }
    // About as many paces as sets.
    let paces = PAUSES.iter().step_by((PAUSES.len() / parts.max(1) as usize).max(1));
    all.extend(paces.map(|pause| one(KnownPattern::Stream, Bytes(0), own, *pause)));
    if own > 1 {
        all.extend(LONE_PAUSES.iter().map(|pause| one(KnownPattern::Stream, Bytes(0), 1, *pause)));
    }
    all
}

fn whole_pages(bytes: u64) -> Bytes {
    Bytes((bytes / 4096).max(1) * 4096)
}

impl SqueezeBench<'_> {
    /// Times every program with nothing beside it.
    pub fn learn_known(&mut self) -> Result<(), SqueezeError> {
        self.squeeze(&[])?;
        let parts = self.request.known_sets;
        self.recipes = recipes(self.domain.cache, self.domain.private, self.domain.own.len().max(1), parts);
        for recipe in self.recipes.clone() {
            let (line_ns, size) = self.line_ns(&recipe)?;
            let KnownRecipe { pattern, threads, .. } = recipe;
            self.known.push(KnownProgram { pattern, size, threads, line_ns });
        }
        Ok(())
    }

    /// Time of every program over its time alone, beside what is taken now.
    pub fn known_slowdowns(&mut self) -> Result<Vec<f64>, SqueezeError> {
        let mut slowdowns = Vec::with_capacity(self.known.len());
        for index in 0..self.recipes.len() {
            let recipe = self.recipes[index];
            let (line_ns, _) = self.line_ns(&recipe)?;
            slowdowns.push(line_ns / self.known[index].line_ns);
        }
        Ok(slowdowns)
    }

    /// Nanoseconds for each line, all threads together, and the data gone over.
    fn line_ns(&mut self, recipe: &KnownRecipe) -> Result<(f64, Bytes), SqueezeError> {
        self.check()?;
        let cpus = self.domain.own[..recipe.threads.min(self.domain.own.len())].to_vec();
        let lines = recipe.size.0 / LINE;
        let overflows = recipe.size > self.domain.cache;
        let counted = if overflows { OVERFLOW_LINES } else { lines };
        let (kernel, size, length) = match recipe.pattern {
            KnownPattern::Private => ("load", recipe.size, PRIVATE_LENGTH),
            KnownPattern::Chase => {
                let pass = counted / CHASE_STEPS;
                // The second pass finds what the first has left.
                let warm_up = if overflows { pass / 2 } else { pass };
                ("chase", recipe.size, VictimLength { warm_up, timed: pass.max(1) })
            }
            KnownPattern::Random => {
                let (before, timed) = if overflows { (1, 1) } else { DRAWS };
                let length = VictimLength { warm_up: before * counted, timed: timed * counted };
                ("random-uni", recipe.size, length)
            }
            KnownPattern::Stream => ("delayed-read", self.stream_bytes(cpus.len()), PACED_LENGTH),
        };
        let job = self.host.job(kernel, size, &cpus)?;
        let job = match recipe.pattern {
            KnownPattern::Stream => {
                job.with("nops", recipe.pause).map_err(|error| HostError::new(kernel, error))?
            }
            _ => job,
        };
        let reading = self.host.watch_victim(&job, length, &self.request.known_repeat, self.interrupt)?;
        let time = reading.measured.repeated.time_ns().ok_or(SqueezeError::Interrupted)?;
        Ok((time.value / (reading.measured.size.0 / LINE).max(1) as f64, reading.measured.size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_above_the_private_cache_and_streams_on_one_and_all_cores() {
        let all = recipes(Bytes::mib(20), Bytes::kib(256), 3, 24);
        let sets: Vec<&KnownRecipe> = all.iter().filter(|one| one.pattern == KnownPattern::Chase).collect();
        assert_eq!(sets.len(), 25);
        assert_eq!(
            (sets[0].size, sets[23].size, sets[24].size),
            (whole_pages(Bytes::mib(20).0 / 24), Bytes::mib(20), Bytes::mib(80))
        );
        let streams = |threads| {
            all.iter().filter(|one| one.pattern == KnownPattern::Stream && one.threads == threads).count()
        };
        assert_eq!((streams(3), streams(1)), (PAUSES.len(), LONE_PAUSES.len()));
        // A set that fits a private cache tells nothing of the shared one.
        let small = recipes(Bytes::kib(320), Bytes::kib(24), 1, 24);
        assert!(small.iter().all(|one| one.pattern != KnownPattern::Chase || one.size > Bytes::kib(48)));
        assert_eq!(small.iter().filter(|one| one.pattern == KnownPattern::Stream).count(), PAUSES.len());
        // Fewer of each, the fastest stream among them.
        let few = recipes(Bytes::mib(20), Bytes::kib(256), 1, 6);
        let many = |pattern| few.iter().filter(|one| one.pattern == pattern).count();
        assert_eq!((many(KnownPattern::Random), many(KnownPattern::Stream)), (7, 8));
        assert!(few.iter().any(|one| one.pattern == KnownPattern::Stream && one.pause == 0));
    }
}
