//! Programs that run others: what they have to be told so that their functions have names.

use record::run::{ModuleKind, Run};

use crate::findings::{Findings, SymbolFinding};

/// A share of user time without names below this is not worth a note.
const WORTH_A_NOTE: f64 = 0.1;

/// A runtime, by the name of its executable.
struct Runtime {
    /// How the file's name begins.
    beginnings: &'static [&'static str],
    name: &'static str,
    /// What makes it list its functions in `/tmp/perf-PID.map`.
    how: &'static str,
    /// Its own function that stands for all that it interprets, if it does.
    interpreter: Option<&'static str>,
}

const RUNTIMES: [Runtime; 4] = [
    Runtime {
        beginnings: &["python", "pypy"],
        name: "Python",
        // Its trampolines stand in call chains only, which end at code without frame pointers.
        how: "'memwall run --call-graph python3 -X perf' (3.12 and later, built with frame pointers)",
        interpreter: Some("_PyEval_EvalFrameDefault"),
    },
    Runtime { beginnings: &["node"], name: "Node", how: "'node --perf-basic-prof'", interpreter: None },
    Runtime {
        beginnings: &["java"],
        name: "Java",
        how: "'java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit' (17 and later)",
        interpreter: None,
    },
    Runtime {
        beginnings: &["dotnet"],
        name: ".NET",
        how: "the environment variable DOTNET_PerfMapEnabled=1",
        interpreter: None,
    },
];

/// What to tell the runtime of a program much of whose time is in functions without names.
pub(crate) fn note(run: &Run, findings: &Findings) -> Option<String> {
    let executables = run.processes.iter().map(|process| {
        let path = process.executable.as_deref().unwrap_or(&process.name);
        path.rsplit('/').next().unwrap_or(path)
    });
    let runtime = executables
        .filter_map(|name| {
            RUNTIMES.iter().find(|runtime| runtime.beginnings.iter().any(|word| name.starts_with(word)))
        })
        .next()?;
    let share = |is_it: &dyn Fn(&SymbolFinding) -> bool| -> f64 {
        findings.symbols.iter().filter(|symbol| is_it(symbol)).map(|symbol| symbol.user_share.value).sum()
    };
    let unnamed = share(&|symbol| symbol.module_kind == ModuleKind::Anonymous && symbol.symbol.is_none());
    let interpreted = runtime.interpreter.map_or(0.0, |name| share(&|symbol| symbol.name.starts_with(name)));
    let Runtime { name, how, .. } = runtime;
    match () {
        () if unnamed >= WORTH_A_NOTE => Some(format!(
            "{:.0} % of user time is in code that {name} generated and gave no names: {how} names it.",
            unnamed * 100.0
        )),
        () if interpreted >= WORTH_A_NOTE => Some(format!(
            "{:.0} % of user time is in {name}'s interpreter, whatever it interprets: {how} names the program's own functions in call chains.",
            interpreted * 100.0
        )),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use record::run::Process;

    use super::*;
    use crate::{findings::TimeShare, timer};

    /// A program of this name with samples in a function.
    fn noted(
        executable: &str,
        function: &str,
        symbol: Option<&str>,
        kind: ModuleKind,
        share: f64,
    ) -> Option<String> {
        let mut run = timer::tests::run(&[0x90, 0xc3], &[(1, None); 40]);
        let process = Process {
            pid: 1,
            parent: None,
            name: String::new(),
            executable: Some(executable.to_owned()),
            began_ns: 0,
            ended_ns: None,
        };
        run.processes = vec![process];
        let mut findings = timer::analyse(&run, None, &timer::TimerOptions::default());
        let first = &mut findings.symbols[0];
        (first.name, first.symbol) = (function.to_owned(), symbol.map(str::to_owned));
        first.module_kind = kind;
        first.user_share = TimeShare { value: share, low: share, high: share };
        note(&run, &findings)
    }

    #[test]
    fn the_note_names_the_flag_of_the_runtime() {
        let unnamed =
            |executable| noted(executable, "unknown code at 0x1", None, ModuleKind::Anonymous, 0.5).unwrap();
        assert!(unnamed("/usr/bin/node").contains("--perf-basic-prof"));
        assert!(unnamed("/usr/lib/jvm/bin/java").contains("-XX:+DumpPerfMapAtExit"));
        let python = noted(
            "/usr/bin/python3.12",
            "_PyEval_EvalFrameDefault",
            Some("_PyEval_EvalFrameDefault"),
            ModuleKind::File,
            0.6,
        );
        assert!(python.unwrap().contains("-X perf"));
    }

    #[test]
    fn named_or_little_or_foreign_code_needs_no_note() {
        let anonymous = ModuleKind::Anonymous;
        assert_eq!(
            noted("/usr/bin/node", "LazyCompile:~work", Some("LazyCompile:~work"), anonymous, 0.9),
            None
        );
        assert_eq!(noted("/usr/bin/node", "unknown code at 0x1", None, anonymous, 0.01), None);
        assert_eq!(noted("/usr/bin/app", "unknown code at 0x1", None, anonymous, 0.9), None);
    }
}
