//! molka2017 Tables 2 and 3 beside the simulated machine: what instructions load or store, GB/s.
//! `cargo bench -p memwall-sim --bench molka`, with a part of a row's name after `--` for some rows only.
//! Fails if a row is off by more than is allowed.

#[path = "../tests/machine_support/mod.rs"]
mod machine_support;

use std::process::ExitCode;

use machine::model::Model;
use machine_support::{
    HASWELL, Work, cycles_per_load, gb_per_s, huge, model,
    tables::{Row, table_three, table_two},
};

const MIB: u64 = 1 << 20;
/// Cycles per load of a chase in the L3.
const PAPER_CHASE: f64 = 53.0;

fn main() -> ExitCode {
    let wanted = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let model = model(HASWELL);
    let mut within = table(&model, "Table 2, one core", &table_two(64 * MIB), &wanted);
    within &= table(&model, "Table 3, one package", &table_three(MIB, 8 * MIB), &wanted);
    if "chase".contains(&wanted) {
        let found = cycles_per_load(&model, huge(), Work::new("chase", 16 * MIB));
        println!(
            "\n§4.3, chase in the L3: {PAPER_CHASE} cycles per load, {found:.1} found (chose l3.latency: no result)"
        );
    }
    if within { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Measures and prints; false if a row is too far off.
fn table(model: &Model, title: &str, rows: &[Row], wanted: &str) -> bool {
    println!("\n{title:<22}{:>10}{:>12}{:>10}{:>10}", "paper", "simulated", "off", "allowed");
    let mut within = true;
    for row in rows.iter().filter(|row| row.name.contains(wanted)) {
        let found = gb_per_s(model, huge(), row.work);
        let off = row.off_percent(found);
        let (paper, bound) = (row.paper_gb_per_s, row.bound_percent);
        let mark = if off.abs() > bound { " too far" } else { "" };
        println!("{:<22}{paper:>10.1}{found:>12.1}{off:>+8.1} %{bound:>8.0} %{mark}", row.name);
        if let Some(remark) = row.remark {
            println!("  {remark}");
        }
        within &= off.abs() <= bound;
    }
    within
}
