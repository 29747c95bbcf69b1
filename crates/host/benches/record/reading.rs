//! How long a large recording takes to be read and reported.

use std::{fs, path::Path, time::Instant};

use analysis::{reading::Reading, timer::TimerOptions};
use machine::Source;
use record::{
    file::{read, write},
    run::{Run, Samples},
};
use recorder::{RecordRequest, RecordTarget, complete, record};
use report::terminal::run::Detail;

use super::built::silent;

const SAMPLES: usize = 5_000_000;

/// Seconds that reading and reporting may take.
const MOST: f64 = 10.0;

/// Prints how long five million samples take; gives 1 if that is too long.
pub fn time(examples: &Path, folder: &Path) -> u32 {
    let path = folder.join("large.sqlite");
    let begin = Instant::now();
    write(&path, &large(examples, folder)).unwrap();
    let written = begin.elapsed().as_secs_f64();
    let seconds = (0..3).map(|_| seconds_to_report(&path)).fold(f64::INFINITY, f64::min);
    println!(
        "{SAMPLES} samples of hash_join: written in {written:.2} s, read and reported in {seconds:.2} s (best of 3), {:.1} bytes each",
        fs::metadata(&path).unwrap().len() as f64 / SAMPLES as f64
    );
    u32::from(seconds > MOST)
}

/// Seconds from the file to the text, as `memwall report` goes about it.
fn seconds_to_report(path: &Path) -> f64 {
    let begin = Instant::now();
    let mut run = read(path).unwrap();
    complete(&mut run);
    let found = Reading::of(&run, None, &TimerOptions::default());
    let text = report::terminal::run::text(&found.findings, Some(&found.objects), Detail::default(), 80);
    assert!(found.findings.about.samples == SAMPLES as u64 && text.contains("probe"), "{text}");
    begin.elapsed().as_secs_f64()
}

/// A recording of an example whose samples are repeated, one run behind the other.
fn large(examples: &Path, folder: &Path) -> Run {
    let small = folder.join("small.sqlite");
    let command = silent([examples.join("hash_join").into(), "--seconds".into(), "2".into()]);
    record(&RecordRequest::new(RecordTarget::Launch(command), &small), &pmu::Live, &Source::live()).unwrap();
    let mut run = read(&small).unwrap();
    run.slices.clear();
    let once = run.samples.place.len();
    let length_ns = run.about.elapsed_ns.unwrap();
    let samples = &run.samples;
    run.samples = Samples {
        time_ns: (0..SAMPLES).map(|at| samples.time_ns[at % once] + (at / once) as u64 * length_ns).collect(),
        thread: repeated(&samples.thread),
        cpu: repeated(&samples.cpu),
        place: repeated(&samples.place),
        address: repeated(&samples.address),
        stack: repeated(&samples.stack),
    };
    run.about.elapsed_ns = Some(length_ns * SAMPLES.div_ceil(once) as u64);
    run
}

/// A column again and again, as long as wanted; an empty one stays empty.
fn repeated<T: Copy>(column: &[T]) -> Vec<T> {
    column.iter().copied().cycle().take(if column.is_empty() { 0 } else { SAMPLES }).collect()
}
