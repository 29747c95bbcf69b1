//! Truth by rule against truth by walking: every access of a small scenario goes through a cache of lines that
//! replaces the one unused for longest, and past a record of who wrote each line last.

use std::collections::HashMap;

use machine::Bytes;

use super::{
    super::{Event, Plan, truth},
    plan, plan_of,
};
use crate::{
    cycle::{self, Spacing},
    program::ProgramAccess,
    walk::{Setting, WalkTouch, Walker},
};

/// Instances lie this far apart.
const APART: u64 = 1 << 32;

/// Pointers of all chains, by address.
fn pointers(plan: &Plan) -> HashMap<u64, u64> {
    let mut found = HashMap::new();
    for (index, instance) in plan.instances().iter().enumerate() {
        for chain in &instance.chains {
            let base = (index as u64 + 1) * APART + chain.offset;
            let mut words = vec![0; (chain.bytes / 8) as usize];
            let spacing = Spacing::every_stride(Bytes(64), Bytes(chain.stride)).expect("a spacing");
            cycle::fill_cycle(&mut words, base, spacing, plan.scenario().seed).expect("a cycle");
            let set = words.into_iter().enumerate().filter(|(_, to)| *to != 0);
            found.extend(set.map(|(word, to)| (base + 8 * word as u64, to)));
        }
    }
    found
}

/// All touches of a thread's part of a step that reach its buffer.
fn touches(plan: &Plan, pointers: &HashMap<u64, u64>, step: usize, thread: usize) -> Vec<WalkTouch> {
    let step = &plan.steps()[step];
    let part = step.part(thread).expect("takes part");
    let Some(instance) = part.instance else { return Vec::new() };
    let base = (instance as u64 + 1) * APART;
    let follow = |at: u64| pointers.get(&at).copied().unwrap_or(at);
    let setting = Setting {
        bases: part.bases(base),
        arguments: 0x1000,
        stack: 0x8000,
        table_at: 0x10_000,
        table: None,
        random: part.random,
        follow: &follow,
        passes: step.passes,
    };
    let mut walker = Walker::new(&part.program, &part.geometry, setting);
    let (mut all, mut some) = (Vec::new(), Vec::new());
    while walker.next(&mut some).is_some() {
        all.extend(some.iter().copied().filter(|touch| touch.address >= APART));
    }
    all
}

/// Lines most recently used last, and whether they were written.
#[derive(Default)]
struct Cache {
    lines: Vec<(u64, bool)>,
    inward: u64,
    outward: u64,
}

impl Cache {
    fn touch(&mut self, touch: &WalkTouch, capacity: usize) {
        let line = touch.address / 64;
        let written = touch.access != ProgramAccess::Read;
        let found = self.lines.iter().rposition(|(other, _)| *other == line);
        let dirty = found.is_some_and(|at| self.lines.remove(at).1);
        self.inward += u64::from(found.is_none());
        if self.lines.len() == capacity {
            self.outward += u64::from(self.lines.remove(0).1);
        }
        self.lines.push((line, dirty || written));
    }

    fn dirty(&self) -> u64 {
        self.lines.iter().filter(|(_, dirty)| *dirty).count() as u64
    }
}

/// Walks each thread through a cache of its own and compares with the rule.
fn compare(name: &str, plan: &Plan, capacity_lines: u64) {
    let pointers = pointers(plan);
    let lines = truth::lines_below(plan, Bytes(capacity_lines * 64)).expect("lines");
    for thread in 0..plan.threads() {
        let mut cache = Cache::default();
        for event in plan.schedule(thread) {
            if let Event::Run { step } = event {
                let touches = touches(plan, &pointers, step, thread);
                touches.iter().for_each(|touch| cache.touch(touch, capacity_lines as usize));
            }
        }
        let outermost = plan.regions().iter().enumerate().filter(|(_, region)| region.depth == 0);
        let own = outermost.filter_map(|(index, region)| {
            let slot = region.threads.iter().position(|&other| other == thread)?;
            Some(lines[index][slot])
        });
        let (mut inward, mut outward) = (0, 0);
        for sum in own {
            assert!(sum.exact, "{name}");
            inward += sum.inward as u64;
            outward += sum.outward as u64;
        }
        let place = format!("{name}, thread {thread}, {capacity_lines} lines");
        assert_eq!(inward, cache.inward, "{place}");
        // What is still in the cache at the end may or may not be on its way out.
        assert!((cache.outward..=cache.outward + cache.dirty()).contains(&outward), "{place}: {outward}");
    }
}

