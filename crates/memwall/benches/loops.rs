//! What `memwall run` says of plain loops, against the time that their data costs them: 1 − T(12 KiB) / T,
//! with the T of the very run that was recorded.
//!
//! `cargo bench -p memwall --bench loops [-- [developed|tried|unseen|fresh|later] [NAME] [--relief] [--keep FOLDER]]`. With `--relief` each run
//! lasts longer, what relief says by itself stands beside the verdict, and what it cost the program below. Rules were made on the loops of
//! `developed.c`, `tried.c` and `fresh.c`, single ones of `unseen.c` were looked at; what `later.c` shows is what may be promised. T(12 KiB) is measured before and after; cases whose
//! truths differ by more than 3 points are listed and left out of the sums. The level is that whose twin, with data of half of
//! each capacity that the profile has, adds most to T; within half as much again of a capacity either side is right.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use machine::Bytes;
use serde_json::Value;
use validate::unseen::{CacheSizes, LevelTimes};

/// One source file each.
const SETS: [&str; 5] = ["developed", "tried", "unseen", "fresh", "later"];
const SMALL_BYTES: u64 = 12 << 10;
const SIZES_BYTES: [u64; 3] = [160 << 10, 3_000_000, 96 << 20];
/// Truths further apart are none.
const UNSTEADY: f64 = 0.03;

/// One loop at one size.
struct LoopCase {
    name: String,
    bytes: u64,
    truths: [f64; 2],
    /// Levels that may be named; none where nothing tells.
    levels: Vec<String>,
    found: LoopAnswer,
    /// What a turn took with memwall beside it, over what it took alone.
    slowdown: f64,
}

/// What memwall answered.
struct LoopAnswer {
    held_back: String,
    confidence: String,
    memory: Option<[f64; 3]>,
    /// Where it waits most.
    level: Option<String>,
    /// Names and capacities of the machine's levels, from the first cache to memory.
    machine: Vec<(String, f64)>,
    relief: Option<ReliefAnswer>,
}

/// What relief said of the hottest loop, and what it cost.
struct ReliefAnswer {
    share: Option<[f64; 3]>,
    refusal: String,
    paused_ms: f64,
    longest_ms: f64,
    page_faults: f64,
}

impl ReliefAnswer {
    fn read(found: &Value) -> Option<Self> {
        let relief = found.get("relief")?;
        let first = &relief["loops"][0];
        let number = |of: &Value| of.as_f64();
        let share = &first["by_relief"];
        let parts = [number(&share["value"]), number(&share["low"]), number(&share["high"])];
        let cost = |key: &str| number(&relief["cost"][key]).unwrap_or(0.0);
        let refusal = first["refusal"].as_str().or(relief["refusal"].as_str()).unwrap_or("").to_owned();
        Some(Self {
            share: parts[0].zip(parts[1]).zip(parts[2]).map(|((value, low), high)| [value, low, high]),
            refusal,
            paused_ms: cost("paused_ns") / 1e6,
            longest_ms: cost("longest_pause_ns") / 1e6,
            page_faults: cost("page_faults"),
        })
    }
}

/// How a set is run.
#[derive(Clone, Copy)]
struct RunForm<'a> {
    keep: Option<&'a Path>,
    relief: bool,
}

impl LoopCase {
    fn truth(&self) -> f64 {
        (self.truths[0] + self.truths[1]) / 2.0
    }

    fn is_steady(&self) -> bool {
        (self.truths[0] - self.truths[1]).abs() <= UNSTEADY
    }

    /// Whether the level was named right; none where it hardly waits, or no level is known.
    fn is_level_right(&self) -> Option<bool> {
        let is_worth = self.truth() > 0.2 && !self.levels.is_empty();
        let named = self.found.level.as_ref().filter(|_| is_worth)?;
        Some(self.levels.contains(named))
    }

    /// None: it was not decided.
    fn error(&self) -> Option<f64> {
        let memory = self.found.memory.filter(|_| self.found.held_back != "unknown")?;
        Some((memory[0] - self.truth()).abs())
    }
}

