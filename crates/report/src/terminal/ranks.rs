//! Ranks of one program beside each other.

use analysis::ranks::{RankFinding, RankFindings, RankSpread};

use super::run::seconds;
use crate::{
    layout::figures::{absent, percent, percent_text},
    layout::prose::{counted, visible, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// An imbalance from here on is worth a warning.
const UNEVEN: f64 = 0.1;

/// The ranks in at most `columns`, at most `most` of them by themselves.
pub fn text(found: &RankFindings, most: usize, columns: usize) -> String {
    let nodes = match found.nodes.len() {
        0 => String::new(),
        nodes => format!(" on {}", counted(nodes, "node")),
    };
    let mut out = wrap_in(HEADING, "", &format!("{}{nodes}", counted(found.ranks.len(), "rank")), columns);
    for (style, sentence) in sentences(found) {
        out += &wrap_in(style, "", &sentence, columns);
    }
    out.push('\n');
    out += &spreads(found, columns);
    out.push('\n');
    out += &ranks(found, most, columns);
    if found.nodes.len() > 1 {
        out.push('\n');
        out += &nodes_table(found, columns);
    }
    if !found.regions.is_empty() {
        out.push('\n');
        out += &regions_table(found, most, columns);
    }
    out + &wrap_in(
        QUIET,
        "",
        "Time in libraries of MPI counts as waiting for other ranks, as does time off the CPU. 'memwall report FILE' shows one \
         rank.",
        columns,
    )
}

fn sentences(found: &RankFindings) -> Vec<(anstyle::Style, String)> {
    let mut all = Vec::new();
    if let Some((imbalance, work)) = found.imbalance.zip(found.work_ns) {
        let style = if imbalance >= UNEVEN { WARNING } else { QUIET };
        all.push((
            style,
            format!(
                "Imbalance {} %: rank {} works longest ({}), the median rank {}.",
                percent_text(imbalance),
                work.most_rank,
                seconds(work.most),
                seconds(work.median)
            ),
        ));
    }
    if let Some(waiting) = found.waiting_ns.filter(|waiting| waiting.most > 0.0) {
        let text =
            format!("Rank {} waits longest for the others: {}.", waiting.most_rank, seconds(waiting.most));
        all.push((QUIET, text));
    }
    all
}

fn spreads(found: &RankFindings, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("").left().called("quantity"),
        Column::new("least"),
        Column::new("rank").drop_rank(1),
        Column::new("median"),
        Column::new("most"),
        Column::new("rank").drop_rank(1),
    ]);
    let share = |value: f64| format!("{} %", percent_text(value));
    let mut row = |name: &str, spread: Option<RankSpread>, shown: &dyn Fn(f64) -> String| {
        let cell = |value: Option<String>| value.map_or_else(absent, Cell::from);
        table.row(vec![
            name.into(),
            cell(spread.map(|spread| shown(spread.least))),
            cell(spread.map(|spread| spread.least_rank.to_string())),
            cell(spread.map(|spread| shown(spread.median))),
            cell(spread.map(|spread| shown(spread.most))),
            cell(spread.map(|spread| spread.most_rank.to_string())),
        ]);
    };
    row("work", found.work_ns, &seconds);
    row("waiting for others", found.waiting_ns, &seconds);
    row("user time waiting for memory", found.memory, &share);
    table.render(columns).text
}

