//! What users may ask for without meaning it.

use super::{
    Fault,
    Tried::{self, Held},
    place::{Place, said},
};

pub const FAULTS: &[Fault] = &[Fault {
    name: "a time that no clock can tell (--seconds 1e19)",
    must_hold: "the same as any time longer than the program",
    held: times_beyond_clocks,
}];

fn times_beyond_clocks() -> Tried {
    let place = Place::new();
    for command in [
        "count --seconds SECONDS -e task-clock -- true",
        "count --interval 18446744073709551615 --seconds SECONDS -e task-clock -- true",
        "run --seconds SECONDS --to report.txt -- true",
        "run --delay SECONDS --seconds SECONDS --to report.txt -- true",
        "record --seconds SECONDS -o a.sqlite -- true",
    ] {
        let code = |seconds: &str| {
            let command = format!("$memwall {}", command.replace("SECONDS", seconds));
            place.shell(&command).status.code()
        };
        assert_eq!(code("1e19"), code("1000"), "{command}");
    }
    // Those that somebody has to end, wherever they are by then.
    for command in [
        "count --seconds 1e19 -e task-clock --pid $!",
        "record --seconds 1e19 -o b.sqlite --pid $!",
        "count --seconds 1e19 -e task-clock --all-cpus",
    ] {
        let output = place.shell(&format!("sleep 1 & timeout -s INT 2 $memwall {command}"));
        assert!(!said(&output.stderr).contains("panicked"), "{command}: {output:?}");
    }
    Held
}
