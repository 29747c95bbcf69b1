//! Readings of single counters → the values that were asked for.

use std::collections::BTreeMap;

use events::{Count, CountShare, CountedPlace, Missing, Value};

use crate::CounterReading;

/// What one counter said, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CountedPart {
    /// Which of the events asked for.
    pub event: usize,
    /// Which thread or CPU; boxes have numbers of their own.
    pub seat: usize,
    /// What a value kept apart is called.
    pub place: CountedPlace,
    /// The core PMU, where a thread may run on several kinds of cores.
    pub pmu: Option<String>,
    /// Its reading.
    pub value: Result<CounterReading, Missing>,
}

/// One value per event, or one per event and place.
pub(super) fn gather(parts: &[CountedPart], events: usize, share: CountShare) -> Vec<Count> {
    let of = |event| parts.iter().filter(move |part| part.event == event).collect::<Vec<_>>();
    (0..events)
        .flat_map(|event| match share {
            CountShare::Together => {
                vec![Count { event, place: CountedPlace::Target, value: together(&of(event)) }]
            }
            CountShare::Each => each(event, &of(event)),
        })
        .collect()
}

fn together(parts: &[&CountedPart]) -> Value {
    if let Some(missing) = parts.iter().find_map(|part| part.value.as_ref().err()) {
        return Value::Missing(missing.clone());
    }
    if let Some(idle) = idle_box(parts) {
        return Value::Missing(Missing::Failed(format!(
            "{idle} never got a counter, and the sum of the other boxes would be too low"
        )));
    }
    value(seats(parts).values().map(|readings| one_seat(readings)).fold(CounterReading::default(), add))
}

/// A box without a counter beside others that had one.
fn idle_box<'a>(parts: &[&'a CountedPart]) -> Option<&'a str> {
    let ran = |part: &CountedPart| matches!(part.value, Ok(reading) if reading.running_ns > 0);
    let idle = |part: &CountedPart| matches!(part.value, Ok(reading) if reading.enabled_ns > 0 && reading.running_ns == 0);
    let mut boxes = parts.iter().filter(|_| parts.iter().any(|part| ran(part)));
    boxes.find_map(|part| match &part.place {
        CountedPlace::Box { name, .. } if idle(part) => Some(name.as_str()),
        _ => None,
    })
}

fn seats<'a>(parts: &[&'a CountedPart]) -> BTreeMap<usize, Vec<&'a CounterReading>> {
    let mut seats: BTreeMap<usize, Vec<&CounterReading>> = BTreeMap::new();
    for part in parts {
        if let Ok(reading) = &part.value {
            seats.entry(part.seat).or_default().push(reading);
        }
    }
    seats
}

/// A thread's reading over all kinds of cores. The event of one kind stands still, though enabled, while the thread
/// runs on another: the times on a counter add up, the time switched on does not.
pub(super) fn one_seat(readings: &[&CounterReading]) -> CounterReading {
    let enabled_ns = readings.iter().map(|reading| reading.enabled_ns).max().unwrap_or(0);
    let running_ns = readings.iter().map(|reading| reading.running_ns).fold(0, u64::saturating_add);
    let value = readings.iter().map(|reading| reading.value).fold(0, u64::wrapping_add);
    CounterReading {
        value,
        enabled_ns,
        running_ns: if readings.len() > 1 { running_ns.min(enabled_ns) } else { running_ns },
    }
}

fn add(a: CounterReading, b: CounterReading) -> CounterReading {
    CounterReading {
        value: a.value.wrapping_add(b.value),
        enabled_ns: a.enabled_ns.saturating_add(b.enabled_ns),
        running_ns: a.running_ns.saturating_add(b.running_ns),
    }
}

fn value(reading: CounterReading) -> Value {
    match reading {
        CounterReading { enabled_ns: 0, running_ns: 0, .. } => Value::Missing(Missing::NeverEnabled),
        CounterReading { running_ns: 0, .. } => Value::Missing(Missing::NeverRan),
        CounterReading { value: raw, enabled_ns, running_ns } => {
            Value::Counted { raw, enabled_ns, running_ns }
        }
    }
}

fn each(event: usize, parts: &[&CountedPart]) -> Vec<Count> {
    if parts.iter().any(|part| part.pmu.is_some()) {
        return each_kind_of_core(event, parts);
    }
    let mut parts = parts.to_vec();
    parts.sort_by_key(|part| part.seat);
    let count = |part: &&CountedPart| Count {
        event,
        place: part.place.clone(),
        value: match &part.value {
            Ok(reading) => value(*reading),
            Err(missing) => Value::Missing(missing.clone()),
        },
    };
    parts.iter().map(count).collect()
}

