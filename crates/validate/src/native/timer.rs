//! The timer instrument against time: shares of waiting by class, addresses, skid, and the share above which an interval
//! is flagged.

mod cases;
mod verdicts;

use std::sync::atomic::{AtomicBool, Ordering};

use record::run::Run;
use trust::{Judged, Threshold, Trust};

use host::timer::skid;

use crate::{Observer, unseen::Answer};

/// What the timer instrument makes of a recording: shares of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waiting {
    /// Waiting on loads.
    pub loads: f64,
    /// Waiting on stores.
    pub stores: f64,
    /// Waiting on atomics and fences.
    pub atomics: f64,
    /// Waiting on divides.
    pub divides: f64,
    /// Waiting on chains of other operations.
    pub chains: f64,
    /// Waiting on branches.
    pub branches: f64,
    /// Nobody knows.
    pub undecided: f64,
}

impl Waiting {
    /// Waiting for memory.
    pub fn memory(&self) -> f64 {
        self.loads + self.stores + self.atomics
    }
}

/// What the analysis makes of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Analysed {
    /// Class by class.
    pub waiting: Waiting,
    /// In short.
    pub answer: Answer,
}

/// The analysis under test.
pub type Analyse<'a> = dyn Fn(&Run) -> Option<Analysed> + 'a;

/// What came of it.
pub struct Outcome {
    /// Verdicts.
    pub indicators: Vec<Judged>,
    /// The share above which an interval is flagged.
    pub threshold: Option<Threshold>,
    /// It ran to its end.
    pub done: bool,
    /// Why not, or what was left out.
    pub missing: Option<String>,
    /// How many experiments.
    pub experiments: usize,
}

/// Judges the instrument on one CPU.
pub fn judge(
    cpu: u32,
    quick: bool,
    analyse: &Analyse<'_>,
    observer: &mut dyn Observer,
    interrupt: &AtomicBool,
) -> Outcome {
    let cases = cases::all(quick);
    let mut found = Vec::new();
    let (mut done, mut missing) = (true, None);
    for (at, case) in cases.iter().enumerate() {
        if interrupt.load(Ordering::Relaxed) {
            (done, missing) = (false, Some("interrupted; the next call makes these again".to_owned()));
            break;
        }
        let share = at as f64 / cases.len() as f64;
        observer.progress(&format!("clock samples of {}", case.label()), share);
        match case.measure(cpu, quick, analyse) {
            Ok(one) => found.push(one),
            Err(why) => missing = Some(why),
        }
    }
    let untested = missing.as_deref().unwrap_or("no kernel was sampled");
    let mut indicators = vec![verdicts::shares(&found, untested)];
    indicators.extend(verdicts::classes(&found, untested));
    indicators.push(verdicts::addresses(&found, untested));
    indicators.push(match skid::measure(&pmu::Live, cpu, 1) {
        Ok(timer) => verdicts::skid(&timer),
        Err(error) => verdicts::no_skid(Trust::Untested { missing: error.to_string() }),
    });
    let threshold = verdicts::threshold(&found);
    Outcome { indicators, threshold, done, missing, experiments: found.len() }
}
