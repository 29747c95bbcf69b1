//! What a model's numbers add up to for one load on an idle machine.

use super::Model;

/// Load-to-use times of an idle machine, nanoseconds. They follow from the file alone, for display and for checks;
/// what a simulated load takes also depends on translation and traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleLatencies {
    /// Hit in the L1.
    pub l1_ns: f64,
    /// Hit in the L2.
    pub l2_ns: f64,
    /// Hit in the L3, if there is one.
    pub l3_ns: Option<f64>,
    /// Memory of the same package.
    pub local_ns: f64,
    /// Memory of another package, if there is one.
    pub remote_ns: Option<f64>,
}

impl Model {
    /// Load-to-use times when nothing else runs.
    ///
    /// ```
    /// let model = machine::model::Model::builtin("haswell-ep-e5-2680v3")?;
    /// let cycles = model.idle_latencies().l3_ns.map(|ns| (ns * model.clock.core_hz as f64 / 1e9).round());
    /// assert_eq!(cycles, Some(53.0)); // molka2017 §4.3
    /// # Ok::<(), machine::model::UnknownModel>(())
    /// ```
    pub fn idle_latencies(&self) -> IdleLatencies {
        let core_ns = |cycles: u32| f64::from(cycles) * 1e9 / self.clock.core_hz as f64;
        let uncore_ns = |cycles: u32| f64::from(cycles) * 1e9 / self.clock.uncore_hz as f64;
        let l2_ns = core_ns(self.l2.latency);
        let l3_ns = self.l3.map(|l3| l2_ns + core_ns(l3.core_latency) + uncore_ns(l3.latency));
        let local_ns = l3_ns.unwrap_or(l2_ns) + self.memory.idle_latency_ns;
        let on_the_wire = |bytes: u32, bytes_per_s: u64| f64::from(bytes) * 1e9 / bytes_per_s as f64;
        let link = self.link.filter(|_| self.sockets > 1);
        let remote_ns = link.map(|link| {
            let bytes = link.line_bytes + link.message_bytes;
            local_ns + 2.0 * link.latency_ns + on_the_wire(bytes, link.bytes_per_s)
        });
        IdleLatencies { l1_ns: core_ns(self.l1d.latency), l2_ns, l3_ns, local_ns, remote_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, published: [Option<f64>; 3]) {
        let found = Model::builtin(name).expect("a model").idle_latencies();
        for (ns, published) in [found.l3_ns, Some(found.local_ns), found.remote_ns].into_iter().zip(published)
        {
            match (ns, published) {
                (Some(ns), Some(published)) => assert!((ns / published - 1.0).abs() < 0.01, "{name}: {ns}"),
                (ns, published) => assert_eq!(ns, published, "{name}"),
            }
        }
    }

    #[test]
    fn latencies_add_up_to_the_published_ones() {
        check("haswell-ep-e5-2680v3", [Some(21.2), Some(96.4), Some(146.0)]);
        check("nehalem-ep-x5570", [Some(13.0), Some(65.1), Some(106.0)]);
        check("core2-e5430", [None, Some(75.0), None]);
        check("sandy-bridge-ep-e5-2670", [Some(14.6), Some(80.0), Some(130.0)]);
        check("emerald-rapids", [Some(34.0), Some(110.0), Some(180.0)]);
    }

    #[test]
    fn each_level_is_slower_than_the_one_above() {
        for name in Model::builtin_names() {
            let found = Model::builtin(name).expect("a model").idle_latencies();
            let l3_ns = found.l3_ns.unwrap_or((found.l2_ns + found.local_ns) / 2.0);
            let remote_ns = found.remote_ns.unwrap_or(f64::INFINITY);
            let levels = [found.l1_ns, found.l2_ns, l3_ns, found.local_ns, remote_ns];
            assert!(levels.is_sorted_by(|a, b| a < b), "{name}: {levels:?}");
        }
    }
}
