//! A stretch of a loop's own instructions on its own data, stepped through in a copy.

use std::collections::{BTreeMap, HashMap};

use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic};
use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    copy::ProgramCopy,
    footprint::{FirstCache, Footprint},
    operands::{MemoryTouch, general, touches},
    program::refusal,
    ptrace::Registers,
};

/// How far to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StretchLimits {
    /// Steps in all; the turn that is under way ends.
    pub steps: usize,
    /// Turns in all.
    pub turns: usize,
    /// What must hold the data.
    pub cache: FirstCache,
}

/// One instruction as it was executed.
#[derive(Clone, Debug)]
pub(crate) struct TracedStep {
    pub instruction: Instruction,
    /// General registers before it.
    pub before: [u64; 16],
    /// What it touched.
    pub touches: Vec<MemoryTouch>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub steps: Vec<TracedStep>,
    /// The step at which each turn begins; the last is where the stretch ends.
    pub turns: Vec<usize>,
    pub start: Registers,
    /// General registers at the beginning of each turn, and at the end.
    pub at_turn: Vec<[u64; 16]>,
    pub vectors: Vec<u8>,
    /// Vector registers at the end; none if the stretch was cut off before.
    pub end_vectors: Option<Vec<u8>>,
    /// Lines it wrote to, as they were before, by number.
    pub written: BTreeMap<u64, Vec<u8>>,
    /// Lines it touched.
    pub lines: usize,
    pub has_atomics: bool,
    /// Why it ended before its limits, if it did.
    pub cut: Option<ReliefRefusal>,
}

impl Stretch {
    /// Whole turns in it.
    pub fn turn_count(&self) -> usize {
        self.turns.len().saturating_sub(1)
    }
}

#[cfg(test)]
impl Stretch {
    /// One that nobody stepped through.
    pub fn scripted(steps: Vec<TracedStep>, turns: Vec<usize>, at_turn: Vec<[u64; 16]>) -> Self {
        let start = crate::operands::tests::registers();
        let (vectors, written) = (Vec::new(), BTreeMap::new());
        Self {
            steps,
            turns,
            start,
            at_turn,
            vectors,
            end_vectors: None,
            written,
            lines: 0,
            has_atomics: false,
            cut: None,
        }
    }
}

/// Decodes instructions of a copy, each once.
pub(crate) struct CodeReader<'a> {
    copy: &'a ProgramCopy,
    known: HashMap<u64, Instruction>,
}

impl<'a> CodeReader<'a> {
    pub fn new(copy: &'a ProgramCopy) -> Self {
        Self { copy, known: HashMap::new() }
    }

    pub fn at(&mut self, address: u64) -> Instruction {
        let copy = self.copy;
        *self.known.entry(address).or_insert_with(|| {
            let bytes = copy.tracee().read(address, 15);
            Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE).decode()
        })
    }
}

/// What an instruction forbids, whatever its operands are.
pub(crate) fn forbidden(instruction: &Instruction) -> Option<ReliefRefusal> {
    let because =
        |barrier| Some(ReliefRefusal::new(barrier, format!("{:?}", instruction.mnemonic()).to_lowercase()));
    if instruction.is_invalid() {
        return Some(ReliefRefusal::new(ReliefBarrier::UnknownInstruction, "not decoded"));
    }
    match instruction.mnemonic() {
        Mnemonic::Syscall | Mnemonic::Sysenter | Mnemonic::Int => return because(ReliefBarrier::SystemCall),
        Mnemonic::Rdtsc | Mnemonic::Rdtscp | Mnemonic::Rdpmc => return because(ReliefBarrier::ClockRead),
        Mnemonic::Rdrand
        | Mnemonic::Rdseed
        | Mnemonic::Cpuid
        | Mnemonic::Xbegin
        | Mnemonic::Int3
        | Mnemonic::Rdpid
        | Mnemonic::Xgetbv => return because(ReliefBarrier::UnknownInstruction),
        _ => {}
    }
    let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
    if instruction.is_string_instruction() && repeats {
        return because(ReliefBarrier::StringInstruction);
    }
    match instruction.flow_control() {
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
            because(ReliefBarrier::UnknownInstruction)
        }
        _ => None,
    }
}

