//! What counters of the simulated PMU say about waiting, sharing and prefetching, and how they share time.

mod pmu_support;

use events::{CountRequest, CountShare, CountedPlace, Instrument, TooMany, Value};
use machine::{Bytes, CpuSet, model::Model};
use pmu_support::{
    count, count_as, everywhere,
    machine_support::{HASWELL, Rig, Work, huge, model, small_haswell},
    plain, pmu,
};
use sim::{
    access::{Supplier, Translation},
    memory::MemoryOptions,
    pmu::SampleRequest,
};

const KIB: u64 = 1 << 10;

/// Fits the shared cache.
const IN_L3: u64 = 6 << 20;

/// The machine of molka2017 with a small L2, so that hardly any line of a small chase is in it.
fn with_small_l2() -> Model {
    let mut model = model(HASWELL);
    model.l2.geometry.size = Bytes::kib(64);
    model
}

#[test]
fn multiplications_behind_a_chase_are_taken_off_the_stalls() {
    let model = with_small_l2();
    let bytes = IN_L3;
    let loads = (bytes / 64) as f64;
    let stalls = |kernel| {
        let mut rig = Rig::new(&model, huge(), Work::new(kernel, bytes));
        let names = [
            "CPU_CLK_UNHALTED.THREAD",
            "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
            "CYCLE_ACTIVITY.STALLS_LDM_PENDING",
            "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
            "UOPS_EXECUTED.STALL_CYCLES",
        ];
        let counts = count(&model, &mut rig, &names);
        names.map(|name| counts[name] as f64 / loads)
    };
    let [cycles, idle, pending, missing, not_executed] = stalls("chase");
    assert!((cycles - 53.0).abs() < 1.0, "{cycles}");
    // The load itself starts in one of them.
    assert!((cycles - idle - 1.0).abs() < 0.5, "{idle} of {cycles}");
    assert!(
        (idle - pending).abs() < 0.5 && (idle - not_executed).abs() < 0.01,
        "{idle} {pending} {not_executed}"
    );
    // molka2017 §4.3: without the lookup of the L1, of which the load itself takes one cycle.
    let lookup = f64::from(model.l1d.latency);
    assert!((idle - missing - (lookup - 1.0)).abs() < 0.5, "{idle} {missing}");
    let [with, idle_with, pending_with, missing_with, _] = stalls("chase-independent");
    assert!((with - cycles).abs() < 1.0, "{with}: the multiplications are hidden");
    // molka2017 §4.3: 24 cycles fewer, 29 of 53. The paper counts 53 idle cycles of 53 without the multiplications, which
    // leaves none for the load to start in; here it has its own, so both counts are one lower.
    assert!((idle - idle_with - 24.0).abs() < 0.5, "{idle} without, {idle_with} with");
    assert!(
        (idle_with + 1.0 - 29.0).abs() < 0.75 && (pending_with - idle_with).abs() < 0.5,
        "{idle_with} {pending_with}"
    );
    assert!((missing_with - idle_with).abs() < 1.0, "{missing_with}");
}

#[test]
fn a_load_that_waits_for_its_address_is_pending_but_not_missing() {
    let model = with_small_l2();
    let bytes = IN_L3;
    let loads = (bytes / 64) as f64;
    let mut rig = Rig::new(&model, huge(), Work::new("chase-dependent", bytes));
    let names = [
        "CPU_CLK_UNHALTED.THREAD",
        "CYCLE_ACTIVITY.STALLS_LDM_PENDING",
        "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
        "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
    ];
    let counts = count(&model, &mut rig, &names);
    let [cycles, pending, missing, idle] = names.map(|name| counts[name] as f64 / loads);
    // 24 multiplications of three cycles behind each load: two idle cycles each are no memory's fault.
    assert!((cycles - 125.0).abs() < 3.0, "{cycles}");
    assert!((missing - 49.0).abs() < 1.0, "{missing}: all but the lookup of the L1");
    assert!(
        (pending - (missing + 3.0 + 48.0)).abs() < 3.0,
        "{pending} against {missing} and 48 cycles of dependency"
    );
    assert!((pending - idle).abs() < 2.0, "{pending} {idle}");
}

