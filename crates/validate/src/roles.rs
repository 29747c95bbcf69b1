//! What a kernel is good for in a validation, from what it does.

use std::collections::HashSet;

use kernels::{
    KernelCatalogue,
    description::{Amount, Description, IntegerOp, KernelShape, Op, RegisterLife, StreamPattern},
};
use machine::DataFileError;

use crate::claims;

/// Bytes of a line.
const LINE: u64 = 64;

/// What a kernel is good for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It moves lines, and how many is known exactly.
    Streams(Streams),
    /// Each load waits for the one before.
    Chase(Between),
    /// Reads at a pace that a parameter sets.
    PacedReader {
        /// The parameter: empty operations between the reads.
        nops: String,
    },
    /// Computes in registers, a step in a cycle: what is counted beside it is what others do.
    Idle,
    /// Waits for something that is not memory.
    WaitsElsewhere {
        /// It does so on data that stays in the first cache.
        has_data: bool,
        /// Each of its instructions waits for the one before.
        serial: bool,
    },
    /// One thread writes lines that the other reads.
    HandsOver,
    /// Threads have unequal parts of the work.
    Unbalanced,
    /// Each of its loads crosses from one line into the next.
    CrossesLines,
    /// Threads write words of the same line.
    SharesLine,
}

/// Streams from front to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// How many.
    pub number: usize,
    /// Stores per turn of the loop.
    pub stores: usize,
    /// It stores past the caches.
    pub past: bool,
    /// It does arithmetic besides.
    pub computes: bool,
    /// It loads vectors in halves.
    pub halves: bool,
}

/// What stands between the loads of a chase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Nothing.
    Nothing,
    /// Operations that wait for nothing.
    Independent,
    /// Operations that the next load waits for.
    Dependent,
}

impl Role {
    /// Of a kernel; none if it does not fit any.
    pub fn of(description: &Description) -> Option<Self> {
        let body = match &description.shape {
            KernelShape::Turns { .. } => return Some(Self::HandsOver),
            KernelShape::Triangle(_) => return Some(Self::Unbalanced),
            KernelShape::Private(body) => body,
        };
        let patterns = || description.streams.iter().map(|stream| &stream.pattern);
        let all = |fits: fn(&StreamPattern) -> bool| patterns().all(fits);
        if all(|pattern| matches!(pattern, StreamPattern::Fixed)) {
            return in_place(description, body);
        }
        if all(|pattern| matches!(pattern, StreamPattern::Cycle { stride: LINE })) {
            return chase(body).map(Self::Chase);
        }
        if all(|pattern| matches!(pattern, StreamPattern::Sequential { stride: None })) {
            return streams(description, body).map(Self::Streams);
        }
        if all(|pattern| matches!(pattern, StreamPattern::Sequential { stride: Some(LINE) }))
            && body.iter().all(crosses)
        {
            return Some(Self::CrossesLines);
        }
        let paced = all(|pattern| matches!(pattern, StreamPattern::Sequential { stride: Some(LINE) }));
        if paced { paced_reader(description, body) } else { None }
    }

    /// Lines that move, if that is what it does.
    fn streams(&self) -> Option<&Streams> {
        match self {
            Self::Streams(streams) => Some(streams),
            _ => None,
        }
    }

    /// Whether its lines are known exactly.
    pub fn knows_lines(&self) -> bool {
        matches!(self, Self::Streams(_) | Self::HandsOver | Self::CrossesLines | Self::SharesLine)
    }

    /// Whether it does nothing but move lines.
    pub fn moves(&self) -> bool {
        self.streams().is_some_and(|streams| !streams.computes)
    }

    /// Whether it moves lines past the caches.
    pub fn goes_past(&self) -> bool {
        self.streams().is_some_and(|streams| streams.past)
    }

    /// Whether it stores to its streams.
    pub fn stores(&self) -> bool {
        self.streams().is_some_and(|streams| streams.stores > 0)
    }

    /// Whether it reads a single stream and writes it in place.
    pub fn updates_one(&self) -> bool {
        self.streams().is_some_and(|streams| {
            streams.number == 1 && streams.stores > 0 && streams.computes && !streams.past
        })
    }

    /// Whether it does nothing but read, or write through the caches, a single stream.
    pub fn moves_one(&self) -> bool {
        self.moves() && self.streams().is_some_and(|streams| streams.number == 1 && !streams.past)
    }
}

