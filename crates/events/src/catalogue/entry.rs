//! One event of a microarchitecture.

use super::meaning::{EventMeaning, meanings};
use crate::{
    Encoding, Event, Signal,
    event::{Counters, Modifiers, Needs},
};

/// What holds an event's count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CountedAt {
    /// Counters of the unit.
    #[default]
    Counters,
    /// A counter that always runs and cannot be programmed.
    Free,
    /// The register of top-down metrics, read together with the slots.
    Metrics,
    /// AMD's instruction-based sampling.
    Sampling,
}

/// One event as its file describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Other names it is known by.
    pub also: Vec<String>,
    /// What is programmed.
    pub encoding: Encoding,
    /// Which counters it fits.
    pub counters: Counters,
    /// What holds the count.
    pub place: CountedAt,
    /// Key of its meaning.
    pub meaning: String,
    /// Highest level of precise sampling: 0 none, 1 possible, 2 the event is for sampling only.
    pub precise: u8,
    /// What one count stands for.
    pub scale: Option<String>,
    /// Errata as the maker numbers them.
    pub errata: Vec<String>,
    /// It must have the counters for itself.
    pub alone: bool,
    /// It takes two counters that lie side by side.
    pub pair: bool,
    /// The event that must lead its group.
    pub leader: Option<String>,
    /// What else one should know.
    pub note: Option<String>,
    /// Where the encoding comes from.
    pub source: String,
    /// What other sources say.
    pub alternatives: Vec<Alternative>,
}

/// Another source's encoding of the same event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// Who says so.
    pub says: String,
    /// Fields that differ.
    pub fields: Vec<(String, u64)>,
    /// Why it matters.
    pub note: String,
}

impl Alternative {
    /// What to type after the `@` of a name: the first word of the source.
    pub fn suffix(&self) -> &str {
        self.says.split([' ', ',']).next().unwrap_or_default()
    }
}

impl Entry {
    /// What it means. Loading checked that the key exists.
    pub fn meaning(&self) -> Option<&'static EventMeaning> {
        meanings().get(&self.meaning)
    }

    /// In plain words.
    pub fn summary(&self) -> &'static str {
        self.meaning().map_or("", |meaning| meaning.summary.as_str())
    }

    /// Ready to be opened.
    pub fn event(&self) -> Event {
        Event {
            name: self.name.clone(),
            signal: Signal::Encoded(self.encoding.clone()),
            modifiers: Modifiers::default(),
            counters: self.counters,
            needs: self.needs(),
            scale: self.scale.clone(),
            errata: self.errata.clone(),
        }
    }

    /// What it needs beside a counter.
    pub fn needs(&self) -> Needs {
        Needs {
            alone: self.alone,
            pair: self.pair,
            free: matches!(self.place, CountedAt::Free | CountedAt::Metrics),
            leader: self.leader.clone(),
        }
    }

    /// As another source has it; `source` is the first word of that source's name.
    pub fn event_according_to(&self, source: &str) -> Option<Event> {
        let same = |alternative: &&Alternative| alternative.suffix().eq_ignore_ascii_case(source);
        let alternative = self.alternatives.iter().find(same)?;
        let mut event = self.event();
        event.name = format!("{}@{}", self.name, alternative.suffix());
        if let Signal::Encoded(encoding) = &mut event.signal {
            for (name, value) in &alternative.fields {
                encoding.set(name, *value);
            }
        }
        Some(event)
    }
}
