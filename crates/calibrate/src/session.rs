//! A calibration under way: what it measures on, how much time is left, and what was noticed.

use std::sync::atomic::{AtomicBool, Ordering};

use kernels::Job;
use machine::{Bytes, CpuSet, Profile, Topology};

use super::{CalibrateRequest, Observer, answers::LevelAnswer, knees::CurvePoint};
use host::{Host, HostError, Measured, repeat::RepeatPlan, statistics};

/// Precision at which a measurement ends early.
const PRECISION: f64 = 0.01;

/// Share of a measurement's time for its samples; the rest goes into getting and filling the memory.
const SAMPLING_SHARE: f64 = 0.6;

/// Even when time is up, a measurement gets this much: a wrong number would be worse than a late one.
const LEAST_NS: f64 = 1e7;

/// What the steps share.
pub(super) struct Session<'a> {
    pub(super) host: &'a mut dyn Host,
    pub(super) machine: &'a Topology,
    pub(super) request: &'a CalibrateRequest,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) interrupt: &'a AtomicBool,
    pub(super) profile: Profile,
    /// The CPU that measures alone.
    pub(super) cpu: u32,
    /// One CPU of each core measured.
    pub(super) cores: Vec<u32>,
    /// Of every measurement so far.
    pub(super) spreads: Vec<f64>,
    /// Every chase of the latency curve so far, each in memory of its own, as fast as it went.
    pub(super) tries: Vec<CurvePoint>,
    /// What each level was seen to answer in, time after time.
    pub(super) answers: Vec<LevelAnswer>,
    /// How often capacities were tried again.
    pub(super) rounds: usize,
    /// Over every measurement so far; `None` if any could not tell.
    pub(super) involuntary_switches: Option<u64>,
    started_ns: f64,
    total_ns: f64,
    step: &'static str,
    step_from: f64,
    step_to: f64,
    step_end_ns: f64,
}

impl<'a> Session<'a> {
    #[allow(clippy::too_many_arguments, reason = "called once, to gather what every step needs")]
    pub(super) fn begin(
        host: &'a mut dyn Host,
        machine: &'a Topology,
        cores: CpuSet,
        profile: Profile,
        request: &'a CalibrateRequest,
        observer: &'a mut dyn Observer,
        interrupt: &'a AtomicBool,
        total_ns: f64,
    ) -> Self {
        let started_ns = host.now_ns();
        let cores: Vec<u32> = cores.iter().collect();
        Self {
            host,
            machine,
            request,
            observer,
            interrupt,
            profile,
            cpu: cores.first().copied().unwrap_or(0),
            cores,
            spreads: Vec::new(),
            tries: Vec::new(),
            answers: Vec::new(),
            rounds: 0,
            involuntary_switches: Some(0),
            started_ns,
            total_ns,
            step: "",
            step_from: 0.0,
            step_to: 0.0,
            step_end_ns: started_ns,
        }
    }

    /// Begins a step that may take its share of the time that is left.
    pub(super) fn enter(&mut self, name: &'static str, share: f64, shares_left: f64) {
        let left_ns = (self.total_ns - self.elapsed_ns()).max(0.0);
        self.step = name;
        self.step_end_ns = self.host.now_ns() + left_ns * share / shares_left;
        self.step_from = self.step_to;
        self.step_to += (1.0 - self.step_to) * share / shares_left;
        self.progress(0.0);
    }

    /// Tells the observer how much of the current step is done.
    pub(super) fn progress(&mut self, within: f64) {
        let fraction = self.step_from + (self.step_to - self.step_from) * within.clamp(0.0, 1.0);
        self.observer.progress(self.step, fraction);
    }

    pub(super) fn elapsed_ns(&mut self) -> f64 {
        self.host.now_ns() - self.started_ns
    }

    /// Time allowed for the whole calibration.
    pub(super) fn total_ns(&self) -> f64 {
        self.total_ns
    }

    /// Time left to the current step; negative when over.
    pub(super) fn left_ns(&mut self) -> f64 {
        self.step_end_ns - self.host.now_ns()
    }

    pub(super) fn interrupted(&self) -> bool {
        self.interrupt.load(Ordering::Relaxed)
    }

    /// A plan for one of `remaining` measurements of the current step.
    pub(super) fn plan(&mut self, remaining: usize) -> RepeatPlan {
        let share_ns = self.left_ns() / remaining.max(1) as f64 * SAMPLING_SHARE;
        RepeatPlan::within(share_ns.max(LEAST_NS), PRECISION)
    }

    /// The kernel of this name over `size` bytes on `cpus`. `None` if there is none, which is remarked on.
    pub(super) fn job(&mut self, kernel: &str, size: Bytes, cpus: &[u32]) -> Option<Job> {
        let job = self.host.job(kernel, size, cpus);
        job.map_err(|error| self.remark(format!("{error}."))).ok()
    }

    /// Runs a job that is one of `remaining`. `None` if it failed (which is remarked on) or was interrupted.
    pub(super) fn measure(&mut self, job: &Job, remaining: usize) -> Option<Measured> {
        let plan = self.plan(remaining);
        self.measure_as(job, &plan)
    }

    /// As [`Session::measure`] with a plan of one's own.
    pub(super) fn measure_as(&mut self, job: &Job, plan: &RepeatPlan) -> Option<Measured> {
        if self.interrupted() {
            return None;
        }
        let result = self.host.measure(job, plan, self.interrupt);
        self.take(result)
    }

    /// Notes the noise of a measurement, or remarks on its failure.
    pub(super) fn take(&mut self, result: Result<Measured, HostError>) -> Option<Measured> {
        match result {
            Ok(measured) => {
                let repeated = &measured.repeated;
                self.spreads.extend(statistics::spread(&repeated.samples_ns));
                self.involuntary_switches =
                    self.involuntary_switches.zip(repeated.involuntary_switches).map(|(a, b)| a + b);
                (!repeated.samples_ns.is_empty()).then_some(measured)
            }
            Err(error) => {
                self.remark(format!("{error}."));
                None
            }
        }
    }

    /// Adds a sentence to the profile, once.
    pub(super) fn remark(&mut self, sentence: String) {
        if !self.profile.remarks.contains(&sentence) {
            self.profile.remarks.push(sentence);
        }
    }

    /// The most memory one measurement may take: a quarter of what we may use, so that nothing is pushed out.
    pub(super) fn memory(&self) -> Bytes {
        Bytes(self.machine.memory_for_us().map_or(1 << 30, |memory| memory.0) / 4)
    }
}
