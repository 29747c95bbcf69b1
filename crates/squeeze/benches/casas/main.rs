//! casas2017 on a simulated machine, and programs whose needs are known: the figures of docs/squeeze.md.
//!
//! `cargo bench -p memwall-squeeze --bench casas -- paper`: §3.1 to §3.3 with the paper's threads.
//! `… -- configurations 1..60`: sixty of its victims, drawn with seed 1. `… -- both`: both interferences at once.
//! `… -- needs 101..140`: bounds against the truth for these seeds. `… -- predict 101..110`: less of a resource, `… -- pairs 101..110`: two on
//! a socket, `… -- mapping`: the best of four.
//! A last word such as `1` or `16` is what the machine is divided by (16 unless given).

mod needs;
mod paper;
mod predictions;

use std::sync::atomic::AtomicBool;

use host::{repeat::RepeatPlan, simulated::Simulated};
use kernels::{KernelCatalogue, draw::Distribution};
use machine::{
    model::Model,
    squeezing::{SqueezeForm, SqueezeKind, SqueezeProfile},
};
use squeeze::{CalibrateSqueeze, recipe::SqueezeDomain, victims::KnownVictim};

/// The paper's machine.
const MODEL: &str = "sandy-bridge-ep-e5-2670";

/// As many draws as there are lines in a pass.
const KERNELS: &str = r#"
[[kernel]]
name = "random-lines"
about = "reads lines drawn at random"
source = "casas2017 §3.2.1"
streams = [{ name = "S", pattern = "drawn", distribution = "uni", element = 8 }]
unroll = 1
body = ["i = draw S", "v = iload4 S[i]"]
"#;

/// Strengths of each kind, as the command has them.
const STEPS: usize = 6;

/// Nobody interrupts a benchmark.
pub static NEVER: AtomicBool = AtomicBool::new(false);

/// The machine, or a part of it.
pub fn model(divisor: u32) -> Model {
    Model::builtin(MODEL).expect("a model").scaled(divisor).expect("a part of it")
}

/// It as a host, with the kernels of this benchmark.
pub fn host(model: &Model, seed: u64) -> Simulated {
    let mut catalogue = KernelCatalogue::builtin().expect("kernels");
    catalogue.add(KERNELS, "benchmark").expect("kernels");
    Simulated::with_kernels(model, catalogue, seed)
}

/// Those of a calibration unless others are named.
pub fn victims() -> Vec<KnownVictim> {
    [(Distribution::Uni, 1), (Distribution::Norm6, 1), (Distribution::Exp6, 10), (Distribution::Tri2, 10)]
        .into_iter()
        .map(|(distribution, additions)| KnownVictim { distribution, additions, times: 2.6 })
        .collect()
}

/// What `memwall squeeze --calibrate` would keep.
pub fn calibrated(
    model: &Model,
    form: Option<SqueezeForm>,
    victims: Vec<KnownVictim>,
) -> (SqueezeDomain, SqueezeProfile) {
    let domain = SqueezeDomain::of(&model.topology(), None, None).expect("a shared cache");
    // What was calibrated once may be read again: `MEMWALL_SQUEEZE_PROFILE` names the file.
    let kept = std::env::var_os("MEMWALL_SQUEEZE_PROFILE").map(std::path::PathBuf::from);
    if let Some(text) = kept.as_ref().and_then(|path| std::fs::read_to_string(path).ok()) {
        return (domain, serde_json::from_str(&text).expect("a squeeze profile"));
    }
    let steps = if form == Some(SqueezeForm::Paper) { 5 } else { STEPS };
    let request = CalibrateSqueeze {
        victims,
        storage_form: form,
        bandwidth_form: form,
        steps,
        known_sets: squeeze::KNOWN_SETS,
        repeat: RepeatPlan::within(1e8, 0.01),
        known_repeat: RepeatPlan::within(1e8, 0.01),
        seed: 1,
        now: 0,
    };
    let mut host = host(model, 1);
    let mut tell = |what: &str, share: f64| eprintln!("{:3.0} % {what}", share * 100.0);
    let profile = squeeze::calibrate(&mut host, &domain, None, Vec::new(), &request, &mut tell, &NEVER)
        .expect("calibrated");
    if let Some(path) = kept {
        std::fs::write(path, serde_json::to_string(&profile).expect("JSON")).expect("kept");
    }
    (domain, profile)
}

