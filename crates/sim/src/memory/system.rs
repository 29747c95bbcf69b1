//! The parts put together, and the door through which cores come in.

use std::ops::Range;

use events::Unit;
use machine::model::{Model, OpClass, PrivateCache, TlbModel};

use super::{
    calendar::{Calendar, Slots},
    combining::Combining,
    departing::Departing,
    disturbance::Background,
    dram::Controller,
    fault::{self, ModelFault},
    filter::Filter,
    home::Visits,
    lanes::Lanes,
    level::CacheLevel,
    link::Links,
    options::{MemoryOptions, PageSize, PrefetchSwitches},
    pages::{PageMap, line_in, mix},
    prefetch::{NextLine, PrefetchStreams, Strides},
    slices::CacheSlices,
    stats::{CoreStats, LinkStats, MemoryStats, SharedStats},
    tlb::SimulatedTlb,
    walk::Translated,
};
use crate::{
    access::{MemoryPort, MemoryRequest, RequestKind, Response, Supplier, Translation},
    divider::Divider,
    signal::{BoxCounts, BoxWatcher, CoreSignal, CounterTurns, SignalNote, SignalWatch},
    time::Time,
};

/// Why a line is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineOrigin {
    Load,
    Store,
    Walk,
    Fetch,
    SoftwarePrefetch,
    L1Prefetch,
    L2Prefetch,
    /// On behalf of stores: the line is to be owned when it comes.
    L2PrefetchToOwn,
}

impl LineOrigin {
    /// Whether a prefetcher made it up.
    pub fn is_prefetch(self) -> bool {
        matches!(self, Self::L1Prefetch | Self::L2Prefetch | Self::L2PrefetchToOwn)
    }

    /// Whether others lose their copies.
    pub fn owns(self) -> bool {
        matches!(self, Self::Store | Self::L2PrefetchToOwn)
    }
}

/// What became of a request for a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    pub ready: u64,
    pub accepted: u64,
    pub supplier: Supplier,
}

/// What is a core's own.
pub(super) struct CoreSide {
    pub cluster: usize,
    pub cycle_fs: u64,
    /// Divides by `cycle_fs`.
    pub cycles: Divider,
    pub l1: CacheLevel,
    pub lanes: Lanes,
    pub fill_buffers: Slots,
    pub dtlb_small: SimulatedTlb,
    pub dtlb_huge: SimulatedTlb,
    pub stlb: SimulatedTlb,
    pub walkers: Slots,
    /// The small page translated last and its first line, to spare the search.
    pub last_page: (u64, u64),
    pub combining: Combining,
    pub departing: Departing,
    pub next_line: NextLine,
    pub strides: Strides,
    pub switches: PrefetchSwitches,
    pub stats: CoreStats,
}

/// An L2 and the cores that share it.
pub(super) struct Cluster {
    pub socket: usize,
    /// Its bit in the directory of its package.
    pub bit: u64,
    pub cores: Range<usize>,
    pub cycle_fs: u64,
    pub spans: Spans,
    pub l2: CacheLevel,
    pub array: Calendar,
    pub queue: Slots,
    pub streams: PrefetchStreams,
}

/// What takes an L2 how long, at its present clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spans {
    pub serve: u64,
    pub latency: u64,
    pub fill: u64,
    pub evict: u64,
    /// To a slice of its package.
    pub there: u64,
    pub back: u64,
}

/// A package.
pub(super) struct Socket {
    /// Its clusters.
    pub clusters: Range<usize>,
    pub l3: Option<CacheSlices>,
    /// Where the L3 does not hold everything.
    pub filter: Option<Filter>,
    pub memory: Controller,
    pub background: Option<Background>,
    pub stats: SharedStats,
}

/// The memory of a simulated machine, as its cores see it.
///
/// ```
/// use machine::model::Model;
/// use sim::{access::{MemoryPort, MemoryRequest, RequestKind}, memory::{MemoryOptions, MemorySystem}, time::Time};
/// let mut memory = MemorySystem::new(&Model::builtin("tiny")?, MemoryOptions::default())?;
/// let load = MemoryRequest { core: 0, kind: RequestKind::Load, address: 0x1000, at: Time::ZERO, instruction: 0 };
/// let first = memory.access(&load);
/// let again = memory.access(&MemoryRequest { at: first.ready, ..load });
/// assert!(again.ready.since(first.ready) < first.ready);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MemorySystem {
    pub(super) l1: PrivateCache,
    pub(super) l2: PrivateCache,
    pub(super) tlb: TlbModel,
    pub(super) model_switches: PrefetchSwitches,
    pub(super) cores: Vec<CoreSide>,
    pub(super) clusters: Vec<Cluster>,
    pub(super) sockets: Vec<Socket>,
    pub(super) links: Links,
    pub(super) visits: Visits,
    pub(super) pages: PageMap,
    /// Packages have snoop filters: their shared caches do not hold everything.
    pub(super) filtered: bool,
    /// Unmodified lines come from the package that has them.
    pub(super) forwards_clean: bool,
    pub(super) any_small: bool,
    pub(super) any_huge: bool,
    pub(super) uncore_fs: u64,
    pub(super) box_hz: [(Unit, u64); 4],
    pub(super) watcher: BoxWatcher,
}

