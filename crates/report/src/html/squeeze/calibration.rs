//! The page of what can be taken of a machine.

use machine::squeezing::{SqueezeKind, SqueezePoint, SqueezeProfile};

use crate::{
    html::{
        curve::{Curve, Curves, Spot},
        frame::PageFrame,
        markup::{Html, list, paragraph, section},
        profile::Sheet,
        tables::{CellValue, ColumnKind, DataTable, column, place},
    },
    layout::plot::{Axis, PlottedQuantity, Scale},
    layout::prose::dotted,
    terminal::squeeze::{amount, described, remarks, resource},
};

/// The page, as one file.
pub fn calibration(profile: &SqueezeProfile, machine: &str) -> String {
    let tables = [(SqueezeKind::Storage, "cache-table"), (SqueezeKind::Bandwidth, "bandwidth-table")];
    let of = |kind, id| vec![figure(profile, kind), place(id)];
    let body = Html::all([
        section("refusals", "What cannot be squeezed here", refusals(profile)),
        section("cache", "Cache taken", of(SqueezeKind::Storage, "cache-table")),
        section("bandwidth", "Bandwidth taken", of(SqueezeKind::Bandwidth, "bandwidth-table")),
        section(
            "trust",
            "How the numbers were obtained, and what else was noticed",
            [list("notes", remarks(profile))],
        ),
    ]);
    let parts = [
        format!("L{} claims {}", profile.level, profile.claimed),
        format!("memory gives {}", amount(SqueezeKind::Bandwidth, profile.bandwidth)),
        format!("interference on CPUs {}", profile.spare),
        format!("seed {}", profile.seed),
    ];
    PageFrame {
        title: format!("squeeze: {machine}"),
        kind: "squeeze",
        subtitle: vec![dotted(parts.iter().map(String::as_str))],
        contents: vec![
            ("refusals", "Refused"),
            ("cache", "Cache"),
            ("bandwidth", "Bandwidth"),
            ("trust", "Notes"),
        ],
        body,
        data: Sheet { page: "sheet", tables: tables.map(|(kind, id)| table(profile, kind, id)).to_vec() },
    }
    .render()
}

fn refusals(profile: &SqueezeProfile) -> Vec<Html> {
    if profile.refusals.is_empty() {
        return vec![paragraph("", "Nothing: conclusions about cache and bandwidth can be drawn.")];
    }
    let say =
        |(kind, why): &(SqueezeKind, String)| paragraph("warning", &format!("{}: {why}", resource(*kind)));
    profile.refusals.iter().map(say).collect()
}

/// What is left of both resources, as a share, by strength.
fn figure(profile: &SqueezeProfile, kind: SqueezeKind) -> Html {
    let points = profile.points(kind);
    let share = |of: SqueezeKind| {
        let whole = points.first().and_then(|point| point.left(of)).map(|left| left.value);
        let spots = points.iter().enumerate().filter_map(|(step, point)| {
            let (left, whole) = point.left(of).zip(whole)?;
            let share = |value: f64| 100.0 * value / whole;
            Some(Spot {
                x: step as f64,
                y: share(left.value),
                interval: Some((share(left.low), share(left.high))),
            })
        });
        Curve { name: format!("{of} left, %"), points: spots.collect() }
    };
    let curves = Curves {
        title: format!("What is left, per cent, by strength of {kind} interference"),
        x: Axis { quantity: PlottedQuantity::Ratio, scale: Scale::Linear },
        y: Axis { quantity: PlottedQuantity::Ratio, scale: Scale::Linear },
        curves: vec![share(SqueezeKind::Storage), share(SqueezeKind::Bandwidth)],
        guides: Vec::new(),
        limits: Vec::new(),
    };
    curves.figure().unwrap_or_else(|| paragraph("quiet", "Too few strengths for a curve."))
}

fn table(profile: &SqueezeProfile, kind: SqueezeKind, id: &'static str) -> DataTable {
    let columns = [
        ("taken by", ColumnKind::Text),
        ("cache left", ColumnKind::Bytes),
        ("least", ColumnKind::Bytes),
        ("most", ColumnKind::Bytes),
        ("bandwidth left, GB/s", ColumnKind::Number),
        ("drawn, GB/s", ColumnKind::Number),
        ("by eq. 1, GB/s", ColumnKind::Number),
        ("other resource", ColumnKind::Text),
    ];
    let orthogonal = profile.orthogonal(kind).len();
    let row = |(index, point): (usize, &SqueezePoint)| -> Vec<CellValue> {
        let cache = |of: fn(&machine::profile::Estimate) -> f64| point.cache_left.as_ref().map(of).into();
        let rate = |value: Option<f64>| value.map(|value| value / 1e9).into();
        vec![
            described(point).into(),
            cache(|left| left.value),
            cache(|left| left.low),
            cache(|left| left.high),
            rate(point.bandwidth_left.map(|left| left.value)),
            rate(point.drawn),
            rate(point.drawn_by_misses),
            if index >= orthogonal { "disturbed" } else { "left alone" }.to_owned().into(),
        ]
    };
    DataTable {
        id,
        caption: format!("What each strength of {kind} interference leaves"),
        columns: columns.map(|(title, kind)| column(title, kind)).to_vec(),
        rows: profile.points(kind).iter().enumerate().map(row).collect(),
    }
}
