//! Follows a program piece by piece without running it: which piece next, which addresses, which way a branch
//! goes. A simulated machine pulls executions from here; tests hold them against the decoded machine code.

use crate::{
    draw::{DrawTable, Lcg, SLOT_SHIFT},
    geometry::Geometry,
    program::{
        InstructionAction, KernelProgram, MOST_NUMBERS, OperandLocation, ProgramAccess, ProgramNode, Times,
    },
};

/// Where everything lies, and with what the walk begins.
pub struct Setting<'a> {
    /// Where each stream begins.
    pub bases: [u64; 6],
    /// Where the argument block lies.
    pub arguments: u64,
    /// Where the return address lies.
    pub stack: u64,
    /// Where the draw table lies.
    pub table_at: u64,
    /// What it holds.
    pub table: Option<&'a DrawTable>,
    /// State of the random sequence.
    pub random: u64,
    /// Where a pointer in the cycle leads.
    pub follow: &'a dyn Fn(u64) -> u64,
    /// How often the loop runs.
    pub passes: u64,
}

/// One touch of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkTouch {
    /// Where.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// How.
    pub access: ProgramAccess,
}

/// One execution of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalkStep {
    /// Index into [`KernelProgram::pieces`].
    pub piece: usize,
    /// Whether the branch at its end, if it has one, is taken.
    pub taken: bool,
}

/// Walks through a program.
pub struct Walker<'a> {
    program: &'a KernelProgram,
    geometry: &'a Geometry,
    setting: Setting<'a>,
    frames: Vec<WalkFrame<'a>>,
    position: u64,
    row: u64,
    element: u64,
    pointer: u64,
    /// What registers that hold loaded numbers hold, by slot.
    numbers: [u64; MOST_NUMBERS],
    random: Lcg,
}

/// A list of nodes being walked.
struct WalkFrame<'a> {
    nodes: &'a [ProgramNode],
    next: usize,
    /// Rounds still to do, this one included; `None` outside loops.
    rounds: Option<u64>,
}

impl<'a> Walker<'a> {
    /// At the beginning of `program`.
    pub fn new(program: &'a KernelProgram, geometry: &'a Geometry, setting: Setting<'a>) -> Self {
        let frames = vec![WalkFrame { nodes: &program.flow, next: 0, rounds: None }];
        let (random, pointer) = (Lcg::new(setting.random), setting.bases[0]);
        let numbers = [0; MOST_NUMBERS];
        Self { program, geometry, setting, frames, position: 0, row: 0, element: 0, pointer, numbers, random }
    }

    /// The next piece, and in `touches` what it touches in program order. `None` at the end.
    pub fn next(&mut self, touches: &mut Vec<WalkTouch>) -> Option<WalkStep> {
        touches.clear();
        loop {
            let frame = self.frames.last_mut()?;
            let Some(node) = frame.nodes.get(frame.next) else {
                match &mut frame.rounds {
                    Some(rounds) if *rounds > 1 => {
                        *rounds -= 1;
                        frame.next = 0;
                    }
                    _ => {
                        self.frames.pop();
                    }
                }
                continue;
            };
            frame.next += 1;
            match node {
                ProgramNode::Loop { times, body } => {
                    let rounds = self.times(*times);
                    if rounds > 0 {
                        self.frames.push(WalkFrame { nodes: body, next: 0, rounds: Some(rounds) });
                    }
                }
                ProgramNode::Coin { heads, tails } => {
                    let piece = if self.tails() { *tails } else { *heads };
                    self.act(piece, touches);
                    return Some(WalkStep { piece, taken: piece == *heads });
                }
                ProgramNode::Branch { on, below, heads, tails } => {
                    let piece = if self.numbers[on.slot] < *below { *heads } else { *tails };
                    self.act(piece, touches);
                    return Some(WalkStep { piece, taken: piece == *heads });
                }
                ProgramNode::Piece { piece, skips } => {
                    self.act(*piece, touches);
                    return Some(WalkStep { piece: *piece, taken: self.taken(*skips) });
                }
            }
        }
    }

    /// Which way the branch of the piece just walked goes.
    fn taken(&self, skips: Option<Times>) -> bool {
        let Some(frame) = self.frames.last() else { return false };
        match (skips, frame.nodes.get(frame.next), frame.rounds) {
            (Some(times), _, _) => self.times(times) == 0,
            (None, Some(ProgramNode::Coin { .. }), _) => self.tails(),
            (None, Some(ProgramNode::Branch { on, below, .. }), _) => self.numbers[on.slot] >= *below,
            (None, Some(_), _) => false,
            // The last piece of a loop jumps back while rounds are left; the last of all returns.
            (None, None, Some(rounds)) => rounds > 1,
            (None, None, None) => true,
        }
    }

    fn tails(&self) -> bool {
        self.random.state() >> 63 == 1
    }

    fn times(&self, times: Times) -> u64 {
        let diagonal = self.row * 8;
        match times {
            Times::Passes => self.setting.passes,
            Times::Iterations => self.geometry.iterations,
            Times::Fixed(times) => times,
            Times::Rows => self.geometry.rows.1 - self.geometry.rows.0,
            Times::Head => self.geometry.head(diagonal),
            Times::Vectors => self.geometry.vectors(diagonal),
        }
    }

    fn act(&mut self, piece: usize, touches: &mut Vec<WalkTouch>) {
        let program = self.program;
        for action in &program.pieces[piece].actions {
            match *action {
                InstructionAction::Touch { at, bytes, access } => {
                    touches.push(WalkTouch { address: self.address(at), bytes, access });
                    if at == OperandLocation::Pointer {
                        self.pointer = (self.setting.follow)(self.pointer);
                    }
                }
                InstructionAction::NextRandom => {
                    self.random.next();
                }
                InstructionAction::Draw => {
                    let state = self.random.state();
                    self.element = self.setting.table.map_or(0, |table| table.index(state));
                }
                InstructionAction::Step => {
                    self.element =
                        (self.element + self.geometry.element_step) % self.geometry.elements.max(1);
                }
                InstructionAction::LoadNumber(number) => {
                    let at = self.position + number.offset;
                    self.numbers[number.slot] = number.numbers.at_byte(at);
                }
                InstructionAction::Rewind => {
                    self.position = 0;
                    self.row = self.geometry.rows.0;
                }
                InstructionAction::Advance(bytes) => self.position += bytes,
                InstructionAction::RowStart => self.position = self.row * 8,
                InstructionAction::NextRow => self.row += 1,
            }
        }
    }

    fn address(&self, at: OperandLocation) -> u64 {
        let bases = &self.setting.bases;
        // Before the first row begins, no address depends on it.
        let row = self.row.saturating_sub(self.geometry.rows.0);
        match at {
            OperandLocation::Argument(offset) => self.setting.arguments + offset,
            OperandLocation::Stack(slot) => self.setting.stack - 8 * slot,
            OperandLocation::Sequential { stream, offset } => bases[stream] + self.position + offset,
            OperandLocation::Fixed { stream, offset } => bases[stream] + offset,
            OperandLocation::Pointer => self.pointer,
            OperandLocation::DrawTable => self.setting.table_at + (self.random.state() >> SLOT_SHIFT) * 8,
            OperandLocation::Element { stream, offset, element } => {
                bases[stream] + self.element * element + offset
            }
            OperandLocation::Gathered { stream, element, slot } => {
                bases[stream] + self.numbers[slot] * element
            }
            OperandLocation::Matrix { offset } => {
                bases[0] + row * self.geometry.pitch + self.position + offset
            }
            OperandLocation::RowResult => bases[2] + row * 8,
        }
    }
}