impl MemorySystem {
    /// The memory of `model`, all caches empty.
    pub fn new(model: &Model, options: MemoryOptions) -> Result<Self, ModelFault> {
        fault::check(model)?;
        let per_cluster = model.l2.shared_by_cores.max(1) as usize;
        let per_socket = model.cores_per_socket as usize;
        let clusters_per_socket = per_socket.div_ceil(per_cluster);
        let (mut cores, mut clusters, mut sockets) = (Vec::new(), Vec::new(), Vec::new());
        for socket in 0..model.sockets as usize {
            let first_cluster = clusters.len();
            for local in 0..clusters_per_socket {
                let first = socket * per_socket + local * per_cluster;
                let last = (first + per_cluster).min((socket + 1) * per_socket);
                for core in first..last {
                    cores.push(CoreSide::new(model, clusters.len(), mix(options.seed ^ core as u64)));
                }
                let seed = mix(options.seed.wrapping_add(clusters.len() as u64));
                clusters.push(Cluster::new(model, socket, local, first..last, seed));
            }
            sockets.push(Socket::new(model, first_cluster..clusters.len(), socket, &options));
        }
        let watcher = BoxWatcher::new(cores.len(), Self::box_numbers(model));
        let pages = PageMap::new(model.sockets, model.memory.size.0, options);
        let switches = PrefetchSwitches {
            l1_next_line: model.prefetch.l1_next_line,
            l1_stride: model.prefetch.l1_stride,
            l2_adjacent: model.prefetch.l2_adjacent,
            l2_streamer: model.prefetch.l2_streamer.is_some(),
        };
        let mut system = Self {
            forwards_clean: model.link.as_ref().is_some_and(|link| link.forwards_clean),
            filtered: sockets.iter().any(|socket| socket.filter.is_some()),
            l1: model.l1d,
            l2: model.l2,
            tlb: model.tlb,
            model_switches: switches,
            cores,
            clusters,
            sockets,
            links: Links::new(model.sockets as usize, model.link.as_ref()),
            visits: Visits::new(),
            any_small: pages.may_have(PageSize::Small),
            any_huge: pages.may_have(PageSize::Huge),
            uncore_fs: Time::cycle_of(model.clock.uncore_hz).0,
            box_hz: Self::box_hz(model),
            watcher,
            pages,
        };
        for core in 0..system.cores.len() {
            system.set_prefetchers(core, options.prefetchers);
        }
        (0..system.clusters.len()).for_each(|number| system.set_spans(number));
        Ok(system)
    }

    /// Number of cores, those of the first package first.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// Number of packages.
    pub fn packages(&self) -> usize {
        self.sockets.len()
    }

    /// The package of a core.
    pub fn package_of(&self, core: usize) -> usize {
        self.clusters[self.cores[core].cluster].socket
    }

    /// Places the pages of `addresses` on package `node`. Pages that were touched before stay where they are.
    pub fn map(&mut self, addresses: Range<u64>, node: u32, size: PageSize) {
        if !addresses.is_empty() {
            self.pages.map(addresses.start, addresses.end - 1, node, size);
            self.any_small |= size == PageSize::Small;
            self.any_huge |= size == PageSize::Huge;
        }
    }

    /// Changes the clock of a core and its L2, from now on. A clock of 0 is taken as 1 Hz.
    pub fn set_core_clock(&mut self, core: usize, hz: u64) {
        let cycle_fs = Time::cycle_of(hz.max(1)).0.max(1);
        let core = &mut self.cores[core];
        core.cycle_fs = cycle_fs;
        core.cycles = Divider::new(cycle_fs);
        core.lanes.clear();
        let number = core.cluster;
        self.clusters[number].cycle_fs = cycle_fs;
        self.set_spans(number);
    }

