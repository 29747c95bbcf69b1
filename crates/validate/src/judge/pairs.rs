//! Whether a count sees reads for ownership and write-backs (molka2017 §4.1), from pairs of experiments.
//!
//! Three kernels over one stream whose lines come from memory: `load` only reads them. `update` reads and modifies them, so that
//! each goes back: what it counts beyond `load` are write-backs. `store` modifies them without a load, so that each is asked for to
//! be owned and goes back: what it counts beyond these write-backs are reads for ownership.

use record::validate::Observation;
use trust::{KernelPlace, SeenStores};

use super::points::{count, median};
use crate::{
    claims::Candidate,
    quantity::touched,
    roles::{JudgingKernels, Role},
};

/// What is seen of lines that stores modify, for each state of the prefetchers and each place that memory is in.
pub fn sees(candidate: &Candidate, observations: &[Observation], known: &JudgingKernels) -> Vec<SeenStores> {
    let states = [(true, false), (false, false), (true, true), (false, true)];
    let seen = |(prefetch, remote)| {
        let per_line = |fits: fn(&Role) -> bool| {
            let found = observations.iter().filter(|one| {
                let experiment = &one.experiment;
                known.is(&experiment.kernel, fits)
                    && experiment.place == KernelPlace::Memory
                    && (experiment.prefetch, experiment.remote) == (prefetch, remote)
                    && experiment.cores == 1
                    && !experiment.siblings
                    && experiment.width.is_none()
            });
            let rates: Vec<f64> =
                found.filter_map(|one| Some(count(candidate, one)? / touched(one).max(1.0))).collect();
            median(&rates)
        };
        let load = per_line(|role| role.moves_one() && !role.stores())?;
        let out = per_line(Role::updates_one)? - load;
        let owned = per_line(|role| role.moves_one() && role.stores())? - out;
        Some(SeenStores { prefetch, remote, owned, out })
    };
    states.into_iter().filter_map(seen).collect()
}
