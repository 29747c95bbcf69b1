//! What can be measured here, as people read it.

use anstyle::{AnsiColor, Style};
use record::doctor::{BestInstrument, Capability, CapabilityState, Checkup, Leftover, LeftoverFate};

use crate::{
    layout::prose::{capitalised, width, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING, paint},
};

const FOUND: Style = AnsiColor::Green.on_default();
const COMMAND: Style = AnsiColor::Cyan.on_default();

/// Below this, names and details do not fit side by side.
const SIDE_BY_SIDE: usize = 60;

/// The checkup in at most `columns`: what was found, what is blocked and the command that would help, what is
/// missing, and what follows from it. `verbose` adds how each row was tried and what it makes possible.
pub fn text(checkup: &Checkup, columns: usize, verbose: bool) -> String {
    let layout = DoctorLayout::new(checkup, columns, verbose);
    let mut out = String::new();
    for (state, heading) in [
        (CapabilityState::Found, "Found"),
        (CapabilityState::Blocked, "Blocked: a permission or a setting is in the way"),
        (CapabilityState::Missing, "Missing: this machine does not have it"),
    ] {
        let rows: Vec<_> = checkup.rows.iter().filter(|row| row.state == state).collect();
        if !rows.is_empty() {
            out += &wrap_in(HEADING, "", heading, columns);
            out.extend(rows.into_iter().map(|row| layout.row(row)));
            out.push('\n');
        }
    }
    out += &conclusion(checkup, columns);
    if !verbose {
        out += &wrap_in(
            QUIET,
            "",
            "How each was tried and what it is good for: memwall doctor --verbose",
            columns,
        );
    }
    out
}

/// What memwalls left behind, and how it goes away; nothing if nothing is left.
pub fn leftovers(all: &[Leftover], columns: usize) -> String {
    if all.is_empty() {
        return String::new();
    }
    let mut out = format!("\n{}", wrap_in(HEADING, "", "Left behind by earlier runs of memwall", columns));
    for Leftover { path, bytes, fate } in all {
        let path = path.display();
        let size = machine::Bytes(*bytes);
        let how = match fate {
            LeftoverFate::NextRecording => "the next 'memwall run' or 'record' removes it".to_owned(),
            LeftoverFate::NextCount => {
                "the next 'memwall count' of an event of resctrl removes it".to_owned()
            }
            LeftoverFate::NeededBy(users) => format!(
                "{} still {} it; the first 'memwall run' or 'record' after that removes it",
                processes(users),
                if users.len() == 1 { "needs" } else { "need" }
            ),
            LeftoverFate::ByHand => {
                format!("kept, or nobody can tell who uses it; remove it with rm -r {path}")
            }
        };
        out += &wrap("  • ", &format!("{path} ({size}): {how}."), columns);
    }
    out
}

/// The first few of them by number.
fn processes(numbers: &[u32]) -> String {
    const SHOWN: usize = 5;
    let first: Vec<String> = numbers.iter().take(SHOWN).map(u32::to_string).collect();
    let what = if numbers.len() == 1 { "process" } else { "processes" };
    let more = if numbers.len() > SHOWN { ", …" } else { "" };
    format!("{what} {}{more}", first.join(", "))
}

/// The best instrument and what it leaves unknown.
fn conclusion(checkup: &Checkup, columns: usize) -> String {
    let (name, meaning) = match checkup.instrument {
        BestInstrument::Pmu => ("pmu", "hardware events"),
        BestInstrument::Timer => ("timer", "samples of the software clock"),
        BestInstrument::Squeeze => ("squeeze", "a stopwatch and interference threads"),
    };
    let mut out = wrap_in(HEADING, "", &format!("Best instrument here: {name} ({meaning})"), columns);
    out += &wrap("  ", &format!("{}.", capitalised(&checkup.because)), columns);
    if !checkup.cannot_tell.is_empty() {
        out.push('\n');
        out += &wrap_in(HEADING, "", "Cannot be told here", columns);
        out.extend(checkup.cannot_tell.iter().map(|line| wrap("  • ", line, columns)));
    }
    out.push('\n');
    out
}

/// How rows are laid out on this terminal.
struct DoctorLayout {
    columns: usize,
    verbose: bool,
    /// Width of the column of names; `None` if each detail gets lines of its own.
    names: Option<usize>,
}