    fn set_spans(&mut self, number: usize) {
        let cluster = &mut self.clusters[number];
        let of = |cycles: u32| u64::from(cycles) * cluster.cycle_fs;
        let l3 = &self.sockets[cluster.socket].l3;
        let way = l3.as_ref().map_or(0, |l3| l3.core_latency * cluster.cycle_fs + l3.latency_fs);
        cluster.spans = Spans {
            serve: of(self.l2.serve_cycles),
            latency: of(self.l2.latency),
            fill: of(self.l2.fill_cycles),
            evict: of(self.l2.evict_cycles),
            there: way / 2,
            back: way - way / 2,
        };
    }

    /// Switches the prefetchers of a core; of an L2 that cores share, both follow the last call.
    pub fn set_prefetchers(&mut self, core: usize, switches: PrefetchSwitches) {
        let has = self.model_switches;
        let allowed = PrefetchSwitches {
            l1_next_line: switches.l1_next_line && has.l1_next_line,
            l1_stride: switches.l1_stride && has.l1_stride,
            l2_adjacent: switches.l2_adjacent && has.l2_adjacent,
            l2_streamer: switches.l2_streamer && has.l2_streamer,
        };
        self.cores[core].switches = allowed;
    }

    /// What one core did and met.
    pub fn core_stats(&self, core: usize) -> &CoreStats {
        &self.cores[core].stats
    }

    /// What a package's shared cache, or its snoop filter, did.
    pub fn shared_stats(&self, package: usize) -> &SharedStats {
        &self.sockets[package].stats
    }

    /// What a package's memory did.
    pub fn memory_stats(&self, package: usize) -> &MemoryStats {
        &self.sockets[package].memory.stats
    }

    /// What the links from one package to another carried.
    pub fn link_stats(&self, from: usize, to: usize) -> &LinkStats {
        &self.links.stats[from * self.sockets.len() + to]
    }

    /// Pages that were given although no memory was left for them.
    pub fn overcommitted_pages(&self) -> u64 {
        self.pages.overcommitted
    }
}

impl MemorySystem {
    #[inline]
    fn load(&mut self, request: &MemoryRequest) -> Response {
        let core = request.core;
        self.cores[core].stats.loads += 1;
        let translated = self.translate(core, request.address, request.at.0, LineOrigin::Load);
        let served = match request.kind {
            RequestKind::LoadToOwn => self.data_to_own(core, translated.line, translated.at),
            _ => self.data(core, translated.line, translated.at, LineOrigin::Load),
        };
        self.train_level_one(core, translated.line, request, &served);
        Self::response(request, &translated, &served)
    }

    #[inline(never)]
    fn store(&mut self, request: &MemoryRequest) -> Response {
        let core = request.core;
        let again = request.kind == RequestKind::StoreAgain;
        let stats = &mut self.cores[core].stats;
        *(if again { &mut stats.stores_again } else { &mut stats.stores }) += 1;
        let translated = self.translate(core, request.address, request.at.0, LineOrigin::Store);
        let (line, at) = (translated.line, translated.at);
        let served = match request.kind {
            RequestKind::StoreNonTemporal => self.store_past(core, line, request.address, at),
            _ => self.data(core, line, at, LineOrigin::Store),
        };
        if !again {
            self.cores[core].stats.stores_by_supplier[served.supplier as usize] += 1;
            if translated.how == Translation::Walk {
                self.watcher.note(core, CoreSignal::StoresWalked, at);
            }
        }
        Self::response(request, &translated, &served)
    }

    fn prefetch(&mut self, request: &MemoryRequest) -> Response {
        let core = request.core;
        self.cores[core].stats.software_prefetches += 1;
        let translated = self.translate(core, request.address, request.at.0, LineOrigin::SoftwarePrefetch);
        let served = self.data(core, translated.line, translated.at, LineOrigin::SoftwarePrefetch);
        Self::response(request, &translated, &served)
    }

    /// The core has translated what it fetches: see [`MemoryPort::translate_code`].
    fn fetch(&mut self, request: &MemoryRequest) -> Response {
        let (core, at) = (request.core, request.at.0);
        self.cores[core].stats.fetches += 1;
        let package = self.package_of(core);
        let line = line_in(self.pages.page(request.address, package), request.address);
        let served = self.instructions(core, line, at);
        Self::response(request, &Translated { line, at, how: Translation::L1 }, &served)
    }

    #[inline]
    fn response(request: &MemoryRequest, translated: &Translated, served: &Served) -> Response {
        let waited = served.accepted > translated.at;
        Response {
            ready: Time(served.ready),
            accepted: if waited { Time(served.accepted) } else { request.at },
            translated: Time(translated.at),
            supplier: served.supplier,
            translation: translated.how,
        }
    }
}

