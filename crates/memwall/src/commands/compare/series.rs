//! Two programs run in turn, the first against itself before that.

use std::{
    ffi::OsString,
    fs,
    os::fd::AsFd as _,
    path::{Path, PathBuf},
};

use analysis::compare::{ComparedRun, Comparison, compare, compare_programs, spoilt};
use indicatif::ProgressBar;
use machine::{Source, private, throttle::ThrottleWatch};
use recorder::{PassingFolder, ProgramOutput};

use crate::{
    commands::recording::{self, Recording},
    failure::Failure,
    progress,
};

/// Runs of each program if nobody says how many.
const DEFAULT_RUNS: u32 = 10;

/// Fewer runs that nobody spoilt do not judge.
const FEWEST_RUNS: usize = 2;

/// What between two programs stands.
const BETWEEN: &str = "--";

/// Two programs, and how often they are run.
pub struct Series {
    programs: [Vec<OsString>; 2],
    runs: u32,
    source: Source,
    folder: SeriesFolder,
}

/// Where recordings are.
enum SeriesFolder {
    /// Until they are compared.
    Passing(PassingFolder),
    /// As asked for.
    Kept(PathBuf),
}

/// One run: what it says, and what spoilt it.
struct SeriesRun {
    run: ComparedRun,
    spoilt: Option<String>,
}

/// Which run of the series comes next: of which program, and for which group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Turn {
    program: usize,
    group: Group,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// Files and caches of the system: not used.
    WarmUp,
    /// The first program against itself.
    Itself(usize),
    /// The comparison.
    Side(usize),
}

impl Series {
    /// From `OLD ARGS -- NEW ARGS`.
    pub fn of(words: &[OsString], runs: Option<u32>, keep: Option<&Path>) -> Result<Self, Failure> {
        let mut programs = words.split(|word| word == BETWEEN).map(<[OsString]>::to_vec);
        let programs = match (programs.next(), programs.next(), programs.next()) {
            (Some(old), Some(new), None) if !old.is_empty() && !new.is_empty() => [old, new],
            _ => {
                return Err(Failure::Usage(
                    "two programs are compared: write -- ./old args -- ./new args".to_owned(),
                ));
            }
        };
        let folder = match keep {
            Some(folder) => {
                private::create_folders(folder)
                    .map_err(|error| Failure::Usage(format!("--keep {}: {error}", folder.display())))?;
                SeriesFolder::Kept(folder.to_owned())
            }
            None => SeriesFolder::Passing(recording::passing()?.0),
        };
        Ok(Self { programs, runs: runs.unwrap_or(DEFAULT_RUNS), source: Source::live(), folder })
    }

