//! All runs that some items need, each once, and what their rows make of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use events::formula::Formula;
use machine::model::Model;
use record::reproduce::{
    FigureCurve, ReproducedFigure, ReproducedItem, ReproducedPaper, ReproducedRow, Reproduction, SCHEMA,
};

use crate::{
    measure::{MeasureError, Measurement, NO_SAMPLE, SetupReading},
    needs::{events_of, setups_of},
    paper::{NoiseAmplitudes, PaperFigure, PaperItem, PaperRow, PublishedPaper, Summary},
    setup::PaperSetup,
    values,
};

/// A row with a published number and nothing else to say must be as near.
const NEAR: f64 = 0.10;

/// How an absence ends where something is divided by 0 ([`events::formula::Absent`]).
const IS_ZERO: &str = " is 0";

/// Hears of readings.
pub trait ReproduceObserver: Send {
    /// So many of all are made; this one is next.
    fn progress(&mut self, done: usize, of: usize, next: &str);
    /// A reading that was made just now.
    fn keep(&mut self, key: &str, reading: &SetupReading);
}

/// Which papers and items.
#[derive(Clone, Debug, Default)]
pub struct ItemChoice {
    /// One paper; all if none.
    pub paper: Option<String>,
    /// One of its items; all if none.
    pub item: Option<String>,
    /// Not only those of the quick set.
    pub full: bool,
    /// Items that are made beside the quick set, as `paper/item`.
    pub also: BTreeSet<String>,
    /// Of repetitions only the first: enough to see whether a change does anything.
    pub first_seed: bool,
}

impl ItemChoice {
    /// The papers that are meant.
    pub fn papers(&self) -> impl Iterator<Item = &'static PublishedPaper> {
        PublishedPaper::all().iter().filter(|paper| self.paper.as_ref().is_none_or(|id| *id == paper.id))
    }

    /// Whether an item is shown.
    pub fn shows(&self, item: &PaperItem) -> bool {
        self.item.as_ref().is_none_or(|id| *id == item.id)
    }

    /// Whether an item is made: what was asked for by name always is, and so is a paper of which nothing is quick.
    pub fn makes(&self, paper: &PublishedPaper, item: &PaperItem) -> bool {
        let also = || self.also.contains(&format!("{}/{}", paper.id, item.id));
        self.shows(item)
            && (item.quick || self.full || self.item.is_some() || also() || self.nothing_is_quick())
    }

    fn nothing_is_quick(&self) -> bool {
        self.paper.is_some()
            && self.also.is_empty()
            && self.papers().all(|paper| paper.items.iter().all(|item| !item.quick))
    }
}

/// A change of the machines or of the work before anything runs.
pub trait MachineChange: Sync {
    /// The model as it is used instead.
    fn model(&self, model: Model) -> Result<Model, String>;
    /// The work as it is done instead.
    fn setup(&self, setup: PaperSetup) -> PaperSetup;
    /// Events that are counted instead of others.
    fn events(&self) -> Option<&BTreeMap<String, String>> {
        None
    }
    /// How much others disturb instead.
    fn noise(&self, noise: NoiseAmplitudes) -> NoiseAmplitudes {
        noise
    }
    /// Whether a paper's experiments are tried under it.
    fn tries(&self, _paper: &str) -> bool {
        true
    }
    /// In words that no other change has; empty for none.
    fn key(&self) -> String;
}

/// Machines as the papers had them.
pub struct Unchanged;

impl MachineChange for Unchanged {
    fn model(&self, model: Model) -> Result<Model, String> {
        Ok(model)
    }
    fn setup(&self, setup: PaperSetup) -> PaperSetup {
        setup
    }
    fn key(&self) -> String {
        String::new()
    }
}

/// A run that is needed.
struct NeededRun<'a> {
    key: String,
    paper: &'a PublishedPaper,
    setup: PaperSetup,
    seed: u32,
    events: Vec<String>,
}

/// Runs of the papers chosen, and their readings.
pub struct Session<'a> {
    choice: &'a ItemChoice,
    change: &'a dyn MachineChange,
    readings: HashMap<String, SetupReading>,
    failures: BTreeMap<String, String>,
    /// By paper and setup.
    events: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
}

impl<'a> Session<'a> {
    /// With readings that were made before.
    pub fn new(
        choice: &'a ItemChoice,
        change: &'a dyn MachineChange,
        readings: HashMap<String, SetupReading>,
    ) -> Self {
        let events = choice.papers().map(|paper| (paper.id.clone(), events_of(paper))).collect();
        Self { choice, change, readings, failures: BTreeMap::new(), events }
    }

