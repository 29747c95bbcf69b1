//! What hot loops take with their data in the first cache, measured in copies of the program while it ran.

use serde::{Deserialize, Serialize};

use crate::ids::ModuleId;

/// Why relief says nothing of a program, a loop or a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReliefBarrier {
    /// The program ran for too short a time.
    ShortRun,
    /// Nothing took enough of the time to be worth it.
    NoHotLoop,
    /// The system does not let us trace it: Yama, a container, another user.
    TracingDenied,
    /// Somebody else traces it already.
    TracedAlready,
    /// It filters its system calls: one of ours might kill it.
    Seccomp,
    /// No copy could be made: a limit on processes or memory.
    CopyDenied,
    /// Making a copy would stop the program for too long.
    LongPause,
    /// Pages that the program writes while the copy lives would cost it too much.
    CopyOnWrite,
    /// Whenever we looked the thread was elsewhere.
    NotThere,
    /// What runs there does not come back to the same instruction.
    NoTurns,
    /// A turn calls the kernel.
    SystemCall,
    /// A turn reads a clock.
    ClockRead,
    /// A string instruction is one instruction of many turns.
    StringInstruction,
    /// A turn writes to memory that it shares with others.
    SharedWrite,
    /// A turn takes locks or changes lines atomically beside other threads: in a copy nobody contends.
    Contention,
    /// The code was generated at run time.
    GeneratedCode,
    /// An instruction that cannot be repeated elsewhere.
    UnknownInstruction,
    /// Too few turns fit the first cache.
    FewTurns,
    /// A repetition did not end as the recording did.
    OtherEnd,
    /// Stretches at different times give different times.
    Disagreement,
    /// How long a turn takes in the program could not be found.
    NoTurnTime,
    /// The program, or this thread of it, ended or executed another meanwhile.
    Ended,
    /// A signal has stopped the program.
    Stopped,
    /// Relief was over its time: pauses reached their limit.
    OutOfTime,
    /// A system call of ours failed.
    Trouble,
}

impl ReliefBarrier {
    /// All of them.
    pub const ALL: [Self; 25] = [
        Self::ShortRun,
        Self::NoHotLoop,
        Self::TracingDenied,
        Self::TracedAlready,
        Self::Seccomp,
        Self::CopyDenied,
        Self::LongPause,
        Self::CopyOnWrite,
        Self::NotThere,
        Self::NoTurns,
        Self::SystemCall,
        Self::ClockRead,
        Self::StringInstruction,
        Self::SharedWrite,
        Self::Contention,
        Self::GeneratedCode,
        Self::UnknownInstruction,
        Self::FewTurns,
        Self::OtherEnd,
        Self::Disagreement,
        Self::NoTurnTime,
        Self::Ended,
        Self::Stopped,
        Self::OutOfTime,
        Self::Trouble,
    ];

    /// The word that files of ours use for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::ShortRun => "short_run",
            Self::NoHotLoop => "no_hot_loop",
            Self::TracingDenied => "tracing_denied",
            Self::TracedAlready => "traced_already",
            Self::Seccomp => "seccomp",
            Self::CopyDenied => "copy_denied",
            Self::LongPause => "long_pause",
            Self::CopyOnWrite => "copy_on_write",
            Self::NotThere => "not_there",
            Self::NoTurns => "no_turns",
            Self::SystemCall => "system_call",
            Self::ClockRead => "clock_read",
            Self::StringInstruction => "string_instruction",
            Self::SharedWrite => "shared_write",
            Self::Contention => "contention",
            Self::GeneratedCode => "generated_code",
            Self::UnknownInstruction => "unknown_instruction",
            Self::FewTurns => "few_turns",
            Self::OtherEnd => "other_end",
            Self::Disagreement => "disagreement",
            Self::NoTurnTime => "no_turn_time",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::OutOfTime => "out_of_time",
            Self::Trouble => "trouble",
        }
    }

    /// The other way.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|barrier| barrier.word() == word)
    }

    /// For people, after "no relief: ".
    pub const fn words(self) -> &'static str {
        match self {
            Self::ShortRun => "the program ran for less than two seconds",
            Self::NoHotLoop => "no loop took a tenth of the time",
            Self::TracingDenied => "the system does not let memwall trace the program",
            Self::TracedAlready => "somebody else traces the program",
            Self::Seccomp => "the program filters its system calls",
            Self::CopyDenied => "the system gave no copy of the program",
            Self::LongPause => "making a copy would stop the program for too long",
            Self::CopyOnWrite => "pages that the program writes meanwhile would cost it too much",
            Self::NotThere => "the thread was elsewhere whenever memwall looked",
            Self::NoTurns => "what runs there does not come back to the same instruction",
            Self::SystemCall => "a turn calls the kernel",
            Self::ClockRead => "a turn reads a clock",
            Self::StringInstruction => "its work is a string instruction",
            Self::SharedWrite => "a turn writes to memory shared with other processes",
            Self::Contention => "a turn takes locks while other threads run, which a copy has not",
            Self::GeneratedCode => "its code was generated at run time",
            Self::UnknownInstruction => "it has an instruction that cannot be repeated elsewhere",
            Self::FewTurns => "too few turns fit the first cache",
            Self::OtherEnd => "a repetition did not end as the recording did",
            Self::Disagreement => "stretches at different times disagree",
            Self::NoTurnTime => "how long a turn takes in the program could not be found",
            Self::Ended => "the program ended meanwhile",
            Self::Stopped => "a signal had stopped the program",
            Self::OutOfTime => "pauses reached a hundredth of the run",
            Self::Trouble => "a system call of memwall's failed",
        }
    }
}

