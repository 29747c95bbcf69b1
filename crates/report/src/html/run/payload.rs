//! What the page's script works on. Everything is capped, so that a page stays small whatever the run was.

mod objects;

use analysis::findings::{
    Account, InstructionFinding, SourceLine, Split, SymbolFinding, ThreadActivity, ThreadFinding, TimeShare,
};
use serde::Serialize;

use self::objects::{ObjectRows, object_rows};
use super::{AnnotatedFunction, CallTree, RunPage, SourceText, views::ViewRows};
use crate::html::{Aggregate, markup::shown, profile::levels_table, tables::DataTable};

/// Rows of a table, at most.
const MOST_ROWS: usize = 10_000;
/// Instructions in annotated functions, all together.
const MOST_LINES: usize = 20_000;
/// Lines of source, all together.
const MOST_SOURCE: usize = 20_000;
/// Letters of a name; those of templates have no end.
const LONGEST_NAME: usize = 300;

/// The data of a run's page.
#[derive(Serialize)]
pub(super) struct Payload<'a> {
    page: &'static str,
    activities: Vec<ActivityRow>,
    samples: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_losses: bool,
    period_ns: f64,
    overall: Option<ActivityShares>,
    threads: Vec<ThreadRow>,
    symbols: Vec<SymbolRow>,
    instructions: Vec<InstructionRow>,
    functions: Vec<FunctionRows>,
    sources: Vec<SourceText>,
    objects: Option<ObjectRows>,
    timeline: &'a analysis::findings::Timeline,
    aggregate: Option<&'a Aggregate>,
    calls: Option<&'a CallTree>,
    #[serde(skip_serializing_if = "Option::is_none")]
    views: Option<ViewRows>,
    /// What was left out of each table: how many, and where it is known with which share of user time.
    left_out: LeftOut,
    tables: Vec<DataTable>,
}

#[derive(Serialize)]
struct ActivityRow {
    key: String,
    label: &'static str,
    waiting: bool,
    memory: bool,
}

#[derive(Serialize)]
struct LeftOut {
    threads: (usize, f64),
    symbols: (usize, f64),
    instructions: (usize, f64),
    objects: usize,
}

/// By [`ThreadActivity::ALL`].
type ActivityShares = [f64; ThreadActivity::ALL.len()];

#[derive(Serialize)]
struct ThreadRow {
    tid: u32,
    pid: u32,
    name: String,
    share: f64,
    split: Option<ActivityShares>,
    user_ns: f64,
    kernel_ns: Option<f64>,
    blocked_ns: Option<f64>,
    preempted_ns: Option<f64>,
}

#[derive(Serialize)]
struct SymbolRow {
    name: String,
    module: String,
    share: [f64; 3],
    samples: u64,
    split: ActivityShares,
    flagged: f64,
}

#[derive(Serialize)]
struct InstructionRow {
    symbol: usize,
    address: String,
    text: Option<String>,
    at: Option<(String, u32)>,
    activity: usize,
    waiting: f64,
    samples: f64,
    undecided: f64,
    pattern: Option<&'static str>,
    stride: Option<i64>,
    span: Option<u64>,
}

/// Address, text, index of the file and line or none, samples, waiting, activity.
type LineOfCode = (String, String, Option<(usize, u32)>, f64, f64, usize);

#[derive(Serialize)]
struct FunctionRows {
    symbol: usize,
    files: Vec<String>,
    lines: Vec<LineOfCode>,
}

pub(super) fn payload<'a>(page: &RunPage<'a>) -> Payload<'a> {
    let findings = page.findings;
    let share_of = |thread: &ThreadFinding| thread.user_share;
    Payload {
        page: "run",
        activities: ThreadActivity::ALL.iter().map(|activity| activity_row(*activity)).collect(),
        samples: findings.about.samples,
        has_losses: findings.has_losses(),
        period_ns: findings.about.period_ns,
        overall: findings.overall.as_ref().map(shares),
        threads: findings.threads.iter().take(MOST_ROWS).map(thread_row).collect(),
        symbols: findings.symbols.iter().take(MOST_ROWS).map(symbol_row).collect(),
        instructions: findings.instructions.iter().take(MOST_ROWS).map(instruction_row).collect(),
        functions: functions(page.functions),
        sources: sources(page.sources),
        objects: page.objects.map(|objects| object_rows(objects, &findings.threads)),
        timeline: &findings.timeline,
        aggregate: page.aggregate,
        calls: page.calls,
        views: super::views::rows(page.views),
        left_out: LeftOut {
            threads: left_out(&findings.threads, share_of),
            symbols: left_out(&findings.symbols, |symbol| symbol.user_share.value),
            instructions: left_out(&findings.instructions, |found| found.user_share.value),
            objects: page.objects.map_or(0, |objects| objects.objects.len().saturating_sub(MOST_ROWS)),
        },
        tables: tables(page),
    }
}

fn tables(page: &RunPage<'_>) -> Vec<DataTable> {
    let levels = page.profile.map(levels_table).into_iter();
    let patterns = super::patterns::table(page.patterns);
    let scaling = super::scaling::table(page.scaling);
    let hybrid = super::hybrid::tables(page.hybrid);
    let regions =
        super::regions::tables(page.regions, page.views.filter(|_| super::views::is_shown(page.views)));
    levels.chain(patterns).chain(scaling).chain(regions).chain(hybrid).collect()
}

