//! A naive interpreter of kernel descriptions: one operation after the other, one element at a time.

use std::collections::BTreeMap;

use kernels::{
    Kernel,
    description::{
        Amount, Arithmetic, IntegerOp, KernelShape, Op, Operand, OperandPlace, RegisterLife, RegisterStart,
        StreamPattern,
    },
    draw::{DrawTable, Lcg},
    geometry::Geometry,
    program::{ProgramArguments, Saved},
};
use machine::Width;

pub struct Twin<'a> {
    kernel: &'a Kernel,
    geometry: &'a Geometry,
    /// Bytes of one vector.
    width: u64,
    fused: bool,
    base: u64,
    bases: [u64; 6],
    memory: Vec<u8>,
    vectors: BTreeMap<(String, u64), Vec<f64>>,
    integers: BTreeMap<String, u64>,
    random: Lcg,
    table: Option<DrawTable>,
}

impl<'a> Twin<'a> {
    pub fn new(
        kernel: &'a Kernel,
        width: Width,
        geometry: &'a Geometry,
        arguments: &ProgramArguments,
        words: Vec<u64>,
    ) -> Self {
        let description = kernel.description();
        let table = description.streams.first().and_then(|stream| match stream.pattern {
            StreamPattern::Drawn { distribution, .. } => DrawTable::new(distribution, geometry.elements).ok(),
            _ => None,
        });
        let mut twin = Self {
            kernel,
            geometry,
            width: if width == Width::Scalar { description.element } else { width.bytes() },
            fused: width >= Width::Avx2,
            base: arguments.bases[0],
            bases: arguments.bases,
            memory: words.iter().flat_map(|word| word.to_le_bytes()).collect(),
            vectors: BTreeMap::new(),
            integers: BTreeMap::new(),
            random: Lcg::new(arguments.random),
            table,
        };
        for register in &description.registers {
            match register.start {
                RegisterStart::Float(value) => {
                    for copy in 0..description.unroll {
                        twin.set(&register.name, copy, vec![twin.round(value); twin.lanes()]);
                    }
                }
                RegisterStart::Integer(value) => {
                    twin.integers.insert(register.name.clone(), value as u64);
                }
                RegisterStart::AddressOf(stream) => {
                    twin.integers.insert(register.name.clone(), arguments.bases[stream]);
                }
            }
        }
        twin
    }

    pub fn run(&mut self, passes: u64) {
        let description = self.kernel.description();
        match &description.shape {
            KernelShape::Private(body) => {
                for _ in 0..passes {
                    for iteration in 0..self.geometry.iterations {
                        for copy in 0..description.unroll {
                            let vector = iteration * description.unroll + copy;
                            body.iter().for_each(|op| self.op(op, copy, vector));
                        }
                    }
                }
            }
            KernelShape::Turns { .. } => {
                for line in 0..self.geometry.turns * self.geometry.iterations {
                    self.write(self.bases[0] + line * 64, &1u64.to_le_bytes());
                }
            }
            KernelShape::Triangle(_) => self.triangle(),
        }
    }

    /// `y[i] = Σ U[i][j] · x[j]` for j from i: its own loops, not the description's.
    fn triangle(&mut self) {
        let order = self.geometry.order;
        for row in 0..order {
            let mut sum = 0.0;
            for column in row..order {
                let matrix = self.float(self.bases[0] + (row * order + column) * 8);
                sum += matrix * self.float(self.bases[1] + column * 8);
            }
            self.write(self.bases[2] + row * 8, &sum.to_le_bytes());
        }
    }

    /// Bits a saved register must hold; `None` where the order of additions is not the twin's.
    pub fn result(&self, slot: usize, saved: &Saved) -> Option<Vec<u64>> {
        if matches!(self.kernel.description().shape, KernelShape::Triangle(_)) {
            return None;
        }
        if !saved.vector {
            return Some(vec![self.integers[&saved.name]]);
        }
        let description = self.kernel.description();
        let vectors: Vec<_> = description
            .registers
            .iter()
            .filter(|register| {
                matches!(register.start, RegisterStart::Float(_)) && register.life != RegisterLife::Constant
            })
            .flat_map(|register| {
                let copies = if register.life == RegisterLife::Lanes { description.unroll } else { 1 };
                (0..copies).map(|copy| (register.name.clone(), copy))
            })
            .collect();
        let values = &self.vectors[&vectors[slot]];
        match description.element {
            4 if values.len() == 1 => None,
            4 => Some(
                values
                    .chunks(2)
                    .map(|pair| {
                        u64::from((pair[1] as f32).to_bits()) << 32 | u64::from((pair[0] as f32).to_bits())
                    })
                    .collect(),
            ),
            _ => Some(values.iter().map(|value| value.to_bits()).collect()),
        }
    }

