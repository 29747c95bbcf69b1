//! No number without a source, no source without a number.

use serde_json::Value;

use super::{Checked, ensure, text, within, wrong};
use crate::model::Model;

/// Groups that each need a source; those a model lacks need none.
const GROUPS: [&str; 12] = [
    "sockets",
    "identity",
    "clock",
    "front_end",
    "core",
    "l1d",
    "l2",
    "l3",
    "tlb",
    "prefetch",
    "memory",
    "link",
];

pub(super) fn all(model: &Model) -> Checked {
    within("sources", model.sources.len(), 1..=256)?;
    within("used_to_choose", model.used_to_choose.len(), 0..=256)?;
    for (i, row) in model.used_to_choose.iter().enumerate() {
        text(&format!("used_to_choose[{i}]"), row)?;
    }
    let Ok(values) = serde_json::to_value(model) else {
        return wrong("sources", "the model holds a value that cannot be written down");
    };
    for (i, note) in model.sources.iter().enumerate() {
        text(&format!("sources[{i}].from"), &note.from)?;
        let path = format!("sources[{i}].what");
        text(&path, &note.what)?;
        for key in note.keys() {
            ensure(holds(&values, key), &path, || format!("this model has no '{key}'"))?;
        }
    }
    let sourced = |group: &str| {
        model.sources.iter().flat_map(|note| note.keys()).any(|key| key.split('.').next() == Some(group))
    };
    match GROUPS.into_iter().find(|group| holds(&values, group) && !sourced(group)) {
        Some(group) => {
            wrong("sources", format!("no source for '{group}'; add {{ what = \"{group}\", from = \"…\" }}"))
        }
        None => Ok(()),
    }
}

/// Whether the model has the key and something in it.
fn holds(values: &Value, key: &str) -> bool {
    let mut value = values;
    for part in key.split('.') {
        match value.get(part) {
            None | Some(Value::Null) => return false,
            Some(inner) => value = inner,
        }
    }
    true
}
