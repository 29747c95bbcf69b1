//! Results of timed known work: text with an optional plot, and CSV.

mod csv;
pub(crate) mod notes;
mod rows;

use record::bench::{Bench, Point, Stopped};

pub use csv::csv;

use crate::{
    layout::conditions::{believable_hz, clock_lines},
    layout::plot::{Axis, Plot, PlottedQuantity, Scale},
    layout::prose::{counted, dotted, titled, wrap, wrap_in},
    layout::style::WARNING,
};

/// Sizes from which on a sweep is worth a plot.
const SWEEP: usize = 4;
/// Rows of a plot.
const PLOT_ROWS: usize = 12;
/// A largest over a smallest value above this calls for a logarithmic axis.
const WIDE_RANGE: f64 = 8.0;

/// What people read: header, table, plot of a sweep if asked, and what disturbed the numbers.
pub fn text(bench: &Bench, columns: usize, plot: bool) -> String {
    let mut sections = vec![header(bench, columns)];
    if !bench.points.is_empty() {
        let table = rows::table(bench).render(columns);
        sections.push(table.text);
        sections.extend(curve(bench).filter(|_| plot).and_then(|curve| curve.text(columns, PLOT_ROWS)));
        let notes = notes::notes(bench, &table.left_out);
        sections.push(notes.iter().map(|(style, note)| wrap_in(*style, "• ", note, columns)).collect());
    }
    sections.join("\n")
}

fn header(bench: &Bench, columns: usize) -> String {
    let threads = match bench.cpus.len() {
        1 => format!("one thread on CPU {}", bench.cpus),
        n => format!("{n} threads on CPUs {}", bench.cpus),
    };
    let memory = match bench.node {
        Some(node) => format!("memory of node {node}"),
        None => "memory not bound to a node".to_owned(),
    };
    let machine = bench.simulated.as_ref().map_or(String::new(), |name| format!("simulated {name}"));
    let mut parts = vec![machine, format!("width {}", bench.width), threads, memory];
    parts.extend(bench.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    let mut out = titled(&bench.kernel, &bench.summary, columns);
    out += &wrap("", &dotted(parts.iter().map(String::as_str)), columns);
    out += &clock_lines(bench.clock.as_ref(), columns);
    if bench.interrupted {
        let text = match bench.points.len() {
            0 => "warning: interrupted before the first size was measured".to_owned(),
            n => format!("warning: interrupted; {} measured, the rest was not", counted(n, "size")),
        };
        out += &wrap_in(WARNING, "", &text, columns);
    }
    out
}

/// Whether the kernel is a chain of steps that wait for each other, whose answer is a latency.
pub(crate) fn is_chain(bench: &Bench) -> bool {
    !bench.points.is_empty() && bench.points.iter().all(|point| point.work.chain > 0.0)
}

/// Cycles per access of one thread, if the clock can be believed.
pub(crate) fn cycles(bench: &Bench, point: &Point) -> Option<f64> {
    Some(point.ns_per_access(bench.cpus.len())? * believable_hz(bench.clock.as_ref())? / 1e9)
}

pub(crate) fn ended_by(stopped: Stopped) -> &'static str {
    match stopped {
        Stopped::Precise => "precision",
        Stopped::TimeUp => "time",
        Stopped::Repeats => "repeats",
        Stopped::Interrupted => "interrupt",
        Stopped::Simulated => "simulated",
    }
}

/// The plot of a sweep: latency of a chain, bandwidth of anything else.
fn curve(bench: &Bench) -> Option<Plot> {
    let mut sizes: Vec<u64> = bench.points.iter().map(|point| point.size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    if sizes.len() < SWEEP {
        return None;
    }
    let chain = is_chain(bench);
    let value = |point: &Point| match chain {
        true => point.ns_per_access(bench.cpus.len()),
        false => Some(point.program_bytes_per_s() / 1e9),
    };
    let points: Vec<(f64, f64)> =
        bench.points.iter().filter_map(|point| Some((point.size.0 as f64, value(point)?))).collect();
    let low = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.1).fold(0.0, f64::max);
    let (quantity, what) = match chain {
        true => (PlottedQuantity::Nanos, "latency, ns"),
        false => (PlottedQuantity::GbPerS, "bandwidth the program sees, GB/s"),
    };
    let (scale, how) =
        if high > WIDE_RANGE * low { (Scale::Log, " (log scale)") } else { (Scale::Linear, "") };
    Some(Plot {
        title: format!("{what}{how}, by data set size"),
        x: Axis { quantity: PlottedQuantity::Bytes, scale: Scale::Log },
        y: Axis { quantity, scale },
        points,
        guides: Vec::new(),
    })
}
