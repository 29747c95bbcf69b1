//! Predictions against the simulated truth: less cache, less bandwidth, two on a socket, four processes.

use host::{
    Host,
    scenario::{self, ScenarioJob},
};
use machine::{
    Bytes,
    model::Model,
    squeezing::{SqueezeKind, SqueezeProfile},
};
use record::squeeze::SqueezeRun;
use squeeze::{
    predict::{self, Amount, SmallerMachine},
    recipe::SqueezeDomain,
};

use super::needs;

/// Programs that each is run beside.
const PARTNERS: usize = 2;

/// Simulated time of region `work` on a model, at a pace found on another.
fn time_ns(model: &Model, paced_on: &Model, text: &str, cpus: &[u32]) -> f64 {
    let scenario = needs::parse(text);
    let request = ScenarioJob { scenario: &scenario, cpus, scale: 1 };
    let mut original = super::host(paced_on, scenario.seed);
    let paces = scenario::find_pace(&request, &mut original, &super::NEVER).expect("a pace");
    let mut host = super::host(model, scenario.seed);
    let host: &mut dyn Host = &mut host;
    let run = scenario::run_at_pace(&request, host, &paces, &super::NEVER).expect("a run");
    run.regions.iter().find(|region| region.name == "work").expect("its region").wall_ns()
}

fn half_cache(model: &Model) -> Model {
    let mut half = model.clone();
    if let Some(l3) = &mut half.l3 {
        l3.geometry.size = Bytes(l3.geometry.size.0 / 2);
        l3.geometry.ways /= 2;
    }
    half
}

fn half_bandwidth(model: &Model) -> Model {
    let mut half = model.clone();
    half.memory.channels /= 2;
    half
}

pub fn print(model: &Model, seeds: std::ops::RangeInclusive<u64>) {
    let (domain, profile) = super::calibrated(model, None, super::victims());
    println!("| seed | program | machine | predicted | interval | simulated | off % |");
    println!("|---|---|---|---|---|---|---|");
    for seed in seeds {
        let need = needs::draw(seed, &domain, &profile);
        let run = needs::kept(model, seed, &need, &domain, &profile);
        let alone = time_ns(model, model, &need.text, &domain.own[..3]);
        let half = Some(Amount::Share(0.5));
        for (what, smaller, machine) in [
            ("half the cache", SmallerMachine { cache: half, bandwidth: None }, half_cache(model)),
            ("half the bandwidth", SmallerMachine { cache: None, bandwidth: half }, half_bandwidth(model)),
        ] {
            let truth = time_ns(&machine, model, &need.text, &domain.own[..3]) / alone;
            row(seed, &need.name, what, &predict::on_smaller(&run, smaller), truth);
        }
    }
}

/// Four processes of a quarter of the cache each.
pub fn print_mapping(model: &Model) {
    let (domain, profile) = super::calibrated(model, None, super::victims());
    mapping(model, &domain, &profile);
}

fn row(seed: u64, name: &str, what: &str, answer: &record::predict::PredictAnswer, truth: f64) {
    match (&answer.slowdown, &answer.refused) {
        (Some(found), _) => println!(
            "| {seed} | {name} | {what} | {:.3} | {:.3} to {:.3} | {truth:.3} | {:.1} |",
            found.value,
            found.low,
            found.high,
            100.0 * (found.value / truth - 1.0)
        ),
        (None, Some(why)) => println!("| {seed} | {name} | {what} | refused: {why} | – | {truth:.3} | – |"),
        (None, None) => {}
    }
}

