//! Values of events: summed, per package, per place, per interval.

use std::collections::BTreeMap;

use events::{Count, CountedPlace, Event, Missing, Value};
use record::count::{CountedEvent, Counts, Total, total};

use super::CountSum;
use crate::{
    layout::figures::{percent_text, time},
    layout::prose::{visible, wrap_in},
    layout::style::{QUIET, WARNING},
    layout::table::{Cell, Column, Table},
    terminal::trust,
};

/// Below this share of its time on a counter, a scaled value is marked.
const SELDOM: f64 = 0.999;

/// One row per event and part.
pub fn table(counts: &Counts, sum: CountSum, columns: usize) -> String {
    let apart = sum != CountSum::Whole;
    let mut heads = vec![Column::new("event").left()];
    if apart {
        heads.push(Column::new("where").left());
    }
    let (has_scale, has_runs) =
        (counts.events.iter().any(|event| event.scale.is_some()), counts.runs.len() > 1);
    heads.push(Column::new("count"));
    if has_scale {
        heads.push(Column::new("means").left().called("what the count stands for").drop_rank(3));
    }
    if has_runs {
        heads.push(Column::new("±").called("spread over runs").drop_rank(2));
    }
    let shared = counts.runs.iter().flat_map(|run| &run.counts).any(|count| is_scaled(&count.value));
    if shared {
        heads.push(Column::new("counted").called("share of the time counted").drop_rank(4));
    }
    let judged = counts.events.iter().any(|event| event.trust.is_some());
    if judged {
        heads.push(Column::new("trust").left().drop_rank(1));
    }
    let mut table = Table::new(heads);
    let mut reasons = Reasons::default();
    for (index, event) in counts.events.iter().enumerate() {
        for (label, place) in parts(counts, index, sum) {
            let totals: Vec<Total> = counts
                .runs
                .iter()
                .filter_map(|run| total(&run.counts, index, |at| belongs(counts, at, sum, place.as_ref())))
                .collect();
            let mut cells = vec![visible(&event.name).into()];
            if apart {
                cells.push(label.into());
            }
            let [count, means, spread, share] = value_cells(event, &totals, &mut reasons);
            cells.push(count);
            cells.extend(has_scale.then_some(means));
            cells.extend(has_runs.then_some(spread));
            cells.extend(shared.then_some(share));
            cells.extend(judged.then(|| trust::cell(event.trust.as_ref())));
            table.row(cells);
        }
    }
    let mut out = table.render(columns).text + &reasons.text(columns);
    if shared {
        let words = "Counters were shared: a value counted part of the time is scaled to all of it.";
        out += &wrap_in(QUIET, "  ", words, columns);
    }
    out + &errata(&counts.events, columns)
}

/// The maker's errata, once below the table.
fn errata(events: &[CountedEvent], columns: usize) -> String {
    let mut known = Reasons::default();
    for event in events.iter().filter(|event| !event.errata.is_empty()) {
        known.add(&event.name, &format!("errata {}", event.errata.join(", ")));
    }
    known.text(columns)
}

/// Why values are missing: each reason once, with all it holds for.
#[derive(Debug, Default)]
pub struct Reasons(Vec<(String, Vec<String>)>);

