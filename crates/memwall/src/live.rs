//! What a recording says while it goes on, for whoever watches a terminal: the report's own analysis of some samples every
//! few seconds, on a thread of ours that gives way to all others.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use analysis::{findings::TimeShare, timer};
use machine::Profile;
use recorder::{SampledMoment, program::signals::CaughtSignals};
use report::layout::{figures::percent_text, signature::function_name};

/// Functions that are remembered; a program with more has no single one to name.
const MOST_FUNCTIONS: usize = 1000;
/// Letters of a function's name.
const NAME: usize = 32;

/// See the module.
pub struct LiveVerdict {
    moments: Option<SyncSender<SampledMoment>>,
    words: Arc<Mutex<Option<String>>>,
    worker: Option<JoinHandle<()>>,
}

impl LiveVerdict {
    /// For a recording that begins now, on a machine with this profile.
    pub fn begin(profile: Option<Profile>) -> Self {
        // A moment that comes while another is looked at is left out.
        let (moments, received) = sync_channel(1);
        let words = Arc::new(Mutex::new(None));
        let told = Arc::clone(&words);
        // A thread that lets signals in would take those meant for the program.
        let blocked = CaughtSignals::catch();
        let worker = std::thread::Builder::new()
            .name("live verdict".to_owned())
            .spawn(move || work(&received, &told, profile.as_ref()))
            .ok();
        drop(blocked);
        Self { moments: Some(moments), words, worker }
    }

    /// Looks at some samples when there is time for it.
    pub fn look(&self, moment: SampledMoment) {
        if let Some(moments) = &self.moments {
            let _ = moments.try_send(moment);
        }
    }

    /// Where the words are found that stand behind how long it has gone on.
    pub fn words(&self) -> Arc<Mutex<Option<String>>> {
        Arc::clone(&self.words)
    }
}

impl Drop for LiveVerdict {
    fn drop(&mut self) {
        self.moments = None;
        if let Some(worker) = self.worker.take() {
            // It has at most one moment left to look at.
            let _ = worker.join();
        }
    }
}

fn work(moments: &Receiver<SampledMoment>, words: &Mutex<Option<String>>, profile: Option<&Profile>) {
    // Refused: it then takes its turn like others.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
    let mut so_far = WaitingSoFar::default();
    for moment in moments {
        let findings = timer::analyse(&moment.run, profile, &timer::TimerOptions::default());
        if let Some(memory) = findings.verdict.memory.filter(|_| findings.has_enough_samples()) {
            let functions = findings
                .symbols
                .iter()
                .map(|symbol| (symbol.name.as_str(), symbol.user_share.value * symbol.split.memory()));
            so_far.add(findings.about.samples as f64, &memory, functions);
        }
        *words.lock().unwrap_or_else(PoisonError::into_inner) = so_far.words();
    }
}

/// Waiting for memory in all moments that were looked at.
#[derive(Debug, Default)]
struct WaitingSoFar {
    samples: f64,
    memory: [f64; 3],
    functions: HashMap<String, f64>,
}

impl WaitingSoFar {
    /// A moment: its samples, the share of them that waits, and the share of each function that does.
    fn add<'a>(&mut self, samples: f64, memory: &TimeShare, functions: impl Iterator<Item = (&'a str, f64)>) {
        self.samples += samples;
        for (sum, share) in self.memory.iter_mut().zip([memory.value, memory.low, memory.high]) {
            *sum += share * samples;
        }
        for (name, share) in functions {
            if let Some(sum) = self.functions.get_mut(name) {
                *sum += share * samples;
            } else if self.functions.len() < MOST_FUNCTIONS {
                self.functions.insert(name.to_owned(), share * samples);
            }
        }
    }

    /// `so far 87 % (58 to 92) of user time waits for memory, most of it in probe`; nothing before the first moment.
    fn words(&self) -> Option<String> {
        if self.samples <= 0.0 {
            return None;
        }
        let [value, low, high] = self.memory.map(|sum| percent_text(sum / self.samples));
        let most = self.functions.iter().max_by(|a, b| a.1.total_cmp(b.1).then_with(|| b.0.cmp(a.0)));
        // Half of the waiting, and enough of it to be worth a name.
        let most = most.filter(|(_, sum)| **sum >= self.memory[0] / 2.0 && **sum >= 0.05 * self.samples);
        let place = most.map(|(name, _)| format!(", most of it in {}", function_name(name, NAME)));
        Some(format!("so far {value} % ({low} to {high}) waits for memory{}", place.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_add_up_by_their_samples() {
        let mut so_far = WaitingSoFar::default();
        assert_eq!(so_far.words(), None);
        let share = |value: f64| TimeShare { value, low: value - 0.1, high: value + 0.1 };
        so_far.add(100.0, &share(0.2), [("setup", 0.15)].into_iter());
        assert_eq!(
            so_far.words().expect("a moment"),
            "so far 20 % (10 to 30) waits for memory, most of it in setup"
        );
        so_far.add(
            300.0,
            &share(0.8),
            [("setup", 0.0), ("std::find<int*, long>(int*, int*)", 0.7)].into_iter(),
        );
        assert_eq!(
            so_far.words().expect("a moment"),
            "so far 65 % (55 to 75) waits for memory, most of it in std::find<int*, long>(…)"
        );
        so_far.add(100_000.0, &share(0.11), std::iter::empty());
        assert!(!so_far.words().expect("a moment").contains("most of it"), "no function has half of it now");
    }
}
