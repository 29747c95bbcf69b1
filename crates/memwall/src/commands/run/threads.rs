//! `memwall run --threads`: the same program with several numbers of threads, which take turns.

use std::{
    ffi::OsString,
    fs,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use analysis::{
    compare::spoilt,
    findings::{Account, KnownLimits},
    reading::Reading,
};
use machine::{Source, Topology, letters, throttle::ThrottleWatch};
use record::{
    file,
    scaling::{Scaling, ScalingRun},
};
use recorder::{PassingFolder, ProgramOutput};

use crate::{
    commands::recording::{self, Recording},
    failure::Failure,
    placeholder::filled_in,
    progress,
};

/// Rounds if nobody says how many.
pub const DEFAULT_ROUNDS: u32 = 3;

/// What stands for the number of threads in an argument.
const MARK: &str = "{threads}";

/// Others that took more than this part of its threads' time on CPUs disturbed a run.
const MOST_TAKEN: f64 = 0.05;

/// From which libraries take their number of threads.
const VARIABLES: [&str; 4] =
    ["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"];

/// Numbers of threads, each at most once, fewest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadNumbers(Vec<u32>);

impl std::str::FromStr for ThreadNumbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WANTED: &str = "write numbers of threads, at least two, as 1,2,4";
        let numbers = text.split(',').map(|word| word.trim().parse().ok().filter(|number| *number > 0));
        let mut numbers = numbers.collect::<Option<Vec<u32>>>().ok_or(WANTED)?;
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() < 2 { Err(WANTED.to_owned()) } else { Ok(Self(numbers)) }
    }
}

/// One run of a series: what it says, and where its recording is.
struct RecordedRun {
    run: ScalingRun,
    recording: PathBuf,
}

/// A program and the numbers of threads it is run with.
pub struct ThreadSeries<'a> {
    recording: &'a Recording,
    numbers: Vec<u32>,
    rounds: u32,
    source: Source,
    topology: Topology,
    /// That the program may use.
    cpus: u32,
    folder: PassingFolder,
}

impl<'a> ThreadSeries<'a> {
    /// Of the program of a recording.
    pub fn of(recording: &'a Recording, numbers: &ThreadNumbers, rounds: u32) -> Result<Self, Failure> {
        let folder = recording::passing()?.0;
        let source = Source::live();
        let topology = Topology::read(&source);
        let cpus = count(topology.usable_cpus().len());
        Ok(Self { recording, numbers: numbers.0.clone(), rounds, source, topology, cpus, folder })
    }

    /// Runs all. The recording of the run in the middle of those with the most threads that have a CPU each becomes that at
    /// `path`, with what all runs say.
    pub fn record(&self, path: &Path) -> Result<(), Failure> {
        // Each run gets the same, and none of what we might be given.
        let nothing = fs::File::open("/dev/null").map_err(Failure::measurement)?;
        rustix::stdio::dup2_stdin(nothing.as_fd())
            .map_err(|error| Failure::measurement(std::io::Error::from(error)))?;
        let turns = turns(&self.numbers, self.rounds);
        let bar = progress::counting(turns.len() + 1);
        let most = self.numbers.last().copied().unwrap_or(1);
        // Files and caches of the system: not used.
        self.run(most, 0, &bar)?;
        let mut runs = Vec::new();
        for (round, threads) in turns {
            runs.push(self.run(threads, round, &bar)?);
        }
        bar.finish_and_clear();
        let shown =
            middle(&runs, self.cpus).ok_or_else(|| Failure::Measurement("nothing was run".to_owned()))?;
        fs::copy(&shown.recording, path).map_err(|error| {
            Failure::Measurement(format!("cannot write the recording to {}: {error}", path.display()))
        })?;
        let cores = Some(count(self.topology.usable_cores().len())).filter(|cores| *cores > 0);
        let runs = runs.into_iter().map(|run| run.run).collect();
        file::add_scaling(path, &Scaling { cpus: self.cpus, cores, runs }).map_err(Failure::measurement)
    }

    fn run(&self, threads: u32, round: u32, bar: &indicatif::ProgressBar) -> Result<RecordedRun, Failure> {
        let number = threads.to_string();
        let program: Vec<OsString> =
            self.recording.program().iter().map(|word| filled_in(word, MARK, &number)).collect();
        let name = program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        bar.set_message(letters::visible(&format!("{number} threads: {name}")));
        let variables = VARIABLES.map(|variable| (variable.into(), number.clone().into())).to_vec();
        let path = self.folder.path().join(format!("{threads}-{round}.sqlite"));
        let throttling = ThrottleWatch::begin(&self.source);
        let recording = self.recording.in_series(program, variables);
        let outcome = recording.record(&path, false, ProgramOutput::Nowhere)?;
        recording::kept(&outcome, &path)?;
        if outcome.exit_code() != 0 {
            return Err(Failure::Measurement(format!(
                "with {number} threads {name} ended with exit code {}: how it scales is not measured",
                outcome.exit_code()
            )));
        }
        let read = recording::read(&path)?;
        let spoilt = spoilt(&read.run)
            .or_else(|| throttling.throttled())
            .or_else(|| taken(&read.reading.findings.account).filter(|_| threads <= self.cpus));
        let elapsed_ns = read.run.about.elapsed_ns.ok_or_else(|| {
            Failure::Measurement(format!(
                "the recording with {number} threads does not say how long {name} ran: how it scales is not measured"
            ))
        })?;
        bar.inc(1);
        Ok(RecordedRun {
            run: scaling_run(threads, round, elapsed_ns, &read.reading, spoilt),
            recording: path,
        })
    }
}

