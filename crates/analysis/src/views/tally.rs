//! Sums of samples by event, region and symbol.

use std::{cmp::Reverse, collections::BTreeMap, collections::HashMap};

use record::{
    ids::{FunctionId, ModuleId, PlaceId},
    regions::RegionId,
    run::Run,
};

use super::{
    EventRow, EventTable, EventViews, FEWEST_CYCLES, MOST_REGIONS, MOST_SYMBOLS, RegionView, StalledShare,
    ViewedEvent, ViewedKind, ViewedSymbol,
};
use crate::{
    findings::{Findings, TimeShare},
    statistics,
};

/// Whose a sample is: a function, or code of a module that has no name.
type SymbolOwner = (Option<FunctionId>, ModuleId);

/// By symbol, one number for each event.
type SymbolSums = HashMap<usize, Vec<f64>>;

pub(super) struct ViewTally<'r> {
    run: &'r Run,
    findings: HashMap<SymbolOwner, usize>,
    events: usize,
    owners: HashMap<SymbolOwner, usize>,
    symbols: Vec<SymbolOwner>,
    whole: SymbolSums,
    regions: BTreeMap<Option<RegionId>, SymbolSums>,
}

impl<'r> ViewTally<'r> {
    pub fn new(run: &'r Run, findings: &Findings, events: usize) -> Self {
        let known = findings.symbols.iter().enumerate();
        let findings = known.map(|(index, symbol)| ((symbol.function, symbol.module_id), index)).collect();
        Self {
            run,
            findings,
            events,
            owners: HashMap::new(),
            symbols: Vec::new(),
            whole: HashMap::new(),
            regions: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, event: usize, place: PlaceId, region: Option<RegionId>, samples: f64) {
        let Some(place) = self.run.place(place) else { return };
        let owner = (place.function, place.module);
        let symbols = &mut self.symbols;
        let symbol = *self.owners.entry(owner).or_insert_with(|| {
            symbols.push(owner);
            symbols.len() - 1
        });
        let events = self.events;
        let add =
            |sums: &mut SymbolSums| sums.entry(symbol).or_insert_with(|| vec![0.0; events])[event] += samples;
        add(&mut self.whole);
        if !self.run.regions.list.is_empty() {
            add(self.regions.entry(region).or_default());
        }
    }

    /// All samples of an event.
    pub fn all(&self, event: usize) -> f64 {
        sum(&self.whole, event)
    }

    pub fn finish(
        self,
        events: Vec<ViewedEvent>,
        cycles: Option<usize>,
        stalled: Option<usize>,
    ) -> EventViews {
        let share = StalledRule { events: &events, cycles, stalled };
        let symbols = self.symbols.iter().enumerate().map(|(index, owner)| {
            let sums = self.whole.get(&index);
            self.symbol(*owner, sums.and_then(|sums| share.of(&|event| sums[event])))
        });
        let symbols: Vec<ViewedSymbol> = symbols.collect();
        let by_symbol = tables(&self.whole, events.len(), &symbols);
        let totals: Vec<f64> = (0..events.len()).map(|event| self.all(event)).collect();
        let mut by_region: Vec<RegionView> = self
            .regions
            .iter()
            .map(|(region, sums)| {
                let named = region.and_then(|region| self.run.regions.list.get(region.index()));
                let part = |event: usize| sum(sums, event);
                RegionView {
                    name: named.map(|region| region.name.clone()),
                    is_parallel: named.is_some_and(|region| region.is_parallel),
                    shares: totals
                        .iter()
                        .enumerate()
                        .map(|(event, all)| (*all > 0.0).then(|| part(event) / all))
                        .collect(),
                    stalled: share.of(&part),
                    tables: tables(sums, events.len(), &symbols),
                }
            })
            .collect();
        let rank = |region: &RegionView| cycles.and_then(|event| region.shares[event]).unwrap_or(0.0);
        by_region.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        let regions_left_out = by_region.len().saturating_sub(MOST_REGIONS);
        by_region.truncate(MOST_REGIONS);
        let mut views = EventViews {
            events,
            cycles,
            stalled,
            symbols,
            by_symbol,
            by_region,
            regions_left_out,
            ..EventViews::default()
        };
        keep_named(&mut views);
        views
    }

    fn symbol(&self, owner: SymbolOwner, stalled: Option<StalledShare>) -> ViewedSymbol {
        let (function, module) = owner;
        let library = self.run.module(module).map_or_else(String::new, |module| module.path.clone());
        let name = function.and_then(|id| self.run.function(id)).map(|function| function.name.clone());
        // The kernel and the like, of which nothing more is known.
        let beyond = || if library.starts_with('[') { library.clone() } else { "unknown code".to_owned() };
        ViewedSymbol {
            signature: name.unwrap_or_else(beyond),
            library,
            function,
            finding: self.findings.get(&owner).copied(),
            stalled,
        }
    }
}

fn sum(sums: &SymbolSums, event: usize) -> f64 {
    sums.values().map(|of| of[event]).sum()
}

/// One table for each event with samples.
fn tables(sums: &SymbolSums, events: usize, symbols: &[ViewedSymbol]) -> Vec<EventTable> {
    let table = |event: usize| {
        let mut rows: Vec<(usize, f64)> = sums
            .iter()
            .map(|(symbol, of)| (*symbol, of[event]))
            .filter(|(_, samples)| *samples > 0.0)
            .collect();
        let samples: f64 = rows.iter().map(|(_, samples)| samples).sum();
        let name = |symbol: usize| symbols.get(symbol).map(|symbol| symbol.signature.as_str());
        rows.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| name(a.0).cmp(&name(b.0))));
        let left_out = rows.len().saturating_sub(MOST_SYMBOLS);
        let row = |(symbol, part): &(usize, f64)| EventRow {
            symbol: *symbol,
            samples: *part,
            share: part / samples,
        };
        let rows: Vec<EventRow> = rows.iter().take(MOST_SYMBOLS).map(row).collect();
        (!rows.is_empty()).then_some(EventTable { event, samples, rows, left_out })
    };
    (0..events).filter_map(table).collect()
}

