//! Which passes can be made at the same time (kruse2011 §5.3 does so on a machine of several cores).

use events::{Event, Unit};

/// Passes in batches of at most `at_once`. What is counted outside of the cores is counted of all that runs: a pass with such an
/// event is made alone.
pub(super) fn batches<'p>(
    passes: &'p [Vec<usize>],
    events: &[Event],
    at_once: usize,
) -> Vec<Vec<&'p [usize]>> {
    let (alone, together): (Vec<_>, Vec<_>) =
        passes.iter().map(Vec::as_slice).partition(|pass| sees_others(pass, events));
    let mut batches: Vec<Vec<&[usize]>> = together.chunks(at_once.max(1)).map(<[_]>::to_vec).collect();
    batches.extend(alone.into_iter().map(|pass| vec![pass]));
    batches
}

/// Whether an event of the pass is counted of all that runs on the machine.
fn sees_others(pass: &[usize], events: &[Event]) -> bool {
    pass.iter().any(|&index| events[index].unit().is_some_and(|unit| unit != Unit::Core))
}

/// What to keep in mind of counts that were made so.
pub(super) fn remark(passes: &[Vec<usize>], events: &[Event], at_once: usize) -> Option<String> {
    let most = batches(passes, events, at_once).iter().map(Vec::len).max().filter(|most| *most > 1)?;
    Some(format!(
        "Up to {most} passes were made at the same time, each on cores of its own: of the caches and the memory that they share \
         each had less than alone."
    ))
}

#[cfg(test)]
mod tests {
    use events::{Encoding, Signal};

    use super::*;

    #[test]
    fn passes_that_count_outside_of_the_cores_are_made_alone() {
        let (unit, pmu) = (Unit::MemoryController, "uncore_imc".to_owned());
        let outside = Encoding { unit, pmu, fields: Vec::new() };
        let events: Vec<Event> = vec![
            Event::new("a", Signal::Software(0)),
            Event::new("b", Signal::Encoded(outside)),
            Event::new("c", Signal::Hardware(0)),
        ];
        let passes = [vec![0], vec![1, 2], vec![2], vec![0, 2]];
        let found = batches(&passes, &events, 2);
        assert_eq!(found, [vec![&[0][..], &[2][..]], vec![&[0, 2][..]], vec![&[1, 2][..]]]);
        assert_eq!(batches(&passes, &events, 1).len(), 4);
        assert_eq!(remark(&passes, &events, 1), None);
        assert!(remark(&passes, &events, 3).is_some_and(|said| said.contains("Up to 3 passes")));
        assert_eq!(remark(&passes[1..2], &events, 3), None, "none was");
    }
}
