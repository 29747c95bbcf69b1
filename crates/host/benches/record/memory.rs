//! How the recorder's memory grows with the length of a recording.

use std::{fs, path::Path};

use super::{built::number_behind, ours};

/// Bytes that the recorder may take for an hour of eight busy threads.
const MOST: f64 = 100e6;

/// A high rate makes a short run have as many samples as a long one.
const RATE_HZ: &str = "20000";

/// Prints peaks, the growth per sample and what follows for an hour of eight busy threads; gives 1 if that is too much.
pub fn growth(examples: &Path, folder: &Path) -> u32 {
    println!("peak memory of the recorder, 8 busy threads, {RATE_HZ} samples/s");
    let mut points = Vec::new();
    for seconds in ["2", "6", "18"] {
        let file = folder.join("memory.sqlite");
        let mut command = ours(&file);
        command.env("RATE_HZ", RATE_HZ).arg(examples.join("odd/busy_threads"));
        let output = command.args(["--threads", "8", "--seconds", seconds]).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let kib = number_behind(&text, "peak ").unwrap();
        let samples = number_behind(&text, "samples ").unwrap();
        let bytes = fs::metadata(&file).unwrap().len();
        println!("  {samples:8} samples: {:6.1} MB, file {:6.1} MB", kib * 1024.0 / 1e6, bytes as f64 / 1e6);
        points.push((samples, kib * 1024.0));
    }
    // From the second point on caches are full.
    let ((first, low), (last, high)) = (points[1], points[points.len() - 1]);
    let per_sample = ((high - low) / (last - first)).max(0.0);
    let hour = 8.0 * 3600.0 * 1000.0;
    let total = high + per_sample * (hour - last).max(0.0);
    println!(
        "  growth {per_sample:.2} B per sample; an hour of 8 busy threads at 1000 samples/s: {:.1} MB",
        total / 1e6
    );
    u32::from(total > MOST)
}
