//! Rows that move with a number which was chosen or assumed say so, and no others do.
#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, sync::atomic::AtomicBool};

use record::reproduce::Reproduction;
use reproduce::{
    doubled::{FreeNumber, moved},
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

/// `cargo test -p memwall-reproduce --test doubled -- --ignored --nocapture`; `MEMWALL_DOUBLED=casas2017` for one paper.
#[test]
#[ignore = "takes an hour: each paper once for each of its numbers"]
fn every_row_that_moves_says_so() {
    let mut wrong = Vec::new();
    let only = std::env::var("MEMWALL_DOUBLED").ok();
    for paper in papers().filter(|paper| only.as_ref().is_none_or(|only| *only == paper.id)) {
        // What is said of a part of a machine holds of the whole, which takes too long.
        let tried = |item: &PaperItem| !item.rows.is_empty() && item.id != "full-scale";
        let also = paper.items.iter().filter(|item| tried(item));
        let also = also.map(|item| format!("{}/{}", paper.id, item.id)).collect();
        let all = ItemChoice { also, ..choice(&paper.id, None) };
        let base = made(&all, &Unchanged);
        let said = marks(&paper.id, &tried);
        for number in FreeNumber::of_paper(&paper.id) {
            let found = moved(&base, &made(&all, &number.doubled()));
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
