//! What a measurement was taken under, in sentences: the core clock and the noise.

use machine::profile::{Clock, Noise};
use machine::units::significant;

use crate::{
    layout::figures::percent_text,
    layout::prose::{listed, wrap, wrap_in},
    layout::style::WARNING,
};

/// The core clock to turn nanoseconds into cycles with; `None` if there is none to believe.
pub fn believable_hz(clock: Option<&Clock>) -> Option<f64> {
    clock.filter(|clock| clock.agrees()).map(|clock| clock.add_hz)
}

/// The clock with its cross-check, or why cycles are not shown.
pub fn clock_lines(clock: Option<&Clock>, columns: usize) -> String {
    let Some(clock) = clock else {
        return wrap_in(
            WARNING,
            "",
            "warning: the core clock was not estimated: cycles are not shown",
            columns,
        );
    };
    let chains = format!("add chain {}, multiply chain {}", gigahertz(clock.add_hz), gigahertz(clock.mul_hz));
    if !clock.agrees() {
        let text =
            format!("warning: {chains}: they disagree, so cycles cannot be believed and are not shown");
        return wrap_in(WARNING, "", &text, columns);
    }
    wrap("", &format!("clock: {chains}: agree"), columns)
}

/// Why a column of cycles holds dashes; `None` if it does not.
pub fn no_cycles_because(clock: Option<&Clock>) -> Option<&'static str> {
    match clock {
        Some(clock) if clock.agrees() => None,
        Some(_) => Some("the two estimates of the core clock disagree"),
        None => Some("the core clock was not estimated"),
    }
}

/// Cycles per second as people say it.
pub fn gigahertz(hz: f64) -> String {
    format!("{} GHz", significant(hz / 1e9, 3))
}

/// Share of the CPU time watched that the hypervisor gave to others.
pub fn steal_share(noise: &Noise, cpus: usize) -> Option<f64> {
    let watched = noise.wall_ns * cpus.max(1) as f64;
    noise.steal_ns.filter(|_| watched > 0.0).map(|steal| steal / watched)
}

/// A measurement's noise under the name of where it was seen.
pub struct ConditionsSeen<'a> {
    /// `64 MiB`; empty if there is only one place.
    pub at: String,
    /// What was seen there.
    pub noise: &'a Noise,
}

/// Sentences on steal time and involuntary switches: what was seen, and what this kernel does not report.
/// Empty if everything is reported and nothing was seen.
pub fn noise_sentences(seen: &[ConditionsSeen<'_>], cpus: usize) -> Vec<String> {
    let mut sentences = Vec::new();
    let total = Noise {
        wall_ns: seen.iter().map(|s| s.noise.wall_ns).sum(),
        steal_ns: sum(seen.iter().map(|s| s.noise.steal_ns)),
        involuntary_switches: sum(seen.iter().map(|s| s.noise.involuntary_switches)),
        spread: None,
    };
    if let Some(share) = steal_share(&total, cpus).filter(|&share| share > 0.0) {
        let worst = worst(seen, |noise| steal_share(noise, cpus))
            .map_or(String::new(), |(share, at)| format!(" (worst: {} % at {at})", percent_text(share)));
        sentences.push(format!(
            "steal: the hypervisor gave {} % of the CPU time to others{worst}",
            percent_text(share)
        ));
    }
    if let Some(switches) = total.involuntary_switches.filter(|&switches| switches > 0) {
        let worst = worst(seen, |noise| noise.involuntary_switches.map(|n| n as f64))
            .map_or(String::new(), |(count, at)| format!(" (most: {count:.0} at {at})"));
        sentences.push(format!("involuntary context switches: {switches}{worst}"));
    }
    let unreported: Vec<String> = [
        ("steal time", total.steal_ns.is_none()),
        ("context switches", total.involuntary_switches.is_none()),
    ]
    .into_iter()
    .filter(|(_, absent)| *absent)
    .map(|(name, _)| name.to_owned())
    .collect();
    if !unreported.is_empty() && !seen.is_empty() {
        sentences.push(format!("{} not reported by this kernel", listed(&unreported)));
    }
    sentences
}

/// The sum of what was reported; `None` if nothing was.
fn sum<T: std::iter::Sum<T>>(values: impl Iterator<Item = Option<T>>) -> Option<T> {
    let reported: Vec<T> = values.flatten().collect();
    (!reported.is_empty()).then(|| reported.into_iter().sum())
}

/// The largest value and where it was, if there is a choice.
fn worst(seen: &[ConditionsSeen<'_>], value: impl Fn(&Noise) -> Option<f64>) -> Option<(f64, String)> {
    let largest = seen
        .iter()
        .filter_map(|s| value(s.noise).map(|value| (value, s.at.clone())))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    largest.filter(|_| seen.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(steal_ns: Option<f64>, involuntary_switches: Option<u64>) -> Noise {
        Noise { wall_ns: 1e9, steal_ns, involuntary_switches, spread: None }
    }

    fn sentences(noises: &[Noise], cpus: usize) -> Vec<String> {
        let seen: Vec<_> = noises
            .iter()
            .enumerate()
            .map(|(i, noise)| ConditionsSeen { at: format!("{i} MiB"), noise })
            .collect();
        noise_sentences(&seen, cpus)
    }

    #[test]
    fn quiet_machines_get_no_sentence() {
        assert!(sentences(&[noise(Some(0.0), Some(0)); 2], 2).is_empty());
        assert!(sentences(&[], 2).is_empty());
    }

    #[test]
    fn steal_is_a_share_of_all_cpus_time() {
        let text = sentences(&[noise(Some(0.0), Some(0)), noise(Some(2e8), Some(3))], 2).join("\n");
        assert!(text.contains("gave 5.0 % of the CPU time to others (worst: 10 % at 1 MiB)"), "{text}");
        assert!(text.contains("switches: 3 (most: 3 at 1 MiB)"), "{text}");
    }

    #[test]
    fn what_the_kernel_hides_is_said() {
        assert_eq!(sentences(&[noise(None, Some(0))], 1), ["steal time not reported by this kernel"]);
        assert_eq!(
            sentences(&[noise(None, None)], 1),
            ["steal time and context switches not reported by this kernel"]
        );
    }

    #[test]
    fn cycles_need_two_clocks_that_agree() {
        let clock = |mul_hz| Clock { add_hz: 3.71e9, mul_hz, tsc_hz: None };
        assert_eq!(believable_hz(Some(&clock(3.70e9))), Some(3.71e9));
        assert_eq!(believable_hz(Some(&clock(2.6e9))), None);
        assert_eq!(believable_hz(None), None);
        assert!(no_cycles_because(Some(&clock(f64::NAN))).is_some());
        assert_eq!(
            clock_lines(Some(&clock(3.70e9)), 80),
            "clock: add chain 3.71 GHz, multiply chain 3.70 GHz: agree\n"
        );
    }
}
