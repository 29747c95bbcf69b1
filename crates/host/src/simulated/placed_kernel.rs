//! A kernel's threads on simulated cores: where they run, how much of them, and what a pass takes.

use std::sync::atomic::AtomicBool;

use kernels::{
    Job, PagePolicy,
    description::{KernelShape, StreamPattern},
    draw::DrawError,
    geometry::Geometry,
    scenario::PlannedStep,
    traffic,
    truth::TruthCounts,
};
use machine::{
    Bytes,
    model::{Inclusion, Model},
};
use record::bench::{BackingPages, Work};
use sim::{
    engine::{self, Engine, EngineError, EngineOutcome, JobOutcome},
    memory::{MemorySystem, PageSize},
    plan_source::{AddressOrder, PlacedPlan, PlanSource},
    time::Time,
};

use super::{SimulationError, pages, progress::SimulationProgress, since_ns, window::Window};

/// Data beyond this many times the caches of its package has left them when it is met again.
const FORGOTTEN: u64 = 2;
/// How often large data that is written fills the caches before it is timed, in eighths.
const FILLED_EIGHTHS: u64 = 9;
/// A cache is full if of so many lines no more than one is missing.
const AS_GOOD_AS_FULL: u64 = 1000;
/// Passes over data that is gone over as a whole, before it is timed.
const WARM_UP_PASSES: u64 = 1;
/// The same for data of no more than a private cache, where passes are cheap and replacement may take a few to settle.
const WARM_UP_PASSES_SMALL: u64 = 3;
/// Instructions timed, all threads together, and at least for each.
const TIMED: u64 = 120_000;
const TIMED_EACH: u64 = 16_000;
/// A source that never ends; windows of it are run.
const ENDLESS: u64 = 1 << 40;
/// Bytes of a cache line.
const LINE: u64 = 64;
/// Slots of a pointer cycle that are laid out in the time of one unit of work.
const SLOTS_PER_UNIT: u64 = 8;

/// A kernel's threads, placed.
pub(super) struct PlacedKernel<'a> {
    job: &'a Job,
    model: &'a Model,
    placed: PlacedPlan,
    /// Of one pass, by thread.
    counts: Vec<TruthCounts>,
    /// Whether only whole passes can be run.
    pub whole: bool,
}

/// The threads of a kernel in a run.
pub(super) struct ThreadGroup<'a> {
    sources: Vec<PlanSource<'a>>,
    places: Vec<(usize, usize)>,
    /// Instructions of each thread.
    pub limits: Vec<u64>,
    /// Stops when the others are done.
    pub background: bool,
    /// Block by block.
    pub serial: bool,
    /// Is told how far it has come.
    pub watched: Option<&'a SimulationProgress>,
}

impl<'a> PlacedKernel<'a> {
    /// Places code and data from `address` on.
    pub fn prepare(job: &'a Job, model: &'a Model, address: u64) -> Result<Self, SimulationError> {
        let plan = job.plan(&model.isa)?;
        let placed = PlacedPlan::new(plan, AddressOrder::ByThread { from: address })?;
        let whole = !matches!(job.kernel.description().shape, KernelShape::Private(_));
        let step = &placed.plan().steps()[0];
        let counts = step.parts.iter().map(|part| step.pass_counts(part)).collect();
        Ok(Self { job, model, placed, counts, whole })
    }

    /// All it does: a kernel has one step.
    pub fn step(&self) -> &PlannedStep {
        &self.placed.plan().steps()[0]
    }

    /// Where its addresses end.
    pub fn end(&self) -> u64 {
        self.placed.end()
    }

    /// What laying it out costs.
    pub fn units(&self) -> u64 {
        match self.first_pattern() {
            Some(StreamPattern::Cycle { stride }) => self.job.size.0 / stride.max(1) / SLOTS_PER_UNIT,
            _ => 0,
        }
    }

    /// Gives its data pages: of the node asked for, or of the package each thread runs on.
    pub fn place(&self, memory: &mut MemorySystem) {
        let size = page_size(self.job.pages);
        for range in self.placed.data() {
            let node = self.job.node.unwrap_or_else(|| self.package(range.thread) as u32);
            memory.map(range.address..range.address + range.bytes, node, size);
        }
    }

