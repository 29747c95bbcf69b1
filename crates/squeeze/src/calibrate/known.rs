//! Programs of known need beside every strength: what real ones lose is explained by them.
//!
//! Victims far larger than the cache tell how much room there is, not what a program loses by it: sets fill unevenly, queues
//! form before memory is busy all the time, and a core that waits for each miss loses more than one that has ten under way.

use host::{HostError, VictimLength};
use machine::{
    Bytes,
    squeezing::{KnownPattern, KnownProgram},
};

use super::{
    SqueezeError,
    measuring::SqueezeBench,
    pauses::{NextPause, next_pause},
};

/// Data that no cache holds, in times of the cache.
const OVERFLOWING: u64 = 4;
/// Paced streams, by the lines they read between two pauses. A core guesses the end of a short pause right and that of a long
/// one wrong, and its rate leaps there: where one leaps the other does not.
const STREAMS: [(&str, u64); 2] = [("delayed-read", 4), ("bandwidth-reader", 1)];
/// How much slower each paced stream on one CPU of several is than the one before, and how many there are.
const LONE_TIMES: f64 = 0.5;
const LONE_STREAMS: i32 = 4;
/// How near a pace has to be, as a share of what lies between two.
const NEAR_ENOUGH: f64 = 0.25;
/// Steps of an iteration of a chase.
const CHASE_STEPS: u64 = 16;
const LINE: u64 = 64;
/// Reading what a core's own cache holds, in iterations: long enough for the shared one to have forgotten it.
const PRIVATE_LENGTH: VictimLength = VictimLength { warm_up: 2000, timed: 12_000 };
/// Lines of each thread of a simulated paced stream.
const PACED_LENGTH: VictimLength = VictimLength { warm_up: 2400, timed: 9600 };
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
    /// Which of the streams.
    stream: usize,
    pause: u64,
}

/// Every program that is no stream, with working sets in so many parts of the cache.
fn sets(cache: Bytes, private: Bytes, own: usize, parts: u64) -> Vec<KnownRecipe> {
    let one = |pattern, size, threads| KnownRecipe { pattern, size, threads, stream: 0, pause: 0 };
    let mut all = vec![one(KnownPattern::Private, Bytes(private.0 / 2 * own as u64), own)];
    let least = 2 * private.0;
    for pattern in [KnownPattern::Chase, KnownPattern::Random] {
        let sets = (1..=parts).map(|part| whole_pages(cache.0 * part / parts)).filter(|size| size.0 > least);
        all.extend(sets.map(|size| one(pattern, size, 1)));
        all.push(one(pattern, Bytes(cache.0 * OVERFLOWING), 1));
    }
    all
}

/// Rates of paced streams below the fastest of them, bytes per second: parts of the bandwidth, each stream's in the middle between
/// two of the other's.
fn rates(fastest: f64, bandwidth: f64, parts: u64, stream: usize) -> Vec<f64> {
    let step = bandwidth / parts.max(1) as f64;
    let first = step * (0.5 + stream as f64 / STREAMS.len() as f64);
    let all = (0..parts).map(|part| first + step * part as f64);
    all.filter(|rate| *rate < fastest - NEAR_ENOUGH * step).collect()
}

fn whole_pages(bytes: u64) -> Bytes {
    Bytes((bytes / 4096).max(1) * 4096)
}

impl SqueezeBench<'_> {
    /// Times every program with nothing beside it.
    pub fn learn_known(&mut self) -> Result<(), SqueezeError> {
        self.squeeze(&[])?;
        let (parts, own) = (self.request.known_sets, self.domain.own.len().max(1));
        self.recipes = sets(self.domain.cache, self.domain.private, own, parts);
        let bandwidth = self.whole_bandwidth;
        let step = bandwidth / parts.max(1) as f64;
        for stream in 0..STREAMS.len() {
            let paced = |fastest| rates(fastest, bandwidth, parts, stream);
            self.learn_paces(stream, own, NEAR_ENOUGH * step, paced)?;
        }
        if own > 1 {
            let slower = |fastest: f64| (1..LONE_STREAMS).map(|n| fastest * LONE_TIMES.powi(n)).collect();
            self.learn_paces(0, 1, NEAR_ENOUGH * step, slower)?;
        }
        for recipe in self.recipes.clone() {
            let (line_ns, size) = self.line_ns(&recipe)?;
            let KnownRecipe { pattern, threads, stream, .. } = recipe;
            let lines = if pattern == KnownPattern::Stream { STREAMS[stream].1 } else { 0 };
            self.known.push(KnownProgram { pattern, size, threads, lines, line_ns });
        }
        Ok(())
    }

    /// Takes in a stream as fast as it goes and at about these rates.
    fn learn_paces(
        &mut self,
        stream: usize,
        threads: usize,
        tolerance: f64,
        rates: impl Fn(f64) -> Vec<f64>,
    ) -> Result<(), SqueezeError> {
        let paced =
            |pause| KnownRecipe { pattern: KnownPattern::Stream, size: Bytes(0), threads, stream, pause };
        let mut rate = |pause| Ok::<_, SqueezeError>(LINE as f64 / self.line_ns(&paced(pause))?.0 * 1e9);
        let mut tried = vec![(0, rate(0)?)];
        let mut pauses = vec![0];
        for wanted in rates(tried[0].1) {
            loop {
                match next_pause(&tried, wanted, tolerance) {
                    NextPause::Found(pause) => break pauses.push(pause),
                    NextPause::Try(pause) => tried.push((pause, rate(pause)?)),
                }
            }
        }
        pauses.sort_unstable();
        pauses.dedup();
        self.recipes.extend(pauses.into_iter().map(paced));
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
            KnownPattern::Stream => {
                let (kernel, lines) = STREAMS[recipe.stream];
                let VictimLength { warm_up, timed } = PACED_LENGTH;
                let length = VictimLength { warm_up: warm_up / lines, timed: timed / lines };
                (kernel, self.stream_bytes(cpus.len()), length)
            }
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
    fn sets_above_the_private_cache() {
        let all = sets(Bytes::mib(20), Bytes::kib(256), 3, 24);
        let chases: Vec<&KnownRecipe> = all.iter().filter(|one| one.pattern == KnownPattern::Chase).collect();
        assert_eq!(chases.len(), 25);
        assert_eq!(
            (chases[0].size, chases[23].size, chases[24].size),
            (whole_pages(Bytes::mib(20).0 / 24), Bytes::mib(20), Bytes::mib(80))
        );
        // A set that fits a private cache tells nothing of the shared one.
        let small = sets(Bytes::kib(320), Bytes::kib(24), 1, 24);
        assert!(small.iter().all(|one| one.pattern != KnownPattern::Chase || one.size > Bytes::kib(48)));
    }

    #[test]
    fn rates_of_both_streams_lie_between_each_other() {
        let [four, one] = [0, 1].map(|stream| rates(31e9, 48e9, 24, stream));
        assert_eq!((four[0], four[1], one[0]), (1e9, 3e9, 2e9));
        assert!(four.iter().chain(&one).all(|rate| *rate < 30.6e9));
        assert_eq!((four.len(), one.len()), (15, 15));
    }
}