    /// Makes what is missing. False if interrupted.
    pub fn run(&mut self, observer: &mut dyn ReproduceObserver, interrupt: &AtomicBool) -> bool {
        let needed = self.needed();
        let missing: Vec<&NeededRun<'_>> =
            needed.iter().filter(|run| !self.readings.contains_key(&run.key)).collect();
        let (of, done) = (needed.len(), needed.len() - missing.len());
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(done));
        let shared = Mutex::new((observer, Vec::new()));
        let change = self.change;
        let work = || {
            while !interrupt.load(Ordering::Relaxed) {
                let Some(run) = missing.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                if let Ok(mut shared) = shared.lock() {
                    shared.0.progress(done.load(Ordering::Relaxed), of, &run.setup.key());
                }
                let made = made(run, change, interrupt);
                done.fetch_add(1, Ordering::Relaxed);
                if let (Ok(mut shared), false) = (shared.lock(), made == Err(MeasureError::Interrupted)) {
                    if let Ok(reading) = &made {
                        shared.0.keep(&run.key, reading);
                    }
                    shared.1.push((run.key.clone(), made));
                }
            }
        };
        let workers = std::thread::available_parallelism().map_or(1, usize::from).min(missing.len().max(1));
        std::thread::scope(|scope| (0..workers).for_each(|_| _ = scope.spawn(work)));
        let (_, made) = shared.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for (key, made) in made {
            match made {
                Ok(reading) => _ = self.readings.insert(key, reading),
                Err(error) => _ = self.failures.insert(key, error.to_string()),
            }
        }
        !interrupt.load(Ordering::Relaxed)
    }

    /// Each run that an item of the choice needs, once.
    fn needed(&self) -> Vec<NeededRun<'static>> {
        let mut all = Vec::new();
        let mut known = BTreeSet::new();
        for paper in self.choice.papers().filter(|paper| self.change.tries(&paper.id)) {
            let items = paper.items.iter().filter(|item| self.choice.makes(paper, item));
            for setup in items.flat_map(|item| setups_of(paper, item)) {
                for seed in 0..if self.choice.first_seed { 1 } else { setup.seeds } {
                    let key = self.key(paper, &setup, seed);
                    if known.insert(key.clone()) {
                        let events = self.wanted(paper, &setup);
                        all.push(NeededRun { key, paper, setup: setup.clone(), seed, events });
                    }
                }
            }
        }
        all
    }

    fn wanted(&self, paper: &PublishedPaper, setup: &PaperSetup) -> Vec<String> {
        let events = self.events.get(&paper.id).and_then(|setups| setups.get(&setup.key()));
        events.into_iter().flatten().cloned().collect()
    }

    /// Events belong to the key: a reading that lacks one is another.
    fn key(&self, paper: &PublishedPaper, setup: &PaperSetup, seed: u32) -> String {
        let stands_for = |event: String| match paper.aliases.get(&event) {
            Some(encoding) => format!("{event}={encoding}"),
            None => event,
        };
        let events: Vec<String> = self.wanted(paper, setup).into_iter().map(stands_for).collect();
        let model = setup.model.as_deref().unwrap_or(&paper.machine);
        let noise = if setup.noise { format!("{:?}", paper.noise) } else { String::new() };
        let change = self.change.key();
        format!("{model} {change} | {} | #{seed} {noise} | {}", setup.key(), events.join(" "))
    }

    /// All items of the choice.
    pub fn reproduction(&self, complete: bool) -> Reproduction {
        let papers = self.choice.papers().map(|paper| {
            let shown = paper.items.iter().filter(|item| self.choice.shows(item));
            ReproducedPaper {
                id: paper.id.clone(),
                title: paper.title.clone(),
                machine: paper.machine.clone(),
                items: shown.map(|item| self.item(paper, item)).collect(),
            }
        });
        let papers = papers.filter(|paper| !paper.items.is_empty()).collect();
        Reproduction { schema: SCHEMA.to_owned(), full: self.choice.full, here: false, complete, papers }
    }

    fn item(&self, paper: &PublishedPaper, item: &PaperItem) -> ReproducedItem {
        let makes = self.choice.makes(paper, item);
        let mut rows = Vec::new();
        let mut values = BTreeMap::new();
        for row in item.rows.iter().filter(|_| makes) {
            let made = self.row(paper, item, row, &values);
            made.ours.map(|ours| values.insert(row.id.clone(), ours));
            rows.push(made);
        }
        let figures = item.figures.iter().filter(|_| makes);
        let noisy = setups_of(paper, item).iter().any(|setup| setup.noise);
        let noise = paper.noise.as_ref().filter(|_| noisy).map(|noise| {
            format!(
                "Disturbed by {:.0} lines per second from memory, {:.0} into the last cache, and interrupts of {:.1} µs every \
                 {:.0} µs ({}).",
                noise.memory_lines_per_s,
                noise.l3_lines_per_s,
                noise.interrupt_lasts_ns / 1e3,
                noise.interrupt_every_ns / 1e3,
                noise.source
            )
        });
        let method: Vec<String> = item.method.iter().cloned().chain(noise).collect();
        ReproducedItem {
            id: item.id.clone(),
            title: item.title.clone(),
            method: (!method.is_empty()).then(|| method.join(" ")),
            filled_by: item.filled_by.clone(),
            left_out: !makes && item.filled_by.is_none(),
            rows,
            figures: figures.filter_map(|figure| self.figure(paper, figure)).collect(),
            slips: item.slips.clone(),
        }
    }

    /// A name in a setup's reading; `setup::name` is that of another.
    fn value(&self, paper: &PublishedPaper, on: Option<&PaperSetup>, seed: u32, name: &str) -> Option<f64> {
        let (setup, name) = match name.split_once("::") {
            Some((other, name)) => (paper.setups.get(other)?, name),
            None => (on?, name),
        };
        let reading = self.readings.get(&self.key(paper, setup, seed.min(setup.seeds - 1)))?;
        reading.values.get(name).copied()
    }

    /// A formula over the seeds of a setup.
    fn over_seeds(
        &self,
        paper: &PublishedPaper,
        setup: Option<&PaperSetup>,
        formula: &str,
        over: Summary,
    ) -> Result<f64, String> {
        let read = Formula::parse(formula).map_err(|error| error.to_string())?;
        let seeds = setup.map_or(1, |setup| setup.seeds);
        let of = |seed| read.value(&|name| self.value(paper, setup, seed, name));
        let all: Result<Vec<f64>, _> = (0..seeds).map(of).collect();
        let all = all.map_err(|absent| self.reason(paper, setup, &absent.to_string()))?;
        values::summary(over, &all).ok_or_else(|| "too few runs".to_owned())
    }

    /// Why a value is absent: what the run or the event said, if anything.
    fn reason(&self, paper: &PublishedPaper, setup: Option<&PaperSetup>, absent: &str) -> String {
        let Some(setup) = setup else { return absent.to_owned() };
        for seed in 0..setup.seeds {
            let key = self.key(paper, setup, seed);
            if let Some(failure) = self.failures.get(&key) {
                return failure.clone();
            }
            let Some(reading) = self.readings.get(&key) else { return "not measured".to_owned() };
            let refused = reading.missing.iter().find(|(name, _)| absent.starts_with(name.as_str()));
            if let Some((name, why)) = refused {
                return format!("{name}: {why}");
            }
        }
        absent.to_owned()
    }

    fn number(&self, paper: &PublishedPaper, row: &PaperRow) -> Result<f64, String> {
        let Some(family) = row.family.as_ref().and_then(|name| paper.families.get(name)) else {
            let setup = row.on.as_ref().and_then(|name| paper.setups.get(name));
            return self.over_seeds(paper, setup, &row.ours, row.over);
        };
        let setups = family.setups()?;
        let (mut found, mut beside) = (Vec::new(), Vec::new());
        for (_, setup) in &setups {
            let of = |formula: &str, over| self.over_seeds(paper, Some(setup), formula, over);
            match of(&row.ours, row.over) {
                Ok(value) => found.push(value),
                // A latency of no misses, or of no samples: there is none to compare.
                Err(absent) if absent.ends_with(IS_ZERO) || absent.ends_with(NO_SAMPLE) => continue,
                Err(absent) => return Err(absent),
            }
            if let Some(by) = &row.by {
                beside.push(self.drawn(paper, &setups, setup, by)?);
            }
        }
        let value = match row.across {
            Summary::Separates => values::separation(&found, &beside),
            across => values::summary(across, &found),
        };
        value.ok_or_else(|| "too few setups".to_owned())
    }

    /// What a setup of a family draws, and how much slower its threads are than the same setup's on one core.
    fn drawn(
        &self,
        paper: &PublishedPaper,
        family: &[(Vec<String>, PaperSetup)],
        setup: &PaperSetup,
        by: &str,
    ) -> Result<values::ReaderLoad, String> {
        let of = |setup: &PaperSetup| self.over_seeds(paper, Some(setup), by, Summary::Mean);
        let drawn = of(setup)?;
        let alone = |one: &&PaperSetup| **one == PaperSetup { cores: 1, ..setup.clone() };
        let alone = family.iter().map(|(_, one)| one).find(alone).filter(|_| setup.cores > 1);
        let alone = alone.map(of).transpose()?;
        let slowdown = alone.map(|alone| alone * f64::from(setup.cores) / drawn);
        Ok(values::ReaderLoad { by: drawn, slowdown })
    }

    fn row(
        &self,
        paper: &PublishedPaper,
        item: &PaperItem,
        row: &PaperRow,
        before: &BTreeMap<String, f64>,
    ) -> ReproducedRow {
        let ours = self.number(paper, row);
        let deviation = row.published.zip(ours.as_ref().ok()).map(|(published, ours)| ours / published - 1.0);
        let same = ours.as_ref().map_err(Clone::clone).and_then(|&ours| self.holds(paper, row, ours, before));
        ReproducedRow {
            claim: format!("{}/{}/{}", paper.id, item.id, row.id),
            label: row.label.clone(),
            unit: row.unit.clone(),
            published: row.published,
            ours: ours.as_ref().ok().copied(),
            missing: same.as_ref().err().cloned(),
            deviation,
            concludes: row.concludes.clone(),
            holds_if: holds_if(row),
            same: same.ok(),
            why: row.why.clone(),
            not_independent: row.not_independent.clone(),
        }
    }

    fn holds(
        &self,
        paper: &PublishedPaper,
        row: &PaperRow,
        ours: f64,
        before: &BTreeMap<String, f64>,
    ) -> Result<bool, String> {
        let setup = row.on.as_ref().and_then(|name| paper.setups.get(name));
        let value = |name: &str| match name.strip_prefix("row::") {
            Some(other) => before.get(other).copied(),
            None if name == "ours" => Some(ours),
            None if name == "published" => row.published,
            None => self.value(paper, setup, 0, name),
        };
        let mut all = true;
        for condition in row.conditions()? {
            all &=
                condition.holds(&value).map_err(|absent| self.reason(paper, setup, &absent.to_string()))?;
        }
        if let (Some(near), Some(published)) = (nearness(row), row.published) {
            all &= (ours / published - 1.0).abs() <= near;
        }
        Ok(all)
    }

    fn figure(&self, paper: &PublishedPaper, figure: &PaperFigure) -> Option<ReproducedFigure> {
        let setups = paper.families.get(&figure.family)?.setups().ok()?;
        let mut curves: Vec<FigureCurve> = Vec::new();
        for curve in &figure.curves {
            for (values, setup) in &setups {
                let value = |formula: &str| self.over_seeds(paper, Some(setup), formula, Summary::Mean).ok();
                let x = match &figure.along {
                    Some(formula) => value(formula),
                    None => Some(along(setup, values)),
                };
                let Some(point) = x.zip(value(&curve.ours)) else { continue };
                let more = values[1..].join(", ");
                let name = match (more.is_empty(), figure.curves.len()) {
                    (true, _) => curve.name.clone(),
                    (false, 1) => more,
                    (false, _) => format!("{}, {more}", curve.name),
                };
                match curves.iter_mut().find(|known| known.name == name) {
                    Some(known) => known.points.push(point),
                    None => curves.push(FigureCurve { name, points: vec![point] }),
                }
            }
        }
        let (title, x, y) = (figure.title.clone(), figure.x.clone(), figure.y.clone());
        Some(ReproducedFigure { title, x, y, curves }).filter(|figure| !figure.curves.is_empty())
    }
}

