//! A scenario for a number of threads, a CPU and a scale: which code runs on which bytes.

mod bounds;
mod error;

use std::{ops::Range, sync::Arc};

use machine::{Bytes, Isa, Width};

use super::{
    definition::{Body, Scenario, ScenarioRegion, ScenarioStep},
    layout::{self, Instance},
    schedule::Schedule,
};
use crate::{
    description::{KernelShape, Op},
    draw::Lcg,
    geometry::Geometry,
    kernel::Kernel,
    lower,
    program::KernelProgram,
};

pub use error::PlanError;
use error::{NopsError, at_place};

/// A scenario ready to be run anywhere.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(super) scenario: Scenario,
    pub(super) threads: usize,
    pub(super) scale: u64,
    pub(super) regions: Vec<PlannedRegion>,
    pub(super) steps: Vec<PlannedStep>,
    pub(super) instances: Vec<Instance>,
}

/// A region with its place in the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRegion {
    /// Names from the outermost region on, joined by `/`.
    pub path: String,
    /// Its own name.
    pub name: String,
    /// Regions around it.
    pub depth: usize,
    /// Threads that take part; they enter together.
    pub threads: Vec<usize>,
    /// How often it is entered each time the region around it is.
    pub repeat: u64,
    /// How often it is entered in all.
    pub entries: u64,
    /// Regions directly inside, by index.
    pub inside: Vec<usize>,
    /// Its steps, by index.
    pub steps: Range<usize>,
}

/// A step for all its threads.
#[derive(Clone, Debug)]
pub struct PlannedStep {
    /// Index of its region.
    pub region: usize,
    /// Parameters set; `nops` too once a rate was turned into it.
    pub kernel: Kernel,
    /// Width of its vector operations.
    pub width: Width,
    /// Index into the scenario's buffers.
    pub buffer: Option<usize>,
    /// How often it goes over its data.
    pub passes: u64,
    /// Asked for, all threads together.
    pub rate_bytes_per_s: Option<f64>,
    /// One for each thread that takes part.
    pub parts: Vec<PlanPart>,
}

/// A step for one thread.
#[derive(Clone, Debug)]
pub struct PlanPart {
    /// Which thread.
    pub thread: usize,
    /// Which of the kernel's bodies.
    pub role: usize,
    /// Its share of the data.
    pub geometry: Geometry,
    /// Its code.
    pub program: Arc<KernelProgram>,
    /// Index into [`Plan::instances`].
    pub instance: Option<usize>,
    /// Where each stream begins in that instance.
    pub offsets: [u64; 6],
    /// State of the random sequence when the step is first executed.
    pub random: u64,
}

impl PlanPart {
    /// Where each stream begins if the instance lies at `base`.
    pub fn bases(&self, base: u64) -> [u64; 6] {
        self.offsets.map(|offset| base + offset)
    }
}

impl PlannedStep {
    /// The part of a thread.
    pub fn part(&self, thread: usize) -> Option<&PlanPart> {
        self.parts.iter().find(|part| part.thread == thread)
    }

    /// Bytes of the lines that one iteration of one thread touches, for turning a rate into time.
    pub fn line_bytes_per_iteration(&self) -> u64 {
        let description = self.kernel.description();
        description.streams.len() as u64 * description.unroll * crate::geometry::LINE
    }

    /// Whether its threads take turns over one buffer.
    pub fn takes_turns(&self) -> bool {
        matches!(self.kernel.description().shape, KernelShape::Turns { .. })
    }

    /// How far the random sequence of a part moves on in so many passes.
    pub fn draws(&self, part: &PlanPart, passes: u64) -> u64 {
        let draws =
            self.kernel.description().ops().filter(|op| matches!(op, Op::Draw { .. } | Op::Coin { .. }));
        let per_pass = part.geometry.iterations * self.kernel.description().unroll;
        draws.count() as u64 * passes * per_pass
    }

    pub(super) fn flips_coins(&self) -> bool {
        self.kernel.description().ops().any(|op| matches!(op, Op::Coin { .. }))
    }
}

impl Plan {
    /// `scenario` for `threads` threads on a CPU with `isa`, every buffer divided by `scale`.
    pub fn new(scenario: &Scenario, threads: usize, isa: &Isa, scale: u64) -> Result<Self, PlanError> {
        let plan = Self::lowered(scenario, threads, isa, scale)?;
        plan.check_events()?;
        plan.check_volume()?;
        Ok(plan)
    }

    /// The same however much there is to do: whoever runs it chooses the passes.
    pub(crate) fn lowered(
        scenario: &Scenario,
        threads: usize,
        isa: &Isa,
        scale: u64,
    ) -> Result<Self, PlanError> {
        if let Some(needed) = scenario.threads.filter(|&needed| needed != threads) {
            let scenario = scenario.name.clone();
            return Err(PlanError::Threads { scenario, needed, given: threads });
        }
        if scale == 0 {
            return Err(PlanError::Scale);
        }
        let mut plan = Self {
            scenario: scenario.clone(),
            threads,
            scale,
            regions: Vec::new(),
            steps: Vec::new(),
            instances: Vec::new(),
        };
        let everybody: Vec<usize> = (0..threads).collect();
        for region in &scenario.regions {
            plan.add_region(region, None, &everybody, isa)?;
        }
        plan.instances = layout::instances(&mut plan)?;
        Ok(plan)
    }