impl MemoryPort for MemorySystem {
    #[inline]
    fn access(&mut self, request: &MemoryRequest) -> Response {
        match request.kind {
            RequestKind::Load | RequestKind::LoadToOwn => self.load(request),
            RequestKind::Store | RequestKind::StoreAgain | RequestKind::StoreNonTemporal => {
                self.store(request)
            }
            RequestKind::Prefetch => self.prefetch(request),
            RequestKind::Fetch => self.fetch(request),
        }
    }

    fn translate_code(&mut self, core: usize, address: u64, at: Time) -> Time {
        self.cores[core].stats.itlb_misses += 1;
        Time(self.translate_further(core, address, at.0, LineOrigin::Fetch).0.at)
    }

    fn drain_write_combining(&mut self, core: usize, at: Time) -> Time {
        Time(self.drain_combining(core, at.0))
    }

    #[inline]
    fn lines_taken(&self, core: usize) -> u64 {
        self.cores[core].departing.taken
    }

    fn writable(&mut self, core: usize, address: u64, at: Time) -> Option<Time> {
        self.writable_from(core, address, at.0).map(Time)
    }

    fn watch(&mut self, watch: SignalWatch, turns: CounterTurns) {
        self.watcher.begin(watch, turns);
    }

    fn unwatch(&mut self, from: Time, until: Time) -> BoxCounts {
        let hz = self.box_hz;
        let of = |unit| hz.iter().find(|(known, _)| *known == unit).map_or(0, |(_, hz)| *hz);
        self.let_others_work(from, until);
        self.watcher.tick(from.0, until.0, of);
        self.watcher.end()
    }

    fn take_notes(&mut self, core: usize, into: &mut Vec<SignalNote>) {
        self.watcher.take_notes(core, into);
    }

    fn core_clock_changed(&mut self, core: usize, hz: u64, _at: Time) {
        self.set_core_clock(core, hz);
    }
}

impl CoreSide {
    fn new(model: &Model, cluster: usize, seed: u64) -> Self {
        let load_ports = model.core.ports.iter().filter(|port| port.runs.contains(&OpClass::Load)).count();
        let cycle_fs = Time::cycle_of(model.clock.core_hz).0;
        Self {
            cluster,
            cycle_fs,
            cycles: Divider::new(cycle_fs),
            l1: CacheLevel::new(&model.l1d.geometry, seed),
            lanes: Lanes::new(load_ports),
            fill_buffers: Slots::new(model.l1d.misses_in_flight),
            dtlb_small: SimulatedTlb::new(&model.tlb.l1_small),
            dtlb_huge: SimulatedTlb::new(&model.tlb.l1_huge),
            stlb: SimulatedTlb::new(&model.tlb.l2),
            walkers: Slots::new(model.tlb.walkers),
            last_page: (u64::MAX, 0),
            combining: Combining::new(model.l1d.misses_in_flight),
            departing: Departing::default(),
            next_line: NextLine::default(),
            strides: Strides::default(),
            switches: PrefetchSwitches::OFF,
            stats: CoreStats::default(),
        }
    }
}

impl Cluster {
    /// By several cores.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.cores.len() > 1
    }

    fn new(model: &Model, socket: usize, local: usize, cores: Range<usize>, seed: u64) -> Self {
        let cycle_fs = Time::cycle_of(model.clock.core_hz).0;
        Self {
            socket,
            bit: 1 << local,
            cores,
            cycle_fs,
            spans: Spans::default(),
            l2: CacheLevel::new(&model.l2.geometry, seed),
            array: Calendar::new(cycle_fs),
            queue: Slots::new(model.l2.misses_in_flight),
            streams: PrefetchStreams::new(model.prefetch.l2_streamer),
        }
    }
}

impl Socket {
    fn new(model: &Model, clusters: Range<usize>, number: usize, options: &MemoryOptions) -> Self {
        let seed = mix(options.seed ^ 0x5ca1_ab1e ^ (number as u64) << 32);
        let uncore_fs = Time::cycle_of(model.clock.uncore_hz).0;
        let l3 = model.l3.as_ref().map(|l3| CacheSlices::new(l3, uncore_fs, seed));
        let lines_of = |cache: &PrivateCache| (cache.geometry.size.0 / 64) as usize;
        let private =
            clusters.len() * lines_of(&model.l2) + model.cores_per_socket as usize * lines_of(&model.l1d);
        let inclusive = l3.as_ref().is_some_and(|l3| l3.inclusive);
        Self {
            filter: (!inclusive).then(|| Filter::new(private)),
            memory: Controller::new(&model.memory),
            background: options.disturbance.map(|disturbance| Background::new(disturbance, number, seed)),
            stats: SharedStats::default(),
            clusters,
            l3,
        }
    }
}
