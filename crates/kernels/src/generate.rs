//! Kernels drawn at random: loops that nobody has looked at, whose truth is time against their own small-data twin.
//!
//! A seed gives one kernel, always the same one: its text in the language of kernel files, its data set and its pages. The
//! mix follows what compilers make of plain loops; a test holds it against theirs.

mod body;

use machine::{Bytes, DataFileError, Isa, Width};

use crate::{
    Job, Kernel, PagePolicy,
    description::{KernelShape, KernelStream, Op, StreamPattern},
    draw::SplitMix,
    geometry::LINE,
    parse,
};
use body::Recipe;

/// Data sets are drawn from this, ...
pub const SMALLEST: Bytes = Bytes::kib(4);
/// ... to this, each doubling equally likely.
pub const LARGEST: Bytes = Bytes::mib(256);

/// Data of a twin: half of the smallest first cache there is today.
const NEAR: Bytes = Bytes::kib(16);

/// A kernel that was drawn.
#[derive(Clone, Debug)]
pub struct RandomKernel {
    /// What it was drawn with.
    pub seed: u64,
    /// It as a kernel file has it.
    pub text: String,
    /// It.
    pub kernel: Kernel,
    /// The same with strides of no more than a line, so that small data is gone over in many turns.
    near: Kernel,
    /// Width of its vectors.
    pub width: Width,
    /// Its data.
    pub size: Bytes,
    /// Its pages.
    pub pages: PagePolicy,
}

impl RandomKernel {
    /// The kernel of a seed, for a CPU that has `isa`.
    ///
    /// ```
    /// use kernels::generate::RandomKernel;
    /// let isa = machine::Isa::native();
    /// let (one, again) = (RandomKernel::draw(7, &isa)?, RandomKernel::draw(7, &isa)?);
    /// assert_eq!((one.text, one.size), (again.text, again.size));
    /// # Ok::<(), machine::DataFileError>(())
    /// ```
    pub fn draw(seed: u64, isa: &Isa) -> Result<Self, DataFileError> {
        let mut random = SplitMix::new(seed);
        let recipe = Recipe::draw(&mut random, isa);
        let text = recipe.text(seed, recipe.stride);
        let kernel = parsed(&text)?;
        let near = parsed(&recipe.text(seed, recipe.stride.map(|stride| stride.min(LINE))))?;
        let least = recipe.least_bytes().max(SMALLEST.0);
        let doublings = (LARGEST.0 / SMALLEST.0).ilog2() as f64;
        let part = random.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let size = (SMALLEST.0 as f64 * (doublings * part).exp2()) as u64;
        let pages = if random.below(4) == 0 { PagePolicy::Small } else { PagePolicy::Huge };
        let (width, size) = (recipe.width, Bytes(size.max(least)));
        Ok(Self { seed, text, kernel, near, width, size, pages })
    }

    /// It on its data.
    pub fn job(&self, cpu: u32) -> Job {
        Job { pages: self.pages, ..Job::new(self.kernel.clone(), self.size, &[cpu]).in_width(self.width) }
    }

    /// It on data that stays in the first cache; no more than its own, so that a pass of it has no more turns: what beginning and
    /// ending a pass takes would else count as waiting for data.
    pub fn twin(&self, cpu: u32) -> Job {
        let is_fixed = |stream: &KernelStream| matches!(stream.pattern, StreamPattern::Fixed);
        let near = match self.kernel.description().streams.first().is_some_and(is_fixed) {
            true => NEAR,
            false => NEAR.min(self.footprint()),
        };
        Job { pages: self.pages, ..Job::new(self.near.clone(), near, &[cpu]).in_width(self.width) }
    }

    /// It on data of which it touches lines of so many bytes.
    pub fn over(&self, footprint: Bytes, cpu: u32) -> Job {
        let size = Bytes(footprint.0 * self.lines_a_touch().unwrap_or(1));
        Job { pages: self.pages, ..Job::new(self.kernel.clone(), size, &[cpu]).in_width(self.width) }
    }

    /// Bytes of the lines that it touches of its data.
    pub fn footprint(&self) -> Bytes {
        self.lines_a_touch().map_or(Bytes(LINE), |lines| Bytes(self.size.0 / lines))
    }

    /// Whether it touches lines far apart: they share few sets, and what a cache holds of them is not its capacity.
    pub fn leaves_lines_out(&self) -> bool {
        self.lines_a_touch().is_some_and(|lines| lines > 1)
    }

    /// Lines of data for one that is touched; none where it is always the same one.
    fn lines_a_touch(&self) -> Option<u64> {
        match self.kernel.description().streams.first().map(|stream| stream.pattern) {
            Some(StreamPattern::Sequential { stride: Some(stride) } | StreamPattern::Cycle { stride }) => {
                Some(stride.max(LINE) / LINE)
            }
            Some(StreamPattern::Fixed) => None,
            _ => Some(1),
        }
    }

    /// Its operations.
    pub fn body(&self) -> &[Op] {
        match &self.kernel.description().shape {
            KernelShape::Private(body) | KernelShape::Triangle(body) => body,
            KernelShape::Turns { first, .. } => first,
        }
    }
}

fn parsed(text: &str) -> Result<Kernel, DataFileError> {
    let mut all = parse::kernels(text, "a random kernel")?;
    Ok(Kernel::new(all.swap_remove(0)))
}