fn main() {
    let mut words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let keep = words.iter().position(|word| word == "--keep").map(|at| {
        let folder = words.get(at + 1).cloned().unwrap_or_default();
        words.drain(at..(at + 2).min(words.len()));
        PathBuf::from(folder)
    });
    let relief = words.iter().any(|word| word == "--relief");
    words.retain(|word| word != "--relief");
    let form = RunForm { keep: keep.as_deref(), relief };
    let folder = tempfile::tempdir().expect("a folder");
    for set in SETS {
        if words.iter().any(|word| SETS.contains(&word.as_str()) && word != set) {
            continue;
        }
        let program = build(set, folder.path());
        let names = Command::new(&program).output().expect("it starts").stdout;
        let names = String::from_utf8(names).expect("names");
        let chosen = |name: &&str| words.iter().all(|word| word == set || name.contains(word.as_str()));
        println!(
            "{set}\n{:<20}{:>9} {:>13} {:>7} {:>11}  verdict",
            "loop", "KiB", "true", "found", "interval"
        );
        let mut cases = Vec::new();
        for name in names.lines().filter(chosen) {
            for bytes in SIZES_BYTES {
                let case = measure(&program, set, name, bytes, form);
                print(&case);
                cases.push(case);
            }
        }
        sum_up(set, &cases);
        if let Some(folder) = &keep {
            std::fs::write(folder.join(format!("{set}.tsv")), truths(&cases)).expect("a table");
        }
    }
}

/// Loop, bytes, both truths and the right levels, for whoever keeps the recordings.
fn truths(cases: &[LoopCase]) -> String {
    let row = |case: &LoopCase| {
        let LoopCase { name, bytes, truths: [first, second], levels, .. } = case;
        format!("{name}\t{bytes}\t{first:.4}\t{second:.4}\t{}\n", levels.join("/"))
    };
    cases.iter().map(row).collect()
}

fn build(set: &str, folder: &Path) -> PathBuf {
    let source = std::env::var_os("MEMWALL_LOOPS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/loops"), PathBuf::from);
    let program = folder.join(set);
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(compiler)
        .args(["-O2", "-g", "-fno-math-errno", "-o"])
        .arg(&program)
        .arg(source.join(format!("{set}.c")))
        .status();
    assert!(built.is_ok_and(|status| status.success()), "a C compiler is needed");
    program
}

/// Nanoseconds of a turn over so much data: the middle of three.
fn quiet_turn_ns(program: &Path, name: &str, bytes: u64) -> f64 {
    let once = || {
        let bytes = bytes.to_string();
        let output = Command::new(program).args([name, &bytes, "0.15"]).output().expect("it starts");
        turn_ns(&output.stdout)
    };
    let mut all = [once(), once(), once()];
    all.sort_by(f64::total_cmp);
    all[1]
}

fn turn_ns(said: &[u8]) -> f64 {
    String::from_utf8_lossy(said).trim().parse().expect("a number")
}

fn measure(program: &Path, set: &str, name: &str, bytes: u64, form: RunForm<'_>) -> LoopCase {
    let before = quiet_turn_ns(program, name, SMALL_BYTES);
    let alone = form.relief.then(|| alone_turn_ns(program, name, bytes));
    let (found, turn_ns) = answer(program, set, name, bytes, form);
    let slowdown = alone.map_or(1.0, |alone| turn_ns / alone);
    let truths = [before, quiet_turn_ns(program, name, SMALL_BYTES)].map(|small| 1.0 - small / turn_ns);
    let levels = right_levels(program, name, bytes, &found.machine, turn_ns);
    LoopCase { name: name.to_owned(), bytes, truths, levels, found, slowdown }
}

/// The levels that are right, by the rule that random kernels are judged by; none without a second cache of a known size.
fn right_levels(
    program: &Path,
    name: &str,
    bytes: u64,
    machine: &[(String, f64)],
    turn_ns: f64,
) -> Vec<String> {
    let capacity = |level: &str| {
        let known = machine.iter().find(|(name, _)| name == level);
        known.map(|(_, capacity)| Bytes(*capacity as u64))
    };
    let Some((first, second)) = capacity("L1").zip(capacity("L2")) else { return Vec::new() };
    let caches = CacheSizes { bytes: [first, second, capacity("L3").unwrap_or(second)] };
    let mut times = LevelTimes { near_ns: quiet_turn_ns(program, name, SMALL_BYTES), beyond: Vec::new() };
    for (place, data) in LevelTimes::wanted(&caches, Bytes(bytes)) {
        times.beyond.push((place, data.map_or(turn_ns, |data| quiet_turn_ns(program, name, data.0))));
    }
    times.right(&caches, Bytes(bytes)).into_iter().map(|place| place.name().to_owned()).collect()
}

