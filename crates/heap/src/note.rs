//! One note, as the library writes it.

/// Words of a note.
pub(crate) const WORDS: usize = 8;

/// Bits of a note's first word that hold the size, and the mean distance behind it.
const SIZE_BITS: u32 = 48;
const DISTANCE_BITS: u32 = 8;

/// What a note tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// A large block was allocated.
    Allocated,
    /// A small block was allocated; it stands for others like it.
    Sampled {
        /// Points lay so far apart, on average, in the bytes that its thread allocated; the block is one that held a
        /// point.
        distance_bytes: u64,
    },
    /// Anonymous memory was mapped by the program itself.
    Mapped,
    /// Memory was unmapped by the program itself.
    Unmapped,
    /// A region of the program began on this thread.
    RegionBegan(RegionMark),
    /// It ended.
    RegionEnded(RegionMark),
    /// Its first visits, as many as the size says, are not to count.
    RegionSkips(RegionMark),
    /// A thread began to wait for others at a barrier within a region.
    WaitBegan,
    /// It goes on; meanwhile it worked on tasks for as many nanoseconds as the size says.
    WaitEnded,
    /// What the kernel had counted of the thread at the mark behind this note, which has the same time.
    RegionCounts(ThreadCounts),
    /// The program has done with one of the events that it works on (kruse2011 §5.3).
    EventDone,
    /// A place that was claimed for nothing.
    Nothing,
    /// An event of the thread at the mark behind this note, which has the same time; which one says the size.
    RegionEvent(EventCount),
    /// An event cannot be counted on this thread; which one says the size.
    EventRefused {
        /// What the kernel said; 0 where it lets nobody read the counter.
        errno: u64,
    },
}

/// An event of a thread, since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventCount {
    /// What was counted.
    pub value: u64,
    /// Time the event was switched on.
    pub enabled_ns: u64,
    /// Time it had a counter.
    pub running_ns: u64,
}

/// What the kernel has counted of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ThreadCounts {
    /// Page faults that needed no disk.
    pub minor_faults: u64,
    /// Page faults that did.
    pub major_faults: u64,
    /// Times that it gave up its CPU.
    pub voluntary_switches: u64,
    /// Times that its CPU was taken from it.
    pub involuntary_switches: u64,
    /// Processor time; 0 where nobody asked for it.
    pub cpu_ns: u64,
}

/// Which region: by name, or, where it has none, by the address of its code, which is that of the note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RegionMark {
    name: [u8; RegionMark::BYTES],
}

impl RegionMark {
    /// Of a name; longer ones are cut.
    pub const BYTES: usize = 32;

    fn of(words: [u64; 4]) -> Self {
        let mut name = [0; Self::BYTES];
        for (bytes, word) in name.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        Self { name }
    }

    /// Its name, what is no text replaced, with an ellipsis where it was cut; none if the program gave it none.
    pub fn name(&self) -> Option<String> {
        let length = self.name.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&self.name[..length.unwrap_or(Self::BYTES)]);
        match length {
            Some(0) => None,
            Some(_) => Some(text.into_owned()),
            None => Some(format!("{}…", text.trim_end_matches('\u{fffd}'))),
        }
    }
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
    /// Process, as it numbers itself: in its own namespace.
    pub pid: u32,
    /// Thread, likewise.
    pub tid: u32,
    /// What happened.
    pub kind: NoteKind,
    /// Who asked: first the return address of the call, then words found on the stack that may be return addresses
    /// further out (check that a call precedes them). 0 ends the list.
    pub callers: [u64; 4],
}

/// How many bytes a block stands for, itself among them: sums over blocks are estimates of sums over all blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StandsFor {
    /// Without bias.
    pub bytes: f64,
    /// What it adds to the variance of the sum.
    pub variance: f64,
}

