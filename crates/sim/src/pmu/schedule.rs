//! Which events can be counted together.

use events::{Catalogue, Event, Unit};

/// Counters of a box outside the cores.
const BOX_COUNTERS: u32 = 4;

/// How many counters and registers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub general: u32,
    pub fixed: u32,
    pub offcore: u32,
}

impl Limits {
    pub fn of(catalogue: &Catalogue) -> Self {
        Self {
            general: catalogue.general_counters,
            fixed: catalogue.fixed_counters,
            offcore: catalogue.offcore_registers,
        }
    }

    /// Whether all events have a counter of their own, and registers for their filters.
    pub fn fit(&self, events: &[&Event]) -> bool {
        let mut units: Vec<Option<Unit>> = events.iter().map(|event| event.unit()).collect();
        units.sort_unstable();
        units.dedup();
        units.into_iter().all(|unit| {
            let of_unit: Vec<&Event> = events.iter().copied().filter(|event| event.unit() == unit).collect();
            let alone = of_unit.len() == 1 || !of_unit.iter().any(|event| event.needs.alone);
            alone && self.registers_fit(unit, &of_unit) && self.counters_fit(unit, &of_unit)
        })
    }

    fn registers_fit(&self, unit: Option<Unit>, events: &[&Event]) -> bool {
        ["offcore_rsp", "ldlat", "frontend", "filter"].into_iter().all(|register| {
            let mut values: Vec<Vec<(&str, u64)>> = events
                .iter()
                .filter(|event| event.register.as_deref() == Some(register))
                .map(|event| filter(event))
                .collect();
            values.sort_unstable();
            values.dedup();
            let room = if register == "offcore_rsp" { self.offcore } else { 1 };
            values.len() <= room as usize || (unit == Some(Unit::Core) && register == "filter")
        })
    }

    /// A counter for each: events are moved to others until a place is found or there is none.
    fn counters_fit(&self, unit: Option<Unit>, events: &[&Event]) -> bool {
        let (general, fixed) =
            if unit == Some(Unit::Core) { (self.general, self.fixed) } else { (BOX_COUNTERS, 0) };
        // Pairs take the first counters, two each; the machines that have them bind no other event to those.
        let (pairs, single): (Vec<&Event>, Vec<&Event>) = events.iter().partition(|event| event.needs.pair);
        let taken = 2 * pairs.len();
        if taken > general as usize {
            return false;
        }
        let free =
            |event: &Event| places(event, general, fixed).into_iter().filter(|&at| at >= taken).collect();
        let choices: Vec<Vec<usize>> = single.iter().map(|event| free(event)).collect();
        let mut holder: Vec<Option<usize>> = vec![None; (general + fixed) as usize];
        (0..single.len()).all(|event| {
            let mut tried = vec![false; holder.len()];
            assign(event, &choices, &mut holder, &mut tried)
        })
    }

    /// Divides events into sets that fit, in their order. An event that fits no set alone is the error.
    pub fn divide(&self, events: &[&Event]) -> Result<Vec<Vec<usize>>, usize> {
        let mut sets: Vec<Vec<usize>> = Vec::new();
        for (index, event) in events.iter().enumerate() {
            let with = |set: &[usize]| -> bool {
                let mut together: Vec<&Event> = set.iter().map(|&other| events[other]).collect();
                together.push(event);
                self.fit(&together)
            };
            match sets.iter().position(|set| with(set)) {
                Some(set) => sets[set].push(index),
                None if with(&[]) => sets.push(vec![index]),
                None => return Err(index),
            }
        }
        Ok(sets)
    }
}

/// What is in an event's filter register.
fn filter(event: &Event) -> Vec<(&str, u64)> {
    match &event.signal {
        events::Signal::Encoded(encoding) => {
            let filters = |name: &str| {
                ["offcore_rsp", "ldlat", "frontend", "config1"].contains(&name) || name.starts_with("filter_")
            };
            let fields = encoding.fields.iter().filter(|(name, _)| filters(name));
            fields.map(|(name, value)| (name.as_str(), *value)).collect()
        }
        _ => Vec::new(),
    }
}