/// `{"cache": 2}` and `"memory"` as people write them.
fn level_name(level: &Value) -> Option<String> {
    let named = level.as_str().map(str::to_owned);
    let cache = || level["cache"].as_u64().map(|number| format!("L{number}"));
    let memory = || level["memory"].is_object().then(|| "memory".to_owned());
    named.or_else(cache).or_else(memory)
}

/// The machine's levels as the findings tell them.
fn machine_levels(found: &Value) -> Vec<(String, f64)> {
    let levels = found["limits"]["levels"]["value"].as_array().cloned().unwrap_or_default();
    let local = levels.iter().filter(|level| level["name"]["memory"]["local"] != false);
    let level = |level: &Value| {
        let name = level_name(&level["name"])?;
        let capacity = level["usable_bytes"].as_f64().unwrap_or(f64::INFINITY);
        Some((name, capacity))
    };
    local.filter_map(level).collect()
}

fn alone_turn_ns(program: &Path, name: &str, bytes: u64) -> f64 {
    let output = Command::new(program).args([name, &bytes.to_string(), "1"]).output().expect("it starts");
    turn_ns(&output.stdout)
}

fn answer(program: &Path, set: &str, name: &str, bytes: u64, form: RunForm<'_>) -> (LoopAnswer, f64) {
    let folder = program.parent().expect("a folder");
    let json = folder.join("found.json");
    let file = format!("{set}-{name}-{bytes}.sqlite");
    let recording = form.keep.unwrap_or(folder).join(file);
    let memwall = std::env::var_os("MEMWALL").unwrap_or_else(|| env!("CARGO_BIN_EXE_memwall").into());
    let mut command = Command::new(memwall);
    command.arg("run").arg(format!("--json={}", json.display())).arg("-o").arg(&recording);
    // What is recorded is the loop alone, not how its data was made.
    // Relief begins after two seconds and takes its time.
    let (recorded, run) = if form.relief { ("6.0", "7.0") } else { ("1.3", "2.2") };
    command.args(form.relief.then_some("--relief"));
    command.args(["--delay", "1", "--seconds", recorded, "--"]).arg(program);
    let output = command.args([name, &bytes.to_string(), run]).output().expect("memwall");
    let text = std::fs::read_to_string(&json).expect("findings");
    let found: Value = serde_json::from_str(&text).expect("JSON");
    let verdict = &found["verdict"];
    let word = |key: &str| verdict[key].as_str().unwrap_or("?").to_owned();
    let number = |key: &str| verdict["memory"][key].as_f64();
    let levels = &found["levels"]["value"];
    let first = &levels["parts"][0];
    let is_known = first["share"].as_f64() > levels["unknown"].as_f64();
    let answer = LoopAnswer {
        level: level_name(&first["level"]).filter(|_| is_known),
        machine: machine_levels(&found),
        held_back: word("held_back"),
        confidence: word("confidence"),
        memory: number("value")
            .zip(number("low"))
            .zip(number("high"))
            .map(|((value, low), high)| [value, low, high]),
        relief: form.relief.then(|| ReliefAnswer::read(&found)).flatten(),
    };
    (answer, turn_ns(&output.stdout))
}

fn print(case: &LoopCase) {
    let LoopCase { name, bytes, truths: [first, second], levels, found, .. } = case;
    let truths = format!("{:.0}, {:.0}", first * 100.0, second * 100.0);
    let value = found.memory.map_or("?".to_owned(), |[value, ..]| format!("{:.0}", value * 100.0));
    let interval = found
        .memory
        .map_or("?".to_owned(), |[_, low, high]| format!("{:.0}..{:.0}", low * 100.0, high * 100.0));
    let verdict = format!("{}, {}", found.held_back, found.confidence);
    let mark = match case.error() {
        _ if !case.is_steady() => "unsteady",
        Some(error) if error > 0.15 => "<-- wrong",
        _ => "",
    };
    let level = found.level.as_deref().unwrap_or("?");
    let level = match case.is_level_right() {
        Some(false) => format!("{level} not {}", levels.join("/")),
        _ => level.to_owned(),
    };
    let relief = found.relief.as_ref().map_or_else(String::new, |relief| match relief.share {
        Some([value, low, high]) => {
            format!("relief {:.0} ({:.0}..{:.0}) ", value * 100.0, low * 100.0, high * 100.0)
        }
        None => format!("relief: {} ", relief.refusal),
    });
    println!(
        "{name:<20}{:>9} {truths:>13} {value:>7} {interval:>11}  {verdict:<18}{level:<18}{relief}{mark}",
        bytes >> 10
    );
}

