//! How often a loop is entered, and which of its chains of results begin anew when it is.
//!
//! A sum that is set to zero for every row of a matrix is no chain through all of it: while a core still adds up one row it
//! works on the next ones, as far as they are under way at once. Only of a loop that turns many times does such a chain bound
//! the time.

use code::{Block, Instruction, Reg};

use super::{facts::slots, program::DecodedProgram};

/// How a loop is entered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoopEntries {
    /// Turns from one entry to the next, about; infinite where nothing tells.
    turns: f64,
    /// Registers that an entry sets to something new.
    set: [bool; Reg::COUNT],
}

impl LoopEntries {
    /// A loop that is entered once.
    pub const ONCE: Self = Self { turns: f64::INFINITY, set: [false; Reg::COUNT] };

    /// Of a block, by what leads to it and how often that was sampled.
    pub fn of(program: &DecodedProgram, id: usize) -> Self {
        let Some(block) = program.block(id).filter(|block| block.is_loop()) else { return Self::ONCE };
        let before = || program.blocks_before(id).into_iter().filter(|&other| other != id);
        let mut entries = Self::ONCE;
        for other in before().filter_map(|other| program.block(other)) {
            // How often a loop that leads here ends, its samples do not tell.
            if other.is_loop() {
                return Self::ONCE;
            }
            set_by(other).for_each(|reg| entries.set[reg.index()] = true);
        }
        // Samples of an instruction that nothing holds up: as many as it is executed.
        let each = |id: usize, block: &Block| program.samples_of(id) / block.instructions().len() as f64;
        let entered: f64 =
            before().filter_map(|other| program.block(other).map(|block| each(other, block))).sum();
        if entered > 0.0 {
            // A loop that waits seems to turn more often; then its chains are the smaller part of its time.
            entries.turns = (each(id, block) / entered).max(1.0);
        }
        entries
    }

    /// The part of a chain through the loop that bounds its time, on a core with so many slots under way at once.
    pub fn bound_part(&self, block: &Block, window_slots: f64) -> f64 {
        (1.0 - window_slots / (slots(block) * self.turns)).max(0.0)
    }

    /// Whether a result in the register of this index goes on through an entry.
    pub fn keeps(&self, register: usize) -> bool {
        !self.set[register]
    }
}

/// Registers that a block writes without having read what was in them.
fn set_by(block: &Block) -> impl Iterator<Item = Reg> {
    let mut read = [false; Reg::COUNT];
    let mut set = Vec::new();
    for uop in block.instructions().iter().flat_map(|instruction: &Instruction| block.uops_of(instruction)) {
        uop.sources().iter().for_each(|reg| read[reg.index()] = true);
        set.extend(uop.destinations().iter().copied().filter(|reg| !read[reg.index()]));
    }
    set.into_iter()
}