/// Of thousands of symbols only those stay that a table names, the hottest first.
fn keep_named(views: &mut EventViews) {
    let tables = || views.by_symbol.iter().chain(views.by_region.iter().flat_map(|region| &region.tables));
    let mut hottest: HashMap<usize, f64> = HashMap::new();
    for row in tables().flat_map(|table| &table.rows) {
        let known = hottest.entry(row.symbol).or_insert(0.0);
        *known = known.max(row.share);
    }
    let mut order: Vec<usize> = hottest.keys().copied().collect();
    let signature = |symbol: usize| views.symbols[symbol].signature.clone();
    order.sort_by_cached_key(|symbol| (Reverse((hottest[symbol] * 1e9) as u64), signature(*symbol), *symbol));
    let place: HashMap<usize, usize> = order.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    views.symbols = order.iter().map(|old| views.symbols[*old].clone()).collect();
    let of_regions = views.by_region.iter_mut().flat_map(|region| &mut region.tables);
    for row in views.by_symbol.iter_mut().chain(of_regions).flat_map(|table| &mut table.rows) {
        row.symbol = place[&row.symbol];
    }
}

/// Stalled cycles over cycles.
struct StalledRule<'a> {
    events: &'a [ViewedEvent],
    cycles: Option<usize>,
    stalled: Option<usize>,
}

impl StalledRule<'_> {
    /// By the samples of each event; none where there are too few, or nobody knows what they stand for.
    fn of(&self, samples: &dyn Fn(usize) -> f64) -> Option<StalledShare> {
        let (cycles, stalled) = (self.cycles?, self.stalled?);
        let (whole, part) = (samples(cycles), samples(stalled));
        if whole < FEWEST_CYCLES {
            return None;
        }
        if self.events[stalled].kind == ViewedKind::Waiting {
            // Parts of the same samples.
            let TimeShare { value, low, high } = statistics::share(part, whole)?;
            return Some(StalledShare { value, low, high });
        }
        let count = |event: usize, samples: f64| Some(samples * self.events[event].period?);
        let value = count(stalled, part)? / count(cycles, whole)?;
        // Each number of samples is known to its root.
        let off = 1.96 * (1.0 / part.max(1.0) + 1.0 / whole).sqrt();
        Some(StalledShare { value, low: (value * (1.0 - off)).max(0.0), high: value * (1.0 + off) })
    }
}
