//! The fifteen access distributions of casas2017 Table 2, on [0, 1) as a fraction of the buffer.
//!
//! A value outside the buffer is drawn again (casas2017 §3.2.1 leaves it open), which makes every distribution
//! the conditional one on [0, 1). Truncation is done on the cumulative distribution, not by trial.
//!
//! Where the table's "Standard Deviation" column and the parameters do not agree, the parameters win:
//!
//! | pattern | parameters | the table's column | what that is |
//! |---|---|---|---|
//! | Norm, Exp | σ = n/k; λ = k/n | n/k | the standard deviation |
//! | Laplace | μ = n/2, σ = n/k | n/k | the standard deviation if σ is one (scale b = σ/√2), not if σ is b |
//! | Logistics | s = n/k | n²π²/(3k²) | the variance, s²π²/3 |
//! | Tri | a = 0, b = 0.4n, 0.6n, 0.8n, c = n | n²/18 | a variance, and only for b = 0 or b = n |
//! | Uni | a = 0, b = n | n²/12 | the variance |
//!
//! For Laplace the column decides: σ is read as the standard deviation, which agrees with its n/k. A triangle
//! rises from a to its mode b and falls to c; its variance is (n² − bn + b²)/18.

use std::{f64::consts, fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// Where the symmetric distributions are centred: μ = n/2.
const CENTRE: f64 = 0.5;

/// One of the access distributions of casas2017 Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the table in the module documentation says what each one is")]
pub enum Distribution {
    Norm4,
    Norm6,
    Norm8,
    Exp4,
    Exp6,
    Exp8,
    Laplace4,
    Laplace6,
    Logistic4,
    Logistic6,
    Logistic8,
    Tri1,
    Tri2,
    Tri3,
    Uni,
}

/// A name that is not a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an access distribution; choose one of {names}", names = names())]
pub struct UnknownDistribution(pub String);

fn names() -> String {
    Distribution::ALL.map(Distribution::name).join(", ")
}

/// A distribution before truncation, in buffer lengths.
#[derive(Clone, Copy)]
enum DistributionShape {
    Normal {
        sigma: f64,
    },
    Exponential {
        rate: f64,
    },
    Laplace {
        scale: f64,
    },
    Logistic {
        scale: f64,
    },
    /// From 0 to 1.
    Triangular {
        mode: f64,
    },
    Uniform,
}

impl Distribution {
    /// All of them, in the order of the table.
    pub const ALL: [Self; 15] = [
        Self::Norm4,
        Self::Norm6,
        Self::Norm8,
        Self::Exp4,
        Self::Exp6,
        Self::Exp8,
        Self::Laplace4,
        Self::Laplace6,
        Self::Logistic4,
        Self::Logistic6,
        Self::Logistic8,
        Self::Tri1,
        Self::Tri2,
        Self::Tri3,
        Self::Uni,
    ];

    /// The stable name: `norm4` … `uni`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Norm4 => "norm4",
            Self::Norm6 => "norm6",
            Self::Norm8 => "norm8",
            Self::Exp4 => "exp4",
            Self::Exp6 => "exp6",
            Self::Exp8 => "exp8",
            Self::Laplace4 => "laplace4",
            Self::Laplace6 => "laplace6",
            Self::Logistic4 => "logistic4",
            Self::Logistic6 => "logistic6",
            Self::Logistic8 => "logistic8",
            Self::Tri1 => "tri1",
            Self::Tri2 => "tri2",
            Self::Tri3 => "tri3",
            Self::Uni => "uni",
        }
    }

    fn shape(self) -> DistributionShape {
        match self {
            Self::Norm4 => DistributionShape::Normal { sigma: 1.0 / 4.0 },
            Self::Norm6 => DistributionShape::Normal { sigma: 1.0 / 6.0 },
            Self::Norm8 => DistributionShape::Normal { sigma: 1.0 / 8.0 },
            Self::Exp4 => DistributionShape::Exponential { rate: 4.0 },
            Self::Exp6 => DistributionShape::Exponential { rate: 6.0 },
            Self::Exp8 => DistributionShape::Exponential { rate: 8.0 },
            Self::Laplace4 => DistributionShape::Laplace { scale: consts::FRAC_1_SQRT_2 / 4.0 },
            Self::Laplace6 => DistributionShape::Laplace { scale: consts::FRAC_1_SQRT_2 / 6.0 },
            Self::Logistic4 => DistributionShape::Logistic { scale: 1.0 / 4.0 },
            Self::Logistic6 => DistributionShape::Logistic { scale: 1.0 / 6.0 },
            Self::Logistic8 => DistributionShape::Logistic { scale: 1.0 / 8.0 },
            Self::Tri1 => DistributionShape::Triangular { mode: 0.4 },
            Self::Tri2 => DistributionShape::Triangular { mode: 0.6 },
            Self::Tri3 => DistributionShape::Triangular { mode: 0.8 },
            Self::Uni => DistributionShape::Uniform,
        }
    }

    /// Standard deviation in buffer lengths *before* truncation: the table's last column, put right.
    pub fn untruncated_deviation(self) -> f64 {
        match self.shape() {
            DistributionShape::Normal { sigma } => sigma,
            DistributionShape::Exponential { rate } => 1.0 / rate,
            DistributionShape::Laplace { scale } => scale * consts::SQRT_2,
            DistributionShape::Logistic { scale } => scale * consts::PI / 3f64.sqrt(),
            DistributionShape::Triangular { mode } => ((1.0 - mode + mode * mode) / 18.0).sqrt(),
            DistributionShape::Uniform => (1.0f64 / 12.0).sqrt(),
        }
    }

    /// Probability density at `x`, 0 outside of [0, 1).
    pub fn density(self, x: f64) -> f64 {
        let shape = self.shape();
        if (0.0..1.0).contains(&x) { shape.density(x) / (shape.cdf(1.0) - shape.cdf(0.0)) } else { 0.0 }
    }

    /// Probability of a value below `x`.
    pub fn cdf(self, x: f64) -> f64 {
        let shape = self.shape();
        let (low, high) = (shape.cdf(0.0), shape.cdf(1.0));
        ((shape.cdf(x.clamp(0.0, 1.0)) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The value that a share `p` of all draws is below; `p` is clamped to [0, 1].
    pub fn quantile(self, p: f64) -> f64 {
        let shape = self.shape();
        let (low, high) = (shape.cdf(0.0), shape.cdf(1.0));
        let p = p.clamp(0.0, 1.0);
        shape.quantile(low + p * (high - low)).clamp(0.0, 1.0)
    }
}

impl DistributionShape {
    fn density(self, x: f64) -> f64 {
        match self {
            Self::Normal { sigma } => standard_normal_density((x - CENTRE) / sigma) / sigma,
            Self::Exponential { .. } if x < 0.0 => 0.0,
            Self::Exponential { rate } => rate * (-rate * x).exp(),
            Self::Laplace { scale } => (-(x - CENTRE).abs() / scale).exp() / (2.0 * scale),
            Self::Logistic { scale } => {
                let e = (-(x - CENTRE).abs() / scale).exp();
                e / (scale * (1.0 + e).powi(2))
            }
            Self::Triangular { .. } | Self::Uniform if !(0.0..1.0).contains(&x) => 0.0,
            Self::Triangular { mode } if x < mode => 2.0 * x / mode,
            Self::Triangular { mode } => 2.0 * (1.0 - x) / (1.0 - mode),
            Self::Uniform => 1.0,
        }
    }

    /// For `x` in [0, 1]: all that truncation asks for.
    fn cdf(self, x: f64) -> f64 {
        match self {
            Self::Normal { sigma } => standard_normal_cdf((x - CENTRE) / sigma),
            Self::Exponential { rate } => -(-rate * x).exp_m1(),
            Self::Laplace { scale } => {
                let tail = 0.5 * (-(x - CENTRE).abs() / scale).exp();
                if x < CENTRE { tail } else { 1.0 - tail }
            }
            Self::Logistic { scale } => 1.0 / (1.0 + (-(x - CENTRE) / scale).exp()),
            Self::Triangular { mode } if x < mode => x * x / mode,
            Self::Triangular { mode } => 1.0 - (1.0 - x).powi(2) / (1.0 - mode),
            Self::Uniform => x,
        }
    }

    /// The inverse of `cdf`.
    fn quantile(self, u: f64) -> f64 {
        match self {
            Self::Normal { sigma } => standard_normal_quantile(u, CENTRE / sigma).mul_add(sigma, CENTRE),
            Self::Exponential { rate } => -(-u).ln_1p() / rate,
            Self::Laplace { scale } if u < 0.5 => CENTRE + scale * (2.0 * u).ln(),
            Self::Laplace { scale } => CENTRE - scale * (2.0 * (1.0 - u)).ln(),
            Self::Logistic { scale } => CENTRE + scale * (u / (1.0 - u)).ln(),
            Self::Triangular { mode } if u < mode => (u * mode).sqrt(),
            Self::Triangular { mode } => 1.0 - ((1.0 - u) * (1.0 - mode)).sqrt(),
            Self::Uniform => u,
        }
    }
}

fn standard_normal_density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * consts::PI).sqrt()
}