impl Reasons {
    /// A reason of one more.
    pub fn add(&mut self, name: &str, reason: &str) {
        let at = self.0.iter().position(|(known, _)| known == reason).unwrap_or_else(|| {
            self.0.push((reason.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        let names = &mut self.0[at].1;
        let name = visible(name);
        if !names.contains(&name) {
            names.push(name);
        }
    }

    /// One paragraph each.
    pub fn text(&self, columns: usize) -> String {
        let line = |(reason, names): &(String, Vec<String>)| {
            wrap_in(QUIET, "  ", &format!("{}: {}", names.join(", "), visible(reason)), columns)
        };
        self.0.iter().map(line).collect()
    }
}

/// The parts an event's values are shown in: label, and the place they belong to.
fn parts(counts: &Counts, event: usize, sum: CountSum) -> Vec<(String, Option<CountedPlace>)> {
    if sum == CountSum::Whole {
        return vec![(String::new(), None)];
    }
    let mut parts = BTreeMap::new();
    for count in counts.runs.iter().flat_map(|run| &run.counts).filter(|count| count.event == event) {
        let package = package_of(counts, &count.place);
        match (sum, package) {
            (CountSum::PerPackage, Some(package)) => {
                parts.entry(format!("socket {package}")).or_insert_with(|| count.place.clone());
            }
            _ => {
                parts.entry(place_name(&count.place)).or_insert_with(|| count.place.clone());
            }
        }
    }
    parts.into_iter().map(|(label, place)| (label, Some(place))).collect()
}

fn belongs(counts: &Counts, place: &CountedPlace, sum: CountSum, part: Option<&CountedPlace>) -> bool {
    match (sum, part) {
        (_, None) | (CountSum::Whole, _) => true,
        (CountSum::PerPackage, Some(part)) => match (package_of(counts, place), package_of(counts, part)) {
            (Some(a), Some(b)) => a == b,
            _ => place == part,
        },
        (CountSum::PerPlace, Some(part)) => place == part,
    }
}

fn package_of(counts: &Counts, place: &CountedPlace) -> Option<u32> {
    match place {
        CountedPlace::Box { package, .. } => Some(*package),
        CountedPlace::Cpu(cpu) => {
            counts.packages.iter().find(|(of, _)| of == cpu).map(|(_, package)| *package)
        }
        CountedPlace::Target | CountedPlace::Thread(_) => None,
    }
}

/// In words, of one width for a kind.
pub fn place_name(place: &CountedPlace) -> String {
    match place {
        CountedPlace::Target => "all".to_owned(),
        CountedPlace::Thread(tid) => format!("thread {tid:>7}"),
        CountedPlace::Cpu(cpu) => format!("CPU {cpu:>4}"),
        CountedPlace::Box { package, name } => format!("socket {package} {name}"),
    }
}

fn is_scaled(value: &Value) -> bool {
    value.running_share().is_some_and(|share| share < SELDOM)
}

/// Count, what it stands for, spread, and the share of the time it was counted.
fn value_cells(event: &CountedEvent, totals: &[Total], reasons: &mut Reasons) -> [Cell; 4] {
    let values: Vec<f64> = totals
        .iter()
        .filter_map(|total| match total {
            Total::Counted { estimate, .. } => Some(*estimate),
            Total::Missing { .. } => None,
        })
        .collect();
    let least = totals.iter().filter_map(|total| match total {
        Total::Counted { running_share, .. } => Some(*running_share),
        Total::Missing { .. } => None,
    });
    let least = least.reduce(f64::min);
    if let Some(Total::Missing { reason, places, of }) =
        totals.iter().find(|total| matches!(total, Total::Missing { .. }))
    {
        let reason = match reason {
            Missing::Refused(refusal) => refusal.beside(&event.name),
            other => missing(other),
        };
        match places < of {
            true => reasons.add(&event.name, &format!("at {places} of {of} places: {reason}")),
            false => reasons.add(&event.name, &reason),
        }
    }
    let is_broken = |total: &Total| matches!(total, Total::Missing { reason: Missing::Broken(_), .. });
    let nothing = if totals.iter().any(is_broken) { "withheld" } else { "not counted" };
    [
        mean(&values).map_or_else(|| Cell::styled(nothing, WARNING), |value| grouped(value).into()),
        mean(&values)
            .and_then(|value| meaning(value, event.scale.as_deref()))
            .map_or_else(|| "".into(), Cell::from),
        spread(&values).map_or_else(|| "".into(), |share| percent_of(share).into()),
        least.map_or_else(|| "".into(), |share| percent_of(share).into()),
    ]
}

/// A count alone.
pub fn count_cell(event: &CountedEvent, totals: &[Total], reasons: &mut Reasons) -> Cell {
    let [count, ..] = value_cells(event, totals, reasons);
    count
}

/// Why there is no value, in words.
pub fn missing(reason: &Missing) -> String {
    match reason {
        Missing::NeverRan => {
            "it was switched on and never had a counter; another user of the counters, or the NMI \
                              watchdog, has it"
                .to_owned()
        }
        Missing::NeverEnabled => "the target never ran while it was switched on".to_owned(),
        Missing::Refused(refusal) => refusal.to_string(),
        Missing::Failed(text) | Missing::Broken(text) => text.clone(),
    }
}

/// What a count stands for: `64B` lines as bytes, flops as flops.
fn meaning(value: f64, scale: Option<&str>) -> Option<String> {
    let scale = scale?;
    let digits = scale.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let each: f64 = scale[..digits].parse().ok()?;
    match &scale[digits..] {
        "B" => Some(bytes(value * each)),
        "ns" => Some(time(value * each).text().to_owned()),
        unit => Some(format!("{} {unit}", grouped(value * each))),
    }
}

fn bytes(value: f64) -> String {
    let units = ["B", "KB", "MB", "GB", "TB"];
    let power = if value < 1.0 { 0 } else { ((value.log10() / 3.0) as usize).min(units.len() - 1) };
    format!("{:.*} {}", usize::from(power > 0) * 2, value / 1000f64.powi(power as i32), units[power])
}

/// A count in groups of three digits.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(digit);
    }
    format!("{sign}{out}")
}

/// The mean; none of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation over the mean; none of fewer than two values.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = mean(values).filter(|middle| values.len() > 1 && *middle != 0.0)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt() / middle.abs())
}

/// `1.2 %`.
pub fn percent_of(share: f64) -> String {
    format!("{} %", percent_text(share))
}

/// What one interval added, one line per event; printed while counting goes on.
pub fn interval(events: &[Event], end_ns: u64, counts: &[Count]) -> String {
    let line = |(index, event): (usize, &Event)| {
        let count = match total(counts, index, |_| true) {
            Some(Total::Counted { estimate, .. }) => grouped(estimate),
            Some(Total::Missing { reason: Missing::NeverEnabled, .. }) => "did not run".to_owned(),
            Some(Total::Missing { reason: Missing::Broken(_), .. }) => "withheld".to_owned(),
            _ => "not counted".to_owned(),
        };
        format!("{:>9}  {count:>15}  {}\n", time(end_ns as f64).text(), visible(&event.name))
    };
    events.iter().enumerate().map(line).collect()
}

#[cfg(test)]
mod tests {
    use events::{CountRefusal, EventRefusal};

