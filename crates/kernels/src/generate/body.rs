//! What a random kernel does, as text.

use machine::{Isa, Width};

use crate::{draw::SplitMix, geometry::LINE};

/// The kind of loop: decides which streams there are; what is done with them is drawn beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoopKind {
    /// Streams of numbers with a fraction, from front to back.
    Floats,
    /// Streams of integers, from front to back.
    Integers,
    /// The same with lines left out.
    Strided,
    /// Elements at numbers that are loaded.
    Gathers,
    /// Elements drawn by a random sequence.
    Draws,
    /// A chain of pointers.
    Chase,
    /// Branches on what is loaded.
    Branches,
    /// Words that are added to at once.
    Atomics,
}

/// Kinds as often as they are drawn.
const KINDS: [LoopKind; 12] = [
    LoopKind::Floats,
    LoopKind::Floats,
    LoopKind::Floats,
    LoopKind::Integers,
    LoopKind::Integers,
    LoopKind::Strided,
    LoopKind::Strided,
    LoopKind::Gathers,
    LoopKind::Gathers,
    LoopKind::Chase,
    LoopKind::Branches,
    LoopKind::Atomics,
];

/// One of how many kernels draws its elements by a random sequence, which compilers make of no plain loop.
const DRAWS_ONE_IN: u64 = 24;

/// Bytes of one turn, all streams together, at most: its twin must take many turns.
const MOST_PER_TURN: u64 = 256;

/// All that is drawn.
pub(super) struct Recipe {
    pub width: Width,
    /// Bytes from one access to the next; none: one vector after the other.
    pub stride: Option<u64>,
    kind: LoopKind,
    unroll: u64,
    pointers: bool,
    /// Sums in one register for all copies of the body, each waiting for the one before.
    chained: bool,
    streams: Vec<String>,
    body: Vec<String>,
}

/// Vector registers that a body has for its sums, one for each of its copies.
const SUMS: u64 = 8;

impl Recipe {
    pub fn draw(random: &mut SplitMix, isa: &Isa) -> Self {
        let kind = match random.below(DRAWS_ONE_IN) {
            0 => LoopKind::Draws,
            _ => *pick(random, &KINDS),
        };
        let vectors = [Width::Scalar, Width::Scalar, Width::Sse, Width::Sse, Width::Avx2];
        let width = match kind {
            LoopKind::Floats => *pick(random, &vectors),
            _ => Width::Scalar,
        };
        let stride = match kind {
            LoopKind::Integers => Some(8),
            LoopKind::Strided => Some(16 << random.below(7)),
            LoopKind::Chase => Some(LINE << random.below(3)),
            LoopKind::Atomics => Some(8 << random.below(5)),
            _ => None,
        };
        let mut recipe = Self {
            width: if isa.supports(width) { width } else { Width::Scalar },
            stride,
            kind,
            unroll: *pick(random, &[1, 1, 1, 2, 4, 8]),
            pointers: random.below(2) == 0,
            chained: random.below(2) == 0,
            streams: Vec::new(),
            body: Vec::new(),
        };
        recipe.choose(random);
        let sums = ["s", "t"].iter().filter(|name| recipe.uses(name)).count() as u64;
        while recipe.unroll > 1
            && (recipe.turn_bytes() > MOST_PER_TURN || (!recipe.chained && sums * recipe.unroll > SUMS))
        {
            recipe.unroll /= 2;
        }
        recipe
    }

    /// Bytes that one turn goes on, all streams together, with strides of no more than a line.
    fn turn_bytes(&self) -> u64 {
        let own = if self.width == Width::Scalar { 8 } else { self.width.bytes() };
        self.unroll * self.streams.len() as u64 * self.stride.unwrap_or(own).min(LINE)
    }

    /// The smallest data set that it is run on: with few turns a pass, its beginning and end would count as waiting.
    pub fn least_bytes(&self) -> u64 {
        const FEWEST_TURNS: u64 = 64;
        let step = self.unroll * self.stride.unwrap_or(8).max(8);
        self.streams.len() as u64 * (FEWEST_TURNS * step).next_multiple_of(4 * LINE)
    }

