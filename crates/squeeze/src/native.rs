//! A program of this machine as the subject of a session.
//!
//! The first run passes the program's output through and is not counted: it fills the file cache, and says how the program
//! usually ends. Of the others only the errors are shown. Interference runs in threads of this process, on CPUs that the
//! program may not use: whatever ends memwall ends it too.

mod marks;
mod output;

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    time::{Duration, Instant},
};

use host::Host;
use machine::{CpuSet, squeezing::Interference};
use record::run::Ending;
use recorder::program::{
    launch::{LaunchedProgram, NotFound},
    signals::{self, CaughtSignals},
    usage,
};
use rustix::thread::{CpuSet as Affinity, sched_getaffinity, sched_setaffinity};

use crate::{
    SqueezeError,
    partition::HardwarePartition,
    recipe,
    session::{SqueezeSubject, SubjectRun},
};
use marks::Marks;
pub use output::PrintedValue;
use output::Tee;

/// Signals after which no further run is begun.
const STOPS: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];
/// How often the end of the program is looked for where the kernel does not announce it.
const TICK: Duration = Duration::from_millis(50);

/// What a program's time is.
#[derive(Clone, Debug)]
pub enum ProgramMetric {
    /// From its start to its end.
    Wall,
    /// Between the first `begin` and the last `end` that it writes to the file named by `MEMWALL_MARKS`.
    Marks,
    /// What it prints.
    Printed(PrintedValue),
}

/// How a program is run.
#[derive(Clone, Debug)]
pub struct ProgramPlan {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// CPUs it may use.
    pub cpus: CpuSet,
    /// CPUs of the interference.
    pub spare: Vec<u32>,
    /// What its time is.
    pub metric: ProgramMetric,
    /// What it reads; nothing if none.
    pub input: Option<PathBuf>,
    /// Let the output of every run through, not only of the first.
    pub all_output: bool,
    /// How many copies run at once, each on CPUs of its own if there are enough.
    pub copies: usize,
}

/// A program that is run again and again.
pub struct NativeProgram<'a> {
    host: &'a mut dyn Host,
    partition: Option<HardwarePartition>,
    plan: ProgramPlan,
    program: LaunchedProgram,
    signals: CaughtSignals,
    nothing: File,
    usual: Option<Ending>,
    interrupted: bool,
    started: Instant,
}

fn system(what: &'static str) -> impl Fn(std::io::Error) -> SqueezeError {
    move |source| SqueezeError::System { what, source }
}

/// How a program ran with nothing beside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FirstRun {
    /// How long it took.
    pub wall_ns: f64,
    /// How it ended.
    pub ending: Ending,
    /// Processor time over that, of all its processes.
    pub busy_cpus: f64,
}

/// How a copy ended, and its time in nanoseconds or why there is none.
struct FinishedCopy {
    ending: Ending,
    time: Result<f64, String>,
    processor_ns: f64,
}

/// One run that is under way.
struct StartedCopy {
    pid: i32,
    pidfd: Option<OwnedFd>,
    began: Instant,
    tee: Option<Tee>,
    marks: Option<Marks>,
    ended: Option<(Ending, Instant)>,
    processor_ns: f64,
}

impl<'a> NativeProgram<'a> {
    /// Finds the program.
    pub fn find(
        host: &'a mut dyn Host,
        partition: Option<HardwarePartition>,
        plan: ProgramPlan,
    ) -> Result<Self, SqueezeError> {
        let name =
            || plan.command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let program = LaunchedProgram::find(&plan.command).map_err(|error| SqueezeError::Program {
            program: name(),
            reason: match error {
                NotFound::Missing => "no such program; check the name, or give a path".to_owned(),
                NotFound::Forbidden(error) => format!("cannot be executed: {error}"),
            },
        })?;
        let signals = CaughtSignals::catch().map_err(system("catch signals"))?;
        let nothing =
            OpenOptions::new().read(true).write(true).open("/dev/null").map_err(system("open /dev/null"))?;
        let started = Instant::now();
        Ok(Self {
            host,
            partition,
            plan,
            program,
            signals,
            nothing,
            usual: None,
            interrupted: false,
            started,
        })
    }

    /// The first run, whose output passes through. `None` if interrupted.
    pub fn first_run(&mut self) -> Result<Option<FirstRun>, SqueezeError> {
        self.take(&[])?;
        let began = Instant::now();
        let copies = self.run_copies(true)?;
        if self.interrupted {
            return Ok(None);
        }
        let wall_ns = began.elapsed().as_nanos() as f64;
        let processor_ns: f64 = copies.iter().map(|copy| copy.processor_ns).sum();
        let ending = copies.iter().map(|copy| copy.ending).find(|ending| *ending != Ending::Exited(0));
        let ending = ending.unwrap_or(Ending::Exited(0));
        self.usual = Some(ending);
        if let Some(error) = copies.into_iter().find_map(|copy| copy.time.err()) {
            return Err(SqueezeError::Metric(error));
        }
        Ok(Some(FirstRun { wall_ns, ending, busy_cpus: processor_ns / wall_ns.max(1.0) }))
    }

    fn take(&mut self, interferences: &[Interference]) -> Result<(), SqueezeError> {
        recipe::take(self.host, self.partition.as_ref(), interferences, &self.plan.spare)
    }