    fn add_region(
        &mut self,
        region: &ScenarioRegion,
        around: Option<usize>,
        threads: &[usize],
        isa: &Isa,
    ) -> Result<usize, PlanError> {
        let outer = around.map(|index| &self.regions[index]);
        let path = outer.map_or(region.name.clone(), |outer| format!("{}/{}", outer.path, region.name));
        let (depth, entries) = outer.map_or((0, 1), |outer| (outer.depth + 1, outer.entries));
        let threads = self.chosen(region.threads.as_deref(), threads, &path)?;
        let index = self.regions.len();
        let first = self.steps.len();
        self.regions.push(PlannedRegion {
            path,
            name: region.name.clone(),
            depth,
            threads: threads.clone(),
            repeat: region.repeat,
            entries: entries.saturating_mul(region.repeat),
            inside: Vec::new(),
            steps: first..first,
        });
        match &region.body {
            Body::Regions(regions) => {
                for inner in regions {
                    let inner = self.add_region(inner, Some(index), &threads, isa)?;
                    self.regions[index].inside.push(inner);
                }
            }
            Body::Steps(steps) => {
                for step in steps {
                    let planned = self.step(step, index, &threads, isa)?;
                    self.steps.push(planned);
                }
                self.regions[index].steps = first..self.steps.len();
            }
        }
        Ok(index)
    }

    fn chosen(
        &self,
        named: Option<&[usize]>,
        around: &[usize],
        place: &str,
    ) -> Result<Vec<usize>, PlanError> {
        let named = named.unwrap_or(around);
        match named.iter().find(|thread| !around.contains(thread)) {
            None => Ok(named.to_vec()),
            Some(&thread) => {
                let place = format!("'{place}'");
                Err(PlanError::NoSuchThread { place, thread, threads: self.threads })
            }
        }
    }

    fn step(
        &self,
        step: &ScenarioStep,
        region: usize,
        threads: &[usize],
        isa: &Isa,
    ) -> Result<PlannedStep, PlanError> {
        let number = self.steps.len() + 1 - self.regions[region].steps.start;
        let place = format!("step {number} of '{}'", self.regions[region].path);
        let threads = self.chosen(step.threads.as_deref(), threads, &self.regions[region].path)?;
        let (kernel, wanted) = (step.kernel.clone(), step.width);
        let width = kernel
            .width_on(isa, wanted)
            .map_err(|source| PlanError::Kernel { place: place.clone(), source })?;
        let failed = |source| PlanError::Assemble { place: place.clone(), source };
        let size = step.buffer.map_or(Bytes(0), |buffer| self.size(buffer));
        let buffer = step.buffer.map(|index| &self.scenario.buffers[index]);
        let placed = layout::place(step, buffer, width, size, threads.len()).map_err(failed)?;
        let mut programs: Vec<Arc<KernelProgram>> = Vec::new();
        let mut parts = Vec::new();
        for (&thread, (role, geometry, offsets)) in threads.iter().zip(placed) {
            // Threads in the same role differ in their arguments, not in their code.
            if programs.len() <= role {
                programs.push(Arc::new(lower::assemble(&kernel, width, &geometry, role).map_err(failed)?));
            }
            let stream = (self.steps.len() as u64) << 16 | thread as u64;
            let random = Lcg::stream(self.scenario.seed, stream).state();
            let program = Arc::clone(&programs[role]);
            parts.push(PlanPart { thread, role, geometry, program, instance: None, offsets, random });
        }
        let (buffer, passes, rate_bytes_per_s) = (step.buffer, step.passes, step.rate_bytes_per_s);
        let mut planned = PlannedStep { region, kernel, width, buffer, passes, rate_bytes_per_s, parts };
        if rate_bytes_per_s.is_some() {
            planned.set_nops(0).map_err(|source| at_place(place, source))?;
        }
        Ok(planned)
    }

    /// Size of a buffer at this scale, which makes none smaller than a page.
    pub fn size(&self, buffer: usize) -> Bytes {
        let size = self.scenario.buffers[buffer].size.0;
        Bytes((size / self.scale).max(size.min(4096)))
    }

    /// A step as errors name it.
    pub fn place(&self, step: usize) -> String {
        let region = &self.regions[self.steps[step].region];
        format!("step {} of '{}'", step + 1 - region.steps.start, region.path)
    }

    /// What was planned.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// What buffers are divided by.
    pub fn scale(&self) -> u64 {
        self.scale
    }

    /// All regions; each stands before those inside it.
    pub fn regions(&self) -> &[PlannedRegion] {
        &self.regions
    }

    /// All steps, in the order of the file.
    pub fn steps(&self) -> &[PlannedStep] {
        &self.steps
    }

    /// The buffers as they lie in memory: a private one once for each thread that uses it.
    pub fn instances(&self) -> &[Instance] {
        &self.instances
    }

    /// Regions that no other region is around.
    pub(super) fn outermost(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.regions.len()).filter(|&index| self.regions[index].depth == 0)
    }

    /// What one thread does, in order.
    pub fn schedule(&self, thread: usize) -> Schedule<'_> {
        Schedule::new(self, thread)
    }

    /// Slows a step down: sets the number of empty operations per iteration.
    pub fn set_nops(&mut self, step: usize, nops: u64) -> Result<(), PlanError> {
        let place = self.place(step);
        self.steps[step].set_nops(nops).map_err(|source| at_place(place, source))?;
        self.check_volume()
    }
}

impl PlannedStep {
    fn set_nops(&mut self, nops: u64) -> Result<(), NopsError> {
        self.kernel = self.kernel.clone().with("nops", nops).map_err(NopsError::Kernel)?;
        let mut program: Option<Arc<KernelProgram>> = None;
        for part in &mut self.parts {
            let shared = match &program {
                Some(program) => Arc::clone(program),
                None => {
                    let made = lower::assemble(&self.kernel, self.width, &part.geometry, part.role);
                    Arc::new(made.map_err(NopsError::Assemble)?)
                }
            };
            part.program = Arc::clone(&shared);
            program = Some(shared);
        }
        Ok(())
    }
}