    /// As a kernel file has it.
    pub fn text(&self, seed: u64, stride: Option<u64>) -> String {
        let streams: Vec<String> = self.streams.iter().map(|stream| with_stride(stride, stream)).collect();
        let declared = |all: &[(&str, &str)]| {
            let used = all.iter().filter(|(name, _)| self.uses(name));
            used.map(|(name, start)| format!("{name} = {start}")).collect::<Vec<_>>().join(", ")
        };
        let constants = declared(&[("unit", "1.0"), ("one", "1")]);
        let sums = [("s", "0.0"), ("t", "0.0")];
        let others = [("n", "0"), ("m", "0"), ("p", "\"&A\"")];
        let (lanes, chains) = match self.chained {
            true => (String::new(), declared(&[&sums[..], &others].concat())),
            false => (declared(&sums), declared(&others)),
        };
        let widths = if self.is_single() { "widths = \"scalar\"\n" } else { "" };
        let body: Vec<String> = self.body.iter().map(|op| format!("{op:?}")).collect();
        format!(
            "[[kernel]]\nname = \"random-{seed}\"\nabout = \"a loop drawn at random\"\nsource = \"seed {seed}\"\n\
             streams = [{}]\nconstants = {{ {constants} }}\nlanes = {{ {lanes} }}\nchains = {{ {chains} }}\n\
             {widths}unroll = {}\npointers = {}\nbody = [{}]\n",
            streams.join(", "),
            self.unroll,
            self.pointers,
            body.join(", "),
        )
    }

