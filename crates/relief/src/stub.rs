//! The code around a repetition: puts lines and registers back, reads the clock, goes, reads the clock.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use record::relief::ReliefRefusal;

use crate::{
    arena::Arenas,
    copy::ProgramCopy,
    listing::{Labels, Listing, at, encode, jump, load, made, store},
    operands::{GENERAL, general},
    program::refusal,
    ptrace::Registers,
};

/// Repetitions whose times are kept.
pub(crate) const MOST_REPETITIONS: usize = 512;

/// Lines that are put back.
pub(crate) const MOST_LINES: usize = 512;

const FLAGS: u64 = 0x80;
const BEGAN: u64 = 0x88;
const INDEX: u64 = 0x90;
const REPETITIONS: u64 = 0x98;
const ENTRY: u64 = 0xa0;
/// A counter for whoever wants one, and a register kept meanwhile.
pub(crate) const COUNTER: u64 = 0xa8;
pub(crate) const KEPT: u64 = 0xb0;
/// Which way out a loop took.
pub(crate) const WAY_OUT: u64 = 0xb8;
const ENDS: u64 = 0xc0;
const END_FLAGS: u64 = STACK - 8;
const STACK: u64 = 0xff0;
const VECTORS: u64 = 0x1000;
const VECTORS_BYTES: usize = 0x4000;
const TIMES: u64 = 0x5000;
const LINE_ADDRESSES: u64 = 0x6000;
const LINE_BYTES: u64 = 0x7000;

/// Condition flags and the direction flag: what programs can set, without the trap flag.
const PROGRAM_FLAGS: u64 = 0xcd5;

/// Code and data in a copy that repeat whatever is at an address.
pub(crate) struct Stub {
    data: u64,
    begin: u64,
    /// Where what is repeated must go when it is done.
    pub end: u64,
}

impl Stub {
    /// Writes the stub. `lines` are put back before each repetition, by their numbers.
    pub fn write<'a>(
        copy: &ProgramCopy,
        arenas: &mut Arenas,
        vectors: &[u8],
        lines: impl Iterator<Item = (&'a u64, &'a Vec<u8>)>,
    ) -> Result<Self, ReliefRefusal> {
        let data = arenas.data();
        let (mut addresses, mut bytes) = (Vec::new(), Vec::new());
        for (line, before) in lines.take(MOST_LINES) {
            addresses.extend_from_slice(&(line * 64).to_le_bytes());
            bytes.extend_from_slice(before);
        }
        let tracee = copy.tracee();
        tracee.write(data + LINE_ADDRESSES, &addresses).map_err(refusal)?;
        tracee.write(data + LINE_BYTES, &bytes).map_err(refusal)?;
        tracee.write(data + VECTORS, &vectors[..vectors.len().min(VECTORS_BYTES)]).map_err(refusal)?;
        let before = before(data, addresses.len() / 8)?;
        let top = before.instructions()[0].ip();
        let after = after(data, top)?;
        let near = data;
        let begin = arenas.take(near, before.most_bytes(), 0)?;
        let end = arenas.take(near, after.most_bytes(), 0)?;
        for (code, at) in encode(&[(&before, begin), (&after, end)])?.iter().zip([begin, end]) {
            tracee.write(at, code).map_err(refusal)?;
        }
        Ok(Self { data, begin, end })
    }

    /// The registers that a repetition begins with.
    pub fn set_start(
        &self,
        copy: &ProgramCopy,
        registers: &[u64; 16],
        flags: u64,
    ) -> Result<(), ReliefRefusal> {
        let words: Vec<u8> =
            registers.iter().chain([&(flags & PROGRAM_FLAGS)]).flat_map(|word| word.to_le_bytes()).collect();
        copy.tracee().write(self.data, &words).map_err(refusal)
    }

    /// Has the copy begin to repeat what is at `entry`.
    pub fn arm(
        &self,
        copy: &ProgramCopy,
        like: &Registers,
        entry: u64,
        repetitions: usize,
    ) -> Result<(), ReliefRefusal> {
        let repetitions = repetitions.clamp(1, MOST_REPETITIONS) as u64;
        let tracee = copy.tracee();
        for (at, word) in [(INDEX, 0), (REPETITIONS, repetitions), (ENTRY, entry), (COUNTER, 0)] {
            tracee.write_word(self.data + at, word).map_err(refusal)?;
        }
        let mut registers = *like;
        (registers.rip, registers.orig_rax) = (self.begin, u64::MAX);
        tracee.set_registers(&registers).map_err(refusal)
    }

    /// Ticks of each repetition.
    pub fn times(&self, copy: &ProgramCopy) -> Vec<u64> {
        let count = copy.tracee().read_words(self.data + INDEX, 1).first().copied().unwrap_or(0);
        copy.tracee().read_words(self.data + TIMES, (count as usize).min(MOST_REPETITIONS))
    }

    /// General registers at the end of the last repetition.
    pub fn ends(&self, copy: &ProgramCopy) -> Option<[u64; 16]> {
        copy.tracee().read_words(self.data + ENDS, 16).try_into().ok()
    }

    /// What was counted in the last run.
    pub fn count(&self, copy: &ProgramCopy) -> u64 {
        copy.tracee().read_words(self.data + COUNTER, 1).first().copied().unwrap_or(0)
    }

    /// Flags at the end of the last repetition, and which way out it took.
    pub fn way_out(&self, copy: &ProgramCopy) -> Option<(u64, usize)> {
        let flags = *copy.tracee().read_words(self.data + END_FLAGS, 1).first()?;
        let way = *copy.tracee().read_words(self.data + WAY_OUT, 1).first()?;
        Some((flags & PROGRAM_FLAGS, usize::try_from(way).ok()?))
    }

    pub fn data(&self) -> u64 {
        self.data
    }
}