fn left_out<T>(rows: &[T], share: impl Fn(&T) -> f64) -> (usize, f64) {
    let rest = rows.get(MOST_ROWS..).unwrap_or_default();
    (rest.len(), rest.iter().map(share).sum())
}

/// What pages and style sheets call an activity: as JSON names it.
pub(crate) fn activity_key(activity: ThreadActivity) -> String {
    let key = serde_json::to_value(activity).ok().and_then(|key| key.as_str().map(str::to_owned));
    key.unwrap_or_default()
}

fn activity_row(activity: ThreadActivity) -> ActivityRow {
    let key = activity_key(activity);
    ActivityRow { key, label: activity.label(), waiting: activity.is_waiting(), memory: activity.is_memory() }
}

fn thread_row(thread: &ThreadFinding) -> ThreadRow {
    let Account { user_ns, kernel_ns, blocked_ns, preempted_ns, .. } = &thread.account;
    ThreadRow {
        tid: thread.tid,
        pid: thread.pid,
        name: name(&thread.name),
        share: rounded(thread.user_share),
        split: thread.split.as_ref().map(shares),
        user_ns: *user_ns,
        kernel_ns: kernel_ns.value().copied(),
        blocked_ns: blocked_ns.value().copied(),
        preempted_ns: preempted_ns.value().copied(),
    }
}

fn symbol_row(symbol: &SymbolFinding) -> SymbolRow {
    SymbolRow {
        name: name(&symbol.name),
        module: name(&symbol.module),
        share: ends(&symbol.user_share),
        samples: symbol.split.samples,
        split: shares(&symbol.split),
        flagged: rounded(symbol.flagged_share),
    }
}

fn instruction_row(found: &InstructionFinding) -> InstructionRow {
    let access = found.access.as_ref();
    InstructionRow {
        symbol: found.symbol,
        address: format!("{:#x}", found.address),
        text: found.text.as_deref().map(name),
        at: found.source.as_ref().map(|SourceLine { file, line, .. }| (name(file), *line)),
        activity: found.activity as usize,
        waiting: tenths(found.waiting_samples),
        samples: tenths(found.samples()),
        undecided: tenths(found.undecided_samples),
        pattern: access.map(|access| access.pattern.label()),
        stride: access.and_then(|access| access.stride_bytes),
        span: access.and_then(|access| access.span).map(|(low, high)| high.saturating_sub(low)),
    }
}

/// Whole functions until there are too many lines.
fn functions(functions: &[AnnotatedFunction]) -> Vec<FunctionRows> {
    let mut left = MOST_LINES;
    let mut out = Vec::new();
    for function in functions {
        if function.lines.len() > left {
            continue;
        }
        left -= function.lines.len();
        out.push(function_rows(function));
    }
    out
}

fn function_rows(function: &AnnotatedFunction) -> FunctionRows {
    let mut files: Vec<String> = Vec::new();
    let lines = function.lines.iter().map(|line| {
        let at = line.source.as_ref().map(|source| {
            let file = name(&source.file);
            let index = files.iter().position(|known| *known == file).unwrap_or_else(|| {
                files.push(file);
                files.len() - 1
            });
            (index, source.line)
        });
        let address = format!("{:#x}", line.address);
        (address, name(&line.text), at, tenths(line.samples), tenths(line.waiting), line.activity as usize)
    });
    let lines = lines.collect();
    FunctionRows { symbol: function.symbol, files, lines }
}

fn sources(sources: &[SourceText]) -> Vec<SourceText> {
    let mut left = MOST_SOURCE;
    let mut out = Vec::new();
    for source in sources.iter() {
        if source.lines.len() > left {
            continue;
        }
        left -= source.lines.len();
        let lines = source.lines.iter().map(|line| name(&line.replace('\t', "    "))).collect();
        out.push(SourceText { file: name(&source.file), first_line: source.first_line, lines });
    }
    out
}

fn shares(split: &Split) -> ActivityShares {
    ThreadActivity::ALL.map(|activity| rounded(split.share(activity)))
}

fn ends(share: &TimeShare) -> [f64; 3] {
    [share.value, share.low, share.high].map(rounded)
}

/// Enough digits for a hundredth of a per cent.
pub(super) fn rounded(share: f64) -> f64 {
    (share * 1e5).round() / 1e5
}

fn tenths(samples: f64) -> f64 {
    (samples * 10.0).round() / 10.0
}

/// A name as it is shown, shortened in its middle where it has no end.
pub(super) fn name(text: &str) -> String {
    shortened(text, LONGEST_NAME)
}

/// The same in so many letters.
pub(super) fn shortened(text: &str, longest: usize) -> String {
    let text = shown(text);
    let letters = text.chars().count();
    if letters <= longest {
        return text;
    }
    let head: String = text.chars().take(longest * 2 / 3).collect();
    let tail: String = text.chars().skip(letters - longest / 3).collect();
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_keep_both_ends() {
        let long = format!("begin{}end", "x".repeat(5000));
        let short = name(&long);
        assert!(
            short.starts_with("begin") && short.ends_with("end") && short.chars().count() <= LONGEST_NAME + 1
        );
    }
}