/// Φ(z) = ½ + φ(z)·(z + z³/3 + z⁵/(3·5) + …). All terms have one sign, so nothing cancels; for the |z| ≤ 4 that
/// a buffer spans the error stays near 10⁻¹⁶.
fn standard_normal_cdf(z: f64) -> f64 {
    let (mut term, mut sum) = (z, z);
    // For |z| = 4 the terms fall below rounding after some 40; the bound is for what is not a number.
    for odd in (3..200).step_by(2) {
        term *= z * z / f64::from(odd);
        sum += term;
        if sum + term == sum {
            break;
        }
    }
    0.5 + standard_normal_density(z) * sum
}

/// The z in [−limit, limit] with Φ(z) = u: Newton's steps, kept inside a shrinking bracket.
fn standard_normal_quantile(u: f64, limit: f64) -> f64 {
    let (mut low, mut high, mut z) = (-limit, limit, 0.0);
    for _ in 0..100 {
        let error = standard_normal_cdf(z) - u;
        if error > 0.0 {
            high = z;
        } else {
            low = z;
        }
        let newton = z - error / standard_normal_density(z);
        let next = if low < newton && newton < high { newton } else { 0.5 * (low + high) };
        if (next - z).abs() <= 1e-15 * limit {
            return next;
        }
        z = next;
    }
    z
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Distribution {
    type Err = UnknownDistribution;

    /// ```
    /// use kernels::draw::Distribution;
    /// assert_eq!("exp6".parse(), Ok(Distribution::Exp6));
    /// assert!("exp5".parse::<Distribution>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Self, UnknownDistribution> {
        let found = Self::ALL.into_iter().find(|d| d.name() == text);
        found.ok_or_else(|| UnknownDistribution(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
