//! Whose machine a run was recorded on, and what to do next there, in words.

use record::run::Run;

/// Where a recording comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOrigin {
    /// memwall recorded it.
    Recorded,
    /// perf did, wherever that was.
    Imported,
}

impl RunOrigin {
    pub fn of(run: &Run) -> Self {
        if run.import.is_some() { Self::Imported } else { Self::Recorded }
    }

    fn either(self, recorded: &'static str, imported: &'static str) -> &'static str {
        match self {
            Self::Recorded => recorded,
            Self::Imported => imported,
        }
    }

    pub fn machine(self) -> &'static str {
        self.either("this machine", "that machine")
    }

    pub fn no_profile(self) -> &'static str {
        self.either(
            "this machine has no profile; run `memwall calibrate`",
            "nobody measured the machine of the file; what another one gives says nothing of it",
        )
    }

    pub fn no_switches(self) -> &'static str {
        self.either(
            "the kernel gave no context-switch records",
            "the file has no context-switch records ('perf record --switch-events' keeps them)",
        )
    }

    pub fn untried(self) -> &'static str {
        self.either(
            "How right such shares are on this machine was not tried; 'memwall validate' does.",
            "How right such shares are on that machine was not tried; 'memwall import --trust FILE' takes what 'memwall \
             validate --json' wrote there.",
        )
    }

    pub fn fewer_losses(self) -> &'static str {
        self.either(
            "A lower --rate loses fewer.",
            "A lower rate (perf record -F) or larger rings (-m) lose fewer.",
        )
    }

    pub fn events_instead(self) -> &'static str {
        self.either(
            "events of a PMU: 'memwall count --patterns', where there is one or on a simulated machine",
            "events of a PMU, counted on that machine",
        )
    }

    pub fn no_page_walks(self) -> &'static str {
        self.either(
            "what a page walk costs here: 'memwall calibrate' (without --quick)",
            "what a page walk costs on that machine",
        )
    }

    pub fn more_samples(self) -> &'static str {
        self.either("run it longer, or raise --rate", "record for longer, or more often (perf record -F)")
    }

    pub fn too_few(self) -> &'static str {
        self.either(
            "Run it longer, raise --rate, or see to what the notes say: there are too few samples.",
            "Record for longer or more often (perf record -F), or see to what the notes say: there are too few samples.",
        )
    }

    pub fn no_allocations(self) -> &'static str {
        self.either(
            "Allocations were not written down (--no-heap, attached, or a program that the library cannot enter): heap \
             memory is named by its mapping.",
            "perf writes no allocations down: heap memory is named by its mapping.",
        )
    }
}
