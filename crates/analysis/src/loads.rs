//! Loads that the processor sampled itself: how long they took, and where their data came from.

use std::collections::{BTreeMap, HashMap};

use record::{
    ids::{FunctionId, ModuleId},
    loads::{DataOrigin, LoadSample, LoadSamples},
    run::Run,
};

use crate::{
    findings::{KnownLimits, LoadFindings, LoadSummary, LoadsOf},
    objects::{self, Spaces},
    statistics::median,
};

/// What the sampled loads of a run say, or why there are none.
pub(crate) fn loads(run: &Run) -> KnownLimits<LoadFindings> {
    let missing = |reason: &str| KnownLimits::Missing(reason.to_owned());
    match &run.loads {
        LoadSamples::NotAsked => missing("`memwall run --precise` samples them, where the processor can"),
        LoadSamples::Refused(reason) => KnownLimits::Missing(reason.clone()),
        LoadSamples::Taken(samples) if samples.is_empty() => {
            missing("the processor was asked, and sampled none")
        }
        LoadSamples::Taken(samples) => KnownLimits::Value(LoadFindings {
            all: summary(samples.iter()),
            functions: by_function(run, samples),
            objects: by_object(run, samples),
        }),
    }
}

fn summary<'a>(loads: impl Iterator<Item = &'a LoadSample>) -> LoadSummary {
    let mut cycles = Vec::new();
    let mut origins: BTreeMap<DataOrigin, u64> = BTreeMap::new();
    let mut samples = 0;
    for load in loads {
        samples += 1;
        cycles.extend(load.latency_cycles.map(|cycles| cycles as f64));
        if let Some(origin) = load.origin {
            *origins.entry(origin).or_default() += 1;
        }
    }
    cycles.sort_by(f64::total_cmp);
    let unknown = || KnownLimits::Missing("the processor did not say how long they took".to_owned());
    LoadSummary {
        samples,
        median_cycles: median(&cycles).map_or_else(unknown, KnownLimits::Value),
        origins: origins.into_iter().collect(),
    }
}

/// Those with most loads first; names decide between equals, so that the order is always the same.
fn ranked(mut all: Vec<LoadsOf>) -> Vec<LoadsOf> {
    all.sort_by(|a, b| b.loads.samples.cmp(&a.loads.samples).then_with(|| a.name.cmp(&b.name)));
    all
}

fn by_function(run: &Run, samples: &[LoadSample]) -> Vec<LoadsOf> {
    let mut groups: HashMap<(Option<FunctionId>, ModuleId), Vec<&LoadSample>> = HashMap::new();
    for load in samples {
        let Some(place) = run.place(load.place) else { continue };
        groups.entry((place.function, place.module)).or_default().push(load);
    }
    let named = |((function, module), loads): ((Option<FunctionId>, ModuleId), Vec<&LoadSample>)| {
        let function = function.and_then(|id| run.function(id));
        LoadsOf {
            name: function.map_or_else(|| "unknown code".to_owned(), |function| function.name.clone()),
            module: run.module(module).map(|module| module.path.clone()),
            loads: summary(loads.into_iter()),
        }
    };
    ranked(groups.into_iter().map(named).collect())
}

fn by_object(run: &Run, samples: &[LoadSample]) -> Vec<LoadsOf> {
    let mut spaces = Spaces::new(run);
    let mut groups: HashMap<objects::SpaceKey, Vec<&LoadSample>> = HashMap::new();
    for load in samples {
        let Some(address) = load.address else { continue };
        let process = run.thread(load.thread).map_or(0, |thread| thread.process);
        groups.entry(spaces.find(process, address.get(), load.time_ns)).or_default().push(load);
    }
    let named = |(key, loads): (objects::SpaceKey, Vec<&LoadSample>)| LoadsOf {
        name: objects::name_of(run, &key, None),
        module: None,
        loads: summary(loads.into_iter()),
    };
    ranked(groups.into_iter().map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::ids::{PlaceId, ThreadId};
    use std::num::NonZeroU64;

    fn load(place: u32, address: u64, cycles: Option<u64>, origin: Option<DataOrigin>) -> LoadSample {
        let address = NonZeroU64::new(address);
        LoadSample {
            time_ns: 1,
            thread: ThreadId(0),
            cpu: 0,
            place: PlaceId(place),
            address,
            latency_cycles: cycles,
            origin,
        }
    }

    #[test]
    fn functions_and_objects_get_their_median_and_origins() {
        let mut run = crate::timer::tests::run(&[0x90, 0xc3], &[(0, None), (1, None)]);
        run.places[1].function = None;
        run.data.variables = ["near", "far"]
            .into_iter()
            .zip([0x1000, 0x2000])
            .map(|(name, start)| record::data::Variable {
                process: 0,
                start,
                end: start + 0x100,
                name: name.to_owned(),
                module: "/p".to_owned(),
            })
            .collect();
        run.loads = LoadSamples::Taken(vec![
            load(0, 0x1000, Some(5), Some(DataOrigin::L1)),
            load(0, 0x2000, Some(300), Some(DataOrigin::Dram)),
            load(0, 0x2040, Some(500), Some(DataOrigin::Remote)),
            load(1, 0, None, None),
        ]);
        let found = loads(&run);
        let found = found.value().expect("loads");
        assert_eq!((found.all.samples, found.all.median_cycles.value()), (4, Some(&300.0)));
        let origins = [(DataOrigin::L1, 1), (DataOrigin::Dram, 1), (DataOrigin::Remote, 1)];
        assert_eq!(found.all.origins, origins);
        let names =
            |of: &[LoadsOf]| of.iter().map(|of| (of.name.clone(), of.loads.samples)).collect::<Vec<_>>();
        assert_eq!(names(&found.functions), [("f".to_owned(), 3), ("unknown code".to_owned(), 1)]);
        assert!(found.functions[1].loads.median_cycles.missing().is_some(), "not 0");
        assert_eq!(names(&found.objects), [("far".to_owned(), 2), ("near".to_owned(), 1)]);
        assert_eq!(found.objects[0].loads.median_cycles.value(), Some(&400.0));
    }

    #[test]
    fn why_there_are_none_is_said() {
        let mut run = crate::timer::tests::run(&[0xc3], &[]);
        let reason = |run: &Run| loads(run).missing().map(str::to_owned).expect("a reason");
        assert!(reason(&run).contains("--precise"));
        run.loads = LoadSamples::Refused("this machine shows no PMU".to_owned());
        assert!(reason(&run).contains("no PMU"));
        run.loads = LoadSamples::Taken(Vec::new());
        assert!(reason(&run).contains("none"));
    }
}
