//! Who is judged: events, and what is made of them.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! indicators {
    ($($variant:ident, $name:literal;)*) => {
        /// Something that is judged. In files and for people it is its name.
        #[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(from = "String", into = "String")]
        pub enum Indicator {
            /// An event, a sum or a difference of events, under their names.
            Event(String),
            $(#[doc = $name] $variant,)*
        }

        impl Indicator {
            /// Those that are no events.
            pub const OWN: &'static [Self] = &[$(Self::$variant),*];

            /// Its name.
            pub fn name(&self) -> &str {
                match self {
                    Self::Event(name) => name,
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

indicators! {
    L1MissLatency, "L1-miss latency";
    LoadMissRealLatency, "load-miss real latency";
    SampledLatency, "sampled latency";
    WatchedWrites, "breakpoint (write)";
    WatchedAccesses, "breakpoint (read or write)";
    WatchedCalls, "breakpoint (execute)";
    ShareOfWaiting, "timer: share of waiting";
    WaitingOnLoads, "timer: waiting on loads";
    WaitingOnStores, "timer: waiting on stores";
    WaitingOnDivides, "timer: waiting on divides";
    WaitingOnChains, "timer: waiting on chains";
    Addresses, "timer: addresses";
    Skid, "timer: skid";
}

impl Indicator {
    /// An event by its name.
    pub fn event(name: &str) -> Self {
        Self::Event(name.to_owned())
    }

    /// A share of the cycles as a group of events has it: `STALLS: productive`.
    pub fn share(group: &str, metric: &str) -> Self {
        Self::Event(format!("{group}: {metric}"))
    }

    /// Whether it is a share of time, whose error is in points of it.
    pub fn is_share(&self) -> bool {
        match self {
            Self::ShareOfWaiting
            | Self::WaitingOnLoads
            | Self::WaitingOnStores
            | Self::WaitingOnDivides
            | Self::WaitingOnChains => true,
            // As `Self::share` writes it; no event has a blank behind a colon.
            Self::Event(name) => name.contains(": "),
            Self::L1MissLatency
            | Self::LoadMissRealLatency
            | Self::SampledLatency
            | Self::WatchedWrites
            | Self::WatchedAccesses
            | Self::WatchedCalls
            | Self::Addresses
            | Self::Skid => false,
        }
    }
}

impl fmt::Display for Indicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<String> for Indicator {
    fn from(name: String) -> Self {
        Self::OWN.iter().find(|own| own.name() == name).cloned().unwrap_or(Self::Event(name))
    }
}

impl From<Indicator> for String {
    fn from(indicator: Indicator) -> Self {
        indicator.name().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_in_a_file_is_the_indicator_it_was_written_for() {
        for own in Indicator::OWN {
            let text = serde_json::to_string(own).unwrap();
            assert_eq!(&serde_json::from_str::<Indicator>(&text).unwrap(), own);
        }
        let event: Indicator = serde_json::from_str("\"L1D.REPLACEMENT\"").unwrap();
        assert!(Indicator::share("STALLS", "productive").is_share() && !event.is_share());
        assert!(!Indicator::event("OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_HIT:SNP_ANY").is_share());
        assert_eq!(
            (&event, event.to_string().as_str()),
            (&Indicator::event("L1D.REPLACEMENT"), "L1D.REPLACEMENT")
        );
    }
}