#[test]
fn prefetches_into_the_shared_cache_hide_memory_from_off_core_answers() {
    let model = small_haswell();
    let bytes = 3 * model.l3.expect("a shared cache").geometry.size.0;
    let names = [
        "L1D.REPLACEMENT",
        "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_HIT:SNP_ANY",
        "OFFCORE_RESPONSE:ANY_DATA:ANY_RFO:L3_MISS_LOCAL:SNP_ANY",
        "UNC_M_CAS_COUNT.RD",
        "MEM_LOAD_UOPS_RETIRED.L3_MISS",
    ];
    let mut rig = Rig::new(&model, huge(), Work::new("load", bytes));
    let counts = count(&model, &mut rig, &names);
    let [lines, hits, misses, reads, retired] = names.map(|name| counts[name] as f64);
    assert!((reads / lines - 1.0).abs() < 0.02, "every line comes from memory: {reads} of {lines}");
    assert!(misses < 0.8 * lines, "{misses} of {lines} (molka2017 Table 2: 61 of 162)");
    assert!(((hits + misses) / lines - 1.0).abs() < 0.05, "{hits} and {misses} of {lines}");
    assert!(retired < 0.5 * lines, "loads that retire know nothing of prefetches: {retired}");
    let mut rig = Rig::new(&model, plain(), Work::new("load", bytes));
    let counts = count(&model, &mut rig, &names);
    let [lines, _, misses, ..] = names.map(|name| counts[name] as f64);
    assert!((misses / lines - 1.0).abs() < 0.02, "without prefetchers all are seen: {misses} of {lines}");
}

#[test]
fn lines_of_another_package_cross_the_links() {
    let model = model(HASWELL);
    let bytes = 512 * KIB;
    let work = Work { node: Some(1), warm: 0, ..Work::new("load", bytes) };
    let mut rig = Rig::new(&model, plain(), work);
    let lines = bytes / 64;
    let names = ["UNC_Q_RxL_FLITS_G1.DRS_DATA", "UNC_Q_TxL_FLITS_G1.DRS_DATA", "UNC_H_REQUESTS.READS_REMOTE"];
    let counts = count_as(&model, &mut rig, &names, TooMany::AllAtOnce, CountShare::Each);
    let of = |event: usize, wanted: u32| -> u64 {
        let here =
            |place: &CountedPlace| matches!(place, CountedPlace::Box { package, .. } if *package == wanted);
        counts
            .iter()
            .filter(|count| count.event == event && here(&count.place))
            .filter_map(|count| count.value.exact())
            .sum()
    };
    for (what, counted, truth) in [
        ("in at the reader", of(0, 0), 8 * lines),
        ("out at the home", of(1, 1), 8 * lines),
        ("out at the reader", of(1, 0), 0),
        ("asked of the home", of(2, 1), lines),
    ] {
        assert!(counted.abs_diff(truth) <= 8 * 16, "{what}: {counted}, by construction {truth}");
    }
    let boxes = counts.iter().filter(|count| count.event == 0).count();
    assert_eq!(boxes as u32, 2 * model.link.expect("links").links, "one value per link");
}

#[test]
fn lines_of_a_producer_are_modified_transfers_of_its_consumer() {
    for name in ["tiny", HASWELL] {
        let model = model(name);
        let (lines, passes) = (64, 20);
        let work = Work {
            parameter: Some(("lines", lines)),
            threads: 2,
            warm: 2,
            passes,
            ..Work::new("producer-consumer", 32 * KIB)
        };
        let mut rig = Rig::new(&model, plain(), work);
        let truth = rig.geometry(1).turns * passes * lines;
        let names =
            ["MEM_LOAD_UOPS_L3_HIT_RETIRED.XSNP_HITM", "OFFCORE_RESPONSE.ALL_READS.LLC_HIT.HITM_OTHER_CORE"];
        let counts = count(&model, &mut rig, &names);
        for event in names {
            // A line that was pushed out before it was asked for comes from elsewhere.
            assert!(
                counts[event].abs_diff(truth) * 50 <= truth,
                "{name} {event}: {} of {truth}",
                counts[event]
            );
        }
    }
}

