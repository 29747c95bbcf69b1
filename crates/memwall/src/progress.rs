//! Progress on stderr, only where a person watches.

use std::{
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError, Sender},
    },
    thread::JoinHandle,
    time::Duration,
};

use host::simulated::SimulationProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use machine::letters;

/// Steps of a bar whose length is a fraction.
const WHOLE: u64 = 1000;

/// A bar that counts to `steps`; hidden unless stderr is a terminal.
pub fn counting(steps: usize) -> ProgressBar {
    bar(steps as u64, "{bar:24} {pos}/{len} {msg}")
}

/// A bar that fills with a fraction; hidden unless stderr is a terminal.
pub fn filling() -> ProgressBar {
    bar(WHOLE, "{bar:24} {percent:>3} % {elapsed:>4} {msg}")
}

/// Sets a bar made by [`filling`].
pub fn fill(bar: &ProgressBar, fraction: f64, message: &str) {
    bar.set_position((fraction.clamp(0.0, 1.0) * WHOLE as f64) as u64);
    bar.set_message(letters::visible(message));
}

/// How often a simulation is looked at.
const LOOK: Duration = Duration::from_millis(200);

/// A bar that follows a simulation until it is dropped; what takes no longer than a look shows none.
pub struct Watched {
    /// Dropped first, which ends the thread.
    done: Option<Sender<()>>,
    watcher: Option<JoinHandle<()>>,
}

impl Watched {
    /// Follows `progress`; `what` stands beside the bar.
    pub fn new(progress: Arc<SimulationProgress>, what: &'static str) -> Self {
        let bar = filling();
        if bar.is_hidden() {
            return Self { done: None, watcher: None };
        }
        let (done, ended) = mpsc::channel();
        let watcher = std::thread::spawn(move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                progress.share().into_iter().for_each(|share| fill(&bar, share, what));
            }
            bar.finish_and_clear();
        });
        Self { done: Some(done), watcher: Some(watcher) }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        drop(self.done.take());
        // Nothing is lost if it panicked but a bar.
        self.watcher.take().map(JoinHandle::join);
    }
}

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr()).with_style(style)
}
