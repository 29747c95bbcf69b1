//! One run of a program under the timer instrument: samples, who ran, and the code they landed in.

use std::num::NonZeroU64;

use machine::profile::{Fingerprint, Noise};
use serde::{Deserialize, Serialize};

use crate::{
    data::Data,
    ids::{FunctionId, ModuleId, PlaceId, ProcessId, ThreadId},
    import::ImportRecord,
    inlined::{InlinedCode, is_library_source},
    loads::LoadSamples,
    probe::Probes,
    regions::Regions,
    relief::ReliefRecord,
    sampled::SampledEvents,
    scaling::Scaling,
};

/// A whole recording in memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was run, how, and how it ended.
    pub about: About,
    /// Processes in the order they were seen.
    pub processes: Vec<Process>,
    /// Threads in the order they were seen.
    pub threads: Vec<RecordedThread>,
    /// Files and other memory that code was executed from.
    pub modules: Vec<Module>,
    /// Functions that samples landed in.
    pub functions: Vec<Function>,
    /// Source files as debug information names them.
    pub files: Vec<String>,
    /// Source lines of those functions where debug information exists, ordered by module and address.
    pub lines: Vec<LineRange>,
    /// Functions that were inlined into those.
    #[serde(default)]
    pub inlined: InlinedCode,
    /// Addresses that samples landed on, each once.
    pub places: Vec<Place>,
    /// The samples.
    pub samples: Samples,
    /// Samples that were taken close together in short bursts, to see how fast loops turn. They are no share of the time.
    #[serde(default)]
    pub bursts: Samples,
    /// Samples of loops that begin again and again, with the register that counts how often in place of an address; of each
    /// loop the first ones alone.
    #[serde(default)]
    pub passes: Samples,
    /// Loads that the processor sampled itself, if it was asked to.
    pub loads: LoadSamples,
    /// What hot loops take with their data in the first cache, if that was asked for.
    #[serde(default)]
    pub relief: ReliefRecord,
    /// Regions that the program marked.
    #[serde(default)]
    pub regions: Regions,
    /// How fast cache and memory answered before and after.
    #[serde(default)]
    pub probes: Probes,
    /// The series that it is a run of, with other numbers of threads; none if it is of none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Where it was imported from; none if it was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Box<ImportRecord>>,
    /// Events that were sampled, if any were beside the clock.
    #[serde(default)]
    pub sampled: SampledEvents,
    /// Call chains, each once: places from the sampled one outwards.
    pub stacks: Vec<Vec<PlaceId>>,
    /// What lay where in memory, and who had allocated it.
    pub data: Data,
    /// How each thread spent each slice of wall time; empty if the kernel refused context-switch records.
    pub slices: Vec<Slice>,
    /// What was lost, refused or went wrong, in plain sentences.
    pub remarks: Vec<String>,
}

impl Run {
    /// A process; none if the recording has no such row.
    pub fn process(&self, id: ProcessId) -> Option<&Process> {
        self.processes.get(id.index())
    }

    /// A thread; none if the recording has no such row.
    pub fn thread(&self, id: ThreadId) -> Option<&RecordedThread> {
        self.threads.get(id.index())
    }

    /// A module; none if the recording has no such row.
    pub fn module(&self, id: ModuleId) -> Option<&Module> {
        self.modules.get(id.index())
    }

