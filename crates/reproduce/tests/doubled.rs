//! Rows that move with a number which was chosen or assumed say so, and no others do.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeSet, HashMap},
    sync::atomic::AtomicBool,
};

use machine::store::Store;
use record::reproduce::Reproduction;
use reproduce::{
    doubled::{FreeNumber, moved},
    keep::ReadingFile,
    measure::SetupReading,
    paper::{PaperItem, PublishedPaper},
    session::{ItemChoice, MachineChange, ReproduceObserver, Session, Unchanged},
};

struct Nobody;

impl ReproduceObserver for Nobody {
    fn progress(&mut self, _: usize, _: usize, _: &str) {}
    fn keep(&mut self, _: &str, _: &SetupReading) {}
}

fn made(choice: &ItemChoice, change: &dyn MachineChange) -> Reproduction {
    let mut session = Session::new(choice, change, HashMap::new());
    assert!(session.run(&mut Nobody, &AtomicBool::new(false)));
    session.reproduction(true)
}

fn choice(paper: &str, item: Option<&str>) -> ItemChoice {
    ItemChoice { paper: Some(paper.to_owned()), item: item.map(str::to_owned), ..ItemChoice::default() }
}

/// Papers whose rows are measured.
fn papers() -> impl Iterator<Item = &'static PublishedPaper> {
    PublishedPaper::all().iter().filter(|paper| paper.items.iter().any(|item| !item.rows.is_empty()))
}

/// Claims of some items with what they say that they depend on.
fn marks(paper: &str, of: &dyn Fn(&PaperItem) -> bool) -> Vec<(String, Vec<String>)> {
    let paper = papers().find(|one| one.id == paper).unwrap();
    let rows = paper
        .items
        .iter()
        .filter(|item| of(item))
        .flat_map(|item| item.rows.iter().map(move |row| (item, row)));
    let said =
        |text: &Option<String>| text.iter().flat_map(|text| text.split("; ")).map(str::to_owned).collect();
    rows.map(|(item, row)| (format!("{}/{}/{}", paper.id, item.id, row.id), said(&row.not_independent)))
        .collect()
}

#[test]
fn marks_name_numbers_that_are_chosen_or_assumed() {
    for paper in papers() {
        let known: Vec<String> = FreeNumber::of_paper(&paper.id).map(FreeNumber::mark).collect();
        assert!(!known.is_empty(), "{}", paper.id);
        for (claim, said) in marks(&paper.id, &|_| true) {
            assert!(said.iter().all(|mark| known.contains(mark)), "{claim}: {said:?}");
        }
    }
}

/// A key that a model's file does not have is an error, and one of the disturbance must change it.
#[test]
fn every_number_can_be_doubled() {
    for number in FreeNumber::all() {
        let paper = papers().find(|paper| paper.id == number.paper).unwrap();
        let name = number.model.as_ref().unwrap_or(&paper.machine);
        let model = machine::model::Model::builtin(name).unwrap();
        let doubled = number.doubled();
        let changed = doubled.model(model.clone()).unwrap_or_else(|error| panic!("{}: {error}", number.key));
        let noise = paper.noise.clone().map(|noise| doubled.noise(noise));
        let same = machine::model::Model { name: model.name.clone(), ..changed } == model;
        assert!(!same || noise != paper.noise, "{name}: {} changes nothing", number.key);
    }
}

/// One number and one table of each paper, as all of them take long: rows that move are those that say so.
#[test]
fn rows_of_a_table_that_move_with_a_number_are_those_that_say_so() {
    for (paper, item, key) in [
        ("molka2017", "table2", "l1d.evict_cycles"),
        ("roehl2016", "table2.3", "prefetch.l2_streamer.l3_only_above"),
        ("kruse2011", "section6.2", "l3.latency"),
    ] {
        let number = FreeNumber::of_paper(paper).find(|one| one.key == key).unwrap();
        let choice = choice(paper, Some(item));
        let found = moved(&made(&choice, &Unchanged), &made(&choice, &number.doubled()));
        let said: Vec<String> = marks(paper, &|one| one.id == item)
            .into_iter()
            .filter(|(_, said)| said.contains(&number.mark()))
            .map(|(claim, _)| claim)
            .collect();
        assert_eq!(found, said, "{key}");
    }
}

/// Keeps readings in a file, so that hours of them can be interrupted.
struct InFile(ReadingFile);

impl ReproduceObserver for InFile {
    fn progress(&mut self, _: usize, _: usize, _: &str) {}
    fn keep(&mut self, key: &str, reading: &SetupReading) {
        self.0.append(key, reading).unwrap();
    }
}

impl InFile {
    fn made(&mut self, choice: &ItemChoice, change: &dyn MachineChange) -> Reproduction {
        let mut session = Session::new(choice, change, self.0.readings());
        assert!(session.run(self, &AtomicBool::new(false)));
        session.reproduction(true)
    }

    /// All rows with a number doubled. Not made again are readings that cannot differ from those of the machine as it is: of other
    /// models, of undisturbed work where the number is of the disturbance, and repetitions of a setup whose first is the very same, in
    /// all that was counted and timed, with this number doubled or with all that belong to one part of the machine.
    fn doubled(&mut self, choice: &ItemChoice, number: &FreeNumber) -> Reproduction {
        let first = ItemChoice { first_seed: true, ..choice.clone() };
        let as_it_is = self.0.readings();
        let mut known = Known { readings: as_it_is.clone(), as_it_is };
        let change = number.doubled();
        let unused = part_of(number);
        if unused.len() > 1 {
            let all = FreeNumber::doubled_together(&unused);
            known.take_over(&all, &|place| place.is_beyond(number));
            self.run(&first, &all, &mut known);
            let same = known.same(&all);
            known.take_over(&change, &|place| same.contains(&place.first("")));
        }
        known.take_over(&change, &|place| place.is_beyond(number));
        self.run(&first, &change, &mut known);
        let same = known.same(&change);
        known.take_over(&change, &|place| same.contains(&place.first("")));
        self.run(choice, &change, &mut known)
    }

