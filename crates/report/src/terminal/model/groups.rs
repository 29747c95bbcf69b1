//! The numbers of a model in the groups that sources speak of. Every struct is taken apart field by field, so that a
//! new number cannot be forgotten here.

use machine::{
    model::{
        BranchModel, CacheGeometry, Clocks, CoreModel, FrontEnd, Inclusion, LinkModel, MemoryModel, Model,
        ModelIdentity, ModelOperation, ModelPort, ModelTlb, OpClass, Prefetchers, PrivateCache, Replacement,
        SharedCache, Streamer, TlbModel,
    },
    units::significant,
};

use super::{entry, rate, trimmed};
use crate::{
    layout::figures::absent,
    layout::prose::{counted, wrap},
    layout::table::{Cell, Column, Table},
};

/// Facts under one heading.
pub(super) struct ModelGroup {
    pub(super) title: &'static str,
    /// Tables of the model file it shows.
    pub(super) keys: &'static [&'static str],
    pub(super) facts: Vec<String>,
    /// Finished lines under the facts.
    pub(super) detail: String,
}

impl ModelGroup {
    fn new(title: &'static str, keys: &'static [&'static str], facts: Vec<String>) -> Self {
        Self { title, keys, facts, detail: String::new() }
    }
}

/// All groups a model has.
pub(super) fn of(model: &Model, columns: usize) -> Vec<ModelGroup> {
    let core = ModelGroup {
        detail: execution(&model.core, columns),
        ..ModelGroup::new("Core", &["core"], core(&model.core))
    };
    let shape = vec![
        counted(model.sockets as usize, "socket"),
        format!("{} each", counted(model.cores_per_socket as usize, "core")),
        format!("{} each", counted(model.threads_per_core as usize, "thread")),
    ];
    let mut groups = vec![
        ModelGroup::new("Shape", &["sockets", "cores_per_socket", "threads_per_core"], shape),
        ModelGroup::new("Identity", &["identity", "isa"], identity(model)),
        ModelGroup::new("Clocks", &["clock"], clocks(&model.clock)),
        ModelGroup::new("Front end", &["front_end"], front_end(&model.front_end)),
        core,
        ModelGroup::new("L1 data cache", &["l1d"], private(&model.l1d)),
        ModelGroup::new("L2 cache", &["l2"], private(&model.l2)),
    ];
    groups.extend(model.l3.as_ref().map(|l3| ModelGroup::new("L3 cache, per socket", &["l3"], shared(l3))));
    groups.push(ModelGroup::new("Address translation", &["tlb"], tlb(&model.tlb)));
    groups.push(ModelGroup::new("Prefetchers", &["prefetch"], prefetchers(&model.prefetch)));
    groups.push(ModelGroup::new("Memory, per socket", &["memory"], memory(&model.memory)));
    groups.extend(
        model.link.as_ref().map(|link| ModelGroup::new("Links between sockets", &["link"], links(link))),
    );
    groups
}

fn cycles(count: u32) -> String {
    counted(count as usize, "cycle")
}

fn identity(model: &Model) -> Vec<String> {
    let ModelIdentity { vendor, family, model: number, stepping } = &model.identity;
    let widths: Vec<&str> = model.isa.widths().map(|width| width.name()).collect();
    let mut facts = vec![
        format!("{vendor} family {family} model {number} stepping {stepping}"),
        format!("kernels of widths {}", widths.join(", ")),
    ];
    // AVX alone gives no width of its own.
    if model.isa.avx && !model.isa.avx2 {
        facts.push("AVX without AVX2".to_owned());
    }
    facts
}

fn clocks(clock: &Clocks) -> Vec<String> {
    let Clocks { core_hz, uncore_hz, uncore_follows_core } = clock;
    let ghz = |hz: &u64| format!("{} GHz", trimmed(&significant(*hz as f64 / 1e9, 4)));
    let follows = if *uncore_follows_core { ", changing with the cores" } else { "" };
    vec![format!("core {}", ghz(core_hz)), format!("uncore {}{follows}", ghz(uncore_hz))]
}

fn geometry(geometry: &CacheGeometry) -> String {
    let CacheGeometry { size, ways, line, replacement } = geometry;
    let policy = match replacement {
        Replacement::Lru => "LRU",
        Replacement::TreePlru => "tree-PLRU",
        Replacement::Random => "random replacement",
    };
    format!("{size}, {ways} ways of {line}, {policy}")
}

fn level(level: &ModelTlb) -> String {
    let ModelTlb { entries, ways } = level;
    match ways == entries {
        true => format!("{entries} entries, fully associative"),
        false => format!("{entries} entries, {ways} ways"),
    }
}

fn front_end(front_end: &FrontEnd) -> Vec<String> {
    let FrontEnd {
        l1i,
        fetch_bytes,
        uop_cache_uops,
        decode_width,
        length_change_penalty,
        microcode_penalty,
        branch,
        itlb,
    } = front_end;
    let BranchModel { table_bits, history_bits, loop_entries, mispredict_penalty, waits_for_branches } =
        branch;
    let decoded = match uop_cache_uops {
        0 => "no cache of decoded µops".to_owned(),
        uops => format!("{uops} decoded µops"),
    };
    let mut said = vec![
        format!("L1I {}", geometry(l1i)),
        format!("ITLB {}", level(itlb)),
        format!("fetches {fetch_bytes} bytes"),
        format!("decodes {decode_width}"),
        decoded,
        format!("length-changing prefix {}", cycles(*length_change_penalty)),
        format!("microcode {}", cycles(*microcode_penalty)),
        format!("2^{table_bits} branch counters"),
        format!("{history_bits} bits of history"),
        format!("{loop_entries} loops remembered"),
        format!("misprediction {}", cycles(*mispredict_penalty)),
    ];
    if *waits_for_branches {
        said.push("nothing dispatched behind a wrong guess".to_owned());
    }
    said
}

fn core(core: &CoreModel) -> Vec<String> {
    let CoreModel {
        dispatch_width,
        retire_width,
        reorder_entries,
        scheduler_entries,
        load_buffer,
        store_buffer,
        macro_fusion,
        micro_fusion,
        ports: _,
        operations: _,
        store_forward_latency,
        memory_renaming,
        blocked_forward_penalty,
        line_split_penalty,
        load_confidence,
    } = core;
    let fuses = |fused: bool, what: &str| format!("{what} {}", if fused { "fused" } else { "not fused" });
    vec![
        format!("dispatches {dispatch_width}, retires {retire_width} µops"),
        format!("window {reorder_entries}"),
        format!("scheduler {scheduler_entries}"),
        format!("{load_buffer} loads"),
        format!("{store_buffer} stores"),
        fuses(*macro_fusion, "compare and branch"),
        fuses(*micro_fusion, "load and operation"),
        match memory_renaming {
            true => "forwarding by renaming".to_owned(),
            false => format!("forwarding {}", cycles(*store_forward_latency)),
        },
        format!("blocked forwarding +{}", cycles(*blocked_forward_penalty)),
        format!("split line +{}", cycles(*line_split_penalty)),
        match load_confidence {
            0 => "loads know which stores they need".to_owned(),
            times => format!("loads go past stores of unknown address after {times} times without harm"),
        },
    ]
}

/// Ports and operations.
fn execution(core: &CoreModel, columns: usize) -> String {
    let mut out = String::new();
    for ModelPort { name, runs, bytes } in &core.ports {
        let runs: Vec<&str> = runs.iter().map(|class| class.name()).collect();
        let width = bytes.map_or(String::new(), |bytes| format!("; {bytes} bytes wide"));
        out += &entry(name, &format!("{}{width}", runs.join(", ")), columns);
    }
    let mut table = Table::new(vec![
        Column::new("operation").left(),
        Column::new("latency").group("cycles"),
        Column::new("repeat").group("cycles"),
        Column::new("wide").group("cycles"),
    ]);
    for class in OpClass::ALL {
        for operation in core.operations.iter().filter(|operation| operation.class == class) {
            let ModelOperation { class, latency, repeat, repeat_wide } = operation;
            table.row(vec![
                class.name().into(),
                latency.to_string().into(),
                repeat.to_string().into(),
                repeat_wide.map_or(absent(), |repeat| Cell::from(repeat.to_string())),
            ]);
        }
    }
    let note = "'repeat' is the time until the same port starts the next one, 'wide' that of 256 bits and more where it differs.";
    out + &table.render(columns).text + &wrap("  ", note, columns)
}

fn private(cache: &PrivateCache) -> Vec<String> {
    let PrivateCache {
        geometry: shape,
        latency,
        misses_in_flight,
        fill_cycles,
        evict_cycles,
        serve_cycles,
        shared_by_cores,
    } = cache;
    vec![
        geometry(shape),
        format!("hit {}", cycles(*latency)),
        format!("{misses_in_flight} misses in flight"),
        format!("a fill occupies {}", cycles(*fill_cycles)),
        format!("an eviction {}", cycles(*evict_cycles)),
        format!("serves every {}", cycles(*serve_cycles)),
        match shared_by_cores {
            1 => "one per core".to_owned(),
            cores => format!("shared by {cores} cores"),
        },
    ]
}

fn shared(cache: &SharedCache) -> Vec<String> {
    let SharedCache {
        geometry: shape,
        slices,
        inclusion,
        latency,
        core_latency,
        slice_cycles,
        snoop_latency,
        misses_in_flight,
    } = cache;
    vec![
        geometry(shape),
        counted(*slices as usize, "slice"),
        match inclusion {
            Inclusion::Inclusive => "inclusive".to_owned(),
            Inclusion::Victim => "filled by evictions".to_owned(),
        },
        format!("beyond the L2 {core_latency} core and {latency} uncore cycles"),
        format!("a slice serves every {} of the uncore", cycles(*slice_cycles)),
        format!("asking another core +{snoop_latency} uncore cycles"),
        format!("{misses_in_flight} misses in flight per slice"),
    ]
}

fn tlb(tlb: &TlbModel) -> Vec<String> {
    let TlbModel {
        l1_small,
        l1_huge,
        l2,
        l2_holds_huge,
        l2_latency,
        walk_cycles,
        walk_levels_cached,
        walkers,
    } = tlb;
    vec![
        format!("4K pages {}", level(l1_small)),
        format!("2M pages {}", level(l1_huge)),
        format!("second level {}", level(l2)),
        format!("{} 2M pages", if *l2_holds_huge { "also for" } else { "not for" }),
        format!("its hit {}", cycles(*l2_latency)),
        format!("a walk {} and its accesses", cycles(*walk_cycles)),
        format!("{walk_levels_cached} of 4 levels cached"),
        counted(*walkers as usize, "walker"),
    ]
}

fn prefetchers(prefetch: &Prefetchers) -> Vec<String> {
    let Prefetchers { l1_next_line, l1_stride, l2_adjacent, l2_streamer } = prefetch;
    let state = |name: &str, on: bool| format!("{name} {}", if on { "on" } else { "none" });
    let mut facts = vec![
        state("L1 next line", *l1_next_line),
        state("L1 stride", *l1_stride),
        state("L2 adjacent line", *l2_adjacent),
    ];
    match l2_streamer {
        None => facts.push("L2 streamer none".to_owned()),
        Some(Streamer { streams, distance, degree, l3_only_above }) => facts.extend([
            format!("L2 streamer of {}", counted(*streams as usize, "stream")),
            format!("up to {} ahead", counted(*distance as usize, "line")),
            format!("{} per access", counted(*degree as usize, "line")),
            format!("into the L3 only from {l3_only_above} requests on"),
        ]),
    }
    facts
}

fn memory(memory: &MemoryModel) -> Vec<String> {
    let MemoryModel {
        channels,
        channel_bytes_per_s,
        idle_latency_ns,
        banks,
        row_cycle_ns,
        turnaround_ns,
        queue,
        size,
    } = memory;
    vec![
        format!("{} of {}", counted(*channels as usize, "channel"), rate(*channel_bytes_per_s)),
        format!("beyond the last cache {idle_latency_ns} ns"),
        format!("{} per channel", counted(*banks as usize, "bank")),
        format!("row cycle {row_cycle_ns} ns"),
        format!("turnaround {turnaround_ns} ns"),
        format!("{} queued per channel", counted(*queue as usize, "request")),
        size.to_string(),
    ]
}

fn links(link: &LinkModel) -> Vec<String> {
    let LinkModel {
        links,
        bytes_per_s,
        line_bytes,
        message_bytes,
        latency_ns,
        requests_in_flight,
        forwards_clean,
    } = link;
    vec![
        format!("{} between two sockets", counted(*links as usize, "link")),
        format!("{} each way", rate(*bytes_per_s)),
        format!("a line takes {line_bytes} bytes"),
        format!("a message {message_bytes}"),
        format!("one way {latency_ns} ns"),
        format!("{requests_in_flight} requests in flight per socket"),
        match forwards_clean {
            true => "unmodified lines come from the package that has them".to_owned(),
            false => "unmodified lines come from memory".to_owned(),
        },
    ]
}
