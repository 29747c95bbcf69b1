//! What the library costs each program that starts, beside one that is empty: one short process after the other, so that a busy
//! machine spoils few of them.

use std::process::Command;

use heap::NoteFile;
use host::statistics;

use crate::{HeapCost, words_of};

const PROGRAM: &str = "/bin/true";

const WAYS: [&str; 4] = ["alone", "empty library", "passing on", "noting"];

impl HeapCost {
    /// Processor time of starting a program that does nothing, in microseconds and as ratios within a round.
    pub fn starts(&self, rounds: usize) {
        let file = NoteFile::create().unwrap();
        file.let_inherit(true).unwrap();
        let variable = format!("{}={}", heap::VARIABLE, file.variable().display());
        let mut command = Command::new(self.compiled("starts"));
        command.args([rounds.to_string().as_str(), PROGRAM, variable.as_str()]);
        let output =
            command.arg(self.compiled("empty")).arg(&self.passing).arg(&self.noting).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let numbers = |line: &str| line.split(' ').map(|word| word.parse().unwrap()).collect();
        let times: Vec<Vec<f64>> = String::from_utf8(output.stdout).unwrap().lines().map(numbers).collect();
        println!(
            "{rounds} interleaved starts of {PROGRAM}; processor time in µs: least tenth, quarter, median"
        );
        for (way, name) in WAYS.iter().enumerate() {
            let mut own: Vec<f64> = times.iter().map(|round| round[way]).collect();
            own.sort_by(f64::total_cmp);
            let [tenth, quarter, median] = [10, 4, 2].map(|part| own[own.len() / part]);
            println!("{name:>20} {tenth:.0} {quarter:.0} {median:.0}");
        }
        for (above, below) in [(1, 0), (2, 0), (3, 0), (3, 1)] {
            let ratios: Vec<f64> = times.iter().map(|round| round[above] / round[below] - 1.0).collect();
            let name = format!("{} / {}", WAYS[above], WAYS[below]);
            println!("{name:>30} {}", words_of(&statistics::estimate(&ratios).unwrap()));
        }
    }
}
