//! Who lives in which register.

use std::collections::BTreeMap;

use iced_x86::Register;

use crate::{
    description::{KernelShape, Op, RegisterLife, RegisterStart},
    draw,
    kernel::Kernel,
    lower::places,
    program::{AssembleError, SLOTS, offsets},
};

/// Free integer registers, those the caller may lose first.
const POOL: [Register; 10] = [
    Register::R8,
    Register::R9,
    Register::R10,
    Register::R11,
    Register::RBX,
    Register::RBP,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];
/// The first four of the pool need not be restored.
const VOLATILE: usize = 4;
/// Vector registers; the last is kept free for operations without a third operand.
const VECTORS: usize = 15;
/// The vector register that lives within one operation only.
pub const VECTOR_SCRATCH: usize = 15;
/// Registers that independent integer operations are spread over (molka2017 §3.3 uses R8 to R15).
const SPREAD: usize = 8;

/// The registers of the random sequence.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    pub state: Register,
    pub factor: Register,
    pub addend: Register,
}

/// The registers of a coprime walk.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    pub step: Register,
    pub elements: Register,
}

/// Who lives in which register, and with what first value.
#[derive(Debug, Default)]
pub struct RegisterSet {
    named_integers: BTreeMap<String, Register>,
    named_vectors: BTreeMap<String, Vec<usize>>,
    /// Names that are loaded or drawn and nothing else: those that may hold numbers of elements.
    numbers: Vec<String>,
    /// Stream bases, where a stream is addressed through one.
    pub bases: Vec<Option<Register>>,
    pub random: Option<Random>,
    pub table: Option<(Register, Register)>,
    pub walk: Option<Walk>,
    pub spread: Vec<Register>,
    /// Rows of a triangle: matrix row, result, row number, and the end of rows.
    pub rows: Option<[Register; 4]>,
    /// Registers to be restored.
    pub saved: Vec<Register>,
    /// Loaded from the argument block first.
    pub arguments: Vec<(Register, u64)>,
    /// Set to a number first.
    pub integers: Vec<(Register, i64)>,
    /// Set to a value first, by number.
    pub floats: Vec<(usize, f64)>,
    pub vector_results: Vec<(String, usize)>,
    pub integer_results: Vec<(String, Register)>,
}

/// Hands out registers in order.
struct Supply {
    kernel: String,
    integers: usize,
    vectors: usize,
}

impl Supply {
    fn integer(&mut self) -> Result<Register, AssembleError> {
        let register = POOL.get(self.integers).copied();
        self.integers += 1;
        register.ok_or_else(|| AssembleError::OutOfRegisters { kernel: self.kernel.clone(), kind: "integer" })
    }

    fn vector(&mut self) -> Result<usize, AssembleError> {
        self.vectors += 1;
        if self.vectors > VECTORS {
            return Err(AssembleError::OutOfRegisters { kernel: self.kernel.clone(), kind: "vector" });
        }
        Ok(self.vectors - 1)
    }
}

impl RegisterSet {
    pub fn allocate(kernel: &Kernel, body: &[Op]) -> Result<Self, AssembleError> {
        let mut supply = Supply { kernel: kernel.name().to_owned(), integers: 0, vectors: 0 };
        let mut registers = Self::default();
        registers.place_streams(kernel, body, &mut supply)?;
        registers.place_declared(kernel, &mut supply)?;
        registers.place_temporaries(body, &mut supply)?;
        registers.place_machinery(body, &mut supply)?;
        registers.saved = POOL[..supply.integers].iter().skip(VOLATILE).copied().collect();
        let slots =
            registers.floats.len().max(registers.vector_results.len() + registers.integer_results.len());
        if slots > SLOTS {
            return Err(AssembleError::OutOfRegisters { kernel: kernel.name().to_owned(), kind: "vector" });
        }
        Ok(registers)
    }

    /// The register of an integer name. The parser has checked that every name is known.
    pub fn integer(&self, name: &str) -> Register {
        self.named_integers[name]
    }

    /// Which of the registers that may hold numbers of elements this name is.
    pub fn number_slot(&self, name: &str) -> Option<usize> {
        self.numbers.iter().position(|number| number == name)
    }

    /// The register of a vector name in a copy of the body.
    pub fn vector(&self, name: &str, copy: u64) -> usize {
        let numbers = &self.named_vectors[name];
        numbers[copy as usize % numbers.len()]
    }