    /// A function; none if the recording has no such row.
    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id.index())
    }

    /// A place; none if the recording has no such row.
    pub fn place(&self, id: PlaceId) -> Option<&Place> {
        self.places.get(id.index())
    }

    /// File and line that an address comes from, if debug information says so. Where the line is a library's that was
    /// inlined, the line outside of it that is not.
    pub fn line_at(&self, module: ModuleId, address: u64) -> Option<(&str, u32)> {
        let frames = self.frames_at(module, address);
        let own = frames.iter().find(|frame| !is_library_source(frame.file));
        own.or(frames.first()).map(|frame| (frame.file, frame.line))
    }

    /// The lines of an address from the innermost inlined function outwards, as far as they are known.
    pub fn frames_at(&self, module: ModuleId, address: u64) -> Vec<SourceFrame<'_>> {
        let Some((file, line)) = self.innermost_line_at(module, address) else { return Vec::new() };
        let calls = self.inlined.at(module, address);
        let mut frames = vec![SourceFrame { file, line, inlined: calls.first().map(|call| &*call.function) }];
        for (index, call) in calls.iter().enumerate() {
            let file = call.file.and_then(|file| self.files.get(file as usize));
            let (Some(file), Some(line)) = (file, call.line) else { break };
            frames.push(SourceFrame {
                file,
                line,
                inlined: calls.get(index + 1).map(|call| &*call.function),
            });
        }
        frames
    }

    fn innermost_line_at(&self, module: ModuleId, address: u64) -> Option<(&str, u32)> {
        let after = self.lines.partition_point(|line| (line.module, line.start) <= (module, address));
        let line = self.lines.get(after.checked_sub(1)?)?;
        let is_here = line.module == module && address < line.end;
        is_here.then_some((self.files.get(line.file as usize)?, line.line))
    }
}

/// A line that an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceFrame<'a> {
    /// As debug information names it.
    pub file: &'a str,
    /// Line in it.
    pub line: u32,
    /// The inlined function that the line is in; none: the function itself.
    pub inlined: Option<&'a str>,
}

/// What was run, how, and how it ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct About {
    /// The version of memwall that recorded.
    pub memwall: String,
    /// Program and arguments; of an attached process, its command line.
    pub command: Vec<String>,
    /// Attached to this process instead of starting one.
    pub attached: Option<u32>,
    /// Seconds since 1970 when it began.
    pub started_at: u64,
    /// The machine.
    pub fingerprint: Fingerprint,
    /// Samples asked for, per second and running thread.
    pub rate_hz: f64,
    /// Time one sample stands for on average.
    pub period_ns: f64,
    /// How many instructions before the sampled address the instruction lies whose operand address is kept.
    pub skid_instructions: u32,
    /// From the first instruction to the end of recording; absent if memwall itself was killed.
    pub elapsed_ns: Option<u64>,
    /// How it ended.
    pub ending: Ending,
    /// Processor time and faults of the program and the children it waited for; absent if attached.
    pub usage: Option<Usage>,
    /// Samples the kernel could not store; absent if it was never asked.
    pub lost_samples: Option<u64>,
    /// What disturbed the machine meanwhile.
    pub noise: Option<Noise>,
    /// Length of a slice.
    pub slice_ns: u64,
    /// Fewer samples were taken from some moment on.
    pub slowed: Option<SlowedSampling>,
    /// Cycles per second of a core meanwhile, measured beside the program.
    #[serde(default)]
    pub clock_hz: Option<f64>,
}

/// A program that is switched so often that sampling would slow it down is sampled more rarely from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowedSampling {
    /// That moment, since the start of the recording.
    pub from_ns: u64,
    /// The share of the samples of before that counts, so that each stands for as much time as those that came after.
    pub counted_before: f64,
}

impl SlowedSampling {
    /// Whether a sample counts; `number` is its place in the recording.
    pub fn counts(&self, number: usize, time_ns: u64) -> bool {
        // By chance, and the same at each reading: splitmix64.
        let mut word = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        time_ns >= self.from_ns || (word as f64) < self.counted_before * (u64::MAX as f64)
    }
}

/// How a recording ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The program ended with this exit code.
    Exited(i32),
    /// The program was killed by this signal.
    Signalled(i32),
    /// We stopped recording, the program went on.
    Detached,
    /// Not known: memwall was killed before it could say.
    Unknown,
}