#[test]
fn sets_that_take_turns_estimate_the_truth_of_a_steady_kernel() {
    let model = model("tiny");
    let work = Work { passes: 600, ..Work::new("copy", 8 * KIB) };
    let names = [
        "MEM_UOPS_RETIRED.ALL_LOADS",
        "MEM_UOPS_RETIRED.ALL_STORES",
        "UOPS_RETIRED.ALL",
        "UOPS_ISSUED.ANY",
        "UOPS_EXECUTED.CORE",
        "BR_INST_RETIRED.ALL_BRANCHES",
        "UOPS_EXECUTED.CYCLES_GE_1_UOP_EXEC",
    ];
    let mut rig = Rig::new(&model, MemoryOptions::default(), work);
    let truth = rig.counts(work.passes)[0];
    let counts = count_as(&model, &mut rig, &names, TooMany::Multiplex, CountShare::Together);
    for (event, expected) in [(0, truth.loads), (1, truth.stores), (5, truth.branches)] {
        let value = &counts[event].value;
        let share = value.running_share().expect("a share");
        assert!(share > 0.3 && share < 0.7, "{}: {share} of the time", names[event]);
        let estimate = value.estimate().expect("an estimate");
        assert!(
            (estimate / expected as f64 - 1.0).abs() < 0.05,
            "{}: {estimate} of {expected}",
            names[event]
        );
        assert_eq!(value.exact(), None);
    }
    let pmu = pmu(&model);
    let events: Vec<_> = names.iter().map(|name| pmu.resolve(name).expect("an event")).collect();
    let request = CountRequest {
        events,
        scope: everywhere(&model),
        too_many: TooMany::Refuse,
        share: CountShare::Each,
    };
    let refused = pmu.open(&request).err().expect("too many").to_string();
    assert!(refused.contains("2 runs"), "{refused}");
}

#[test]
fn what_has_no_mechanism_is_missing_and_never_zero() {
    let model = model(HASWELL);
    let mut rig = Rig::new(&model, huge(), Work::new("load", 8 * KIB));
    let names = ["INST_RETIRED.ANY", "MACHINE_CLEARS.MEMORY_ORDERING", "LD_BLOCKS_PARTIAL.ADDRESS_ALIAS"];
    let counts = count_as(&model, &mut rig, &names, TooMany::Multiplex, CountShare::Together);
    assert!(counts[0].value.exact().is_some());
    for count in &counts[1..] {
        let Value::Missing(events::Missing::Refused(why)) = &count.value else { panic!("{count:?}") };
        assert!(why.to_string().len() > 20, "{why}");
    }
    let offers = pmu(&model).offers();
    let refused = offers.iter().filter(|offer| offer.refused.is_some()).count();
    assert!(refused > 5 && refused * 4 < offers.len(), "{refused} of {} refused", offers.len());
}

