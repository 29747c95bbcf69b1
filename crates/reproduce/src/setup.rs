//! What runs for a row: a kernel, its data, where, and under which circumstances.

use std::collections::BTreeMap;

use machine::{Bytes, Width, model::Model};
use serde::{Deserialize, Deserializer, de::Error as _};
use trust::KernelPlace;

use crate::squeezed::SqueezedSetup;

/// Known work for one number of a paper.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PaperSetup {
    /// The kernel.
    pub kernel: String,
    /// Its parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, u64>,
    /// Where its data lies; the size follows from the machine.
    #[serde(default)]
    pub level: Option<KernelPlace>,
    /// How much data instead, all threads together.
    #[serde(default, deserialize_with = "in_words")]
    pub size: Option<Bytes>,
    /// Width of its vectors; the widest if none.
    #[serde(default)]
    pub width: Option<Width>,
    /// How many cores of the first package; 0 for all of them.
    #[serde(default = "one")]
    pub cores: u32,
    /// The second half of the cores is of the other package.
    #[serde(default)]
    pub across: bool,
    /// Its data lies on pages of 4 KiB instead of 2 MiB.
    #[serde(default)]
    pub small_pages: bool,
    /// Its data lies in memory of another package.
    #[serde(default)]
    pub remote: bool,
    /// Prefetchers are on.
    #[serde(default = "yes")]
    pub prefetch: bool,
    /// The model it runs on, if not that of the paper.
    #[serde(default)]
    pub model: Option<String>,
    /// The clock of its cores, if not the machine's own.
    #[serde(default)]
    pub core_mhz: Option<u64>,
    /// Repetitions, each with another seed.
    #[serde(default = "one")]
    pub seeds: u32,
    /// Others disturb it, as the paper's file says.
    #[serde(default)]
    pub noise: bool,
    /// Loads are sampled too: one in so many.
    #[serde(default)]
    pub sample_one_in: Option<u64>,
    /// Counts of each CPU are kept apart too, as `EVENT@cpu0`.
    #[serde(default)]
    pub by_cpu: bool,
    /// Instructions of each thread that are counted, if not as many as a bandwidth needs.
    #[serde(default)]
    pub instructions: Option<u64>,
    /// Whole passes that are counted instead, the first time over the data.
    #[serde(default)]
    pub cold_passes: Option<u64>,
    /// It is a victim of interference threads.
    #[serde(default)]
    pub squeezed: Option<SqueezedSetup>,
}

/// `16K`, as people write it.
fn in_words<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Bytes>, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map(Some).map_err(|error| D::Error::custom(format!("{text}: {error}")))
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl PaperSetup {
    /// The model at the clock that this wants, under its own name: events are those of the model.
    pub fn clocked(&self, model: Model) -> Model {
        match self.core_mhz {
            Some(mhz) => Model { name: model.name.clone(), ..model.at_core_clock(mhz * 1_000_000) },
            None => model,
        }
    }

    /// How many cores that is on a model.
    pub fn cores_on(&self, model: &Model) -> u32 {
        match self.cores {
            0 => model.cores_per_socket,
            cores => cores.min(model.cores_per_socket),
        }
    }

    /// The CPUs its threads run on.
    pub fn cpus(&self, model: &Model) -> Vec<u32> {
        let cores = self.cores_on(model);
        match self.across && model.sockets > 1 {
            true => {
                (0..cores / 2).chain((0..cores - cores / 2).map(|cpu| model.cores_per_socket + cpu)).collect()
            }
            false => (0..cores).collect(),
        }
    }

    /// How much data, all threads together: half of a private cache holds it surely; four times the level above leaves
    /// nothing there; four times all caches is gone before it is met again.
    pub fn bytes(&self, model: &Model) -> Bytes {
        if let Some(size) = self.size {
            return size;
        }
        let cores = u64::from(self.cores_on(model).max(1));
        let (l1, l2) = (model.l1d.geometry.size.0, model.l2.geometry.size.0);
        let l3 = model.l3.as_ref().map_or(l2 * cores, |l3| l3.geometry.size.0);
        Bytes(match self.level {
            None | Some(KernelPlace::Registers) => 0,
            Some(KernelPlace::L1) => l1 / 2 * cores,
            Some(KernelPlace::L2) => l2 / 2 * cores,
            Some(KernelPlace::L3) => (l2 * 4 * cores).min(l3 / 2),
            Some(KernelPlace::Memory) => l3 * 4,
        })
    }

    /// In words that no other setup has.
    pub fn key(&self) -> String {
        let mut text = self.kernel.clone();
        for (name, value) in &self.parameters {
            text += &format!(" {name}={value}");
        }
        match (self.level, self.size) {
            (_, Some(size)) => text += &format!(" over {size}"),
            (Some(level), None) => text += &format!(" in {}", level.name()),
            (None, None) => {}
        }
        text += &self.width.map_or(String::new(), |width| format!(", {}", width.name()));
        match self.cores {
            1 => {}
            0 => text += ", all cores of a package",
            cores => text += &format!(", {cores} cores"),
        }
        let words = [
            (self.across, ", half of them of the other package".to_owned()),
            (self.small_pages, ", small pages".to_owned()),
            (self.remote, ", remote".to_owned()),
            (!self.prefetch, ", prefetchers off".to_owned()),
            (self.noise, ", disturbed".to_owned()),
            (self.by_cpu, ", by CPU".to_owned()),
        ];
        words.iter().filter(|(said, _)| *said).for_each(|(_, word)| text += word);
        let numbers = [
            ("one load sampled in", self.sample_one_in),
            ("instructions", self.instructions),
            ("cold passes", self.cold_passes),
            ("core clock in MHz", self.core_mhz),
        ];
        for (what, number) in numbers {
            text += &number.map_or(String::new(), |number| format!(", {what} {number}"));
        }
        text += &self.squeezed.as_ref().map_or(String::new(), SqueezedSetup::key);
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(text: &str) -> PaperSetup {
        toml::from_str(text).expect("a setup")
    }

    #[test]
    fn sizes_and_cpus_follow_from_the_machine() {
        let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
        let all = setup("kernel = 'load'\nlevel = 'L3'\ncores = 0");
        assert_eq!((all.cpus(&model).len(), all.bytes(&model)), (12, Bytes::mib(12)));
        let two = setup("kernel = 'producer-consumer'\nsize = '64K'\ncores = 2\nacross = true");
        assert_eq!((two.cpus(&model), two.bytes(&model)), (vec![0, 12], Bytes::kib(64)));
        assert_ne!(all.key(), two.key());
    }
}
