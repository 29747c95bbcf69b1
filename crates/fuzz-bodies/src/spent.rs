//! How much processor time each target has had in all, in a file of the source tree: sessions add up.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use fuzz_bodies::TARGETS;

/// What each target is to have.
const WANTED: f64 = 3600.0;

const HEADING: &str = "# Processor seconds that each target has had: `damaged` of damaged seeds, `guided` of libFuzzer.\n\
                       # Written by `memwall-fuzz`; see CONTRIBUTING.md.\n\n";

/// Who chose the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Damage to seeds, blindly.
    Damaged,
    /// libFuzzer, which sees what code an input reaches.
    Guided,
}

impl Engine {
    fn word(self) -> &'static str {
        match self {
            Self::Damaged => "damaged",
            Self::Guided => "guided",
        }
    }
}

/// Seconds by target and engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Spent {
    seconds: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Spent {
    /// What was spent so far.
    pub fn read() -> io::Result<Self> {
        Self::read_from(&path())
    }

    /// Adds to it.
    pub fn add(target: &str, engine: Engine, time: Duration) -> io::Result<()> {
        Self::add_to(&path(), target, engine, time)
    }

    fn read_from(path: &Path) -> io::Result<Self> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let seconds = toml::from_str(&text).map_err(io::Error::other)?;
        Ok(Self { seconds })
    }

    fn add_to(path: &Path, target: &str, engine: Engine, time: Duration) -> io::Result<()> {
        // Others may have added meanwhile.
        let mut spent = Self::read_from(path)?;
        let so_far = spent.seconds.entry(target.to_owned()).or_default().entry(engine.word().to_owned());
        let sum = so_far.or_default();
        // Tenths: more would be digits that nobody reads.
        *sum = ((*sum + time.as_secs_f64()) * 10.0).round() / 10.0;
        let text = toml::to_string(&spent.seconds).map_err(io::Error::other)?;
        fs::write(path, format!("{HEADING}{text}"))
    }

    /// All targets, those that had the least first.
    pub fn table(&self) -> String {
        let of = |target: &str, engine: Engine| {
            self.seconds.get(target).and_then(|each| each.get(engine.word())).copied().unwrap_or(0.0)
        };
        let mut rows: Vec<_> = TARGETS
            .iter()
            .map(|target| (target.name, of(target.name, Engine::Damaged), of(target.name, Engine::Guided)))
            .collect();
        rows.sort_by(|a, b| a.2.total_cmp(&b.2));
        let mut text = format!("{:<18} {:>10} {:>10} {:>10}\n", "CPU seconds", "damaged", "guided", "to do");
        for (name, damaged, guided) in rows {
            let left = (WANTED - guided).max(0.0);
            let _ = writeln!(text, "{name:<18} {damaged:>10.1} {guided:>10.1} {left:>10.1}");
        }
        text
    }
}

fn path() -> PathBuf {
    crate::root().join("fuzz/spent.toml")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_add_up() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spent.toml");
        for _ in 0..2 {
            Spent::add_to(&path, "elf", Engine::Guided, Duration::from_millis(1500)).expect("a file");
        }
        Spent::add_to(&path, "elf", Engine::Damaged, Duration::from_secs(7)).expect("a file");
        let spent = Spent::read_from(&path).expect("what was written");
        let table = spent.table();
        let row = table.lines().find(|line| line.starts_with("elf ")).expect("a row");
        let of_elf: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(of_elf, ["elf", "7.0", "3.0", "3597.0"]);
    }

    #[test]
    fn the_kept_account_names_only_targets() {
        for name in Spent::read().expect("the account").seconds.keys() {
            assert!(TARGETS.iter().any(|target| target.name == name), "{name}");
        }
    }
}