/// Counters that can hold an event: programmable ones first, fixed ones behind.
fn places(event: &Event, general: u32, fixed: u32) -> Vec<usize> {
    let any = event.counters.programmable == 0 && event.counters.fixed.is_none();
    let programmable = (0..general).filter(|&at| any || event.counters.programmable >> at & 1 == 1);
    let own = event.counters.fixed.map(u32::from).filter(|&at| at < fixed).map(|at| general + at);
    // A fixed counter leaves the others free.
    own.into_iter().chain(programmable).map(|at| at as usize).collect()
}

fn assign(event: usize, choices: &[Vec<usize>], holder: &mut [Option<usize>], tried: &mut [bool]) -> bool {
    for &place in &choices[event] {
        if std::mem::replace(&mut tried[place], true) {
            continue;
        }
        let free = match holder[place] {
            None => true,
            Some(other) => assign(other, choices, holder, tried),
        };
        if free {
            holder[place] = Some(event);
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(names: &[&str]) -> (Limits, Vec<Event>) {
        let catalogue = Catalogue::named("haswell-ep").expect("events");
        let events = names.iter().map(|name| catalogue.event(name).expect("an event")).collect();
        (Limits::of(catalogue), events)
    }

    fn sets(names: &[&str]) -> Vec<Vec<usize>> {
        let (limits, events) = named(names);
        limits.divide(&events.iter().collect::<Vec<_>>()).expect("sets")
    }

    #[test]
    fn four_general_counters_and_three_fixed_ones() {
        let four = ["L1D.REPLACEMENT", "L2_TRANS.L1D_WB", "L2_TRANS.L2_WB", "L2_LINES_IN.ALL"];
        let fixed = ["INST_RETIRED.ANY", "CPU_CLK_UNHALTED.THREAD", "CPU_CLK_UNHALTED.REF_TSC"];
        let mut all = [&four[..], &fixed[..]].concat();
        assert_eq!(sets(&all).len(), 1);
        all.push("UOPS_ISSUED.ANY");
        assert_eq!(sets(&all), [vec![0, 1, 2, 3, 4, 5, 6], vec![7]]);
    }

    #[test]
    fn events_that_must_be_alone_and_events_that_take_two_counters() {
        let names = ["L1D.REPLACEMENT", "MEM_TRANS_RETIRED.LOAD_LATENCY_GT_8", "L2_TRANS.L1D_WB"];
        assert_eq!(sets(&names), [vec![0, 2], vec![1]]);
        let (limits, mut events) = named(&["L1D.REPLACEMENT", "L2_TRANS.L1D_WB", "UOPS_ISSUED.ANY"]);
        events.iter_mut().for_each(|event| event.needs.pair = true);
        let all: Vec<&Event> = events.iter().collect();
        assert_eq!(limits.divide(&all), Ok(vec![vec![0, 1], vec![2]]));
    }

    #[test]
    fn events_bound_to_one_counter_move_others_but_not_each_other() {
        // The first takes counter 0 and gives way to none: counter 2 stays free for those that need it.
        let names = ["UOPS_ISSUED.ANY", "UOPS_RETIRED.ALL", "UOPS_EXECUTED.CORE", "L1D_PEND_MISS.PENDING"];
        assert_eq!(sets(&names).len(), 1);
        let both = ["L1D_PEND_MISS.PENDING", "CYCLE_ACTIVITY.STALLS_L1D_PENDING"];
        assert_eq!(sets(&both), [vec![0], vec![1]]);
    }

    #[test]
    fn filters_are_shared_by_equal_values_only() {
        let opcodes = ["UNC_C_TOR_INSERTS.OPCODE.OPC_DRD", "UNC_C_TOR_INSERTS.OPCODE.OPC_RFO"];
        assert_eq!(sets(&opcodes), [vec![0], vec![1]], "molka2017 Table 3");
        let three = [
            "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM",
            "OFFCORE_RESPONSE.ALL_READS.LLC_MISS.REMOTE_DRAM",
            "OFFCORE_RESPONSE.ALL_READS.LLC_HIT.HITM_OTHER_CORE",
        ];
        assert_eq!(sets(&three), [vec![0, 1], vec![2]]);
    }
}
