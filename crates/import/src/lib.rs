//! What perf recorded or counted, here or on another machine, turned into a recording.
//!
//! [`import`] reads one `perf.data` (a file or a pipe, of any events) and any number of outputs of `perf stat -x` or
//! `-j`, and writes a recording (`record::file`) that every report works on. What it does not understand it names, counts
//! and leaves out; nothing is guessed. A file that is cut short or damaged gives what was before the damage.
//!
//! Records go through a queue of bounded size, so that a file may be larger than memory, and then the way of those of a
//! running program (`recorder::Replay`). Sample bodies are decoded by `pmu::sampling::FileLayout`.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod attributes;
mod container;
mod counting;
mod error;
mod facts;
mod file_order;
mod folder;
mod images;
mod input;
mod kernel;
mod order;
mod origin;
pub mod perf_data;
pub mod perf_stat;
mod saying;
pub mod scripted;
mod stream;
mod unpacking;
mod writing;

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use machine::regular::{self, LARGEST_RESULT};
use record::{
    count::Counts,
    file::{OlderRecording, Writer},
    import::{ImportFile, ImportMachine, ImportRecord},
    run::About,
};
use trust::Validation;

pub use attributes::EventAttributes;
pub use error::ImportError;
use folder::PerfFolder;
pub use images::ImageFolders;
pub use input::{Input, PipedInput, SeekableInput};
use perf_data::{PerfOutcome, RecordConsumer};
use writing::{RecordingConsumer, SLICE_NS};

/// Bytes of a validation; those of real machines have a tenth of it.
const LONGEST_VALIDATION: usize = 3 << 20;

/// How files begin that were packed, by what, and what unpacks them.
const PACKED: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\xfd7zXZ\0", "xz", "unxz"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"BZh", "bzip2", "bunzip2"),
];

/// What to import, and into what.
#[derive(Clone, Debug)]
pub struct ImportRequest {
    /// The files; `-` is the standard input.
    pub files: Vec<PathBuf>,
    /// The recording.
    pub output: PathBuf,
    /// A validation of the machine that recorded, as `memwall validate --json` writes it.
    pub trust: Option<PathBuf>,
    /// The CPU, where no file says which: `GenuineIntel,6,143,8`.
    pub cpu_id: Option<String>,
    /// Where the programs that ran may be found.
    pub folders: ImageFolders,
    /// The version of memwall, for the recording.
    pub memwall: String,
}

/// What the recording was made of, and what was left out.
#[derive(Debug)]
pub struct ImportOutcome {
    /// What the recording says of where it comes from.
    pub record: ImportRecord,
    /// Samples of time in the recording; none if it is gone.
    pub samples: Option<u64>,
    /// The recording that had the name before.
    pub older: Option<OlderRecording>,
    /// What the reader should know.
    pub remarks: Vec<String>,
}

/// Imports files into a recording.
pub fn import(request: &ImportRequest) -> Result<ImportOutcome, ImportError> {
    let validation = request.trust.as_deref().map(validation).transpose()?;
    let (recorded, counted) = sorted(&request.files)?;
    let texts = counted.iter().map(|path| read_text(path)).collect::<Result<Vec<_>, _>>()?;
    let begun = About {
        memwall: request.memwall.clone(),
        command: Vec::new(),
        attached: None,
        started_at: 0,
        fingerprint: origin::fingerprint(&ImportMachine::default()),
        rate_hz: 1000.0,
        period_ns: 1e6,
        skid_instructions: 1,
        elapsed_ns: None,
        ending: record::run::Ending::Unknown,
        usage: None,
        slowed: None,
        clock_hz: None,
        lost_samples: None,
        noise: None,
        slice_ns: SLICE_NS,
    };
    let mut writer = Writer::create(&request.output, &begun)?;
    writer.begin_import()?;
    let mut consumer = RecordingConsumer::new(writer, request.folders.clone());
    let read = match &recorded {
        Some(path) => Some((path, read_perf(path, &mut consumer)?)),
        None => None,
    };
    if let Some(failure) = consumer.failure.take() {
        return Err(failure.into());
    }
    let machine = read.as_ref().map(|(_, outcome)| outcome.machine.clone()).unwrap_or_default();
    let described = origin::described(&machine, request.cpu_id.as_deref());
    let counts = counted
        .iter()
        .zip(&texts)
        .map(|(path, text)| counted_file(path, text, &described))
        .collect::<Result<Vec<_>, _>>()?;
    if let (Some(validation), Some(path)) = (&validation, &request.trust)
        && let Some(reason) = origin::differs(validation, &described)
    {
        return Err(ImportError::Validation { path: path.display().to_string(), reason });
    }
    let conclusion = saying::Conclusion {
        begun,
        recorded: read.map(|(path, outcome)| (path.as_path(), outcome)),
        folders: request.folders.clone(),
        counted: counts,
        machine: described,
        validation,
    };
    conclusion.write(consumer)
}

