//! Errors as they are quoted: over all runs that are kept, with the worst of them, on how many kernels.

use record::validate::Observation;
use trust::{Purpose, Quantity, Trust};
use validate::{claims::Candidate, judge::volume, quantity::KnownQuantity as _};

use crate::{drawn::stored, known};

const EVENT: &str = "LINES";
const CLAIMED: Quantity = Quantity::L1In;

/// The stored experiments under an event that is right but in one run of one of them, where it is off by so much.
fn counted(kernel: &str, run: u32, off: f64) -> Vec<Observation> {
    let mut all = stored();
    for one in &mut all {
        let here = (one.experiment.kernel.as_str(), one.experiment.run) == (kernel, run);
        let factor = if here { 1.0 + off } else { 1.0 };
        let count = CLAIMED.of(one).map(|truth| vec![(EVENT.to_owned(), Ok(truth * factor))]);
        (one.counts, one.imbalance) = (count.unwrap_or_default(), Vec::new());
    }
    all
}

#[test]
fn one_bad_run_is_quoted_though_the_middle_of_all_is_right() {
    // Its second run of several, so that neither the first nor the middle shows it.
    let observations = counted("triad", 2, -0.04);
    let runs: Vec<u32> = observations
        .iter()
        .filter(|one| one.experiment.kernel == "triad")
        .map(|one| one.experiment.run)
        .collect();
    assert!(runs.contains(&1) && runs.contains(&2), "{runs:?}");
    let judged = volume::judge(&Candidate::event(EVENT, Purpose::Volume(CLAIMED)), &observations, &known());
    let errors = judged.errors.unwrap();
    let work = observations.iter().filter(|one| one.experiment.place != trust::KernelPlace::Registers);
    let tried: Vec<&Observation> = work.filter(|one| !one.counts.is_empty()).collect();
    let mut kernels: Vec<&str> = tried.iter().map(|one| one.experiment.kernel.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    assert!((errors.worst + 0.04).abs() < 1e-9, "{errors:?}");
    assert_eq!((errors.observations, errors.kernels), (tried.len(), Some(kernels.len())));
    assert!(errors.mean > -0.04 && errors.mean < 0.0 && errors.least == 0.0, "{errors:?}");
    assert!(judged.evidence[0].experiment.starts_with("triad"), "{:?}", judged.evidence[0]);
    assert!((judged.evidence[0].error.unwrap() + 0.04).abs() < 1e-9, "{:?}", judged.evidence[0]);
    // What is printed is twice what the worst run showed, not the middle of the runs.
    match judged.trust {
        Trust::Trusted { error } => assert!((error - 0.08).abs() < 1e-9, "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_run_beyond_what_is_believed_makes_it_rough() {
    let observations = counted("triad", 2, -0.3);
    let judged = volume::judge(&Candidate::event(EVENT, Purpose::Volume(CLAIMED)), &observations, &known());
    assert!(!matches!(judged.trust, Trust::Trusted { .. }), "{:?}", judged.trust);
}
