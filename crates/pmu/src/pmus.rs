//! The PMUs that sysfs lists. Being listed is a claim: only opening an event shows that there is something behind it.

use std::{collections::BTreeMap, fs, path::Path};

use machine::CpuSet;

use crate::{
    KernelEvent,
    field::{Field, FieldError, apply},
};

/// One PMU as sysfs describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// Folder name, such as `cpu` or `uncore_imc_0`.
    pub name: String,
    /// Goes into [`KernelEvent::kind`].
    pub kind: u32,
    /// CPUs to open an event on, once each, to cover the machine. `None`: not an uncore PMU.
    pub cpumask: Option<CpuSet>,
    /// CPUs that have this PMU, on machines with several core PMUs.
    pub cpus: Option<CpuSet>,
    /// Where its fields lie.
    pub fields: BTreeMap<String, Field>,
    /// Its named events, as text.
    pub events: BTreeMap<String, String>,
}

impl Pmu {
    /// Every PMU listed under `root` that states its type, by name.
    pub fn list(root: &Path) -> Vec<Self> {
        let folder = root.join("sys/bus/event_source/devices");
        let mut pmus: Vec<_> = fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| Self::read(&entry.path(), entry.file_name().into_string().ok()?))
            .collect();
        pmus.sort_by_key(|pmu| natural(&pmu.name));
        pmus
    }

    fn read(folder: &Path, name: String) -> Option<Self> {
        let text = |file: &str| fs::read_to_string(folder.join(file)).ok();
        let cpus = |file| text(file)?.parse().ok();
        Some(Self {
            kind: text("type")?.trim().parse().ok()?,
            cpumask: cpus("cpumask"),
            cpus: cpus("cpus"),
            fields: files(&folder.join("format"))
                .filter_map(|(name, text)| Some((name, Field::parse(&text).ok()?)))
                .collect(),
            // `NAME.scale` and `NAME.unit` describe an event and are none themselves.
            events: files(&folder.join("events")).filter(|(name, _)| !name.contains('.')).collect(),
            name,
        })
    }

    /// A PMU of the cores: `cpu`, or one per kind of core on hybrid machines and Arm.
    pub fn is_core(&self) -> bool {
        self.cpumask.is_none()
            && (self.name == "cpu"
                || self.name.starts_with("cpu_")
                || (self.name.starts_with("arm") && self.cpus.is_some()))
    }

    /// A PMU outside the cores.
    pub fn is_uncore(&self) -> bool {
        const PREFIXES: [&str; 8] =
            ["uncore_", "amd_umc", "amd_df", "amd_l3", "arm_cmn", "arm_dmc", "hisi_sccl", "nvidia_"];
        PREFIXES.iter().any(|prefix| self.name.starts_with(prefix))
    }

    /// An uncore PMU that sees what memory delivers.
    pub fn is_memory_controller(&self) -> bool {
        const PREFIXES: [&str; 4] = ["uncore_imc", "amd_umc", "amd_df", "arm_dmc"];
        self.is_uncore()
            && (PREFIXES.iter().any(|prefix| self.name.starts_with(prefix)) || self.name.contains("ddrc"))
    }

    /// The named event, ready to be opened.
    pub fn event(&self, name: &str) -> Option<Result<KernelEvent, FieldError>> {
        let mut event = KernelEvent::new(self.kind, 0);
        let text = self.events.get(name)?;
        Some(apply(text, &self.fields, &mut event).map(|()| event))
    }
}

/// Name and text of each readable file in a folder.
fn files(folder: &Path) -> impl Iterator<Item = (String, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        Some((entry.file_name().into_string().ok()?, fs::read_to_string(entry.path()).ok()?))
    })
}

/// Sorts `imc_2` before `imc_10`.
fn natural(name: &str) -> (String, Option<u32>) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem.to_owned(), name[stem.len()..].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/bus/event_source/devices").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn what_sysfs_lists() {
        let root = tree(&[
            ("cpu_core/type", "4\n"),
            ("cpu_core/cpus", "0-15\n"),
            ("cpu_atom/type", "10\n"),
            ("cpu_atom/cpus", "16-23\n"),
            ("uncore_imc_10/type", "31\n"),
            ("uncore_imc_10/cpumask", "0,28\n"),
            ("uncore_imc_2/type", "23\n"),
            ("uncore_imc_2/cpumask", "0\n"),
            ("uncore_imc_2/format/event", "config:0-7\n"),
            ("uncore_imc_2/format/umask", "config:8-15\n"),
            ("uncore_imc_2/events/cas_count_read", "event=0x04,umask=0x03\n"),
            ("uncore_imc_2/events/cas_count_read.scale", "6.103515625e-5\n"),
            ("broken/type", "many\n"),
        ]);
        let pmus = Pmu::list(root.path());
        let names: Vec<_> = pmus.iter().map(|pmu| pmu.name.as_str()).collect();
        assert_eq!(names, ["cpu_atom", "cpu_core", "uncore_imc_2", "uncore_imc_10"]);
        assert!(pmus[0].is_core() && !pmus[0].is_uncore());
        assert_eq!(pmus[0].cpus, Some("16-23".parse().unwrap()));
        let imc = &pmus[2];
        assert!(imc.is_uncore() && imc.is_memory_controller() && !imc.is_core());
        assert_eq!(imc.event("cas_count_read"), Some(Ok(KernelEvent::new(23, 0x0304))));
        assert_eq!(imc.event("cas_count_read.scale"), None);
    }

    #[test]
    fn no_sysfs_no_pmus() {
        assert_eq!(Pmu::list(Path::new("/nonexistent")), []);
    }
}
