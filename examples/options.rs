//! The arguments of the Rust examples, in the manner of `options.h`.

use std::process::exit;
use std::time::Instant;

/// What the command line asked for.
pub struct Options {
    /// Rounds to run; `None`: as many as fit in `seconds`.
    pub rounds: Option<u64>,
    /// About how long to run.
    pub seconds: f64,
    /// Bytes of the data that matter.
    pub size_bytes: usize,
    /// Whether the example's own flag was given.
    pub flag: bool,
}

/// Reads the command line; explains itself and ends the program on `--help` and on mistakes.
pub fn parse(about: &str, size_bytes: usize, flag: Option<&str>) -> Options {
    let mut options = Options { rounds: None, seconds: 2.0, size_bytes, flag: false };
    let mut arguments = std::env::args();
    let program = arguments.next().unwrap_or_default();
    while let Some(argument) = arguments.next() {
        let known = match argument.as_str() {
            "--help" => {
                println!("{program}: {about}\n\n  --seconds S\n  --rounds N");
                println!("  --size SIZE (bytes, or with K, M or G, or L1, L2, L3, DRAM)");
                flag.iter().for_each(|flag| println!("  {flag}"));
                exit(0)
            }
            "--seconds" => arguments.next().and_then(|s| s.parse().ok()).map(|s| options.seconds = s),
            "--rounds" => arguments
                .next()
                .and_then(|n| n.parse().ok())
                .map(|n| options.rounds = Some(n).filter(|n| *n > 0)),
            "--size" => arguments.next().and_then(|s| parse_size(&s)).map(|s| options.size_bytes = s),
            own if Some(own) == flag => {
                options.flag = true;
                Some(())
            }
            _ => None,
        };
        if known.is_none() {
            eprintln!("{program}: '{argument}' is unknown or lacks its value; --help lists what there is");
            exit(2);
        }
    }
    options
}

fn parse_size(text: &str) -> Option<usize> {
    let typical = [("L1", 16 << 10), ("L2", 192 << 10), ("L3", 4 << 20), ("DRAM", 256 << 20)];
    if let Some((_, bytes)) = typical.iter().find(|(level, _)| *level == text) {
        return Some(*bytes);
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<usize>().ok()?.checked_mul(1 << shift).filter(|bytes| *bytes > 0)
}

impl Options {
    /// Runs equal rounds as the options say, prints the pace on standard error, and returns the last result.
    pub fn run<T>(&self, program: &str, steps_per_round: usize, mut round: impl FnMut() -> T) -> T {
        let (began, began_cpu) = (Instant::now(), cpu_seconds());
        let mut done = 0;
        loop {
            let result = round();
            done += 1;
            if self.rounds.map_or(began.elapsed().as_secs_f64() >= self.seconds, |rounds| done >= rounds) {
                let seconds = began.elapsed().as_secs_f64();
                let ns_per_step = seconds * 1e9 / (done as f64 * steps_per_round as f64);
                let cpu = cpu_seconds() - began_cpu;
                eprintln!(
                    "{program}: {done} rounds in {seconds:.3} s ({cpu:.3} s of CPU time), {ns_per_step:.3} ns per step"
                );
                return result;
            }
        }
    }
}

/// Processor time of this thread, as the scheduler counts it.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).map_or(f64::NAN, |ns| ns / 1e9)
}

/// The next number of a seeded sequence.
pub fn next_random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}
