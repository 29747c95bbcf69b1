//! How far behind the instruction that a core waits for the clock's samples land.
//!
//! A chase beyond the second cache, with multiplications behind every load, waits on its loads nearly all the time:
//! where most samples lie, counted in instructions from the load before them, is the skid.

use code::{Class, decode_range};
use kernels::{Job, KernelCatalogue, Workload};
use machine::{Bytes, profile::Timer};
use pmu::LinuxKernel;
use record::run::Run;

use super::recorded::{RecordedKernel, SampleError};

/// Data set: beyond the second cache of any core.
const SIZE: Bytes = Bytes::kib(8 << 10);

/// Distinct neighbours behind each load.
const MULTIPLICATIONS: u64 = 24;

const RATE_HZ: u32 = 10_000;

/// Time of one stretch.
const STRETCH_NS: f64 = 40e6;

/// Stretches, unless there are samples enough before.
const STRETCHES: u32 = 10;

/// Samples that make the answer certain.
const ENOUGH: u64 = 400;

/// With fewer samples there is no answer.
const FEWEST: u64 = 50;

/// Measures the skid on one CPU, in a few tenths of a second.
pub fn measure(kernel: &dyn LinuxKernel, cpu: u32, seed: u64) -> Result<Timer, SampleError> {
    let catalogue = KernelCatalogue::builtin().map_err(|error| SampleError::Kernel(error.to_string()))?;
    let chase = catalogue.get("chase-dependent").map_err(|error| SampleError::Kernel(error.to_string()))?;
    let chase =
        chase.with("muls", MULTIPLICATIONS).map_err(|error| SampleError::Kernel(error.to_string()))?;
    let job = Job::new(chase, SIZE, &[cpu]).seeded(seed);
    let mut sampled = RecordedKernel::open(kernel, Workload::prepare(&job)?, cpu, RATE_HZ)?;
    let passes = sampled.passes_for(STRETCH_NS)?;
    let mut samples = 0;
    for _ in 0..STRETCHES {
        samples += sampled.stretch(passes)?.samples;
        if samples >= ENOUGH {
            break;
        }
    }
    timer_of(&sampled.into_run(None)?).ok_or(SampleError::TooFew { samples })
}

fn timer_of(run: &Run) -> Option<Timer> {
    let function = run.functions.first()?;
    let places = run.samples.place.iter().filter_map(|&place| run.place(place));
    skid_of(function.code.as_deref()?, function.start, places.map(|place| place.address))
}

/// The most frequent distance of a sample from the load before it; none with too few samples.
fn skid_of(code: &[u8], start: u64, sampled: impl Iterator<Item = u64>) -> Option<Timer> {
    let decoded = decode_range(code, start, &[]);
    let mut distances = [0u64; MULTIPLICATIONS as usize + 1];
    let mut samples = 0;
    for address in sampled {
        let Some((block, index)) = decoded.find(address) else { continue };
        let before = &block.instructions()[..=index];
        let load = before.iter().rposition(|instruction| instruction.class() == Class::Load);
        if let Some(count) = load.and_then(|load| distances.get_mut(index - load)) {
            *count += 1;
            samples += 1;
        }
    }
    let (skid, &landed) = distances.iter().enumerate().max_by_key(|(_, count)| **count)?;
    (samples >= FEWEST).then(|| Timer {
        skid_instructions: skid as u32,
        landed: landed as f64 / samples as f64,
        samples,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// mov r9,[r9]; imul r9,r8; imul r9,r8; jmp 0
    const CODE: [u8; 13] = [0x4d, 0x8b, 0x09, 0x4d, 0x0f, 0xaf, 0xc8, 0x4d, 0x0f, 0xaf, 0xc8, 0xeb, 0xf3];

    #[test]
    fn the_skid_is_where_most_samples_lie() {
        let behind_load = std::iter::repeat_n(0x1003, 80);
        let sampled = behind_load.chain(std::iter::repeat_n(0x1007, 20));
        let timer = skid_of(&CODE, 0x1000, sampled).expect("enough samples");
        assert_eq!((timer.skid_instructions, timer.samples), (1, 100));
        assert!((timer.landed - 0.8).abs() < 1e-9);
    }

    #[test]
    fn few_samples_give_no_answer() {
        assert_eq!(skid_of(&CODE, 0x1000, std::iter::repeat_n(0x1003, 9)), None);
    }

    #[test]
    fn where_the_clock_is_refused_the_reason_is_kept() {
        let refusing = pmu::scripted::Scripted::new(|_| Err(pmu::Errno(libc::EACCES)));
        let cpu = machine::Topology::read(&machine::Source::live()).usable_cpus().iter().next().unwrap_or(0);
        let error = measure(&refusing, cpu, 1).expect_err("refused").to_string();
        assert!(error.contains("EACCES") && error.contains("doctor"), "{error}");
    }

    #[test]
    fn this_machine_gives_a_skid_or_a_reason() {
        let cpu = machine::Topology::read(&machine::Source::live()).usable_cpus().iter().next().unwrap_or(0);
        match measure(&pmu::Live, cpu, 1) {
            Ok(timer) => {
                println!("{timer:?}");
                assert!(timer.samples >= FEWEST && timer.landed > 0.0 && timer.landed <= 1.0, "{timer:?}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
