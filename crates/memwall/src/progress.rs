//! Progress on stderr, only where a person watches.

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

fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr()).with_style(style)
}
