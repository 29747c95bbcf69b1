//! On which data: objects, and lines that threads share.

use analysis::findings::{
    AllocatedBytes, Findings, FlaggedPart, KnownLimits, ObjectFinding, ObjectSharing, Objects, SharedLine,
};
use machine::Bytes;

use super::code::file_name;
use crate::{
    layout::figures::{absent, percent, percent_text},
    layout::prose::{counted, listed, visible, wrap, wrap_in},
    layout::signature::{function_name, object_name},
    layout::style::{HEADING, QUIET, WARNING},
    layout::table::{Cell, Column, Table},
};

/// An object's part of the waiting that the program does most: on loads, or on stores, atomics and fences.
pub(crate) fn waited_share(findings: &Findings, object: &ObjectFinding) -> (f64, &'static str) {
    match findings.overall {
        Some(split) if split.stores + split.atomics > split.loads => {
            (object.other_waiting, "the waiting on stores, atomics and fences")
        }
        _ => (object.load_waiting.value, "the waiting on loads"),
    }
}

/// Where flagged intervals hold more of the samples than this, they say what the whole run says.
const NEARLY_ALL: f64 = 0.95;

/// Columns for a name within a sentence.
const ROOM: usize = 48;

/// Objects with most waiting on loads, then shared lines.
pub fn text(findings: &Findings, objects: &Objects, most: usize, columns: usize) -> String {
    let shown = &objects.objects[..objects.objects.len().min(most)];
    let mut out = String::new();
    if !shown.is_empty() {
        out += &wrap_in(HEADING, "", "On which data", columns);
        out += &table(findings, shown, columns);
        out.extend(shown.iter().map(|object| details(findings, object, columns)));
    }
    out.extend(flagged_sentence(findings, objects).map(|sentence| wrap("  ", &sentence, columns)));
    let lines = &objects.shared_lines[..objects.shared_lines.len().min(most)];
    if !lines.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        out += &wrap_in(HEADING, "", "Lines that threads share", columns);
        out.extend(lines.iter().map(|line| shared(findings, objects, line, columns)));
    }
    out.extend(objects.remarks.iter().map(|remark| wrap_in(QUIET, "  ", remark, columns)));
    out
}

/// Code and data that waits inside flagged intervals, where those are a part of the run.
pub(crate) fn flagged_sentence(findings: &Findings, objects: &Objects) -> Option<String> {
    let flagged = objects.flagged.as_ref()?;
    let part = flagged.samples as f64 / findings.about.samples.max(1) as f64;
    let intervals = counted(flagged.intervals as usize, "flagged interval");
    let names = flagged_names(findings, objects)?;
    Some(format!(
        "The samples inside the {intervals} alone ({} % of all) name {names}: shares are of the waiting on loads there.",
        percent_text(part)
    ))
}

/// The function and the object that wait most inside flagged intervals, where those are a part of the run.
pub(super) fn flagged_names(findings: &Findings, objects: &Objects) -> Option<String> {
    let flagged = objects.flagged.as_ref()?;
    if flagged.samples as f64 > NEARLY_ALL * findings.about.samples.max(1) as f64 {
        return None;
    }
    let symbol =
        named_in(&flagged.symbols, |index| Some(function_name(&findings.symbols.get(index)?.name, ROOM)));
    let object =
        named_in(&flagged.objects, |index| Some(object_name(&objects.objects.get(index)?.name, ROOM)));
    let named: Vec<String> = [symbol, object].into_iter().flatten().collect();
    (!named.is_empty()).then(|| named.join(" on "))
}

/// The first of the parts, with its share.
fn named_in(parts: &[FlaggedPart], name: impl Fn(usize) -> Option<String>) -> Option<String> {
    let first = parts.first().filter(|part| part.load_waiting.value > 0.0)?;
    Some(format!("{} ({} %)", name(first.index)?, percent_text(first.load_waiting.value)))
}

/// Who reads and writes an object, its pages, and the code that waits for it.
fn details(findings: &Findings, object: &ObjectFinding, columns: usize) -> String {
    const MOST_USES: usize = 4;
    let mut out = wrap("  ", &object_name(&object.name, columns.saturating_sub(2)), columns);
    let touched = [("read by", &object.readers), ("written by", &object.writers)];
    let mut facts: Vec<String> = touched
        .into_iter()
        .filter(|(_, threads)| !threads.is_empty())
        .map(|(what, threads)| format!("{what} {}", thread_words(threads)))
        .collect();
    facts.push(pages(object));
    facts.extend(object.allocated.filter(|sum| sum.noted > 1 || sum.error > 0.0).map(|sum| allocated(&sum)));
    out += &wrap("    ", &format!("{}.", facts.join("; ")), columns);
    let all = object.symbols.iter().map(|used| used.waiting_on_loads).sum::<f64>();
    let uses: Vec<String> = object
        .symbols
        .iter()
        .take(MOST_USES)
        .filter_map(|used| {
            let name = function_name(&findings.symbols.get(used.symbol)?.name, 40);
            let writes = if used.writes { ", writes" } else { "" };
            let waiting = if all > 0.0 { percent_text(used.waiting_on_loads / all) } else { "0".to_owned() };
            Some(format!("{name} ({waiting} % of its load waiting{writes})"))
        })
        .collect();
    if !uses.is_empty() {
        out += &wrap("    ", &format!("In {}.", listed(&uses)), columns);
    }
    out
}