    fn place_streams(
        &mut self,
        kernel: &Kernel,
        body: &[Op],
        supply: &mut Supply,
    ) -> Result<(), AssembleError> {
        let description = kernel.description();
        let triangle = matches!(description.shape, KernelShape::Triangle(_));
        for stream in 0..description.streams.len() {
            let used = body.iter().filter_map(places).any(|place| place.stream == stream);
            // A triangle writes its results through a register of its own.
            let base = if used || (triangle && stream != 2) { Some(supply.integer()?) } else { None };
            if let Some(register) = base {
                self.arguments.push((register, offsets::base(stream)));
            }
            self.bases.push(base);
        }
        if triangle {
            let matrix = self.bases[0]
                .ok_or(AssembleError::OutOfRegisters { kernel: kernel.name().to_owned(), kind: "integer" })?;
            self.rows = Some([matrix, supply.integer()?, supply.integer()?, supply.integer()?]);
        }
        Ok(())
    }

    fn place_declared(&mut self, kernel: &Kernel, supply: &mut Supply) -> Result<(), AssembleError> {
        let description = kernel.description();
        for register in &description.registers {
            let name = register.name.clone();
            match register.start {
                RegisterStart::Float(value) => {
                    let copies = if register.life == RegisterLife::Lanes { description.unroll } else { 1 };
                    let numbers = (0..copies).map(|_| supply.vector()).collect::<Result<Vec<_>, _>>()?;
                    for &number in &numbers {
                        self.floats.push((number, value));
                        if register.life != RegisterLife::Constant {
                            self.vector_results.push((name.clone(), number));
                        }
                    }
                    self.named_vectors.insert(name, numbers);
                }
                RegisterStart::Integer(value) => {
                    let number = supply.integer()?;
                    self.integers.push((number, value));
                    self.keep_integer(name, number, register.life);
                }
                RegisterStart::AddressOf(stream) => {
                    let number = supply.integer()?;
                    self.arguments.push((number, offsets::base(stream)));
                    self.keep_integer(name, number, register.life);
                }
            }
        }
        Ok(())
    }

    fn keep_integer(&mut self, name: String, register: Register, life: RegisterLife) {
        if life != RegisterLife::Constant {
            self.integer_results.push((name.clone(), register));
        }
        self.named_integers.insert(name, register);
    }

    fn place_temporaries(&mut self, body: &[Op], supply: &mut Supply) -> Result<(), AssembleError> {
        for op in body {
            match op {
                Op::Load { to, .. }
                | Op::LoadHalves { to, .. }
                | Op::Arithmetic { to, .. }
                | Op::Fma { to, .. }
                    if !self.named_vectors.contains_key(to) =>
                {
                    self.named_vectors.insert(to.clone(), vec![supply.vector()?]);
                }
                Op::IntLoad { to, .. } | Op::Draw { to, .. } if !self.named_integers.contains_key(to) => {
                    self.named_integers.insert(to.clone(), supply.integer()?);
                    self.numbers.push(to.clone());
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Random sequence, draw table, coprime walk, spread registers.
    fn place_machinery(&mut self, body: &[Op], supply: &mut Supply) -> Result<(), AssembleError> {
        let draws = body.iter().any(|op| matches!(op, Op::Draw { .. }));
        if draws || body.iter().any(|op| matches!(op, Op::Coin { .. })) {
            let random =
                Random { state: supply.integer()?, factor: supply.integer()?, addend: supply.integer()? };
            self.arguments.push((random.state, offsets::RANDOM));
            self.integers.push((random.factor, draw::LCG_MULTIPLIER as i64));
            self.integers.push((random.addend, draw::LCG_INCREMENT as i64));
            self.random = Some(random);
        }
        if draws {
            let (table, spare) = (supply.integer()?, supply.integer()?);
            self.arguments.push((table, offsets::TABLE));
            self.table = Some((table, spare));
        }
        if body.iter().any(|op| matches!(op, Op::Step { .. })) {
            let walk = Walk { step: supply.integer()?, elements: supply.integer()? };
            self.arguments.push((walk.step, offsets::STEP));
            self.arguments.push((walk.elements, offsets::ELEMENTS));
            self.walk = Some(walk);
        }
        if body.iter().any(|op| matches!(op, Op::Spread { .. })) {
            for _ in 0..SPREAD {
                let register = supply.integer()?;
                self.integers.push((register, 1));
                self.spread.push(register);
            }
        }
        Ok(())
    }
}
