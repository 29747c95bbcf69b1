//! What indicators are held against: quantities that known work gives exactly, and other purposes.

use serde::{Deserialize, Serialize};

/// The part of a machine that a purpose is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MachinePart {
    /// A core.
    Core,
    /// Between the first and the second cache.
    FirstToSecond,
    /// Between the second and the third.
    SecondToThird,
    /// Between the last cache and memory.
    Memory,
    /// Between packages.
    Packages,
}

macro_rules! quantities {
    ($($variant:ident, $key:literal, $words:literal, $part:ident;)*) => {
        /// A quantity of known work. Of two that fit a count alike the first is named.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Quantity {
            $(#[doc = $words] #[serde(rename = $key)] $variant,)*
        }

        impl Quantity {
            /// All there are, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its key in files.
            pub fn key(self) -> &'static str {
                match self { $(Self::$variant => $key,)* }
            }

            /// In plain words.
            pub fn words(self) -> &'static str {
                match self { $(Self::$variant => $words,)* }
            }

            /// The part of a machine it is about.
            pub fn part(self) -> MachinePart {
                match self { $(Self::$variant => MachinePart::$part,)* }
            }
        }
    };
}

quantities! {
    Instructions, "instructions", "instructions", Core;
    Loads, "loads", "loads", Core;
    Stores, "stores", "stores", Core;
    Branches, "branches", "branches", Core;
    Cycles, "cycles", "core cycles", Core;
    Flops, "flops", "floating-point operations", Core;
    ArithmeticScalar, "arithmetic_scalar", "scalar double-precision arithmetic, fused ones twice", Core;
    Arithmetic128, "arithmetic_128", "128-bit double-precision arithmetic, fused ones twice", Core;
    Arithmetic256, "arithmetic_256", "256-bit double-precision arithmetic, fused ones twice", Core;
    Arithmetic512, "arithmetic_512", "512-bit double-precision arithmetic, fused ones twice", Core;
    ArithmeticScalarSingle, "arithmetic_scalar_single", "scalar single-precision arithmetic, fused ones twice", Core;
    Arithmetic128Single, "arithmetic_128_single", "128-bit single-precision arithmetic, fused ones twice", Core;
    Arithmetic256Single, "arithmetic_256_single", "256-bit single-precision arithmetic, fused ones twice", Core;
    Arithmetic512Single, "arithmetic_512_single", "512-bit single-precision arithmetic, fused ones twice", Core;
    ArithmeticScalarAny, "arithmetic_scalar_any", "scalar arithmetic of either precision, fused ones twice", Core;
    Arithmetic128Any, "arithmetic_128_any", "128-bit arithmetic of either precision, fused ones twice", Core;
    ArithmeticVector, "arithmetic_vector", "vector arithmetic, fused ones twice", Core;
    Fused256, "fused_256", "256-bit multiply-adds", Core;
    Loads256, "loads_256", "256-bit loads", Core;
    Stores256, "stores_256", "256-bit stores", Core;
    L1In, "l1_in", "lines into the L1", FirstToSecond;
    L1InRead, "l1_in_read", "lines into the L1 for loads", FirstToSecond;
    L1InOwned, "l1_in_owned", "lines into the L1 for stores", FirstToSecond;
    L2In, "l2_in", "lines into the L2", SecondToThird;
    L2InRead, "l2_in_read", "lines into the L2 for loads", SecondToThird;
    L2InOwned, "l2_in_owned", "lines into the L2 for stores", SecondToThird;
    L3In, "l3_in", "lines from memory", Memory;
    L3InRead, "l3_in_read", "lines from memory for loads", Memory;
    L3InOwned, "l3_in_owned", "lines from memory for stores", Memory;
    L2Served, "l2_served", "lines the L2 serves", FirstToSecond;
    L2ServedRead, "l2_served_read", "lines the L2 serves to loads", FirstToSecond;
    L2ServedOwned, "l2_served_owned", "lines the L2 serves to stores", FirstToSecond;
    L3Served, "l3_served", "lines the L3 serves", SecondToThird;
    L3ServedRead, "l3_served_read", "lines the L3 serves to loads", SecondToThird;
    L3ServedOwned, "l3_served_owned", "lines the L3 serves to stores", SecondToThird;
    L1Out, "l1_out", "lines written back by the L1", FirstToSecond;
    L2Out, "l2_out", "lines written back by the L2", SecondToThird;
    L3Out, "l3_out", "lines written back by the L3", Memory;
    MemoryOut, "memory_out", "lines into memory", Memory;
    MemoryAll, "memory_all", "lines from and into memory", Memory;
    LocalIn, "local_in", "lines from memory of the own package", Memory;
    LocalInRead, "local_in_read", "lines from memory of the own package for loads", Memory;
    LocalInOwned, "local_in_owned", "lines from memory of the own package for stores", Memory;
    LocalOut, "local_out", "lines into memory of the own package", Memory;
    RemoteIn, "remote_in", "lines from memory of another package", Packages;
    RemoteInRead, "remote_in_read", "lines from memory of another package for loads", Packages;
    RemoteOut, "remote_out", "lines into memory of another package", Packages;
    LinkIn, "link_in", "flits received over the link", Packages;
    LinkOut, "link_out", "flits sent over the link", Packages;
    HandedOver, "handed_over", "lines taken from the core that wrote them", SecondToThird;
}

