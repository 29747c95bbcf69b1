//! How right clock samples were on kernels drawn at random.

use ::trust::{ErrorSummary, OutOfSample, PartStanding, UnseenCase};

use crate::{
    layout::prose::{counted, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING, paint},
    layout::table::{Cell, Column, Table},
};

/// Nothing if none were tried.
pub fn text(unseen: Option<&OutOfSample>, columns: usize) -> String {
    let Some(unseen) = unseen else { return String::new() };
    let heading = match unseen.with_relief {
        true => "Shares of waiting on kernels drawn at random, their loops relieved as well",
        false => "Shares of waiting on kernels drawn at random",
    };
    let mut out = format!("\n{}\n", paint(HEADING, heading));
    out += &wrap("  ", &in_short(unseen), columns);
    out += &table(unseen, columns);
    out += &wrap_in(QUIET, "  ", &promises(unseen), columns);
    out
}

/// As it is quoted to users.
pub(crate) fn in_short(unseen: &OutOfSample) -> String {
    let OutOfSample { all, runs, seeds: (first, last), unsteady, .. } = unseen;
    let (kernels, runs) = (counted(all.kernels, "kernel"), counted(*runs, "run"));
    let right = match (all.within, all.worst) {
        (Some(within), Some(worst)) => {
            format!("9 of 10 within {} points, worst {}", points(within), points(worst))
        }
        _ => "none was decided".to_owned(),
    };
    let apart = match unsteady {
        0 => String::new(),
        _ => format!("; {} more left out whose time was not steady to 3 points", unsteady),
    };
    format!("{right}: {kernels}, {} decided, {runs}, seeds {first} to {last}{apart}", all.decided)
}

fn table(unseen: &OutOfSample, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("of").left(),
        Column::new("kernels"),
        Column::new("decided").group("all").part(1),
        Column::new("median").group("all").part(1).drop_rank(1),
        Column::new("9 of 10").group("all").part(1),
        Column::new("worst").group("all").part(1),
        Column::new("").left(),
        Column::new("decided").called("decided to 20 points").group("to 20 points").part(2).drop_rank(2),
        Column::new("9 of 10").called("9 of 10 of these").group("to 20 points").part(2).drop_rank(2),
        Column::new("worst").called("worst of these").group("to 20 points").part(2).drop_rank(2),
    ]);
    for one in &unseen.parts {
        let ErrorSummary { kernels, decided, median, within, worst, .. } = one.errors;
        let error = |value: Option<f64>| Cell::from(value.map_or("–".to_owned(), points));
        let word = match one.errors.standing() {
            PartStanding::Good => Cell::from(""),
            PartStanding::Off => Cell::styled("rough", WARNING),
            PartStanding::Broken => Cell::styled("broken", WARNING),
            PartStanding::Untried => Cell::styled("too few", QUIET),
        };
        table.row(vec![
            Cell::from(one.part.name()),
            Cell::from(kernels.to_string()),
            Cell::from(decided.to_string()),
            error(median),
            error(within),
            error(worst),
            word,
            Cell::from(one.narrow.decided.to_string()),
            error(one.narrow.within),
            error(one.narrow.worst),
        ]);
    }
    table.render(columns).text
}

/// Whether what was promised was kept.
pub(crate) fn promises(unseen: &OutOfSample) -> String {
    let OutOfSample { held, intervals, width, high, high_and_off, all, levels, .. } = unseen;
    let levels = match levels.kernels {
        0 => String::new(),
        kernels => format!(
            " Of {kernels} that wait for more than a fifth of their time the level was named for {}, and right for {}.",
            levels.named, levels.right
        ),
    };
    let width = width.map_or(String::new(), |width| format!(", {} points wide in the middle", points(width)));
    format!(
        "Intervals hold the truth in {held} of {intervals} (9 of 10 should){width}; {} of {} undecided; called high {high}, of \
         these off by more than 15 points {high_and_off}.{levels}",
        all.kernels.saturating_sub(all.decided),
        all.kernels
    )
}

/// One line for each kernel, for whoever makes rules.
pub fn cases(cases: &[UnseenCase]) -> String {
    let mut out = format!(
        "{:>8} {:>9} {:<7} {:>9} {:>6} {:>9} {:<5} classes\n",
        "seed", "KiB", "level", "true", "found", "interval", "sure"
    );
    for case in cases {
        let [first, second] = case.truths.map(points);
        let found = case.found.map_or(["?".to_owned(), "?".to_owned()], |[value, low, high]| {
            [points(value), format!("{}..{}", points(low), points(high))]
        });
        let sure = if case.sure { "sure" } else { "" };
        let mark = match case.error() {
            _ if !case.is_steady() => " unsteady",
            None => " undecided",
            Some(error) if error > ErrorSummary::CLOSE => " <-- off",
            Some(_) => "",
        };
        let classes: Vec<&str> = case.classes.iter().map(|class| class.name()).collect();
        out += &format!(
            "{:>8} {:>9} {:<7} {:>9} {:>6} {:>9} {:<5} {}{mark}\n",
            case.seed,
            case.footprint.0 >> 10,
            case.level.name(),
            format!("{first}, {second}"),
            found[0],
            found[1],
            sure,
            classes.join(" ")
        );
    }
    out
}

fn points(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::trust::{AccessClass, KernelPlace};
    use machine::Bytes;

    fn case(seed: u64, class: AccessClass, found: f64) -> UnseenCase {
        UnseenCase {
            rules: "a".to_owned(),
            run: seed % 2,
            seed,
            classes: vec![class],
            level: KernelPlace::L3,
            footprint: Bytes::mib(3),
            truths: [0.5, 0.5],
            turn_ns: None,
            found: Some([found, found - 0.1, found + 0.1]),
            decided: true,
            sure: true,
            waits_at: None,
            samples: 500,
            with_relief: false,
        }
    }

    #[test]
    fn what_users_are_told_names_kernels_runs_and_the_class_that_fails() {
        let loads = (0..20).map(|seed| case(seed, AccessClass::Loads, 0.53));
        let stores = (20..23).map(|seed| case(seed, AccessClass::Stores, 0.08));
        let mut cases: Vec<UnseenCase> = loads.chain(stores).collect();
        cases[0].truths = [0.3, 0.7];
        cases[1].decided = false;
        let found = OutOfSample::of(&cases, "a");
        let text = super::text(found.as_ref(), 120);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for expected in [
            "9 of 10 within 42 points, worst 42: 22 kernels, 21 decided, 2 runs, seeds 0 to 22; 1 more left out",
            "stores 3 3 42 42 42 \u{1b}[33mbroken",
            "loads 19 18 3 3 3",
            "Intervals hold the truth in 19 of 22",
            "1 of 22 undecided; called high 0, of these off by more than 15 points 0.",
        ] {
            assert!(words.contains(expected), "{expected}: {words}");
        }
        let lines = super::cases(&cases);
        assert!(
            lines.contains("unsteady") && lines.contains("undecided") && lines.contains("<-- off"),
            "{lines}"
        );
        assert_eq!(super::text(None, 80), "");
    }
}