/// Puts lines, vector and general registers back, reads the clock, and goes.
fn before(data: u64, lines: usize) -> Result<Listing, ReliefRefusal> {
    let (mut labels, mut listing) = (Labels::default(), Listing::default());
    put_lines_back(data, lines, &mut labels, &mut listing)?;
    let mut all = vec![
        Instruction::with(Code::Mfence),
        made(Instruction::with2(Code::Mov_r32_imm32, Register::EAX, -1))?,
        made(Instruction::with2(Code::Mov_r32_imm32, Register::EDX, -1))?,
        made(Instruction::with1(Code::Xrstor64_mem, at(data + VECTORS)))?,
        made(Instruction::with2(Code::Lea_r64_m, Register::RSP, at(data + STACK)))?,
        made(Instruction::with1(Code::Push_rm64, at(data + FLAGS)))?,
        Instruction::with(Code::Popfq),
    ];
    let of = |register: Register| {
        let index = GENERAL.iter().position(|found| *found == register).unwrap_or(0) as u64;
        load(register, data + 8 * index)
    };
    let late = [Register::RAX, Register::RDX, Register::RSP];
    for register in GENERAL.into_iter().filter(|register| !late.contains(register)) {
        all.push(of(register)?);
    }
    all.push(Instruction::with(Code::Lfence));
    all.push(Instruction::with(Code::Rdtsc));
    all.push(made(Instruction::with2(Code::Mov_rm32_r32, at(data + BEGAN), Register::EAX))?);
    all.push(made(Instruction::with2(Code::Mov_rm32_r32, at(data + BEGAN + 4), Register::EDX))?);
    for register in late {
        all.push(of(register)?);
    }
    all.push(Instruction::with(Code::Lfence));
    all.push(made(Instruction::with1(Code::Jmp_rm64, at(data + ENTRY)))?);
    for instruction in all {
        listing.put(labels.next(), instruction);
    }
    Ok(listing)
}

