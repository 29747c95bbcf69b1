//! Models of simulated machines: the list, and one model with all its numbers and their sources.

mod groups;

use machine::{
    model::{Model, SourceNote},
    units::significant,
};

use crate::{
    layout::prose::{counted, listed, titled, width, wrap, wrap_in},
    layout::style::{HEADING, PLAIN, QUIET, paint},
    layout::table::{Cell, Column, Table},
};
use groups::ModelGroup;

/// Narrower terminals get lines of this many columns all the same.
const NARROWEST: usize = 40;

/// The blank that is no place to break.
const FIXED: &str = "\u{a0}";

/// The models as a table in at most `columns`.
pub fn list(models: &[Model], columns: usize) -> String {
    let columns = columns.max(NARROWEST);
    let mut table = Table::new(vec![
        Column::new("model").left(),
        Column::new("product").left().drop_rank(4),
        Column::new("cores"),
        Column::new("L1").drop_rank(3),
        Column::new("L2").drop_rank(1),
        Column::new("L3"),
        Column::new("memory").called("the memory channels").drop_rank(2),
    ]);
    for model in models {
        table.row(vec![
            Cell::styled(model.name.clone(), HEADING),
            model.title.clone().into(),
            format!("{}×{}", model.sockets, model.cores_per_socket).into(),
            model.l1d.geometry.size.to_string().into(),
            model.l2.geometry.size.to_string().into(),
            model.l3.map_or(crate::layout::figures::absent(), |l3| l3.geometry.size.to_string().into()),
            format!("{} × {}", model.memory.channels, rate(model.memory.channel_bytes_per_s)).into(),
        ]);
    }
    let rendered = table.render(columns);
    let mut note = "Cores are sockets × cores of each; L1 and L2 are of one core or pair, the L3 and the memory channels of \
                    one socket. 'memwall models show MODEL' has all numbers and where they come from."
        .to_owned();
    if !rendered.left_out.is_empty() {
        note += &format!(" No room for {}; --json has all.", listed(&rendered.left_out));
    }
    format!("{}\n{}", rendered.text, wrap_in(QUIET, "", &note, columns))
}

/// All numbers of a model, grouped, each group with its sources.
pub fn text(model: &Model, columns: usize) -> String {
    let columns = columns.max(NARROWEST);
    let mut out = paint(HEADING, wrap("", &model.title, columns).trim_end()) + "\n";
    out += &dots("", &headline(model), columns);
    out += &titled("When idle", &idle(model), columns).replace(FIXED, " ");
    for group in groups::of(model, columns) {
        out += &format!("\n{}\n", paint(HEADING, group.title));
        out += &dots("  ", &group.facts, columns);
        out += &group.detail;
        for note in &model.sources {
            out += &source(note, &group, columns);
        }
    }
    out + "\n" + &used(&model.used_to_choose, columns)
}

fn headline(model: &Model) -> Vec<String> {
    let vectors = model.isa.widest().map(|width| format!("vectors up to {width}"));
    let mut parts = vec![
        format!("sim:{}", model.name),
        format!(
            "{} of {}",
            counted(model.sockets as usize, "socket"),
            counted(model.cores_per_socket as usize, "core")
        ),
        format!("{} per core", counted(model.threads_per_core as usize, "thread")),
    ];
    parts.extend(vectors);
    parts
}

/// What the latencies add up to.
fn idle(model: &Model) -> String {
    let found = model.idle_latencies();
    let digits = |value: f64| trimmed(&significant(value, 3)).to_owned();
    let level = |name: &str, ns: f64| {
        let cycles = digits(ns * model.clock.core_hz as f64 / 1e9);
        let time = format!("{} ns ({cycles} cycles)", digits(ns)).replace(' ', FIXED);
        format!("{time} from {name}")
    };
    let mut levels = vec![level("L1", found.l1_ns), level("L2", found.l2_ns)];
    levels.extend(found.l3_ns.map(|ns| level("L3", ns)));
    levels.push(level("memory", found.local_ns));
    levels.extend(found.remote_ns.map(|ns| level("another socket", ns)));
    format!("one load takes {}", listed(&levels))
}

