//! Rows that move with a number which was chosen or assumed say so, and no others do.
#![allow(clippy::unwrap_used)]

use std::{collections::HashMap, sync::atomic::AtomicBool};

use record::reproduce::Reproduction;
use reproduce::{
    doubled::{FreeNumber, PAPER, moved},
    measure::SetupReading,
    paper::PublishedPaper,
    session::{ItemChoice, MachineChange, ReproduceObserver, Session, Unchanged},
};

struct Nobody;

impl ReproduceObserver for Nobody {
    fn progress(&mut self, _: usize, _: usize, _: &str) {}
    fn keep(&mut self, _: &str, _: &SetupReading) {}
}

fn made(item: Option<&str>, change: &dyn MachineChange) -> Reproduction {
    let choice = ItemChoice { paper: Some(PAPER.to_owned()), item: item.map(str::to_owned), full: false };
    let mut session = Session::new(&choice, change, HashMap::new());
    assert!(session.run(&mut Nobody, &AtomicBool::new(false)));
    session.reproduction(true)
}

/// Claims of the quick set, of one item or of all, with what they say that they depend on.
fn marks(item: Option<&str>) -> Vec<(String, Vec<String>)> {
    let paper = PublishedPaper::all().iter().find(|paper| paper.id == PAPER).unwrap();
    let items = paper.items.iter().filter(|one| one.quick && item.is_none_or(|id| one.id == id));
    let rows = items.flat_map(|item| item.rows.iter().map(move |row| (item, row)));
    let said =
        |text: &Option<String>| text.iter().flat_map(|text| text.split("; ")).map(str::to_owned).collect();
    rows.map(|(item, row)| (format!("{PAPER}/{}/{}", item.id, row.id), said(&row.not_independent))).collect()
}

#[test]
fn marks_name_numbers_that_are_chosen_or_assumed() {
    let known: Vec<String> = FreeNumber::all().iter().map(FreeNumber::mark).collect();
    let model = machine::model::Model::builtin("haswell-ep-e5-2680v3").unwrap();
    for number in FreeNumber::all() {
        number.doubled().model(model.clone()).unwrap_or_else(|error| panic!("{}: {error}", number.key));
    }
    for (claim, said) in marks(None) {
        assert!(said.iter().all(|mark| known.contains(mark)), "{claim}: {said:?}");
    }
}

/// One number and one table, as all of them take minutes.
#[test]
fn rows_of_a_table_that_move_with_a_number_are_those_that_say_so() {
    let number = FreeNumber::all().iter().find(|one| one.key == "l1d.evict_cycles").unwrap();
    let found = moved(&made(Some("table2"), &Unchanged), &made(Some("table2"), &number.doubled()));
    let said: Vec<String> = marks(Some("table2"))
        .into_iter()
        .filter(|(_, said)| said.contains(&number.mark()))
        .map(|(claim, _)| claim)
        .collect();
    assert_eq!(found, said);
    assert!(!found.is_empty());
}

/// `cargo test -p memwall-reproduce --test doubled -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes: the quick set once for each number"]
fn every_row_that_moves_says_so() {
    let base = made(None, &Unchanged);
    let mut wrong = Vec::new();
    let said = marks(None);
    for number in FreeNumber::all() {
        let found = moved(&base, &made(None, &number.doubled()));
        println!("{}: {found:?}", number.key);
        for (claim, marks) in &said {
            let (moves, marked) = (found.contains(claim), marks.contains(&number.mark()));
            if moves != marked {
                wrong.push(format!(
                    "{claim}: {} {}",
                    number.mark(),
                    if moves { "missing" } else { "too much" }
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