#[test]
fn load_samples_tell_address_latency_and_source() {
    let model = model(HASWELL);
    let pmu = pmu(&model);
    let bytes = 2048 * KIB;
    let mut rig = Rig::new(&model, huge(), Work::new("chase", bytes));
    rig.engine.attach(pmu.bank());
    rig.run(1);
    let event = pmu.resolve("MEM_TRANS_RETIRED.LOAD_LATENCY_GT_32").expect("an event");
    let cpus: CpuSet = [0].into_iter().collect();
    let mut sampling =
        pmu.sample(&SampleRequest { event, period: 100, cpus: cpus.clone() }).expect("sampling");
    sampling.start();
    rig.run(1);
    sampling.stop();
    let samples = sampling.take();
    drop(sampling);
    // The L2 still has an eighth of the lines, and chance has its part.
    assert!(samples.len() as u64 >= bytes / 64 / 100 * 7 / 10, "{}", samples.len());
    let data = rig.team.data().next().expect("data");
    for (cpu, sample) in &samples {
        let load = sample.load.expect("a load");
        assert_eq!((*cpu, load.translation), (0, Translation::L1));
        assert!(
            (data.address..data.address + data.bytes).contains(&load.address) && load.latency_cycles >= 32
        );
    }
    let from_l3 =
        samples.iter().filter(|(_, sample)| sample.load.is_some_and(|load| load.supplier == Supplier::L3));
    let typical = from_l3
        .clone()
        .filter(|(_, sample)| sample.load.is_some_and(|load| load.latency_cycles.abs_diff(53) <= 2));
    assert!(from_l3.count() * 10 >= samples.len() * 9 && typical.count() * 10 >= samples.len() * 8);
    // Without precision the sample lies behind the load that waits, at the next instruction to retire.
    let event = pmu.resolve("CPU_CLK_UNHALTED.THREAD").expect("an event");
    let mut sampling = pmu.sample(&SampleRequest { event, period: 1000, cpus }).expect("sampling");
    sampling.start();
    let outcome = rig.run(1);
    let cycles = outcome.jobs[0].statistics.cycles;
    let samples = sampling.take();
    assert!(samples.len().abs_diff((cycles / 1000) as usize) <= 1, "{} in {cycles} cycles", samples.len());
    assert!(samples.windows(2).all(|pair| pair[0].1.time_ns <= pair[1].1.time_ns));
}

/// Cores whose precise events tell addresses tell those of stores: what a program only stores to has a name as well.
#[test]
fn precise_samples_of_stores_tell_their_addresses() {
    let model = model(HASWELL);
    let pmu = pmu(&model);
    let bytes = 64 * KIB;
    let mut rig = Rig::new(&model, huge(), Work::new("store", bytes));
    rig.engine.attach(pmu.bank());
    let cpus: CpuSet = [0].into_iter().collect();
    let mut sampled = |event: &str| {
        let event = pmu.resolve(event).expect("an event");
        let mut sampling =
            pmu.sample(&SampleRequest { event, period: 7, cpus: cpus.clone() }).expect("sampling");
        sampling.start();
        let stores = rig.run(1).jobs[0].statistics.stores;
        (stores, sampling.take())
    };
    let (stores, samples) = sampled("MEM_UOPS_RETIRED.ALL_STORES:pp");
    assert!(samples.len() as u64 == stores / 7 && stores > 1000, "{} of {stores}", samples.len());
    let imprecise = sampled("MEM_UOPS_RETIRED.ALL_STORES").1;
    assert!(imprecise.iter().all(|(_, sample)| sample.stored.is_none()) && !imprecise.is_empty());
    let data = rig.team.data().next().expect("data");
    let within = data.address..data.address + data.bytes;
    assert!(samples.iter().all(|(_, sample)| sample.stored.is_some_and(|address| within.contains(&address))));
}

/// molka2017 §4.3, Figs. 7 and 9, as shares of cycles.
#[test]
fn stall_counters_miss_what_the_paper_says_they_miss() {
    let model = small_haswell();
    let names = [
        "CPU_CLK_UNHALTED.THREAD",
        "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
        "CYCLE_ACTIVITY.STALLS_L1D_PENDING",
        "CYCLE_ACTIVITY.STALLS_L2_PENDING",
        "L1D_PEND_MISS.FB_FULL",
        "OFFCORE_REQUESTS_BUFFER.SQ_FULL",
        "RESOURCE_STALLS.SB",
        "L1D_PEND_MISS.REQUEST_FB_FULL",
    ];
    let per_line = |kernel, bytes: u64| {
        let mut rig = Rig::new(&model, huge(), Work::new(kernel, bytes));
        let counts = count(&model, &mut rig, &names);
        names.map(|name| counts[name] as f64 / (bytes / 64) as f64)
    };
    let (l2, l3, memory) = (128 * KIB, 2048 * KIB, 12 << 20);
    let [cycles, _, first, ..] = per_line("chase", l2);
    assert!((cycles - first - 4.0).abs() < 0.2, "{first} of {cycles}: all but the lookup of the L1");
    let [cycles, _, first, second, ..] = per_line("chase", l3);
    let deep = f64::from(model.l2.latency - model.l1d.latency);
    assert!(
        (cycles - first - 4.0).abs() < 0.2 && first - second > 0.8 * deep,
        "{second} and {first} of {cycles}"
    );
    for bytes in [l3, memory] {
        let [cycles, idle, .., buffers, queue, _, asked] = per_line("load", bytes);
        assert!(buffers + queue < idle, "{buffers} and {queue} of {idle} in {cycles}");
        assert!(buffers + queue > 0.1 * cycles, "{buffers} and {queue} of {cycles}");
        // A request is refused once, however long it then waits.
        assert!(asked <= 2.0 && buffers <= asked, "{buffers} {asked}");
    }
    for bytes in [l2, l3, memory] {
        let [cycles, idle, .., stores, _] = per_line("store", bytes);
        assert!((stores - idle).abs() < 0.05 * cycles, "{stores} of {idle} in {cycles}");
    }
}

