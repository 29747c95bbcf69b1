//! Ranks of a program of several processes: which one we are, and names that tell their recordings apart.

use std::path::{Path, PathBuf};

use record::file::LaunchedRank;

use crate::{failure::Failure, output};

/// Variables in which launchers tell a process its number, and how many there are; the first that is set counts.
const LAUNCHERS: [(&str, &str); 7] = [
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMIX_RANK", "PMIX_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
    ("PALS_RANKID", "PALS_SIZE"),
    ("ALPS_APP_PE", "ALPS_APP_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
];

/// Set within a step of Slurm, but not in the script around it, which has a number too.
const SLURM_STEP: &str = "SLURM_STEP_ID";

/// What is known of the process we are.
pub struct LaunchEnvironment<'a> {
    /// A variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// The name of the machine.
    pub node: String,
    /// Our number.
    pub pid: u32,
}

impl LaunchEnvironment<'static> {
    /// Our own.
    pub fn here() -> Self {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { variable: &|name| std::env::var(name).ok(), node, pid: std::process::id() }
    }
}

impl LaunchEnvironment<'_> {
    /// The rank that a launcher says we are; none if there is no launcher.
    pub fn rank(&self) -> Option<LaunchedRank> {
        let number = |name: &str| (self.variable)(name)?.parse().ok();
        let (rank, ranks) = LAUNCHERS
            .iter()
            .filter(|(rank, _)| *rank != "SLURM_PROCID" || (self.variable)(SLURM_STEP).is_some())
            .find_map(|(rank, ranks)| Some((number(rank)?, number(ranks))))?;
        Some(LaunchedRank { rank, ranks, node: self.node.clone() })
    }

    /// The name with its marks resolved: `%q{VARIABLE}`, `%r` (rank), `%p` (our number), `%h` (machine), `%%`. Where a
    /// launcher started several of us, a name without marks gets the rank before its ending: none loses its recording.
    pub fn resolve(&self, name: &Path) -> Result<PathBuf, Failure> {
        // Marks are ASCII: a name in another encoding has none that we would find.
        let Some(text) = name.to_str() else { return Ok(name.to_owned()) };
        if text.contains('%') {
            return self.resolve_marks(text).map(PathBuf::from);
        }
        match self.rank().filter(|rank| rank.ranks != Some(1)) {
            Some(LaunchedRank { rank, .. }) => Ok(with_rank(name, rank)),
            None => Ok(name.to_owned()),
        }
    }

    fn resolve_marks(&self, text: &str) -> Result<String, Failure> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, mark)) = rest.split_once('%') {
            out += before;
            let bad = |why: &str| Failure::Usage(format!("--output {text}: {why}"));
            let mut letters = mark.chars();
            rest = match letters.next() {
                Some('%') => {
                    out.push('%');
                    letters.as_str()
                }
                Some('p') => {
                    out += &self.pid.to_string();
                    letters.as_str()
                }
                Some('h') => {
                    out += &self.node;
                    letters.as_str()
                }
                Some('r') => {
                    let rank = self
                        .rank()
                        .ok_or_else(|| bad("%r is the rank, and no launcher says which this is"))?;
                    out += &rank.rank.to_string();
                    letters.as_str()
                }
                Some('q') => {
                    let named = letters.as_str().strip_prefix('{').and_then(|rest| rest.split_once('}'));
                    let (variable, after) = named.ok_or_else(|| bad("write %q{VARIABLE}"))?;
                    let value =
                        (self.variable)(variable).ok_or_else(|| bad(&format!("{variable} is not set")))?;
                    // It names a file, not a way to another folder.
                    out += &value.replace('/', "_");
                    after
                }
                _ => return Err(bad("write %q{VARIABLE}, %r, %p, %h, or %% for the letter itself")),
            };
        }
        Ok(out + rest)
    }
}

/// `run.sqlite` becomes `run.3.sqlite`.
fn with_rank(name: &Path, rank: u32) -> PathBuf {
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let ending = name.extension().map(|ending| format!(".{}", ending.to_string_lossy())).unwrap_or_default();
    name.with_file_name(format!("{stem}.{rank}{ending}"))
}

/// Notes in a recording which rank it is of, if a launcher says so.
pub fn note(recording: &Path) {
    let Some(rank) = LaunchEnvironment::here().rank() else { return };
    // The recording is whole without it.
    if let Err(error) = record::file::add_rank(recording, &rank) {
        output::say(&format!("which rank it was is not in the recording: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str, variables: &'static [(&'static str, &'static str)]) -> Result<String, Failure> {
        let variable = |wanted: &str| {
            variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
        };
        let here = LaunchEnvironment { variable: &variable, node: "n7".to_owned(), pid: 42 };
        here.resolve(Path::new(name)).map(|path| path.display().to_string())
    }

    const OPEN_MPI: &[(&str, &str)] = &[("OMPI_COMM_WORLD_RANK", "3"), ("OMPI_COMM_WORLD_SIZE", "4")];

    #[test]
    fn marks_are_resolved() {
        let name = "d/run.%q{OMPI_COMM_WORLD_RANK}.%r.%h.%p.%%.sqlite";
        assert_eq!(resolved(name, OPEN_MPI).ok().as_deref(), Some("d/run.3.3.n7.42.%.sqlite"));
        assert_eq!(resolved("a.%q{A}.sqlite", &[("A", "x/../y")]).ok().as_deref(), Some("a.x_.._y.sqlite"));
        for (name, why) in [
            ("%r", "no launcher"),
            ("%q{NONE}", "NONE is not set"),
            ("%x", "%q{"),
            ("a%", "%q{"),
            ("%q", "%q{"),
        ] {
            let Err(Failure::Usage(line)) = resolved(name, &[]) else { panic!("{name}") };
            assert!(line.contains(why), "{line}");
        }
    }

    #[test]
    fn ranks_with_one_name_get_names_of_their_own() {
        assert_eq!(resolved("d/run.sqlite", OPEN_MPI).ok().as_deref(), Some("d/run.3.sqlite"));
        assert_eq!(resolved("run", OPEN_MPI).ok().as_deref(), Some("run.3"));
        assert_eq!(resolved("run.sqlite", &[]).ok().as_deref(), Some("run.sqlite"));
        let alone = &[("PMI_RANK", "0"), ("PMI_SIZE", "1")];
        assert_eq!(resolved("run.sqlite", alone).ok().as_deref(), Some("run.sqlite"));
        // The script of a job has a number too, and is no rank.
        let script = &[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "4")];
        assert_eq!(resolved("run.sqlite", script).ok().as_deref(), Some("run.sqlite"));
        let step = &[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_ID", "0")];
        assert_eq!(resolved("run.sqlite", step).ok().as_deref(), Some("run.2.sqlite"));
    }
}