/// What the kernel says a program used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Processor time in user mode.
    pub user_ns: u64,
    /// Processor time in the kernel.
    pub system_ns: u64,
    /// Largest resident set.
    pub peak_resident_bytes: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Switches because it waited.
    pub voluntary_switches: u64,
    /// Switches because another took its CPU.
    pub involuntary_switches: u64,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// Its parent, if seen.
    pub parent: Option<u32>,
    /// The kernel's short name of it, the last one it had.
    pub name: String,
    /// What it executed last, if seen.
    pub executable: Option<String>,
    /// Since the start of the recording.
    pub began_ns: u64,
    /// Since the start of the recording, if it ended within.
    pub ended_ns: Option<u64>,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedThread {
    /// Its number.
    pub tid: u32,
    /// Its process.
    pub process: ProcessId,
    /// The kernel's short name of it.
    pub name: String,
    /// Since the start of the recording.
    pub began_ns: u64,
    /// Since the start of the recording, if it ended within.
    pub ended_ns: Option<u64>,
}

/// What kind of memory code was executed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModuleKind {
    /// A mapped file.
    File,
    /// The kernel's shared page of every process.
    Vdso,
    /// Memory without a file: generated code.
    Anonymous,
    /// No mapping was known for the address.
    Unknown,
}

impl ModuleKind {
    /// The word that files of ours use for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Vdso => "vdso",
            Self::Anonymous => "anonymous",
            Self::Unknown => "unknown",
        }
    }

    /// The other way.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::File, Self::Vdso, Self::Anonymous, Self::Unknown].into_iter().find(|kind| kind.word() == word)
    }
}

/// A file or other memory that code was executed from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Module {
    /// Its path, or what the kernel calls the memory.
    pub path: String,
    /// What it is.
    pub kind: ModuleKind,
    /// Its build-id in hexadecimal digits, if it has one.
    pub build_id: Option<String>,
    /// Why its symbols or code could not be read, if so.
    pub problem: Option<String>,
}

/// A function that samples landed in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The module it is in.
    pub module: ModuleId,
    /// Its name as linked; none if only its bounds are known.
    pub symbol: Option<String>,
    /// The name for people: demangled, or `unnamed at 0x…`.
    pub name: String,
    /// First address, in the module's own terms.
    pub start: u64,
    /// Behind its last address.
    pub end: u64,
    /// Its bytes from `start` on; none if they could not be read.
    pub code: Option<Vec<u8>>,
}

/// An address that samples landed on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The module it is in.
    pub module: ModuleId,
    /// Address in the module's own terms: as linked for files, absolute for others.
    pub address: u64,
    /// The function it is in, if one is known.
    pub function: Option<FunctionId>,
}

/// Addresses of one source line, within a function that samples landed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LineRange {
    /// The module they are in.
    pub module: ModuleId,
    /// First address, in the module's own terms.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Index of the file among [`Run::files`].
    pub file: u32,
    /// Line in it.
    pub line: u32,
}

/// Samples in columns of the same length, ordered by time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Nanoseconds since the start of the recording.
    pub time_ns: Vec<u64>,
    /// The thread that ran.
    pub thread: Vec<ThreadId>,
    /// CPU it ran on.
    pub cpu: Vec<u16>,
    /// The place the instruction pointer was at.
    pub place: Vec<PlaceId>,
    /// Effective address of a memory operand of the instruction that the sample is blamed on, from the registers of the
    /// sample; none if there is no operand, or the registers do not tell.
    pub address: Vec<Option<NonZeroU64>>,
    /// Index of the call chain; none if there was none. Empty if call chains were not recorded.
    pub stack: Vec<Option<u32>>,
}

/// How one thread spent one slice of wall time. What is left of the slice it did not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slice {
    /// Whose time it is.
    pub thread: ThreadId,
    /// Which slice since the start of the recording.
    pub slice: u32,
    /// On a CPU.
    pub running_ns: u64,
    /// Off it because it waited for something.
    pub blocked_ns: u64,
    /// Off it because another ran there.
    pub preempted_ns: u64,
}
