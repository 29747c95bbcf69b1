//! The Firefox profiler's processed profile: load it at profiler.firefox.com, which keeps it on the machine.
//!
//! The category of a frame says what the samples of its function mostly were: waiting on loads, executing.

use std::{collections::HashMap, time::Duration};

use analysis::findings::{Findings, ThreadActivity};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, ProcessHandle, Profile,
    ReferenceTimestamp, SamplingInterval, StackHandle, ThreadHandle, Timestamp,
};
use record::{
    ids::{FunctionId, PlaceId, ThreadId},
    run::{Place, Run},
};
use serde::Serialize;

use super::{name_of, outside_in, stack_of};

/// A run and what it says as a profile, ready to be written as JSON.
pub fn firefox(run: &Run, findings: &Findings) -> impl Serialize + use<> {
    let name = run.about.command.join(" ");
    let started =
        ReferenceTimestamp::from_duration_since_unix_epoch(Duration::from_secs(run.about.started_at));
    // A period is positive and finite; the conversion keeps to the range.
    let interval = SamplingInterval::from_nanos(run.about.period_ns.max(1.0) as u64);
    let mut profile = Profile::new(&name, started, interval);
    profile.set_product(&name);
    profile.set_os_name("Linux");
    let categories = Categories::new(&mut profile, findings);
    let threads = threads(&mut profile, run);
    let mut stacks: HashMap<(ThreadId, PlaceId, Option<u32>), Option<StackHandle>> = HashMap::new();
    let period = CpuDelta::from_nanos(interval.nanos());
    let samples = &run.samples;
    for (index, &place) in samples.place.iter().enumerate() {
        let (thread, stack) = (samples.thread[index], stack_of(run, index));
        let Some(&handle) = threads.get(&thread) else { continue };
        let stack = *stacks.entry((thread, place, stack)).or_insert_with(|| {
            let frames: Vec<FrameInfo> = outside_in(run, &place, stack)
                .map(|place| FrameInfo {
                    frame: Frame::Label(profile.intern_string(&name_of(run, place))),
                    category_pair: categories.of(place).into(),
                    flags: FrameFlags::empty(),
                })
                .collect();
            profile.intern_stack_frames(handle, frames.into_iter())
        });
        let time = Timestamp::from_nanos_since_reference(samples.time_ns[index]);
        profile.add_sample(handle, time, stack, period, 1);
    }
    profile
}

fn threads(profile: &mut Profile, run: &Run) -> HashMap<ThreadId, ThreadHandle> {
    let time = Timestamp::from_nanos_since_reference;
    let processes: Vec<ProcessHandle> = run
        .processes
        .iter()
        .map(|process| {
            let handle = profile.add_process(&process.name, process.pid, time(process.began_ns));
            if let Some(ended_ns) = process.ended_ns {
                profile.set_process_end_time(handle, time(ended_ns));
            }
            handle
        })
        .collect();
    let with_process = run.threads.iter().enumerate().filter_map(|(index, thread)| {
        let handle = *processes.get(thread.process.index())?;
        Some((ThreadId::of(index), thread, handle, run.process(thread.process)?.pid))
    });
    with_process
        .map(|(id, thread, process, pid)| {
            let handle = profile.add_thread(process, thread.tid, time(thread.began_ns), thread.tid == pid);
            profile.set_thread_name(handle, &thread.name);
            if let Some(ended_ns) = thread.ended_ns {
                profile.set_thread_end_time(handle, time(ended_ns));
            }
            (id, handle)
        })
        .collect()
}

/// What the samples of each function mostly were.
struct Categories {
    of_function: HashMap<FunctionId, CategoryHandle>,
    undecided: CategoryHandle,
}

impl Categories {
    fn new(profile: &mut Profile, findings: &Findings) -> Self {
        let handles =
            ThreadActivity::ALL.map(|activity| profile.add_category(activity.label(), colour(activity)));
        let undecided = handles[ThreadActivity::Undecided as usize];
        let of_function = findings.symbols.iter().filter_map(|symbol| {
            let mostly = ThreadActivity::ALL
                .into_iter()
                .max_by(|a, b| symbol.split.share(*a).total_cmp(&symbol.split.share(*b)))
                .unwrap_or(ThreadActivity::Undecided);
            Some((symbol.function?, handles[mostly as usize]))
        });
        Self { of_function: of_function.collect(), undecided }
    }

    fn of(&self, place: &Place) -> CategoryHandle {
        place.function.and_then(|function| self.of_function.get(&function)).copied().unwrap_or(self.undecided)
    }
}

fn colour(activity: ThreadActivity) -> CategoryColor {
    match activity {
        ThreadActivity::Loads => CategoryColor::Red,
        ThreadActivity::Stores => CategoryColor::Orange,
        ThreadActivity::Atomics => CategoryColor::Magenta,
        ThreadActivity::Divides => CategoryColor::Purple,
        ThreadActivity::Chains | ThreadActivity::FirstCache => CategoryColor::Blue,
        ThreadActivity::Branches => CategoryColor::Yellow,
        ThreadActivity::OtherThreads => CategoryColor::LightBlue,
        ThreadActivity::Executing => CategoryColor::Green,
        ThreadActivity::Undecided => CategoryColor::Gray,
    }
}
