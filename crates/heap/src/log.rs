//! The log of one process, as the library wrote it.

use std::io::{self, BufReader, Read};

/// What one process allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// The process.
    pub pid: u32,
    /// Its parent when the log began.
    pub parent: u32,
    /// It was forked: blocks of the parent from before `began_ns` are its as well.
    pub forked: bool,
    /// `CLOCK_MONOTONIC` when the log began.
    pub began_ns: u64,
    /// From this size on every block was written down, until a thread had had very many; from then on those of twice
    /// the size, and so on.
    pub large_bytes: u64,
    /// Of smaller blocks each thread wrote down one per at most about this many bytes.
    pub small_rare_bytes: u64,
    /// Whether it is whole.
    pub state: LogState,
    /// In the order they were begun; nearly the order of time.
    pub notes: Vec<Note>,
    /// Notes that were begun and not finished: a thread died within.
    pub unfinished: u64,
}

/// Whether a log is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogState {
    /// All was written down.
    Whole,
    /// It reached its largest size; later blocks are missing.
    Full,
    /// The disk had no space for more, or the file went away; later blocks are missing.
    NoSpace,
}

/// What a note tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A large block was allocated.
    Allocated,
    /// A small block was allocated; it stands for others like it.
    Sampled,
    /// Anonymous memory was mapped by the program itself.
    Mapped,
    /// Memory was unmapped by the program itself.
    Unmapped,
}

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// First address of the block.
    pub address: u64,
    /// Bytes asked for.
    pub size_bytes: u64,
    /// Thread.
    pub tid: u32,
    /// What happened.
    pub kind: NoteKind,
    /// Who asked: first the return address of the call, then words found on the stack that may be return addresses
    /// further out (check that a call precedes them). 0 ends the list.
    pub callers: [u64; 4],
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// It could not be opened or read.
    #[error("cannot read the allocation log: {0}")]
    Io(#[from] std::io::Error),
    /// It is not such a log, or was cut off within its header.
    #[error("not an allocation log of this version of memwall")]
    Foreign,
}

/// Bytes of the header, and of a note.
const RECORD: usize = 64;

impl Log {
    /// Reads a whole log into memory.
    pub fn parse(bytes: &[u8]) -> Result<Self, LogError> {
        let mut reader = LogReader::new(bytes)?;
        let mut notes = Vec::new();
        while let Some(note) = reader.next()? {
            notes.push(note);
        }
        Ok(Self { notes, ..reader.log })
    }
}

/// Reads a log note by note: logs may be larger than what one would keep in memory.
#[derive(Debug)]
pub struct LogReader<R> {
    /// What is known before and beside the notes, which are not kept. `unfinished` counts up to the last note handed
    /// out.
    pub log: Log,
    from: BufReader<R>,
    /// Records without a note since the last one. Those behind the last note were never begun.
    gap: u64,
}

impl<R: Read> LogReader<R> {
    /// Reads the header.
    pub fn new(from: R) -> Result<Self, LogError> {
        let mut from = BufReader::with_capacity(64 << 10, from);
        let head = record(&mut from)?.filter(|head| &head[..8] == b"MWHEAP1\0").ok_or(LogError::Foreign)?;
        let log = Log {
            pid: word32(&head, 8),
            parent: word32(&head, 12),
            began_ns: word(&head, 16),
            large_bytes: word(&head, 24),
            small_rare_bytes: word(&head, 32),
            state: match word32(&head, 40) {
                0 => LogState::Whole,
                1 => LogState::Full,
                _ => LogState::NoSpace,
            },
            forked: word32(&head, 44) != 0,
            notes: Vec::new(),
            unfinished: 0,
        };
        Ok(Self { log, from, gap: 0 })
    }

    /// The next note; `None` behind the last.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<Note>, LogError> {
        while let Some(record) = record(&mut self.from)? {
            match note(&record) {
                Some(note) => {
                    self.log.unfinished += std::mem::take(&mut self.gap);
                    return Ok(Some(note));
                }
                None => self.gap += 1,
            }
        }
        Ok(None)
    }
}

/// The next record; `None` at the end, also in the middle of one.
fn record(from: &mut impl Read) -> io::Result<Option<[u8; RECORD]>> {
    let mut record = [0; RECORD];
    match from.read_exact(&mut record) {
        Ok(()) => Ok(Some(record)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

fn note(record: &[u8; RECORD]) -> Option<Note> {
    let kind = match word32(record, 28) {
        1 => NoteKind::Allocated,
        2 => NoteKind::Sampled,
        3 => NoteKind::Mapped,
        4 => NoteKind::Unmapped,
        _ => return None,
    };
    Some(Note {
        time_ns: word(record, 0),
        address: word(record, 8),
        size_bytes: word(record, 16),
        tid: word32(record, 24),
        kind,
        callers: [32, 40, 48, 56].map(|at| word(record, at)),
    })
}

fn word(record: &[u8; RECORD], at: usize) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|index| record[at + index]))
}

fn word32(record: &[u8; RECORD], at: usize) -> u32 {
    u32::from_ne_bytes(std::array::from_fn(|index| record[at + index]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..1000), ours in any::<bool>()) {
            if ours && bytes.len() >= 8 {
                bytes[..8].copy_from_slice(b"MWHEAP1\0");
            }
            if let Ok(log) = Log::parse(&bytes) {
                prop_assert!(log.notes.len() + log.unfinished as usize <= bytes.len() / RECORD);
            }
        }
    }
}
