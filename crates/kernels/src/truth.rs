//! What a kernel does, by construction.

use std::ops::{Add, AddAssign, Mul};

use crate::{
    draw::Lcg,
    geometry::Geometry,
    program::{KernelProgram, ProgramAccess, ProgramNode, Times},
};

/// Counts that follow from a kernel's description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruthCounts {
    /// Instructions.
    pub instructions: u64,
    /// Instructions that load.
    pub loads: u64,
    /// Instructions that store, those past the caches included.
    pub stores: u64,
    /// Bytes loaded.
    pub load_bytes: u64,
    /// Bytes stored.
    pub store_bytes: u64,
    /// Floating-point operations on elements; a fused multiply-add is two.
    pub flops: u64,
    /// Jumps, conditional or not, and returns.
    pub branches: u64,
}

impl TruthCounts {
    /// One access, without its instruction.
    pub fn of_access(access: ProgramAccess, bytes: u64) -> Self {
        let reads = u64::from(matches!(access, ProgramAccess::Read | ProgramAccess::ReadWrite));
        let writes = u64::from(!matches!(access, ProgramAccess::Read));
        Self {
            loads: reads,
            stores: writes,
            load_bytes: reads * bytes,
            store_bytes: writes * bytes,
            ..Self::default()
        }
    }
}

impl TruthCounts {
    /// What is left when `other`, a part of this, is taken away.
    pub fn minus(self, other: Self) -> Self {
        Self {
            instructions: self.instructions.saturating_sub(other.instructions),
            loads: self.loads - other.loads,
            stores: self.stores - other.stores,
            load_bytes: self.load_bytes - other.load_bytes,
            store_bytes: self.store_bytes - other.store_bytes,
            flops: self.flops - other.flops,
            branches: self.branches.saturating_sub(other.branches),
        }
    }
}

impl AddAssign for TruthCounts {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.loads += other.loads;
        self.stores += other.stores;
        self.load_bytes += other.load_bytes;
        self.store_bytes += other.store_bytes;
        self.flops += other.flops;
        self.branches += other.branches;
    }
}

impl Add for TruthCounts {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        self += other;
        self
    }
}

impl Mul<u64> for TruthCounts {
    type Output = Self;

    fn mul(self, times: u64) -> Self {
        Self {
            instructions: self.instructions * times,
            loads: self.loads * times,
            stores: self.stores * times,
            load_bytes: self.load_bytes * times,
            store_bytes: self.store_bytes * times,
            flops: self.flops * times,
            branches: self.branches * times,
        }
    }
}

/// How often each piece runs when the program is called once with `passes`, its random sequence at `random`.
pub fn executions(program: &KernelProgram, geometry: &Geometry, passes: u64, random: u64) -> Vec<u64> {
    let mut counter =
        TruthCounter { geometry, passes, random: Lcg::new(random), times: vec![0; program.pieces.len()] };
    counter.visit(&program.flow, 1);
    counter.times
}

/// What one call with `passes` does, the code around the loop included.
pub fn counts(program: &KernelProgram, geometry: &Geometry, passes: u64, random: u64) -> TruthCounts {
    executions(program, geometry, passes, random)
        .into_iter()
        .zip(&program.pieces)
        .fold(TruthCounts::default(), |sum, (times, piece)| sum + piece.counts * times)
}

/// Multiplies loop counts down the tree; only rows and coins need more than a product.
struct TruthCounter<'a> {
    geometry: &'a Geometry,
    passes: u64,
    random: Lcg,
    times: Vec<u64>,
}

impl TruthCounter<'_> {
    fn visit(&mut self, nodes: &[ProgramNode], rounds: u64) {
        for node in nodes {
            match node {
                ProgramNode::Piece { piece, .. } => self.times[*piece] += rounds,
                ProgramNode::Loop { times: Times::Rows, body } => self.rows(body, rounds),
                ProgramNode::Loop { times, body } => self.visit(body, rounds * self.fixed(*times)),
                ProgramNode::Coin { heads, tails } => {
                    let on_tails = (0..rounds).filter(|_| self.random.next() >> 63 == 1).count() as u64;
                    self.times[*heads] += rounds - on_tails;
                    self.times[*tails] += on_tails;
                }
                ProgramNode::Branch { on, below, heads, tails } => {
                    let (iterations, step) = (self.geometry.iterations, self.geometry.step);
                    let number = |iteration: u64| on.numbers.at_byte(iteration * step + on.offset);
                    let on_heads = (0..iterations).filter(|&one| number(one) < *below).count() as u64;
                    // Every pass meets the same numbers.
                    let passes = rounds / iterations.max(1);
                    self.times[*heads] += on_heads * passes;
                    self.times[*tails] += (iterations - on_heads) * passes;
                }
            }
        }
    }

    fn fixed(&self, times: Times) -> u64 {
        match times {
            Times::Passes => self.passes,
            Times::Iterations => self.geometry.iterations,
            Times::Fixed(times) => times,
            Times::Rows | Times::Head | Times::Vectors => 1,
        }
    }

    /// A row's inner loops depend on the row: they are summed over this thread's rows.
    fn rows(&mut self, body: &[ProgramNode], rounds: u64) {
        let (first, last) = self.geometry.rows;
        for node in body {
            let sum = |each: &dyn Fn(u64) -> u64| (first..last).map(|row| each(row * 8)).sum::<u64>();
            match node {
                ProgramNode::Loop { times: Times::Head, body } => {
                    self.visit(body, rounds * sum(&|diagonal| self.geometry.head(diagonal)));
                }
                ProgramNode::Loop { times: Times::Vectors, body } => {
                    self.visit(body, rounds * sum(&|diagonal| self.geometry.vectors(diagonal)));
                }
                other => self.visit(std::slice::from_ref(other), rounds * (last - first)),
            }
        }
    }
}