    /// How many threads it has.
    pub fn threads(&self) -> usize {
        self.job.cpus.len()
    }

    /// The package its first thread runs on.
    pub fn first_package(&self) -> usize {
        self.package(0)
    }

    fn package(&self, thread: usize) -> usize {
        let (core, _) = place(self.model, self.job.cpus[thread]);
        core / self.model.cores_per_socket as usize
    }

    /// All passes, to be run in windows.
    pub fn endless(&self) -> ThreadGroup<'_> {
        self.passes_of(ENDLESS)
    }

    /// A whole run of `passes`.
    pub fn passes_of(&self, passes: u64) -> ThreadGroup<'_> {
        let places = self.job.cpus.iter().map(|&cpu| place(self.model, cpu)).collect();
        let limits = vec![u64::MAX; self.job.cpus.len()];
        let sources = self.placed.step_sources(0, passes);
        ThreadGroup { sources, places, limits, background: false, serial: false, watched: None }
    }

    /// What one pass does, by thread.
    #[cfg(test)]
    pub fn pass_counts(&self) -> &[TruthCounts] {
        &self.counts
    }

    /// The part of each thread.
    fn geometries(&self) -> impl Iterator<Item = &Geometry> {
        self.step().parts.iter().map(|part| &part.geometry)
    }

    /// Capacity of each cache for one thread; a cache that is shared gives each of its threads its part.
    pub fn caches(&self, thread: usize) -> [u64; 3] {
        let package = self.package(thread);
        let beside = (0..self.job.cpus.len()).filter(|&other| self.package(other) == package).count() as u64;
        let model = self.model;
        let l3 = model.l3.as_ref().map_or(0, |l3| l3.geometry.size.0 / beside.max(1));
        let l2 = model.l2.geometry.size.0 / u64::from(model.l2.shared_by_cores.max(1)).min(beside).max(1);
        [model.l1d.geometry.size.0, l2, l3.max(l2)]
    }

    /// By thread: how much of a pass a window did.
    pub fn parts_of(&self, outcome: &EngineOutcome) -> Vec<f64> {
        let done = outcome.jobs.iter().zip(&self.counts);
        done.map(|(job, pass)| job.statistics.instructions as f64 / pass.instructions.max(1) as f64).collect()
    }

    /// Instructions of one pass, all threads together.
    pub fn pass_instructions(&self) -> u64 {
        self.counts.iter().map(|counts| counts.instructions).sum()
    }

    /// Passes of a timed run of whole passes.
    pub fn passes(&self) -> u64 {
        (TIMED / self.pass_instructions().max(1)).max(1)
    }

    /// Instructions of each thread before it is timed.
    pub fn warm_up(&self) -> Vec<u64> {
        // A random walk meets lines that prefetchers left behind, and what is written leaves the caches dirty: for
        // these it matters what the caches are full of.
        let stores: u64 = self.counts.iter().map(|counts| counts.stores).sum();
        let sequential = matches!(self.first_pattern(), Some(StreamPattern::Sequential { .. }));
        let reads_on = stores == 0 && sequential;
        let timed = self.timed();
        let sizes: Vec<u64> = self.geometries().map(|geometry| geometry.size).collect();
        (0..self.job.cpus.len())
            .map(|thread| {
                let together = self.together(self.package(thread));
                let caches = cache_bytes(self.model);
                let pass = self.counts[thread].instructions;
                if together > FORGOTTEN * caches {
                    let share = (caches * FILLED_EIGHTHS / 8) as f64 / together as f64;
                    let filled = (pass as f64 * share) as u64;
                    return if reads_on { filled.min(timed[thread]) } else { filled };
                }
                let small = sizes[thread] <= self.model.l2.geometry.size.0;
                pass * if small { WARM_UP_PASSES_SMALL } else { WARM_UP_PASSES }
            })
            .collect()
    }

    /// Instructions of each thread that bring an eighth of the last cache more, as long as data that is written and larger than the
    /// caches has not filled it. Threads that walk through the same sets at the same time leave other sets behind, and for a line that
    /// comes to one of these none is written back until it is full.
    pub fn still_to_fill(&self, memory: &MemorySystem) -> Option<Vec<u64>> {
        let capacity = self.model.l3.as_ref()?.geometry.size.0 / LINE;
        let written = self.counts.iter().any(|counts| counts.stores > 0);
        let caches = cache_bytes(self.model);
        let has_room = |package: usize| {
            let stats = memory.shared_stats(package);
            let left = stats.evictions_clean + stats.evictions_modified + stats.removals;
            let missing = capacity.saturating_sub(stats.fills - left);
            // What is stored past the caches never fills them.
            missing * AS_GOOD_AS_FULL > capacity && (capacity..FORGOTTEN * capacity).contains(&stats.fills)
        };
        let short = |thread: usize| {
            let package = self.package(thread);
            self.together(package) > FORGOTTEN * caches && has_room(package)
        };
        if !written || !(0..self.threads()).any(short) {
            return None;
        }
        let eighth = |thread: usize| {
            let share = caches as f64 / 8.0 / self.together(self.package(thread)).max(1) as f64;
            (self.counts[thread].instructions as f64 * share) as u64
        };
        Some((0..self.threads()).map(eighth).collect())
    }

    /// Data of all threads of a package.
    fn together(&self, package: usize) -> u64 {
        let threads = self.geometries().enumerate();
        threads.filter(|&(thread, _)| self.package(thread) == package).map(|(_, part)| part.size).sum()
    }

    /// Instructions of each thread until its data, or as much of it as the caches hold, was touched: of random draws three
    /// for each line, after which one line in twenty is still missing.
    pub fn settling(&self) -> Vec<u64> {
        let caches = cache_bytes(self.model);
        let threads = self.counts.iter().zip(self.geometries());
        threads
            .map(|(counts, geometry)| {
                let share = match self.first_pattern() {
                    Some(StreamPattern::Drawn { element, .. }) => 3.0 * element as f64 / 64.0,
                    _ => 1.0,
                };
                let held = caches as f64 / geometry.size.max(1) as f64;
                (counts.instructions as f64 * share * held.min(1.0)) as u64
            })
            .collect()
    }

    /// Instructions of each thread in so many iterations.
    pub fn instructions_of(&self, iterations: u64) -> Vec<u64> {
        let threads = self.counts.iter().zip(self.geometries());
        threads
            .map(|(counts, geometry)| counts.instructions * iterations / geometry.iterations.max(1))
            .collect()
    }

    /// Instructions of each thread that are timed: whole passes where they are short.
    pub fn timed(&self) -> Vec<u64> {
        let each = (TIMED / self.counts.len().max(1) as u64).max(TIMED_EACH);
        let of_thread = |counts: &TruthCounts| match counts.instructions.max(1) {
            pass if pass < each => each.div_ceil(pass) * pass,
            _ => each,
        };
        self.counts.iter().map(of_thread).collect()
    }

    /// Instructions of each thread in which the caches are filled anew so many times; at most a pass.
    ///
    /// What is read and what is written leave a cache in turns, for a line that is written back to it is younger again:
    /// only over several fillings do they leave it as they came.
    pub fn turnover(&self, times: u64) -> Vec<u64> {
        let share = (times * cache_bytes(self.model)) as f64 / self.size().0.max(1) as f64;
        let of_pass = |counts: &TruthCounts| (counts.instructions as f64 * share.min(1.0)) as u64;
        self.counts.iter().zip(self.timed()).map(|(counts, timed)| of_pass(counts).max(timed)).collect()
    }

    /// Whether it reads some lines and writes others, and has more data than the caches hold.
    pub fn mixes_beyond_caches(&self) -> bool {
        let uses = traffic::uses(self.job.kernel.description());
        let mixed =
            uses.iter().any(|used| used.written) && uses.iter().any(|used| used.read && !used.written);
        mixed && self.size().0 > cache_bytes(self.model)
    }

    /// What one pass takes, from a window of one: that of the slowest thread.
    pub fn pass_ns(&self, outcome: &EngineOutcome) -> f64 {
        let threads = outcome.jobs.iter().zip(&self.counts);
        threads
            .map(|(job, counts)| {
                let done = job.statistics.instructions.max(1) as f64;
                since_ns(outcome.start, job.end) * counts.instructions as f64 / done
            })
            .fold(0.0, f64::max)
    }

    /// Bytes of the lines moved per second by threads that were stopped.
    pub fn memory_bytes_per_s(&self, jobs: &[JobOutcome], start: Time) -> Result<f64, DrawError> {
        let mut sum = 0.0;
        for (job, (counts, geometry)) in jobs.iter().zip(self.counts.iter().zip(self.geometries())) {
            let bytes = traffic::lines_below(&self.job.kernel, geometry, Bytes(0))?.bytes();
            let passes = job.statistics.instructions as f64 / counts.instructions.max(1) as f64;
            let ns = since_ns(start, job.end);
            sum += if ns > 0.0 { bytes * passes / ns * 1e9 } else { 0.0 };
        }
        Ok(sum)
    }

    /// What one pass does, all threads together.
    pub fn work(&self) -> Result<Work, DrawError> {
        Ok(crate::host::work_of(&self.step().pass()?))
    }

    /// Data set used.
    pub fn size(&self) -> Bytes {
        self.step().size()
    }

    /// Pages behind it.
    pub fn pages(&self) -> BackingPages {
        pages(self.placed.data().map(|range| range.bytes).sum(), self.job.pages)
    }

    fn first_pattern(&self) -> Option<StreamPattern> {
        self.job.kernel.description().streams.first().map(|stream| stream.pattern)
    }
}