/// Those that work longest.
fn ranks(found: &RankFindings, most: usize, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("rank"),
        Column::new("node").left().drop_rank(3),
        Column::new("wall time").drop_rank(2),
        Column::new("work"),
        Column::new("waiting for others"),
        Column::new("waiting for memory %").called("share of user time waiting for memory"),
        Column::new("recording").left().drop_rank(1),
    ]);
    let mut shown: Vec<&RankFinding> = found.ranks.iter().collect();
    if shown.len() > most {
        shown.sort_by(|a, b| b.work_ns.unwrap_or(0.0).total_cmp(&a.work_ns.unwrap_or(0.0)));
        shown.truncate(most);
    }
    for rank in &shown {
        let time = |ns: Option<f64>| ns.map_or_else(absent, |ns| seconds(ns).into());
        table.row(vec![
            rank.rank.to_string().into(),
            rank.node.as_deref().map_or_else(absent, |node| visible(node).into()),
            time(rank.elapsed_ns.map(|ns| ns as f64)),
            time(rank.work_ns),
            time(rank.waiting_ns),
            percent(rank.memory.map(|memory| memory.value)),
            visible(&rank.recording).into(),
        ]);
    }
    let mut out = table.render(columns).text;
    if shown.len() < found.ranks.len() {
        let rest = found.ranks.len() - shown.len();
        out += &wrap("", &format!("and {rest} more that work less; --top lists more"), columns);
    }
    out
}

fn nodes_table(found: &RankFindings, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("node").left(),
        Column::new("ranks"),
        Column::new("median work"),
        Column::new("longest work"),
        Column::new("waiting for memory %").called("median share of user time waiting for memory"),
    ]);
    for node in &found.nodes {
        let time = |ns: Option<f64>| ns.map_or_else(absent, |ns| seconds(ns).into());
        table.row(vec![
            visible(&node.node).into(),
            node.ranks.to_string().into(),
            time(node.work_ns.map(|work| work.median)),
            time(node.work_ns.map(|work| work.most)),
            percent(node.memory.map(|memory| memory.median)),
        ]);
    }
    table.render(columns).text
}

/// Those with most time.
fn regions_table(found: &RankFindings, most: usize, columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("region").left(),
        Column::new("ranks").drop_rank(3),
        Column::new("median time"),
        Column::new("longest time"),
        Column::new("rank").drop_rank(1),
        Column::new("imbalance %"),
        Column::new("waiting for memory %")
            .called("median share of user time waiting for memory")
            .drop_rank(2),
    ]);
    for region in found.regions.iter().take(most) {
        let time = |ns: Option<f64>| ns.map_or_else(absent, |ns| seconds(ns).into());
        table.row(vec![
            visible(&region.name).into(),
            region.ranks.to_string().into(),
            time(region.wall_ns.map(|wall| wall.median)),
            time(region.wall_ns.map(|wall| wall.most)),
            region.wall_ns.map_or_else(absent, |wall| wall.most_rank.to_string().into()),
            percent(region.imbalance),
            percent(region.memory.map(|memory| memory.median)),
        ]);
    }
    let mut out = table.render(columns).text;
    if found.regions.len() > most {
        let more = format!("and {} more regions; --top lists more", found.regions.len() - most);
        out += &wrap("", &more, columns);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::ranks::RankRegion;

    fn rank(rank: u32, node: &str, work_ns: f64, waiting_ns: f64) -> RankFinding {
        RankFinding {
            rank,
            recording: format!("run.{rank}.sqlite"),
            node: Some(node.to_owned()),
            elapsed_ns: Some(4_000_000_000),
            work_ns: Some(work_ns),
            waiting_ns: Some(waiting_ns),
            memory: None,
            regions: vec![RankRegion {
                name: "solve".to_owned(),
                visits: 3,
                wall_ns: work_ns as u64,
                user_ns: Some(work_ns),
                memory: None,
            }],
        }
    }

    #[test]
    fn who_works_longest_and_who_waits_is_said() {
        let found =
            RankFindings::of(vec![rank(0, "a", 1e9, 3e9), rank(1, "a", 1e9, 2e9), rank(2, "b", 4e9, 0.0)]);
        let text = anstream::adapter::strip_str(&text(&found, 2, 100)).to_string();
        for wanted in [
            "3 ranks on 2 nodes",
            "Imbalance 50 %: rank 2 works longest (4.00 s), the median rank 1.00 s.",
            "Rank 0 waits longest for the others: 3.00 s.",
            "and 1 more that work less",
            "solve",
        ] {
            assert!(text.contains(wanted), "{wanted}:\n{text}");
        }
    }
}
