//! Whether a program would hardly take longer at a lower core clock (molka2017 §5).
//!
//! A core that waits for memory that gives all it can waits less when it is slower itself, and loses nothing. A core that waits for
//! the latency of single loads, or for a cache, loses: a part of every latency is in its own clock. So a program is called free only where
//! memory moves as much as `calibrate` ever saw, and where what the core does for itself still fits in.

use events::Catalogue;
use record::count::{ClockPhase, ClockPhases, CountedMetric, Counts, GroupMetrics, LowerClock};

/// The group that is read.
pub const GROUP: &str = "CLOCK";
/// molka2017 §5: 1300 instead of 2500 MHz.
pub const CLOCK_SHARE: f64 = 1300.0 / 2500.0;
/// Memory in use from which it gives all it can, in percent of the measured peak. Phases developed on reach 98 where they lose nothing, and
/// lose 3.5 % at 92.
const SATURATED_PERCENT: f64 = 97.0;
/// What the core does for itself may come to this at the lower clock, in percent of the present time.
const FITTING_PERCENT: f64 = 90.0;
/// Phases that are told one by one, the longest first.
const MOST_PHASES: usize = 5;
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
        counts.remarks.extend(verdict.phases.as_ref().map(phases_sentence));
        counts.lower_clock = Some(verdict);
    }
}

/// The verdict; none where a metric is missing.
fn verdict(counts: &Counts, follows: bool) -> Option<LowerClock> {
    let group = counts.metrics.iter().find(|group| group.group == GROUP)?;
    let mean = |name: &str| {
        let values = &metric(group, name)?.values;
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    };
    let (own, in_use) = (mean(OWN)?, mean(IN_USE)?);
    let (least, most) = (mean("slower, if waiting shrinks")?, mean("slower, if waiting stays")?);
    let (saturated, fits) = (is_saturated(in_use), fits(own));
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
        phases: phases(counts, group, follows),
    })
}

/// What the cores do for themselves, in the group.
const OWN: &str = "in the clock of the cores";
/// What memory moves of its peak, in the group.
const IN_USE: &str = "memory in use";

fn metric<'a>(group: &'a GroupMetrics, name: &str) -> Option<&'a CountedMetric> {
    group.metrics.iter().find(|metric| metric.name == name)
}

fn is_saturated(in_use_percent: f64) -> bool {
    in_use_percent >= SATURATED_PERCENT
}

fn fits(own_percent: f64) -> bool {
    own_percent / CLOCK_SHARE <= FITTING_PERCENT
}

/// The same of each interval of the first repetition: the paper lowers the clock for phases, not for programs. Free intervals that follow each
/// other are one phase.
fn phases(counts: &Counts, group: &GroupMetrics, follows: bool) -> Option<ClockPhases> {
    let intervals =
        counts.runs.first().map(|run| &run.intervals).filter(|intervals| !intervals.is_empty())?;
    let series = |name: &str| Some(&metric(group, name)?.series);
    let (own, in_use) = (series(OWN)?, series(IN_USE)?);
    let mut found = ClockPhases::default();
    let mut start_ns = 0;
    for (at, end_ns) in intervals.iter().map(|interval| interval.end_ns).enumerate() {
        let value = |series: &[Option<f64>]| series.get(at).copied().flatten();
        if let (Some(own), Some(in_use)) = (value(own), value(in_use)) {
            found.judged += 1;
            found.judged_ns += end_ns.saturating_sub(start_ns);
            if !follows && is_saturated(in_use) && fits(own) {
                match found.free.last_mut().filter(|last| last.end_ns == start_ns) {
                    Some(last) => last.end_ns = end_ns,
                    None => found.free.push(ClockPhase { start_ns, end_ns }),
                }
            }
        }
        start_ns = end_ns;
    }
    (found.judged > 0).then_some(found)
}

