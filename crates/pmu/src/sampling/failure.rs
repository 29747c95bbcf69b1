//! Why a sampler could not be opened or read.

use crate::{
    Errno,
    refusal::{Explanation, Need, NextStep, Surroundings, Trouble},
};

/// A refusal: what was asked, what the kernel said, and what would help whatever the machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot {asked}: {}{}", self.trouble.errno, self.hint.as_ref().map_or(String::new(), |hint| format!("; {hint}")))]
#[non_exhaustive]
pub struct SamplingFailure {
    /// What was asked, after "cannot".
    pub asked: String,
    /// Which step failed, and how.
    pub trouble: Trouble,
    /// What permission it takes.
    pub need: Need,
    /// What to do about it that does not depend on the machine's settings; [`Self::explain`] knows the others.
    pub hint: Option<String>,
}

impl SamplingFailure {
    pub(super) fn new(asked: impl Into<String>, step: NextStep, errno: Errno, need: Need) -> Self {
        let hint = match (step, errno.0) {
            (_, libc::ESRCH) => {
                Some("the process is gone; start it again, or look for its new number".to_owned())
            }
            (NextStep::Open, libc::EMFILE) => None,
            (NextStep::Open, libc::ENODATA) => {
                Some("this core wants its auxiliary event first: ask precise_loads for both".to_owned())
            }
            (NextStep::Open, libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
                Some("this machine does not sample it; the clock works everywhere".to_owned())
            }
            (NextStep::Map, libc::EPERM) => Some("ask for smaller rings or fewer CPUs".to_owned()),
            _ => None,
        };
        Self { asked: asked.into(), trouble: Trouble { step, errno }, need, hint }
    }

    pub(super) fn with_hint(self, hint: String) -> Self {
        Self { hint: Some(hint), ..self }
    }

    /// What it means on a machine with these settings, and the command that lifts it.
    pub fn explain(&self, here: &Surroundings) -> Explanation {
        here.explain(self.trouble, self.need)
    }
}