/// What each strength leaves, one line each.
pub fn show(profile: &SqueezeProfile) {
    for kind in SqueezeKind::ALL {
        for point in profile.points(kind) {
            let left = point.left(kind);
            let unit = if kind == SqueezeKind::Storage { 1048576.0 } else { 1e9 };
            let show = |value: Option<f64>, unit: f64| {
                value.map_or("–".to_owned(), |value| format!("{:.3}", value / unit))
            };
            println!(
                "{kind}: {:?} left {} ({} to {}); cache {} bandwidth {} drawn {}",
                point.interference.map(|one| (one.form, one.threads, one.bytes_each.0, one.pause)),
                show(left.map(|left| left.value), unit),
                show(left.map(|left| left.low), unit),
                show(left.map(|left| left.high), unit),
                show(point.cache_left.map(|left| left.value), 1048576.0),
                show(point.bandwidth_left.map(|left| left.value), 1e9),
                show(point.drawn, 1e9),
            );
        }
    }
    profile.tried.iter().for_each(|(_, why)| println!("not chosen: {why}"));
    println!(
        "orthogonal {} and {} of 5 strengths",
        profile.storage_orthogonal - 1,
        profile.bandwidth_orthogonal - 1
    );
}

/// What each form draws by itself, by pause.
fn draws(model: &Model) {
    use host::Host as _;
    let domain = SqueezeDomain::of(&model.topology(), None, None).expect("a shared cache");
    for form in [SqueezeForm::Reading, SqueezeForm::Writing] {
        for pause in [0, 20, 100, 500, 2000, 4000] {
            let mut host = host(model, 1);
            let job =
                squeeze::recipe::job(&host, &domain.bandwidth(form, 5, pause), &domain.spare).expect("a job");
            host.run_beside(&[job]).expect("beside");
            let idle = host.job("add-chain", machine::Bytes(0), &[0]).expect("a job");
            let length = host::VictimLength { warm_up: 300, timed: 3000 };
            let found =
                host.watch_victim(&idle, length, &RepeatPlan::within(1e8, 0.01), &NEVER).expect("a reading");
            println!(
                "{form:?} {pause}: {:?} {:?} {:?}",
                found.memory_bytes_per_s, found.beside, found.measured.repeated
            );
        }
    }
}

/// `101..140`, both ends included.
fn seeds(text: &str) -> Option<std::ops::RangeInclusive<u64>> {
    let (first, last) = text.split_once("..")?;
    Some(first.parse().ok()?..=last.parse().ok()?)
}

fn main() {
    // Cargo's own words are not ours.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let divisor = words.iter().find_map(|word| word.parse().ok()).unwrap_or(16);
    let range = words.iter().find_map(|word| seeds(word)).unwrap_or(1..=4);
    let model = model(divisor);
    println!("simulated {}, seeds {}..{}", model.name, range.start(), range.end());
    match words.first().map(String::as_str) {
        Some("paper") => paper::print(&model, divisor, words.iter().any(|word| word == "all")),
        Some("needs") => needs::print(&model, range),
        Some("draw") => draws(&model),
        Some("configurations") => {
            let many = range.clone().count();
            paper::configurations(&model, divisor, many, *range.start());
        }
        Some("both") => paper::both(&model),
        Some("predict") => predictions::print(&model, range),
        Some("pairs") => predictions::print_pairs(&model, range),
        Some("mapping") => predictions::print_mapping(&model),
        _ => println!("what? paper, configurations, both, needs, predict, pairs or mapping"),
    }
}
