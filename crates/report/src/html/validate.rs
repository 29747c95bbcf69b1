//! The page of a validation: verdicts to sort and filter, and events per access by data set size (as molka2017 Figures
//! 3 to 9).

use ::trust::{ErrorSummary, Judged, OutOfSample, PartStanding, Sweep, Threshold, Trust, Validation};

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    markup::{Html, element, list, paragraph, section},
    profile::Sheet,
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::plot::{Axis, PlottedQuantity, Scale},
    layout::prose::counted,
    terminal::validate::{IndicatorSection, bound, in_short, promises},
};

/// More curves in one drawing cannot be told apart.
const MOST_CURVES: usize = 4;
/// Fewer events per access are none.
const SILENT: f64 = 0.002;
/// Curves that differ by no more than this part of their height coincide.
const ALIKE: f64 = 0.01;
/// The order in which indicators are drawn.
const TRUST_FIRST: [&str; 4] = ["trusted", "qualitative", "broken", "untested"];

/// The order in which people have to know.
const BROKEN_FIRST: [&str; 4] = ["broken", "qualitative", "trusted", "untested"];
/// Broken indicators named in the summary.
const MOST_NAMED: usize = 5;

/// The page, as one file.
pub fn validate(validation: &Validation) -> String {
    let notes = validation.steps.iter().map(|step| match &step.missing {
        Some(missing) => format!("{}: {missing}", step.name),
        None => format!("{}: {}", step.name, counted(step.experiments, "experiment")),
    });
    let body = Html::all([
        section("summary", "Summary", summary(validation)),
        section("verdicts", "Every indicator", [place("verdicts-table")]),
        section("random", "Kernels drawn at random", random(validation)),
        section("levels", "Best indicator of each level", [place("levels-table")]),
        section("thresholds", "Thresholds of this machine", [place("thresholds-table")]),
        section("curves", "Events per access, by data set size", figures(validation)),
        section("steps", "What was done", [list("notes", notes)]),
    ]);
    let page = PageFrame {
        title: "Validation".to_owned(),
        kind: "validation",
        subtitle: vec![validation.instrument.clone(), validation.fingerprint.cpu.clone()],
        contents: vec![
            ("summary", "Summary"),
            ("verdicts", "Indicators"),
            ("random", "Random kernels"),
            ("levels", "Levels"),
            ("thresholds", "Thresholds"),
            ("curves", "Curves"),
            ("steps", "Steps"),
        ],
        body,
        data: Sheet {
            page: "sheet",
            tables: vec![
                levels(validation),
                verdicts(validation),
                thresholds(validation),
                standings("random-table", validation.unseen.as_ref()),
                standings("relieved-table", validation.unseen_with_relief.as_ref()),
            ],
        },
    };
    page.render()
}

/// How many indicators hold, and which do not.
fn summary(validation: &Validation) -> Vec<Html> {
    let of = |word: &'static str| validation.indicators.iter().filter(move |one| one.trust.word() == word);
    let tile = |word: &'static str, class: &str, means: &str| {
        let count = of(word).count();
        // None is nothing to be warned of.
        let class = if count > 0 { format!("figure {class}") } else { "figure".to_owned() };
        let figure = element("span").set("class", class).say(count.to_string()).end();
        let parts = [("what", word), ("more", means)];
        let parts = parts.map(|(class, text)| element("span").set("class", class).say(text).end());
        element("li").with([figure]).with(parts).end()
    };
    let tiles = [
        tile("broken", "bad", "values are withheld"),
        tile("qualitative", "warn", "tells something, but no number"),
        tile("trusted", "good", "within the error shown"),
        tile("untested", "", "cannot be counted here, or nothing known to try it on"),
    ];
    let named = of("broken")
        .take(MOST_NAMED)
        .map(|one| format!("Broken: {} for {}: {}", one.name, one.purpose, why(one)));
    let more = of("broken").count().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("{more} more broken indicators are in the table."));
    let clock = validation
        .unseen
        .as_ref()
        .map(|unseen| format!("Clock samples on random kernels: {}.", in_short(unseen)));
    vec![
        element("ul").set("class", "tiles").set("aria-label", "Indicators by trust").with(tiles).end(),
        list("notes", named.chain(more).chain(clock)),
    ]
}

/// How right clock samples were out of sample.
fn random(validation: &Validation) -> Vec<Html> {
    let mut parts = match &validation.unseen {
        None => {
            vec![paragraph("quiet", "None were tried; 'memwall validate --random-kernels 60' tries sixty.")]
        }
        Some(unseen) => vec![
            paragraph("", &format!("Shares of waiting: {}.", in_short(unseen))),
            place("random-table"),
            paragraph("quiet", &promises(unseen)),
        ],
    };
    if let Some(relieved) = &validation.unseen_with_relief {
        parts.push(paragraph("", &format!("With their loops relieved as well: {}.", in_short(relieved))));
        parts.push(place("relieved-table"));
        parts.push(paragraph("quiet", &promises(relieved)));
    }
    parts
}