/// molka2017 §4.1: half of sequential loads hit the L1 or a fill buffer, the others are the misses of the L1.
#[test]
fn retired_loads_that_missed_are_the_lines_into_the_first_cache() {
    let model = small_haswell();
    let names = [
        "L1D.REPLACEMENT",
        "MEM_LOAD_UOPS_RETIRED.L2_HIT",
        "MEM_LOAD_UOPS_RETIRED.L3_HIT",
        "MEM_LOAD_UOPS_RETIRED.L3_MISS",
    ];
    for (bytes, least) in [(128 * KIB, 0.8), (2048 * KIB, 0.95), (12 << 20, 0.95)] {
        let mut rig = Rig::new(&model, huge(), Work::new("load", bytes));
        let counts = count(&model, &mut rig, &names);
        let [lines, parts @ ..] = names.map(|name| counts[name] as f64);
        let share = parts.iter().sum::<f64>() / lines;
        assert!(share > least && share < 1.05, "{share} of the lines over {bytes} bytes");
    }
}

/// molka2017 §4.1: RFO_HIT as libpfm encodes it sees nothing in the L2, as its lines are modified; loads are seen.
#[test]
fn half_of_the_state_bits_sees_hits_of_clean_lines_only() {
    let model = small_haswell();
    let names =
        ["cpu/event=0x24,umask=0x41/", "cpu/event=0x24,umask=0x42/", "L2_RQSTS.RFO_HIT", "L2_RQSTS.RFO_MISS"];
    let of = |kernel| {
        let mut rig = Rig::new(&model, plain(), Work::new(kernel, 128 * KIB));
        let counts = count(&model, &mut rig, &names);
        names.map(|name| counts[name] as f64 / (128 * KIB / 64) as f64)
    };
    let [loads, ..] = of("load");
    assert!((loads - 1.0).abs() < 0.02, "{loads}");
    let [_, half, both, missed] = of("store");
    assert!(half < 0.02 && (both - 1.0).abs() < 0.02 && missed < 0.02, "{half} {both} {missed}");
}

#[test]
fn buffers_are_full_where_bandwidth_is_short_and_not_where_latency_is_long() {
    let model = small_haswell();
    let beyond = 2 * model.l3.expect("a shared cache").geometry.size.0;
    let names = [
        "CPU_CLK_UNHALTED.THREAD",
        "RESOURCE_STALLS.SB",
        "L1D_PEND_MISS.FB_FULL",
        "OFFCORE_REQUESTS_BUFFER.SQ_FULL",
        "UOPS_EXECUTED.CYCLES_GE_1_UOP_EXEC",
        "UOPS_EXECUTED.STALL_CYCLES",
        "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
    ];
    let shares = |kernel, bytes| {
        let mut rig = Rig::new(&model, huge(), Work::new(kernel, bytes));
        let counts = count(&model, &mut rig, &names);
        let cycles = counts[names[0]];
        assert_eq!(counts[names[4]] + counts[names[5]], cycles, "{kernel}: a cycle executes or does not");
        assert_eq!(counts[names[5]], counts[names[6]], "{kernel}");
        [1, 2, 3].map(|event| counts[names[event]] as f64 / cycles as f64)
    };
    let [stores, ..] = shares("store", beyond);
    assert!(stores > 0.5, "a full store buffer holds stores up: {stores}");
    let [no_stores, buffers, queue] = shares("load", beyond);
    assert!(no_stores < 0.01 && buffers + queue > 0.1, "{no_stores} {buffers} {queue}");
    let chase = shares("chase", 1 << 20);
    assert!(chase.iter().all(|&share| share < 0.01), "{chase:?}");
}

