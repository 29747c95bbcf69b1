//! The page of a machine's profile.

use machine::{
    Profile,
    profile::{Bandwidths, Estimate, LevelName},
};
use serde::Serialize;

use super::{
    curve::{Curve, Curves, Spot},
    frame::PageFrame,
    hierarchy::{self, Nearness},
    markup::{Html, element, facts, list, paragraph, section},
    tables::{CellValue, ColumnKind, DataTable, column, place},
};
use crate::{
    layout::age,
    layout::conditions::{ConditionsSeen, believable_hz, gigahertz, no_cycles_because, noise_sentences},
    layout::figures::percent_text,
    layout::plot::{Axis, Guide, PlottedQuantity, Scale},
    layout::prose::dotted,
    terminal::profile::{CHANGED, cores::contradiction},
    terminal::run::limits::name,
};

/// What the script works on.
#[derive(Serialize)]
pub(super) struct Sheet {
    pub(super) page: &'static str,
    pub(super) tables: Vec<DataTable>,
}

/// The page of a profile, as one file. `changed` says in words what is different on the machine since.
pub fn profile(profile: &Profile, changed: &[String]) -> String {
    let print = &profile.fingerprint;
    let sections: Vec<(&'static str, &'static str, Html)> = vec![
        ("levels", "Levels", Html::all([warning(changed)].into_iter().chain(levels(profile)))),
        ("latency", "Load latency by size", sized(profile)),
        ("translation", "Page translation", translation(profile)),
        ("load", "Latency under load", loaded(profile)),
        ("cores", "Core to core", cores(profile)),
        ("trust", "How the numbers were obtained, and how far to trust them", trust(profile)),
    ];
    let page = PageFrame {
        title: match &profile.simulated {
            Some(model) => format!("Simulated machine {model}"),
            None => print.cpu.clone(),
        },
        kind: "machine profile",
        subtitle: vec![surroundings(profile), provenance(profile)],
        contents: vec![
            ("levels", "Levels"),
            ("latency", "Latency"),
            ("translation", "Pages"),
            ("load", "Under load"),
            ("cores", "Core to core"),
            ("trust", "Trust"),
        ],
        body: Html::all(sections.into_iter().map(|(id, title, content)| section(id, title, [content]))),
        data: Sheet { page: "sheet", tables: tables(profile) },
    };
    page.render()
}

/// The machine in one line.
pub(super) fn machine_words(profile: &Profile) -> String {
    dotted([profile.fingerprint.cpu.as_str(), &surroundings(profile)])
}

/// What is around the CPU.
fn surroundings(profile: &Profile) -> String {
    let print = &profile.fingerprint;
    if profile.simulated.is_some() {
        return print.topology.clone();
    }
    let hypervisor = match print.hypervisor.as_str() {
        "none" | "" => "no hypervisor".to_owned(),
        name => format!("guest of {name}"),
    };
    let kernel = format!("kernel {}", print.kernel);
    let microcode = format!("microcode {}", print.microcode);
    dotted([print.topology.as_str(), &hypervisor, &kernel, &microcode])
}

fn provenance(profile: &Profile) -> String {
    let made = match profile.simulated {
        Some(_) => format!("seed {}", profile.seed),
        None => format!("measured {}", age::date(profile.measured_at)),
    };
    let clock = believable_hz(profile.clock.as_ref()).map_or(String::new(), gigahertz);
    let cpus = format!("CPUs {}", profile.cpus);
    dotted([made.as_str(), &format!("memwall {}", profile.memwall), &cpus, &clock, &profile.fingerprint.id])
}

/// That the machine is no longer as it was.
fn warning(changed: &[String]) -> Html {
    match changed {
        [] => Html::default(),
        _ => Html::all([paragraph("warning", CHANGED), list("notes", changed)]),
    }
}

fn levels(profile: &Profile) -> Vec<Html> {
    if profile.levels.is_empty() {
        return vec![not_measured()];
    }
    let drawing = hierarchy::figure(&hierarchy::of_profile(profile), &Nearness::default());
    vec![
        element("div").set("class", "beside").with([drawing, list("notes", profile.remarks.iter())]).end(),
        place("levels-table"),
    ]
}

