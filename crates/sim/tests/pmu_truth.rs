//! Counts of a flawless simulated PMU against what kernels do by construction.

mod pmu_support;

use events::{CountRequest, CountShare, CountedPlace, Instrument, TooMany};
use kernels::{KernelCatalogue, traffic};
use machine::Bytes;
use pmu_support::{
    count, everywhere,
    machine_support::{HASWELL, Rig, Work, model, small_haswell},
    plain, pmu,
};
use sim::{engine::EngineJob, memory::MemoryOptions, source::BlockSource};

const KIB: u64 = 1 << 10;

/// Within a stated constant.
#[track_caller]
fn within(what: &str, counted: u64, truth: u64, constant: u64) {
    assert!(counted.abs_diff(truth) <= constant, "{what}: {counted}, by construction {truth}");
}

#[test]
fn instructions_loads_stores_and_branches_are_exact() {
    for name in ["tiny", HASWELL] {
        let model = model(name);
        for kernel in [
            "load",
            "store",
            "copy",
            "update",
            "ddot",
            "triad",
            "chase",
            "counter",
            "fma-lanes",
            "blocked-forward",
        ] {
            let work = Work { passes: 3, ..Work::new(kernel, 8 * KIB) };
            let mut rig = Rig::new(&model, MemoryOptions::default(), work);
            let truth = rig.counts(work.passes)[0];
            let counts = count(
                &model,
                &mut rig,
                &[
                    "INST_RETIRED.ANY",
                    "MEM_UOPS_RETIRED.ALL_LOADS",
                    "MEM_UOPS_RETIRED.ALL_STORES",
                    "BR_INST_RETIRED.ALL_BRANCHES",
                    "MEM_LOAD_UOPS_RETIRED.L1_HIT",
                    "MEM_LOAD_UOPS_RETIRED.L1_MISS",
                    "MEM_LOAD_UOPS_RETIRED.HIT_LFB",
                ],
            );
            assert_eq!(counts["INST_RETIRED.ANY"], truth.instructions, "{name} {kernel}");
            assert_eq!(counts["MEM_UOPS_RETIRED.ALL_LOADS"], truth.loads, "{name} {kernel}");
            assert_eq!(counts["MEM_UOPS_RETIRED.ALL_STORES"], truth.stores, "{name} {kernel}");
            assert_eq!(counts["BR_INST_RETIRED.ALL_BRANCHES"], truth.branches, "{name} {kernel}");
            let by_level = counts["MEM_LOAD_UOPS_RETIRED.L1_HIT"]
                + counts["MEM_LOAD_UOPS_RETIRED.L1_MISS"]
                + counts["MEM_LOAD_UOPS_RETIRED.HIT_LFB"];
            assert_eq!(by_level, truth.loads, "{name} {kernel}: every load has one source");
        }
    }
}

#[test]
fn flops_are_exact_in_every_width() {
    let model = model("broadwell-ep-e5-2699v4");
    for kernel in ["ddot", "triad", "fma-lanes", "div-chain"] {
        let work = Work { passes: 2, ..Work::new(kernel, 8 * KIB) };
        let mut rig = Rig::new(&model, MemoryOptions::default(), work);
        let truth = rig.counts(work.passes)[0];
        let names = [
            ("FP_ARITH_INST_RETIRED.SCALAR_DOUBLE", 1),
            ("FP_ARITH_INST_RETIRED.128B_PACKED_DOUBLE", 2),
            ("FP_ARITH_INST_RETIRED.256B_PACKED_DOUBLE", 4),
        ];
        let counts = count(&model, &mut rig, &names.map(|(name, _)| name));
        let flops: u64 = names.iter().map(|(name, each)| counts[*name] * each).sum();
        assert_eq!(flops, truth.flops, "{kernel}: {counts:?}");
    }
}

/// Lines that cross below caches of the model, from the kernel's description.
fn lines(rig: &Rig, capacity: u64) -> traffic::TrafficLines {
    let kernel = KernelCatalogue::builtin().expect("kernels").get(rig.work.kernel).expect("a kernel");
    let lines = traffic::lines_below(&kernel, rig.geometry(0), Bytes(capacity)).expect("lines");
    traffic::TrafficLines {
        inward: lines.inward * rig.work.passes as f64,
        outward: lines.outward * rig.work.passes as f64,
        ..lines
    }
}

