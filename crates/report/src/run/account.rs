//! Where the time went: overall, and per thread.

use analysis::findings::{Account, Activity, Findings, Known, Split, ThreadFinding};
use anstyle::{AnsiColor, Style};

use super::{bars::bar, subject::seconds};
use crate::{
    figures::{absent, percent, percent_text},
    prose::{counted, visible, width, wrap, wrap_in},
    style::{HEADING, PLAIN, QUIET, paint},
    table::{Column, Table},
};

/// Narrower than this, bars are left out.
const ROOM_FOR_BARS: usize = 50;

/// The colour of an activity.
pub fn style(activity: Activity) -> Style {
    match activity {
        Activity::Loads | Activity::Stores | Activity::Atomics => AnsiColor::Red.on_default(),
        Activity::Divides | Activity::Chains | Activity::Branches => AnsiColor::Yellow.on_default(),
        Activity::Executing => AnsiColor::Green.on_default(),
        Activity::Undecided => QUIET,
    }
}

/// User time by activity as bars, then user, kernel and idle time in one line.
pub fn text(findings: &Findings, columns: usize) -> String {
    let mut out = String::new();
    if let Some(split) = &findings.overall {
        let heading = format!(
            "User time ({}, each standing for {:.2} ms)",
            counted(split.samples as usize, "sample"),
            findings.about.period_ns / 1e6
        );
        out += &wrap_in(HEADING, "", &heading, columns);
        out += &split_bars(split, columns);
    }
    out + &thread_time(&findings.account, columns)
}

fn split_bars(split: &Split, columns: usize) -> String {
    let shown: Vec<_> =
        Activity::ALL.into_iter().filter(|&activity| split.share(activity) >= 0.005).collect();
    let names = shown.iter().map(|activity| width(activity.label())).max().unwrap_or(0);
    let room = columns.saturating_sub(names + 14).min(40);
    shown.into_iter().fold(String::new(), |out, activity| {
        let share = split.share(activity);
        let figure = percent_text(share);
        let label = activity.label();
        let row = format!("  {label:names$}  {figure:>4} %");
        match columns >= ROOM_FOR_BARS {
            true => format!("{out}{row}  {}\n", paint(style(activity), &bar(share, room))),
            false => format!("{out}{row}\n"),
        }
    })
}

fn thread_time(account: &Account, columns: usize) -> String {
    let mut text = format!("Thread time: {} in user mode", seconds(account.user_ns));
    let mut missing = Vec::new();
    for (known, what) in [
        (&account.kernel_ns, "in the kernel"),
        (&account.blocked_ns, "blocked"),
        (&account.preempted_ns, "waiting for a CPU"),
    ] {
        match known {
            Known::Value(ns) => text += &format!(", {} {what}", seconds(*ns)),
            Known::Missing(reason) => missing.push(format!("time {what} is not known: {reason}")),
        }
    }
    text.push('.');
    missing.iter().fold(wrap("", &text, columns), |out, line| out + &wrap_in(QUIET, "  ", line, columns))
}

/// One row per thread where there are several; the busiest few unless all are wanted.
pub fn threads(findings: &Findings, all: bool, columns: usize) -> String {
    const FEW: usize = 4;
    let threads = &findings.threads;
    if threads.len() < 2 {
        return String::new();
    }
    let shown = if all { threads.len() } else { FEW.min(threads.len()) };
    let mut table = Table::new(vec![
        Column::new("thread").left(),
        Column::new("name").left(),
        Column::new("user time %").called("share of user time"),
        Column::new("loads %").group("of its user time").drop_rank(1),
        Column::new("memory %").group("of its user time").drop_rank(2),
        Column::new("executing %").group("of its user time").drop_rank(3),
        Column::new("user").drop_rank(4),
        Column::new("blocked").drop_rank(5),
        Column::new("no CPU").called("waiting for a CPU").drop_rank(6),
    ]);
    threads.iter().take(shown).for_each(|thread| table.row(thread_row(thread)));
    let mut out = wrap_in(HEADING, "", &format!("Threads ({})", threads.len()), columns);
    out += &table.render(columns).text;
    if shown < threads.len() {
        let rest: f64 = threads[shown..].iter().map(|thread| thread.user_share).sum();
        let line = format!("and {} more with {} % of user time", threads.len() - shown, percent_text(rest));
        out += &wrap_in(QUIET, "", &line, columns);
    }
    out
}

fn thread_row(thread: &ThreadFinding) -> Vec<crate::table::Cell> {
    let share = |of: fn(&Split) -> f64| percent(thread.split.as_ref().map(of));
    let time = |known: &Known<f64>| known.value().map_or_else(absent, |ns| seconds(*ns).into());
    vec![
        thread.tid.to_string().into(),
        crate::table::Cell::styled(visible(&thread.name), PLAIN),
        percent(Some(thread.user_share)),
        share(|split| split.loads),
        share(Split::memory),
        share(|split| split.executing),
        seconds(thread.account.user_ns).into(),
        time(&thread.account.blocked_ns),
        time(&thread.account.preempted_ns),
    ]
}