/// Claims and measurements of every level.
pub(super) fn levels_table(profile: &Profile) -> DataTable {
    let mut columns = vec![
        column("level", ColumnKind::Text),
        column("claimed", ColumnKind::Bytes),
        column("usable by one core", ColumnKind::Bytes),
        column("at worst", ColumnKind::Bytes),
        column("at best", ColumnKind::Bytes),
        column("latency, ns", ColumnKind::Number),
        column("cycles", ColumnKind::Number),
    ];
    let all_cores = profile.levels.iter().any(|level| level.all_cores != Bandwidths::default());
    for (who, shown) in [("one core", true), ("all cores", all_cores)] {
        let titles =
            ["load", "store", "copy"].map(|what| column(format!("{what}, {who}, GB/s"), ColumnKind::Number));
        columns.extend(titles.into_iter().filter(|_| shown));
    }
    let hz = believable_hz(profile.clock.as_ref());
    let value = |estimate: &Option<Estimate>, unit: f64| {
        CellValue::from(estimate.map(|estimate| estimate.value / unit))
    };
    let rows = profile.levels.iter().map(|level| {
        let cycles = level.latency_ns.zip(hz).map(|(ns, hz)| ns.value * hz / 1e9);
        let mut row: Vec<CellValue> = vec![
            name(&level.name).into(),
            level.claimed.map(|bytes| bytes.0 as f64).into(),
            value(&level.usable, 1.0),
            level.usable.map(|usable| usable.low).into(),
            level.usable.map(|usable| usable.high).into(),
            value(&level.latency_ns, 1.0),
            cycles.into(),
        ];
        for bandwidths in [Some(&level.one_core), all_cores.then_some(&level.all_cores)].into_iter().flatten()
        {
            row.extend([&bandwidths.load, &bandwidths.store, &bandwidths.copy].map(|rate| value(rate, 1e9)));
        }
        row
    });
    DataTable {
        id: "levels-table",
        caption: "Levels: claimed and measured".to_owned(),
        columns,
        rows: rows.collect(),
    }
}

fn spot(x: f64, estimate: &Estimate) -> Spot {
    Spot { x, y: estimate.value, interval: Some((estimate.low, estimate.high)) }
}

/// Points within a tenth of each other along the axis become one, at their medians, with a band from the lowest to the
/// highest: near a knee the same size is slow or fast as pages fall, and a line through all of them is a scribble.
fn middles(mut points: Vec<Spot>) -> Vec<Spot> {
    const NEAR: f64 = 1.1;
    let median = |values: &mut Vec<f64>| {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
    };
    points.retain(|spot| spot.x.is_finite() && spot.y.is_finite());
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let mut out = Vec::new();
    let mut rest = points.as_slice();
    while let Some(first) = rest.first() {
        let near = rest.iter().take_while(|spot| spot.x <= first.x * NEAR).count().max(1);
        let (here, others) = rest.split_at(near);
        rest = others;
        let ends = here.iter().map(|spot| spot.interval.unwrap_or((spot.y, spot.y)));
        let band = ends.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1)));
        let mut xs: Vec<f64> = here.iter().map(|spot| spot.x).collect();
        let mut ys: Vec<f64> = here.iter().map(|spot| spot.y).collect();
        out.push(Spot { x: median(&mut xs), y: median(&mut ys), interval: band });
    }
    out
}

fn sized(profile: &Profile) -> Html {
    let guides = profile.levels.iter().filter_map(|level| match level.name {
        LevelName::Cache(number) => Some(Guide { x: level.usable?.value, name: format!("L{number}") }),
        LevelName::Memory { .. } => None,
    });
    let points = profile.latency_curve.iter().map(|point| spot(point.size.0 as f64, &point.latency_ns));
    let curves = Curves {
        title: "Latency of a load that waits for the one before, ns, by data set size: median of sizes within a tenth of \
                each other, and a band that holds all of them; dotted: measured capacities"
            .to_owned(),
        x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
        y: Axis { quantity: PlottedQuantity::Nanos, scale: Scale::Log },
        curves: vec![Curve { name: "latency".to_owned(), points: middles(points.collect()) }],
        guides: guides.collect(),
        limits: Vec::new(),
    };
    let small = profile.latency_curve.iter().filter(|point| !point.huge_pages).count();
    let note =
        format!("{small} of {} sizes without huge pages: page walks included.", profile.latency_curve.len());
    with_table(
        curves.figure(),
        if small > 0 { paragraph("quiet", &note) } else { Html::default() },
        "latency-table",
    )
}

