//! Ports, what they can start, and how long it takes.

use serde::{Deserialize, Serialize};

/// An execution port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPort {
    /// `p0`, …
    pub name: String,
    /// What it can start.
    pub runs: Vec<OpClass>,
    /// Widest memory access it can do in one cycle, for load and store ports.
    #[serde(default)]
    pub bytes: Option<u32>,
}

/// Operation classes of a core model. The simulator maps decoded µop classes onto these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OpClass {
    /// Additions, logic, moves.
    Integer,
    /// Integer multiplication.
    IntegerMultiply,
    /// Integer division.
    IntegerDivide,
    /// Load address and data.
    Load,
    /// Store address.
    StoreAddress,
    /// Store data.
    StoreData,
    /// Floating-point addition.
    FloatAdd,
    /// Floating-point multiplication.
    FloatMultiply,
    /// Fused multiply-add.
    FloatFma,
    /// Floating-point division.
    FloatDivide,
    /// Floating-point square root.
    FloatSqrt,
    /// Vector logic, shuffles, inserts, conversions.
    Vector,
    /// Jumps, calls, returns.
    Branch,
}

impl OpClass {
    /// Every class, in the order of declaration.
    pub const ALL: [Self; 13] = [
        Self::Integer,
        Self::IntegerMultiply,
        Self::IntegerDivide,
        Self::Load,
        Self::StoreAddress,
        Self::StoreData,
        Self::FloatAdd,
        Self::FloatMultiply,
        Self::FloatFma,
        Self::FloatDivide,
        Self::FloatSqrt,
        Self::Vector,
        Self::Branch,
    ];

    /// The name model files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::IntegerMultiply => "integer-multiply",
            Self::IntegerDivide => "integer-divide",
            Self::Load => "load",
            Self::StoreAddress => "store-address",
            Self::StoreData => "store-data",
            Self::FloatAdd => "float-add",
            Self::FloatMultiply => "float-multiply",
            Self::FloatFma => "float-fma",
            Self::FloatDivide => "float-divide",
            Self::FloatSqrt => "float-sqrt",
            Self::Vector => "vector",
            Self::Branch => "branch",
        }
    }
}

/// How long an operation takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelOperation {
    /// Which.
    pub class: OpClass,
    /// Cycles until its result can be used. For loads: of a hit in the level-one cache, in [`super::PrivateCache`].
    pub latency: u32,
    /// Cycles until the same port can start another one of this class.
    pub repeat: u32,
    /// The same for 256-bit and wider vectors, where it differs.
    #[serde(default)]
    pub repeat_wide: Option<u32>,
}
