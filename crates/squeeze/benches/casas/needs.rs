//! Programs whose needs are known, by seed: bounds against the truth.

use host::scenario::{self as scenarios, ScenarioJob};
use kernels::{
    draw::SplitMix,
    scenario::{self, Scenario},
};
use machine::{
    model::Model,
    squeezing::{SqueezeKind, SqueezeProfile},
};
use record::squeeze::{SqueezeCurve, SqueezeRun, TimedBy};
use squeeze::{
    mixture::{self, MixturePoint},
    recipe::SqueezeDomain,
    scenario::ScenarioSubject,
    session::{SessionPlan, SubjectFacts},
};

/// A program and what it needs.
pub struct KnownNeed {
    pub name: String,
    /// Bytes of cache.
    pub cache: f64,
    /// Bytes per second that its stream is asked to hold.
    pub bandwidth: f64,
    pub text: String,
}

fn uniform(random: &mut SplitMix, low: f64, high: f64) -> f64 {
    low + (high - low) * (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Draws a program: a working set, a stream, both in turn, or neither.
pub fn draw(seed: u64, domain: &SqueezeDomain, profile: &SqueezeProfile) -> KnownNeed {
    let mut random = SplitMix::new(seed.wrapping_mul(0x9e37_79b9));
    let which = random.below(8);
    let (wants_cache, wants_bandwidth) = (which < 4, (2..6).contains(&which));
    let chase = random.below(2) == 1;
    let cache = uniform(&mut random, 0.15, 0.9) * domain.cache.0 as f64;
    let cache = (cache / 4096.0).round() * 4096.0;
    let least = profile.orthogonal(SqueezeKind::Bandwidth).last().and_then(|point| point.bandwidth_left);
    let least = least.map_or(0.3, |left| left.value / profile.bandwidth).max(0.2);
    // What three cores can draw without being at their limit, and what interference can leave.
    let bandwidth = uniform(&mut random, (least * 1.1).min(0.5), 0.6) * profile.bandwidth;
    let mut text = "name = \"need\"\nabout = \"known need\"\nthreads = 3\nseed = SEED\n"
        .replace("SEED", &seed.to_string());
    text += &format!("[[buffer]]\nname = \"set\"\nsize = {}\n", cache as u64);
    // Twice the cache: nothing of it is met again, and a set that comes in turn with it is driven out once each time.
    text += &format!("[[buffer]]\nname = \"stream\"\nsize = {}\n", 2 * domain.cache.0);
    // A core's own cache holds it on every part of the machine.
    let few = domain.private.0.min(16384) / 4;
    text += &format!("[[buffer]]\nname = \"few\"\nsize = {few}\n");
    // About half of the time for the stream of a program that does both, whatever the size of its set.
    let (kernel, passes) = if chase { ("chase", 6) } else { ("random-lines", 18) };
    let stream_passes = match wants_cache {
        true => (12.0 * cache / domain.cache.0 as f64).round().max(1.0) as u64,
        false => 1,
    };
    let mut parts = Vec::new();
    if wants_cache {
        parts.push((
            "set",
            format!("kernel = \"{kernel}\"\nbuffer = \"set\"\npasses = {passes}\nthreads = [0]\n"),
        ));
    }
    if wants_bandwidth {
        let rate = format!("rate = \"{:.3}GB/s\"", bandwidth / 1e9);
        let step =
            format!("kernel = \"delayed-read\"\nbuffer = \"stream\"\npasses = {stream_passes}\n{rate}\n");
        parts.push(("stream", step));
    }
    if parts.is_empty() {
        parts.push(("few", "kernel = \"sum\"\nbuffer = \"few\"\npasses = 500\n".to_owned()));
    }
    for region in ["warm", "work"] {
        text += &format!("[[region]]\nname = \"{region}\"\n");
        match parts.as_slice() {
            [(_, step)] => text += &format!("[[region.step]]\n{step}"),
            // Threads go through the steps of one region without waiting: what comes in turn has regions of its own.
            several => several.iter().for_each(|(name, step)| {
                text +=
                    &format!("[[region.region]]\nname = \"{region}-{name}\"\n[[region.region.step]]\n{step}");
            }),
        }
    }
    KnownNeed {
        name: format!(
            "{}{}",
            if wants_cache { kernel } else { "" },
            if wants_bandwidth {
                " stream"
            } else if wants_cache {
                ""
            } else {
                "neither"
            }
        ),
        cache: if wants_cache { cache } else { 0.0 },
        bandwidth: if wants_bandwidth { bandwidth } else { 0.0 },
        text,
    }
}

pub fn parse(text: &str) -> Scenario {
    let mut catalogue = kernels::KernelCatalogue::builtin().expect("kernels");
    catalogue.add(super::KERNELS, "benchmark").expect("kernels");
    scenario::parse(text, "known need", &catalogue, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Squeezes a scenario, timed by its region `work`.
pub fn squeezed(
    model: &Model,
    text: &str,
    domain: &SqueezeDomain,
    profile: &SqueezeProfile,
    whole_curves: bool,
) -> SqueezeRun {
    let scenario = parse(text);
    let mut host = super::host(model, scenario.seed);
    let threads = scenario.threads.unwrap_or(1);
    let cpus = &domain.own[..threads.min(domain.own.len())];
    let request = ScenarioJob { scenario: &scenario, cpus, scale: 1 };
    let region = Some("work".to_owned());
    let mut subject =
        ScenarioSubject::prepare(&mut host, None, request, region, &domain.spare, &super::NEVER)
            .expect("a subject");
    let facts = SubjectFacts {
        program: scenario.name.clone(),
        simulated: Some(model.name.clone()),
        timed_by: TimedBy::Region("work".to_owned()),
        cpus: cpus.iter().copied().collect(),
        processes: 1,
        threads: Some(threads),
        cpus_do: subject.cpus_do(1).expect("a plan"),
    };
    let plan =
        SessionPlan { harm: 0.05, budget_s: None, seed: 1, kinds: SqueezeKind::ALL.to_vec(), whole_curves };
    squeeze::session::squeeze(&mut subject, &facts, profile, &plan, &mut |_| {}).expect("squeezed")
}

/// What the stream of a program comes to alone, bytes per second: a core cannot hold every pace.
fn held_rate(model: &Model, need: &KnownNeed, domain: &SqueezeDomain) -> Option<f64> {
    let scenario = parse(&need.text);
    let request = ScenarioJob { scenario: &scenario, cpus: &domain.own[..3], scale: 1 };
    let mut host = super::host(model, scenario.seed);
    let paces = scenarios::find_pace(&request, &mut host, &super::NEVER).expect("a pace");
    paces.last().map(|pace| pace.pace.alone_bytes_per_s)
}

/// Whether bounds hold a need, if there are any, and how wide they are as a share of the whole if both ends are there.
fn judged(curve: &SqueezeCurve, need: f64) -> (Option<bool>, Option<f64>) {
    let Some(bounds) = curve.bounds else { return (None, None) };
    let holds =
        bounds.at_least.is_none_or(|low| need >= low) && bounds.at_most.is_none_or(|high| need <= high);
    let width =
        bounds.at_least.zip(bounds.at_most).zip(curve.whole).map(|((low, high), whole)| (high - low) / whole);
    (Some(holds), width)
}

/// The same, or what an earlier run of this benchmark kept: `MEMWALL_SQUEEZE_RUNS` names a folder. Bounds are found anew.
pub fn kept(
    model: &Model,
    seed: u64,
    need: &KnownNeed,
    domain: &SqueezeDomain,
    profile: &SqueezeProfile,
) -> SqueezeRun {
    let folder = std::env::var_os("MEMWALL_SQUEEZE_RUNS").map(std::path::PathBuf::from);
    let file = folder.map(|folder| folder.join(format!("{seed}.json")));
    let text = file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    let mut run: SqueezeRun = match text {
        Some(text) => serde_json::from_str(&text).expect("a run"),
        None => squeezed(model, &need.text, domain, profile, true),
    };
    if let Some(file) = file {
        std::fs::write(file, serde_json::to_string(&run).expect("JSON")).expect("kept");
    }
    explain_anew(&mut run, profile);
    run
}

/// Bounds and parts as the program at hand finds them.
fn explain_anew(run: &mut SqueezeRun, profile: &SqueezeProfile) {
    let measured: Vec<MixturePoint<'_>> = [&run.storage, &run.bandwidth]
        .into_iter()
        .flat_map(|curve| curve.points.iter().map(|point| (curve.kind, point)))
        .filter_map(|(kind, point)| {
            let known =
                profile.points(kind).iter().find(|known| known.interference == Some(point.interference))?;
            Some(MixturePoint { kind, known: &known.known, slowdown: point.slowdown })
        })
        .collect();
    let Some(found) = mixture::explain(&profile.known, &measured, Some(run.cpus.len())) else {
        (run.storage.bounds, run.bandwidth.bounds) = (None, None);
        return;
    };
    (run.storage.bounds, run.bandwidth.bounds, run.parts) = (found.cache, found.bandwidth, found.parts);
}

pub fn print(model: &Model, seeds: std::ops::RangeInclusive<u64>) {
    let (domain, profile) = super::calibrated(model, None, super::victims());
    super::show(&profile);
    println!("| seed | program | cache needed | bounds | bandwidth needed | bounds | held |");
    println!("|---|---|---|---|---|---|---|");
    let (mut all, mut held, mut widths) = (0, 0, [Vec::new(), Vec::new()]);
    for seed in seeds {
        let need = draw(seed, &domain, &profile);
        let run = kept(model, seed, &need, &domain, &profile);
        let (cache, cache_width) = judged(&run.storage, need.cache);
        let rate = held_rate(model, &need, &domain).unwrap_or(0.0);
        let (bandwidth, bandwidth_width) = judged(&run.bandwidth, rate);
        if std::env::var_os("MEMWALL_SQUEEZE_POINTS").is_some() {
            for point in run.storage.points.iter().chain(&run.bandwidth.points) {
                eprintln!(
                    "  {} left {:.3e}: {:.3}",
                    point.interference.kind, point.left.value, point.slowdown.value
                );
            }
            eprintln!("  {:?}", run.parts);
        }
        widths[0].extend(cache_width);
        widths[1].extend(bandwidth_width);
        let given = [cache, bandwidth].into_iter().flatten();
        all += given.clone().count();
        held += given.filter(|holds| *holds).count();
        println!(
            "| {seed} | {} | {:.3} | {} | {:.1} | {} | {} |",
            need.name,
            need.cache / 1048576.0,
            shown(&run.storage, 1048576.0),
            rate / 1e9,
            shown(&run.bandwidth, 1e9),
            match (cache, bandwidth) {
                (Some(false), Some(false)) => "neither",
                (Some(false), _) => "not the cache",
                (_, Some(false)) => "not the bandwidth",
                (None, None) => "nothing said",
                _ => "yes",
            }
        );
    }
    println!("\nheld {held} of {all} bounds ({:.1} %)", 100.0 * held as f64 / all as f64);
    for (kind, widths) in SqueezeKind::ALL.iter().zip(&mut widths) {
        widths.sort_by(f64::total_cmp);
        let most = widths.last().copied().unwrap_or(f64::NAN);
        println!(
            "{kind}: {} with both ends, width at most {:.0} % of the whole, median {:.0} %",
            widths.len(),
            most * 100.0,
            widths.get(widths.len() / 2).copied().unwrap_or(f64::NAN) * 100.0
        );
    }
}

fn shown(curve: &SqueezeCurve, unit: f64) -> String {
    let end = |end: Option<f64>| end.map_or("–".to_owned(), |value| format!("{:.2}", value / unit));
    curve
        .bounds
        .map_or("none".to_owned(), |bounds| format!("{} to {}", end(bounds.at_least), end(bounds.at_most)))
}
