//! What writing allocations down costs programs that mostly start others, each of which has to load the library.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use host::statistics;
use machine::profile::Estimate;

use crate::{HeapCost, Preloaded, timed, words_of};

/// A program that starts others.
struct Starter {
    name: &'static str,
    command: Vec<OsString>,
}

/// What two programs under comparison are called.
const PAIRS: [(&str, usize, usize); 5] = [
    ("passing/alone", 1, 0),
    ("noting/alone", 2, 0),
    ("noting/passing", 2, 1),
    ("record/alone", 4, 0),
    ("record/--no-heap", 4, 3),
];

impl HeapCost {
    /// Processor time of all processes together, as ratios within a round; `memwall` is the program of that name, if it is to be
    /// compared too.
    pub fn processes(&self, rounds: usize, memwall: Option<&Path>) {
        println!(
            "{rounds} interleaved rounds; what is added to the processor time of all processes: median, 95 % interval"
        );
        for starter in self.starters() {
            let mut rows: Vec<Vec<f64>> = Vec::new();
            for round in 0..rounds {
                let mut ways: Vec<usize> = (0..if memwall.is_some() { 5 } else { 3 }).collect();
                if round % 2 == 1 {
                    ways.reverse();
                }
                let mut times = vec![0.0; ways.len()];
                ways.iter().for_each(|way| times[*way] = self.time(*way, &starter, memwall));
                rows.push(times);
            }
            println!("{}", starter.name);
            for (name, above, below) in PAIRS.iter().filter(|(_, above, _)| *above < rows[0].len()) {
                let ratios: Vec<f64> = rows.iter().map(|row| row[*above] / row[*below] - 1.0).collect();
                let cost: Estimate = statistics::estimate(&ratios).unwrap();
                println!("{name:>20} {}", words_of(&cost));
            }
        }
    }

    fn time(&self, way: usize, starter: &Starter, memwall: Option<&Path>) -> f64 {
        let loaded = [Preloaded::Nothing, Preloaded::Passing, Preloaded::Noting];
        if let Some(loaded) = loaded.get(way) {
            let (watcher, _file) = self.environment(*loaded);
            return timed::run(watcher, &starter.command, self.folder.path()).program;
        }
        let recording = self.folder.path().join("recording.mw");
        let mut watcher = Command::new(memwall.unwrap());
        watcher.arg("record").arg("-o").arg(&recording);
        if way == 3 {
            watcher.arg("--no-heap");
        }
        watcher.arg("--");
        timed::run(watcher, &starter.command, self.folder.path()).program
    }

    fn starters(&self) -> Vec<Starter> {
        let forks = self.compiled("forks").into_os_string();
        let words = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let with_forks = |more: &[&str]| [vec![forks.clone()], words(more)].concat();
        let shell = "i=0; while [ $i -lt 200 ]; do /bin/true; i=$((i+1)); done";
        let make = format!("cd {} && make -s clean && make -s -j2", self.makefile().display());
        let mut all = vec![
            Starter { name: "fork without exec", command: with_forks(&["fork", "1000"]) },
            Starter { name: "/bin/true, nothing else", command: with_forks(&["exec", "/bin/true", "300"]) },
            Starter { name: "shell loop of /bin/true", command: words(&["sh", "-c", shell]) },
            Starter { name: "make -j2 of twelve files", command: words(&["sh", "-c", &make]) },
        ];
        if Command::new("redis-benchmark").arg("--version").output().is_ok() {
            let redis = format!(
                "cd {} && redis-server --port 0 --unixsocket s --save '' --daemonize no >/dev/null & \
                 server=$!; while [ ! -S {0}/s ]; do sleep 0.01; done; \
                 redis-benchmark -s {0}/s -n 20000 -q -t set,get,lpush,lrange_100 >/dev/null; kill $server; wait $server",
                self.folder.path().display()
            );
            all.push(Starter { name: "redis-benchmark", command: words(&["sh", "-c", &redis]) });
        }
        all
    }

    /// A folder where `make` has something to do.
    fn makefile(&self) -> PathBuf {
        let folder = self.folder.path().join("make");
        fs::create_dir_all(&folder).unwrap();
        for file in 0..12 {
            let source = format!("#include <stdlib.h>\nint f{file}(int x) {{ return abs(x) + {file}; }}\n");
            fs::write(folder.join(format!("f{file}.c")), source).unwrap();
        }
        let text =
            "OBJECTS = $(patsubst %.c,%.o,$(wildcard *.c))\nall: $(OBJECTS)\nclean:\n\trm -f $(OBJECTS)\n";
        fs::write(folder.join("Makefile"), text).unwrap();
        folder
    }
}
