//! The whole method on a sixty-fourth of the paper's machine: calibrated, then programs whose class is known.

use std::sync::atomic::AtomicBool;

use host::{repeat::RepeatPlan, scenario::ScenarioJob, simulated::Simulated};
use kernels::{KernelCatalogue, draw::Distribution, scenario};
use machine::{
    model::Model,
    squeezing::{SqueezeKind, SqueezeProfile},
};
use record::squeeze::{ProgramClass, SqueezeRun, TimedBy};
use squeeze::{
    CalibrateSqueeze,
    recipe::SqueezeDomain,
    scenario::ScenarioSubject,
    session::{SessionPlan, SubjectFacts},
    victims::KnownVictim,
};

static NEVER: AtomicBool = AtomicBool::new(false);

struct Small {
    model: Model,
    domain: SqueezeDomain,
    profile: SqueezeProfile,
}

impl Small {
    /// Few strengths and one victim: as little as tells something.
    fn calibrated() -> Self {
        let model =
            Model::builtin("sandy-bridge-ep-e5-2670").expect("a model").scaled(64).expect("a part of it");
        // One core for the program and three for interference: every thread takes time to simulate.
        let own = std::iter::once(0).collect();
        let mut domain = SqueezeDomain::of(&model.topology(), Some(&own), None).expect("a shared cache");
        domain.spare.truncate(3);
        domain.cpus = domain.own.iter().chain(&domain.spare).copied().collect();
        let plan = RepeatPlan::within(1e7, 0.05);
        let request = CalibrateSqueeze {
            victims: vec![KnownVictim { distribution: Distribution::Uni, additions: 1, times: 2.6 }],
            storage_form: None,
            bandwidth_form: None,
            steps: 1,
            known_sets: 6,
            repeat: plan,
            known_repeat: plan,
            seed: 1,
            now: 0,
        };
        let mut host = Simulated::new(&model, 1).expect("a host");
        let profile = squeeze::calibrate(&mut host, &domain, None, &request, &mut |_, _| {}, &NEVER)
            .expect("a calibration");
        Self { model, domain, profile }
    }

    fn squeezed(&self, steps: &str) -> SqueezeRun {
        let mut text = "name = \"known\"\nabout = \"known need\"\nthreads = 1\n".to_owned();
        text += "[[buffer]]\nname = \"set\"\nsize = \"160K\"\n";
        for region in ["warm", "work"] {
            text += &format!("[[region]]\nname = \"{region}\"\n[[region.step]]\n{steps}\n");
        }
        let catalogue = KernelCatalogue::builtin().expect("kernels");
        let scenario = scenario::parse(&text, "known", &catalogue, &[]).expect("a scenario");
        let mut host = Simulated::new(&self.model, 1).expect("a host");
        let cpus = &self.domain.own[..1];
        let request = ScenarioJob { scenario: &scenario, cpus, scale: 1 };
        let region = Some("work".to_owned());
        let mut subject =
            ScenarioSubject::prepare(&mut host, None, request, region, &self.domain.spare, &NEVER)
                .expect("a subject");
        let facts = SubjectFacts {
            program: "known".to_owned(),
            simulated: Some(self.model.name.clone()),
            timed_by: TimedBy::Region("work".to_owned()),
            cpus: cpus.iter().copied().collect(),
            processes: 1,
            threads: Some(1),
        };
        let plan = SessionPlan {
            harm: 0.05,
            budget_s: None,
            seed: 1,
            kinds: SqueezeKind::ALL.to_vec(),
            whole_curves: false,
        };
        squeeze::session::squeeze(&mut subject, &facts, &self.profile, &plan, &mut |_| {}).expect("squeezed")
    }
}

#[test]
#[ignore = "takes more than a minute unoptimised: cargo test --release -p memwall-squeeze --test whole -- --ignored"]
fn a_chase_needs_the_cache_and_what_computes_needs_neither() {
    let small = Small::calibrated();
    assert_eq!(small.profile.refusals, [], "it can be squeezed");
    let chase = small.squeezed("kernel = \"chase\"\nbuffer = \"set\"\npasses = 6");
    assert_eq!(chase.class, ProgramClass::CacheSensitive, "{:?} {:?}", chase.storage, chase.bandwidth);
    let bounds = chase.storage.bounds.expect("bounds");
    let held = |end: Option<f64>| end.unwrap_or(f64::NAN) / 1024.0;
    assert!(
        bounds.at_least.is_none_or(|low| low <= 160.0 * 1024.0)
            && bounds.at_most.is_none_or(|high| high >= 160.0 * 1024.0),
        "{} to {} KiB",
        held(bounds.at_least),
        held(bounds.at_most)
    );
    let neither = small.squeezed("kernel = \"fma-lanes\"\npasses = 20000");
    assert_eq!(neither.class, ProgramClass::Insensitive, "{:?}", neither.storage);
}
