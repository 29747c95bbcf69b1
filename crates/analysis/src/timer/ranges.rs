//! Between which shares parts of the waiting lie, by the bounds of the blocks they are in.

use super::{facts::branches_on_load, pattern::pattern, tally::Tally};
use crate::findings::{Pattern, ThreadActivity};

impl Tally {
    /// Samples that wait for loads and stores of some walks through memory, at least and at most.
    pub(crate) fn waiting_between(&self, walks: &[Pattern]) -> (f64, f64) {
        let (mut least, mut most) = (0.0, 0.0);
        for id in 0..self.program.blocks.len() {
            let sites = || self.memory_sites(id);
            let fits = |site: &usize| {
                pattern(&self.program, &self.streams, *site)
                    .is_some_and(|found| walks.contains(&found.pattern))
            };
            let waiting = |site: usize| self.meanings[site].waiting;
            let samples = |site: usize| self.program.sites[site].samples;
            let all: f64 = sites().map(waiting).sum();
            let own: f64 = sites().filter(fits).map(waiting).sum();
            let (seen, seen_own): (f64, f64) =
                (sites().map(samples).sum(), sites().filter(fits).map(samples).sum());
            if seen_own <= 0.0 {
                continue;
            }
            let (low, high) = self.bounds_of(id);
            let block = self.program.samples_of(id);
            least += if all > 0.0 { own * (low * block / all).min(1.0) } else { 0.0 };
            // What more may wait, waits where samples are.
            most += own + (high * block - all).max(0.0) * seen_own / seen;
        }
        (least, most)
    }

    fn memory_sites(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.program.blocks[block].first_site;
        let sites = first..first + self.program.sites_of(block).len();
        let waits = [ThreadActivity::Loads, ThreadActivity::Stores];
        sites.filter(move |&site| waits.contains(&self.meanings[site].activity))
    }

    /// Samples behind branches that may be of the chain of results that decides them as well.
    pub(crate) fn behind_branches_or_chains(&self) -> f64 {
        let open = self.meanings.iter().filter(|meaning| meaning.activity == ThreadActivity::Undecided);
        open.map(|meaning| meaning.waiting).sum()
    }

    /// Samples behind loads that may be of wrong guesses as well: loads on which branches wait that go both ways, and those with
    /// which the right path of such a branch begins.
    pub(crate) fn behind_loads_or_guesses(&self) -> f64 {
        let waiting = |id: usize| {
            let decides =
                self.program.goes_both_ways(id) && self.program.block(id).is_some_and(branches_on_load);
            let begins = self.program.is_guessed(id);
            let loads = self.memory_sites(id).filter(|&site| {
                let is_first = self.program.sites[site].index == 0;
                self.meanings[site].activity == ThreadActivity::Loads && (decides || begins && is_first)
            });
            // What is known to wait for data is of no guess.
            let least = self.bounds_of(id).0 * self.program.samples_of(id);
            (loads.map(|site| self.meanings[site].waiting).sum::<f64>() - least).max(0.0)
        };
        (0..self.program.blocks.len()).map(waiting).sum()
    }

    /// Of the samples that wait behind branches, those behind conditional ones that go both ways often: there a core has to
    /// guess. One that nearly always goes the same way, or a jump to a place that was loaded, may be foreseen every time.
    pub(crate) fn behind_guesses(&self) -> f64 {
        let waits = |id: usize| {
            let first = self.program.blocks[id].first_site;
            let sites = first..first + self.program.sites_of(id).len();
            let behind = sites.filter(|&site| self.meanings[site].activity == ThreadActivity::Branches);
            behind.map(|site| self.meanings[site].waiting).sum::<f64>()
        };
        let is_guess = |&id: &usize| self.program.goes_both_ways(id) || self.program.is_guessed(id);
        // A sum of nothing is -0.
        (0..self.program.blocks.len()).filter(is_guess).map(waits).fold(0.0, |sum, one| sum + one)
    }
}
