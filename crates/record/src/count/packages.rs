//! What groups say of each package, where events were counted apart.

use events::{
    CountedPlace,
    groups::{Chosen, FormulaInputs, ProfileFigures},
};
use serde::{Deserialize, Serialize};

use super::{CountedRun, GroupMetrics, MetricsAround, program_cycles, total};

/// Of a volume, the share of one package over its fair share from which on it is said.
const UNEVEN: f64 = 1.5;

/// What a group says of one package.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PackageMetrics {
    /// Its number.
    pub package: u32,
    /// By metric of the group, in their order; none where it is missing.
    pub values: Vec<Option<f64>>,
}

/// The package of a place, if it is of one.
fn package_of(place: &CountedPlace, packages: &[(u32, u32)]) -> Option<u32> {
    match place {
        CountedPlace::Box { package, .. } => Some(*package),
        CountedPlace::Cpu(cpu) => {
            packages.iter().find(|(known, _)| known == cpu).map(|(_, package)| *package)
        }
        CountedPlace::Target | CountedPlace::Thread(_) => None,
    }
}

/// Adds what each package has of a run to a group, and says where volumes are uneven. `packages` has the package of each CPU.
pub fn add_packages(
    group: &mut GroupMetrics,
    chosen: &Chosen<'_>,
    inputs: &[(&str, usize)],
    run: &CountedRun,
    packages: &[(u32, u32)],
    around: MetricsAround<'_>,
) {
    let profile = around.profile;
    let own = run.counts.iter().filter(|count| inputs.iter().any(|(_, event)| *event == count.event));
    let found: Option<Vec<u32>> = own.map(|count| package_of(&count.place, packages)).collect();
    let mut found = found.unwrap_or_default();
    found.sort_unstable();
    found.dedup();
    if found.len() < 2 {
        return;
    }
    // What all packages together can do is shared out evenly.
    let part = |name: &str| if name.ends_with("_peak") { found.len() as f64 } else { 1.0 };
    let figure = |name: &str| Some(profile?(name)? / part(name));
    // A package's part of a program is a part of it.
    let own = || program_cycles(inputs, std::slice::from_ref(run));
    let program_cycles = around.program_cycles.or_else(own);
    let seconds = (run.elapsed_ns > 0).then_some(run.elapsed_ns as f64 / 1e9);
    for package in found.clone() {
        let count = |input: &str| {
            let (_, event) = inputs.iter().find(|(name, _)| *name == input)?;
            total(&run.counts, *event, |place| package_of(place, packages) == Some(package))?.estimate()
        };
        let profile = profile.is_some().then_some(&figure as ProfileFigures<'_>);
        let given = FormulaInputs { count: &count, seconds, program_cycles, profile };
        let values = chosen.evaluate(&given).into_iter();
        let values = values.map(|found| found.value.ok().map(|value| value.value)).collect();
        group.packages.push(PackageMetrics { package, values });
    }
    let remarks: Vec<String> = (0..group.metrics.len()).filter_map(|metric| uneven(group, metric)).collect();
    group.remarks.extend(remarks);
}

/// A sentence where one package has much more of a volume than its share.
fn uneven(group: &GroupMetrics, metric: usize) -> Option<String> {
    let described = group.metrics.get(metric).filter(|metric| metric.unit == "B")?;
    let of = |package: &PackageMetrics| Some((package.package, (*package.values.get(metric)?)?));
    let values: Vec<(u32, f64)> = group.packages.iter().map(of).collect::<Option<_>>()?;
    let all: f64 = values.iter().map(|(_, value)| value).sum();
    let (package, most) = values.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1))?;
    (most * values.len() as f64 > UNEVEN * all && all > 0.0).then(|| {
        format!(
            "{}: socket {package} has {:.0} % of it, with {} sockets (NUMA imbalance).",
            described.name,
            100.0 * most / all,
            values.len()
        )
    })
}

#[cfg(test)]
mod tests {
    use events::{Count, MetricGroup, Value};

    use super::*;
    use crate::count::group_metrics;

    fn run(reads: [u64; 2]) -> CountedRun {
        let count = |(package, raw): (u32, u64)| Count {
            event: 0,
            place: CountedPlace::Box { package, name: "uncore_imc_0".to_owned() },
            value: Value::Counted { raw, enabled_ns: 1, running_ns: 1 },
        };
        let counts = (0..).zip(reads).map(count).collect();
        CountedRun { elapsed_ns: 1_000_000_000, ending: None, usage: None, counts, intervals: Vec::new() }
    }

    fn group(reads: [u64; 2]) -> GroupMetrics {
        let file = "[[group]]\nname = \"G\"\nabout = \"x\"\ninputs = { reads = [\"r\"] }\n\
            constants = { peak = { source = \"y\", measured = \"memory_peak\" } }\n\
            [[group.metric]]\nname = \"volume\"\nformula = \"64 * reads\"\nunit = \"B\"\nabout = \"z\"\n\
            [[group.metric]]\nname = \"use\"\nformula = \"100 * 64 * reads / time / peak\"\nunit = \"%\"\nabout = \"z\"\n";
        let groups = MetricGroup::parse(file, "g.toml").expect("a group");
        let chosen = groups[0].choose(&|_| true);
        let runs = [run(reads)];
        let figure = |_: &str| Some(128_000.0);
        let around = MetricsAround { profile: Some(&figure), ..MetricsAround::default() };
        let mut group = group_metrics(&chosen, &[("reads", 0)], &runs, around);
        add_packages(&mut group, &chosen, &[("reads", 0)], &runs[0], &[], around);
        group
    }

    #[test]
    fn each_package_has_its_volume_and_its_share_of_the_peak() {
        let even = group([500, 500]);
        assert_eq!(even.packages[1].values, [Some(32_000.0), Some(50.0)], "half of the peak is its own");
        assert_eq!(even.remarks, [""; 0]);
        let uneven = group([900, 100]);
        assert_eq!(uneven.packages[0].values, [Some(57_600.0), Some(90.0)]);
        assert_eq!(uneven.remarks, ["volume: socket 0 has 90 % of it, with 2 sockets (NUMA imbalance)."]);
    }
}
