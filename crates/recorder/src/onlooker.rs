//! Whoever looks at the samples while the program runs.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
};

use record::{
    ids::{ModuleId, PlaceId},
    loads::LoadSamples,
    relief::ReliefRecord,
    run::{About, Process, RecordedThread, Run, Samples},
};

use crate::{code_store::Collector, recorder::Recorder};

/// Numbers of processes that are copies of the program: nothing of them is recorded. Whoever makes one holds the lock
/// until its number is in.
pub type CopiesOfProgram = Arc<Mutex<HashSet<i32>>>;

/// The samples of about a second, while the program runs.
#[derive(Clone)]
pub struct SampledMoment {
    /// As a recording of that second alone would be read. Ids are those of the whole recording.
    pub run: Run,
    /// Where code lies: by process and module, what to add to a module's own addresses.
    pub biases: HashMap<(i32, ModuleId), u64>,
    /// Since the start of the recording.
    pub time_ns: u64,
}

/// Looks at the samples while the program runs, and knows more than they do in the end.
pub trait Onlooker {
    /// The copies it has made.
    fn copies(&self) -> CopiesOfProgram;

    /// What was sampled lately. Must not take long.
    fn look(&mut self, moment: SampledMoment);

    /// The recording ends: lets go of the program, and says what was found.
    fn finish(&mut self) -> ReliefRecord;
}

/// A viewer is shown no more samples than these at a time: they are enough to see what goes on.
const MOST_VIEWED: usize = 8192;

/// What is kept for an onlooker or a viewer.
#[derive(Default)]
pub(crate) struct RecentSamples {
    samples: Samples,
    biases: HashMap<(i32, ModuleId), u64>,
}

impl RecentSamples {
    pub fn add(&mut self, sample: &record::file::RecordedSample, pid: i32, module: ModuleId, bias: u64) {
        self.samples.time_ns.push(sample.time_ns);
        self.samples.thread.push(sample.thread);
        self.samples.cpu.push(sample.cpu);
        self.samples.place.push(sample.place);
        self.samples.address.push(sample.address);
        self.biases.insert((pid, module), bias);
    }
}

impl Recorder {
    /// From now on samples are kept for an onlooker, and what copies do is not recorded.
    pub(crate) fn be_watched(&mut self, copies: CopiesOfProgram) {
        self.recent = Some(RecentSamples::default());
        self.copies = Some(copies);
    }

    /// From now on some samples are kept for a viewer.
    pub(crate) fn be_viewed(&mut self) {
        if self.recent.is_none() {
            self.recent = Some(RecentSamples::default());
            self.most_recent = MOST_VIEWED;
        }
    }

    /// What was sampled since the last time; none if nothing was.
    pub(crate) fn moment(&mut self, about: &About, pid: i32, now_ns: u64) -> Option<SampledMoment> {
        let RecentSamples { samples, biases } = std::mem::take(self.recent.as_mut()?);
        if samples.place.is_empty() {
            return None;
        }
        let mut sampled = vec![false; self.places.len()];
        for place in &samples.place {
            sampled[place.index()] = true;
        }
        let mut collector = Collector::new(sampled);
        for (index, number) in self.modules.recorded().to_vec().into_iter().enumerate() {
            let image = self.modules.image(number, pid, None);
            let sources =
                crate::code_store::Sources { image, pages: Some(&self.pages), ..Default::default() };
            collector.module(u32::try_from(index).unwrap_or(u32::MAX), &self.places, sources);
        }
        let code = collector.finish();
        let mut places = self.places.clone();
        for (place, function) in places.iter_mut().zip(&code.function_of_place) {
            place.function = *function;
        }
        let modules =
            self.modules.recorded().iter().map(|number| self.modules.get(*number).about.clone()).collect();
        let (processes, threads) = self.everybody();
        let time_ns = self.window().time(now_ns);
        let run = Run {
            probes: Default::default(),
            import: None,
            scaling: None,
            sampled: record::sampled::SampledEvents::default(),
            about: About { elapsed_ns: Some(time_ns), ..about.clone() },
            processes,
            threads,
            modules,
            functions: code.functions,
            files: code.files,
            lines: code.lines,
            inlined: code.inlined,
            places,
            samples,
            bursts: Samples::default(),
            passes: Samples::default(),
            regions: Default::default(),
            loads: LoadSamples::NotAsked,
            relief: ReliefRecord::NotAsked,
            stacks: Vec::new(),
            data: record::data::Data::default(),
            slices: Vec::new(),
            remarks: Vec::new(),
        };
        Some(SampledMoment { run, biases, time_ns })
    }

    /// Processes and threads by their numbers in the recording. Of those that have ended nothing is known any more.
    fn everybody(&self) -> (Vec<Process>, Vec<RecordedThread>) {
        let gone = Process {
            pid: 0,
            parent: None,
            name: String::new(),
            executable: None,
            began_ns: 0,
            ended_ns: Some(0),
        };
        let ended = RecordedThread {
            tid: 0,
            process: record::ids::ProcessId(0),
            name: String::new(),
            began_ns: 0,
            ended_ns: Some(0),
        };
        let (process_count, thread_count) = self.population().counts();
        let (mut processes, mut threads) = (vec![gone; process_count], vec![ended; thread_count]);
        for live in self.population().processes.values() {
            processes[live.id.index()] = live.about.clone();
        }
        for live in self.population().threads.values() {
            threads[live.index as usize] = live.about.clone();
        }
        (processes, threads)
    }

    /// Whether a process is a copy.
    pub(crate) fn is_copy(copies: Option<&HashSet<i32>>, pid: i32) -> bool {
        copies.is_some_and(|copies| copies.contains(&pid))
    }

    /// The place's address in the process less its own.
    pub(crate) fn note_recent(&mut self, sample: &record::file::RecordedSample, pid: i32, ip: u64) {
        let PlaceId(index) = sample.place;
        let Some(place) = self.places.get(index as usize) else { return };
        let (module, bias) = (place.module, ip.wrapping_sub(place.address));
        if let Some(recent) =
            self.recent.as_mut().filter(|recent| recent.samples.place.len() < self.most_recent)
        {
            recent.add(sample, pid, module, bias);
        }
    }
}
