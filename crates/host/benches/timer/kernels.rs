//! Known kernels: truth is the share of time beyond the same kernel's time in the first cache, (T - T_L1) / T, measured
//! in the same run.

use std::error::Error;

use analysis::{
    findings::{Split, ThreadActivity},
    timer::{TimerOptions, analyse},
};
use host::timer::recorded::RecordedKernel;
use kernels::{Job, Kernel, KernelCatalogue, Workload};
use machine::Bytes;

/// Samples per second: more than in a recording, so that half a second gives enough of them.
const RATE_HZ: u32 = 4_000;

/// Samples per case: 0.6 s of them.
const CASE_SAMPLES: u64 = 2_400;

/// Time of one stretch; the ring is emptied behind it.
const STRETCH_NS: f64 = 30e6;

const L1: Bytes = Bytes::kib(16);

/// What a case must show.
#[derive(Clone, Copy)]
enum Bound {
    /// Waiting for memory within so many points of the truth.
    Near(f64),
    /// Waiting for memory below so many points.
    Below(f64),
    /// This class is the largest.
    Class(ThreadActivity),
}

struct Case {
    kernel: &'static str,
    parameters: &'static [(&'static str, u64)],
    size: Bytes,
    bound: Bound,
}

const fn case(
    kernel: &'static str,
    parameters: &'static [(&'static str, u64)],
    size: Bytes,
    bound: Bound,
) -> Case {
    Case { kernel, parameters, size, bound }
}

fn cases() -> Vec<Case> {
    const MULS: &[(&str, u64)] = &[("muls", 24)];
    let (l2, l3, dram) = (Bytes::kib(512), Bytes::kib(8 << 10), Bytes::kib(128 << 10));
    let levels = [
        (L1, Bound::Below(15.0)),
        (l2, Bound::Near(12.0)),
        (l3, Bound::Near(15.0)),
        (dram, Bound::Near(12.0)),
    ];
    let mut cases = vec![case("chase", &[], L1, Bound::Class(ThreadActivity::Loads))];
    cases.extend(levels[1..].iter().map(|&(size, bound)| case("chase", &[], size, bound)));
    for kernel in ["chase-dependent", "chase-independent"] {
        cases.extend(levels.iter().map(|&(size, bound)| case(kernel, MULS, size, bound)));
    }
    let streams = ["load", "sum", "ddot", "copy", "triad", "store", "update"];
    cases.extend(streams.map(|kernel| case(kernel, &[], L1, Bound::Below(15.0))));
    cases.extend(streams.map(|kernel| case(kernel, &[], dram, Bound::Near(12.0))));
    cases.push(case("div-chain", &[], L1, Bound::Class(ThreadActivity::Divides)));
    cases.push(case("mul-chain", &[], L1, Bound::Class(ThreadActivity::Chains)));
    cases.push(case("branch-miss", &[], L1, Bound::Class(ThreadActivity::Branches)));
    cases.push(case("fma-lanes", &[], L1, Bound::Below(15.0)));
    cases
}

fn kernel(case: &Case) -> Kernel {
    let catalogue = KernelCatalogue::builtin().expect("the catalogue parses");
    let kernel = catalogue
        .iter()
        .find(|kernel| kernel.name() == case.kernel)
        .expect("a kernel of the catalogue")
        .clone();
    case.parameters
        .iter()
        .fold(kernel, |kernel, &(name, value)| kernel.with(name, value).expect("its parameter"))
}

/// A kernel ready to be sampled, and the passes of a stretch.
fn prepare(kernel: &Kernel, size: Bytes) -> Result<(RecordedKernel<'static>, u64), Box<dyn Error>> {
    let job = Job::new(kernel.clone(), size, &[cpu()]);
    let mut sampled = RecordedKernel::open(&pmu::Live, Workload::prepare(&job)?, cpu(), RATE_HZ)?;
    let passes = sampled.passes_for(STRETCH_NS)?;
    Ok((sampled, passes))
}

