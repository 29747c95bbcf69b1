//! A recording in the forms of other tools: folded stacks and the Firefox profiler.
//!
//! Samples without a call chain are their own function alone.

mod firefox;
mod folded;
#[cfg(test)]
mod tests;

pub use firefox::firefox;
pub use folded::folded;

use record::{
    ids::PlaceId,
    run::{Place, Run},
};

/// The places of a sample's call chain, the outermost caller first; the sampled place alone if it has none.
pub(crate) fn outside_in<'a>(
    run: &'a Run,
    place: &'a PlaceId,
    stack: Option<u32>,
) -> impl Iterator<Item = &'a Place> {
    let chain = stack.and_then(|stack| run.stacks.get(stack as usize)).filter(|chain| !chain.is_empty());
    let places = chain.map_or(std::slice::from_ref(place), Vec::as_slice);
    places.iter().rev().filter_map(|place| run.place(*place))
}

/// The function of a place, or as much as is known of it.
pub(crate) fn name_of(run: &Run, place: &Place) -> String {
    match place.function.and_then(|id| run.function(id)) {
        Some(function) => function.name.clone(),
        None => {
            let module = run.module(place.module);
            let path = module.map_or("unknown", |module| module.path.as_str());
            format!("[{}]", path.rsplit('/').next().unwrap_or(path))
        }
    }
}

/// The call chain of each sample, if they have any.
pub(crate) fn stack_of(run: &Run, sample: usize) -> Option<u32> {
    run.samples.stack.get(sample).copied().flatten()
}