impl DoctorLayout {
    fn new(checkup: &Checkup, columns: usize, verbose: bool) -> Self {
        let longest = checkup.rows.iter().map(|row| width(&row.name)).max().unwrap_or(0);
        Self { columns, verbose, names: (columns >= SIDE_BY_SIDE).then_some(longest) }
    }

    fn row(&self, row: &Capability) -> String {
        let (mark, style) = match row.state {
            CapabilityState::Found => ("✓", FOUND),
            CapabilityState::Blocked => ("!", WARNING),
            CapabilityState::Missing => ("–", QUIET),
        };
        let (mut out, indent) = match self.names {
            Some(names) => {
                let name = &row.name;
                let plain = format!("  {mark} {name:names$}  ");
                let wrapped = wrap(&plain, &row.detail, self.columns);
                let painted = format!("  {} {name:names$}  ", paint(style, mark));
                (painted + &wrapped[plain.len()..], width(&plain))
            }
            None => (
                format!("  {} {}\n{}", paint(style, mark), row.name, wrap("    ", &row.detail, self.columns)),
                4,
            ),
        };
        let indent = " ".repeat(indent);
        if let Some(command) = &row.unlock_with {
            // Never broken: it is there to be copied.
            out += &format!("{indent}$ {}\n", paint(COMMAND, command));
        }
        if self.verbose {
            for (label, text) in [("tried: ", &row.tried), ("for: ", &row.unlocks)] {
                out += &wrap_in(QUIET, &indent, &format!("{label}{text}"), self.columns);
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(
        key: &str,
        name: &str,
        state: CapabilityState,
        detail: &str,
        unlock_with: Option<&str>,
    ) -> Capability {
        Capability {
            key: key.to_owned(),
            name: name.to_owned(),
            state,
            detail: detail.to_owned(),
            tried: format!("opened what {name} needs and looked whether it moved"),
            unlocks: "knowing more".to_owned(),
            unlock_with: unlock_with.map(str::to_owned),
        }
    }

    fn checkup() -> Checkup {
        let paranoid = "sudo sysctl kernel.perf_event_paranoid=0";
        Checkup {
            schema: "memwall.doctor/1".to_owned(),
            rows: vec![
                row(
                    "core_pmu",
                    "Core PMU",
                    CapabilityState::Missing,
                    "ENOENT: the hypervisor passes no counters through",
                    None,
                ),
                row(
                    "uncore_memory_controllers",
                    "Memory controllers",
                    CapabilityState::Blocked,
                    "8 listed; EACCES: kernel.perf_event_paranoid is 2, this needs 0 or less",
                    Some(paranoid),
                ),
                row(
                    "clock_sampling",
                    "Clock sampling",
                    CapabilityState::Found,
                    "12 samples of our own thread arrived",
                    None,
                ),
            ],
            instrument: BestInstrument::Timer,
            because: "there is no core PMU, and clock samples arrive with the registers of the program"
                .to_owned(),
            cannot_tell: vec![
                "how many cache lines moved at each level, and which cycles were stalls: needs core PMU"
                    .to_owned(),
                "what all programs together draw from memory: needs memory controllers (blocked)".to_owned(),
            ],
        }
    }

    fn plain(columns: usize, verbose: bool) -> String {
        anstream::adapter::strip_str(&text(&checkup(), columns, verbose)).to_string()
    }

    #[test]
    fn on_an_ordinary_terminal() {
        insta::assert_snapshot!("doctor", plain(80, false));
    }

    #[test]
    fn with_every_word() {
        insta::assert_snapshot!("doctor_verbose", plain(80, true));
    }

    #[test]
    fn on_a_narrow_terminal() {
        insta::assert_snapshot!("doctor_narrow", plain(44, false));
    }

    #[test]
    fn only_commands_may_exceed_the_columns() {
        for columns in 32..130 {
            for line in plain(columns, true).lines() {
                assert!(width(line) <= columns || line.trim().starts_with('$'), "{columns}: {line}");
            }
        }
    }

    #[test]
    fn states_differ_in_colour_and_groups_without_rows_are_left_out() {
        let coloured = text(&checkup(), 80, false);
        for style in [FOUND, WARNING, COMMAND] {
            assert!(coloured.contains(&style.render().to_string()));
        }
        let mut only = checkup();
        only.rows.retain(|row| row.state == CapabilityState::Found);
        only.cannot_tell.clear();
        let text = text(&only, 80, false);
        assert!(!text.contains("Blocked") && !text.contains("Missing") && !text.contains("Cannot"));
    }
}