/// Whether it changes memory such that others see all of it or nothing.
pub(crate) fn is_atomic(instruction: &Instruction, touched: &[MemoryTouch]) -> bool {
    let is_exchange = matches!(
        instruction.code(),
        Code::Xchg_rm8_r8 | Code::Xchg_rm16_r16 | Code::Xchg_rm32_r32 | Code::Xchg_rm64_r64
    );
    instruction.has_lock_prefix() || is_exchange && !touched.is_empty()
}

/// Steps to `mark` without recording.
pub(crate) fn approach(copy: &ProgramCopy, mark: u64, most: usize) -> Result<(), ReliefRefusal> {
    let mut code = CodeReader::new(copy);
    for _ in 0..most {
        let at = copy.tracee().registers().map_err(refusal)?.rip;
        if at == mark {
            return Ok(());
        }
        if let Some(refused) =
            forbidden(&code.at(at)).filter(|refused| refused.barrier == ReliefBarrier::SystemCall)
        {
            return Err(refused);
        }
        copy.step()?;
    }
    Err(ReliefBarrier::NoTurns.into())
}

/// Steps through turns that begin at `mark`, where the copy stands.
pub(crate) fn record(
    copy: &ProgramCopy,
    mark: u64,
    limits: &StretchLimits,
    is_alone: &dyn Fn() -> bool,
) -> Result<Stretch, ReliefRefusal> {
    let start = copy.tracee().registers().map_err(refusal)?;
    let vectors = copy.tracee().vectors().map_err(refusal)?;
    let mut recorder = StretchRecorder {
        copy,
        mark,
        limits,
        is_alone,
        code: CodeReader::new(copy),
        factory: InstructionInfoFactory::new(),
        footprint: Footprint::new(limits.cache),
        passes: 0,
        stretch: Stretch {
            steps: Vec::new(),
            turns: Vec::new(),
            start,
            at_turn: Vec::new(),
            vectors,
            end_vectors: None,
            written: BTreeMap::new(),
            lines: 0,
            has_atomics: false,
            cut: None,
        },
    };
    recorder.go()?;
    let StretchRecorder { footprint, mut stretch, .. } = recorder;
    if footprint.is_over() && stretch.turn_count() < 2 {
        stretch.cut.get_or_insert(ReliefBarrier::FewTurns.into());
    }
    stretch.lines = footprint.lines();
    stretch.written = footprint.into_written();
    Ok(stretch)
}

struct StretchRecorder<'a> {
    copy: &'a ProgramCopy,
    mark: u64,
    limits: &'a StretchLimits,
    /// Whether no other thread of the program runs; asked at the first atomic operation.
    is_alone: &'a dyn Fn() -> bool,
    code: CodeReader<'a>,
    factory: InstructionInfoFactory,
    footprint: Footprint,
    stretch: Stretch,
    /// Passes that ended too soon.
    passes: usize,
}

