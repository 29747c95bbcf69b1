//! How close memwall came on a program whose truth was measured beside it.

use analysis::{
    findings::{KnownLimits, TimeShare},
    phase_check::{Closeness, PhaseCheck},
};

use crate::{
    layout::figures::{absent, percent_text},
    layout::prose::{counted, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// The checks in at most `columns`.
pub fn text(checks: &[PhaseCheck], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("phase").left(),
        Column::new("waits, measured"),
        Column::new("memwall says"),
        Column::new("").left().called("how close that is"),
    ]);
    for check in checks {
        let closeness = check.closeness();
        table.row(vec![
            check.name.as_str().into(),
            share(&check.truth),
            share(&check.answer),
            word(&closeness),
        ]);
    }
    let mut out = wrap_in(HEADING, "", "How close is that?", columns);
    out += &wrap(
        "",
        "Each phase was also timed on data that fits the first cache, before and after: what that saves is what it waits \
         for memory. Shares of the phase's own time.",
        columns,
    );
    out += "\n";
    out += &table.render(columns).text;
    for check in checks {
        if let Closeness::Undecided(reason) = check.closeness() {
            out += &wrap_in(QUIET, "", &format!("{}: {reason}.", check.name), columns);
        }
    }
    out + &wrap("", &summary(checks), columns)
}

/// How many of them were right, and by how much.
fn summary(checks: &[PhaseCheck]) -> String {
    let all: Vec<Closeness> = checks.iter().map(PhaseCheck::closeness).collect();
    let count = |wanted: fn(&Closeness) -> bool| all.iter().filter(|one| wanted(one)).count();
    let agree = count(|one| matches!(one, Closeness::Agrees { .. }));
    let wrong = count(|one| matches!(one, Closeness::Disagrees { .. }));
    let open = all.len() - agree - wrong;
    let mut text =
        format!("Right within what it says of itself: {agree} of {}.", counted(all.len(), "phase"));
    if wrong > 0 {
        text += &format!(
            " Wrong: {wrong}. 'memwall calibrate' and 'memwall validate' tell memwall more of this machine; they take minutes."
        );
    }
    if open > 0 {
        text +=
            &format!(" Left open: {open}, which is an answer on a busy machine; try again when it is idle.");
    }
    text
}

/// `97 % (96 to 98)`.
fn share(known: &KnownLimits<TimeShare>) -> Cell {
    let Some(share) = known.value() else { return absent() };
    let [value, low, high] = [share.value, share.low, share.high].map(percent_text);
    format!("{value} % ({low} to {high})").into()
}

fn word(closeness: &Closeness) -> Cell {
    let points = |difference: &f64| {
        let points = (difference * 100.0).round();
        if points == 1.0 { "1 point".to_owned() } else { format!("{points} points") }
    };
    match closeness {
        Closeness::Agrees { difference } => Cell::styled(format!("right to {}", points(difference)), PLAIN),
        Closeness::Disagrees { difference } => {
            Cell::styled(format!("wrong by {}", points(difference)), WARNING)
        }
        Closeness::Undecided(_) => Cell::styled("left open", QUIET),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, truth: Option<f64>, (value, low, high): (f64, f64, f64)) -> PhaseCheck {
        let narrow = |value: f64| TimeShare { value, low: value - 0.01, high: value + 0.01 };
        PhaseCheck {
            name: name.to_owned(),
            about: String::new(),
            truth: truth.map_or_else(
                || KnownLimits::Missing("too busy".to_owned()),
                |value| KnownLimits::Value(narrow(value)),
            ),
            answer: KnownLimits::Value(TimeShare { value, low, high }),
        }
    }

    #[test]
    fn right_wrong_and_open_are_told_apart() {
        let checks = [
            check("chase", Some(0.97), (0.95, 0.9, 0.99)),
            check("walk", Some(0.5), (0.8, 0.7, 0.9)),
            check("sum", None, (0.0, 0.0, 0.05)),
        ];
        let text = anstream::adapter::strip_str(&text(&checks, 100)).to_string();
        for wanted in [
            "97 % (96 to 98)",
            "right to 2 points",
            "wrong by 30 points",
            "left open",
            "sum: too busy.",
            "Right within what it says of itself: 1 of 3 phases. Wrong: 1.",
        ] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
}
