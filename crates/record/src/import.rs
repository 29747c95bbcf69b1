//! What was imported from files of other tools, beside what a recording has anyway.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use trust::Validation;

use crate::{count::Counts, ids::PlaceId};

/// Where an imported recording comes from, and what it has beyond samples of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// The files, in the order they were given.
    pub files: Vec<ImportFile>,
    /// The machine they were recorded on.
    pub machine: ImportMachine,
    /// Events that were sampled, in the order of the file.
    pub events: Vec<ImportEvent>,
    /// What the files have and the recording has not, with how often it was met.
    pub omissions: Vec<Omission>,
    /// A validation of that machine, if one was given: without it nothing here was tried.
    pub validation: Option<Box<Validation>>,
    /// What `perf stat` had counted, file by file. Kept in tables of their own.
    #[serde(default)]
    pub counts: Vec<Counts>,
    /// Samples by event, place and mode; worked out when a recording is read.
    #[serde(skip)]
    pub tallies: Vec<EventTally>,
}

/// One imported file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportFile {
    /// As it was named.
    pub path: String,
    /// What it is: `perf.data`, `perf.data through a pipe`, `perf stat -x`, `perf stat -j`.
    pub form: String,
    /// Bytes of it that were read.
    pub bytes: u64,
    /// The version of perf that wrote it.
    pub perf: Option<String>,
    /// The command line of perf.
    pub command: Vec<String>,
    /// Why it could not be read to its end, if so.
    pub cut_short: Option<String>,
    /// The moment of its clock that is the zero of the recording.
    pub origin_ns: Option<u64>,
}

/// The machine of a file, as far as the file tells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportMachine {
    /// Its name in the network.
    pub host: Option<String>,
    /// `x86_64`, `aarch64`, …
    pub architecture: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// What the CPU calls itself.
    pub cpu: Option<String>,
    /// Vendor, family, model and stepping as perf writes them: `GenuineIntel,6,143,8`.
    pub cpu_id: Option<String>,
    /// CPUs that were online.
    pub cpus: Option<u32>,
    /// Which of memwall's event files describes it.
    pub events: Option<String>,
}

/// What an event's samples are used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EventUse {
    /// They come evenly in time: those of user mode are the recording's samples.
    Time,
    /// They come with latency or data source: those of loads are the recording's loads.
    Loads,
    /// Counted by function.
    Counted,
}

/// An event that was sampled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportEvent {
    /// As perf calls it.
    pub name: String,
    /// What is made of its samples.
    pub used_for: EventUse,
    /// All its samples.
    pub samples: u64,
    /// Of these, taken in the kernel.
    pub in_kernel: u64,
    /// Of these, taken in a guest or a hypervisor.
    pub in_guests: u64,
    /// Sum of their periods; none where the file has none.
    pub period: Option<u64>,
}

/// Something that files have and the recording has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// What, and why.
    pub what: String,
    /// How often it was met.
    pub count: u64,
}

/// In which mode a sample was taken, numbered as the kernel does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleMode {
    /// The kernel does not say.
    #[default]
    Unknown,
    /// In the kernel.
    Kernel,
    /// In user mode.
    User,
    /// In a hypervisor.
    Hypervisor,
    /// In a guest's kernel.
    GuestKernel,
    /// In a guest's program.
    GuestUser,
}

impl SampleMode {
    const ALL: [Self; 6] =
        [Self::Unknown, Self::Kernel, Self::User, Self::Hypervisor, Self::GuestKernel, Self::GuestUser];

    /// The kernel's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The other way.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Samples of an event at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTally {
    /// Index among [`ImportRecord::events`].
    pub event: u32,
    /// Where.
    pub place: PlaceId,
    /// In which mode.
    pub mode: SampleMode,
    /// How many.
    pub samples: u64,
}

/// Sums samples up, one by one.
#[derive(Debug, Default)]
pub(crate) struct TallySum(HashMap<(u32, PlaceId, SampleMode), u64>);

impl TallySum {
    pub fn add(&mut self, event: u32, place: PlaceId, mode: SampleMode) {
        *self.0.entry((event, place, mode)).or_default() += 1;
    }

    pub fn finish(self) -> Vec<EventTally> {
        let tally = |((event, place, mode), samples)| EventTally { event, place, mode, samples };
        let mut all: Vec<EventTally> = self.0.into_iter().map(tally).collect();
        all.sort_unstable_by_key(|tally| (tally.event, tally.place, tally.mode));
        all
    }
}