    pub fn compare_memory(&self, words: &[u64], place: &str) {
        let exact = !matches!(self.kernel.description().shape, KernelShape::Triangle(_));
        for (index, (word, bytes)) in words.iter().zip(self.memory.chunks(8)).enumerate() {
            let mine = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            if *word == mine {
                continue;
            }
            let (theirs, ours) = (f64::from_bits(*word), f64::from_bits(mine));
            let close = (theirs - ours).abs() <= 1e-12 * ours.abs();
            assert!(
                !exact && close,
                "{place}: word {index} is {theirs} ({word:#x}), should be {ours} ({mine:#x})"
            );
        }
    }

    fn lanes(&self) -> usize {
        (self.width / self.kernel.description().element) as usize
    }

    /// As the element's precision rounds it.
    fn round(&self, value: f64) -> f64 {
        if self.kernel.description().element == 4 { f64::from(value as f32) } else { value }
    }

    fn get(&self, name: &str, copy: u64) -> Vec<f64> {
        self.vectors[&(name.to_owned(), self.copy_of(name, copy))].clone()
    }

    fn set(&mut self, name: &str, copy: u64, value: Vec<f64>) {
        self.vectors.insert((name.to_owned(), self.copy_of(name, copy)), value);
    }

    /// Lanes have one register per copy, everything else has one.
    fn copy_of(&self, name: &str, copy: u64) -> u64 {
        let lanes = self
            .kernel
            .description()
            .register(name)
            .is_some_and(|register| register.life == RegisterLife::Lanes);
        if lanes { copy } else { 0 }
    }

    fn amount(&self, amount: Amount) -> u64 {
        match amount {
            Amount::Is(value) => value,
            Amount::Parameter(index) => self.kernel.parameters().nth(index).expect("a parameter").1,
        }
    }

    fn address(&self, place: &OperandPlace, vector: u64, buffer: u64) -> u64 {
        let base = self.bases[place.stream] + place.offset as u64;
        match self.kernel.description().streams[place.stream].pattern {
            StreamPattern::Sequential { stride } => base + vector * stride.unwrap_or(self.width),
            StreamPattern::Numbers { element, .. } => base + vector * element,
            StreamPattern::Gathered { element } => {
                base + self.integers[place.index.as_ref().expect("an index")] * element
            }
            StreamPattern::Fixed | StreamPattern::Cycle { .. } => base,
            StreamPattern::Drawn { element, .. } | StreamPattern::Coprime { element, .. } => {
                let index = self.integers[place.index.as_ref().expect("an index")];
                base + index * element + buffer * self.geometry.pitch
            }
        }
    }

    fn read<const N: usize>(&self, address: u64) -> [u8; N] {
        let at = (address - self.base) as usize;
        self.memory[at..at + N].try_into().expect("inside the buffer")
    }

