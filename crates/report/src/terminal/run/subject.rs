//! What was run.

use analysis::findings::{FindingSubject, KnownLimits};
use record::run::Ending;

use crate::{
    layout::prose::{clipped, counted, dotted, width, wrap_in},
    layout::style::QUIET,
};

/// The command, how long, how it ended, how much was seen.
pub fn line(subject: &FindingSubject, columns: usize) -> String {
    let (command, rest) = parts(subject);
    wrap_in(QUIET, "", &dotted([command.as_str(), &rest]), columns) + "\n"
}

/// The same in one line, whatever the command's length.
pub fn clipped_line(subject: &FindingSubject, columns: usize) -> String {
    const LEAST: usize = 16;
    let (command, rest) = parts(subject);
    let command = clipped(&command, columns.saturating_sub(width(&rest) + 3).max(LEAST));
    wrap_in(QUIET, "", &dotted([command.as_str(), &rest]), columns)
}

/// The command, and the rest.
fn parts(subject: &FindingSubject) -> (String, String) {
    let command = match subject.attached {
        Some(pid) => format!("process {pid} ({})", shown(&subject.command)),
        None => shown(&subject.command),
    };
    let elapsed = match &subject.elapsed_ns {
        KnownLimits::Value(ns) => seconds(*ns as f64),
        KnownLimits::Missing(reason) => reason.clone(),
    };
    let mut parts = vec![elapsed, ending(subject.ending)];
    if subject.processes > 1 {
        parts.push(counted(subject.processes as usize, "process"));
    }
    if subject.threads > 1 {
        parts.push(counted(subject.threads as usize, "thread"));
    }
    (command, dotted(parts.iter().map(String::as_str)))
}

/// Seconds with as many digits as matter.
pub fn seconds(ns: f64) -> String {
    let seconds = ns / 1e9;
    match seconds {
        _ if seconds < 0.1 => format!("{:.1} ms", ns / 1e6),
        _ if seconds < 10.0 => format!("{seconds:.2} s"),
        _ if seconds < 600.0 => format!("{seconds:.1} s"),
        _ => format!("{:.1} min", seconds / 60.0),
    }
}

pub(crate) fn ending(ending: Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("exit code {code}"),
        Ending::Signalled(signal) => format!("killed by signal {signal}"),
        Ending::Detached => "went on after the recording".to_owned(),
        Ending::Unknown => "how it ended is not known".to_owned(),
    }
}

/// A command as it could be typed, control characters made visible and long ones shortened.
pub(crate) fn shown(command: &[String]) -> String {
    const LONGEST: usize = 120;
    let quoted = |word: &String| {
        let plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c == '\'');
        if plain { word.clone() } else { format!("'{}'", word.replace('\'', "'\\''")) }
    };
    let line = command.iter().map(quoted).collect::<Vec<_>>().join(" ");
    let line: String = crate::layout::prose::visible(&line.replace('\n', "⏎"));
    if line.chars().count() <= LONGEST {
        return line;
    }
    line.chars().take(LONGEST - 1).chain(['…']).collect()
}