/// A kernel without data, or on data that stays where it is.
fn in_place(description: &Description, body: &[Op]) -> Option<Role> {
    let chained = description.registers.iter().any(|register| register.life == RegisterLife::Chain);
    if body.iter().all(|op| matches!(op, Op::Rmw { atomic: false, .. })) {
        return Some(Role::SharesLine);
    }
    let shared = body.iter().any(|op| matches!(op, Op::Rmw { .. }));
    if !chained || shared {
        return None;
    }
    let has_data = !description.streams.is_empty();
    let adds = |op: &Op| matches!(op, Op::Chain { kind: IntegerOp::Add, .. });
    Some(match !has_data && body.iter().all(adds) {
        true => Role::Idle,
        false => Role::WaitsElsewhere { has_data, serial: !has_data && body.iter().all(waits_for_itself) },
    })
}

/// Whether it loads from two lines at once.
fn crosses(op: &Op) -> bool {
    let beyond = |offset: i64, bytes: u64| offset.rem_euclid(LINE as i64) as u64 + bytes > LINE;
    matches!(op, Op::IntLoad { from, bytes, .. } if beyond(from.offset, *bytes))
}

/// Whether an operation needs its own last result.
fn waits_for_itself(op: &Op) -> bool {
    match op {
        Op::Chain { .. } => true,
        Op::Arithmetic { to, left, .. } => to == left,
        _ => false,
    }
}

fn chase(body: &[Op]) -> Option<Between> {
    let (Op::Deref { pointer }, rest) = body.split_first()? else { return None };
    let waits = |op: &Op| matches!(op, Op::Chain { to, .. } if to == pointer);
    match rest {
        [] => Some(Between::Nothing),
        _ if rest.iter().all(|op| matches!(op, Op::Spread { .. })) => Some(Between::Independent),
        _ if rest.iter().all(waits) => Some(Between::Dependent),
        _ => None,
    }
}

fn streams(description: &Description, body: &[Op]) -> Option<Streams> {
    let number = description.streams.len();
    let mut found = Streams { number, stores: 0, past: false, computes: false, halves: false };
    for op in body {
        match op {
            Op::Load { .. } => {}
            Op::LoadHalves { .. } => found.halves = true,
            Op::Store { non_temporal, .. } => {
                found.stores += 1;
                found.past |= non_temporal;
            }
            Op::Arithmetic { .. } | Op::Fma { .. } => found.computes = true,
            _ => return None,
        }
    }
    Some(found)
}

fn paced_reader(description: &Description, body: &[Op]) -> Option<Role> {
    let mut nops = None;
    for op in body {
        match op {
            Op::IntLoad { .. } => {}
            Op::Nops { times: Amount::Parameter(at) } => nops = description.parameters.get(*at),
            _ => return None,
        }
    }
    nops.map(|parameter| Role::PacedReader { nops: parameter.name.clone() })
}

/// The kernels that judge, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgingKernels {
    kernels: Vec<(String, Role)>,
    unfit: Vec<String>,
}

impl JudgingKernels {
    /// Of a catalogue: those that `claims.toml` names, and all that a user added.
    pub fn of(kernels: &KernelCatalogue) -> Result<Self, DataFileError> {
        let shipped = KernelCatalogue::builtin()?;
        let shipped: HashSet<&str> = shipped.iter().map(kernels::Kernel::name).collect();
        let named = claims::kernels();
        let rank = |name: &str| named.iter().position(|known| known == name);
        let mut chosen: Vec<&kernels::Kernel> = kernels
            .iter()
            .filter(|kernel| rank(kernel.name()).is_some() || !shipped.contains(kernel.name()))
            .collect();
        chosen.sort_by_key(|kernel| rank(kernel.name()).unwrap_or(named.len()));
        let (mut fit, mut unfit) = (Vec::new(), Vec::new());
        for kernel in chosen {
            match Role::of(kernel.description()) {
                Some(role) => fit.push((kernel.name().to_owned(), role)),
                None => unfit.push(kernel.name().to_owned()),
            }
        }
        Ok(Self { kernels: fit, unfit })
    }

    /// Kernels that were asked for and are good for nothing here.
    pub fn unfit(&self) -> &[String] {
        &self.unfit
    }

    /// The role of a kernel.
    pub fn role(&self, kernel: &str) -> Option<&Role> {
        self.kernels.iter().find(|(name, _)| name == kernel).map(|(_, role)| role)
    }