    /// Runs all, and compares.
    pub fn comparison(&self) -> Result<Comparison, Failure> {
        // Each run gets the same, and none of what we might be given.
        let nothing = fs::File::open("/dev/null").map_err(Failure::measurement)?;
        rustix::stdio::dup2_stdin(nothing.as_fd())
            .map_err(|error| Failure::measurement(std::io::Error::from(error)))?;
        let turns = turns(self.runs);
        let bar = progress::counting(turns.len());
        let mut itself: [Vec<SeriesRun>; 2] = Default::default();
        let mut sides: [Vec<SeriesRun>; 2] = Default::default();
        for (index, turn) in turns.iter().enumerate() {
            let run = self.run(index, *turn, &bar)?;
            match turn.group {
                Group::WarmUp => {}
                Group::Itself(half) => itself[half].push(run),
                Group::Side(side) => sides[side].push(run),
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        let name = |side: usize| words_of(&self.programs[side]);
        let (own, _) = undisturbed(itself, |_| name(0))?;
        let ([before, after], dropped) = undisturbed(sides, name)?;
        let mut comparison = compare_programs(&before, &after, [name(0), name(1)]);
        comparison.know_itself(&compare(&own[0], &own[1]));
        comparison.remarks.splice(0..0, dropped);
        Ok(comparison)
    }

    fn run(&self, index: usize, turn: Turn, bar: &ProgressBar) -> Result<SeriesRun, Failure> {
        let program = &self.programs[turn.program];
        bar.set_message(machine::letters::visible(&words_of(program)));
        let path = self.file(index, turn);
        let throttling = ThrottleWatch::begin(&self.source);
        let recording = Recording::sampled_only(program.clone());
        let outcome = recording.record(&path, false, ProgramOutput::Nowhere)?;
        recording::kept(&outcome, &path)?;
        if outcome.exit_code() != 0 {
            return Err(Failure::Measurement(format!(
                "{} ended with exit code {}: nothing is compared",
                words_of(program),
                outcome.exit_code()
            )));
        }
        let read = recording::read(&path)?;
        if let SeriesFolder::Passing(_) = self.folder {
            // Of many long runs not all fit where temporary files are.
            let _ = fs::remove_file(&path);
        }
        let spoilt = spoilt(&read.run).or_else(|| throttling.throttled());
        Ok(SeriesRun { run: ComparedRun::of(&read.run, read.reading.findings), spoilt })
    }

    fn file(&self, index: usize, turn: Turn) -> PathBuf {
        let folder = match &self.folder {
            SeriesFolder::Passing(folder) => folder.path(),
            SeriesFolder::Kept(folder) => folder,
        };
        let word = match turn.group {
            Group::WarmUp => "warm-up",
            Group::Itself(0) => "itself-before",
            Group::Itself(_) => "itself-after",
            Group::Side(0) => "before",
            Group::Side(_) => "after",
        };
        folder.join(format!("{word}-{index:03}.sqlite"))
    }
}

/// Both once to warm up, then the first against itself, then both. Whoever is first in one pair is second in the next:
/// what drifts over time reaches both alike.
fn turns(runs: u32) -> Vec<Turn> {
    let pair = |index: u32, groups: [Turn; 2]| {
        let [a, b] = groups;
        if index.is_multiple_of(2) { [a, b] } else { [b, a] }
    };
    let warm_up = [0, 1].map(|program| Turn { program, group: Group::WarmUp });
    let itself = [0, 1].map(|half| Turn { program: 0, group: Group::Itself(half) });
    let sides = [0, 1].map(|program| Turn { program, group: Group::Side(program) });
    let of_itself = (0..runs.div_ceil(2).max(2)).flat_map(|index| pair(index, itself));
    let of_sides = (0..runs).flat_map(|index| pair(index, sides));
    warm_up.into_iter().chain(of_itself).chain(of_sides).collect()
}

/// The runs that nobody spoilt, and what is said of the others; an error where too few are left.
fn undisturbed(
    groups: [Vec<SeriesRun>; 2],
    name: impl Fn(usize) -> String,
) -> Result<([Vec<ComparedRun>; 2], Vec<String>), Failure> {
    let mut kept: [Vec<ComparedRun>; 2] = Default::default();
    let mut remarks = Vec::new();
    for (side, group) in groups.into_iter().enumerate() {
        let all = group.len();
        let mut reasons: Vec<String> = Vec::new();
        for SeriesRun { run, spoilt } in group {
            match spoilt {
                Some(reason) => reasons.push(reason),
                None => kept[side].push(run),
            }
        }
        let Some(reason) = reasons.first() else { continue };
        let dropped = format!("{} of {all} runs of {} left out: {reason}", reasons.len(), name(side));
        if kept[side].len() < FEWEST_RUNS {
            return Err(Failure::Measurement(format!(
                "nothing can be judged, since too few runs are undisturbed: {dropped}"
            )));
        }
        remarks.push(format!("{dropped}."));
    }
    Ok((kept, remarks))
}

fn words_of(program: &[OsString]) -> String {
    program.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_take_turns_and_the_first_meets_itself_before() {
        let turns = turns(4);
        let groups: Vec<Group> = turns.iter().map(|turn| turn.group).collect();
        let (itself, side) = (Group::Itself, Group::Side);
        assert_eq!(groups[..2], [Group::WarmUp; 2]);
        assert_eq!(groups[2..6], [itself(0), itself(1), itself(1), itself(0)]);
        assert_eq!(groups[6..], [side(0), side(1), side(1), side(0), side(0), side(1), side(1), side(0)]);
        assert!(turns[2..6].iter().all(|turn| turn.program == 0));
        assert!(turns[6..].iter().all(|turn| turn.group == side(turn.program)));
    }

    #[test]
    fn two_programs_are_wanted_and_no_others() {
        let words = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let series = Series::of(&words("./old -x -- ./new -y z"), None, None).expect("two programs");
        assert_eq!((series.programs[0].len(), series.programs[1].len(), series.runs), (2, 3, 10));
        for odd in ["./old", "./old --", "-- ./new", "./a -- ./b -- ./c"] {
            assert!(matches!(Series::of(&words(odd), None, None), Err(Failure::Usage(_))), "{odd}");
        }
    }

    fn runs(spoilt: &[bool]) -> Vec<SeriesRun> {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run/recordings/chase_l1.sqlite");
        let read = recording::read(&file).expect("it is kept");
        let run = ComparedRun::of(&read.run, read.reading.findings);
        let reason = || "others took it".to_owned();
        spoilt.iter().map(|spoilt| SeriesRun { run: run.clone(), spoilt: spoilt.then(reason) }).collect()
    }

    #[test]
    fn spoilt_runs_are_left_out_and_said_and_too_many_end_it() {
        let name = |side: usize| ["./old", "./new"][side].to_owned();
        let groups = [runs(&[false, true, false]), runs(&[false, false, false])];
        let (kept, said) = undisturbed(groups, name).expect("enough are left");
        assert_eq!((kept[0].len(), kept[1].len()), (2, 3));
        assert_eq!(said, ["1 of 3 runs of ./old left out: others took it."]);
        let too_few = undisturbed([runs(&[true, true, false]), runs(&[false, false])], name);
        assert!(matches!(too_few, Err(Failure::Measurement(line)) if line.contains("2 of 3 runs of ./old")));
    }
}