/// One value per core PMU. Only what no kind of core counted is scaled up, in each kind's share.
fn each_kind_of_core(event: usize, parts: &[&CountedPart]) -> Vec<Count> {
    let whole = seats(parts).values().map(|readings| one_seat(readings)).fold(CounterReading::default(), add);
    let mut kinds: BTreeMap<&str, Vec<&CountedPart>> = BTreeMap::new();
    for part in parts {
        kinds.entry(part.pmu.as_deref().unwrap_or("cpu")).or_default().push(part);
    }
    let of_kind = |parts: &[&CountedPart]| {
        if let Some(missing) = parts.iter().find_map(|part| part.value.as_ref().err()) {
            return Value::Missing(missing.clone());
        }
        let sum = parts
            .iter()
            .filter_map(|part| part.value.as_ref().ok())
            .fold(CounterReading::default(), |a, b| add(a, *b));
        match sum.running_ns {
            // It ran on the other kind all the time.
            0 if whole.running_ns > 0 => Value::Missing(Missing::NeverEnabled),
            0 => value(sum),
            running => {
                let enabled =
                    u128::from(running) * u128::from(whole.enabled_ns) / u128::from(whole.running_ns.max(1));
                value(CounterReading { enabled_ns: u64::try_from(enabled).unwrap_or(u64::MAX), ..sum })
            }
        }
    };
    kinds
        .into_iter()
        .map(|(name, parts)| Count {
            event,
            place: CountedPlace::Box { package: 0, name: name.to_owned() },
            value: of_kind(&parts),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(seat: usize, pmu: Option<&str>, value: (u64, u64, u64)) -> CountedPart {
        let (value, enabled_ns, running_ns) = value;
        CountedPart {
            event: 0,
            seat,
            place: CountedPlace::Thread(seat as u32),
            pmu: pmu.map(str::to_owned),
            value: Ok(CounterReading { value, enabled_ns, running_ns }),
        }
    }

    fn channel(seat: usize, value: (u64, u64, u64)) -> CountedPart {
        CountedPart {
            place: CountedPlace::Box { package: 0, name: format!("uncore_imc_{seat}") },
            ..part(seat, None, value)
        }
    }

    fn counted(raw: u64, enabled_ns: u64, running_ns: u64) -> Value {
        Value::Counted { raw, enabled_ns, running_ns }
    }

    #[test]
    fn threads_add_up_and_one_that_never_ran_adds_nothing() {
        let parts = [part(0, None, (5, 10, 10)), part(1, None, (7, 20, 20)), part(2, None, (0, 0, 0))];
        assert_eq!(gather(&parts, 1, CountShare::Together)[0].value, counted(12, 30, 30));
        let each = gather(&parts, 1, CountShare::Each);
        assert_eq!(each[2].value, Value::Missing(Missing::NeverEnabled));
        assert_eq!(each[1].place, CountedPlace::Thread(1));
    }

    #[test]
    fn a_missing_part_makes_the_sum_missing() {
        let mut parts = [part(0, None, (5, 10, 10)), part(1, None, (7, 20, 20))];
        parts[1].value = Err(Missing::Refused("EMFILE".into()));
        let whole = gather(&parts, 1, CountShare::Together);
        assert_eq!(whole[0].value, Value::Missing(Missing::Refused("EMFILE".into())));
        let idle = [channel(0, (5, 10, 10)), channel(1, (0, 10, 0))];
        let Value::Missing(Missing::Failed(words)) = &gather(&idle, 1, CountShare::Together)[0].value else {
            panic!("a channel is missing");
        };
        assert!(words.starts_with("uncore_imc_1 never got a counter"), "{words}");
    }

    #[test]
    fn two_kinds_of_cores_are_not_multiplexing() {
        let parts = [part(0, Some("cpu_core"), (600, 100, 60)), part(0, Some("cpu_atom"), (80, 100, 40))];
        assert_eq!(gather(&parts, 1, CountShare::Together)[0].value, counted(680, 100, 100));
        let each = gather(&parts, 1, CountShare::Each);
        assert_eq!((&each[0].value, &each[1].value), (&counted(80, 40, 40), &counted(600, 60, 60)));
        assert_eq!(each[1].place, CountedPlace::Box { package: 0, name: "cpu_core".into() });
        // Half of the time on neither.
        let parts = [part(0, Some("cpu_core"), (600, 200, 60)), part(0, Some("cpu_atom"), (80, 200, 40))];
        assert_eq!(gather(&parts, 1, CountShare::Each)[1].value, counted(600, 120, 60));
        let parts = [part(0, Some("cpu_core"), (600, 100, 100)), part(0, Some("cpu_atom"), (0, 100, 0))];
        assert_eq!(gather(&parts, 1, CountShare::Each)[0].value, Value::Missing(Missing::NeverEnabled));
        assert_eq!(gather(&parts, 1, CountShare::Together)[0].value, counted(600, 100, 100));
    }
}