impl StretchRecorder<'_> {
    fn go(&mut self) -> Result<(), ReliefRefusal> {
        loop {
            let registers = self.copy.tracee().registers().map_err(refusal)?;
            if registers.rip == self.mark && self.is_last_turn(&registers)? {
                return Ok(());
            }
            // A turn that grows beyond all others comes back no more.
            if self.stretch.steps.len() > 2 * self.limits.steps {
                self.stretch.cut = Some(ReliefBarrier::NoTurns.into());
                return Ok(());
            }
            match self.step(&registers) {
                Ok(()) => {}
                Err(refused) => {
                    self.stretch.cut = Some(refused);
                    return Ok(());
                }
            }
            if self.footprint.is_over() {
                return Ok(());
            }
        }
    }

    fn is_last_turn(&mut self, registers: &Registers) -> Result<bool, ReliefRefusal> {
        let steps = self.stretch.steps.len();
        self.stretch.turns.push(steps);
        self.stretch.at_turn.push(general(registers));
        self.footprint.begin_turn();
        if self.has_left_pass() {
            return self.leave_last_turn(registers);
        }
        let turns = self.stretch.turn_count();
        let is_enough = steps >= self.limits.steps || turns >= self.limits.turns || self.footprint.is_full();
        if turns > 0 && is_enough {
            self.stretch.end_vectors = Some(self.copy.tracee().vectors().map_err(refusal)?);
            return Ok(true);
        }
        Ok(false)
    }

    /// The last turn returned to who called before it began: one pass has ended, another begun.
    fn has_left_pass(&self) -> bool {
        let [.., begin, end] = self.stretch.turns.as_slice() else { return false };
        let mut depth = 0i32;
        self.stretch.steps[*begin..*end].iter().any(|step| {
            match step.instruction.flow_control() {
                FlowControl::Call | FlowControl::IndirectCall => depth += 1,
                FlowControl::Return => depth -= 1,
                _ => {}
            }
            depth < 0
        })
    }

    /// Ends before such a turn, or begins anew behind it. True: the stretch is done.
    fn leave_last_turn(&mut self, registers: &Registers) -> Result<bool, ReliefRefusal> {
        const ENOUGH: usize = 64;
        const MOST_PASSES: usize = 3;
        let all = self.stretch.turn_count();
        if all > ENOUGH {
            self.stretch.turns.pop();
            self.stretch.at_turn.pop();
            let end = self.stretch.turns.last().copied().unwrap_or(0);
            self.stretch.steps.truncate(end);
            return Ok(true);
        }
        // Passes that are short follow each other within a stretch, and are a part of it.
        if self.passes >= MOST_PASSES {
            return Ok(false);
        }
        self.passes += 1;
        let vectors = self.copy.tracee().vectors().map_err(refusal)?;
        let stretch = &mut self.stretch;
        (stretch.start, stretch.vectors) = (*registers, vectors);
        (stretch.steps, stretch.turns, stretch.at_turn) = (Vec::new(), vec![0], vec![general(registers)]);
        self.footprint = Footprint::new(self.limits.cache);
        Ok(false)
    }

    fn step(&mut self, registers: &Registers) -> Result<(), ReliefRefusal> {
        let instruction = self.code.at(registers.rip);
        if let Some(refused) = forbidden(&instruction) {
            return Err(refused);
        }
        if !self.copy.maps().iter().any(|range| range.holds(registers.rip) && range.is_lasting_code()) {
            return Err(ReliefRefusal::new(ReliefBarrier::GeneratedCode, format!("{:#x}", registers.rip)));
        }
        let tracee = self.copy.tracee();
        let touched =
            touches(&mut self.factory, &instruction, registers, || tracee.vectors().unwrap_or_default());
        if is_atomic(&instruction, &touched) {
            let is_first = !std::mem::replace(&mut self.stretch.has_atomics, true);
            if is_first && !(self.is_alone)() {
                return Err(ReliefBarrier::Contention.into());
            }
        }
        for touch in &touched {
            let shared = |range: &&crate::program::MapRange| range.is_shared && range.holds(touch.address);
            if let Some(range) = self.copy.maps().iter().find(shared).filter(|_| touch.is_written) {
                return Err(ReliefRefusal::new(ReliefBarrier::SharedWrite, range.path.clone()));
            }
            self.footprint.touch(touch.address, touch.bytes, touch.is_written, |line| tracee.read(line, 64));
        }
        self.stretch.steps.push(TracedStep { instruction, before: general(registers), touches: touched });
        self.copy.step()
    }
}
