//! The CSV form of a bench.

use record::bench::{Bench, Point};

use super::{cycles, ended_by};
use crate::layout::prose::csv_field;

/// One row per size, the units in the names. What is absent is an empty field.
pub fn csv(bench: &Bench) -> String {
    let mut out = String::new();
    let names: Vec<&str> = COLUMNS.iter().map(|(name, _)| *name).collect();
    out += &names.join(",");
    out.push('\n');
    for point in &bench.points {
        let fields: Vec<String> = COLUMNS.iter().map(|(_, field)| csv_field(&field(bench, point))).collect();
        out += &fields.join(",");
        out.push('\n');
    }
    out
}

type CsvField = fn(&Bench, &Point) -> String;

/// The columns of the CSV form, in order.
const COLUMNS: [(&str, CsvField); 29] = [
    ("kernel", |b, _| b.kernel.clone()),
    ("width", |b, _| b.width.to_string()),
    ("parameters", |b, _| {
        b.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
    }),
    ("cpus", |b, _| b.cpus.to_string()),
    ("threads", |b, _| b.cpus.len().to_string()),
    ("node", |b, _| optional(b.node)),
    ("asked_bytes", |_, p| p.asked.0.to_string()),
    ("size_bytes", |_, p| p.size.0.to_string()),
    ("huge_page_bytes", |_, p| p.pages.map_or_else(String::new, |pages| pages.huge.0.to_string())),
    ("mapped_bytes", |_, p| p.pages.map_or_else(String::new, |pages| pages.total.0.to_string())),
    ("samples", |_, p| p.time_ns.samples.to_string()),
    ("stopped", |_, p| ended_by(p.stopped).to_owned()),
    ("pass_ns", |_, p| real(Some(p.time_ns.value))),
    ("pass_low_ns", |_, p| real(Some(p.time_ns.low).filter(|_| p.time_ns.samples > 1))),
    ("pass_high_ns", |_, p| real(Some(p.time_ns.high).filter(|_| p.time_ns.samples > 1))),
    ("program_bytes_per_s", |_, p| real(Some(p.program_bytes_per_s()))),
    ("memory_bytes_per_s", |_, p| real(Some(p.memory_bytes_per_s()))),
    ("ns_per_access", |b, p| real(p.ns_per_access(b.cpus.len()))),
    ("cycles_per_access", |b, p| real(cycles(b, p))),
    ("instructions_per_pass", |_, p| real(Some(p.work.instructions))),
    ("accesses_per_pass", |_, p| real(Some(p.work.accesses))),
    ("flops_per_pass", |_, p| real(Some(p.work.flops))),
    ("chain_steps_per_pass", |_, p| real(Some(p.work.chain))),
    ("spread_ratio", |_, p| real(p.noise.spread)),
    ("watched_ns", |_, p| real(Some(p.noise.wall_ns))),
    ("steal_ns", |_, p| real(p.noise.steal_ns)),
    ("involuntary_switches", |_, p| optional(p.noise.involuntary_switches)),
    ("clock_add_hz", |b, _| real(b.clock.map(|clock| clock.add_hz))),
    ("clock_multiply_hz", |b, _| real(b.clock.map(|clock| clock.mul_hz))),
];

fn optional(value: Option<impl ToString>) -> String {
    value.map_or(String::new(), |value| value.to_string())
}

fn real(value: Option<f64>) -> String {
    optional(value.filter(|value| value.is_finite()))
}