fn translation(profile: &Profile) -> Html {
    let Some(tlb) = profile.tlb.as_ref().filter(|tlb| !tlb.curve.is_empty()) else {
        return not_measured();
    };
    let bytes = |pages: u64| pages as f64 * 4096.0;
    let small = tlb.curve.iter().map(|point| spot(bytes(point.pages), &point.small_ns));
    let huge = tlb.curve.iter().filter_map(|point| Some(spot(bytes(point.pages), point.huge_ns.as_ref()?)));
    let curves = Curves {
        title: "Latency of one access per page, ns, by memory spanned in 4 KiB pages".to_owned(),
        x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
        y: Axis { quantity: PlottedQuantity::Nanos, scale: Scale::Log },
        curves: vec![
            Curve { name: "4 KiB pages".to_owned(), points: middles(small.collect()) },
            Curve { name: "huge pages".to_owned(), points: middles(huge.collect()) },
        ],
        guides: Vec::new(),
        limits: Vec::new(),
    };
    let mut words = crate::terminal::profile::translation_text(tlb);
    if let Some(first) = words.get(..1).map(str::to_uppercase) {
        words.replace_range(..1, &first);
    }
    with_table(curves.figure(), paragraph("", &format!("{words}.")), "translation-table")
}

fn loaded(profile: &Profile) -> Html {
    let points = profile.loaded_latency.iter().map(|point| spot(point.drawn / 1e9, &point.latency_ns));
    let points = middles(points.collect());
    let mut rising: Vec<Spot> = profile
        .loaded_latency
        .iter()
        .filter_map(|point| Some(Spot { x: point.drawn / 1e9, y: point.rising_ns?, interval: None }))
        .collect();
    rising.sort_by(|a, b| a.x.total_cmp(&b.x));
    let contradiction = contradiction(&profile.loaded_latency);
    let mut drawn = vec![Curve { name: "as measured".to_owned(), points }];
    if contradiction.is_some() {
        drawn.push(Curve { name: "the nearest that never falls".to_owned(), points: rising });
    }
    let curves = Curves {
        title: "Latency of one core, ns, by the bandwidth the others draw, GB/s".to_owned(),
        x: Axis { quantity: PlottedQuantity::GbPerS, scale: Scale::Linear },
        y: Axis { quantity: PlottedQuantity::Nanos, scale: Scale::Linear },
        curves: drawn,
        guides: Vec::new(),
        limits: Vec::new(),
    };
    if profile.loaded_latency.is_empty() {
        return if profile.cpus.len() == 1 { one_cpu() } else { not_measured() };
    }
    let words = contradiction.map_or_else(Html::default, |note| paragraph("warning", &format!("{note}.")));
    with_table(curves.figure(), words, "load-table")
}

fn cores(profile: &Profile) -> Html {
    match profile.core_to_core.is_empty() {
        true if profile.cpus.len() == 1 => one_cpu(),
        true => not_measured(),
        false => place("cores-table"),
    }
}

fn trust(profile: &Profile) -> Html {
    // No time of reading is known: the date above has to do.
    let mut warnings = crate::terminal::profile::warnings(profile, profile.measured_at);
    warnings.extend(no_cycles_because(profile.clock.as_ref()).map(|why| format!("No cycles: {why}")));
    let mut pairs = Vec::new();
    if let Some(noise) = &profile.noise {
        let mut sentences =
            noise_sentences(&[ConditionsSeen { at: String::new(), noise }], profile.cpus.len());
        if sentences.is_empty() {
            sentences.push("no steal time and no involuntary context switches seen".to_owned());
        }
        sentences
            .extend(noise.spread.map(|spread| format!("spread {} % of the median", percent_text(spread))));
        pairs.push(("Noise".to_owned(), sentences.join("; ")));
    }
    if let Some(costs) = &profile.overheads {
        let nanos = machine::units::nanos;
        let counter = costs.tsc_read_ns.map_or("not measured".to_owned(), nanos);
        let text = format!(
            "time stamp counter {counter}; clock_gettime {}, in steps of {}; system call {}",
            nanos(costs.clock_read_ns),
            nanos(costs.clock_step_ns),
            nanos(costs.syscall_ns)
        );
        pairs.push(("Cost of measuring".to_owned(), text));
    }
    let method = "Every number is the median of repeated, timed runs of a kernel whose work is known; shaded bands \
                  hold the 95 % confidence intervals of all points that are drawn as one. Capacities are where the latency curve leaves a level, at worst \
                  and at best as pages fell and neighbours let it; why a level was not seen is among the remarks. A dash \
                  stands for what was not measured.";
    Html::all([paragraph("", method), list("notes warning", warnings), facts(pairs)])
}

