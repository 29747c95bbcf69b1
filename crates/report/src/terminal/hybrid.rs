//! The hybrid of helm2019 §7, below what a run says.

use analysis::{
    findings::KnownLimits,
    hybrid::{HybridFindings, HybridPart},
};

use super::run::bars::column;
use crate::layout::{
    figures::percent_text,
    hybrid::{self, line, sentences},
    prose::{visible, wrap, wrap_in},
    signature::{function_name, object_name},
    style::HEADING,
    table::{Cell, Column, Table},
};

/// Columns for names.
const ROOM: usize = 44;

/// All of it; nothing where nobody asked.
pub fn text(found: Option<&KnownLimits<HybridFindings>>, columns: usize) -> String {
    let Some(found) = found else { return String::new() };
    let mut out = format!("\n{}", wrap_in(HEADING, "", hybrid::HEADING, columns));
    out.extend(sentences(found).iter().map(|sentence| wrap("  ", sentence, columns)));
    let KnownLimits::Value(found) = found else { return out };
    let latency = line(found);
    let top = latency.most().unwrap_or(0.0).max(found.threshold_cycles);
    let parts = latency.parts(columns.saturating_sub(4).clamp(8, 72));
    let shown: String = parts.into_iter().map(|value| column(value.map(|cycles| cycles / top))).collect();
    out += &format!("  {shown}\n");
    out += &table("function", &found.functions, function_name, columns);
    out + &table("data", &found.objects, object_name, columns)
}

fn table(what: &str, parts: &[HybridPart], name: fn(&str, usize) -> String, columns: usize) -> String {
    if parts.is_empty() {
        return String::new();
    }
    let mut table = Table::new(vec![
        Column::new(what).left(),
        Column::new("slow loads"),
        Column::new("% of them"),
        Column::new("in").left().drop_rank(1),
    ]);
    for part in parts {
        let share = &part.share;
        let module = part.module.as_deref().map(|path| visible(path.rsplit('/').next().unwrap_or(path)));
        table.row(vec![
            name(&part.name, ROOM).into(),
            part.loads.to_string().into(),
            Cell::from(format!(
                "{} ({} to {})",
                percent_text(share.value),
                percent_text(share.low),
                percent_text(share.high)
            )),
            module.unwrap_or_default().into(),
        ]);
    }
    table.render(columns).text
}

#[cfg(test)]
mod tests {
    use analysis::{findings::TimeShare, hybrid::HybridInterval};

    use super::*;

    #[test]
    fn flagged_intervals_name_code_and_data_and_what_is_missing_is_said() {
        let part = |name: &str| HybridPart {
            name: name.to_owned(),
            module: None,
            loads: 9,
            share: TimeShare { value: 0.9, low: 0.7, high: 0.97 },
        };
        let interval = |start_ns: u64, latency_cycles, flagged| HybridInterval {
            start_ns,
            end_ns: start_ns + 100,
            latency_cycles,
            flagged,
        };
        let found = HybridFindings {
            threshold_cycles: 200.0,
            source: "samples of a, b".to_owned(),
            intervals: vec![
                interval(0, Some(50.0), false),
                interval(100, None, false),
                interval(200, Some(400.0), true),
            ],
            flagged: 1,
            slow_loads: 12,
            walked_loads: 3,
            blamed_loads: 10,
            functions: vec![part("triad")],
            objects: vec![part("block of 64 MiB from fill")],
        };
        let text = text(Some(&KnownLimits::Value(found)), 100);
        let text = anstream::adapter::strip_str(&text).to_string();
        for words in [
            "In 1 of 2 intervals loads that miss wait longer than 200 cycles",
            "Of 12 sampled loads as slow as that 10 lie in these intervals",
            "3 others as slow waited for a page walk, which is no bandwidth: left out.",
            "▂·█",
            "triad",
            "90 (70 to 97)",
            "block of 64 MiB from fill",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
        let missing = super::text(Some(&KnownLimits::Missing("no validation".to_owned())), 100);
        assert!(missing.contains("Not told: no validation."), "{missing}");
        assert_eq!(super::text(None, 100), "");
    }

    #[test]
    fn without_a_slow_interval_or_a_slow_load_in_one_nothing_is_named_and_columns_reach_the_threshold() {
        let found = |flagged, latency| HybridFindings {
            threshold_cycles: 200.0,
            source: "samples of a".to_owned(),
            intervals: vec![HybridInterval {
                start_ns: 0,
                end_ns: 100,
                latency_cycles: Some(latency),
                flagged: flagged > 0,
            }],
            flagged,
            slow_loads: 12,
            walked_loads: 3,
            blamed_loads: 0,
            functions: Vec::new(),
            objects: Vec::new(),
        };
        let shown = |found| {
            let text = text(Some(&KnownLimits::Value(found)), 200);
            anstream::adapter::strip_str(&text).to_string()
        };
        let calm = shown(found(0, 100.0));
        assert!(
            calm.contains(
                "No interval is short of bandwidth: 12 sampled loads as slow as that blame nothing."
            )
        );
        assert!(calm.contains('▅') && !calm.contains('█'), "half of the threshold: {calm}");
        let elsewhere = shown(found(1, 400.0));
        assert!(elsewhere.contains("none lies in these intervals: nothing is named."), "{elsewhere}");
    }
}
