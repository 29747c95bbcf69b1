//! Loads that the processor sampled itself: how long they took, and where their data came from.

use std::collections::{BTreeMap, HashMap};

use record::{
    ids::{FunctionId, ModuleId},
    loads::{DataOrigin, LoadSample, LoadSamples},
    run::Run,
};

use crate::{
    findings::{FunctionLoads, KnownLimits, LoadFindings, LoadSummary, ObjectId, ObjectLoads},
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
    let (mut of_memory, mut says_translation) = (Vec::new(), false);
    let (mut samples, mut walked_samples) = (0, 0);
    for load in loads {
        samples += 1;
        let latency = load.latency_cycles.map(|cycles| cycles as f64);
        cycles.extend(latency);
        of_memory.extend(latency.filter(|_| load.is_of_memory()));
        says_translation |= load.translated_at_hand.is_some();
        walked_samples += u64::from(load.translated_at_hand == Some(false));
        if let Some(origin) = load.origin {
            *origins.entry(origin).or_default() += 1;
        }
    }
    cycles.sort_by(f64::total_cmp);
    of_memory.sort_by(f64::total_cmp);
    let known = |cycles: &[f64], reason: &str| {
        median(cycles).map_or_else(|| KnownLimits::Missing(reason.to_owned()), KnownLimits::Value)
    };
    let no_memory = match says_translation {
        true => "no load was sampled that memory served and that waited for no page walk",
        false => "the processor did not say which loads waited for a page walk",
    };
    LoadSummary {
        samples,
        median_cycles: known(&cycles, "the processor did not say how long they took"),
        memory_cycles: known(&of_memory, no_memory),
        memory_samples: of_memory.len() as u64,
        walked_samples,
        origins: origins.into_iter().collect(),
    }
}

/// Those with most loads first; who they are decides between equals, so that the order is always the same.
fn ranked<Who: Ord + Copy>(groups: HashMap<Who, Vec<&LoadSample>>) -> Vec<(Who, LoadSummary)> {
    let mut all: Vec<_> = groups.into_iter().map(|(who, loads)| (who, summary(loads.into_iter()))).collect();
    all.sort_by_key(|(who, loads)| (std::cmp::Reverse(loads.samples), *who));
    all
}

fn by_function(run: &Run, samples: &[LoadSample]) -> Vec<FunctionLoads> {
    let mut groups: HashMap<(Option<FunctionId>, ModuleId), Vec<&LoadSample>> = HashMap::new();
    for load in samples {
        let Some(place) = run.place(load.place) else { continue };
        groups.entry((place.function, place.module)).or_default().push(load);
    }
    let named = |((function, module_id), loads): ((Option<FunctionId>, ModuleId), LoadSummary)| {
        let known = function.and_then(|id| run.function(id));
        FunctionLoads {
            function,
            name: known.map_or_else(|| "unknown code".to_owned(), |function| function.name.clone()),
            module_id,
            module: run.module(module_id).map(|module| module.path.clone()),
            loads,
        }
    };
    ranked(groups).into_iter().map(named).collect()
}

fn by_object(run: &Run, samples: &[LoadSample]) -> Vec<ObjectLoads> {
    let mut spaces = Spaces::new(run);
    let mut groups: HashMap<ObjectId, Vec<&LoadSample>> = HashMap::new();
    for load in samples {
        let Some((address, thread)) = load.address.zip(run.thread(load.thread)) else { continue };
        let object = spaces.find(thread.process, address.get(), load.time_ns);
        groups.entry(object).or_default().push(load);
    }
    let named = |(id, loads): (ObjectId, LoadSummary)| ObjectLoads {
        id,
        name: objects::name_of(run, &id, None),
        loads,
    };
    ranked(groups).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::ids::{PlaceId, ProcessId, ThreadId};
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
            translated_at_hand: None,
        }
    }

    /// helm2019 §6.1: a walk is no latency of memory, and what the processor does not say is not taken for either.
    #[test]
    fn memory_latency_is_of_loads_that_memory_served_without_a_walk() {
        let of = |cycles, origin, translated_at_hand| LoadSample {
            translated_at_hand,
            ..load(0, 0x1000, Some(cycles), Some(origin))
        };
        let all = [
            of(300, DataOrigin::Dram, Some(true)),
            of(320, DataOrigin::Dram, Some(true)),
            of(900, DataOrigin::Dram, Some(false)),
            of(950, DataOrigin::Dram, None),
            of(40, DataOrigin::L3, Some(true)),
            of(700, DataOrigin::Remote, Some(true)),
        ];
        let found = summary(all.iter());
        assert_eq!((found.memory_cycles.value(), found.memory_samples), (Some(&310.0), 2));
        assert_eq!((found.median_cycles.value(), found.walked_samples), (Some(&510.0), 1));
        let near = summary(all[4..5].iter());
        assert!(near.memory_cycles.missing().is_some_and(|why| why.contains("no load")), "{near:?}");
        let silent = summary(all[3..4].iter());
        assert!(silent.memory_cycles.missing().is_some_and(|why| why.contains("did not say")), "{silent:?}");
    }

    #[test]
    fn functions_and_objects_get_their_median_and_origins() {
        let mut run = crate::timer::tests::run(&[0x90, 0xc3], &[(0, None), (1, None)]);
        run.places[1].function = None;
        run.data.variables = ["near", "far"]
            .into_iter()
            .zip([0x1000, 0x2000])
            .map(|(name, start)| record::data::Variable {
                process: ProcessId(0),
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
        let functions: Vec<_> =
            found.functions.iter().map(|of| (of.name.as_str(), of.loads.samples)).collect();
        assert_eq!(functions, [("f", 3), ("unknown code", 1)]);
        assert!(found.functions[1].loads.median_cycles.missing().is_some(), "not 0");
        let objects: Vec<_> = found.objects.iter().map(|of| (of.name.as_str(), of.loads.samples)).collect();
        assert_eq!(objects, [("far", 2), ("near", 1)]);
        assert_eq!(
            [found.objects[0].id, found.objects[1].id],
            [ObjectId::Variable(1), ObjectId::Variable(0)]
        );
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