fn thread_words(threads: &[u32]) -> String {
    const FEW: usize = 4;
    match threads {
        few if few.len() <= FEW => {
            let numbers: Vec<String> = few.iter().map(u32::to_string).collect();
            format!("{} {}", if few.len() == 1 { "thread" } else { "threads" }, listed(&numbers))
        }
        many => format!("{} threads", many.len()),
    }
}

/// How much was allocated in the course of the run, with the error of an estimate.
pub(crate) fn allocated(sum: &AllocatedBytes) -> String {
    let bytes = |number: f64| Bytes(number.round() as u64);
    let blocks = if sum.noted == 1 { "block" } else { "blocks" };
    match sum.error > 0.0 {
        false => format!("{} allocated in all, in {} {blocks}", bytes(sum.bytes), sum.noted),
        true => format!(
            "about {} ± {} allocated in all, of which {} {blocks} were written down",
            bytes(sum.bytes),
            bytes(sum.error),
            sum.noted
        ),
    }
}

/// Huge pages and memory nodes behind an object, or why they are not known.
pub(crate) fn pages(object: &ObjectFinding) -> String {
    let pages = match &object.pages {
        KnownLimits::Value(pages) => pages,
        KnownLimits::Missing(reason) => return format!("pages not known: {}", visible(reason)),
    };
    let huge = match pages.huge_bytes {
        0 => "no huge pages".to_owned(),
        bytes => format!("{} on huge pages", Bytes(bytes)),
    };
    let nodes = pages.nodes.iter().map(|(node, bytes)| format!(", {} on node {node}", Bytes(*bytes)));
    format!("in mappings of {}: {huge}{}", Bytes(pages.mapped_bytes), nodes.collect::<String>())
}

fn table(findings: &Findings, objects: &[ObjectFinding], columns: usize) -> String {
    let mut table = Table::new(vec![
        Column::new("object").left(),
        Column::new("load waiting %").called("share of all waiting on loads"),
        Column::new("other %").called("share of waiting on stores and atomics").drop_rank(5),
        Column::new("size").drop_rank(3),
        Column::new("access").left().called("access pattern").drop_rank(2),
        Column::new("allocated at").left().called("where it was allocated").drop_rank(1),
        Column::new("most by").left().called("function that waits most").drop_rank(4),
    ]);
    for object in objects {
        let site = object.site.as_ref().and_then(|site| site.source.as_ref());
        let user = object.symbols.first().and_then(|found| findings.symbols.get(found.symbol));
        table.row(vec![
            object_name(&object.name, columns / 2).into(),
            percent(Some(object.load_waiting.value)),
            percent(Some(object.other_waiting)),
            match &object.size_bytes {
                KnownLimits::Value(bytes) => Bytes(*bytes).to_string().into(),
                KnownLimits::Missing(_) => absent(),
            },
            object.pattern.label().into(),
            site.map_or_else(absent, |source| {
                format!("{}:{}", visible(&file_name(&source.file)), source.line).into()
            }),
            user.map_or_else(absent, |symbol| Cell::from(function_name(&symbol.name, 30))),
        ]);
    }
    table.render(columns).text
}

fn shared(findings: &Findings, objects: &Objects, line: &SharedLine, columns: usize) -> String {
    let (style, what) = match line.sharing {
        ObjectSharing::False => (WARNING, "false sharing: different threads use different bytes of the line"),
        ObjectSharing::True => (QUIET, "true sharing: different threads use the same bytes"),
    };
    let object = line.object.and_then(|index| objects.objects.get(index));
    let within = object.map(|object| format!(" in {}", visible(&object.name))).unwrap_or_default();
    let head = format!(
        "{:#x}{within}: {what}; {} % of all waiting for memory",
        line.address,
        percent_text(line.waiting.value)
    );
    let mut out = wrap_in(style, "  ", &head, columns);
    let mut uses = line.uses.clone();
    uses.sort_by_key(|found| std::cmp::Reverse(found.samples));
    for found in uses.iter().take(6) {
        let name = findings.symbols.get(found.symbol).map_or("unknown code", |symbol| symbol.name.as_str());
        let thread = findings.thread(found.thread);
        let named = thread.map(|thread| format!(" ({})", visible(&thread.name))).unwrap_or_default();
        let text = format!(
            "thread {}{named} {} at offset {} in {} ({} samples)",
            found.tid,
            if found.writes { "writes" } else { "reads" },
            found.offset,
            function_name(name, 40),
            found.samples
        );
        out += &wrap("    ", &text, columns);
    }
    out
}