/// Each program beside the next few that do one thing only, which run on three other CPUs of the socket meanwhile.
pub fn print_pairs(model: &Model, seeds: std::ops::RangeInclusive<u64>) {
    let (domain, profile) = super::calibrated(model, None, super::victims());
    println!("| seed | program | machine | predicted | interval | simulated | off % |");
    println!("|---|---|---|---|---|---|---|");
    let runs: Vec<(u64, needs::KnownNeed, SqueezeRun)> = seeds
        .map(|seed| {
            let need = needs::draw(seed, &domain, &profile);
            let run = needs::kept(model, seed, &need, &domain, &profile);
            (seed, need, run)
        })
        .collect();
    let (mut told, mut refused) = (Vec::new(), 0);
    for (index, (seed, need, run)) in runs.iter().enumerate() {
        let alone = time_ns(model, model, &need.text, &domain.own[..3]);
        let others = runs.iter().cycle().skip(index + 1).take(runs.len() - 1);
        let others =
            others.filter_map(|(_, other, run)| Some((other, run, beside_job(model, other, &domain)?)));
        for (other, other_run, job) in others.take(PARTNERS) {
            let truth = time_beside(model, &need.text, &domain.own[..3], &job) / alone;
            let [answer, _] = predict::side_by_side(run, other_run, Some(&profile));
            match &answer.slowdown {
                Some(found) => told
                    .push((100.0 * (found.value - truth).abs(), (found.low..=found.high).contains(&truth))),
                None => refused += 1,
            }
            row(*seed, &need.name, &format!("beside {}", other.name), &answer, truth);
        }
    }
    let within = told.iter().filter(|(points, _)| *points <= 10.0).count();
    let inside = told.iter().filter(|(_, inside)| *inside).count();
    println!(
        "two on a socket: {within} of {} within 10 points, {inside} within their intervals, worst {:.1}; {refused} refused",
        told.len(),
        told.iter().fold(0.0, |worst: f64, (points, _)| worst.max(*points))
    );
}

/// A program that does one thing, as work that runs beside others; none of one that does several or nothing.
fn beside_job(model: &Model, need: &needs::KnownNeed, domain: &SqueezeDomain) -> Option<kernels::Job> {
    let scenario = needs::parse(&need.text);
    let mut host = super::host(model, scenario.seed);
    let cpus = &domain.spare[..3];
    match (need.cache > 0.0, need.bandwidth > 0.0) {
        (true, false) => {
            let job = host.job(need.name.trim(), Bytes(need.cache as u64), &cpus[..1]);
            Some(job.expect("a job"))
        }
        (false, true) => {
            let request = ScenarioJob { scenario: &scenario, cpus: &domain.own[..3], scale: 1 };
            let paces = scenario::find_pace(&request, &mut host, &super::NEVER).expect("a pace");
            let job = host.job("delayed-read", Bytes(domain.cache.0 * 12), cpus).expect("a job");
            Some(job.with("nops", paces.last().expect("a pace").pace.nops).expect("a pause"))
        }
        _ => None,
    }
}

/// Simulated time of region `work` while a job runs beside it.
fn time_beside(model: &Model, text: &str, cpus: &[u32], job: &kernels::Job) -> f64 {
    let scenario = needs::parse(text);
    let request = ScenarioJob { scenario: &scenario, cpus, scale: 1 };
    let mut host = super::host(model, scenario.seed);
    let paces = scenario::find_pace(&request, &mut host, &super::NEVER).expect("a pace");
    host.run_beside(std::slice::from_ref(job)).expect("beside");
    let run = scenario::run_at_pace(&request, &mut host, &paces, &super::NEVER).expect("a run");
    run.regions.iter().find(|region| region.name == "work").expect("its region").wall_ns()
}

fn mapping(model: &Model, domain: &SqueezeDomain, profile: &SqueezeProfile) {
    let each = domain.cache.0 / 4;
    let text = |threads: usize| {
        let mut text = format!(
            "name = \"quarter\"\nabout = \"a quarter of the cache\"\nthreads = {threads}\nseed = 1\n"
        );
        text += &format!("[[buffer]]\nname = \"set\"\nsize = {each}\nsharing = \"private\"\n");
        for region in ["warm", "work"] {
            text += &format!(
                "[[region]]\nname = \"{region}\"\n[[region.step]]\nkernel = \"random-lines\"\nbuffer = \"set\"\npasses = 10\n"
            );
        }
        text
    };
    let run = needs::squeezed(model, &text(1), domain, profile, true);
    let (answers, best) = predict::best_mapping(&run, &[1, 2, 4], Some(profile));
    let alone = time_ns(model, model, &text(1), &[0]);
    for (many, answer) in [1usize, 2, 4].into_iter().zip(&answers) {
        let cpus: Vec<u32> = (0..many as u32).collect();
        let truth = time_ns(model, model, &text(many), &cpus) / alone;
        row(0, "quarter of the cache", &format!("{many} on a socket"), answer, truth);
    }
    if let Some(best) = best {
        let cause = best.cause.map_or("nothing", SqueezeKind::name);
        println!("best mapping: {} on a socket ({}); cause {cause}", best.per_socket, best.why);
    }
}
