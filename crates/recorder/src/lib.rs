//! Running a program under the timer instrument, into a recording; and known work of this process under the same.
//!
//! [`record()`] starts a program, or attaches to one, samples it and everything it starts, and writes a recording
//! (`record::file`) as it goes. The program gets memwall's own standard streams, environment, signal mask and ignored
//! signals, and its exit code comes back in the [`RecordOutcome`].
//!
//! - Signals of the terminal (Ctrl-C) reach the program and memwall alike: the program decides what they mean, memwall
//!   goes on until it ends. SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT and SIGQUIT sent to memwall alone are passed on.
//!   Attached to a process, each of them ends the recording and leaves the process alone.
//! - The recording takes its place when the program was started; one that was there gets another name. If nothing is
//!   started, nothing changes.
//! - If memwall is killed the program goes on untouched, and the recording holds what was committed before.
//! - The recording ends with the program, also if it leaves children running.
//! - If the disk is full the recording stops, the program goes on.
//! - Where perf_event is refused, what procfs and the kernel's accounting know is recorded: processor time, context
//!   switches and how threads spent their time, without samples.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod areas;
mod bursts;
mod calls;
mod chains;
mod code_store;
mod core_clock;
mod event_sampling;
mod heap;
mod known_work;
mod loads;
mod memory;
mod modules;
mod onlooker;
mod operand;
mod passing;
mod population;
pub mod procfs;
pub mod program;
mod recorder;
mod regions;
mod replay;
mod restraint;
mod schedule;
mod session;
mod slices;
mod spaces;
#[cfg(test)]
mod tests;
mod unwinding;
mod variables;

use std::{ffi::OsString, io, path::PathBuf, time::Duration};

use machine::Source;
use pmu::{LinuxKernel, NamedSampling};
use record::{
    file::{FileError, OlderRecording},
    run::Ending,
};

pub use ::heap::{EventCount, MarkedEvent, ReadAtMarks};
pub use code_store::complete;
pub use known_work::{GeneratedCode, KnownWork, KnownWorkError};
pub use memory::own_vdso;
pub use onlooker::{CopiesOfProgram, Onlooker, SampledMoment};
pub use passing::{PassingFolder, PassingUse, clear_leftovers, leftovers};
pub use program::launch::ProgramOutput;
pub use regions::{CountedVisits, MarkedCounts, MarkedRegion, MarkedThread};
pub use replay::{ImageFinder, Replay, ReplayOptions, ReplayOutcome, ReplayedArea, WantedImage};

/// What to record, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordRequest {
    /// Whom.
    pub target: RecordTarget,
    /// Into which file.
    pub output: PathBuf,
    /// Samples per second and running thread.
    pub rate_hz: u32,
    /// Recording begins so long after the program began, or after attaching.
    pub delay: Duration,
    /// Recording stops after this time; the program goes on.
    pub duration: Option<Duration>,
    /// How many instructions before the sampled one the core waited for, as found on this machine.
    pub skid_instructions: u32,
    /// What to do where the kernel refuses to sample.
    pub on_refusal: OnRefusal,
    /// Variables that a program that is started has in its environment, beside our own.
    pub environment: Vec<(OsString, OsString)>,
    /// Regions count only after the program has said so many times that an event is done.
    pub skip_events: u64,
    /// Have a program that is started write down its allocations, and where its regions begin and end.
    pub heap: bool,
    /// What its threads read at the marks of regions, beside page faults and context switches.
    pub at_marks: ReadAtMarks,
    /// Take call chains along, as far as frame pointers carry. On a guest they took 0.1 to 0.3 % of processor time beside
    /// the 1.5 to 2 % of sampling itself.
    pub call_chains: bool,
    /// Sample loads with their latency and where their data came from, where the processor can.
    pub precise: bool,
    /// Events that are sampled beside the clock.
    pub events: Vec<NamedSampling>,
    /// One sample after so many of these events, instead of as many a second as of the clock.
    pub event_period: Option<u64>,
    /// Where the standard output of a program that is started goes.
    pub program_output: ProgramOutput,
    /// The version of memwall, for the recording.
    pub memwall: String,
}

/// Whom a user asks to record. Once the program has a number it is a [`pmu::Scope`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordTarget {
    /// Start this program with its arguments.
    Launch(Vec<OsString>),
    /// The process with this number.
    Attach(u32),
}

/// What to do where the kernel refuses to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRefusal {
    /// Run the program and record what can be had without samples.
    GoOn,
    /// Fail before the program starts.
    Fail,
}