    /// Runs all copies at once.
    fn run_copies(&mut self, first: bool) -> Result<Vec<FinishedCopy>, SqueezeError> {
        let mut running = Vec::new();
        for number in 0..self.plan.copies.max(1) {
            running.push(self.start(number, first)?);
        }
        while running.iter().any(|copy| copy.ended.is_none()) {
            let watched = running.iter().find(|copy| copy.ended.is_none());
            let timeout =
                if watched.is_some_and(|copy| copy.pidfd.is_some()) { Duration::from_secs(1) } else { TICK };
            self.signals.wait(watched.and_then(|copy| copy.pidfd.as_ref()).map(|fd| fd.as_fd()), timeout);
            self.pass_on(&running);
            for copy in running.iter_mut().filter(|copy| copy.ended.is_none()) {
                match usage::wait(copy.pid, false) {
                    Ok(None) => {}
                    Ok(Some((ending, usage))) => {
                        copy.ended = Some((ending, Instant::now()));
                        copy.processor_ns = (usage.user_ns + usage.system_ns) as f64;
                    }
                    Err(_) => copy.ended = Some((Ending::Unknown, Instant::now())),
                }
            }
        }
        Ok(running.into_iter().map(|copy| self.finished(copy)).collect())
    }

    fn start(&self, number: usize, first: bool) -> Result<StartedCopy, SqueezeError> {
        let input = match &self.plan.input {
            Some(path) => File::open(path).map_err(system("open the file of --input"))?,
            None => self.nothing.try_clone().map_err(system("open /dev/null"))?,
        };
        let shown = first || self.plan.all_output;
        let tee = match self.plan.metric {
            ProgramMetric::Printed(_) => Some(Tee::begin(shown).map_err(system("make a pipe"))?),
            _ => None,
        };
        let marks = match self.plan.metric {
            ProgramMetric::Marks => Some(Marks::begin().map_err(system("make a place for marks"))?),
            _ => None,
        };
        let mut redirected: Vec<(BorrowedFd<'_>, i32)> = vec![(input.as_fd(), 0)];
        match &tee {
            Some(tee) => redirected.push((tee.program_end(), 1)),
            None if !shown => redirected.push((self.nothing.as_fd(), 1)),
            None => {}
        }
        let variables = marks.iter().map(Marks::variable).collect::<Vec<_>>();
        let before = self.pin(number)?;
        let forked = self.program.fork_redirected(self.signals.mask_before(), &variables, &redirected);
        sched_setaffinity(None, &before).map_err(|error| system("give back our CPUs")(error.into()))?;
        let mut child = forked.map_err(system("start the program"))?;
        let pidfd = rustix::process::Pid::from_raw(child.pid)
            .and_then(|pid| rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok());
        let tee = tee.map(Tee::listen);
        let began = Instant::now();
        if let Err(error) = child.go() {
            let _ = usage::wait(child.pid, true);
            return Err(SqueezeError::Program {
                program: self.program.path().display().to_string(),
                reason: format!("cannot be executed: {error}"),
            });
        }
        Ok(StartedCopy { pid: child.pid, pidfd, began, tee, marks, ended: None, processor_ns: 0.0 })
    }

    /// Takes the CPUs of a copy for ourselves, for the child to inherit; gives back which we had.
    fn pin(&self, number: usize) -> Result<Affinity, SqueezeError> {
        let refused = |error: rustix::io::Errno| system("choose the program's CPUs")(error.into());
        let before = sched_getaffinity(None).map_err(refused)?;
        let all: Vec<u32> = self.plan.cpus.iter().collect();
        let each = all.len() / self.plan.copies.max(1);
        let own = if each > 0 { &all[number * each..(number + 1) * each] } else { &all[..] };
        let mut affinity = Affinity::new();
        own.iter().for_each(|cpu| affinity.set(*cpu as usize));
        sched_setaffinity(None, &affinity).map_err(refused)?;
        Ok(before)
    }

    /// Gives the program the signals that were meant for it.
    fn pass_on(&mut self, running: &[StartedCopy]) {
        while let Some(arrival) = self.signals.next() {
            self.interrupted |= STOPS.contains(&arrival.signal);
            if !arrival.reached_program {
                let going = running.iter().filter(|copy| copy.ended.is_none());
                going.for_each(|copy| signals::send(copy.pid, arrival.signal));
            }
        }
    }

    fn finished(&self, copy: StartedCopy) -> FinishedCopy {
        let (ending, at) = copy.ended.unwrap_or((Ending::Unknown, Instant::now()));
        let printed = copy.tee.map(Tee::finish);
        let time = match (&self.plan.metric, printed, copy.marks) {
            (ProgramMetric::Printed(value), Some(text), _) => value.time_ns(&text),
            (ProgramMetric::Marks, _, Some(marks)) => marks.between_ns(),
            _ => Ok(at.duration_since(copy.began).as_nanos() as f64),
        };
        FinishedCopy { ending, time, processor_ns: copy.processor_ns }
    }
}

impl SqueezeSubject for NativeProgram<'_> {
    fn run(&mut self, interference: Option<&Interference>) -> Result<SubjectRun, SqueezeError> {
        self.pass_on(&[]);
        if self.interrupted {
            return Ok(SubjectRun::Interrupted);
        }
        self.take(interference.map(std::slice::from_ref).unwrap_or_default())?;
        let copies = self.run_copies(false);
        self.take(&[])?;
        let copies = copies?;
        if self.interrupted {
            return Ok(SubjectRun::Interrupted);
        }
        let mut slowest = 0.0f64;
        for FinishedCopy { ending, time, .. } in copies {
            if Some(ending) != self.usual {
                return Ok(SubjectRun::Crashed(ending, None));
            }
            match time {
                Ok(ns) => slowest = slowest.max(ns),
                Err(reason) => return Ok(SubjectRun::Crashed(ending, Some(reason))),
            }
        }
        Ok(SubjectRun::Timed(slowest))
    }

    fn now_s(&mut self) -> f64 {
        self.started.elapsed().as_secs_f64()
    }
}
