//! A random walk through a vector of indices, each of which needs the one before: waits on loads. As in `chase.c`,
//! more than 16 MB are walked in sections, one a round.

mod options;

const SECTION: usize = (16 << 20) / size_of::<Line>();

/// One cache line of the chain.
#[derive(Clone)]
#[repr(align(64))]
pub struct Line {
    next: usize,
}

#[inline(never)]
fn allocate_lines(sections: usize, count: usize) -> Vec<Line> {
    (0..sections * count).map(|i| Line { next: i % count }).collect()
}

/// Sattolo's shuffle: a permutation that is one cycle.
#[inline(never)]
fn link_lines(lines: &mut [Line]) {
    let mut seed = 88172645463325252;
    for i in (1..lines.len()).rev() {
        let j = (options::next_random(&mut seed) % i as u64) as usize;
        lines.swap(i, j);
    }
}

/// A walk that takes as many steps as it is told.
pub trait Walk {
    /// Where the walk ends that starts at the first line.
    fn walk(&self, steps: usize) -> usize;
}

impl Walk for [Line] {
    #[inline(never)]
    fn walk(&self, steps: usize) -> usize {
        (0..steps).fold(0, |at, _| self[at].next)
    }
}

fn main() {
    let options = options::parse("random walk through indices; waits on loads", 256 << 20, None);
    let all = (options.size_bytes / size_of::<Line>()).max(2);
    let count = all / (all / SECTION).max(1);
    let mut lines = allocate_lines(all / count, count);
    lines.chunks_mut(count).for_each(link_lines);
    let steps = (65536 / count).max(1) * count - 1;
    let mut sections = lines.chunks(count).cycle();
    let end = options.run("chase_rs", steps, || sections.next().map_or(0, |section| section.walk(steps)));
    println!("chase_rs: ended on line {end} of {count}");
}
