//! Figures of a profile by name, for formulas that want a machine's own penalties and rates.

use crate::{
    Profile,
    profile::{CoreOperation, Estimate, LevelName, ProfileLevel},
};

/// Weights of loading, storing and copying, as lines move: one that is stored to is read before it is written, so storing moves twice and
/// copying one and a half times what the program sees.
const MOVED: [f64; 3] = [1.0, 2.0, 1.5];

impl Profile {
    /// A figure by name: a latency in cycles ([`Profile::figure_cycles`]), or the most that all cores together moved in bytes
    /// per second, loading, storing or copying, in both directions as the level sees it: `l2_traffic_peak`, `l3_traffic_peak`,
    /// `memory_traffic_peak` of the packages in use, where they are known, `whole_memory_traffic_peak` of all; `link_peak` is what all
    /// packages together load from each other's memory, and `lines_in_flight` are lines under way from memory to one core at its peak.
    pub fn figure(&self, name: &str) -> Option<f64> {
        let cache = |number: u32| move |name: &LevelName| *name == LevelName::Cache(number);
        let memory = |name: &LevelName| matches!(name, LevelName::Memory { local: true, .. });
        match name {
            "l2_traffic_peak" => self.peak(&cache(2)),
            "l3_traffic_peak" => self.peak(&cache(3)),
            "memory_traffic_peak" | "whole_memory_traffic_peak" => self.peak(&memory),
            "link_peak" => self.link_peak(),
            "lines_in_flight" => self.lines_in_flight(),
            _ => self.figure_cycles(name),
        }
    }

    /// The most that all cores moved at a level by loading, storing or copying, in bytes per second.
    fn peak(&self, wanted: &dyn Fn(&LevelName) -> bool) -> Option<f64> {
        let [load, store, copy] = MOVED;
        let rates = self.levels.iter().find(|level| wanted(&level.name))?.all_cores;
        let moved = [(rates.load, load), (rates.store, store), (rates.copy, copy)];
        moved.iter().filter_map(|(rate, weight)| Some(rate.as_ref()?.value * weight)).reduce(f64::max)
    }

    /// Cycles after which the core can begin the next division.
    fn divide_cycles(&self) -> Option<f64> {
        let division = self.operations.iter().find(|cost| cost.operation == CoreOperation::FpDiv)?;
        division.per_cycle.filter(|per_cycle| *per_cycle > 0.0).map(|per_cycle| 1.0 / per_cycle)
    }

    /// Lines that one core has under way when it loads as much from memory as it can: its rate times the latency of each.
    fn lines_in_flight(&self) -> Option<f64> {
        const LINE: f64 = 64.0;
        let local = |level: &&ProfileLevel| matches!(level.name, LevelName::Memory { local: true, .. });
        let level = self.levels.iter().find(local)?;
        let latency_s = level.latency_ns.as_ref()?.value / 1e9;
        Some(level.one_core.load.as_ref()?.value / LINE * latency_s)
    }

    /// What the cores of one node at most loaded from another node's memory, once for each node, in bytes per second: links
    /// carry as much in either direction.
    fn link_peak(&self) -> Option<f64> {
        let nodes = self.levels.iter().filter(|level| matches!(level.name, LevelName::Memory { .. })).count();
        let remote = |level: &&ProfileLevel| matches!(level.name, LevelName::Memory { local: false, .. });
        let rates = self.levels.iter().filter(remote).filter_map(|level| level.all_cores.load.as_ref());
        Some(rates.map(|rate| rate.value).reduce(f64::max)? * nodes as f64)
    }