/// A barrier and what was seen of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReliefRefusal {
    /// Which one.
    pub barrier: ReliefBarrier,
    /// What was seen: an instruction, a number; empty if there is no more to say.
    pub detail: String,
}

impl ReliefRefusal {
    /// With what was seen.
    pub fn new(barrier: ReliefBarrier, detail: impl Into<String>) -> Self {
        Self { barrier, detail: detail.into() }
    }

    /// For people, after "no relief: ".
    pub fn sentence(&self) -> String {
        match self.detail.as_str() {
            "" => self.barrier.words().to_owned(),
            detail => format!("{} ({detail})", self.barrier.words()),
        }
    }
}

impl From<ReliefBarrier> for ReliefRefusal {
    fn from(barrier: ReliefBarrier) -> Self {
        Self::new(barrier, "")
    }
}

/// A value and the bounds it lies between.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    /// The value.
    pub value: f64,
    /// It is no less.
    pub low: f64,
    /// It is no more.
    pub high: f64,
}

/// How the time of a turn in the program was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnTiming {
    /// The thread was stopped twice within one pass: registers say how many turns lay between.
    Strides,
    /// Whole passes were run in the copy, again and again.
    Passes,
    /// Clock samples of the recording: addresses say how many turns lay between.
    Samples,
}

impl TurnTiming {
    /// The word that files of ours use for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Strides => "strides",
            Self::Passes => "passes",
            Self::Samples => "samples",
        }
    }

    /// The other way.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::Strides, Self::Passes, Self::Samples].into_iter().find(|timing| timing.word() == word)
    }
}

/// One stretch of a loop, repeated until its data sat in the first cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReliefStretch {
    /// When the copy was made, since the start of the recording.
    pub time_ns: u64,
    /// Turns in it.
    pub turns: u32,
    /// Lines it touches.
    pub lines: u32,
    /// A turn on data in the first cache.
    pub near_ns: Option<f64>,
    /// A turn in the program at that time.
    pub turn_ns: Option<f64>,
    /// How that was found.
    pub timing: Option<TurnTiming>,
    /// How long the program stood still for it.
    pub pause_ns: u64,
    /// Why it says nothing.
    pub refusal: Option<ReliefRefusal>,
}

/// A hot loop, and what came of relieving it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelievedLoop {
    /// The module it is in.
    pub module: ModuleId,
    /// Addresses that a turn executes there, in the module's own terms: first, and behind the last.
    pub ranges: Vec<(u64, u64)>,
    /// The thread that was watched.
    pub tid: u32,
    /// Each stretch.
    pub stretches: Vec<ReliefStretch>,
    /// A turn with its data in the first cache.
    pub near_ns: Option<Bounded>,
    /// A turn in the program.
    pub turn_ns: Option<Bounded>,
    /// The share of waiting: 1 − near / turn.
    pub share: Option<Bounded>,
    /// Outcomes of its branches look unpredictable: what is waited for is memory or branches.
    pub has_wild_branches: bool,
    /// It changes lines atomically: what contention costs is not in it.
    pub has_atomics: bool,
    /// Why there is no share.
    pub refusal: Option<ReliefRefusal>,
}

/// What relief cost the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReliefCost {
    /// Copies made.
    pub copies: u32,
    /// Time the program stood still.
    pub paused_ns: u64,
    /// The longest of these.
    pub longest_pause_ns: u64,
    /// Pages the program wrote to while a copy lived.
    pub page_faults: u64,
    /// Processor time of the copies.
    pub copies_ns: u64,
}

/// How long a program of this size stands still while it is copied, at worst: on small pages.
pub fn pause_ns(resident_bytes: u64) -> u64 {
    // 2 GiB took 39 to 63 ms, and nothing took less than 0.3 ms.
    300_000 + resident_bytes / 4096 * 120
}

/// What relief found in a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReliefRecord {
    /// Nobody asked for it.
    #[default]
    NotAsked,
    /// It was asked for and could not be had.
    Refused(ReliefRefusal),
    /// It was tried on these loops.
    Tried {
        /// The loops.
        loops: Vec<RelievedLoop>,
        /// What that cost.
        cost: ReliefCost,
    },
}

impl ReliefRecord {
    /// The loops there are.
    pub fn loops(&self) -> &[RelievedLoop] {
        match self {
            Self::Tried { loops, .. } => loops,
            Self::NotAsked | Self::Refused(_) => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_barrier_has_a_word_of_its_own() {
        for barrier in ReliefBarrier::ALL {
            assert_eq!(ReliefBarrier::from_word(barrier.word()), Some(barrier));
        }
        assert_eq!(ReliefBarrier::from_word("other"), None);
    }
}
