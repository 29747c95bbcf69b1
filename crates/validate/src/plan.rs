//! Which experiments are made.

use machine::{Bytes, Width};
use record::validate::Experiment;
use trust::KernelPlace;

use super::{
    bench::Machine,
    roles::{Between, JudgingKernels, Role},
};

/// What a step is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Events per line, level by level.
    Volume,
    /// Errors over repeated runs of the streaming kernels.
    Accuracy,
    /// With and without prefetchers.
    Prefetch,
    /// Cycles of waiting.
    Stalls,
    /// Latency under load.
    Latency,
    /// Events per access over data set sizes.
    Curves,
}

impl Step {
    /// In order.
    pub const ALL: [Self; 6] =
        [Self::Volume, Self::Prefetch, Self::Accuracy, Self::Stalls, Self::Latency, Self::Curves];

    /// As people see it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Accuracy => "accuracy",
            Self::Prefetch => "prefetch",
            Self::Stalls => "stalls",
            Self::Latency => "latency",
            Self::Curves => "curves",
        }
    }
}

/// Nops between the reads of the latency step (helm2019 §4.3.1).
const DELAYS: [u64; 4] = [0, 32, 128, 512];

/// How often more than once the ends of the latency step are made (helm2019 §4 makes six in all).
const REPEATS: u32 = 2;

/// How much is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Fewer of everything.
    pub quick: bool,
    /// Repetitions of the accuracy step.
    pub runs: u32,
}

/// The experiments of a step on a machine.
pub fn experiments(step: Step, machine: &Machine, extent: Extent, known: &JudgingKernels) -> Vec<Experiment> {
    let planner = Planner { machine, extent, known };
    match step {
        Step::Volume => planner.volume(),
        Step::Prefetch => planner.prefetch(),
        Step::Accuracy => planner.accuracy(),
        Step::Stalls => planner.stalls(),
        Step::Latency => planner.latency(),
        Step::Curves => planner.curves(),
    }
}

struct Planner<'a> {
    machine: &'a Machine,
    extent: Extent,
    known: &'a JudgingKernels,
}