fn count(cpus: usize) -> u32 {
    u32::try_from(cpus).unwrap_or(u32::MAX)
}

/// Whether others took CPUs that its threads could have run on.
fn taken(account: &Account) -> Option<String> {
    let taken = account.preempted_ns.value()?;
    let wanted = account.user_ns + account.kernel_ns.value().copied().unwrap_or(0.0) + taken;
    let share = taken / wanted;
    (share > MOST_TAKEN)
        .then(|| format!("others took {:.0} % of the time that its threads could have run", share * 100.0))
}

/// Round by round, every other one backwards: what drifts over time reaches all alike.
fn turns(numbers: &[u32], rounds: u32) -> Vec<(u32, u32)> {
    let of_round = |round: u32| -> Vec<(u32, u32)> {
        let forwards = numbers.iter().map(|&threads| (round, threads));
        if round.is_multiple_of(2) { forwards.collect() } else { forwards.rev().collect() }
    };
    (0..rounds).flat_map(of_round).collect()
}

/// The run in the middle of those with the most threads that have a CPU each.
fn middle(runs: &[RecordedRun], cpus: u32) -> Option<&RecordedRun> {
    let fitting = runs.iter().map(|run| run.run.threads).filter(|threads| *threads <= cpus).max();
    let threads = fitting.or_else(|| runs.iter().map(|run| run.run.threads).min())?;
    let mut of_number: Vec<&RecordedRun> = runs.iter().filter(|run| run.run.threads == threads).collect();
    of_number.sort_by_key(|run| run.run.elapsed_ns);
    of_number.get(of_number.len().checked_sub(1)? / 2).copied()
}

fn scaling_run(
    threads: u32,
    round: u32,
    elapsed_ns: u64,
    reading: &Reading,
    spoilt: Option<String>,
) -> ScalingRun {
    let findings = &reading.findings;
    let user_ns = findings.overall.map(|split| split.samples as f64 * findings.about.period_ns);
    let sum = |of: fn(&analysis::work::ThreadWork) -> f64| reading.work.threads.iter().map(of).sum::<f64>();
    // One thread waits for no other: nothing is missing there.
    let others = match &reading.work.synchronising {
        KnownLimits::Value(share) => Some((share.value - reading.work.waits_for_uneven).max(0.0)),
        KnownLimits::Missing(_) => (reading.work.threads.len() == 1)
            .then(|| sum(|thread| thread.synchronising_ns) / user_ns.unwrap_or(f64::INFINITY)),
    };
    ScalingRun {
        threads,
        seen: user_ns.and_then(|_| u32::try_from(reading.work.threads.len()).ok()),
        round,
        elapsed_ns,
        user_ns,
        useful_ns: user_ns.map(|_| sum(|thread| thread.useful_ns)),
        memory_ns: findings.verdict.memory.zip(user_ns).map(|(share, user)| share.value * user),
        synchronising_ns: others.zip(user_ns).map(|(share, user)| share * user),
        imbalance: reading.work.imbalance.value().map(|share| share.value),
        stream_bytes_per_s: findings.limits.streams.value().map(|streams| streams.together_bytes_per_s),
        spoilt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_sorted_and_two_are_wanted() {
        assert_eq!("4,1, 2,2".parse(), Ok(ThreadNumbers(vec![1, 2, 4])));
        for odd in ["", "1", "2,2", "0,1", "1,x", "1,,2", "-1,2"] {
            assert!(odd.parse::<ThreadNumbers>().is_err_and(|why| why.contains("1,2,4")), "{odd}");
        }
    }

    #[test]
    fn numbers_take_turns() {
        assert_eq!(turns(&[1, 2], 3), [(0, 1), (0, 2), (1, 2), (1, 1), (2, 1), (2, 2)]);
    }

    #[test]
    fn runs_whose_cpus_others_took_are_disturbed() {
        let account = |taken: KnownLimits<f64>| Account {
            user_ns: 90.0,
            kernel_ns: KnownLimits::Value(0.0),
            blocked_ns: KnownLimits::Value(1000.0),
            preempted_ns: taken,
            estimated: Default::default(),
        };
        assert!(taken(&account(KnownLimits::Value(10.0))).is_some_and(|why| why.contains("10 %")));
        assert_eq!(taken(&account(KnownLimits::Value(2.0))), None);
        assert_eq!(taken(&account(KnownLimits::Missing("not known".to_owned()))), None);
    }

    #[test]
    fn the_run_shown_is_the_middle_one_with_the_most_threads_that_fit() {
        let run = |threads: u32, elapsed_ns: u64| {
            let run = ScalingRun {
                threads,
                seen: None,
                round: 0,
                elapsed_ns,
                user_ns: None,
                useful_ns: None,
                memory_ns: None,
                synchronising_ns: None,
                imbalance: None,
                stream_bytes_per_s: None,
                spoilt: None,
            };
            RecordedRun { run, recording: PathBuf::from(elapsed_ns.to_string()) }
        };
        let runs = [run(1, 90), run(2, 50), run(2, 70), run(2, 60), run(4, 40)];
        let shown = |cpus: u32| middle(&runs, cpus).map(|run| run.run.elapsed_ns);
        assert_eq!((shown(2), shown(3), shown(8)), (Some(60), Some(60), Some(40)));
        assert!(middle(&[], 2).is_none());
    }
}
