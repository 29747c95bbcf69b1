//! Every file loads, and what the papers count is there or refused with words.

use super::*;
use events::{Catalogue, Signal};

fn haswell() -> (Model, &'static Catalogue, &'static SignalMeaning) {
    let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
    let catalogue = Catalogue::for_model(&model).expect("events");
    (model, catalogue, SignalMeaning::named(&catalogue.name).expect("a meaning"))
}

fn encoding(catalogue: &Catalogue, name: &str) -> Encoding {
    match catalogue.event(name).unwrap_or_else(|| panic!("{name}")).signal {
        Signal::Encoded(encoding) => encoding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_model_has_a_meaning_for_its_events() {
    for name in Model::builtin_names() {
        let model = Model::builtin(name).expect("a model");
        let Some(catalogue) = Catalogue::for_model(&model) else { panic!("{name}: no events") };
        let counted = catalogue
            .entries
            .iter()
            .filter(|entry| SignalMeaning::of(catalogue, &entry.encoding, &model, Flaws::Off).is_ok())
            .count();
        assert!(counted * 2 > catalogue.entries.len(), "{name}: {counted} of {}", catalogue.entries.len());
    }
}

#[test]
fn bits_of_a_mask_add_up_and_unknown_ones_are_refused() {
    let (model, catalogue, meaning) = haswell();
    let recipe = |name: &str| meaning.recipe(&encoding(catalogue, name), &model, Flaws::Off);
    let Ok(Recipe::Core { terms, .. }) = recipe("L2_RQSTS.ALL_DEMAND_DATA_RD") else {
        panic!("a core event")
    };
    assert_eq!(terms.len(), 3, "hits of clean and of modified lines, and misses");
    let Ok(Recipe::Core { terms, .. }) = recipe("CYCLE_ACTIVITY.STALLS_L1D_PENDING") else {
        panic!("a core event")
    };
    assert_eq!(terms.iter().map(|term| term.weight).sum::<u32>(), 12);
    let Ok(Recipe::Core { terms, .. }) = recipe("L2_RQSTS.RFO_HIT@libpfm4") else { panic!("half a hit") };
    assert_eq!(terms.len(), 1, "hits of clean lines only");
    // A hit that nobody asked for means nothing.
    let mut nobody = encoding(catalogue, "L2_RQSTS.RFO_HIT");
    nobody.fields.iter_mut().filter(|(field, _)| field == "umask").for_each(|(_, value)| *value = 0x40);
    let refused = meaning.recipe(&nobody, &model, Flaws::Off).expect_err("no asker");
    assert!(refused.contains("0x40"), "{refused}");
}

#[test]
fn flaws_can_be_switched_off() {
    let (mut model, catalogue, meaning) = haswell();
    let event = encoding(catalogue, "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM");
    let seen = |model: &Model, flaws| match meaning.recipe(&event, model, flaws) {
        Ok(Recipe::Core { seen_percent, .. }) => seen_percent,
        other => panic!("{other:?}"),
    };
    assert_eq!(seen(&model, Flaws::On), 100, "one thread per core");
    model.threads_per_core = 2;
    assert_eq!((seen(&model, Flaws::On), seen(&model, Flaws::Off)), (60, 100));
}

#[test]
fn filters_of_the_off_core_registers() {
    let (model, catalogue, meaning) = haswell();
    let recipe = |name: &str| meaning.recipe(&encoding(catalogue, name), &model, Flaws::Off);
    let count = |name: &str| match recipe(name) {
        Ok(Recipe::Core { terms, .. }) => terms.len(),
        other => panic!("{name}: {other:?}"),
    };
    // Reads, stores and prefetches of the L2, from local memory or modified caches beyond.
    assert_eq!(count("OFFCORE_RESPONSE.DEMAND_DATA_RD.LLC_MISS.LOCAL_DRAM"), 1);
    assert_eq!(count("OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_HIT:SNP_ANY"), 3 * 3);
    assert_eq!(count("OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:ANY_RESPONSE"), 4 * 8);
    let refused = recipe("OFFCORE_RESPONSE.PF_LLC_DATA_RD.LLC_MISS.ANY_RESPONSE").expect_err("no answer");
    assert!(refused.contains("no data back"), "{refused}");
}

/// Events of a paper that are refused, with the reason they need not be counted.
fn refused(model: &str, events: &[&str]) -> Vec<String> {
    let model = Model::builtin(model).expect("a model");
    let catalogue = Catalogue::for_model(&model).expect("events");
    let wrong =
        |name: &&&str| SignalMeaning::of(catalogue, &encoding(catalogue, name), &model, Flaws::Off).is_err();
    events.iter().filter(wrong).map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_the_papers_count_on_haswell_and_broadwell_is_there() {
    let molka = [
        "perf::L1-DCACHE-LOADS",
        "perf::L1-DCACHE-LOAD-MISSES",
        "perf::L1-DCACHE-STORES",
        "L2_TRANS:L1D_WB",
        "L2_TRANS:L2_WB",
        "L2_TRANS:DEMAND_DATA_RD",
        "L2_TRANS:RFO",
        "L2_RQSTS:DEMAND_DATA_RD_HIT",
        "L2_RQSTS:RFO_HIT",
        "L2_RQSTS:ALL_RFO",
        "L2_RQSTS:RFO_MISS",
        "MEM_LOAD_UOPS_RETIRED:L1_HIT",
        "MEM_LOAD_UOPS_RETIRED:L2_HIT",
        "MEM_LOAD_UOPS_RETIRED:L3_HIT",
        "MEM_LOAD_UOPS_RETIRED:L3_MISS",
        "MEM_LOAD_UOPS_RETIRED:HIT_LFB",
        "OFFCORE_RESPONSE_0:ANY_DATA:ANY_RFO:L3_HIT:SNP_ANY",
        "OFFCORE_RESPONSE_0:ANY_DATA:ANY_RFO:L3_MISS_LOCAL:SNP_ANY",
        "OFFCORE_RESPONSE_1:ANY_DATA:ANY_RFO:L3_MISS_REMOTE_HOP0:L3_MISS_REMOTE_HOP1:L3_MISS_REMOTE_HOP2P:SNP_ANY",
        "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_HIT:SNP_MISS:SNP_NO_FWD:SNP_NOT_NEEDED",
        "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:ANY_RESPONSE",
        "UNC_C_LLC_LOOKUP:DATA_READ",
        "UNC_C_LLC_LOOKUP:ANY",
        "UNC_C_LLC_LOOKUP:WRITE",
        "UNC_C_TOR_INSERTS:OPCODE:OPC_DRD",
        "UNC_C_TOR_INSERTS:OPCODE:OPC_RFO",
        "UNC_H_REQUESTS:READS",
        "UNC_H_REQUESTS:WRITES",
        "UNC_H_IMC_WRITES:FULL",
        "UNC_Q_RxL_FLITS_G1:DRS_DATA",
        "UNC_Q_TxL_FLITS_G1:DRS_DATA",
        "UNC_Q_RxL_FLITS_G1:DRS_NONDATA",
        "CYCLE_ACTIVITY:STALLS_LDM_PENDING",
        "CYCLE_ACTIVITY:CYCLES_NO_EXECUTE",
        "CYCLE_ACTIVITY:STALLS_L1D_PENDING",
        "CYCLE_ACTIVITY:STALLS_L2_PENDING",
        "UOPS_ISSUED:STALL_CYCLES",
        "UOPS_EXECUTED:STALL_CYCLES",
        "UOPS_RETIRED:STALL_CYCLES",
        "L1D_PEND_MISS:FB_FULL",
        "OFFCORE_REQUESTS_BUFFER:SQ_FULL",
        "RESOURCE_STALLS:SB",
    ];
    assert_eq!(refused("haswell-ep-e5-2680v3", &molka), [""; 0]);
    let roehl = [
        "UNC_M_CAS_COUNT.RD",
        "UNC_M_CAS_COUNT.WR",
        "UNC_H_IMC_READS.NORMAL",
        "UNC_H_BYPASS_IMC.TAKEN",
        "UNC_H_IMC_WRITES.ALL",
        "L2_LINES_IN.ALL",
        "L2_TRANS.L2_WB",
        "LLC_LOOKUP.DATA_READ",
        "LLC_VICTIMS.M_STATE",
        "L1D.REPLACEMENT",
        "L2_TRANS.L1D_WB",
        "AVX_INSTS.CALC",
        "AVX_INSTS.ALL",
        "AVX_INSTS.LOADS",
        "AVX_INSTS.STORES",
        "ARITH.DIVIDER_UOPS",
        "MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM",
        "MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_HITM",
        "OFFCORE_RESPONSE.ALL_READS.LLC_HIT.HITM_OTHER_CORE",
        "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.REMOTE_HITM",
    ];
    // There is no way past the simulated home agent.
    assert_eq!(refused("haswell-ep-e5-2695v3", &roehl), ["UNC_H_BYPASS_IMC.TAKEN"]);
    let helm = [
        "cas_count_read",
        "cas_count_write",
        "qpi_data_bandwidth_tx",
        "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM",
        "L1D_PEND_MISS.PENDING",
        "MEM_LOAD_UOPS_RETIRED.L1_MISS",
        "MEM_LOAD_UOPS_RETIRED.HIT_LFB",
    ];
    assert_eq!(refused("haswell-ep-e5-2699v3", &helm), [""; 0]);
    assert_eq!(refused("broadwell-ep-e5-2699v4", &helm), [""; 0]);
}

#[test]
fn what_kruse_counts_on_core_and_nehalem_is_there() {
    let core = [
        "RS_UOPS_DISPATCHED",
        "UOPS_RETIRED.ANY",
        "UOPS_RETIRED.FUSED",
        "MEM_LOAD_RETIRED.L2_LINE_MISS",
        "MEM_LOAD_RETIRED.L1D_LINE_MISS",
        "MEM_LOAD_RETIRED.DTLB_MISS",
        "ILD_STALL",
        "LOAD_BLOCK.STA",
        "LOAD_BLOCK.OVERLAP_STORE",
        "LOAD_BLOCK.UNTIL_RETIRE",
        "INST_RETIRED.LOADS",
        "INST_RETIRED.STORES",
        "INST_RETIRED.OTHER",
        "ITLB_MISS_RETIRED",
    ];
    assert_eq!(refused("core2-e5430", &core), [""; 0]);
    let nehalem = [
        "ARITH.CYCLES_DIV_BUSY",
        "BR_INST_EXEC.ANY",
        "BR_INST_EXEC.NON_CALLS",
        "BR_MISP_EXEC.ANY",
        "DTLB_LOAD_MISSES.WALK_COMPLETED",
        "ITLB_MISSES.WALK_COMPLETED",
        "L2_RQSTS.IFETCH_HIT",
        "MEM_LOAD_RETIRED.L2_HIT",
        "MEM_LOAD_RETIRED.LLC_MISS",
        "MEM_LOAD_RETIRED.OTHER_CORE_L2_HIT_HITM",
        "MEM_UNCORE_RETIRED.LOCAL_DRAM",
        "MEM_UNCORE_RETIRED.REMOTE_DRAM",
        "MEM_UNCORE_RETIRED.REMOTE_CACHE_LOCAL_HOME_HIT",
        "OFFCORE_RESPONSE_0.DEMAND_IFETCH.LOCAL_DRAM",
        "OFFCORE_RESPONSE_0.DMND_IFETCH.REMOTE_CACHE_FWD",
        "ITLB_MISS_RETIRED",
        "RESOURCE_STALLS.ANY",
        "SSEX_UOPS_RETIRED.PACKED_DOUBLE",
        "UOPS_DECODED:MS:CMASK=1",
        "UOPS_EXECUTED:0x3f",
    ];
    assert_eq!(refused("nehalem-ep-x5570", &nehalem), [""; 0]);
    // A mechanism that a machine does not have is refused there: a count of 0 would say that it was looked for.
    let without = ["MEM_LOAD_UOPS_L3_MISS_RETIRED.REMOTE_FWD"];
    assert_eq!(refused("haswell-ep-e5-2680v3", &without), without);
    let without = ["LD_BLOCKS_PARTIAL.ALL_STA_BLOCK"];
    assert_eq!(refused("sandy-bridge-ep-e5-2670", &without), without);
}
