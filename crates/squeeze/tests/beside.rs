//! Interference as hosts run it: on a small simulated machine what it takes is told to the bit, on this one only that it runs.

use std::sync::atomic::AtomicBool;

use host::{Host, VictimLength, native::Native, repeat::RepeatPlan, simulated::Simulated};
use kernels::draw::Distribution;
use machine::{Bytes, Source, Topology, model::Model, squeezing::SqueezeForm};
use squeeze::{
    recipe::{self, SqueezeDomain},
    victims::KnownVictim,
};

static NEVER: AtomicBool = AtomicBool::new(false);

fn plan() -> RepeatPlan {
    RepeatPlan::within(1e7, 0.05)
}

/// A sixty-fourth of the paper's machine: 320 KiB of L3, eight cores.
fn small() -> (Simulated, SqueezeDomain) {
    let model = Model::builtin("sandy-bridge-ep-e5-2670").expect("a model").scaled(64).expect("a part of it");
    let domain = SqueezeDomain::of(&model.topology(), None, None).expect("a shared cache");
    (Simulated::new(&model, 1).expect("a host"), domain)
}

/// Room that a uniform victim finds, as a share of the cache.
fn room(host: &mut dyn Host, domain: &SqueezeDomain) -> f64 {
    let victim = KnownVictim { distribution: Distribution::Uni, additions: 1, times: 2.0 };
    let reading = victim.watch(host, domain.cache, domain.own[0], &plan(), &NEVER).expect("a reading");
    let found = victim.found(&reading, domain.cache, None).expect("a table").expect("counted");
    found.capacity.expect("a capacity") / domain.cache.0 as f64
}

/// Bytes per second of a stream on the cores of the program.
fn stream(host: &mut dyn Host, domain: &SqueezeDomain) -> f64 {
    let job = host.job("load", Bytes(domain.cache.0 * 12), &domain.own).expect("a job");
    let length = VictimLength { warm_up: 400, timed: 800 };
    let reading = host.watch_victim(&job, length, &plan(), &NEVER).expect("a reading");
    reading.measured.program_bytes_per_s().expect("a time").value
}

#[test]
fn threads_hold_what_they_are_to_hold_and_no_more() {
    let (mut host, domain) = small();
    let whole = room(&mut host, &domain);
    assert!((0.9..1.05).contains(&whole), "{whole}");
    for (form, share) in [(SqueezeForm::Paper, 0.4), (SqueezeForm::Shared, 0.4)] {
        let interference = domain.storage(form, share);
        let job = recipe::job(&host, &interference, &domain.spare).expect("a job");
        host.run_beside(&[job]).expect("beside");
        let left = room(&mut host, &domain);
        // On so small a machine whole pages are more than the share, and the table of 1024 entries that each thread draws
        // from counts too.
        let each = interference.bytes_each.0 + 8 * kernels::draw::SLOTS as u64;
        let held = (each * interference.threads as u64) as f64 / domain.cache.0 as f64;
        assert!((left - (whole - held)).abs() < 0.08, "{form:?}: {left} of {whole}");
    }
    // Nothing runs there any more, and all is as it was.
    host.run_beside(&[]).expect("nothing");
    assert_eq!(room(&mut host, &domain), whole);
}

#[test]
fn writing_past_the_caches_takes_bandwidth_and_no_room() {
    let (mut host, domain) = small();
    let (whole, alone) = (room(&mut host, &domain), stream(&mut host, &domain));
    let interference = domain.bandwidth(SqueezeForm::Writing, 5, 0);
    let job = recipe::job(&host, &interference, &domain.spare).expect("a job");
    host.run_beside(&[job]).expect("beside");
    assert!((room(&mut host, &domain) / whole - 1.0).abs() < 0.05);
    let squeezed = stream(&mut host, &domain);
    assert!(squeezed < 0.7 * alone, "{squeezed} of {alone}");
    let slower =
        recipe::job(&host, &domain.bandwidth(SqueezeForm::Writing, 5, 50), &domain.spare).expect("a job");
    host.run_beside(&[slower]).expect("beside");
    assert!(stream(&mut host, &domain) > squeezed, "a pause leaves more");
}

#[test]
fn more_threads_than_spare_cpus_are_refused() {
    let (host, domain) = small();
    let six = machine::squeezing::Interference { threads: 6, ..domain.bandwidth(SqueezeForm::Paper, 5, 0) };
    assert!(recipe::job(&host, &six, &domain.spare).is_err());
}

#[test]
fn on_this_machine_it_runs_until_it_is_no_longer_wanted() {
    let topology = Topology::read(&Source::live());
    let cpus: Vec<u32> = topology.usable_cpus().iter().collect();
    let mut host = Native::new(&Source::live(), 1).expect("a host");
    let beside = host.job("bandwidth-writer", Bytes::kib(64), &cpus[cpus.len() - 1..]).expect("a job");
    let idle = host.job("add-chain", Bytes(0), &cpus[..1]).expect("a job");
    let length = VictimLength { warm_up: 1, timed: 1 };
    host.run_beside(&[beside]).expect("beside");
    // On one CPU they take turns, and the first look may come before its turn.
    let moved = (0..100).any(|_| {
        let reading = host.watch_victim(&idle, length, &plan(), &NEVER).expect("a reading");
        reading.beside.expect("beside").described_bytes_per_s > 0.0
    });
    assert!(moved);
    host.run_beside(&[]).expect("nothing");
    assert_eq!(host.watch_victim(&idle, length, &plan(), &NEVER).expect("a reading").beside, None);
}