fn put_lines_back(
    data: u64,
    lines: usize,
    labels: &mut Labels,
    listing: &mut Listing,
) -> Result<(), ReliefRefusal> {
    if lines == 0 {
        return Ok(());
    }
    let count = i32::try_from(lines).unwrap_or(0);
    listing.put(
        labels.next(),
        made(Instruction::with2(Code::Lea_r64_m, Register::RSI, at(data + LINE_ADDRESSES)))?,
    );
    listing
        .put(labels.next(), made(Instruction::with2(Code::Lea_r64_m, Register::RDX, at(data + LINE_BYTES)))?);
    listing.put(labels.next(), made(Instruction::with2(Code::Mov_r32_imm32, Register::ECX, count))?);
    let again = labels.next();
    let from = MemoryOperand::with_base(Register::RSI);
    listing.put(again, made(Instruction::with2(Code::Mov_r64_rm64, Register::RDI, from))?);
    for part in 0..4 {
        let from = MemoryOperand::with_base_displ(Register::RDX, 16 * part);
        let to = MemoryOperand::with_base_displ(Register::RDI, 16 * part);
        listing.put(labels.next(), made(Instruction::with2(Code::Movups_xmm_xmmm128, Register::XMM0, from))?);
        listing.put(labels.next(), made(Instruction::with2(Code::Movups_xmmm128_xmm, to, Register::XMM0))?);
    }
    listing.put(labels.next(), made(Instruction::with2(Code::Add_rm64_imm8, Register::RSI, 8))?);
    listing.put(labels.next(), made(Instruction::with2(Code::Add_rm64_imm8, Register::RDX, 64))?);
    listing.put(labels.next(), made(Instruction::with1(Code::Dec_rm32, Register::ECX))?);
    listing.put(labels.next(), jump(Code::Jne_rel32_64, again)?);
    Ok(())
}

/// Keeps the registers, reads the clock, notes the time, and begins again or traps.
fn after(data: u64, top: u64) -> Result<Listing, ReliefRefusal> {
    let mut all = Vec::new();
    for (index, register) in GENERAL.into_iter().enumerate() {
        all.push(store(data + ENDS + 8 * index as u64, register)?);
    }
    let slot = MemoryOperand::with_base_index_scale(Register::RDX, Register::RCX, 8);
    all.extend([
        made(Instruction::with2(Code::Lea_r64_m, Register::RSP, at(data + STACK)))?,
        Instruction::with(Code::Pushfq),
        Instruction::with(Code::Mfence),
        Instruction::with(Code::Rdtscp),
        Instruction::with(Code::Lfence),
        made(Instruction::with2(Code::Shl_rm64_imm8, Register::RDX, 32))?,
        made(Instruction::with2(Code::Or_r64_rm64, Register::RAX, Register::RDX))?,
        made(Instruction::with2(Code::Sub_r64_rm64, Register::RAX, at(data + BEGAN)))?,
        load(Register::RCX, data + INDEX)?,
        made(Instruction::with2(Code::Lea_r64_m, Register::RDX, at(data + TIMES)))?,
        made(Instruction::with2(Code::Mov_rm64_r64, slot, Register::RAX))?,
        made(Instruction::with1(Code::Inc_rm64, Register::RCX))?,
        store(data + INDEX, Register::RCX)?,
        made(Instruction::with2(Code::Cmp_r64_rm64, Register::RCX, at(data + REPETITIONS)))?,
        made(Instruction::with_branch(Code::Jb_rel32_64, top))?,
        Instruction::with(Code::Int3),
    ]);
    // Labels that the part before does not use.
    let mut listing = Listing::default();
    for (index, instruction) in all.into_iter().enumerate() {
        listing.put(crate::listing::Label(0x2000_0000_0000_0000 + 16 * index as u64), instruction);
    }
    Ok(listing)
}

/// Registers as a repetition wants them.
pub(crate) fn start_of(registers: &Registers) -> ([u64; 16], u64) {
    (general(registers), registers.eflags)
}