    fn run(&mut self, choice: &ItemChoice, change: &dyn MachineChange, known: &mut Known) -> Reproduction {
        let mut session = Session::new(choice, change, known.readings.clone());
        assert!(session.run(self, &AtomicBool::new(false)));
        let made = self.0.readings();
        made.into_iter().for_each(|(key, reading)| _ = known.readings.entry(key).or_insert(reading));
        session.reproduction(true)
    }
}

/// Numbers of parts of a machine that much work does not use: doubled together they often change nothing, and then none does alone.
fn part_of(number: &FreeNumber) -> Vec<&'static FreeNumber> {
    let parts: [&[&str]; 3] = [&["core.", "front_end."], &["tlb."], &["link."]];
    let is_of = |part: &&[&str], key: &str| part.iter().any(|prefix| key.starts_with(prefix));
    let Some(part) = parts.iter().find(|part| is_of(part, &number.key)) else { return Vec::new() };
    let same = |other: &&FreeNumber| other.model == number.model && is_of(part, &other.key);
    FreeNumber::of_paper(&number.paper).filter(same).collect()
}

/// Readings, and those of them that are of machines as they are.
struct Known {
    as_it_is: HashMap<String, SetupReading>,
    readings: HashMap<String, SetupReading>,
}

impl Known {
    /// Takes readings of machines as they are for those of changed ones.
    fn take_over(&mut self, change: &dyn MachineChange, is_same: &dyn Fn(&ReadingPlace<'_>) -> bool) {
        for (key, reading) in &self.as_it_is {
            let Some(place) = ReadingPlace::of(key).filter(is_same) else { continue };
            self.readings.entry(place.key(place.seed, &change.key())).or_insert_with(|| reading.clone());
        }
    }

    /// First repetitions that a change does not touch, by the keys that they have on machines as they are.
    fn same(&self, change: &dyn MachineChange) -> BTreeSet<String> {
        let places = self.as_it_is.keys().filter_map(|key| ReadingPlace::of(key));
        let is_same = |place: &ReadingPlace<'_>| {
            let (before, now) =
                (self.as_it_is.get(&place.first("")), self.readings.get(&place.first(&change.key())));
            now.is_some() && before == now
        };
        places.filter(is_same).map(|place| place.first("")).collect()
    }
}

/// What the key of a reading says, of a machine as it is.
struct ReadingPlace<'a> {
    model: &'a str,
    setup: &'a str,
    seed: &'a str,
    noise: &'a str,
    events: &'a str,
}

impl<'a> ReadingPlace<'a> {
    fn of(key: &'a str) -> Option<Self> {
        let (model, rest) = key.split_once("  | ")?;
        let (setup, rest) = rest.split_once(" | #")?;
        let (repetition, events) = rest.split_once(" | ")?;
        let (seed, noise) = repetition.split_once(' ')?;
        Some(Self { model, setup, seed, noise, events })
    }

    fn key(&self, seed: &str, change: &str) -> String {
        format!("{} {change} | {} | #{seed} {} | {}", self.model, self.setup, self.noise, self.events)
    }

    fn first(&self, change: &str) -> String {
        self.key("0", change)
    }

    /// Whether a number is of another machine, or of a disturbance that is not there.
    fn is_beyond(&self, number: &FreeNumber) -> bool {
        number.model.as_ref().is_some_and(|model| model != self.model)
            || number.key.starts_with("noise.") && self.noise.is_empty()
    }
}

/// `cargo test --release -p memwall-reproduce --test doubled -- --ignored --nocapture`; `MEMWALL_DOUBLED=casas2017` for one paper,
/// `MEMWALL_DOUBLED=helm2019/figure11` for one item. Goes on where it was interrupted.
#[test]
#[ignore = "takes an hour: each paper once for each of its numbers"]
fn every_row_that_moves_says_so() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"));
    let mut kept = InFile(ReadingFile::beside(&Store::at(folder.join("profiles"))));
    let mut wrong = Vec::new();
    let only = std::env::var("MEMWALL_DOUBLED").unwrap_or_default();
    let wanted =
        |paper: &str, item: &str| only.is_empty() || only == paper || only == format!("{paper}/{item}");
    for paper in papers() {
        // What is said of a part of a machine holds of the whole, which takes too long.
        let tried = |item: &PaperItem| {
            !item.rows.is_empty() && item.id != "full-scale" && wanted(&paper.id, &item.id)
        };
        let said = marks(&paper.id, &tried);
        if said.is_empty() {
            continue;
        }
        let also = paper.items.iter().filter(|item| tried(item));
        let also: BTreeSet<String> = also.map(|item| format!("{}/{}", paper.id, item.id)).collect();
        let (one, item) = (also.len() == 1, only.split_once('/').map(|(_, item)| item));
        let all = ItemChoice { also, ..choice(&paper.id, item.filter(|_| one)) };
        let base = kept.made(&all, &Unchanged);
        for number in FreeNumber::of_paper(&paper.id) {
            let found = moved(&base, &kept.doubled(&all, number));
            println!("{} | {} | {found:?}", paper.id, number.mark());
            for (claim, marks) in &said {
                let (moves, marked) = (found.contains(claim), marks.contains(&number.mark()));
                if moves != marked {
                    let what = if moves { "missing" } else { "too much" };
                    wrong.push(format!("{claim}: {} {what}", number.mark()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