#[test]
fn outstanding_misses_give_the_latency_of_a_load() {
    // helm2019 §3.2: L1D_PEND_MISS.PENDING over the loads that missed.
    let model = with_small_l2();
    let mut rig = Rig::new(&model, plain(), Work::new("chase", IN_L3));
    let names = ["L1D_PEND_MISS.PENDING", "MEM_LOAD_UOPS_RETIRED.L1_MISS", "MEM_LOAD_UOPS_RETIRED.HIT_LFB"];
    let counts = count(&model, &mut rig, &names);
    let [pending, missed, found] = names.map(|name| counts[name] as f64);
    let latency = pending / (missed + found);
    assert!((latency - 53.0).abs() < 3.0, "{latency}");
}

#[test]
fn edges_count_how_often_waiting_begins() {
    let model = with_small_l2();
    let bytes = 1 << 20;
    let mut rig = Rig::new(&model, plain(), Work::new("chase-dependent", bytes));
    let names = [
        "cpu/event=0xa3,umask=0x08,cmask=8,edge=1/",
        "cpu/event=0xa3,umask=0x08,cmask=8/",
        "cpu/event=0xa3,umask=0x08,cmask=8,inv=1/",
        "CPU_CLK_UNHALTED.THREAD",
    ];
    let counts = count(&model, &mut rig, &names);
    let [edges, pending, not_pending, cycles] = names.map(|name| counts[name]);
    assert_eq!(pending + not_pending, cycles);
    // Multiplications between the loads end each wait.
    assert!(edges.abs_diff(bytes / 64) <= 64, "{edges} for {} loads", bytes / 64);
}

#[test]
fn counting_changes_nothing() {
    let model = model("tiny");
    let work = Work { threads: 2, ..Work::new("triad", 48 * KIB) };
    let alone = Rig::new(&model, MemoryOptions::default(), work).measure();
    let pmu = pmu(&model);
    let offers = pmu.offers();
    let names = offers.iter().filter(|offer| offer.refused.is_none()).map(|offer| &offer.name);
    let events = names.map(|name| pmu.resolve(name).expect("an event")).collect();
    let (scope, too_many, share) = (everywhere(&model), TooMany::AllAtOnce, CountShare::Each);
    let mut rig = Rig::new(&model, MemoryOptions::default(), work);
    rig.engine.attach(pmu.bank());
    let mut open = pmu.open(&CountRequest { events, scope, too_many, share }).expect("all events");
    open.start().expect("a start");
    assert_eq!(rig.measure(), alone, "every event counted, every moment the same");
    let counts = open.read().expect("counts");
    assert!(counts.iter().any(|count| count.value.exact().is_some_and(|value| value > 0)));
}

/// molka2017 §4.2, Fig. 6b: reads for ownership are no reads to LLC_LOOKUP, and prefetches on behalf of stores ask to own too.
#[test]
fn prefetches_for_stores_ask_to_own_and_are_no_reads_of_the_last_cache() {
    let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
    let names = ["UNC_C_LLC_LOOKUP.DATA_READ", "UNC_C_LLC_LOOKUP.ANY"];
    for (kernel, bytes) in [("store", 2048 * KIB), ("load", 2048 * KIB)] {
        let mut rig = Rig::new(&model, huge(), Work::new(kernel, bytes));
        let counts = count(&model, &mut rig, &names);
        let [reads, any] = [0, 1].map(|at| counts[names[at]] as f64 / (bytes / 64) as f64);
        assert!(any > 0.9, "{kernel}: {any}");
        match kernel {
            "store" => assert!(reads < 0.05, "{reads} of {any} per line stored to"),
            _ => assert!(reads > 0.9, "{reads} of {any} per line read"),
        }
    }
}