impl Planner<'_> {
    fn one(&self, kernel: &str, place: KernelPlace, cores: usize) -> Option<Experiment> {
        Some(Experiment {
            kernel: kernel.to_owned(),
            parameters: Vec::new(),
            place,
            size: self.machine.size(place, cores)?,
            width: None,
            cores,
            remote: false,
            siblings: false,
            prefetch: true,
            run: 0,
        })
    }

    /// Whether a kernel exists in a width, or in any that the machine has.
    fn exists(&self, kernel: &str, width: Option<Width>) -> bool {
        let halves = self.known.is(kernel, |role| matches!(role, Role::Streams(streams) if streams.halves));
        let wide = |width: &Width| width.bytes() > Width::Sse.bytes();
        !halves || width.map_or_else(|| self.machine.widths.iter().any(wide), |width| wide(&width))
    }

    fn cores(&self) -> Vec<usize> {
        if self.machine.cores > 1 { vec![1, self.machine.cores] } else { vec![1] }
    }

    /// Every kernel at every level, on one core and on all.
    fn moving(&self, fits: fn(&Role) -> bool) -> Vec<Experiment> {
        let mut all = Vec::new();
        for cores in self.cores() {
            for kernel in self.known.which(fits) {
                let here =
                    self.machine.places().into_iter().filter_map(|place| self.one(kernel, place, cores));
                // What goes past the caches is the same wherever the data fits.
                let past = self.known.is(kernel, Role::goes_past);
                all.extend(here.filter(|one| !past || one.place == KernelPlace::Memory));
            }
        }
        all
    }

    fn volume(&self) -> Vec<Experiment> {
        // What others do meanwhile, and nothing else.
        let idle = self.known.which(|role| *role == Role::Idle);
        let mut all: Vec<Experiment> =
            idle.filter_map(|kernel| self.one(kernel, KernelPlace::Registers, 1)).collect();
        all.extend(self.moving(Role::moves));
        let narrower = self.machine.widths.iter().rev().skip(1);
        for width in narrower.take(if self.extent.quick { 0 } else { 2 }) {
            for kernel in self.known.which(Role::moves_one) {
                let here = self.machine.places().into_iter().filter_map(|place| self.one(kernel, place, 1));
                all.extend(here.map(|one| Experiment { width: Some(*width), ..one }));
            }
        }
        all.extend(self.remote(&self.cores()));
        all.extend(self.handing_over());
        all.extend(self.two_threads());
        all.extend(self.odd_accesses());
        all
    }

    /// Two threads of one core at once, where a core has them: some errata show only then.
    fn two_threads(&self) -> Vec<Experiment> {
        let kernels = self.known.which(Role::moves_one).filter(|_| self.machine.threads_per_core > 1);
        let all = kernels.flat_map(|kernel| {
            self.machine.places().into_iter().filter_map(move |place| self.one(kernel, place, 1))
        });
        all.map(|one| Experiment { siblings: true, ..one }).collect()
    }

    /// Loads across lines at every level; a line that one thread writes, and two threads do.
    fn odd_accesses(&self) -> Vec<Experiment> {
        let crossing = self.known.which(|role| *role == Role::CrossesLines);
        let mut all: Vec<Experiment> = crossing
            .flat_map(|kernel| {
                self.machine.places().into_iter().filter_map(move |place| self.one(kernel, place, 1))
            })
            .collect();
        for kernel in self.known.which(|role| *role == Role::SharesLine) {
            for cores in [1, 2].into_iter().filter(|cores| *cores <= self.machine.cores) {
                all.extend(self.one(kernel, KernelPlace::L1, cores));
            }
        }
        all
    }

    /// Data in memory of another package, where there is one.
    fn remote(&self, cores: &[usize]) -> Vec<Experiment> {
        let kernels = self.known.which(|role| role.moves_one() || role.updates_one());
        let kernels = kernels.filter(|_| self.machine.remote);
        let all = kernels.flat_map(|kernel| cores.iter().map(move |&cores| (kernel, cores)));
        let there = all.filter_map(|(kernel, cores)| self.one(kernel, KernelPlace::Memory, cores));
        there.map(|one| Experiment { remote: true, ..one }).collect()
    }

    /// Lines that one core writes and another reads.
    fn handing_over(&self) -> Vec<Experiment> {
        let size = Bytes(self.machine.l1.0.max(4096));
        let kernels = self.known.which(|role| *role == Role::HandsOver).filter(|_| self.machine.cores > 1);
        let all = kernels.filter_map(|kernel| self.one(kernel, KernelPlace::L1, 2));
        all.map(|one| Experiment { size, ..one }).collect()
    }

    fn prefetch(&self) -> Vec<Experiment> {
        let through = |role: &Role| role.moves() && !role.goes_past() || role.updates_one();
        let off = self.moving(through).into_iter().chain(self.remote(&[1])).chain(self.handing_over());
        let off = off.chain(self.computing());
        let off = off.map(|one| Experiment { prefetch: false, ..one });
        if self.machine.prefetch_switch { off.collect() } else { Vec::new() }
    }

    /// Streams that compute, at every level beyond the first; not in a hurry.
    fn computing(&self) -> Vec<Experiment> {
        let computes = |role: &Role| {
            matches!(role, Role::Streams(streams) if streams.computes && !streams.past) && !role.updates_one()
        };
        let kernels =
            self.known.which(computes).filter(|kernel| self.exists(kernel, None) && !self.extent.quick);
        let places = self.machine.places();
        kernels
            .flat_map(|kernel| places.iter().skip(1).filter_map(move |&place| self.one(kernel, place, 1)))
            .collect()
    }

    fn accuracy(&self) -> Vec<Experiment> {
        let places = self.machine.places();
        let runs = if self.extent.quick { self.extent.runs.min(2) } else { self.extent.runs };
        let mut all = Vec::new();
        for run in 1..=runs {
            let through = |role: &Role| matches!(role, Role::Streams(streams) if !streams.past);
            for kernel in self.known.which(through).filter(|kernel| self.exists(kernel, None)) {
                let here = places.iter().skip(1).filter_map(|&place| self.one(kernel, place, 1));
                all.extend(here.map(|one| Experiment { run, ..one }));
            }
            if self.machine.cores > 1 {
                // The more rows, the less the end of each weighs.
                let large = |kernel| {
                    self.one(kernel, KernelPlace::L3, 2).or_else(|| self.one(kernel, KernelPlace::L2, 2))
                };
                let unbalanced = self.known.which(|role| *role == Role::Unbalanced).filter_map(large);
                all.extend(unbalanced.map(|one| Experiment { run, ..one }));
            }
            all.extend(self.arithmetic().into_iter().map(|one| Experiment { run, ..one }));
        }
        all
    }

    /// Arithmetic in every width (roehl2016 §2.4).
    fn arithmetic(&self) -> Vec<Experiment> {
        let widths = self.machine.widths.iter();
        let kernels = self.known.arithmetic();
        let all = widths.flat_map(|width| kernels.iter().map(move |kernel| (*kernel, *width)));
        let all = all.filter(|(kernel, width)| self.exists(kernel, Some(*width)));
        let here = all.filter_map(|(kernel, width)| Some((self.one(kernel, KernelPlace::L1, 1)?, width)));
        here.map(|(one, width)| Experiment { width: Some(width), ..one }).collect()
    }

    fn stalls(&self) -> Vec<Experiment> {
        let mut all = Vec::new();
        for kernel in self.known.which(|role| matches!(role, Role::Chase(_))) {
            let here = self.machine.places().into_iter().filter_map(|place| self.one(kernel, place, 1));
            all.extend(here);
        }
        for (has_data, kernel) in self.known.waiting_elsewhere() {
            all.extend(self.one(kernel, if has_data { KernelPlace::L1 } else { KernelPlace::Registers }, 1));
        }
        all
    }

    /// From half the first cache to four times the last, each twice the one before.
    fn curves(&self) -> Vec<Experiment> {
        if self.extent.quick {
            return Vec::new();
        }
        let largest = self.machine.size(KernelPlace::Memory, 1).map_or(0, |size| size.0);
        let mut all = Vec::new();
        for kernel in self.known.which(Role::moves_one) {
            let sizes = std::iter::successors(Some(self.machine.l1.0 / 2), |size| Some(size * 2));
            for size in sizes.take_while(|&size| size <= largest) {
                let fits =
                    |place: &KernelPlace| self.machine.size(*place, 1).is_some_and(|most| size <= most.0);
                let place = self.machine.places().into_iter().find(fits).unwrap_or(KernelPlace::Memory);
                all.extend(self.one(kernel, place, 1).map(|one| Experiment { size: Bytes(size), ..one }));
            }
        }
        all
    }

    /// Readers at several paces on one core to all, without prefetchers too; the ends are repeated, for the variation.
    fn latency(&self) -> Vec<Experiment> {
        let delays = if self.extent.quick { &DELAYS[..2] } else { &DELAYS[..] };
        let mut counts = vec![1, self.machine.cores.div_ceil(2), self.machine.cores];
        counts.dedup();
        let chases = self.known.which(|role| *role == Role::Chase(Between::Nothing));
        let mut all: Vec<Experiment> =
            chases.filter_map(|kernel| self.one(kernel, KernelPlace::Memory, 1)).collect();
        let paces = counts.iter().flat_map(|&cores| delays.iter().map(move |nops| (cores, *nops)));
        let readers = self.known.paced_readers();
        for ((cores, nops), (kernel, parameter)) in
            paces.flat_map(|pace| readers.iter().map(move |reader| (pace, *reader)))
        {
            let Some(one) = self.one(kernel, KernelPlace::Memory, cores) else { continue };
            let one = Experiment { parameters: vec![(parameter.to_owned(), nops)], ..one };
            all.push(one.clone());
            if self.extent.quick {
                continue;
            }
            if self.machine.prefetch_switch {
                all.push(Experiment { prefetch: false, ..one.clone() });
            }
            let is_end = [1, self.machine.cores].contains(&cores)
                && [DELAYS.first(), DELAYS.last()].contains(&Some(&nops));
            all.extend((1..=REPEATS).filter(|_| is_end).map(|run| Experiment { run, ..one.clone() }));
        }
        all
    }
}