#[cfg(test)]
mod tests {
    use analysis::findings::{
        Flagged, LineUse, ObjectId, ObjectKind, ObjectPages, ObjectSite, ObjectUse, Pattern, SourceLine,
        TimeShare,
    };

    use record::ids::ThreadId;

    use super::*;
    use crate::terminal::run::tests::findings;

    fn share(value: f64) -> TimeShare {
        TimeShare { value, low: value, high: value }
    }

    fn object() -> ObjectFinding {
        let source = Some(SourceLine::new("/src/join.c", 12));
        let [function, module] = ["make_rows", "/opt/join"].map(str::to_owned);
        ObjectFinding {
            id: ObjectId::Heap { site: 0, size_class: 26 },
            name: "blocks of 64 to 128 MiB from make_rows".to_owned(),
            kind: ObjectKind::Heap,
            site: Some(ObjectSite { function, module, address: 0x10, source, callers: vec![] }),
            size_bytes: KnownLimits::Value(64 << 20),
            blocks: 1,
            allocated: Some(AllocatedBytes { bytes: 3e9, error: 4e8, noted: 57 }),
            samples: 900,
            next_address_samples: 0,
            load_waiting: share(0.81),
            other_waiting: 0.02,
            pattern: Pattern::Random,
            readers: vec![7, 8],
            writers: vec![8],
            reader_ids: vec![ThreadId(7), ThreadId(8)],
            writer_ids: vec![ThreadId(8)],
            pages: KnownLimits::Value(ObjectPages {
                mapped_bytes: 96 << 20,
                huge_bytes: 4 << 20,
                nodes: vec![(0, 32 << 20), (1, 64 << 20)],
            }),
            symbols: vec![ObjectUse { symbol: 0, samples: 900, waiting_on_loads: 700.0, writes: false }],
        }
    }

    fn objects() -> Objects {
        let one = |tid, offset| LineUse {
            thread: ThreadId(tid),
            tid,
            offset,
            symbol: 0,
            writes: true,
            samples: 40,
        };
        let part = |index| FlaggedPart { index, samples: 300, load_waiting: share(0.97) };
        Objects {
            addressed: None,
            objects: vec![object()],
            shared_lines: vec![SharedLine {
                address: 0x9000,
                object: Some(0),
                sharing: ObjectSharing::False,
                samples: 80,
                waiting: share(0.3),
                uses: vec![one(7, 0), one(8, 8)],
            }],
            flagged: Some(Flagged {
                intervals: 3,
                samples: 300,
                symbols: vec![part(0)],
                objects: vec![part(0)],
            }),
            remarks: Vec::new(),
        }
    }

    #[test]
    fn objects_say_who_touches_them_where_they_lie_and_who_waits() {
        let mut findings = findings();
        findings.about.samples = 1000;
        let name = findings.symbols[0].name.clone();
        let text = anstream::adapter::strip_str(&text(&findings, &objects(), 5, 200)).to_string();
        // Wherever its lines break.
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in [
            "join.c:12",
            "read by threads 7 and 8; written by thread 8",
            "in mappings of 96 MiB: 4 MiB on huge pages, 32 MiB on node 0, 64 MiB on node 1",
            &format!("In {name} (100 % of its load waiting)"),
            "inside the 3 flagged intervals alone (30 % of all)",
            &format!("name {name} (97 %) on blocks of 64 to 128 MiB from make_rows (97 %)"),
            "0x9000 in blocks of 64 to 128 MiB from make_rows: false sharing",
            "thread 7 writes at offset 0",
            "thread 8 writes at offset 8",
        ] {
            assert!(text.contains(words), "{words}\nis not in\n{text}");
        }
    }

    #[test]
    fn flags_that_cover_the_run_say_nothing_of_their_own() {
        let mut findings = findings();
        findings.about.samples = 301;
        assert_eq!(flagged_sentence(&findings, &objects()), None);
        let none = Objects { flagged: None, ..objects() };
        findings.about.samples = 1000;
        assert_eq!(flagged_sentence(&findings, &none), None);
    }
}
