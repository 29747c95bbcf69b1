//! molka2017 Tables 2 and 3 on a machine whose shared cache is smaller, so that a test can afford it. The benchmark
//! `molka` prints the tables for the whole machine.

mod machine_support;

use machine_support::{
    gb_per_s, huge, small_haswell,
    tables::{Row, table_three, table_two},
};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn check(rows: &[Row]) {
    let model = small_haswell();
    let found = rows.iter().map(|row| (row, gb_per_s(&model, huge(), row.work)));
    let wrong: Vec<String> = found
        .filter(|(row, found)| row.off_percent(*found).abs() > row.bound_percent)
        .map(|(row, found)| format!("{}: {found:.1} instead of {} GB/s", row.name, row.paper_gb_per_s))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn one_core() {
    check(&table_two(12 * MIB));
}

#[test]
fn all_cores_of_a_package() {
    check(&table_three(432 * KIB, MIB));
}