    /// Whether its body speaks of a register.
    fn uses(&self, register: &str) -> bool {
        let words = |op: &String| op.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == register);
        self.body.iter().any(words)
    }

    /// Whether it has vector operations on single elements only.
    fn is_single(&self) -> bool {
        self.width == Width::Scalar
    }

    fn choose(&mut self, random: &mut SplitMix) {
        let more = |random: &mut SplitMix| random.below(3);
        match self.kind {
            LoopKind::Floats => {
                self.plain_streams(1 + random.below(3));
                (0..1 + random.below(4)).for_each(|_| self.float(random));
            }
            LoopKind::Integers => {
                self.plain_streams(1 + random.below(2));
                (0..1 + random.below(3)).for_each(|_| self.integer(random));
            }
            LoopKind::Strided => {
                self.plain_streams(1 + random.below(2));
                let float = random.below(2) == 0;
                (0..1 + random.below(2)).for_each(|_| match float {
                    true => self.float(random),
                    false => self.integer(random),
                });
            }
            LoopKind::Gathers => self.gathers(random),
            LoopKind::Draws => {
                self.streams = vec!["{ name = \"A\", pattern = \"drawn\", element = 8 }".to_owned()];
                let what = *pick(random, &["s = add s, [A[i]]", "v = iload8 A[i]", "rmw8 A[i]"]);
                self.body = vec!["i = draw A".to_owned(), what.to_owned()];
                self.unroll = 1;
            }
            LoopKind::Chase => {
                self.streams = vec!["{ name = \"A\", pattern = \"cycle\" STRIDE }".to_owned()];
                self.body = vec!["p = deref p".to_owned()];
                match (more(random), 1 + random.below(24)) {
                    (0, _) => {}
                    (1, times) => self.body.push(format!("chain imul p, one, {times}")),
                    (_, times) => self.body.push(format!("chain iadd n, one, {times}")),
                }
            }
            LoopKind::Branches => {
                self.streams = vec!["{ name = \"X\", pattern = \"numbers\", below = 100 }".to_owned()];
                self.body.push("k = iload8 X".to_owned());
                if more(random) > 0 {
                    self.streams.push("{ name = \"A\" }".to_owned());
                    self.float(random);
                }
                let below = *pick(random, &[1, 10, 30, 50, 90, 100]);
                self.body.push(format!("branch k < {below}, n, m, one"));
                self.unroll = self.unroll.min(2);
            }
            LoopKind::Atomics => self.atomics(random),
        }
    }

    fn gathers(&mut self, random: &mut SplitMix) {
        let element = *pick(random, &[4, 8]);
        self.streams = vec![
            format!("{{ name = \"X\", pattern = \"numbers\", element = {element}, of = \"G\" }}"),
            "{ name = \"G\", pattern = \"gathered\" }".to_owned(),
        ];
        self.body.push(format!("i = iload{element} X"));
        let what = ["s = add s, [G[i]]", "x = load G[i]", "v = iload8 G[i]", "rmw8 G[i]", "store G[i], unit"];
        let others = ["n = iadd n, [G[i]]", "s = max s, [G[i]]", "istore8 G[i], one", "atomic8 G[i]"];
        let all = [&what[..], &what[..], &others[..]].concat();
        self.body.push((*pick(random, &all)).to_owned());
        if element == 8 && random.below(2) == 0 {
            self.streams.push("{ name = \"A\" }".to_owned());
            self.float(random);
        }
    }

    fn atomics(&mut self, random: &mut SplitMix) {
        if random.below(4) == 0 {
            self.streams = vec!["{ name = \"A\", pattern = \"fixed\" }".to_owned()];
            self.stride = None;
        } else {
            self.plain_streams(1);
        }
        self.body.push("atomic8 A".to_owned());
        if self.stride.is_some() && random.below(2) == 0 {
            self.integer(random);
        }
    }

    fn plain_streams(&mut self, number: u64) {
        let names = ["A", "B", "C", "D"];
        let stream = |name: &&str| match self.stride {
            Some(_) => format!("{{ name = \"{name}\" STRIDE }}"),
            None => format!("{{ name = \"{name}\" }}"),
        };
        self.streams = names.iter().take(number as usize).map(stream).collect();
    }

    /// The name of one of the streams that are walked from front to back and hold no numbers.
    fn stream(&self, random: &mut SplitMix) -> &'static str {
        let names = ["A", "B", "C", "D"];
        let is_there =
            |name: &&&str| self.streams.iter().any(|stream| stream.contains(&format!("\"{name}\"")));
        let known: Vec<&&'static str> = names.iter().filter(is_there).collect();
        known.get(random.below(known.len() as u64) as usize).map_or("A", |name| name)
    }

    /// One thing that plain loops do with numbers that have a fraction.
    fn float(&mut self, random: &mut SplitMix) {
        let (from, other, to) = (self.stream(random), self.stream(random), self.stream(random));
        // Other places of the same stream: x[i + 1]. Stores stay where they are: numbers may lie behind.
        let at = match random.below(4) {
            0 if self.stride.is_none() => format!("{from}+{}", 8 * (1 + random.below(3))),
            _ => from.to_owned(),
        };
        let pieces: &[&str] = match random.below(13) {
            0 => &["s = add s, [AT]"],
            1 => &["x = load AT", "s = add s, x"],
            2 => &["x = load AT", "store TO, x"],
            3 => &["store TO, unit"],
            4 => &["x = mul unit, [AT]", "s = add s, x"],
            5 => &["x = load AT", "s = fma x, [OTHER], s"],
            6 => &["x = load TO", "x = fma unit, [AT], x", "store TO, x"],
            7 => &["s = max s, [AT]"],
            8 => &["x = load AT", "x = mul x, x", "x = add x, unit", "x = mul x, unit", "store TO, x"],
            9 => &["t = mul t, unit", "t = add t, [AT]"],
            10 => &["x = load AT", "x = div x, [OTHER]", "s = add s, x"],
            11 => &["x = load AT", "x = add x, [OTHER]", "x = div x, unit", "store TO, x"],
            _ => &["q = load AT", "q = addq q, [OTHER]", "store TO, q"],
        };
        let put = |piece: &&str| piece.replace("AT", &at).replace("OTHER", other).replace("TO", to);
        self.body.extend(pieces.iter().map(put));
    }

    /// One thing that plain loops do with integers.
    fn integer(&mut self, random: &mut SplitMix) {
        let (from, to) = (self.stream(random), self.stream(random));
        let pieces: &[&str] = match random.below(9) {
            0 => &["n = iadd n, [AT]"],
            1 => &["v = iload8 AT", "m = imax m, v"],
            2 => &["v = iload8 AT", "istore8 TO, v"],
            3 => &["istore8 TO, one"],
            4 => &["rmw8 TO"],
            5 => &["v = iload8 AT", "v = imul v, one", "n = iadd n, v"],
            6 => &["n = imul n, [AT]"],
            7 => &["v = iload4 AT", "n = iadd n, v"],
            _ => &["v = iload8 AT", "v = iadd v, one", "istore8 TO, v"],
        };
        self.body.extend(pieces.iter().map(|piece| piece.replace("AT", from).replace("TO", to)));
    }
}

/// The text of a stream with its stride filled in.
fn with_stride(stride: Option<u64>, stream: &str) -> String {
    stream.replace(" STRIDE", &stride.map_or(String::new(), |stride| format!(", stride = {stride}")))
}

fn pick<'a, T>(random: &mut SplitMix, all: &'a [T]) -> &'a T {
    &all[random.below(all.len() as u64) as usize]
}
