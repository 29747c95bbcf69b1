//! What can be taken of a machine.

use machine::squeezing::{Interference, SqueezeKind, SqueezePoint, SqueezeProfile};

use super::{amount, resource};
use crate::{
    layout::figures::absent,
    layout::prose::{dotted, titled, wrap, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// What people read of a calibration.
pub fn calibration(profile: &SqueezeProfile, machine: &str, columns: usize) -> String {
    let whole = |kind| profile.whole(kind).map_or_else(|| "unknown".to_owned(), |whole| amount(kind, whole));
    let parts = [
        format!("L{} claims {}", profile.level, profile.claimed),
        format!("victims found {}", whole(SqueezeKind::Storage)),
        format!("memory gives {}", amount(SqueezeKind::Bandwidth, profile.bandwidth)),
        format!("interference on CPUs {}", profile.spare),
    ];
    let mut sections = vec![
        titled("squeeze", machine, columns) + &wrap("", &dotted(parts.iter().map(String::as_str)), columns),
    ];
    for kind in SqueezeKind::ALL {
        sections.push(table(profile, kind).render(columns).text);
    }
    sections.push(notes(profile, columns));
    sections.join("\n")
}

fn table(profile: &SqueezeProfile, kind: SqueezeKind) -> Table {
    let mut table = Table::new(vec![
        Column::new(format!("{kind} taken by")).left(),
        Column::new("cache").group("left"),
        Column::new("least").group("left").drop_rank(1),
        Column::new("most").group("left").drop_rank(1),
        Column::new("bandwidth").group("left"),
        Column::new("drawn").drop_rank(2),
        Column::new("by eq. 1").drop_rank(3),
        Column::new("").left().drop_rank(4),
    ]);
    let many = profile.orthogonal(kind).len();
    for (index, point) in profile.points(kind).iter().enumerate() {
        let note = if index >= many { "disturbs the other" } else { "" };
        table.row(row(point, note));
    }
    table
}

fn row(point: &SqueezePoint, note: &str) -> Vec<Cell> {
    let cache =
        |value: Option<f64>| value.map_or_else(absent, |value| amount(SqueezeKind::Storage, value).into());
    let rate =
        |value: Option<f64>| value.map_or_else(absent, |value| amount(SqueezeKind::Bandwidth, value).into());
    let left = point.cache_left;
    vec![
        described(point).into(),
        cache(left.map(|left| left.value)),
        cache(left.map(|left| left.low)),
        cache(left.map(|left| left.high)),
        rate(point.bandwidth_left.map(|left| left.value)),
        rate(point.drawn),
        rate(point.drawn_by_misses),
        Cell::styled(note, QUIET),
    ]
}

/// A strength in a few words.
pub(crate) fn described(point: &SqueezePoint) -> String {
    point.interference.map_or("nothing".to_owned(), |one| interference(&one))
}

/// The same of what is run beside a program.
pub(crate) fn interference(one: &Interference) -> String {
    match (one.left, one.kind) {
        (Some(ways), SqueezeKind::Storage) => return format!("{}, {ways} ways left", one.form.name()),
        (Some(share), SqueezeKind::Bandwidth) => return format!("{}, {share} % left", one.form.name()),
        (None, _) => {}
    }
    let pause = if one.pause > 0 { format!(", pause {}", one.pause) } else { String::new() };
    format!("{} × {}, {}{pause}", one.threads, one.bytes_each, one.form.name())
}

fn notes(profile: &SqueezeProfile, columns: usize) -> String {
    let mut out = String::new();
    for (kind, why) in &profile.refusals {
        out += &wrap_in(WARNING, &format!("{} cannot be squeezed here: ", resource(*kind)), why, columns);
    }
    for text in remarks(profile) {
        out += &wrap_in(QUIET, "• ", &text, columns);
    }
    out
}

/// What is to be said beside the tables.
pub(crate) fn remarks(profile: &SqueezeProfile) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(both) = &profile.together {
        let left =
            |kind: SqueezeKind| both.left(kind).map_or("?".to_owned(), |left| amount(kind, left.value));
        said.push(format!(
            "Both at once, at the strongest that leave each other alone, left {} of cache and {}.",
            left(SqueezeKind::Storage),
            left(SqueezeKind::Bandwidth)
        ));
    }
    said.extend(profile.tried.iter().map(|(_, why)| format!("Not chosen: {why}.")));
    if !profile.known.is_empty() {
        said.push(format!(
            "{} programs of known need were run beside every strength; what real ones lose is explained by them.",
            profile.known.len()
        ));
    }
    said.extend(profile.remarks.iter().cloned());
    said
}
