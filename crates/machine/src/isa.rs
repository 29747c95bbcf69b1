//! Which vector instructions a CPU, real or simulated, can run.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The instruction set extensions that decide which kernels exist on a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Isa {
    /// x86-64 at all: SSE2 is part of it.
    pub x86_64: bool,
    /// 256-bit floating point.
    pub avx: bool,
    /// 256-bit integers.
    pub avx2: bool,
    /// Fused multiply-add.
    pub fma: bool,
    /// 512-bit vectors.
    pub avx512f: bool,
}

impl Isa {
    /// What the CPU this code runs on can do, the operating system's permission included.
    pub fn native() -> Self {
        #[cfg(target_arch = "x86_64")]
        return Self {
            x86_64: true,
            avx: std::arch::is_x86_feature_detected!("avx"),
            avx2: std::arch::is_x86_feature_detected!("avx2"),
            fma: std::arch::is_x86_feature_detected!("fma"),
            avx512f: std::arch::is_x86_feature_detected!("avx512f"),
        };
        #[cfg(not(target_arch = "x86_64"))]
        Self::default()
    }

    /// Whether code of this width runs here.
    pub fn supports(&self, width: Width) -> bool {
        match width {
            Width::Scalar | Width::Sse => self.x86_64,
            Width::Avx2 => self.avx && self.avx2 && self.fma,
            Width::Avx512 => self.avx512f && self.supports(Width::Avx2),
        }
    }

    /// The widths that run here, narrowest first.
    pub fn widths(&self) -> impl DoubleEndedIterator<Item = Width> + '_ {
        Width::ALL.into_iter().filter(|&width| self.supports(width))
    }

    /// The widest width that runs here.
    pub fn widest(&self) -> Option<Width> {
        self.widths().next_back()
    }
}

/// How many bytes one vector operation of a kernel touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Width {
    /// One 64-bit element.
    Scalar,
    /// 128 bits.
    Sse,
    /// 256 bits, with fused multiply-add.
    Avx2,
    /// 512 bits.
    Avx512,
}

impl Width {
    /// Every width, narrowest first.
    pub const ALL: [Self; 4] = [Self::Scalar, Self::Sse, Self::Avx2, Self::Avx512];

    /// Bytes per operation.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::Scalar => 8,
            Self::Sse => 16,
            Self::Avx2 => 32,
            Self::Avx512 => 64,
        }
    }

    /// The name users type.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scalar => "scalar",
            Self::Sse => "sse",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
        }
    }
}

impl fmt::Display for Width {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no width.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown width '{0}'; one of scalar, sse, avx2, avx512")]
pub struct UnknownWidth(pub String);

impl FromStr for Width {
    type Err = UnknownWidth;

    fn from_str(text: &str) -> Result<Self, UnknownWidth> {
        Self::ALL
            .into_iter()
            .find(|width| width.name() == text.to_ascii_lowercase())
            .ok_or_else(|| UnknownWidth(text.to_owned()))
    }
}
