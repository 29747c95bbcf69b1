//! Events that are open on a simulated machine.

use events::{Count, CountRefusal, CountShare, CountedPlace, Counting, Event, Missing, Unit, Value};
use machine::CpuSet;

use super::{
    bank::Bank,
    instrument::SimulatedPmu,
    lie::Lie,
    recipe::{Recipe, RecipeCounter},
};
use crate::time::Time;

/// By event its counter, or why it has none; and events that have one with their recipes.
pub(super) type EventSlots<'e> = (Vec<Result<usize, String>>, Vec<(&'e Event, Recipe)>);

/// Until when, from the start of a run, it is whose part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedPart {
    /// Since the run's start.
    pub until: Time,
    /// By number.
    pub part: usize,
}

fn unit(recipe: &Recipe) -> Unit {
    match recipe {
        Recipe::Core { .. } => Unit::Core,
        Recipe::Boxes { unit, .. } => *unit,
    }
}

/// Events that are open.
pub(super) struct OpenCounting<'a> {
    pmu: &'a SimulatedPmu,
    /// By event asked for: its counter, or why it has none.
    slots: Vec<Result<usize, String>>,
    /// By counter.
    units: Vec<Unit>,
    /// By counter.
    lies: Vec<Option<Lie>>,
    cpus: CpuSet,
    share: CountShare,
}

impl<'a> OpenCounting<'a> {
    /// Of counters that a programme has, with as many events as often as it has parts.
    pub fn new(
        pmu: &'a SimulatedPmu,
        slots: Vec<Result<usize, String>>,
        counters: &[RecipeCounter],
        events: &[Event],
        cpus: CpuSet,
        share: CountShare,
    ) -> Self {
        let units = counters.iter().map(|counter| unit(&counter.recipe)).collect();
        let lies: Vec<Option<Lie>> = events.iter().map(|event| pmu.lie(event).cloned()).collect();
        let lies = lies.iter().cycle().take(counters.len()).cloned().collect();
        Self { pmu, slots, units, lies, cpus, share }
    }

    /// Every event, from counters that lie so far behind the first ones.
    fn read_behind(&self, behind: usize) -> Vec<Count> {
        let bank = self.pmu.bank.lock();
        let mut counts = Vec::new();
        for (event, slot) in self.slots.iter().enumerate() {
            match slot {
                Ok(counter) => counts.extend(self.counts(&bank, event, counter + behind)),
                Err(reason) => {
                    let value = Value::Missing(Missing::Refused(reason.clone().into()));
                    counts.push(Count { event, place: CountedPlace::Target, value });
                }
            }
        }
        counts
    }

    fn value(&self, bank: &Bank, counter: usize, raw: Option<u64>) -> Value {
        let turn = bank.programme().map_or(0, |programme| programme.counters[counter].turn);
        let running_ns = bank.running_fs.get(turn).map_or(0, |fs| fs.div_ceil(1_000_000));
        let enabled_ns = bank.enabled_fs.div_ceil(1_000_000);
        match raw {
            _ if enabled_ns == 0 => Value::Missing(Missing::NeverEnabled),
            None => Value::Missing(Missing::NeverEnabled),
            Some(_) if running_ns == 0 => Value::Missing(Missing::NeverRan),
            Some(raw) => Value::Counted { raw, enabled_ns, running_ns },
        }
    }

    fn box_name(&self, unit: Unit, number: u32) -> String {
        let named = self.pmu.catalogue.pmus.iter().find(|(known, _)| *known == unit);
        let name = named.map_or_else(|| format!("{unit:?}").to_lowercase(), |(_, name)| name.clone());
        format!("{name}_{number}")
    }

    fn counts(&self, bank: &Bank, event: usize, counter: usize) -> Vec<Count> {
        let unit = self.units[counter];
        let told = |place: usize, counted: u64| match &self.lies[counter] {
            Some(lie) => lie.tell(counted, place, bank.ran.iter().count()),
            None => counted,
        };
        let (of_cpus, of_boxes) = (&bank.of_cpus[counter], &bank.of_boxes[counter]);
        if self.share == CountShare::Together {
            let all = |counts: &mut dyn Iterator<Item = &u64>| -> u64 {
                counts.enumerate().map(|(place, &counted)| told(place, counted)).sum()
            };
            let sum = match unit {
                Unit::Core => (!of_cpus.is_empty()).then(|| all(&mut of_cpus.values())),
                _ => (!of_boxes.is_empty()).then(|| all(&mut of_boxes.values())),
            };
            return vec![Count { event, place: CountedPlace::Target, value: self.value(bank, counter, sum) }];
        }
        if unit == Unit::Core {
            let of = |place: usize, cpu: u32| {
                self.value(bank, counter, of_cpus.get(&cpu).map(|&counted| told(place, counted)))
            };
            return self
                .cpus
                .iter()
                .enumerate()
                .map(|(place, cpu)| Count { event, place: CountedPlace::Cpu(cpu), value: of(place, cpu) })
                .collect();
        }
        of_boxes
            .iter()
            .enumerate()
            .map(|(place, (&(package, number), &raw))| Count {
                event,
                place: CountedPlace::Box { package, name: self.box_name(unit, number) },
                value: self.value(bank, counter, Some(told(place, raw))),
            })
            .collect()
    }
}

impl Counting for OpenCounting<'_> {
    fn start(&mut self) -> Result<(), CountRefusal> {
        self.pmu.bank.lock().set_started(true);
        Ok(())
    }

    fn stop(&mut self) -> Result<(), CountRefusal> {
        self.pmu.bank.lock().set_started(false);
        Ok(())
    }

    fn read(&mut self) -> Result<Vec<Count>, CountRefusal> {
        Ok(self.read_behind(0))
    }
}

impl Drop for OpenCounting<'_> {
    fn drop(&mut self) {
        self.pmu.bank.lock().unload();
    }
}

/// Events that are open for parts of a run.
pub struct PartCounts<'a> {
    pub(super) opened: OpenCounting<'a>,
    /// Counters of each part.
    pub(super) events: usize,
}

impl PartCounts<'_> {
    /// Every event at every place, in one part.
    pub fn read_part(&self, part: usize) -> Vec<Count> {
        let mut counts = self.opened.read_behind(part * self.events);
        for count in &mut counts {
            // It was meant to run in its part alone: nothing is scaled.
            if let Value::Counted { enabled_ns, running_ns, .. } = &mut count.value {
                *enabled_ns = *running_ns;
            }
        }
        counts
    }
}

impl Counting for PartCounts<'_> {
    fn start(&mut self) -> Result<(), CountRefusal> {
        self.opened.start()
    }

    fn stop(&mut self) -> Result<(), CountRefusal> {
        self.opened.stop()
    }

    fn read(&mut self) -> Result<Vec<Count>, CountRefusal> {
        Ok(self.read_part(0))
    }
}
