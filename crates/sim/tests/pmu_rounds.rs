//! Which events a simulated machine counts at the same time: what the real one does, see the scripts of `pmu`.

mod pmu_support;

use events::{Conflict, CountRefusal, CountRequest, CountShare, Event, Instrument, TooMany};
use machine::model::Model;
use pmu_support::{everywhere, pmu};

fn events(model: &Model, names: &[&str]) -> Vec<Event> {
    let pmu = pmu(model);
    names.iter().map(|name| pmu.resolve(name).unwrap_or_else(|error| panic!("{error}"))).collect()
}

fn runs(machine: &str, names: &[&str]) -> Vec<Vec<usize>> {
    let model = Model::builtin(machine).expect("a model");
    pmu(&model).runs(&events(&model, names), &everywhere(&model)).expect("runs")
}

const HASWELL: &str = "haswell-ep-e5-2680v3";
const NEHALEM: &str = "nehalem-ep-x5570";

#[test]
fn four_general_counters_and_three_fixed_ones() {
    let four = ["L1D.REPLACEMENT", "L2_TRANS.L1D_WB", "L2_TRANS.L2_WB", "L2_LINES_IN.ALL"];
    let fixed = ["INST_RETIRED.ANY", "CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.REF_TSC"];
    let mut all = [&four[..], &fixed[..]].concat();
    assert_eq!(runs(HASWELL, &all).len(), 1);
    all.push("UOPS_ISSUED.ANY");
    assert_eq!(runs(HASWELL, &all), [vec![0, 1, 2, 3, 4, 5, 6], vec![7]]);
    // The kernel's name for a core event needs a counter of the core as well.
    let generic = [&four[..], &["branches"]].concat();
    assert_eq!(runs(HASWELL, &generic), [vec![0, 1, 2, 3], vec![4]]);
}

#[test]
fn events_that_must_be_alone_or_fit_one_counter() {
    let names = ["L1D.REPLACEMENT", "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_8", "L2_TRANS.L1D_WB"];
    assert_eq!(runs(HASWELL, &names), [vec![0, 2], vec![1]]);
    // The first three give way: counter 2 stays free for the one that needs it.
    let names = ["UOPS_ISSUED.ANY", "UOPS_RETIRED.ALL", "UOPS_EXECUTED.CORE", "L1D_PEND_MISS.PENDING"];
    assert_eq!(runs(HASWELL, &names).len(), 1);
    let both = ["L1D_PEND_MISS.PENDING", "CYCLE_ACTIVITY.STALLS_L1D_PENDING"];
    assert_eq!(runs(HASWELL, &both), [[0], [1]]);
}

#[test]
fn two_off_core_registers_and_one_on_nehalem() {
    let three = [
        "cpu/event=0xb7,umask=1,offcore_rsp=0x7101/",
        "cpu/event=0xb7,umask=1,offcore_rsp=0x7102/",
        "cpu/event=0xb7,umask=1,offcore_rsp=0x7101/",
    ];
    assert_eq!(runs(NEHALEM, &three), [vec![0, 2], vec![1]]);
    assert_eq!(runs(HASWELL, &three), [vec![0, 1, 2]]);
    let names = [
        "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM",
        "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.REMOTE_DRAM",
        "OFFCORE_RESPONSE.ALL_READS.LLC_HIT.HITM_OTHER_CORE",
    ];
    assert_eq!(runs(HASWELL, &names), [vec![0, 1], vec![2]]);
}

#[test]
fn the_uncore_of_a_nehalem_is_one_pmu() {
    let eight = [
        "uncore/event=0x01/",
        "uncore/event=0x02/",
        "uncore/event=0x03/",
        "uncore/event=0x04/",
        "uncore/event=0x05/",
        "UNC_LLC_MISS.ANY",
        "UNC_QMC_NORMAL_READS.ANY",
        "UNC_QHL_REQUESTS.LOCAL_READS",
        "uncore/event=0x06/",
    ];
    assert_eq!(runs(NEHALEM, &eight), [vec![0, 1, 2, 3, 4, 5, 6, 7], vec![8]]);
}

#[test]
fn one_opcode_at_a_time_and_a_state_beside_it() {
    let opcodes =
        ["UNC_C_TOR_INSERTS.OPCODE.OPC_DRD", "UNC_C_LLC_LOOKUP.ANY", "UNC_C_TOR_INSERTS.OPCODE.OPC_RFO"];
    assert_eq!(runs(HASWELL, &opcodes), [vec![0, 1], vec![2]], "molka2017 Table 3, footnote");
    let model = Model::builtin(HASWELL).expect("a model");
    let events = events(&model, &[opcodes[0], opcodes[2]]);
    let (scope, too_many, share) = (everywhere(&model), TooMany::Refuse, CountShare::Together);
    let simulated = pmu(&model);
    let refusal = simulated.open(&CountRequest { events, scope, too_many, share }).err().expect("a refusal");
    let conflict = Conflict::Register { name: "filter_opc".into(), values: 2, count: 1 };
    let waiting = vec![opcodes[2].to_owned()];
    assert_eq!(refusal, CountRefusal::NoRoom { asked: 2, waiting, conflict, runs: 2 });
}