fn phases_sentence(phases: &ClockPhases) -> String {
    let lasts = |phase: &ClockPhase| phase.end_ns - phase.start_ns;
    let free: u64 = phases.free.iter().map(lasts).sum();
    if free == 0 {
        return format!("By intervals: in none of {} a lower core clock would be free.", phases.judged);
    }
    let mut longest = phases.free.clone();
    longest.sort_by_key(|phase| std::cmp::Reverse(lasts(phase)));
    longest.truncate(MOST_PHASES);
    longest.sort_by_key(|phase| phase.start_ns);
    let (unit, ns_each, decimals) = match phases.free.last().map_or(0, |phase| phase.end_ns) {
        0..2_000_000 => ("µs", 1e3, 0),
        2_000_000..2_000_000_000 => ("ms", 1e6, 1),
        _ => ("s", 1e9, 3),
    };
    let scaled = |ns: u64| format!("{:.decimals$}", ns as f64 / ns_each);
    let told: Vec<String> = longest
        .iter()
        .map(|phase| format!("{} to {} {unit}", scaled(phase.start_ns), scaled(phase.end_ns)))
        .collect();
    let more = phases.free.len() - longest.len();
    let more = if more > 0 { format!(" and {more} shorter") } else { String::new() };
    format!(
        "By intervals: for {:.0} % of the time a lower core clock would hardly cost any: {}{more}.",
        100.0 * free as f64 / phases.judged_ns as f64,
        told.join(", ")
    )
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
    use record::count::{CountedInterval, CountedRun};

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

    /// Intervals of a tenth of a second: these values of memory in use, the cores' own work at `own` percent.
    fn over_time(own: f64, in_use: &[Option<f64>], cpu: &str) -> Counts {
        let mut counts = counts(own, Some(50.0));
        let intervals: Vec<CountedInterval> = (1..=in_use.len() as u64)
            .map(|number| CountedInterval { end_ns: number * 100_000_000, counts: Vec::new() })
            .collect();
        let elapsed_ns = intervals.last().unwrap().end_ns;
        counts.runs =
            vec![CountedRun { elapsed_ns, ending: None, usage: None, counts: Vec::new(), intervals }];
        for metric in &mut counts.metrics[0].metrics {
            metric.series = match metric.name.as_str() {
                IN_USE => in_use.to_vec(),
                OWN => vec![Some(own); in_use.len()],
                _ => Vec::new(),
            };
        }
        judge(&mut counts, Some(Catalogue::named(cpu).unwrap()));
        counts
    }

    #[test]
    fn phases_are_free_where_the_program_is_not() {
        let full = Some(99.0);
        let line = [full, full, Some(40.0), None, full, Some(96.0)];
        let counts = over_time(10.0, &line, "haswell-ep");
        let verdict = counts.lower_clock.as_ref().unwrap();
        assert!(!verdict.free, "half of the peak over all");
        let phase =
            |start: u64, end: u64| ClockPhase { start_ns: start * 100_000_000, end_ns: end * 100_000_000 };
        let phases = verdict.phases.as_ref().unwrap();
        assert_eq!((phases.judged, phases.judged_ns), (5, 500_000_000), "one was not counted");
        assert_eq!(phases.free, [phase(0, 2), phase(4, 5)]);
        let said = counts.remarks.last().unwrap();
        assert!(
            said.contains("60 % of the time") && said.contains("0.0 to 200.0 ms, 400.0 to 500.0 ms"),
            "{said}"
        );
        // What the cores do for themselves has no room, or the ring follows them: none.
        for (own, cpu) in [(60.0, "haswell-ep"), (10.0, "ivy-bridge-ep")] {
            let counts = over_time(own, &line, cpu);
            assert_eq!(counts.lower_clock.unwrap().phases.unwrap().free, [], "{own} {cpu}");
            assert!(counts.remarks.last().unwrap().contains("in none of 5"), "{:?}", counts.remarks);
        }
        let many: Vec<Option<f64>> = (0..16).map(|at| Some(if at % 2 == 0 { 99.0 } else { 10.0 })).collect();
        let counts = over_time(10.0, &many, "haswell-ep");
        assert!(counts.remarks.last().unwrap().contains("and 3 shorter"), "{:?}", counts.remarks);
        assert_eq!(judged(10.0, Some(99.0), "haswell-ep").lower_clock.unwrap().phases, None, "no intervals");
    }

    #[test]
    fn without_a_peak_there_is_no_verdict() {
        let counts = judged(10.0, None, "haswell-ep");
        assert_eq!((counts.lower_clock, counts.remarks.len()), (None, 0));
    }
}