impl Note {
    /// Reads a note; none of words that the library does not write.
    pub fn parse(words: [u64; WORDS]) -> Option<Self> {
        let [control, time_ns, address, ids, callers @ ..] = words;
        let distance_log2 = control >> SIZE_BITS & ((1 << DISTANCE_BITS) - 1);
        let kind = match control >> (SIZE_BITS + DISTANCE_BITS) {
            1 => NoteKind::Allocated,
            2 => NoteKind::Sampled { distance_bytes: 1_u64.checked_shl(u32::try_from(distance_log2).ok()?)? },
            3 => NoteKind::Mapped,
            4 => NoteKind::Unmapped,
            5 => NoteKind::RegionBegan(RegionMark::of(callers)),
            6 => NoteKind::RegionEnded(RegionMark::of(callers)),
            7 => NoteKind::RegionSkips(RegionMark::of(callers)),
            8 => NoteKind::WaitBegan,
            9 => NoteKind::WaitEnded,
            10 => NoteKind::RegionCounts(ThreadCounts {
                minor_faults: address,
                major_faults: callers[0],
                voluntary_switches: callers[1],
                involuntary_switches: callers[2],
                cpu_ns: callers[3],
            }),
            11 => NoteKind::EventDone,
            12 => NoteKind::Nothing,
            13 => NoteKind::RegionEvent(EventCount {
                value: address,
                enabled_ns: callers[0],
                running_ns: callers[1],
            }),
            14 => NoteKind::EventRefused { errno: address },
            _ => return None,
        };
        Some(Self {
            time_ns,
            address,
            size_bytes: control & ((1 << SIZE_BITS) - 1),
            // The low half comes first in memory.
            pid: ids as u32,
            tid: (ids >> 32) as u32,
            kind,
            callers,
        })
    }

    /// What an allocation stands for: itself if all of its kind are written down, else those like it that were not.
    pub fn stands_for(&self) -> StandsFor {
        let size = self.size_bytes as f64;
        match self.kind {
            NoteKind::Sampled { distance_bytes } => {
                let chance = -(-size / distance_bytes as f64).exp_m1();
                // A block of no bytes holds no point; if one is written down all the same it stands for none.
                if chance <= 0.0 {
                    return StandsFor { bytes: 0.0, variance: 0.0 };
                }
                StandsFor { bytes: size / chance, variance: size * size * (1.0 - chance) / (chance * chance) }
            }
            _ => StandsFor { bytes: size, variance: 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_words_make_it_panic(words in any::<[u64; WORDS]>(), kind in 0_u64..16, distance in 0_u64..256) {
            Note::parse(words);
            let control = words[0] >> 16 | distance << SIZE_BITS | kind << (SIZE_BITS + DISTANCE_BITS);
            let note = Note::parse([control, words[1], words[2], words[3], words[4], words[5], words[6], words[7]]);
            prop_assert_eq!(note.is_some(), (1..15).contains(&kind) && (kind != 2 || distance < 64));
            if let Some(note) = note {
                let stands = note.stands_for();
                prop_assert!(stands.bytes >= note.size_bytes as f64 && stands.variance >= 0.0, "{stands:?}");
            }
        }
    }

    #[test]
    fn names_of_regions_are_cut_and_said_to_be() {
        let mark = |text: &[u8]| {
            let mut bytes = [0; RegionMark::BYTES];
            bytes[..text.len()].copy_from_slice(text);
            let words = std::array::from_fn(|index| {
                u64::from_ne_bytes(std::array::from_fn(|byte| bytes[index * 8 + byte]))
            });
            RegionMark::of(words).name()
        };
        assert_eq!(mark(b"solve").as_deref(), Some("solve"));
        assert_eq!(mark(b""), None);
        let long = [b'x'; RegionMark::BYTES];
        assert_eq!(mark(&long), Some(format!("{}…", "x".repeat(RegionMark::BYTES))));
        // Cut within a letter.
        let within = ["x".repeat(31).as_bytes(), &[0xc3]].concat();
        assert_eq!(mark(&within), Some(format!("{}…", "x".repeat(31))));
    }

    #[test]
    fn small_blocks_stand_for_about_a_distance_and_large_ones_for_themselves() {
        let note = |size: u64| Note::parse([2 << 56 | 20 << 48 | size, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        let tiny = note(16).stands_for();
        assert!((tiny.bytes / f64::from(1 << 20) - 1.0).abs() < 1e-4, "{tiny:?}");
        assert!(note(1 << 24).stands_for().bytes < f64::from(1 << 24) * 1.000_001);
        assert_eq!(note(0).stands_for().bytes, 0.0);
    }
}
