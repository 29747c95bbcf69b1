//! casas2017 §3: a victim beside interference threads, on a part of the machine. What such a setup gives are names that begin with
//! `victim_`.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use host::{Host as _, VictimLength, VictimReading, repeat::RepeatPlan, simulated::Simulated};
use kernels::draw::Distribution;
use machine::{Bytes, model::Model, squeezing::SqueezeForm};
use serde::Deserialize;
use squeeze::{
    casas::{self, CasasConfiguration, PUBLISHED_CACHE_MB},
    recipe::{self, SqueezeDomain},
    victims::KnownVictim,
};

use crate::setup::PaperSetup;

/// What names of a victim begin with.
pub(crate) const PREFIX: &str = "victim_";
/// Configurations that are drawn, and the seed.
const CONFIGURATIONS: usize = 60;
const SEED: u64 = 1;
const MB: f64 = 1048576.0;
/// A buffer of the bandwidth thread: its data is in so many (§2.1).
const BUFFERS: u64 = 44;
const LINE: u64 = 64;
/// Steps of an iteration of a chase.
const CHASE_STEPS: u64 = 16;
/// Iterations of a simulated stream: queues and prefetchers are then as full as they get.
const STREAM_LENGTH: VictimLength = VictimLength { warm_up: 1500, timed: 3000 };
/// Data of a stream on each CPU, in times of the cache.
const STREAM_TIMES: u64 = 4;

/// What runs beside a victim, and on which part of the machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqueezedSetup {
    /// What the machine's caches are divided by.
    #[serde(default = "sixteenth")]
    pub part: u32,
    /// Storage threads of 4 of 20 MB each.
    #[serde(default)]
    pub storage: usize,
    /// Bandwidth threads of 44 buffers each.
    #[serde(default)]
    pub bandwidth: usize,
    /// The victim is that of one of the sixty configurations of §3.2.3, and the kernel's name is not looked at.
    #[serde(default)]
    pub configuration: Option<usize>,
    /// It draws from this distribution whatever it is taken for: a mutant's.
    #[serde(skip)]
    pub draws: Option<Distribution>,
    /// Its threads are those of the configuration.
    #[serde(default)]
    pub own_threads: bool,
}

fn sixteenth() -> u32 {
    16
}

impl SqueezedSetup {
    /// In words that no other has.
    pub fn key(&self) -> String {
        let mut text = format!(
            ", 1/{} of the caches, beside {} storage and {} bandwidth threads",
            self.part, self.storage, self.bandwidth
        );
        if let Some(configuration) = self.configuration {
            text += &format!(", configuration {configuration}");
        }
        if self.own_threads {
            text += " with its own";
        }
        text
    }

    /// Takes a value that varies; false if it has no such.
    pub fn change(&mut self, what: &str, value: u64) -> bool {
        match what {
            "part" => self.part = value as u32,
            "storage" => self.storage = value as usize,
            "bandwidth" => self.bandwidth = value as usize,
            "configuration" => self.configuration = Some(value as usize),
            _ => return false,
        }
        true
    }

    fn configured(&self) -> Option<CasasConfiguration> {
        let one = *casas::configurations(CONFIGURATIONS, SEED).get(self.configuration?)?;
        Some(CasasConfiguration { threads: if self.own_threads { one.threads } else { self.storage }, ..one })
    }
}

/// Runs a victim; in words why not.
pub(crate) fn run(
    model: &Model,
    setup: &PaperSetup,
    squeezed: &SqueezedSetup,
    interrupt: &AtomicBool,
) -> Result<BTreeMap<String, f64>, String> {
    let model = model.scaled(squeezed.part).map_err(|error| error.to_string())?;
    let domain = SqueezeDomain::of(&model.topology(), None, None).ok_or("no shared cache")?;
    let kernels = kernels::KernelCatalogue::builtin().map_err(|error| error.to_string())?;
    let mut host = Simulated::with_kernels(&model, kernels, 1);
    let mut values = BTreeMap::new();
    let in_mb = |bytes: f64| bytes * f64::from(squeezed.part) / MB;
    if let Some(configuration) = squeezed.configured().or_else(|| random(setup, squeezed)) {
        let found = casas::measure(&mut host, &domain, configuration, squeezed.draws, interrupt);
        let found = found.map_err(|error| error.to_string())?;
        let mut add = |name: &str, value: f64| _ = values.insert(format!("{PREFIX}{name}"), value);
        add("mb", in_mb(found.found.size.0 as f64));
        add("hit_rate", found.found.hit_rate);
        add("che", found.expected_che);
        add("casas", found.expected_casas);
        // In points of the hit rate; what is divided by a flag of 0 is left out of a mean.
        add("che_off", 100.0 * (found.expected_che - found.found.hit_rate).abs());
        add("casas_off", 100.0 * (found.expected_casas - found.found.hit_rate).abs());
        let flag = |said: bool| f64::from(u8::from(said));
        add("above_half", flag(found.found.hit_rate < 0.5));
        for threads in 0..casas::PUBLISHED_MB.len() {
            add(&format!("beside_{threads}"), flag(configuration.threads == threads));
        }
        for additions in [1, 10, 100] {
            add(&format!("adds_{additions}"), flag(configuration.victim.additions == additions));
        }
        found.found.capacity.into_iter().for_each(|room| add("room_mb", in_mb(room)));
        found.found.capacity_casas.into_iter().for_each(|room| add("room_casas_mb", in_mb(room)));
    } else {
        let reading = thread(&mut host, &domain, setup, squeezed, interrupt)?;
        add_thread(&mut values, &reading);
    }
    match interrupt.load(Ordering::Relaxed) {
        true => Err("interrupted".to_owned()),
        false => Ok(values),
    }
}