#[test]
fn lines_in_and_out_of_every_level() {
    for (model, kernels) in
        [(model("tiny"), &["load", "store", "copy", "update"][..]), (small_haswell(), &["copy"])]
    {
        let (l1, l2) = (model.l1d.geometry.size.0, model.l2.geometry.size.0);
        let l3 = model.l3.expect("a shared cache").geometry.size.0;
        for kernel in kernels {
            for bytes in [l1 / 2, 4 * l1, 4 * l2, 2 * l3] {
                let passes = if bytes > l3 { 1 } else { 3 };
                let work = Work { warm: 2, passes, ..Work::new(kernel, bytes) };
                let mut rig = Rig::new(&model, plain(), work);
                let below = |capacity| lines(&rig, capacity);
                let (out_of_l1, out_of_l2, out_of_l3) = (below(l1), below(l2), below(l3));
                let counts = count(
                    &model,
                    &mut rig,
                    &[
                        "L1D.REPLACEMENT",
                        "L2_TRANS.L1D_WB",
                        "L2_LINES_IN.ALL",
                        "L2_TRANS.L2_WB",
                        "UNC_C_LLC_VICTIMS.M_STATE",
                        "UNC_M_CAS_COUNT.RD",
                        "UNC_M_CAS_COUNT.WR",
                        "UNC_H_REQUESTS.READS",
                        "UNC_H_IMC_WRITES.FULL",
                    ],
                );
                let what = format!("{} {kernel} over {bytes}", model.name);
                // The arguments and the stack of a call, and walks, are lines too.
                let constant = 24 * passes;
                for (name, truth) in [
                    ("L1D.REPLACEMENT", out_of_l1.inward),
                    ("L2_TRANS.L1D_WB", out_of_l1.outward),
                    ("L2_LINES_IN.ALL", out_of_l2.inward),
                    ("L2_TRANS.L2_WB", out_of_l2.outward),
                    ("UNC_M_CAS_COUNT.RD", out_of_l3.inward),
                    ("UNC_H_REQUESTS.READS", out_of_l3.inward),
                    ("UNC_M_CAS_COUNT.WR", out_of_l3.outward),
                    ("UNC_H_IMC_WRITES.FULL", out_of_l3.outward),
                    ("UNC_C_LLC_VICTIMS.M_STATE", out_of_l3.outward),
                ] {
                    within(&format!("{what}: {name}"), counts[name], truth as u64, constant);
                }
            }
        }
    }
}

#[test]
fn two_threads_of_a_core_are_counted_apart() {
    let mut model = model(HASWELL);
    model.threads_per_core = 2;
    let work = Work { threads: 2, passes: 4, ..Work::new("copy", 16 * KIB) };
    let mut rig = Rig::new(&model, MemoryOptions::default(), work);
    let truth = rig.counts(work.passes);
    let pmu = pmu(&model);
    rig.engine.attach(pmu.bank());
    let names = ["INST_RETIRED.ANY", "MEM_UOPS_RETIRED.ALL_STORES", "L1D.REPLACEMENT"];
    let events = names.iter().map(|name| pmu.resolve(name).expect("an event")).collect();
    let (scope, too_many, share) = (everywhere(&model), TooMany::Refuse, CountShare::Each);
    let mut open = pmu.open(&CountRequest { events, scope, too_many, share }).expect("counters");
    open.start().expect("a start");
    let mut sources = rig.team.step_sources(0, work.passes);
    let mut jobs: Vec<EngineJob<'_>> = sources
        .iter_mut()
        .enumerate()
        .map(|(thread, source)| EngineJob {
            core: 0,
            thread,
            background: false,
            source: source as &mut dyn BlockSource,
        })
        .collect();
    rig.engine.run(&mut jobs).expect("a run");
    let counts = open.read().expect("counts");
    let of = |event: usize, cpu: u32| {
        let found = counts.iter().find(|count| count.event == event && count.place == CountedPlace::Cpu(cpu));
        found.and_then(|count| count.value.exact())
    };
    for (thread, truth) in truth.iter().enumerate() {
        let cpu = thread as u32 * model.cores();
        assert_eq!(
            (of(0, cpu), of(1, cpu)),
            (Some(truth.instructions), Some(truth.stores)),
            "thread {thread}"
        );
    }
    let lines: u64 = [0, model.cores()].iter().filter_map(|&cpu| of(2, cpu)).sum();
    assert_eq!(lines, rig.memory().core_stats(0).l1.fills, "between them they have all of their core");
    assert_eq!(of(0, 1), None, "nothing ran there");
}
