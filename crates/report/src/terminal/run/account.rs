//! Where the time went: overall, and per thread.

use analysis::findings::{Account, Estimated, Findings, KnownLimits, Split, ThreadActivity, ThreadFinding};
use anstyle::{AnsiColor, Style};

use super::{bars::bar, subject::seconds};
use crate::{
    layout::figures::{absent, percent, percent_text},
    layout::prose::{counted, visible, width, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, paint},
    layout::table::{Column, Table},
};

/// Narrower than this, bars are left out.
const ROOM_FOR_BARS: usize = 50;

/// The colour of an activity.
pub fn style(activity: ThreadActivity) -> Style {
    match activity {
        ThreadActivity::Loads | ThreadActivity::Stores | ThreadActivity::Atomics => {
            AnsiColor::Red.on_default()
        }
        ThreadActivity::Divides
        | ThreadActivity::Chains
        | ThreadActivity::FirstCache
        | ThreadActivity::Branches
        | ThreadActivity::OtherThreads => AnsiColor::Yellow.on_default(),
        ThreadActivity::Executing => AnsiColor::Green.on_default(),
        ThreadActivity::Undecided => QUIET,
    }
}

/// User time by activity as bars, then user, kernel and idle time in one line.
pub fn text(findings: &Findings, columns: usize) -> String {
    let mut out = String::new();
    if let Some(split) = findings.overall.as_ref().filter(|_| findings.has_enough_samples()) {
        let losses = if findings.has_losses() { "; others were lost" } else { "" };
        let heading = format!(
            "User time ({}, each standing for {:.2} ms{losses})",
            counted(split.samples as usize, "sample"),
            findings.about.period_ns / 1e6
        );
        out += &wrap_in(HEADING, "", &heading, columns);
        out += &bars(split, ThreadActivity::ALL.len(), columns);
    }
    out + &thread_time(&findings.account, columns)
}

/// The largest `most` activities as bars.
pub fn bars(split: &Split, most: usize, columns: usize) -> String {
    let mut ranked: Vec<_> =
        ThreadActivity::ALL.into_iter().filter(|&activity| split.share(activity) >= 0.005).collect();
    ranked.sort_by(|&a, &b| split.share(b).total_cmp(&split.share(a)));
    ranked.truncate(most);
    let shown: Vec<_> =
        ThreadActivity::ALL.into_iter().filter(|activity| ranked.contains(activity)).collect();
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
    let missing = parts(account).into_iter().filter_map(|(known, what)| {
        known.missing().map(|reason| format!("Time {what}: not known, {reason}"))
    });
    let text = sentence(account) + ".";
    missing.fold(wrap("", &text, columns), |out, line| out + &wrap_in(QUIET, "  ", &line, columns))
}

/// User, kernel and idle time, as far as known.
pub fn sentence(account: &Account) -> String {
    let Estimated { running, waiting } = account.estimated;
    // No sample, and no account of the kernel either.
    let is_known = account.user_ns > 0.0 || account.kernel_ns.value().is_some();
    let user = match is_known {
        true => format!("Thread time: {} user", about(account.user_ns, running)),
        false => "Thread time: not known, no time was sampled".to_owned(),
    };
    parts(account).into_iter().zip([running, waiting, waiting]).fold(
        user,
        |text, ((known, what), is_estimate)| match known {
            KnownLimits::Value(ns) => format!("{text}, {} {what}", about(*ns, is_estimate)),
            KnownLimits::Missing(_) => text,
        },
    )
}

/// A time; marked where it is made from what was not lost.
pub(crate) fn about(ns: f64, is_estimate: bool) -> String {
    if is_estimate { format!("~{}", seconds(ns)) } else { seconds(ns) }
}

fn parts(account: &Account) -> [(&KnownLimits<f64>, &'static str); 3] {
    [
        (&account.kernel_ns, "kernel"),
        (&account.blocked_ns, "blocked"),
        (&account.preempted_ns, "without a CPU"),
    ]
}

/// One row per thread where there are several.
pub fn threads(findings: &Findings, columns: usize) -> String {
    let threads = &findings.threads;
    if threads.len() < 2 {
        return String::new();
    }
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
    threads.iter().for_each(|thread| table.row(thread_row(thread)));
    let losses = if findings.has_losses() { ", estimated since records were lost" } else { "" };
    let mut out = wrap_in(HEADING, "", &format!("Threads ({}){losses}", threads.len()), columns);
    out += &table.render(columns).text;
    out
}

fn thread_row(thread: &ThreadFinding) -> Vec<crate::layout::table::Cell> {
    let share = |of: fn(&Split) -> f64| percent(thread.split.as_ref().map(of));
    let Estimated { running, waiting } = thread.account.estimated;
    let time = |known: &KnownLimits<f64>| known.value().map_or_else(absent, |ns| about(*ns, waiting).into());
    vec![
        thread.tid.to_string().into(),
        crate::layout::table::Cell::styled(visible(&thread.name), PLAIN),
        percent(Some(thread.user_share)),
        share(|split| split.loads),
        share(Split::memory),
        share(|split| split.executing),
        about(thread.account.user_ns, running).into(),
        time(&thread.account.blocked_ns),
        time(&thread.account.preempted_ns),
    ]
}
