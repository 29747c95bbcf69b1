//! Targets on this machine: programs, processes, CPUs.

mod programs;

use std::{
    ffi::OsString,
    io,
    os::fd::{AsFd as _, OwnedFd},
    time::{Duration, Instant},
};

use events::{Count, Counting, Scope};
use machine::CpuSet;
use record::run::{Ending, Usage};
use recorder::program::{
    launch::{Child, LaunchedProgram, NotFound, ProgramOutput},
    signals::{self, CaughtSignals},
    usage,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{CountError, Open, Pass, Target, Whom, one_by_one};

/// How often the end of a process is looked for where the kernel does not announce it.
const TICK: Duration = Duration::from_millis(50);

/// Signals after which nothing more is to be counted.
const STOPS: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Hears what was counted in each interval, with the time at its end.
pub type Hear<'a> = dyn FnMut(u64, &[Count]) + 'a;

/// Programs, processes or CPUs of this machine.
pub struct NativeTarget<'a> {
    whom: Whom,
    duration: Option<Duration>,
    output: ProgramOutput,
    /// The cores of each pass, where several are made at the same time.
    cores: Vec<CpuSet>,
    hear: Box<Hear<'a>>,
}

impl<'a> NativeTarget<'a> {
    /// Counts `whom`; what does not end by itself, for at most `duration`.
    pub fn new(whom: Whom, duration: Option<Duration>) -> Self {
        let (output, cores) = (ProgramOutput::default(), Vec::new());
        Self { whom, duration, output, cores, hear: Box::new(|_, _| {}) }
    }

    /// Makes several passes at the same time, each of the program on cores of its own.
    #[must_use]
    pub fn at_once_on(self, cores: Vec<CpuSet>) -> Self {
        Self { cores, ..self }
    }

    /// Tells of every interval as soon as it is over.
    pub fn telling(self, hear: impl FnMut(u64, &[Count]) + 'a) -> Self {
        Self { hear: Box::new(hear), ..self }
    }

    /// Has a program's standard output go there.
    #[must_use]
    pub fn printing_to(self, output: ProgramOutput) -> Self {
        Self { output, ..self }
    }

    fn program(&self) -> &[OsString] {
        match &self.whom {
            Whom::Program(command) | Whom::Cpus(_, command) | Whom::Cgroup(_, _, command) => command,
            Whom::Process(_) => &[],
        }
    }

    /// Of whom; the child's number where the program itself is counted.
    fn scope(&self, child: Option<i32>) -> Scope {
        match &self.whom {
            Whom::Program(_) => Scope::Child(child.and_then(|pid| u32::try_from(pid).ok()).unwrap_or(0)),
            Whom::Process(pid) => Scope::Process(*pid),
            Whom::Cpus(cpus, _) => Scope::Cpus(cpus.clone()),
            Whom::Cgroup(path, cpus, _) => Scope::Cgroup(path.clone(), cpus.clone()),
        }
    }
}

fn system(what: &'static str) -> impl Fn(io::Error) -> CountError {
    move |source| CountError::System { what, source }
}