impl RecordRequest {
    /// 1000 samples per second, from the beginning to the end, with allocations, without call chains and sampled loads.
    pub fn new(target: RecordTarget, output: impl Into<PathBuf>) -> Self {
        Self {
            target,
            output: output.into(),
            rate_hz: 1000,
            delay: Duration::ZERO,
            duration: None,
            skid_instructions: 1,
            on_refusal: OnRefusal::GoOn,
            environment: Vec::new(),
            skip_events: 0,
            heap: true,
            at_marks: ReadAtMarks::default(),
            call_chains: false,
            precise: false,
            events: Vec::new(),
            event_period: None,
            program_output: ProgramOutput::Stdout,
            memwall: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// How the recorded program ended, and what the recording lacks.
#[derive(Debug)]
pub struct RecordOutcome {
    /// How the program ended; [`Ending::Detached`] if it was attached to and goes on.
    pub ending: Ending,
    /// From the first instruction to the end of recording.
    pub elapsed: Duration,
    /// Samples in the recording; none if the recording is gone.
    pub samples: Option<u64>,
    /// The recording that had the name before.
    pub older: Option<OlderRecording>,
    /// Why there are no samples, and what would allow them.
    pub refusal: Option<String>,
    /// Why no loads were sampled although that was asked for, and what to do instead.
    pub no_loads: Option<String>,
    /// Why the recording stopped early; what was measured before is in it, unless it is gone.
    pub trouble: Option<RecordTrouble>,
    /// A folder with the library that writes allocations down, still there because processes of the program go on and
    /// load it into whatever they start.
    pub left_behind: Option<PathBuf>,
    /// What threads counted in regions of the program.
    pub marked: MarkedCounts,
}

impl RecordOutcome {
    /// The exit code a shell would show: the program's own, or 128 and the signal that killed it.
    pub fn exit_code(&self) -> u8 {
        match self.ending {
            // The kernel keeps eight bits.
            Ending::Exited(code) => (code & 0xff) as u8,
            Ending::Signalled(signal) => (128 + (signal & 0x7f)) as u8,
            Ending::Detached | Ending::Unknown => 0,
        }
    }
}

/// Why a recording stopped before the program did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordTrouble {
    /// It cannot be written any more.
    #[error(transparent)]
    File(#[from] FileError),
    /// memwall panicked.
    #[error("a fault of memwall itself; please report the lines above that begin with \"thread\"")]
    OwnFault,
}

/// Why nothing was recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// There is no such program.
    #[error("{program}: no such program; {}", where_to_look(program))]
    NoProgram {
        /// As it was given.
        program: String,
    },
    /// There is a file, but it cannot be executed.
    #[error("{program}: cannot be executed; check its permissions and that it is made for this machine")]
    NotExecutable {
        /// As it was given.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// There is no such process.
    #[error("process {pid}: not running; see 'ps -e' for those that are")]
    NoProcess {
        /// The number given.
        pid: u32,
    },
    /// The rate is out of range.
    #[error("{rate_hz} samples per second cannot be had; ask for 1 to {}", MAX_RATE_HZ)]
    Rate {
        /// The rate asked for.
        rate_hz: u32,
    },
    /// The kernel refuses to sample.
    #[error("the program cannot be sampled: {0}")]
    Refused(String),
    /// The recording cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system refused something else.
    #[error("cannot {what}")]
    System {
        /// After "cannot".
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// What to do about a program that is not there.
pub fn where_to_look(program: &str) -> String {
    if program.contains('/') {
        "check the path".to_owned()
    } else {
        format!("check the name, or give a path such as ./{program}")
    }
}

/// More would be throttled by most kernels, and measure the measuring.
pub const MAX_RATE_HZ: u32 = 20_000;

impl RecordError {
    /// The exit code that shells and `env` use for programs that could not be started, 1 for all else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoProgram { .. } => 127,
            Self::NotExecutable { .. } => 126,
            _ => 1,
        }
    }
}

/// Records what is asked for, on the machine at `source`, through `kernel`. Comes back when the program has ended, or
/// recording is over for a process attached to.
pub fn record(
    request: &RecordRequest,
    kernel: &dyn LinuxKernel,
    source: &Source,
) -> Result<RecordOutcome, RecordError> {
    record_watched(request, kernel, source, Watchers::default())
}

/// Who is told of a recording while it goes on.
#[derive(Default)]
pub struct Watchers<'k> {
    /// Looks at the samples.
    pub onlooker: Option<&'k mut dyn Onlooker>,
    /// Is shown some of the samples every two seconds, or less often where finding them takes more than a hundredth of
    /// that time. Must not take long.
    pub viewer: Option<&'k mut dyn FnMut(SampledMoment)>,
    /// Hears about once a second how long it has gone on. Must not take long.
    pub clock: Option<&'k mut dyn FnMut(Duration)>,
    /// Hears the number of a program that was started, before its first instruction.
    pub at_gate: Option<&'k mut dyn FnMut(u32)>,
}

/// The same, with watchers while the program runs.
pub fn record_watched<'k>(
    request: &RecordRequest,
    kernel: &'k dyn LinuxKernel,
    source: &Source,
    watchers: Watchers<'k>,
) -> Result<RecordOutcome, RecordError> {
    if !(1..=MAX_RATE_HZ).contains(&request.rate_hz) {
        return Err(RecordError::Rate { rate_hz: request.rate_hz });
    }
    session::record(request, kernel, source, watchers)
}
