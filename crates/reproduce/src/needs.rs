//! Which setups items need, and what is counted in each.

use std::collections::{BTreeMap, BTreeSet};

use events::formula::Formula;

use crate::{
    paper::{PaperItem, PublishedPaper},
    setup::PaperSetup,
    values,
};

/// Setups that an item needs.
pub(crate) fn setups_of(paper: &PublishedPaper, item: &PaperItem) -> Vec<PaperSetup> {
    let mut all = Vec::new();
    for row in &item.rows {
        let others = row.names();
        let named = others.iter().filter_map(|name| name.split_once("::")).map(|(setup, _)| setup);
        all.extend(
            row.on.as_deref().into_iter().chain(named).filter_map(|name| paper.setups.get(name)).cloned(),
        );
        all.extend(family_of(paper, row.family.as_deref()));
    }
    for figure in &item.figures {
        all.extend(family_of(paper, Some(&figure.family)));
    }
    all
}

fn family_of(paper: &PublishedPaper, name: Option<&str>) -> Vec<PaperSetup> {
    let family = name.and_then(|name| paper.families.get(name));
    let setups = family.and_then(|family| family.setups().ok()).unwrap_or_default();
    setups.into_iter().map(|(_, setup)| setup).collect()
}

/// Events that each setup of a paper is counted with, over all items: what is kept serves quick and full runs.
pub(crate) fn events_of(paper: &PublishedPaper) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut add = |setup: &PaperSetup, name: &str| {
        let events = all.entry(setup.key()).or_default();
        if values::is_event(name) {
            events.insert(values::event_of(name).to_owned());
        }
    };
    for item in &paper.items {
        for row in &item.rows {
            let own: Vec<PaperSetup> =
                row.on.iter().filter_map(|name| paper.setups.get(name)).cloned().collect();
            let own = [own, family_of(paper, row.family.as_deref())].concat();
            for name in row.names() {
                match name.split_once("::") {
                    Some((other, name)) => {
                        paper.setups.get(other).into_iter().for_each(|setup| add(setup, name));
                    }
                    None => own.iter().for_each(|setup| add(setup, &name)),
                }
            }
        }
        for figure in &item.figures {
            let formulas = figure.curves.iter().map(|curve| &curve.ours).chain(&figure.along);
            let read: Vec<Formula> = formulas.filter_map(|text| Formula::parse(text).ok()).collect();
            for setup in family_of(paper, Some(&figure.family)) {
                read.iter().flat_map(Formula::names).for_each(|name| add(&setup, name));
            }
        }
    }
    all
}