    use super::*;

    #[test]
    fn a_reason_is_shown_once_without_the_name_it_begins_with() {
        let mut reasons = Reasons::default();
        for name in ["cycles", "branches"] {
            let form = format!("cpu config=0x{}", name.len());
            let refusal = EventRefusal::of(name, &form, "ENOENT: no counters".to_owned());
            assert_eq!(refusal.to_string(), format!("{name} ({form}): ENOENT: no counters"));
            reasons.add(name, &refusal.beside(name));
        }
        let never = || CountRefusal::NotHere { event: "cycles".to_owned(), reason: "never".to_owned() };
        reasons.add("cycles", &EventRefusal::from(never()).beside("cycles"));
        reasons.add("cycles", "never");
        // About another event, a refusal says which.
        assert_eq!(EventRefusal::from(never()).beside("slots"), never().to_string());
        let text = anstream::adapter::strip_str(&reasons.text(80)).to_string();
        assert_eq!(text, "  cycles, branches: ENOENT: no counters\n  cycles: never\n");
        assert_eq!(EventRefusal::from("something else").beside("cycles"), "something else");
    }

    #[test]
    fn counts_read_in_threes_and_scales_as_what_they_stand_for() {
        assert_eq!([0.0, 999.0, 1000.0, 1234567.0].map(grouped), ["0", "999", "1 000", "1 234 567"]);
        assert_eq!(meaning(1e6, Some("64B")).as_deref(), Some("64.00 MB"));
        assert_eq!(meaning(3.0, Some("4flop")).as_deref(), Some("12 flop"));
        assert_eq!((meaning(3.0, None), meaning(3.0, Some("odd"))), (None, None));
    }
}
