//! Records of another time or machine, turned into a recording the way those of a running program are.
//!
//! What a process of that number has mapped, holds or wrote down on *this* machine means nothing here, so nothing is
//! asked about processes; files are found by an [`ImageFinder`], which knows whether they are the ones that ran.

use std::fmt;

use pmu::sampling::{KernelSample, RingRecord};
use record::{
    data::{Area, AreaKind},
    file::{FileError, RecordedSample, Writer},
    ids::ThreadId,
    run::{About, ModuleKind},
};
use symbols::{Image, PerfMap};

use crate::recorder::{NEVER, RecordWindow, Recorder};

/// Finds the files that code was executed from.
pub trait ImageFinder: fmt::Debug {
    /// The image of a module, or why there is none: a sentence without its end.
    fn find(&mut self, wanted: &WantedImage<'_>) -> Result<Image, String>;
}

/// What is known of a file that code was executed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedImage<'a> {
    /// Its path when it ran, or `[vdso]`.
    pub path: &'a str,
    /// Whether it is a file at all.
    pub kind: ModuleKind,
    /// Its build id.
    pub build_id: Option<&'a [u8]>,
    /// Its inode, where that is all there is.
    pub inode: Option<u64>,
}

/// How to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Length of a slice.
    pub slice_ns: u64,
    /// How many instructions before the sampled one the core waited for.
    pub skid_instructions: u32,
    /// Samples have the registers of x86-64, so that addresses of operands can be worked out.
    pub has_registers: bool,
    /// There are records of context switches, so that it is known when threads ran.
    pub has_switches: bool,
    /// Places that are kept one by one, at most; none: as many as usual.
    pub most_places: Option<usize>,
}

/// A stretch of a process's address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayedArea {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// The kernel's name of it: a path, `[heap]`, `[stack]`, `//anon`.
    pub name: String,
}

/// What came of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayOutcome {
    /// Records that the kernel had to drop.
    pub lost: u64,
    /// How often it paused an event.
    pub throttled: u64,
    /// Records that made no sense.
    pub malformed: u64,
    /// Samples in memory that no record told of.
    pub unmapped: u64,
    /// Samples at more places than are kept.
    pub crowded: u64,
    /// Samples whose call chain was left out because there were too many different ones.
    pub chains_left_out: u64,
    /// Files whose symbols could not be had, and why.
    pub without_symbols: Vec<(String, String)>,
}

/// Takes records in order of time and writes what they mean.
pub struct Replay {
    recorder: Recorder,
    has_begun: bool,
    last_ns: u64,
}

impl Replay {
    /// Into `writer`.
    pub fn new(writer: Writer, finder: Box<dyn ImageFinder>, options: ReplayOptions) -> Self {
        let window = RecordWindow { origin_ns: 0, delay_after_exec_ns: None, end_ns: NEVER };
        let mut recorder =
            Recorder::new(writer, i32::MIN, window, options.slice_ns, options.skid_instructions);
        recorder.modules.find_with(finder);
        recorder.keeps_slices = options.has_switches;
        recorder.has_registers = options.has_registers;
        recorder.most_places = options.most_places.unwrap_or(recorder.most_places);
        Self { recorder, has_begun: false, last_ns: 0 }
    }

    /// The moment that is the recording's zero, on the clock of the records: that of the first one with a time.
    pub fn origin_ns(&self) -> Option<u64> {
        self.has_begun.then(|| self.recorder.window().origin_ns)
    }

    /// From the first record to the last.
    pub fn elapsed_ns(&self) -> u64 {
        self.recorder.window().time(self.last_ns)
    }

    fn at(&mut self, time_ns: u64) {
        if time_ns == 0 {
            return;
        }
        if !self.has_begun {
            self.has_begun = true;
            self.recorder.begin_at(time_ns);
        }
        self.last_ns = self.last_ns.max(time_ns);
    }

    /// Takes a record that is no sample, of this time (0: of before everything).
    pub fn take(&mut self, time_ns: u64, record: RingRecord<'_>) {
        self.at(time_ns);
        self.recorder.take(record);
    }

    /// Finds out where a sample landed; what becomes of it says the caller. None without an instruction pointer.
    pub fn land(&mut self, sample: &KernelSample<'_>) -> Option<RecordedSample> {
        self.at(sample.time_ns);
        self.recorder.land(sample)
    }

    /// The call chain of a sample that brought a piece of its stack along, by the tables of its files; none without
    /// registers of x86-64.
    pub fn unwind(&mut self, sample: &KernelSample<'_>, stack: &[u8]) -> Option<Vec<[u8; 8]>> {
        self.recorder.unwind(sample, stack)
    }

    /// Writes down a sampled load, if the sample is one.
    pub fn load(&mut self, sample: &KernelSample<'_>, landed: &RecordedSample) -> bool {
        let load = Recorder::load_of(sample, landed);
        load.into_iter().for_each(|load| self.recorder.writer.load(load));
        load.is_some()
    }

    /// Where it is written to.
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.recorder.writer
    }

    /// Commits when enough waits.
    pub fn flush_if_laden(&mut self) -> Result<(), FileError> {
        if !self.recorder.writer.is_laden() {
            return Ok(());
        }
        self.recorder.advance(self.last_ns);
        self.recorder.writer.flush()
    }

    /// The address space of a process that lives.
    pub fn areas(&mut self, pid: i32, areas: &[ReplayedArea]) {
        let Some(process) = self.recorder.population().processes.get(&pid).map(|process| process.id) else {
            return;
        };
        let main = self.recorder.population().threads.get(&pid).map(|thread| ThreadId(thread.index));
        let kind = |name: &str| match name {
            "[heap]" => AreaKind::Heap,
            "[stack]" => main.map_or(AreaKind::Anonymous, AreaKind::Stack),
            name if crate::modules::kind_of(name) == ModuleKind::File => AreaKind::File(name.to_owned()),
            _ => AreaKind::Anonymous,
        };
        let area = |area: &ReplayedArea| Area {
            process,
            start: area.start,
            end: area.end,
            kind: kind(&area.name),
            pages: None,
        };
        let areas = areas.iter().map(area).collect();
        self.recorder.writer.areas(process, areas);
    }

    /// Functions of the kernel that was recorded, by the addresses they had.
    pub fn name_kernel(&mut self, names: PerfMap) {
        self.recorder.kernel_names = Some(names);
    }

    /// Ends the recording. `about` is asked for what it says of itself, `remarks` for what the reader should know.
    pub fn finish(
        mut self,
        conclude: impl FnOnce(&mut Writer, &ReplayOutcome) -> About,
    ) -> Result<Writer, FileError> {
        self.recorder.end(self.last_ns);
        let code = self.recorder.code(i32::MIN);
        let counts = self.recorder.counts;
        let modules = &self.recorder.modules;
        let abouts = modules.recorded().iter().map(|&number| &modules.get(number).about);
        let missing = abouts.filter_map(|about| Some((about.path.clone(), about.problem.clone()?)));
        let outcome = ReplayOutcome {
            lost: counts.lost,
            throttled: counts.throttled,
            malformed: counts.malformed,
            unmapped: counts.unmapped,
            crowded: counts.crowded,
            chains_left_out: self.recorder.chains.left_out,
            without_symbols: missing.collect(),
        };
        let about = conclude(&mut self.recorder.writer, &outcome);
        self.recorder.writer.finish(&about, &code)?;
        Ok(self.recorder.writer)
    }
}