    /// Whether a kernel has such a role.
    pub fn is(&self, kernel: &str, fits: impl Fn(&Role) -> bool) -> bool {
        self.role(kernel).is_some_and(fits)
    }

    /// The kernels of such a role, in order.
    pub fn which<'a>(&'a self, fits: impl Fn(&Role) -> bool + 'a) -> impl Iterator<Item = &'a str> {
        self.kernels.iter().filter(move |(_, role)| fits(role)).map(|(name, _)| name.as_str())
    }

    /// Kernels that wait for something else than memory, and whether they have data.
    pub fn waiting_elsewhere(&self) -> Vec<(bool, &str)> {
        let all = self.kernels.iter().filter_map(|(name, role)| match role {
            Role::WaitsElsewhere { has_data, .. } => Some((*has_data, name.as_str())),
            _ => None,
        });
        all.collect()
    }

    /// Kernels that read at a pace, and the parameter that sets it.
    pub fn paced_readers(&self) -> Vec<(&str, &str)> {
        let all = self.kernels.iter().filter_map(|(name, role)| match role {
            Role::PacedReader { nops } => Some((name.as_str(), nops.as_str())),
            _ => None,
        });
        all.collect()
    }

    /// Arithmetic on two streams, the kernels with fewer stores first.
    pub fn arithmetic(&self) -> Vec<&str> {
        let streams = self.kernels.iter().filter_map(|(name, role)| Some((name.as_str(), role.streams()?)));
        let mut found: Vec<(&str, &Streams)> =
            streams.filter(|(_, streams)| streams.computes && streams.number == 2).collect();
        found.sort_by_key(|(_, streams)| streams.stores);
        found.into_iter().map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builtin() -> JudgingKernels {
        JudgingKernels::of(&KernelCatalogue::builtin().unwrap()).unwrap()
    }

    #[test]
    fn shipped_kernels_have_the_roles_they_were_written_for() {
        let known = builtin();
        assert!(known.unfit().is_empty(), "{:?}", known.unfit());
        let which = |fits: fn(&Role) -> bool| known.which(fits).collect::<Vec<_>>();
        assert_eq!(which(Role::moves), ["load", "store", "copy", "store-nt"]);
        assert_eq!(which(Role::goes_past), ["store-nt"]);
        assert_eq!(which(Role::moves_one), ["load", "store"]);
        assert_eq!(which(Role::updates_one), ["update"]);
        assert_eq!(known.arithmetic(), ["ddot", "ddot-halves", "sdot", "daxpy"]);
        assert_eq!(which(|role| *role == Role::CrossesLines), ["split-load"]);
        assert_eq!(which(|role| *role == Role::SharesLine), ["counter"]);
        let streaming = [
            "load",
            "store",
            "copy",
            "store-nt",
            "update",
            "stream",
            "triad",
            "daxpy",
            "ddot",
            "ddot-halves",
            "sdot",
        ];
        assert_eq!(which(|role| matches!(role, Role::Streams(_))), streaming);
        assert_eq!(
            which(|role| matches!(role, Role::Chase(_))),
            ["chase", "chase-independent", "chase-dependent"]
        );
        assert_eq!(
            which(|role| matches!(role, Role::WaitsElsewhere { .. })),
            ["div-chain", "branch-miss", "blocked-forward", "mul-chain"]
        );
        let with_data = |role: &Role| matches!(role, Role::WaitsElsewhere { has_data: true, .. });
        assert_eq!(which(with_data), ["blocked-forward"]);
        let serial = |role: &Role| matches!(role, Role::WaitsElsewhere { serial: true, .. });
        assert_eq!(which(serial), ["div-chain", "mul-chain"]);
        assert_eq!(which(|role| *role == Role::Idle), ["add-chain"]);
        assert_eq!(which(|role| *role == Role::HandsOver), ["producer-consumer"]);
        assert_eq!(which(|role| *role == Role::Unbalanced), ["triangle"]);
        let paced = Role::PacedReader { nops: "nops".to_owned() };
        assert_eq!(known.which(|role| *role == paced).collect::<Vec<_>>(), ["delayed-read"]);
    }

    #[test]
    fn what_has_no_truth_of_any_kind_has_no_role() {
        let kernels = KernelCatalogue::builtin().unwrap();
        for name in ["fma-lanes", "atomic-counter", "chase-pages", "random-uni"] {
            assert_eq!(Role::of(kernels.get(name).unwrap().description()), None, "{name}");
        }
    }
}
