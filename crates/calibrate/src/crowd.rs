//! Imagined neighbours: others who take cache and memory from a machine at times, pages that fall as they like, and noise.
//! All of it follows from a seed.

use super::curve_models::{Random, Replacement};

/// Bytes of a page to the hardware.
const PAGE: f64 = 4096.0;

/// Pages the first TLB of an imagined guest reaches, and what a miss of it costs.
const REACH_PAGES: f64 = 64.0;
const WALK_NS: f64 = 2.0;

/// A cache of a crowded machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrowdedCache {
    pub(crate) bytes: f64,
    pub(crate) ways: u32,
    pub(crate) latency_ns: f64,
    /// The most that neighbours take of it while they are there.
    pub(crate) most_taken: f64,
}

/// A machine that others use too.
#[derive(Clone, Debug)]
pub(crate) struct CrowdedModel {
    pub(crate) caches: [CrowdedCache; 3],
    pub(crate) memory_ns: f64,
    pub(crate) replacement: Replacement,
    /// Pages lie anywhere: a guest's huge pages that are small to its host.
    pub(crate) scattered: bool,
}

fn cache(kib: f64, ways: u32, latency_ns: f64, most_taken: f64) -> CrowdedCache {
    CrowdedCache { bytes: kib * 1024.0, ways, latency_ns, most_taken }
}

impl CrowdedModel {
    /// On bare metal: huge pages are huge, nobody shares a core, others use the last level.
    pub(crate) fn bare() -> Self {
        Self {
            caches: [cache(48.0, 12, 1.1, 0.0), cache(2048.0, 16, 4.0, 0.0), cache(24576.0, 12, 21.0, 0.7)],
            memory_ns: 110.0,
            replacement: Replacement::Random,
            scattered: false,
        }
    }

    /// A guest whose pages lie anywhere, and whose core has a second thread that belongs to another guest.
    pub(crate) fn guest() -> Self {
        Self {
            caches: [cache(32.0, 8, 1.2, 0.5), cache(1024.0, 8, 4.2, 0.5), cache(32768.0, 16, 15.0, 0.8)],
            memory_ns: 115.0,
            replacement: Replacement::Lru,
            scattered: true,
        }
    }

    /// A guest with a small part of a large last level, in which lines are replaced at random.
    pub(crate) fn small_part() -> Self {
        Self {
            caches: [cache(48.0, 12, 1.3, 0.3), cache(2048.0, 16, 4.4, 0.4), cache(12288.0, 20, 32.0, 0.5)],
            memory_ns: 125.0,
            replacement: Replacement::Random,
            scattered: true,
        }
    }

    /// What translation adds to a load from so much memory.
    pub(crate) fn walk_ns(&self, bytes: f64) -> f64 {
        if self.scattered { WALK_NS * (1.0 - REACH_PAGES * PAGE / bytes).max(0.0) } else { 0.0 }
    }
}

/// The pages one job got: how many share each colour, by cache.
pub(super) struct PageFall(Vec<Vec<u32>>);

/// Who else is there.
pub(super) struct Crowd {
    pub(super) model: CrowdedModel,
    seed: u64,
    random: Random,
    /// Neighbours change what they do this often.
    episode_ns: f64,
    /// Share of the time that they are there.
    busy: f64,
}

/// What neighbours do at one time.
struct CrowdedMoment {
    taken: [f64; 3],
    slower: [f64; 4],
}

impl Crowd {
    pub(super) fn new(model: CrowdedModel, seed: u64) -> Self {
        let mut random = Random::of(seed);
        let episode_ns = 3e7 * 30f64.powf(random.uniform());
        let busy = 0.1 + 0.5 * random.uniform();
        Self { model, seed, random, episode_ns, busy }
    }

    fn moment(&self, now_ns: f64) -> CrowdedMoment {
        let episode = (now_ns / self.episode_ns) as u64;
        let mut random = Random::of(self.seed.wrapping_mul(0x1000_0000_01b3) ^ (episode << 8));
        let here = random.uniform() < self.busy;
        let strength = if here { 0.2 + 0.8 * random.uniform() } else { 0.0 };
        let taken = self.model.caches.map(|cache| cache.most_taken * strength);
        let last = 1.0 + 0.2 * strength;
        CrowdedMoment { taken, slower: [1.0, 1.0, last, 1.0 + 0.6 * strength] }
    }

    /// Pages for a job of `bytes`.
    pub(super) fn fall(&mut self, bytes: f64) -> PageFall {
        let pages = (bytes / PAGE).ceil() as usize;
        let fall_on = |cache: &CrowdedCache, random: &mut Random| {
            let colours = (cache.bytes / (f64::from(cache.ways) * PAGE)).round().max(1.0) as usize;
            let mut counts = vec![0; colours];
            for page in 0..pages {
                let colour = (random.uniform() * colours as f64) as usize;
                counts[if colours > 1 { colour } else { page % colours }] += 1;
            }
            counts
        };
        let caches = if self.model.scattered { &self.model.caches[..] } else { &[] };
        PageFall(caches.iter().map(|cache| fall_on(cache, &mut self.random)).collect())
    }

    /// Share of the lines of `bytes` that a cache answers.
    fn held(&self, level: usize, fall: &PageFall, bytes: f64, taken: f64) -> f64 {
        let cache = &self.model.caches[level];
        let of = |room: f64, wanted: f64| match self.model.replacement {
            _ if wanted <= room => 1.0,
            Replacement::Lru => 0.0,
            Replacement::Random => room / wanted,
        };
        match fall.0.get(level).filter(|counts| counts.len() > 1) {
            Some(counts) => {
                let room = f64::from(cache.ways) * (1.0 - taken);
                let pages: u32 = counts.iter().sum();
                let held = counts.iter().map(|&count| of(room, count.into()) * f64::from(count));
                held.sum::<f64>() / f64::from(pages)
            }
            None => of(cache.bytes * (1.0 - taken), bytes),
        }
    }

    /// Latency of a load from `bytes` at one time, with noise: two per cent, and one sample in thirty disturbed badly.
    pub(super) fn latency(&mut self, fall: &PageFall, bytes: f64, now_ns: f64) -> f64 {
        let moment = self.moment(now_ns);
        let (mut answered, mut latency_ns) = (0.0f64, 0.0);
        for level in 0..3 {
            let held = self.held(level, fall, bytes, moment.taken[level]).max(answered);
            latency_ns += (held - answered) * self.model.caches[level].latency_ns * moment.slower[level];
            answered = held;
        }
        latency_ns += (1.0 - answered) * self.model.memory_ns * moment.slower[3];
        latency_ns += self.model.walk_ns(bytes);
        let spike = if self.random.uniform() < 1.0 / 30.0 { 1.5 + 1.5 * self.random.uniform() } else { 1.0 };
        latency_ns * (1.0 + 0.02 * self.random.normal().abs()) * spike
    }

    pub(super) fn is_scattered(&self) -> bool {
        self.model.scattered
    }
}