fn with_table(figure: Option<Html>, words: Html, table: &'static str) -> Html {
    match figure {
        Some(figure) => {
            let summary = element("summary").say("The numbers").end();
            Html::all([words, figure, element("details").with([summary, place(table)]).end()])
        }
        None => not_measured(),
    }
}

fn not_measured() -> Html {
    paragraph("quiet", "Not measured.")
}

fn one_cpu() -> Html {
    paragraph("quiet", "Not measured: it takes two CPUs.")
}

fn tables(profile: &Profile) -> Vec<DataTable> {
    let table =
        |id, caption: &str, columns, rows| DataTable { id, caption: caption.to_owned(), columns, rows };
    let interval = |estimate: &Estimate| -> [CellValue; 3] {
        [estimate.value, estimate.low, estimate.high].map(CellValue::from)
    };
    let with_interval = |first: &str, kind| {
        let mut columns = vec![column(first, kind)];
        columns.extend(["ns", "95 % from", "95 % to"].map(|title| column(title, ColumnKind::Number)));
        columns
    };
    let row = |first: CellValue, estimate: &Estimate| {
        [first].into_iter().chain(interval(estimate)).collect::<Vec<_>>()
    };
    let latency =
        profile.latency_curve.iter().map(|point| row((point.size.0 as f64).into(), &point.latency_ns));
    let loaded = profile.loaded_latency.iter().map(|point| {
        let mut row = row((point.drawn / 1e9).into(), &point.latency_ns);
        row.push(point.rising_ns.into());
        row.push((if point.contradicts { "contradicted" } else { "" }).to_owned().into());
        row
    });
    let mut loaded_columns = with_interval("drawn, GB/s", ColumnKind::Number);
    loaded_columns.push(column("never falling, ns", ColumnKind::Number));
    loaded_columns.push(column("by another point", ColumnKind::Text));
    let pairs = profile
        .core_to_core
        .iter()
        .map(|pair| row(format!("CPU {} to CPU {}", pair.from, pair.to).into(), &pair.latency_ns));
    let pages = profile.tlb.iter().flat_map(|tlb| &tlb.curve).map(|point| {
        vec![
            (point.pages as f64).into(),
            (point.pages as f64 * 4096.0).into(),
            point.small_ns.value.into(),
            point.huge_ns.map(|huge| huge.value).into(),
        ]
    });
    let page_columns = vec![
        column("pages", ColumnKind::Count),
        column("span", ColumnKind::Bytes),
        column("4 KiB pages, ns", ColumnKind::Number),
        column("huge pages, ns", ColumnKind::Number),
    ];
    let mut tables = vec![
        table(
            "latency-table",
            "Load latency by size",
            with_interval("size", ColumnKind::Bytes),
            latency.collect(),
        ),
        table("translation-table", "Page translation", page_columns, pages.collect()),
        table("load-table", "Latency under load", loaded_columns, loaded.collect()),
        table("cores-table", "Core to core", with_interval("from, to", ColumnKind::Text), pairs.collect()),
        levels_table(profile),
    ];
    tables.retain(|table| !table.rows.is_empty());
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_points_become_their_median_with_a_band() {
        let spot = |x: f64, y: f64| Spot { x, y, interval: Some((y - 1.0, y + 1.0)) };
        let points = vec![
            spot(1000.0, 30.0),
            spot(100.0, 4.0),
            spot(1080.0, 90.0),
            spot(1040.0, 20.0),
            spot(2000.0, 95.0),
        ];
        let drawn = middles(points);
        assert_eq!(
            drawn,
            [spot(100.0, 4.0), Spot { x: 1040.0, y: 30.0, interval: Some((19.0, 91.0)) }, spot(2000.0, 95.0)]
        );
        assert!(middles(vec![spot(f64::NAN, 1.0)]).is_empty());
    }
}