/// Pages that a buffer asks for.
pub(super) fn page_size(pages: PagePolicy) -> PageSize {
    match pages {
        PagePolicy::Small => PageSize::Small,
        PagePolicy::Huge => PageSize::Huge,
    }
}

/// Core and hardware thread of a CPU, numbered as in the model's topology.
pub(super) fn place(model: &Model, cpu: u32) -> (usize, usize) {
    let cores = model.cores().max(1);
    ((cpu % cores) as usize, (cpu / cores) as usize)
}

/// What the caches of one package hold together.
fn cache_bytes(model: &Model) -> u64 {
    let clusters = u64::from(model.cores_per_socket.div_ceil(model.l2.shared_by_cores.max(1)));
    let private = model.l2.geometry.size.0 * clusters;
    match model.l3 {
        Some(l3) if l3.inclusion == Inclusion::Inclusive => l3.geometry.size.0,
        Some(l3) => l3.geometry.size.0 + private,
        None => private,
    }
}

/// The threads of a group for a while: core, hardware thread, whether in the background, and what runs.
pub(super) type PlacedWindow<'w, 'a> = (usize, usize, bool, Window<'w, PlanSource<'a>>);

/// The next part of every group.
pub(super) fn windows<'w, 'a>(
    groups: &'w mut [ThreadGroup<'a>],
    interrupt: &'w AtomicBool,
) -> Vec<PlacedWindow<'w, 'a>> {
    let mut windows = Vec::new();
    for group in groups.iter_mut() {
        let threads = group.sources.iter_mut().zip(group.places.iter().zip(&group.limits));
        for (source, (&(core, thread), &limit)) in threads {
            let window = Window::new(source, limit, interrupt);
            let window = if group.serial { window.serial() } else { window };
            let window = group.watched.into_iter().fold(window, Window::watched);
            windows.push((core, thread, group.background, window));
        }
    }
    windows
}

/// The same as the engine takes them.
pub(super) fn engine_jobs<'w>(windows: &'w mut [PlacedWindow<'_, '_>]) -> Vec<engine::EngineJob<'w>> {
    windows
        .iter_mut()
        .map(|(core, thread, background, source)| engine::EngineJob {
            core: *core,
            thread: *thread,
            background: *background,
            source,
        })
        .collect()
}

/// Runs the windows of all groups together. Jobs of the outcome are in the order of the groups.
pub(super) fn run(
    engine: &mut Engine<MemorySystem>,
    groups: &mut [ThreadGroup<'_>],
    interrupt: &AtomicBool,
) -> Result<EngineOutcome, EngineError> {
    engine.run(&mut engine_jobs(&mut windows(groups, interrupt)))
}
