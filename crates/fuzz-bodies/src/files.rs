//! Text files: what the kernel says of a machine, what users write, what memwall keeps.

use std::{
    fs,
    path::{Component, Path},
    sync::OnceLock,
};

use events::{
    Catalogue, MetricGroup,
    names::{self, Context},
};
use kernels::{Kernel, KernelCatalogue, assemble, geometry, parse, scenario};
use machine::{Bytes, Isa, Source, Topology, cpuid::Cpuid, model::Model, profile::Fingerprint, store::Store};
use validate::keep;

use crate::seeds;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// A tree of files, as `tail` shows several: `==> PATH <==` before each.
pub fn sysfs(bytes: &[u8]) -> bool {
    let Ok(root) = seeds::folder() else { return false };
    let all = String::from_utf8_lossy(bytes);
    for file in all.split("==> ").skip(1).take(400) {
        let Some((path, content)) = file.split_once(" <==\n") else { continue };
        // Some names cannot be written, and none may lead elsewhere.
        let path = Path::new(path);
        if path.components().all(|part| matches!(part, Component::Normal(_)))
            && let Some(parent) = path.parent()
            && fs::create_dir_all(root.path().join(parent)).is_ok()
        {
            let _ = fs::write(root.path().join(path), content);
        }
    }
    let source = Source::under(root.path());
    let topology = Topology::read(&source);
    let fingerprint = Fingerprint::read(&source);
    let drawn = report::terminal::topology::text(&topology, 100);
    !topology.cpus.is_empty() && !fingerprint.id.is_empty() && !drawn.is_empty()
}

/// What `cpuid -r` prints.
pub fn cpuid(bytes: &[u8]) -> bool {
    let (found, _) = Cpuid::parse(&String::from_utf8_lossy(bytes));
    found.is_some_and(|cpuid| cpuid.vendor().is_some())
}

/// A user's kernels: also assembled, as whoever runs them would.
pub fn kernels(bytes: &[u8]) -> bool {
    let Some(Ok(descriptions)) = text(bytes).map(|text| parse::kernels(text, "fuzz.toml")) else {
        return false;
    };
    for kernel in descriptions.into_iter().map(Kernel::new) {
        let threads = kernel.description().fixed_threads().unwrap_or(1);
        for &width in kernel.widths() {
            if let Ok(parts) = geometry::divide(&kernel, width, Bytes::kib(64), threads)
                && let Ok(program) = assemble(&kernel, width, &parts[0], 0)
            {
                assert!(program.blocks(0).is_ok(), "{} {width} does not decode", kernel.name());
            }
        }
    }
    true
}

/// A user's scenario: also planned.
pub fn scenario(bytes: &[u8]) -> bool {
    static CATALOGUE: OnceLock<Option<KernelCatalogue>> = OnceLock::new();
    let Some(catalogue) = CATALOGUE.get_or_init(|| KernelCatalogue::builtin().ok()) else { return false };
    let parsed = text(bytes).map(|text| scenario::parse(text, "fuzz.toml", catalogue, &[]));
    let Some(Ok(scenario)) = parsed else { return false };
    let _ = scenario::Plan::new(&scenario, scenario.threads.unwrap_or(2), &Isa::native(), 1);
    true
}

/// A model of a machine.
pub fn model(bytes: &[u8]) -> bool {
    text(bytes).is_some_and(|text| Model::parse(text, "fuzz.toml").is_ok())
}

/// Events of a microarchitecture.
pub fn events(bytes: &[u8]) -> bool {
    text(bytes).is_some_and(|text| Catalogue::parse(text, "fuzz.toml").is_ok())
}

/// Groups of events, with formulas.
pub fn groups(bytes: &[u8]) -> bool {
    text(bytes).is_some_and(|text| MetricGroup::parse(text, "fuzz.toml").is_ok())
}

/// The name of an event, as on the command line.
pub fn event_name(bytes: &[u8]) -> bool {
    let catalogue = Catalogue::named("haswell-ep").ok();
    let context = Context { catalogue, pmus: &[], libpfm: false };
    text(bytes).is_some_and(|text| names::parse(text, &context).is_ok())
}

/// A profile that was kept.
pub fn profile(bytes: &[u8]) -> bool {
    let Ok(folder) = seeds::folder() else { return false };
    if fs::write(folder.path().join("a.json"), bytes).is_err() {
        return false;
    }
    let Ok(Some(profile)) = Store::at(folder.path()).load("a") else { return false };
    let _ = report::terminal::profile::text(&profile, 1_700_000_000, 100);
    let _ = report::html::profile(&profile, &[]);
    true
}

/// A validation that was kept, observations of an unfinished one, or random kernels that were tried.
pub fn validation(bytes: &[u8]) -> bool {
    let Ok(folder) = seeds::folder() else { return false };
    let files = keep::Files::beside(&Store::at(folder.path().join("profiles")), "a");
    let write = |name: &str| fs::write(files.directory().join(name), bytes).is_ok();
    if fs::create_dir_all(files.directory()).is_err() || !write("a.json") || !write("a.observations") {
        return false;
    }
    let _ = files.observations();
    let cases = if write("a.unseen") { files.cases() } else { Vec::new() };
    let _ = report::terminal::validate::cases(&cases);
    if !cases.is_empty() {
        return true;
    }
    let Ok(Some(validation)) = files.load() else { return false };
    let _ = report::html::validate(&validation);
    let _ = report::terminal::validate::text(&validation, 100);
    true
}