/// A victim of a known distribution that the setup names.
fn random(setup: &PaperSetup, squeezed: &SqueezedSetup) -> Option<CasasConfiguration> {
    let distribution = setup.kernel.strip_prefix("random-")?.parse().ok()?;
    let additions = setup.parameters.get("adds").copied().unwrap_or(1);
    let times = setup.size?.0 as f64 / MB / PUBLISHED_CACHE_MB;
    let victim = KnownVictim { distribution, additions, times };
    Some(CasasConfiguration { victim, threads: squeezed.storage })
}

/// An interference thread as the victim of others, or a stream.
fn thread(
    host: &mut Simulated,
    domain: &SqueezeDomain,
    setup: &PaperSetup,
    squeezed: &SqueezedSetup,
    interrupt: &AtomicBool,
) -> Result<VictimReading, String> {
    let mut taken = Vec::new();
    if squeezed.storage > 0 {
        taken.push(domain.storage(SqueezeForm::Paper, 0.2 * squeezed.storage as f64));
    }
    if squeezed.bandwidth > 0 {
        taken.push(domain.bandwidth(SqueezeForm::Paper, squeezed.bandwidth, 0));
    }
    let one = &domain.own[..1];
    let (size, cpus, length) = match setup.kernel.as_str() {
        "bandwidth-thread" => {
            let size = domain.bandwidth(SqueezeForm::Paper, 1, 0).bytes_each;
            // All lines of each buffer twice, then once more.
            let pass = size.0 / BUFFERS / LINE;
            (size, one, VictimLength { warm_up: 2 * pass, timed: pass })
        }
        "cache-storage-thread" => {
            let size = domain.storage(SqueezeForm::Paper, 0.2).bytes_each;
            let lines = size.0 / LINE;
            (size, one, VictimLength { warm_up: 4 * lines, timed: 4 * lines })
        }
        "chase" => {
            let size = Bytes(setup.size.ok_or("a chase needs a size")?.0 / u64::from(squeezed.part));
            // The second pass finds what the first has left.
            let pass = size.0 / LINE / CHASE_STEPS;
            (size, one, VictimLength { warm_up: 2 * pass, timed: pass })
        }
        _ => {
            let cpus = domain.own.as_slice();
            (Bytes(domain.cache.0 * STREAM_TIMES * cpus.len() as u64), cpus, STREAM_LENGTH)
        }
    };
    recipe::take(host, None, &taken, &domain.spare).map_err(|error| error.to_string())?;
    let job = host.job(&setup.kernel, size, cpus).map_err(|error| error.to_string())?;
    let plan = RepeatPlan::within(1e8, 0.01);
    host.watch_victim(&job, length, &plan, interrupt).map_err(|error| error.to_string())
}

fn add_thread(values: &mut BTreeMap<String, f64>, reading: &VictimReading) {
    let mut add = |name: &str, value: f64| _ = values.insert(format!("{PREFIX}{name}"), value);
    if let Some(rate) = reading.measured.program_bytes_per_s() {
        add("gb_s", rate.value / 1e9);
    }
    reading.memory_bytes_per_s.into_iter().for_each(|rate| add("memory_gb_s", rate / 1e9));
    let Some(time_ns) = reading.measured.repeated.time_ns() else { return };
    // A pass goes over each line once.
    add("line_ns", time_ns.value / (reading.measured.size.0 / LINE).max(1) as f64);
    if let Some(loads) = reading.loads {
        add("iterations", loads.iterations as f64);
        add("misses", loads.from_memory as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> BTreeMap<String, f64> {
        let setup: PaperSetup = toml::from_str(text).expect("a setup");
        let model = Model::builtin("sandy-bridge-ep-e5-2670").expect("a model");
        let squeezed = setup.squeezed.clone().expect("squeezed");
        run(&model, &setup, &squeezed, &AtomicBool::new(false)).expect("a reading")
    }

    /// A sixty-fourth of the caches, where a thread's table of draws takes some room too.
    #[test]
    fn storage_threads_take_room_from_a_victim() {
        let victim = "kernel = 'random-uni'\nsize = '40M'\nsqueezed = { part = 64, storage = THREADS }";
        let room = |threads: &str| values(&victim.replace("THREADS", threads))["victim_room_mb"];
        let (none, two) = (room("0"), room("2"));
        assert!((18.0..20.5).contains(&none), "{none}");
        assert!((9.0..13.5).contains(&two), "{two}");
    }

    #[test]
    fn a_bandwidth_thread_misses_and_draws() {
        let found = values("kernel = 'bandwidth-thread'\nsqueezed = { part = 64 }");
        let lines = found["victim_iterations"] * BUFFERS as f64;
        let by_misses = 2.0 * 64.0 * found["victim_misses"] / (lines * found["victim_line_ns"]);
        assert!((1.0..20.0).contains(&by_misses), "{found:?}");
        assert!(found["victim_memory_gb_s"] > 0.8 * by_misses, "{found:?}");
    }

    #[test]
    fn what_varies_and_what_names_a_setup() {
        let mut setup: SqueezedSetup = toml::from_str("storage = 2").expect("a setup");
        assert_eq!((setup.part, setup.storage), (16, 2));
        let before = setup.key();
        assert!(setup.change("storage", 3) && setup.change("configuration", 7));
        assert_ne!(setup.key(), before);
        assert!(!setup.change("adds", 10), "that is the kernel's");
        assert_eq!(setup.configured().map(|one| one.threads), Some(3));
        setup.own_threads = true;
        let own = casas::configurations(CONFIGURATIONS, SEED)[7].threads;
        assert_eq!(setup.configured().map(|one| one.threads), Some(own));
    }
}
