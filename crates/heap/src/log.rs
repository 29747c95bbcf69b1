//! The log of one process, as the library wrote it.

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
    /// From this size on every block was written down.
    pub large_bytes: u64,
    /// Of smaller blocks each thread wrote down one per at most about this many bytes.
    pub small_rare_bytes: u64,
    /// Whether it is whole.
    pub state: State,
    /// In the order they were begun; nearly the order of time.
    pub notes: Vec<Note>,
    /// Notes that were begun and not finished: a thread died within.
    pub unfinished: u64,
}

/// Whether a log is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All was written down.
    Whole,
    /// It reached its largest size; later blocks are missing.
    Full,
    /// The disk had no space for more, or the file went away; later blocks are missing.
    NoSpace,
}

/// What a note tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
    pub kind: Kind,
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
    /// Reads a log. What comes after the first place never written to is not there.
    pub fn parse(bytes: &[u8]) -> Result<Self, LogError> {
        let (records, _) = bytes.as_chunks::<RECORD>();
        let (head, notes) = records.split_first().ok_or(LogError::Foreign)?;
        if &head[..8] != b"MWHEAP1\0" {
            return Err(LogError::Foreign);
        }
        let mut log = Self {
            pid: word32(head, 8),
            parent: word32(head, 12),
            began_ns: word(head, 16),
            large_bytes: word(head, 24),
            small_rare_bytes: word(head, 32),
            state: match word32(head, 40) {
                0 => State::Whole,
                1 => State::Full,
                _ => State::NoSpace,
            },
            forked: word32(head, 44) != 0,
            notes: Vec::new(),
            unfinished: 0,
        };
        let written = notes.iter().rposition(|note| word32(note, 28) != 0).map_or(0, |last| last + 1);
        for record in &notes[..written] {
            match note(record) {
                Some(note) => log.notes.push(note),
                None => log.unfinished += 1,
            }
        }
        Ok(log)
    }
}

fn note(record: &[u8; RECORD]) -> Option<Note> {
    let kind = match word32(record, 28) {
        1 => Kind::Allocated,
        2 => Kind::Sampled,
        3 => Kind::Mapped,
        4 => Kind::Unmapped,
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
