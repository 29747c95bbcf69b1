//! What tests ask of recordings.

use record::{ids::PlaceId, run::Run};

/// Samples in a function of this name.
pub fn samples_in(run: &Run, function: &str) -> usize {
    let is_in = |place: PlaceId| {
        let function_of = run.place(place).unwrap().function;
        function_of.is_some_and(|id| run.function(id).unwrap().name == function)
    };
    run.samples.place.iter().filter(|place| is_in(**place)).count()
}