    /// A figure in core cycles: `l1_cycles`, `l2_cycles`, `l3_cycles`, `memory_cycles`, `remote_memory_cycles` are latencies
    /// from load to use, `divide_cycles` is what one division holds the divider for, `walk_cycles` what a page walk adds, `core_to_core_cycles` a line handed over by another core. None
    /// if it was not measured, or no clock can be believed.
    pub fn figure_cycles(&self, name: &str) -> Option<f64> {
        let clock = self.clock.as_ref().filter(|clock| clock.agrees())?;
        let latency = |wanted: &dyn Fn(&LevelName) -> bool| {
            let level = self.levels.iter().find(|level| wanted(&level.name))?;
            level.latency_ns.as_ref().map(|estimate| estimate.value)
        };
        let cache = |number: u32| latency(&|name| *name == LevelName::Cache(number));
        let memory = |wanted: bool| {
            latency(&|name| matches!(name, LevelName::Memory { local, .. } if *local == wanted))
        };
        let nearest = |estimates: &mut dyn Iterator<Item = &Estimate>| {
            estimates.map(|estimate| estimate.value).reduce(f64::min)
        };
        let ns = match name {
            "l1_cycles" => cache(1),
            "l2_cycles" => cache(2),
            "l3_cycles" => cache(3),
            "memory_cycles" => memory(true),
            "remote_memory_cycles" => memory(false),
            "walk_cycles" => self.tlb.as_ref()?.walk_penalty_ns,
            "core_to_core_cycles" => nearest(&mut self.core_to_core.iter().map(|pair| &pair.latency_ns)),
            "divide_cycles" => return self.divide_cycles(),
            _ => None,
        }?;
        Some(ns * clock.add_hz / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Bandwidths, Clock, CoreToCore, ProfileLevel, Tlb};

    fn estimate(value: f64) -> Estimate {
        Estimate { value, low: value, high: value, samples: 6 }
    }

    fn level(name: LevelName, latency_ns: Option<f64>) -> ProfileLevel {
        ProfileLevel { latency_ns: latency_ns.map(estimate), ..ProfileLevel::unmeasured(name) }
    }

    #[test]
    fn figures_are_in_cycles_of_a_clock_that_can_be_believed() {
        let mut profile = Profile::unmeasured();
        profile.levels = vec![
            level(LevelName::Cache(1), Some(2.0)),
            level(LevelName::Cache(2), None),
            level(LevelName::Memory { node: 1, local: false }, Some(150.0)),
            level(LevelName::Memory { node: 0, local: true }, Some(100.0)),
        ];
        profile.tlb = Some(Tlb { curve: Vec::new(), reach_pages: Vec::new(), walk_penalty_ns: Some(10.0) });
        let pair = |to, ns| CoreToCore { from: 0, to, latency_ns: estimate(ns) };
        profile.core_to_core = vec![pair(1, 60.0), pair(2, 30.0)];
        assert_eq!(profile.figure_cycles("l1_cycles"), None, "no clock");
        profile.clock = Some(Clock { add_hz: 2e9, mul_hz: 2e9, tsc_hz: None });
        let figures = ["l1_cycles", "l2_cycles", "memory_cycles", "remote_memory_cycles", "walk_cycles"];
        let found = figures.map(|name| profile.figure_cycles(name));
        assert_eq!(found, [Some(4.0), None, Some(200.0), Some(300.0), Some(20.0)]);
        assert_eq!(profile.figure_cycles("core_to_core_cycles"), Some(60.0), "the nearest core");
        assert_eq!(profile.figure_cycles("anything"), None);
        assert_eq!(profile.figure("l1_cycles"), Some(4.0));
        assert_eq!(profile.figure("memory_traffic_peak"), None, "no rate was measured");
        profile.levels[3].all_cores =
            Bandwidths { load: Some(estimate(5e9)), store: None, copy: Some(estimate(7e9)) };
        assert_eq!(profile.figure("memory_traffic_peak"), Some(1.05e10), "copying moves three lines for two");
        let mut second = level(LevelName::Cache(2), None);
        second.all_cores =
            Bandwidths { load: Some(estimate(8e9)), store: Some(estimate(5e9)), copy: Some(estimate(6e9)) };
        profile.levels[1] = second;
        assert_eq!(profile.figure("l2_traffic_peak"), Some(1e10), "a line stored to comes in and goes out");
        assert_eq!(profile.figure("l3_traffic_peak"), None);
        assert_eq!(profile.figure("link_peak"), None, "no rate over the link was measured");
        profile.levels[2].all_cores.load = Some(estimate(3e9));
        assert_eq!(profile.figure("link_peak"), Some(6e9), "as much in either direction");
        profile.clock = Some(Clock { add_hz: 2e9, mul_hz: 3e9, tsc_hz: None });
        assert_eq!(profile.figure_cycles("l1_cycles"), None, "two clocks that contradict each other");
    }
}
