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

    /// Repetitions of a setup whose first is the very same with a number doubled are those of the machine as it is: the number is not
    /// asked for there.
    fn doubled(&mut self, choice: &ItemChoice, change: &dyn MachineChange) -> Reproduction {
        let first = ItemChoice { first_seed: true, ..choice.clone() };
        self.made(&first, change);
        let mut readings = self.0.readings();
        let as_it_is = readings.clone();
        for (key, reading) in &as_it_is {
            let Some((model, rest)) = key.split_once("  | ") else { continue };
            let changed = |rest: &str| format!("{model} {} | {rest}", change.key());
            let Some((setup, seeded)) = rest.split_once(" | #") else { continue };
            let Some((_, events)) = seeded.split_once(' ') else { continue };
            let first = format!("{setup} | #0 {events}");
            let (now, before) =
                (readings.get(&changed(&first)), as_it_is.get(&format!("{model}  | {first}")));
            if now.is_some() && now == before {
                readings.insert(changed(rest), reading.clone());
            }
        }
        let mut session = Session::new(choice, change, readings);
        assert!(session.run(self, &AtomicBool::new(false)));
        session.reproduction(true)
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
            let found = moved(&base, &kept.doubled(&all, &number.doubled()));
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
