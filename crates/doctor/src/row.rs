//! One capability and what came of trying it.

use record::doctor::{Capability, CapabilityState};

/// What never changes about a row.
pub(super) struct RowSubject {
    /// Stable key for machines.
    pub key: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// How it is tried.
    pub tried: &'static str,
    /// What it makes possible.
    pub unlocks: &'static str,
}

impl RowSubject {
    /// It works.
    pub fn found(&self, detail: impl Into<String>) -> Capability {
        self.row(CapabilityState::Found, detail.into(), None)
    }

    /// The machine does not have it, and nothing the user types changes that.
    pub fn missing(&self, detail: impl Into<String>) -> Capability {
        self.row(CapabilityState::Missing, detail.into(), None)
    }

    /// It is, or may be, there; `unlock_with` would open it.
    pub fn blocked(&self, detail: impl Into<String>, unlock_with: Option<String>) -> Capability {
        self.row(CapabilityState::Blocked, detail.into(), unlock_with)
    }

    fn row(&self, state: CapabilityState, detail: String, unlock_with: Option<String>) -> Capability {
        Capability {
            key: self.key.to_owned(),
            name: self.name.to_owned(),
            state,
            detail,
            tried: self.tried.to_owned(),
            unlocks: self.unlocks.to_owned(),
            unlock_with,
        }
    }
}

/// `1 counter`, `2 counters`.
pub(super) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// At most `limit` of the names, and how many more there are.
pub(super) fn named(names: &[String], limit: usize) -> String {
    let shown = names[..names.len().min(limit)].join(", ");
    match names.len().saturating_sub(limit) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