/// One perf.data at most, and the others.
fn sorted(files: &[PathBuf]) -> Result<(Option<PathBuf>, Vec<PathBuf>), ImportError> {
    let mut recorded: Option<PathBuf> = None;
    let mut counted = Vec::new();
    for path in files {
        if !is_perf_data(path)? {
            counted.push(path.clone());
            continue;
        }
        if let Some(first) = &recorded {
            return Err(ImportError::Together(format!(
                "{} and {} are two perf.data, and a recording holds one; import each with its own -o, and 'memwall \
                 compare' shows what differs",
                first.display(),
                path.display()
            )));
        }
        recorded = Some(path.clone());
    }
    Ok((recorded, counted))
}

fn opened(path: &Path) -> Result<File, ImportError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => ImportError::Missing { path: path.to_owned() },
        _ => ImportError::Unreadable { path: path.to_owned(), source },
    };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.is_dir() {
        return Err(ImportError::Folder { path: path.to_owned() });
    }
    Ok(file)
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Whether a file is one of `perf record`: by its first bytes.
fn is_perf_data(path: &Path) -> Result<bool, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let mut begin = Vec::new();
    if is_stdin(path) {
        // Looked at without being taken.
        begin.extend_from_slice(io::stdin().lock().fill_buf().map_err(unreadable)?);
    } else if PerfFolder::at(path)?.is_some() {
        // Nothing else looks like it.
        return Ok(true);
    } else if fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        // A pipe is read once; what comes through one is a perf.data.
        return Ok(true);
    } else {
        opened(path)?.take(8).read_to_end(&mut begin).map_err(unreadable)?;
    }
    Ok(begin.starts_with(b"PERF") || begin.starts_with(b"2ELIFREP"))
}

/// Reads the records of a perf.data, a file, a folder or a pipe, without making a recording.
pub fn read_perf(path: &Path, consumer: &mut dyn RecordConsumer) -> Result<PerfOutcome, ImportError> {
    let name = path.display().to_string();
    if is_stdin(path) {
        return perf_data::read(&mut PipedInput(io::stdin().lock()), &name, consumer);
    }
    if let Some(folder) = PerfFolder::at(path)? {
        return folder.read(&name, consumer);
    }
    let file = opened(path)?;
    let is_file = file.metadata().is_ok_and(|about| about.is_file());
    match is_file {
        true => perf_data::read(&mut SeekableInput(file), &name, consumer),
        false => perf_data::read(&mut PipedInput(BufReader::new(file)), &name, consumer),
    }
}

/// A text of `perf stat`, which is never long.
fn read_text(path: &Path) -> Result<Vec<u8>, ImportError> {
    let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
    let mut text = Vec::new();
    match is_stdin(path) {
        true => io::stdin().lock().take(LARGEST_RESULT.0).read_to_end(&mut text),
        false => opened(path)?.take(LARGEST_RESULT.0).read_to_end(&mut text),
    }
    .map_err(unreadable)?;
    Ok(text)
}

fn counted_file(
    path: &Path,
    text: &[u8],
    machine: &ImportMachine,
) -> Result<(ImportFile, Counts), ImportError> {
    let name = path.display().to_string();
    let foreign = |is: String| ImportError::Foreign { path: name.clone(), is };
    if let Some((_, by, unpacked_by)) = PACKED.iter().find(|(magic, ..)| text.starts_with(magic)) {
        return Err(foreign(format!("it is packed with {by}; '{unpacked_by}' unpacks it")));
    }
    let parsed = perf_stat::parse(&String::from_utf8_lossy(text)).map_err(foreign)?;
    let catalogue = machine.cpu_id.as_deref().and_then(origin::catalogue);
    let file = ImportFile {
        path: name.clone(),
        form: parsed.form.to_owned(),
        bytes: text.len() as u64,
        perf: None,
        command: Vec::new(),
        cut_short: None,
        origin_ns: None,
    };
    Ok((file, counting::counts(parsed, &name, catalogue)))
}

fn validation(path: &Path) -> Result<Validation, ImportError> {
    let refused = |reason: String| ImportError::Validation { path: path.display().to_string(), reason };
    let bytes = regular::read(path, LARGEST_RESULT).map_err(|error| refused(error.to_string()))?;
    // It is kept in the recording, whose reader takes no longer texts.
    if bytes.len() > LONGEST_VALIDATION {
        return Err(refused(format!("no validation: it has {} bytes", bytes.len())));
    }
    serde_json::from_slice(&bytes).map_err(|error| {
        refused(format!(
            "no validation ({error}); 'memwall validate --json' on the machine that recorded writes one"
        ))
    })
}

/// Seconds since 1970 when a file was last written; of a pipe, now.
fn written_at(path: &Path) -> u64 {
    let seconds =
        |time: std::time::SystemTime| time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let modified = fs::metadata(path).and_then(|about| about.modified());
    modified.map_or_else(|_| seconds(std::time::SystemTime::now()), seconds)
}
