//! Whether a program would hardly take longer at a lower core clock (molka2017 §5).
//!
//! A core that waits for memory that gives all it can waits less when it is slower itself, and loses nothing. A core that waits for
//! the latency of single loads, or for a cache, loses: a part of every latency is in its own clock. So a program is called free only where
//! memory moves as much as `calibrate` ever saw, and where what the core does for itself still fits in.

use events::Catalogue;
use record::count::{Counts, LowerClock};

/// The group that is read.
pub const GROUP: &str = "CLOCK";
/// molka2017 §5: 1300 instead of 2500 MHz.
pub const CLOCK_SHARE: f64 = 1300.0 / 2500.0;
/// Memory in use from which it gives all it can, in percent of the measured peak. Phases developed on reach 98 where they lose nothing, and
/// lose 3.5 % at 92.
const SATURATED_PERCENT: f64 = 97.0;
/// What the core does for itself may come to this at the lower clock, in percent of the present time.
const FITTING_PERCENT: f64 = 90.0;
/// What was promised, and what came of phases nobody tuned to (docs/events.md, seeds 5001 to 5040).
const MEASURED: &str = "less than 2 %; of phases drawn at random two were called so, and lost 0.6 and -0.3 %";
/// What the paper found, to be shown beside.
const PAPER: &str = "molka2017 §5 ran the bandwidth-bound parts of bt, 25 % of its time, at 1300 instead of 2500 MHz: 4.6 % less \
                     power, 0.2 % more time";

/// Judges counts of the group, if they hold it, and says so in a remark. `machine` is what is known of the CPU.
pub fn judge(counts: &mut Counts, machine: Option<&Catalogue>) {
    let follows = machine.is_some_and(|known| known.uncore_follows_core);
    if let Some(verdict) = verdict(counts, follows) {
        counts.remarks.push(sentence(&verdict));
        counts.lower_clock = Some(verdict);
    }
}

/// The verdict; none where a metric is missing.
fn verdict(counts: &Counts, follows: bool) -> Option<LowerClock> {
    let group = counts.metrics.iter().find(|group| group.group == GROUP)?;
    let mean = |name: &str| {
        let values = &group.metrics.iter().find(|metric| metric.name == name)?.values;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (own, in_use) = (mean("in the clock of the cores")?, mean("memory in use")?);
    let (least, most) = (mean("slower, if waiting shrinks")?, mean("slower, if waiting stays")?);
    let (saturated, fits) = (in_use >= SATURATED_PERCENT, own / CLOCK_SHARE <= FITTING_PERCENT);
    let why = match (follows, saturated, fits) {
        (true, ..) => "here ring and last cache change their clock with the cores, and with it what memory \
                       can be asked for"
            .to_owned(),
        (false, false, _) => {
            format!("memory moves {in_use:.0} % of its peak, so cores do not wait for it alone")
        }
        (false, true, false) => format!("what the cores do for themselves takes {own:.0} % of the cycles"),
        (false, true, true) => {
            format!(
                "memory gives all it can ({in_use:.0} % of its peak), and the cores themselves need {own:.0} % of the cycles"
            )
        }
    };
    Some(LowerClock {
        clock_share: CLOCK_SHARE,
        free: !follows && saturated && fits,
        if_waiting_shrinks_percent: least,
        if_waiting_stays_percent: most,
        why,
    })
}

fn sentence(verdict: &LowerClock) -> String {
    let (clock, why) = (100.0 * verdict.clock_share, &verdict.why);
    let (shrinks, stays) = (verdict.if_waiting_shrinks_percent, verdict.if_waiting_stays_percent);
    match verdict.free {
        true => format!(
            "At {clock:.0} % of this core clock it would hardly take longer ({MEASURED}): {why}. {PAPER}."
        ),
        false => format!(
            "A lower core clock is not free: {why}. At {clock:.0} % of it the program takes, by a rough estimate, \
             {shrinks:.0} to {stays:.0} % longer."
        ),
    }
}

#[cfg(test)]
mod tests {
    use record::count::{CountedMetric, GroupMetrics};

    use super::*;

    /// Counts in which the cores' own work takes `own` percent of the cycles and memory is `in_use`.
    fn counts(own: f64, in_use: Option<f64>) -> Counts {
        let metric = |name: &str, value: Option<f64>| CountedMetric {
            name: name.to_owned(),
            values: value.into_iter().collect(),
            ..CountedMetric::default()
        };
        let metrics = vec![
            metric("in the clock of the cores", Some(own)),
            metric("memory in use", in_use),
            metric("slower, if waiting shrinks", Some(0.0)),
            metric("slower, if waiting stays", Some(0.92 * own)),
        ];
        let group = GroupMetrics { group: GROUP.to_owned(), metrics, ..GroupMetrics::default() };
        Counts { metrics: vec![group], ..Counts::default() }
    }

    fn judged(own: f64, in_use: Option<f64>, cpu: &str) -> Counts {
        let mut counts = counts(own, in_use);
        judge(&mut counts, Some(Catalogue::named(cpu).unwrap()));
        counts
    }

    #[test]
    fn only_saturated_memory_with_room_for_the_cores_is_free() {
        let free = |own, in_use| judged(own, Some(in_use), "haswell-ep").lower_clock.unwrap().free;
        assert!(free(10.0, 99.0));
        assert!(!free(10.0, 80.0), "a cache or a latency");
        assert!(!free(60.0, 99.0), "no room");
        let said = judged(10.0, Some(99.0), "haswell-ep").remarks.join(" ");
        assert!(said.contains("52 %") && said.contains("1300") && said.contains("0.2 % more time"), "{said}");
    }

    #[test]
    fn nothing_is_free_where_the_uncore_follows() {
        for cpu in ["sandy-bridge-ep", "ivy-bridge-ep"] {
            let counts = judged(10.0, Some(99.0), cpu);
            assert!(!counts.lower_clock.unwrap().free, "{cpu}");
            assert!(counts.remarks[0].contains("ring"), "{:?}", counts.remarks);
        }
    }

    #[test]
    fn without_a_peak_there_is_no_verdict() {
        let counts = judged(10.0, None, "haswell-ep");
        assert_eq!((counts.lower_clock, counts.remarks.len()), (None, 0));
    }
}
