//! A machine whose cores run at another clock.

use super::Model;

impl Model {
    /// The same machine with its cores at `core_hz`, under a name of its own. Where the uncore follows the cores, it changes by
    /// the same factor.
    ///
    /// ```
    /// let model = machine::model::Model::builtin("sandy-bridge-ep-e5-2670")?;
    /// let slower = model.at_core_clock(1_300_000_000);
    /// assert_eq!((slower.clock.core_hz, slower.clock.uncore_hz), (1_300_000_000, 1_300_000_000));
    /// # Ok::<(), machine::model::UnknownModel>(())
    /// ```
    pub fn at_core_clock(&self, core_hz: u64) -> Self {
        let mut clocked = self.clone();
        clocked.name = format!("{} at {} MHz", self.name, core_hz / 1_000_000);
        clocked.clock.core_hz = core_hz;
        if self.clock.uncore_follows_core {
            let factor = core_hz as f64 / self.clock.core_hz as f64;
            clocked.clock.uncore_hz = (self.clock.uncore_hz as f64 * factor).round() as u64;
        }
        clocked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uncore_of_its_own_keeps_its_clock() {
        let haswell = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
        let slower = haswell.at_core_clock(1_300_000_000);
        assert_eq!((slower.clock.core_hz, slower.clock.uncore_hz), (1_300_000_000, 3_000_000_000));
        assert_ne!(slower.name, haswell.name);
    }
}