/// What an indicator is held against.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Purpose {
    /// A quantity.
    Volume(Quantity),
    /// Cycles of waiting: what for is found.
    Stall,
    /// Cycles in which nothing executes, whatever is waited for.
    NoExecution,
    /// A share of the cycles, as a group of events has it.
    CycleShare,
    /// Saturation of memory, by a latency.
    Latency,
    /// Something that the operating system does.
    Software,
    /// What the clock's samples tell.
    Timer,
    /// Nothing is claimed; what it follows is searched.
    Unclaimed,
    /// Something that this version does not know: it is in a file of another.
    Foreign(String),
}

impl Purpose {
    /// Its key in files.
    pub fn key(&self) -> &str {
        match self {
            Self::Volume(quantity) => quantity.key(),
            Self::Stall => "stall",
            Self::NoExecution => "no_execution",
            Self::CycleShare => "cycle_share",
            Self::Latency => "latency",
            Self::Software => "software",
            Self::Timer => "timer",
            Self::Unclaimed => "unknown",
            Self::Foreign(key) => key,
        }
    }
}

impl From<String> for Purpose {
    fn from(key: String) -> Self {
        let others = [
            Self::Stall,
            Self::NoExecution,
            Self::CycleShare,
            Self::Latency,
            Self::Software,
            Self::Timer,
            Self::Unclaimed,
        ];
        let volumes = Quantity::ALL.iter().map(|quantity| Self::Volume(*quantity));
        volumes.chain(others).find(|known| known.key() == key).unwrap_or(Self::Foreign(key))
    }
}

impl From<Purpose> for String {
    fn from(purpose: Purpose) -> Self {
        purpose.key().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_in_a_file_is_read_as_what_it_was_written_for() {
        for quantity in Quantity::ALL {
            let text = serde_json::to_string(&Purpose::Volume(*quantity)).unwrap();
            assert_eq!(text, serde_json::to_string(quantity).unwrap());
            assert_eq!(serde_json::from_str::<Purpose>(&text).unwrap(), Purpose::Volume(*quantity));
            assert_eq!(serde_json::from_str::<Quantity>(&text).unwrap(), *quantity);
        }
        for key in ["stall", "no_execution", "cycle_share", "latency", "software", "timer", "unknown"] {
            assert!(
                !matches!(Purpose::from(key.to_owned()), Purpose::Foreign(_) | Purpose::Volume(_)),
                "{key}"
            );
        }
        let foreign: Purpose = serde_json::from_str("\"lines into the L9\"").unwrap();
        assert_eq!(serde_json::to_string(&foreign).unwrap(), "\"lines into the L9\"");
    }
}