/// Errors by class of access and by level, those that fail first.
fn standings(id: &'static str, unseen: Option<&OutOfSample>) -> DataTable {
    let columns = [
        ("of", ColumnKind::Text),
        ("worth", ColumnKind::Trust),
        ("kernels", ColumnKind::Count),
        ("decided", ColumnKind::Count),
        ("median error, points", ColumnKind::Points),
        ("9 of 10 within", ColumnKind::Points),
        ("worst", ColumnKind::Points),
        ("decided to 20 points", ColumnKind::Count),
        ("9 of 10 of these within", ColumnKind::Points),
        ("worst of these", ColumnKind::Points),
    ];
    let standing = |errors: &ErrorSummary| match errors.standing() {
        PartStanding::Broken => (0, "broken"),
        PartStanding::Off => (1, "rough"),
        PartStanding::Good => (2, "good"),
        PartStanding::Untried => (3, "too few"),
    };
    let mut parts: Vec<_> = unseen.into_iter().flat_map(|unseen| &unseen.parts).collect();
    parts.sort_by_key(|part| standing(&part.errors).0);
    let rows = parts.into_iter().map(|part| -> Vec<CellValue> {
        let ErrorSummary { kernels, decided, median, within, worst, .. } = part.errors;
        vec![
            part.part.name().to_owned().into(),
            standing(&part.errors).1.to_owned().into(),
            (kernels as f64).into(),
            (decided as f64).into(),
            median.into(),
            within.into(),
            worst.into(),
            (part.narrow.decided as f64).into(),
            part.narrow.within.into(),
            part.narrow.worst.into(),
        ]
    });
    DataTable {
        id,
        caption: "Errors of the share of waiting, by class of access and by level".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}

/// Drawings per kernel and part of the machine, the most believable indicators first.
fn figures(validation: &Validation) -> Vec<Html> {
    if validation.sweeps.is_empty() {
        return vec![paragraph("quiet", "No sizes were swept; validate without --quick.")];
    }
    let mut kernels: Vec<&str> = validation.sweeps.iter().map(|sweep| sweep.kernel.as_str()).collect();
    kernels.dedup();
    let mut drawn = vec![paragraph(
        "quiet",
        "Events counted per load or store on one core, over the size of the data. An event that measures a level rises where \
         the data no longer fits into the level above it. Curves that coincide are drawn once.",
    )];
    for kernel in kernels {
        for section in IndicatorSection::ALL {
            drawn.extend(part(validation, kernel, section));
        }
    }
    drawn.extend(silent(validation));
    drawn
}

/// The drawings of one part of the machine.
fn part(validation: &Validation, kernel: &str, section: IndicatorSection) -> Vec<Html> {
    let mut here: Vec<(&Judged, &Sweep)> = validation
        .sweeps
        .iter()
        .filter(|sweep| sweep.kernel == kernel && !is_silent(sweep))
        .filter_map(|sweep| {
            Some((validation.indicators.iter().find(|one| one.name.name() == sweep.indicator)?, sweep))
        })
        .filter(|(judged, _)| IndicatorSection::of(judged) == section)
        .collect();
    here.sort_by_key(|(judged, _)| TRUST_FIRST.iter().position(|word| *word == judged.trust.word()));
    let mut together: Vec<(Vec<&str>, &Sweep)> = Vec::new();
    for (judged, sweep) in here {
        match together.iter_mut().find(|(_, other)| coincide(sweep, other)) {
            Some((names, _)) => names.push(judged.name.name()),
            None => together.push((vec![judged.name.name()], sweep)),
        }
    }
    let figure = |(number, some): (usize, &[(Vec<&str>, &Sweep)])| -> Option<Html> {
        let more = if number > 0 { ", continued" } else { "" };
        let curves = Curves {
            title: format!("{}{more}: events per access of {kernel}", section.title()),
            x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
            y: Axis { quantity: PlottedQuantity::PerAccess, scale: Scale::Linear },
            curves: some.iter().map(|(names, sweep)| curve(names, sweep)).collect(),
            guides: Vec::new(),
            limits: Vec::new(),
        };
        Some(Html::all([curves.figure()?].into_iter().chain(some.iter().filter_map(coinciding))))
    };
    together.chunks(MOST_CURVES).enumerate().filter_map(figure).collect()
}

/// Which indicators a curve stands for, if it is more than one.
fn coinciding((names, _): &(Vec<&str>, &Sweep)) -> Option<Html> {
    let (first, rest) = names.split_first().filter(|(_, rest)| !rest.is_empty())?;
    Some(paragraph("quiet", &format!("{first} coincides with {}.", rest.join(", "))))
}

/// Whether an indicator hardly counted at any size.
fn is_silent(sweep: &Sweep) -> bool {
    sweep.points.iter().all(|(_, events)| events.abs() < SILENT)
}

/// Whether two curves cannot be told apart in a drawing.
fn coincide(one: &Sweep, other: &Sweep) -> bool {
    let highest = one.points.iter().map(|(_, events)| events.abs()).fold(SILENT, f64::max);
    let near =
        |(a, b): (&(machine::Bytes, f64), &(machine::Bytes, f64))| (a.1 - b.1).abs() <= ALIKE * highest;
    one.points.len() == other.points.len() && one.points.iter().zip(&other.points).all(near)
}

/// What is not drawn because it lies on the axis.
fn silent(validation: &Validation) -> Option<Html> {
    let is_heard =
        |name: &str| validation.sweeps.iter().any(|sweep| sweep.indicator == name && !is_silent(sweep));
    let mut names: Vec<&str> = validation.sweeps.iter().map(|sweep| sweep.indicator.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| !is_heard(name));
    (!names.is_empty())
        .then(|| paragraph("quiet", &format!("Hardly counted at any size: {}.", names.join(", "))))
}

fn curve(names: &[&str], sweep: &Sweep) -> Curve {
    let spot = |(size, y): &(machine::Bytes, f64)| Spot { x: size.0 as f64, y: *y, interval: None };
    let name = match names {
        [first, rest @ ..] if !rest.is_empty() => format!("{first} and {} more", rest.len()),
        names => names.concat(),
    };
    Curve { name, points: sweep.points.iter().map(spot).collect() }
}

fn levels(validation: &Validation) -> DataTable {
    let columns = [
        ("level", ColumnKind::Text),
        ("cores", ColumnKind::Count),
        ("indicator", ColumnKind::Text),
        ("trust", ColumnKind::Trust),
        ("highest rate, M/s", ColumnKind::Number),
        ("lines, M/s", ColumnKind::Number),
        ("molka2017", ColumnKind::Text),
    ];
    let rows = validation.best.iter().map(|best| -> Vec<CellValue> {
        let paper = best.paper.as_ref().map(|paper| format!("{}: {}", paper.indicator, paper.trust.word()));
        vec![
            best.name().into(),
            (best.cores as f64).into(),
            best.indicator.clone().unwrap_or_else(|| "none found fit".to_owned()).into(),
            best.trust.as_ref().map_or("–", Trust::word).to_owned().into(),
            best.events_per_s.map(|rate| rate / 1e6).into(),
            (best.lines_per_s / 1e6).into(),
            paper.unwrap_or_else(|| "the same, or none".to_owned()).into(),
        ]
    });
    DataTable {
        id: "levels-table",
        caption: "Best indicator of each level, and its highest rate".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: rows.collect(),
    }
}

/// Why it has the trust it has.
fn why(one: &Judged) -> String {
    match &one.trust {
        Trust::Trusted { .. } => one.remarks.join(" "),
        Trust::Qualitative { tells, misses } => format!("tells {tells}, but not {misses}"),
        Trust::Broken { why, shown_by, .. } => format!("{why}; shown by {shown_by}"),
        Trust::Untested { missing } => missing.clone(),
    }
}

fn verdicts(validation: &Validation) -> DataTable {
    let columns = ["indicator", "for", "trust", "worst error", "why"];
    let row = |one: &&Judged| -> Vec<CellValue> {
        let error = match &one.trust {
            Trust::Trusted { error } => CellValue::from(bound(one, *error)),
            _ => CellValue::Absent(()),
        };
        let word = one.trust.word().to_owned();
        vec![one.name.to_string().into(), one.purpose.clone().into(), word.into(), error, why(one).into()]
    };
    let mut ordered: Vec<&Judged> = validation.indicators.iter().collect();
    ordered.sort_by_key(|one| BROKEN_FIRST.iter().position(|word| *word == one.trust.word()));
    let kind = |title: &str| if title == "trust" { ColumnKind::Trust } else { ColumnKind::Text };
    DataTable {
        id: "verdicts-table",
        caption: "Every indicator and what it is good for, broken ones first".to_owned(),
        columns: columns.map(|title| column(title, kind(title))).to_vec(),
        rows: ordered.iter().map(row).collect(),
    }
}

fn thresholds(validation: &Validation) -> DataTable {
    let columns = [
        ("indicator", ColumnKind::Text),
        ("above", ColumnKind::Number),
        ("unit", ColumnKind::Text),
        ("means", ColumnKind::Text),
        ("found with", ColumnKind::Text),
    ];
    let row = |one: &Threshold| -> Vec<CellValue> {
        vec![
            one.indicator.to_string().into(),
            one.value.into(),
            one.unit.clone().into(),
            one.means.clone().into(),
            one.how.clone().into(),
        ]
    };
    DataTable {
        id: "thresholds-table",
        caption: "Values above which an indicator means something here".to_owned(),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: validation.thresholds.iter().map(row).collect(),
    }
}
