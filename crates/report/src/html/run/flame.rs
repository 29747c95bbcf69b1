//! Call chains as one tree, small enough to put into a page: who called whom, and how much of that time waits.

use std::collections::HashMap;

use analysis::reading::Reading;
use record::{
    ids::{FunctionId, PlaceId},
    run::{Place, Run},
};
use serde::Serialize;

use super::payload::name;
use crate::export::{name_of, outside_in, stack_of};

/// Nodes, at most; those with fewest samples go first.
const MOST_NODES: usize = 4000;
/// Callers and callees one below the other, at most; what is deeper counts for the last one.
const DEEPEST: usize = 100;

/// All call chains of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallTree {
    /// Parents before their children; the first is the whole program.
    pub nodes: Vec<CallNode>,
    /// Samples that came without a chain: their function stands alone.
    pub alone: u64,
    /// Nodes that were left out, too small to be seen.
    pub left_out: usize,
}

/// A function as it was called from one chain of callers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CallNode {
    /// Index of who called it; its own for the first.
    pub parent: usize,
    /// For people.
    pub name: String,
    /// Index among the page's functions, if it has samples of its own.
    pub symbol: Option<usize>,
    /// Samples in it and all it called.
    pub samples: u64,
    /// Of these, waiting for memory.
    pub waiting: f64,
}

impl CallTree {
    /// Of a run and what was made of it; none if no call chain was recorded.
    pub fn of(run: &Run, reading: &Reading) -> Option<Self> {
        if run.stacks.is_empty() {
            return None;
        }
        let mut counts: HashMap<(PlaceId, Option<u32>), u64> = HashMap::new();
        for (sample, &place) in run.samples.place.iter().enumerate() {
            *counts.entry((place, stack_of(run, sample))).or_default() += 1;
        }
        let mut ordered: Vec<_> = counts.into_iter().collect();
        ordered.sort_unstable();
        let symbols = reading.findings.symbols.iter().enumerate();
        let symbols: HashMap<FunctionId, usize> =
            symbols.filter_map(|(at, symbol)| Some((symbol.function?, at))).collect();
        let mut tree = GrowingTree { run, symbols, nodes: vec![root()], children: HashMap::new() };
        let mut alone = 0;
        for ((place, stack), samples) in ordered {
            alone += if stack.is_none() { samples } else { 0 };
            let waiting = samples as f64 * reading.memory_share(place);
            tree.add(outside_in(run, &place, stack), samples, waiting);
        }
        Some(pruned(tree.nodes, alone))
    }
}

fn root() -> CallNode {
    CallNode { parent: 0, name: "all threads".to_owned(), symbol: None, samples: 0, waiting: 0.0 }
}

struct GrowingTree<'a> {
    run: &'a Run,
    symbols: HashMap<FunctionId, usize>,
    nodes: Vec<CallNode>,
    children: HashMap<(usize, String), usize>,
}

impl GrowingTree<'_> {
    fn add<'p>(&mut self, places: impl Iterator<Item = &'p Place>, samples: u64, waiting: f64) {
        let mut at = 0;
        self.count(at, samples, waiting);
        for place in places.take(DEEPEST) {
            at = self.child(at, place);
            self.count(at, samples, waiting);
        }
    }

    fn count(&mut self, at: usize, samples: u64, waiting: f64) {
        self.nodes[at].samples += samples;
        self.nodes[at].waiting += waiting;
    }

    fn child(&mut self, parent: usize, place: &Place) -> usize {
        let called = name_of(self.run, place);
        if let Some(found) = self.children.get(&(parent, called.clone())) {
            return *found;
        }
        let symbol = place.function.and_then(|function| self.symbols.get(&function)).copied();
        let node = CallNode { parent, name: name(&called), symbol, samples: 0, waiting: 0.0 };
        self.nodes.push(node);
        self.children.insert((parent, called), self.nodes.len() - 1);
        self.nodes.len() - 1
    }
}

/// The nodes with most samples. A parent has no fewer than its children, so none is left without one.
fn pruned(nodes: Vec<CallNode>, alone: u64) -> CallTree {
    let mut order: Vec<usize> = (0..nodes.len()).collect();
    order.sort_by_key(|&at| (std::cmp::Reverse(nodes[at].samples), at));
    let left_out = order.len().saturating_sub(MOST_NODES);
    order.truncate(MOST_NODES);
    order.sort_unstable();
    let mut places = vec![0; nodes.len()];
    let mut kept = Vec::with_capacity(order.len());
    for at in order {
        places[at] = kept.len();
        let node = nodes[at].clone();
        let waiting = (node.waiting * 10.0).round() / 10.0;
        kept.push(CallNode { parent: places[node.parent], waiting, ..node });
    }
    CallTree { nodes: kept, alone, left_out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_nodes_go_and_parents_stay() {
        let node = |parent: usize, samples: u64| CallNode { parent, samples, ..root() };
        let mut nodes = vec![node(0, 1_000_000), node(0, 900_000)];
        nodes.extend((0..MOST_NODES as u64).map(|number| node(1, number + 1)));
        let last = nodes.len() - 1;
        nodes.push(node(last, 4000));
        let tree = pruned(nodes, 3);
        assert_eq!((tree.nodes.len(), tree.left_out, tree.alone), (MOST_NODES, 3, 3));
        assert!(tree.nodes.iter().enumerate().skip(1).all(|(at, node)| node.parent < at));
        let deepest = tree.nodes.last().expect("nodes");
        assert_eq!((deepest.samples, tree.nodes[deepest.parent].samples), (4000, 4000));
        assert!(tree.nodes.iter().all(|node| node.samples > 3));
    }
}
