//! The notes of one executed program and of all that forked from it.
//!
//! They write, we take. Nothing in it is believed further than a note: any of them can write any word.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::atomic::Ordering::{Acquire, Relaxed, Release},
};

use crate::{
    note::{Note, WORDS},
    shared::SharedWords,
};

/// Bytes of a region of the file.
pub(crate) const REGION_BYTES: usize = 1 << 20;

/// Words before the notes, and which is which.
const HEAD_WORDS: usize = 16;
const CLAIMED: usize = 0;
const DROPPED: usize = 1;
const CLOSED: usize = 2;
const BEGAN: usize = 3;
const PID: usize = 4;
const PASSED_OVER: usize = 5;
const TAKEN: usize = 8;

/// The words that tell whether anything was written.
pub(crate) const TOLD_BY: usize = PASSED_OVER + 2;

const SLOTS: u64 = ((REGION_BYTES / 8 - HEAD_WORDS) / WORDS) as u64;

/// What the word for closing holds.
const LOCKED: u64 = 1;
const FORBIDDEN: u64 = 2;
const TAKEN_AWAY: u64 = 3;
const CONFINED: u64 = 4;

/// In place of a note's first word: nobody may write here any more.
const GIVEN_UP: u64 = u64::MAX;

/// The ring was written to by somebody else than the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the notes make no sense")]
pub struct BadRing;

/// What went on behind a filter of system calls, where nothing is written down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassedOver {
    /// Programs that were executed.
    pub programs: u64,
    /// Processes that were forked, and allocated.
    pub forked: u64,
}

/// A region of the file, mapped.
#[derive(Debug)]
pub struct NoteRing {
    words: SharedWords,
    /// Places that were read: our own copy.
    taken: u64,
    /// How often the oldest note was found unfinished.
    waited: u32,
    /// Notes that were begun and not finished: their writer died within.
    pub unfinished: u64,
}

impl NoteRing {
    /// Looks that a writer has to finish its note. It takes less than a microsecond unless it is stopped meanwhile.
    const PATIENCE: u32 = 20;

    pub(crate) fn map(file: BorrowedFd<'_>, offset: u64) -> io::Result<Self> {
        let words = SharedWords::map(file, offset, REGION_BYTES)?;
        Ok(Self { words, taken: 0, waited: 0, unfinished: 0 })
    }

    /// The process that began it, as it numbers itself; 0 before the first note.
    pub fn pid(&self) -> u32 {
        self.words.word(PID).load(Relaxed) as u32
    }

    /// `CLOCK_MONOTONIC` when it began, as that process has it; 0 before the first note.
    pub fn began_ns(&self) -> u64 {
        self.words.word(BEGAN).load(Relaxed)
    }

    /// Notes that were not written, since there was no room.
    pub fn dropped(&self) -> u64 {
        self.words.word(DROPPED).load(Relaxed)
    }

    /// What a filter of system calls kept out.
    pub fn passed_over(&self) -> PassedOver {
        let count = |index| self.words.word(PASSED_OVER + index).load(Relaxed);
        PassedOver { programs: count(0), forked: count(1) }
    }

    /// A process took the ring out of its memory, to lock the rest.
    pub fn is_closed(&self) -> bool {
        self.words.word(CLOSED).load(Relaxed) == LOCKED
    }

    /// A process took away the memory that the ring lies in.
    pub fn is_taken_away(&self) -> bool {
        self.words.word(CLOSED).load(Relaxed) == TAKEN_AWAY
    }

    /// A process took the ring out of its memory, since it limited its address space.
    pub fn is_confined(&self) -> bool {
        self.words.word(CLOSED).load(Relaxed) == CONFINED
    }

    /// A thread forbade itself the clock, and writes nothing any more.
    pub fn is_silenced(&self) -> bool {
        self.words.word(CLOSED).load(Relaxed) == FORBIDDEN
    }

    /// Takes all notes that are finished, in the order they were begun, which is nearly that of time. With `is_over`
    /// nobody writes any more, and unfinished ones are passed over at once.
    pub fn take(&mut self, is_over: bool, mut each: impl FnMut(Note)) -> Result<(), BadRing> {
        let claimed = self.words.word(CLAIMED).load(Acquire);
        if claimed.checked_sub(self.taken).is_none_or(|waiting| waiting > SLOTS) {
            return Err(BadRing);
        }
        while self.taken < claimed {
            let at = HEAD_WORDS + (self.taken % SLOTS) as usize * WORDS;
            // ATOMICS: pairs with the writer's exchange, which comes behind all other words of the note.
            match self.words.word(at).load(Acquire) {
                GIVEN_UP => {}
                0 if self.waited < Self::PATIENCE && !is_over => {
                    self.waited += 1;
                    break;
                }
                0 => {
                    // The writer may have finished meanwhile: then it is read at the next look.
                    if self.words.word(at).compare_exchange(0, GIVEN_UP, Acquire, Acquire).is_err() {
                        break;
                    }
                    self.unfinished += 1;
                }
                control => {
                    let rest = |index: usize| self.words.word(at + index).load(Relaxed);
                    let words: [u64; WORDS] =
                        std::array::from_fn(|index| if index == 0 { control } else { rest(index) });
                    Note::parse(words).map_or_else(|| self.unfinished += 1, &mut each);
                    self.words.word(at).store(0, Relaxed);
                }
            }
            self.waited = 0;
            self.taken += 1;
        }
        // ATOMICS: whoever sees this also sees the places empty.
        self.words.word(TAKEN).store(self.taken, Release);
        Ok(())
    }
}