fn sum_up(set: &str, cases: &[LoopCase]) {
    let steady: Vec<&LoopCase> = cases.iter().filter(|case| case.is_steady()).collect();
    let mut errors: Vec<f64> = steady.iter().filter_map(|case| case.error()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors.get((errors.len() as f64 * part) as usize).or(errors.last());
    let points = |error: Option<&f64>| error.map_or("?".to_owned(), |error| format!("{:.0}", error * 100.0));
    let high = steady.iter().filter(|case| case.found.confidence == "high" && case.error().is_some());
    let wrong_and_high = high.clone().filter(|case| case.error() > Some(0.15)).count();
    let holds = |case: &&&LoopCase| {
        case.found.memory.is_some_and(|[_, low, high]| low <= case.truth() && case.truth() <= high)
    };
    let held = steady.iter().filter(holds).count();
    let mut widths: Vec<f64> = steady
        .iter()
        .filter(|case| case.error().is_some())
        .filter_map(|case| case.found.memory.map(|[_, low, high]| high - low))
        .collect();
    widths.sort_by(f64::total_cmp);
    let levels: Vec<bool> = steady.iter().filter_map(|case| case.is_level_right()).collect();
    let right = levels.iter().filter(|right| **right).count();
    println!(
        "{set}: {} steady of {}; decided {}; error median {} points, 9 of 10 within {}, worst {}; called high {}, of these \
         wrong by more than 15 points {wrong_and_high}; intervals hold the truth in {held}, median width {}; level right in \
         {right} of {}\n",
        steady.len(),
        cases.len(),
        errors.len(),
        points(at(0.5)),
        points(at(0.9)),
        points(errors.last()),
        high.count(),
        points(widths.get(widths.len() / 2)),
        levels.len(),
    );
    sum_up_relief(set, &steady);
}

/// Relief by itself, whatever the verdict made of it, and what it cost.
fn sum_up_relief(set: &str, steady: &[&LoopCase]) {
    let told: Vec<(&LoopCase, &ReliefAnswer)> =
        steady.iter().filter_map(|case| Some((*case, case.found.relief.as_ref()?))).collect();
    if told.is_empty() {
        return;
    }
    let shares = || told.iter().filter_map(|(case, relief)| Some((case.truth(), relief.share?)));
    let mut errors: Vec<f64> = shares().map(|(truth, share)| (share[0] - truth.max(0.0)).abs()).collect();
    errors.sort_by(f64::total_cmp);
    let at = |part: f64| errors.get((errors.len() as f64 * part) as usize).or(errors.last());
    let points = |error: Option<&f64>| error.map_or("?".to_owned(), |error| format!("{:.0}", error * 100.0));
    let held = shares().filter(|(truth, [_, low, high])| low <= truth && truth <= high).count();
    let most = |of: fn(&ReliefAnswer) -> f64| told.iter().map(|(_, relief)| of(relief)).fold(0.0, f64::max);
    let mut slowdowns: Vec<f64> = told.iter().map(|(case, _)| case.slowdown).collect();
    slowdowns.sort_by(f64::total_cmp);
    println!(
        "{set}, relief alone: measured {} of {}; error median {} points, 9 of 10 within {}, worst {}; intervals hold the truth \
         in {held}; pauses at most {:.1} ms in all, {:.1} ms at a time; page faults at most {:.0}; a turn takes {:.3} of what it \
         takes alone (median; most {:.3})\n",
        errors.len(),
        told.len(),
        points(at(0.5)),
        points(at(0.9)),
        points(errors.last()),
        most(|relief| relief.paused_ms),
        most(|relief| relief.longest_ms),
        most(|relief| relief.page_faults),
        slowdowns.get(slowdowns.len() / 2).copied().unwrap_or(1.0),
        slowdowns.last().copied().unwrap_or(1.0),
    );
}