/// Where the numbers of a group come from; empty if the note is not about it.
fn source(note: &SourceNote, group: &ModelGroup, columns: usize) -> String {
    let about = |key: &&str| group.keys.contains(&key.split('.').next().unwrap_or(key));
    let keys: Vec<&str> = note.keys().filter(about).collect();
    if keys.is_empty() {
        return String::new();
    }
    // A note about the whole group needs no key.
    let inner: Vec<&str> = keys.iter().filter_map(|key| Some(key.split_once('.')?.1)).collect();
    let text =
        if inner.is_empty() { note.from.clone() } else { format!("{}: {}", inner.join(", "), note.from) };
    wrap_in(QUIET, "    from ", &text, columns)
}

fn used(rows: &[String], columns: usize) -> String {
    let mut out = paint(HEADING, "Rows used to choose a parameter") + "\n";
    if rows.is_empty() {
        return out + &wrap("  ", "none", columns);
    }
    for row in rows {
        out += &wrap("  • ", row, columns);
    }
    out + &wrap_in(QUIET, "  ", "Only other published rows count as results.", columns)
}

/// Facts joined by dots, broken between them rather than inside.
fn dots(first: &str, facts: &[String], columns: usize) -> String {
    let room = columns.saturating_sub(width(first) + 2);
    let keep = |fact: &String| if width(fact) <= room { fact.replace(' ', FIXED) } else { fact.clone() };
    let kept: Vec<String> = facts.iter().map(keep).collect();
    wrap(first, &kept.join(&format!("{FIXED}· ")), columns).replace(FIXED, " ")
}

/// A raw rate, four digits.
fn rate(bytes_per_s: u64) -> String {
    let digits = significant(bytes_per_s as f64 / 1e9, 4);
    format!("{} GB/s", trimmed(&digits))
}

/// Without zeros that say nothing.
fn trimmed(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

/// One line per port or the like: a name, then what it holds.
fn entry(name: &str, text: &str, columns: usize) -> String {
    wrap(&format!("  {}  ", paint(PLAIN, name)), text, columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str) -> Model {
        Model::builtin(name).expect("a model")
    }

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    /// Every model in several widths: nothing is wider than asked.
    #[test]
    fn no_line_is_too_wide() {
        for columns in [40, 60, 80, 120] {
            let models: Vec<Model> = Model::builtin_names().map(model).collect();
            let texts = models.iter().map(|model| text(model, columns)).chain([list(&models, columns)]);
            for text in texts.map(|text| plain(&text)) {
                for line in text.lines() {
                    assert!(width(line) <= columns, "{columns}: {line}\n{text}");
                    assert_eq!(line.trim_end(), line, "{text}");
                }
                assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{text}");
            }
        }
    }

    #[test]
    fn the_claimed_machine_can_be_drawn() {
        for (name, counts) in [
            ("haswell-ep-e5-2680v3", "2 sockets · 24 cores · 24 threads"),
            ("broadwell-ex-e7-8890v4", "4 sockets · 96 cores · 96 threads"),
            ("core2-e5430", "1 socket · 4 cores · 4 threads"),
        ] {
            let drawn = plain(&crate::terminal::topology::text(&model(name).topology(), 80));
            assert!(drawn.contains(counts) && drawn.contains("(simulated)"), "{drawn}");
            assert!(drawn.contains("no hypervisor") && !drawn.contains("Not known"), "{drawn}");
        }
    }

    #[test]
    fn every_source_is_shown() {
        for name in Model::builtin_names() {
            let model = model(name);
            let words = plain(&text(&model, 80)).split_whitespace().collect::<Vec<_>>().join(" ");
            for note in &model.sources {
                assert!(words.contains(&note.from), "{name}: {}\n{words}", note.from);
            }
            for row in &model.used_to_choose {
                assert!(words.contains(row), "{name}: {row}");
            }
        }
    }
}
