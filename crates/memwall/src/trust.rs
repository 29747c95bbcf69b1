//! What was validated of the machine that a command is about.

use ::trust::TrustCatalogue;
use analysis::marking::{Broken, mark};
use machine::{Source, Topology, fingerprint::FingerprintChange, profile::Fingerprint, store::Store};
use record::import::ImportRecord;
use validate::consult::{Kept, consult};

use crate::{failure::AsChain as _, target::Target};

/// The trust that the indicators of a machine have earned. One that cannot be had is a reason, never a failure: values
/// without it are untested.
pub fn of(machine: &Target) -> TrustCatalogue {
    match machine {
        Target::Native => {
            let source = Source::live();
            let events = events::Catalogue::for_cpu(&Topology::read(&source).cpu);
            of_machine(&Fingerprint::read(&source), None, events)
        }
        Target::Simulated(model) => {
            let events = events::Catalogue::for_model(model);
            of_machine(&Fingerprint::of_model(model), Some(&model.name), events)
        }
    }
}

/// The same by fingerprint; of a simulated machine with the name of its model. Without the events of its CPU only what is
/// no hardware event is found.
pub fn of_machine(
    fingerprint: &Fingerprint,
    simulated: Option<&str>,
    events: Option<&'static events::Catalogue>,
) -> TrustCatalogue {
    let kept = match Store::of_user() {
        Ok(store) => consult(&store, fingerprint, simulated).map_err(|error| error.chain()),
        Err(error) => Err(error.chain()),
    };
    let (machine, same) = match simulated {
        Some(_) => ("this simulated machine", " with the same --on"),
        None => ("this machine", ""),
    };
    match kept {
        Ok(Kept::Same(validation)) => TrustCatalogue::of(*validation, events),
        Ok(Kept::Other { differs, .. }) => {
            let differs: Vec<String> = differs.iter().map(FingerprintChange::to_string).collect();
            let what = if differs.is_empty() { String::new() } else { format!(" ({})", differs.join("; ")) };
            TrustCatalogue::missing(format!(
                "the validation that is kept is not of {machine} as it is now{what}, so it is not used; \
                 'memwall validate'{same} makes one"
            ))
        }
        Ok(Kept::Nothing) => TrustCatalogue::missing(format!(
            "{machine} was not validated; 'memwall validate'{same} finds out what can be believed"
        )),
        Err(reason) => TrustCatalogue::missing(reason),
    }
}

/// Of an imported recording: what the validation says that was given with it. Counts get their trust beside them.
pub fn of_import(import: &mut ImportRecord) -> TrustCatalogue {
    let events = import.machine.events.as_deref().and_then(|name| events::Catalogue::named(name).ok());
    let trusted = match import.validation.as_deref() {
        Some(validation) => TrustCatalogue::of(validation.clone(), events),
        None => TrustCatalogue::missing(
            "it was imported, and no validation of the machine that recorded was given ('memwall import --trust FILE')",
        ),
    };
    import.counts.iter_mut().for_each(|counts| mark(counts, &trusted, Broken::Withheld));
    trusted
}

/// Seconds since 1970.
pub fn now() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