/// Samples a kernel and, stretch by stretch in turn, the same one in the first cache: what disturbs the machine
/// disturbs both. Gives the split, the truth, and how many samples were lost.
fn measure(kernel: &Kernel, size: Bytes) -> Result<(Split, f64, u64), Box<dyn Error>> {
    let (mut case, case_passes) = prepare(kernel, size)?;
    let (mut base, base_passes) = prepare(kernel, L1)?;
    let (mut case_samples, mut base_samples, mut stretches) = (0, 0, 0);
    while case_samples < CASE_SAMPLES {
        case_samples += case.stretch(case_passes)?.samples;
        base_samples += base.stretch(base_passes)?.samples;
        stretches += 1;
    }
    // Samples are user time, not wall time: another thread may have had the CPU.
    let per_byte = |samples: u64, passes: u64, sampled: &RecordedKernel<'_>| {
        samples as f64 / (f64::from(stretches) * passes as f64 * sampled.workload().size().0.max(1) as f64)
    };
    let ratio = per_byte(base_samples, base_passes, &base) / per_byte(case_samples, case_passes, &case);
    let (case, base) = (case.into_run(None)?, base.into_run(None)?);
    let lost = [&case, &base].map(|run| run.about.lost_samples.unwrap_or(0)).iter().sum();
    let findings = analyse(&case, None, &TimerOptions::default());
    Ok((findings.overall.ok_or("no sample was taken")?, (1.0 - ratio).max(0.0), lost))
}

/// The last CPU we may use: the first is where most others run.
fn cpu() -> u32 {
    machine::Topology::read(&machine::Source::live()).usable_cpus().iter().last().unwrap_or(0)
}

fn verdict(bound: Bound, split: &Split, truth: f64) -> (String, bool) {
    let memory = split.memory() * 100.0;
    let (text, holds) = match bound {
        Bound::Near(points) => {
            let error = memory - truth * 100.0;
            (format!("{error:+6.1}  within {points:.0}"), error.abs() <= points)
        }
        Bound::Below(points) => (format!("{:6}  below {points:.0}", ""), memory < points),
        Bound::Class(activity) => {
            let found = split.largest_wait().map(|(found, _)| found);
            (format!("{:6}  {}", "", activity.label()), found == Some(activity))
        }
    };
    (text, holds && split.undecided < 0.15)
}

/// How many times as many samples a load that hits the first cache gets as the instructions beside it, on a chase with
/// multiplications: what the analysis takes a hit to be.
fn weight_of_a_hit() -> Result<f64, Box<dyn Error>> {
    let chase = case("chase-dependent", &[("muls", 24)], L1, Bound::Below(15.0));
    let (mut sampled, passes) = prepare(&kernel(&chase), L1)?;
    let mut samples = 0;
    while samples < CASE_SAMPLES {
        samples += sampled.stretch(passes)?.samples;
    }
    let run = sampled.into_run(None)?;
    let function = run.functions.first().ok_or("no code")?;
    let decoded = code::decode_range(function.code.as_deref().unwrap_or_default(), function.start, &[]);
    let (mut behind_loads, mut loads, mut behind_others, mut others) = (0.0, 0.0, 0.0, 0.0);
    let counts = |address: u64| {
        let at = |place: &&record::ids::PlaceId| run.places[place.index()].address == address;
        run.samples.place.iter().filter(at).count() as f64
    };
    let loops = decoded.blocks.iter().filter(|block| block.target() == Some(block.address()));
    for pair in loops.flat_map(|block| block.instructions().windows(2)) {
        let behind = counts(pair[1].address());
        let (sum, number) = match pair[0].has_load() {
            true => (&mut behind_loads, &mut loads),
            false => (&mut behind_others, &mut others),
        };
        (*sum, *number) = (*sum + behind, *number + 1.0);
    }
    Ok((behind_loads / loads) / (behind_others / others))
}

/// Prints the table of the kernels whose names hold one of `wanted`, all of none; gives how many bounds are broken.
pub fn table(wanted: &[String]) -> Result<u32, Box<dyn Error>> {
    println!(
        "{:>28} {:>8} {:>29} {:>6} {:>6} {:>5} {:>5}  {:>6}  bound",
        "kernel", "size", "found", "memory", "loads", "undec", "truth", "error"
    );
    let mut broken = 0;
    println!("a load that hits gets {:.1} times as many samples as other instructions", weight_of_a_hit()?);
    for case in cases()
        .iter()
        .filter(|case| wanted.is_empty() || wanted.iter().any(|name| case.kernel.contains(name)))
    {
        let (split, truth, lost) = measure(&kernel(case), case.size)?;
        let (text, holds) = verdict(case.bound, &split, truth);
        broken += u32::from(!holds);
        let name = case
            .parameters
            .iter()
            .fold(case.kernel.to_owned(), |name, (key, value)| format!("{name} {key}={value}"));
        println!(
            "{name:>28} {:>8} {:>29} {:>5.1}% {:>5.1}% {:>4.1}% {:>4.1}%  {text}{}{}",
            case.size.to_string(),
            super::largest(&split),
            split.memory() * 100.0,
            split.loads * 100.0,
            split.undecided * 100.0,
            truth * 100.0,
            if holds { "" } else { "  BROKEN" },
            if lost > 0 { format!("  {lost} samples lost") } else { String::new() },
        );
    }
    Ok(broken)
}
