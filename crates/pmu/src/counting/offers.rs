//! Names understood here, and everything that can be counted.

use std::collections::BTreeSet;

use events::{
    Catalogue, CountRefusal, CountRequest, CountShare, Event, Offer, Scope, Signal, TooMany,
    names::{self, Context, NameError, PmuView},
};
use machine::topology::CpuIdentity;

use super::{PerfEvents, resctrl::MonGroup};

impl PerfEvents<'_> {
    pub(super) fn resolve_name(&self, name: &str) -> Result<Event, CountRefusal> {
        match names::parse(name, &self.context(true)) {
            Ok(parsed) => Ok(parsed.event),
            Err(error) => Err(self.unknown(name, &error)),
        }
    }

    /// A PMU that is not here says more than a name that is not known.
    fn unknown(&self, name: &str, error: &NameError) -> CountRefusal {
        let pmu = name.split_once('/').map(|(pmu, _)| pmu).filter(|pmu| *pmu != "resctrl");
        let absent = pmu.filter(|wanted| !self.pmus().iter().any(|pmu| names::is_box_of(&pmu.name, wanted)));
        let hint = match (absent, error.near.as_slice()) {
            (Some(pmu), _) => self.no_such_pmu(pmu),
            (None, []) => {
                format!("{} (at {}); `memwall events` lists what there is", error.message, error.position)
            }
            (None, near) => {
                format!("{} (at {}); did you mean {}?", error.message, error.position, near.join(", "))
            }
        };
        CountRefusal::UnknownEvent { name: name.to_owned(), hint }
    }

    /// The event file of this machine's cores.
    pub fn catalogue(&self) -> Option<&'static Catalogue> {
        *self.catalogue.get_or_init(|| {
            let cpuid = self.source.cpuid().0?;
            let (family, model, stepping) = cpuid.signature()?;
            Catalogue::for_cpu(&CpuIdentity {
                vendor: cpuid.vendor(),
                family: Some(family),
                model: Some(model),
                stepping: Some(stepping),
                ..CpuIdentity::default()
            })
        })
    }

    /// What names are understood against.
    pub fn context(&self, libpfm: bool) -> Context<'_> {
        let view = |pmu: &crate::Pmu| PmuView {
            name: pmu.name.clone(),
            kind: pmu.kind,
            fields: pmu.fields.keys().cloned().collect(),
            events: pmu.events.clone(),
        };
        let pmus = self.views.get_or_init(|| self.pmus().iter().map(view).collect());
        Context { catalogue: self.catalogue(), pmus, libpfm }
    }

    /// Everything there is a name for, each tried.
    pub(super) fn all_offers(&self) -> Vec<Offer> {
        let mut offers = Vec::new();
        for entry in self.catalogue().into_iter().flat_map(|catalogue| &catalogue.entries) {
            let refused = self.refused(&entry.event());
            offers.push(Offer {
                name: entry.name.clone(),
                summary: entry.summary().to_owned(),
                origin: "catalogue",
                refused,
            });
        }
        let generic = names::generic::all().into_iter();
        offers.extend(generic.filter_map(|name| self.named(name, "kernel", "generic event of the kernel")));
        offers.extend(self.sysfs_names().into_iter().filter_map(|(name, text)| {
            let summary = format!("listed by sysfs as {text}");
            self.named(name, "sysfs", &summary)
        }));
        for feature in MonGroup::features(&self.source) {
            let name = format!("resctrl/{feature}/");
            offers.extend(self.named(name, "sysfs", "kept by resctrl for a group of threads"));
        }
        offers
    }

    fn named(&self, name: String, origin: &'static str, summary: &str) -> Option<Offer> {
        let event = names::parse(&name, &self.context(false)).ok()?.event;
        let refused = self.refused(&event);
        Some(Offer { name, summary: summary.to_owned(), origin, refused })
    }

    /// Named events of every PMU, the boxes of one name only once.
    fn sysfs_names(&self) -> BTreeSet<(String, String)> {
        let mut seen = BTreeSet::new();
        for pmu in self.pmus() {
            let stem = pmu.name.trim_end_matches(|digit: char| digit.is_ascii_digit());
            let base = stem.strip_suffix('_').filter(|_| stem.len() < pmu.name.len()).unwrap_or(&pmu.name);
            seen.extend(
                pmu.events.iter().map(|(name, text)| (format!("{base}/{name}/"), text.trim().to_owned())),
            );
        }
        seen
    }

    /// Why an event cannot be counted, tried on this thread or its boxes.
    fn refused(&self, event: &Event) -> Option<String> {
        if let Signal::Resctrl(_) = event.signal {
            return MonGroup::create(&self.source).err();
        }
        let request = CountRequest {
            events: vec![event.clone()],
            scope: Scope::ThisThread,
            too_many: TooMany::Multiplex,
            share: CountShare::Together,
        };
        match self.open_counting(&request) {
            Ok(_) => None,
            Err(CountRefusal::Failed { reason, .. } | CountRefusal::NotHere { reason, .. }) => Some(reason),
            Err(other) => Some(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use events::Instrument;
    use machine::Source;

    use super::*;
    use crate::{
        Errno,
        scripted::{Behaviour, Scripted},
    };

    #[test]
    fn what_is_offered_was_tried() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join("sys/bus/event_source/devices").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        for number in [0, 1] {
            write(&format!("uncore_imc_{number}/type"), "20\n");
            write(&format!("uncore_imc_{number}/cpumask"), "0\n");
            write(&format!("uncore_imc_{number}/format/event"), "config:0-7\n");
            write(&format!("uncore_imc_{number}/events/clockticks"), "event=0xff\n");
        }
        let kernel = Scripted::new(|request| match request.event.kind {
            1 => Ok(Behaviour::counts(1)),
            _ => Err(Errno(libc::ENODEV)),
        });
        let here = PerfEvents::new(&kernel, Source::under(root.path()));
        let offers = here.offers();
        let offer = |name: &str| offers.iter().filter(|offer| offer.name == name).collect::<Vec<_>>();
        assert_eq!(offer("page-faults")[0].refused, None);
        assert!(offer("cycles").is_empty(), "an alias is not listed beside its name");
        assert!(offer("cpu-cycles")[0].refused.as_ref().unwrap().contains("ENODEV"));
        let [clock] = offer("uncore_imc/clockticks/")[..] else {
            panic!("boxes are listed once");
        };
        assert_eq!((clock.origin, clock.summary.as_str()), ("sysfs", "listed by sysfs as event=0xff"));
        assert!(clock.refused.is_some());
        let unknown = here.resolve("page-fautls").unwrap_err().to_string();
        assert!(unknown.contains("page-faults"), "{unknown}");
        let absent = here.resolve("uncore_upi/event=1/").unwrap_err().to_string();
        assert!(absent.contains("the kernel lists no PMU 'uncore_upi' here"), "{absent}");
    }
}