/// What varies first, as a number.
fn along(setup: &PaperSetup, values: &[String]) -> f64 {
    let first = values.first().map_or("", String::as_str);
    first.parse().unwrap_or_else(|_| setup.size.map_or(0.0, |size| size.0 as f64))
}

fn made(
    run: &NeededRun<'_>,
    change: &dyn MachineChange,
    interrupt: &AtomicBool,
) -> Result<SetupReading, MeasureError> {
    let failed = |reason: String| MeasureError::Failed { setup: run.setup.key(), reason };
    let model = run.paper.model_of(&run.setup).map_err(|error| failed(error.to_string()))?;
    // The clock last: a change may begin with the model's file.
    let model = run.setup.clocked(change.model(model).map_err(failed)?);
    let setup = change.setup(run.setup.clone());
    let noise = run.paper.noise.clone().map(|noise| change.noise(noise));
    let (noise, events) = (noise.as_ref(), run.events.as_slice());
    let mut aliases = run.paper.aliases.clone();
    aliases
        .extend(change.events().into_iter().flatten().map(|(event, other)| (event.clone(), other.clone())));
    Measurement { model: &model, noise, setup: &setup, seed: run.seed, events, aliases: &aliases }
        .run(interrupt)
}

/// In words what is asked of our number.
fn holds_if(row: &PaperRow) -> String {
    let mut all = row.holds.clone();
    all.extend(nearness(row).map(|near| format!("within {:.0} % of the published", near * 100.0)));
    all.join(" and ")
}

fn nearness(row: &PaperRow) -> Option<f64> {
    row.within.or((row.holds.is_empty() && row.published.is_some()).then_some(NEAR))
}
