//! Makes the experiments of a plan, several at once where they do not disturb each other.

use std::{
    collections::HashMap,
    sync::{
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    thread,
};

use record::validate::{Experiment, Observation};
use trust::ValidationStep as Done;

use super::{
    Observer,
    bench::{Bench, ObserveError},
    judge::{self, latency::SAMPLED},
    plan::Step,
};

/// A step and its experiments.
pub(super) type Planned = (Step, Vec<Experiment>);

/// All that was made, in the order of the plan.
pub(super) struct Made {
    pub observations: Vec<Observation>,
    /// Of the curves, which lie between the levels too and judge nothing.
    pub swept: Vec<Observation>,
    pub steps: Vec<Done>,
}

type Outcome = Result<Observation, ObserveError>;

/// An experiment that some step asks for.
struct Task<'a> {
    experiment: &'a Experiment,
    /// Loads are sampled too.
    sampled: bool,
}

/// Tasks that workers take from, first come first served.
struct Queue<'a> {
    tasks: &'a [Task<'a>],
    /// Indices of tasks that nobody made before.
    missing: Vec<usize>,
    next: AtomicUsize,
    events: &'a [String],
    interrupt: &'a AtomicBool,
}

impl Queue<'_> {
    fn take(&self) -> Option<usize> {
        if self.interrupt.load(Ordering::Relaxed) {
            return None;
        }
        self.missing.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }

    fn make(&self, bench: &mut dyn Bench, task: usize) -> Outcome {
        let Task { experiment, sampled } = self.tasks[task];
        let mut observation = bench.observe(experiment, self.events, self.interrupt)?;
        if sampled {
            let samples = bench.sampled_latency(experiment, self.interrupt)?;
            let none = || "no load was sampled that memory served, its translation at hand".to_owned();
            let middle = samples.and_then(|samples| judge::median(&samples).ok_or_else(none));
            observation.counts.push((SAMPLED.to_owned(), middle));
        }
        Ok(observation)
    }
}

/// Makes all experiments that the observer has not kept from before.
pub(super) fn make(
    bench: &mut dyn Bench,
    plan: &[Planned],
    events: &[String],
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Made {
    if events.is_empty() {
        return nothing(plan);
    }
    let (tasks, index) = tasks(plan);
    let mut outcomes: Vec<Option<Outcome>> = tasks.iter().map(|task| kept(task, events, observer)).collect();
    let missing: Vec<usize> = (0..tasks.len()).filter(|&task| outcomes[task].is_none()).collect();
    let mut known = tasks.len() - missing.len();
    let queue = Queue { tasks: &tasks, missing, next: AtomicUsize::new(0), events, interrupt };
    let mut done = |task: usize, outcome: Outcome| {
        known += 1;
        observer.progress(&tasks[task].experiment.label(), known as f64 / tasks.len() as f64);
        if let Ok(observation) = &outcome {
            observer.keep(observation);
        }
        outcomes[task] = Some(outcome);
    };
    work(bench, &queue, &mut done);
    collect(plan, &index, &outcomes)
}

/// Lets twins of the bench work side by side, or the bench alone if it has none.
fn work(bench: &mut dyn Bench, queue: &Queue<'_>, done: &mut dyn FnMut(usize, Outcome)) {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(queue.missing.len());
    let twins: Vec<_> = (0..workers).filter_map(|_| bench.twin()).collect();
    if twins.len() < 2 {
        drop(twins);
        while let Some(task) = queue.take() {
            done(task, queue.make(bench, task));
        }
        return;
    }
    thread::scope(|scope| {
        let (send, receive) = mpsc::channel();
        for mut twin in twins {
            let send = send.clone();
            scope.spawn(move || {
                while let Some(task) = queue.take() {
                    // Nobody listens only if the receiver below panicked.
                    let _ = send.send((task, queue.make(&mut *twin, task)));
                }
            });
        }
        drop(send);
        receive.iter().for_each(|(task, outcome)| done(task, outcome));
    });
}

/// Each experiment once, though several steps may ask for it, and where each is by its key.
fn tasks(plan: &[Planned]) -> (Vec<Task<'_>>, HashMap<String, usize>) {
    let mut tasks = Vec::new();
    let mut index = HashMap::new();
    for (step, experiment) in plan.iter().flat_map(|(step, all)| all.iter().map(move |one| (*step, one))) {
        index.entry(experiment.key()).or_insert_with(|| {
            tasks.push(Task { experiment, sampled: step == Step::Latency });
            tasks.len() - 1
        });
    }
    (tasks, index)
}

/// What was made before, if it has all events that are asked for now.
fn kept(task: &Task<'_>, events: &[String], observer: &mut dyn Observer) -> Option<Outcome> {
    let has_all = |kept: &Observation| {
        let has = |event: &String| kept.counts.iter().any(|(name, _)| name == event);
        kept.experiment == *task.experiment && events.iter().all(has)
    };
    observer.kept(&task.experiment.key()).filter(has_all).map(Ok)
}

fn collect(plan: &[Planned], index: &HashMap<String, usize>, outcomes: &[Option<Outcome>]) -> Made {
    let mut made = Made { observations: Vec::new(), swept: Vec::new(), steps: Vec::new() };
    let mut used = vec![false; outcomes.len()];
    for (step, experiments) in plan {
        let mut done = begun(*step, experiments.len());
        if experiments.is_empty() {
            done.missing = Some("left out: quick, or nothing here to try it with".to_owned());
        }
        for task in experiments.iter().filter_map(|one| index.get(&one.key()).copied()) {
            match &outcomes[task] {
                Some(Ok(observation)) if *step == Step::Curves => made.swept.push(observation.clone()),
                Some(Ok(observation)) => {
                    if !std::mem::replace(&mut used[task], true) {
                        made.observations.push(observation.clone());
                    }
                }
                Some(Err(ObserveError::Interrupted)) | None => {
                    done.done = false;
                    done.missing = Some("interrupted; the next call goes on from here".to_owned());
                }
                Some(Err(error)) => done.missing = Some(error.to_string()),
            }
        }
        made.steps.push(done);
    }
    made
}

fn begun(step: Step, experiments: usize) -> Done {
    Done { name: step.name().to_owned(), done: true, experiments, missing: None }
}

fn nothing(plan: &[Planned]) -> Made {
    let missing = Some("no event can be counted here".to_owned());
    let steps = plan.iter().map(|(step, _)| Done { missing: missing.clone(), ..begun(*step, 0) });
    Made { observations: Vec::new(), swept: Vec::new(), steps: steps.collect() }
}