    fn write(&mut self, address: u64, bytes: &[u8]) {
        let at = (address - self.base) as usize;
        self.memory[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn float(&self, address: u64) -> f64 {
        match self.kernel.description().element {
            4 => f64::from(f32::from_le_bytes(self.read(address))),
            _ => f64::from_le_bytes(self.read(address)),
        }
    }

    fn load(&self, place: &OperandPlace, vector: u64) -> Vec<f64> {
        let (start, element) = (self.address(place, vector, 0), self.kernel.description().element);
        (0..self.lanes() as u64).map(|lane| self.float(start + lane * element)).collect()
    }

    fn operand(&self, operand: &Operand, copy: u64, vector: u64) -> Vec<f64> {
        match operand {
            Operand::Register(name) => self.get(name, copy),
            Operand::Memory(place) => self.load(place, vector),
        }
    }

    fn multiply_add(&self, a: f64, b: f64, c: f64) -> f64 {
        match (self.fused, self.kernel.description().element) {
            (true, 4) => f64::from((a as f32).mul_add(b as f32, c as f32)),
            (true, _) => a.mul_add(b, c),
            (false, _) => self.round(self.round(a * b) + c),
        }
    }

    fn op(&mut self, op: &Op, copy: u64, vector: u64) {
        match op {
            Op::Load { to, from } | Op::LoadHalves { to, from } => {
                self.set(to, copy, self.load(from, vector))
            }
            Op::Store { to, from, .. } => {
                let (start, element) = (self.address(to, vector, 0), self.kernel.description().element);
                for (lane, value) in self.get(from, copy).into_iter().enumerate() {
                    let address = start + lane as u64 * element;
                    match element {
                        4 => self.write(address, &(value as f32).to_le_bytes()),
                        _ => self.write(address, &value.to_le_bytes()),
                    }
                }
            }
            Op::Arithmetic { kind, to, left, right } => {
                let pairs = self.get(left, copy).into_iter().zip(self.operand(right, copy, vector));
                let value = pairs.map(|(a, b)| match kind {
                    Arithmetic::Add => self.round(a + b),
                    Arithmetic::Mul => self.round(a * b),
                    Arithmetic::Div => self.round(a / b),
                    Arithmetic::Max if a > b => a,
                    Arithmetic::Max => b,
                    Arithmetic::AddIntegers => f64::from_bits(a.to_bits().wrapping_add(b.to_bits())),
                });
                let value = value.collect();
                self.set(to, copy, value);
            }
            Op::Fma { to, a, b, c } => {
                let (a, b, c) = (self.get(a, copy), self.operand(b, copy, vector), self.get(c, copy));
                let value = (0..a.len()).map(|lane| self.multiply_add(a[lane], b[lane], c[lane])).collect();
                self.set(to, copy, value);
            }
            other => self.integer_op(other, vector),
        }
    }

    fn integer_op(&mut self, op: &Op, vector: u64) {
        match op {
            Op::Deref { pointer } => {
                let next = u64::from_le_bytes(self.read(self.integers[pointer]));
                self.integers.insert(pointer.clone(), next);
            }
            Op::IntLoad { to, from, bytes } => {
                let address = self.address(from, vector, 0);
                let value = match bytes {
                    4 => u64::from(u32::from_le_bytes(self.read(address))),
                    _ => u64::from_le_bytes(self.read(address)),
                };
                self.integers.insert(to.clone(), value);
            }
            Op::IntStore { to, from, bytes } => {
                let value = self.integers[from].to_le_bytes();
                self.write(self.address(to, vector, 0), &value[..*bytes as usize]);
            }
            Op::Rmw { place, bytes, .. } => {
                let buffers = match self.kernel.description().streams[place.stream].pattern {
                    StreamPattern::Coprime { buffers, .. } => buffers,
                    _ => 1,
                };
                for buffer in 0..buffers {
                    let address = self.address(place, vector, buffer);
                    match bytes {
                        4 => self.write(
                            address,
                            &u32::from_le_bytes(self.read(address)).wrapping_add(1).to_le_bytes(),
                        ),
                        _ => self.write(
                            address,
                            &u64::from_le_bytes(self.read(address)).wrapping_add(1).to_le_bytes(),
                        ),
                    }
                }
            }
            Op::Integer { kind, to, by } => {
                let by = match by {
                    Operand::Register(name) => self.integers[name],
                    Operand::Memory(place) => u64::from_le_bytes(self.read(self.address(place, vector, 0))),
                };
                let value = match kind {
                    IntegerOp::Add => self.integers[to].wrapping_add(by),
                    IntegerOp::Mul => self.integers[to].wrapping_mul(by),
                };
                self.integers.insert(to.clone(), value);
            }
            Op::IntMax { to, by } => {
                let larger = (self.integers[to] as i64).max(self.integers[by] as i64);
                self.integers.insert(to.clone(), larger as u64);
            }
            Op::Branch { on, below, heads, tails, by } => {
                let chosen = if self.integers[on] < *below { heads } else { tails };
                let value = self.integers[chosen].wrapping_add(self.integers[by]);
                self.integers.insert(chosen.clone(), value);
            }
            Op::Chain { kind, to, by, times } => {
                let by = self.integers[by];
                let mut value = self.integers[to];
                for _ in 0..self.amount(*times) {
                    value = match kind {
                        IntegerOp::Add => value.wrapping_add(by),
                        IntegerOp::Mul => value.wrapping_mul(by),
                    };
                }
                self.integers.insert(to.clone(), value);
            }
            Op::Draw { to, .. } => {
                let state = self.random.next();
                let index = self.table.as_ref().expect("a drawn stream has a table").index(state);
                self.integers.insert(to.clone(), index);
            }
            Op::Step { to, .. } => {
                let next = (self.integers[to] + self.geometry.element_step) % self.geometry.elements;
                self.integers.insert(to.clone(), next);
            }
            Op::Coin { heads, tails, by } => {
                let chosen = if self.random.next() >> 63 == 1 { tails } else { heads };
                let value = self.integers[chosen].wrapping_add(self.integers[by]);
                self.integers.insert(chosen.clone(), value);
            }
            _ => {}
        }
    }
}
