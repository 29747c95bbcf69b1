//! How often a loop is entered, and which of its chains of results begin anew when it is.
//!
//! A sum that is set to zero for every row of a matrix is no chain through all of it: while a core still adds up one row it
//! works on the next ones, as far as they are under way at once. Only of a loop that turns many times does such a chain bound
//! the time.

use code::{Block, Instruction, Reg, blame::Routine};

use super::{facts::slots, program::DecodedProgram};

/// A loop that is entered a few times in all may have so many samples before it, where it waits for its caller.
const BY_CHANCE: f64 = 2.0;

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
        let Some((routine, own)) = program.routine_at(id) else { return Self::ONCE };
        if !routine.blocks()[own].is_loop() {
            return Self::ONCE;
        }
        let mut entries = Self::ONCE;
        // Samples of an instruction that nothing holds up: as many as it is executed.
        let each = |index: usize, samples: f64| samples / routine.blocks()[index].instructions().len() as f64;
        let mut entered = 0.0;
        for &last in leads_to(routine, own).iter().filter(|&&lead| lead != own) {
            let Some(way) = way_in(routine, own, last) else { return Self::ONCE };
            let set = way.iter().flat_map(|&index| set_by(&routine.blocks()[index]));
            set.for_each(|reg| entries.set[reg.index()] = true);
            // What is on this way alone is executed as often; of padding no samples are seen.
            let seen = |index: usize| (program.samples_beside(id, index) - BY_CHANCE).max(0.0);
            let often = way.iter().map(|&index| each(index, seen(index)));
            entered += often.fold(0.0, f64::max);
        }
        if entered > 0.0 {
            // A loop that waits seems to turn more often; then its chains are the smaller part of its time.
            entries.turns = (each(own, program.samples_of(id)) / entered).max(1.0);
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

fn leads_to(routine: &Routine, block: usize) -> &[usize] {
    routine.leads_to(routine.blocks()[block].address())
}

/// The blocks that lead to a loop by one of its ways in, the last first, as far back as nothing else leads to them: where a
/// check or padding lies between, a sum is set to zero before it. None if another loop leads here: how often that ends, its
/// samples do not tell.
fn way_in(routine: &Routine, own: usize, last: usize) -> Option<Vec<usize>> {
    const LONGEST: usize = 4;
    let is_loop = |index: usize| routine.blocks()[index].is_loop();
    if is_loop(last) {
        return None;
    }
    let mut way = vec![last];
    while way.len() < LONGEST {
        match *leads_to(routine, way[way.len() - 1]) {
            [only] if only != own && !is_loop(only) && !way.contains(&only) => way.push(only),
            _ => break,
        }
    }
    Some(way)
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