#[test]
fn lines_of_shipped_scenarios() {
    let small = [
        plan("bandwidth-compute", &[("size", "8K"), ("rounds", "3")]),
        plan("latency-phases", &[("size", "4K"), ("rounds", "3")]),
    ];
    for plan in &small {
        for capacity in [16, 63, 64, 100, 127, 128, 200] {
            compare(&plan.scenario().name, plan, capacity);
        }
    }
}

const TWO_SETS: &str = r#"
name = "two-sets"
about = "sweeps that leave each other room, or not"
threads = 2

[[buffer]]
name = "a"
size = "4K"

[[buffer]]
name = "b"
size = "2K"

[[buffer]]
name = "ours"
size = "8K"
sharing = "shared"

[[region]]
name = "both"
repeat = 3

[[region.step]]
kernel = "sum"
buffer = "a"
passes = 2

[[region.step]]
kernel = "update"
buffer = "b"
threads = [1]

[[region]]
name = "together"
repeat = 2

[[region.step]]
kernel = "copy"
buffer = "ours"
passes = 3
"#;

#[test]
fn lines_that_stay_from_step_to_step() {
    let plan = plan_of(TWO_SETS).expect("a plan");
    for capacity in [8, 32, 63, 64, 65, 95, 96, 97, 130, 160, 500] {
        compare("two-sets", &plan, capacity);
    }
}

#[test]
fn a_block_met_in_another_order_is_not_exact() {
    let text = TWO_SETS.replace("\"update\"\nbuffer = \"b\"", "\"chase\"\nbuffer = \"a\"");
    let plan = plan_of(&text).expect("a plan");
    let lines = truth::lines_below(&plan, Bytes(32 * 64)).expect("lines");
    assert!(lines[0][0].exact && !lines[0][1].exact);
    assert!(truth::lines_below(&plan, Bytes::kib(64)).expect("lines")[0][1].exact);
}

/// Lines that each thread finds written by another, region after region, thread after thread.
fn taken_over(plan: &Plan) -> Vec<u64> {
    let pointers = pointers(plan);
    let mut schedules: Vec<_> = (0..plan.threads()).map(|thread| plan.schedule(thread)).collect();
    let mut writers: HashMap<u64, Option<usize>> = HashMap::new();
    let mut taken = vec![0; plan.threads()];
    // All threads take part in all regions of these scenarios: one goes up to the next entry, then the other.
    loop {
        let mut over = true;
        for (thread, schedule) in schedules.iter_mut().enumerate() {
            for event in schedule.by_ref() {
                over = false;
                match event {
                    Event::Leave { .. } => break,
                    Event::Enter { .. } => {}
                    Event::Run { step } => {
                        for touch in touches(plan, &pointers, step, thread) {
                            let writer = writers.entry(touch.address / 64).or_default();
                            let foreign = writer.is_some_and(|writer| writer != thread);
                            taken[thread] += u64::from(foreign);
                            match touch.access {
                                ProgramAccess::Read if foreign => *writer = None,
                                ProgramAccess::Read => {}
                                _ => *writer = Some(thread),
                            }
                        }
                    }
                }
            }
        }
        if over {
            return taken;
        }
    }
}

#[test]
fn lines_taken_over_from_region_to_region() {
    let text = r#"
name = "hand-over"
about = "parts change hands"
threads = 2

[[buffer]]
name = "ours"
size = "32K"
sharing = "shared"

[[region]]
name = "first"
[[region.step]]
kernel = "update"
buffer = "ours"
threads = [0]

[[region]]
name = "parts"
[[region.step]]
kernel = "store"
buffer = "ours"
passes = 2

[[region]]
name = "back"
[[region.step]]
kernel = "sum"
buffer = "ours"
threads = [0]

[[region]]
name = "again"
[[region.step]]
kernel = "store"
buffer = "ours"
threads = [1]
[[region.step]]
kernel = "fma-lanes"
threads = [0]
"#;
    let plan = plan_of(text).expect("a plan");
    let truth = truth::of(&plan);
    let mut counted = vec![0; 2];
    for thread in truth.iter().flatten() {
        counted[thread.thread] += thread.transfers.exact().expect("ordered");
    }
    assert_eq!(counted, taken_over(&plan));
    // Thread 1 takes half of what thread 0 wrote; thread 0 takes that half back; then nobody has it modified but
    // thread 0 its own half, which thread 1 writes.
    assert_eq!(counted, [256, 512]);
}
