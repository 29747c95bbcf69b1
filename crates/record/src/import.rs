//! What was imported from files of other tools, beside what a recording has anyway.

use serde::{Deserialize, Serialize};
use trust::Validation;

use crate::{count::Counts, sampled::RecordedEvent};

/// Where an imported recording comes from, and what it has beyond samples of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ImportRecord {
    /// The files, in the order they were given.
    pub files: Vec<ImportFile>,
    /// The machine they were recorded on.
    pub machine: ImportMachine,
    /// Events that were sampled, in the order of the file.
    pub events: Vec<RecordedEvent>,
    /// What the files have and the recording has not, with how often it was met.
    pub omissions: Vec<Omission>,
    /// A validation of that machine, if one was given: without it nothing here was tried.
    pub validation: Option<Box<Validation>>,
    /// What `perf stat` had counted, file by file. Kept in tables of their own.
    #[serde(default)]
    pub counts: Vec<Counts>,
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

/// Something that files have and the recording has not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Omission {
    /// What, and why.
    pub what: String,
    /// How often it was met.
    pub count: u64,
}