impl Target for NativeTarget<'_> {
    fn name(&self) -> String {
        let command = self.program().iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        let during = if command.is_empty() { String::new() } else { format!(" during {command}") };
        match &self.whom {
            Whom::Program(_) => command,
            Whom::Process(pid) => format!("process {pid}"),
            Whom::Cpus(cpus, _) => format!("CPUs {cpus}{during}"),
            Whom::Cgroup(path, ..) => format!("control group {path}{during}"),
        }
    }

    fn passes(
        &mut self,
        opens: &mut [&mut Open<'_>],
        interval: Option<Duration>,
    ) -> Result<Vec<Pass>, CountError> {
        match &self.whom {
            Whom::Program(command) if opens.len() > 1 && opens.len() <= self.cores.len() => {
                programs::at_once(command, self.output, &self.cores, opens)
            }
            _ => one_by_one(opens, &mut |open| self.pass(open, interval)),
        }
    }

    fn pass(&mut self, open: &mut Open<'_>, interval: Option<Duration>) -> Result<Pass, CountError> {
        let signals = CaughtSignals::catch().map_err(system("catch signals"))?;
        let mut child = match self.program().is_empty() {
            true => None,
            false => Some(start(self.program(), self.output, &signals)?),
        };
        let mut counting = match open(self.scope(child.as_ref().map(|child| child.pid))) {
            Ok(counting) => counting,
            Err(refusal) => {
                // It still waits at the gate, which closes with it.
                if let Some(child) = child.take() {
                    let pid = child.pid;
                    drop(child);
                    let _ = usage::wait(pid, true);
                }
                return Err(refusal.into());
            }
        };
        counting.start()?;
        let began = Instant::now();
        if let Some(child) = &mut child
            && let Err(error) = child.go()
        {
            let _ = usage::wait(child.pid, true);
            return Err(not_started(self.program(), &error));
        }
        // Beyond what the clock can tell: none.
        let deadline = self.duration.and_then(|duration| began.checked_add(duration));
        let hear = &mut *self.hear;
        let mut watch = Watch { signals: &signals, began, deadline, interval, readings: Vec::new(), hear };
        let pid = match &self.whom {
            Whom::Process(pid) => i32::try_from(*pid).ok(),
            _ => None,
        };
        let stopped = watch.wait(child.as_ref().map(|child| child.pid), pid, &mut *counting)?;
        let elapsed = began.elapsed();
        counting.stop()?;
        let counts = counting.read()?;
        let notes = counting.notes();
        if interval.is_some() {
            watch.keep(nanos(elapsed), counts.clone());
        }
        let readings = watch.readings;
        drop(counting);
        let (ending, usage) = match (stopped.ended, &child) {
            (Some((ending, usage)), _) => (Some(ending), Some(usage)),
            // Counting is over, the program goes on: its exit code is still wanted.
            (None, Some(child)) => match usage::wait(child.pid, true) {
                Ok(Some((ending, usage))) => (Some(ending), Some(usage)),
                _ => (Some(Ending::Unknown), None),
            },
            (None, None) => (None, None),
        };
        Ok(Pass {
            elapsed_ns: nanos(elapsed),
            ending,
            usage,
            counts,
            readings,
            notes,
            interrupted: stopped.interrupted,
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn start(command: &[OsString], output: ProgramOutput, signals: &CaughtSignals) -> Result<Child, CountError> {
    let name = || command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let program = LaunchedProgram::find(command).map_err(|error| CountError::Program {
        program: name(),
        reason: match error {
            NotFound::Missing => format!("no such program; {}", recorder::where_to_look(&name())),
            NotFound::Forbidden(error) => format!("cannot be executed: {error}"),
        },
    })?;
    program.printing_to(output).fork(signals.mask_before()).map_err(system("start the program"))
}

fn not_started(command: &[OsString], error: &io::Error) -> CountError {
    let program = command.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    CountError::Program { program, reason: format!("cannot be executed: {error}") }
}

/// Waits while events are counted.
struct Watch<'a> {
    signals: &'a CaughtSignals,
    began: Instant,
    deadline: Option<Instant>,
    interval: Option<Duration>,
    readings: Vec<(u64, Vec<Count>)>,
    hear: &'a mut Hear<'a>,
}

/// Why the waiting ended.
struct Stopped {
    ended: Option<(Ending, Usage)>,
    interrupted: bool,
}

impl Watch<'_> {
    /// Until the child has ended, the process is gone, the time is up, or (without a child) a signal comes.
    fn wait(
        &mut self,
        child: Option<i32>,
        process: Option<i32>,
        counting: &mut dyn Counting,
    ) -> Result<Stopped, CountError> {
        let mut due = self.interval.and_then(|interval| self.began.checked_add(interval));
        let watched = child.or(process).and_then(pidfd);
        let mut interrupted = false;
        loop {
            self.sleep(due, watched.as_ref(), child.or(process).is_some());
            interrupted |= self.pass_on(child);
            if interrupted && child.is_none() {
                return Ok(Stopped { ended: None, interrupted });
            }
            if let Some(pid) = child {
                match usage::wait(pid, false) {
                    Ok(None) => {}
                    Ok(ended) => return Ok(Stopped { ended, interrupted }),
                    Err(_) => {
                        let unknown = (Ending::Unknown, Usage::default());
                        return Ok(Stopped { ended: Some(unknown), interrupted });
                    }
                }
            }
            let is_gone = process.is_some_and(|pid| is_gone(pid, watched.as_ref()));
            if is_gone || self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(Stopped { ended: None, interrupted });
            }
            if let (Some(at), Some(interval)) = (due, self.interval) {
                let now = Instant::now();
                if now >= at {
                    self.keep(nanos(now - self.began), counting.read()?);
                    due = at.max(now.checked_sub(interval).unwrap_or(at)).checked_add(interval);
                }
            }
        }
    }

    /// Until a signal, the end of the process, or something is due. A target's time is not spent on looking.
    fn sleep(&self, due: Option<Instant>, watched: Option<&OwnedFd>, has_process: bool) {
        let now = Instant::now();
        let due = [due, self.deadline].into_iter().flatten().min();
        // Rounded up: the wait is in whole milliseconds.
        let until = due.map(|at| at.saturating_duration_since(now) + Duration::from_micros(999));
        let longest = if has_process && watched.is_none() { TICK } else { Duration::from_secs(3600) };
        self.signals.wait(watched.map(|fd| fd.as_fd()), until.map_or(longest, |until| until.min(longest)));
    }

    /// Gives the child the signals meant for it; whether one was to end the counting.
    fn pass_on(&self, child: Option<i32>) -> bool {
        let mut stops = false;
        while let Some(arrival) = self.signals.next() {
            stops |= STOPS.contains(&arrival.signal);
            // The terminal sends its own to the child as well.
            if let Some(pid) = child.filter(|_| !arrival.reached_program) {
                signals::send(pid, arrival.signal);
            }
        }
        stops
    }

    /// Keeps a reading, and tells what the interval before it added.
    fn keep(&mut self, end_ns: u64, reading: Vec<Count>) {
        let before = self.readings.last().map_or(&[][..], |(_, counts)| counts);
        (self.hear)(end_ns, &record::count::since(before, &reading));
        self.readings.push((end_ns, reading));
    }
}

/// Whether a process has ended. One that nobody has waited for is still listed, so that its descriptor knows better.
fn is_gone(pid: i32, descriptor: Option<&OwnedFd>) -> bool {
    let Some(descriptor) = descriptor else {
        return !std::path::Path::new(&format!("/proc/{pid}")).exists();
    };
    let mut entry = [PollFd::new(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut entry, Some(&now)).is_ok_and(|ready| ready > 0)
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()
}
