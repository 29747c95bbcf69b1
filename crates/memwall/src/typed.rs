//! What people type before they have read anything: a program without a command, words and flags of other tools.

use std::ffi::{OsStr, OsString};

use clap::{
    CommandFactory as _, FromArgMatches as _, Parser as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use recorder::program::launch::{LaunchedProgram, NotFound};

use crate::{Cli, Command, failure::Failure};

/// Why what was typed is not done.
pub enum TypedAnswer {
    /// The parser's own: help, or what is wrong.
    Parser(clap::Error),
    /// Ours.
    Usage(Failure),
}

/// Commands of other tools, and what does the same here.
const WORDS_OF_PEERS: [(&str, &str); 9] = [
    ("stat", "'memwall count -e EVENTS ./app' counts events"),
    ("list", "'memwall events' lists what can be counted"),
    ("diff", "'memwall compare before.sqlite after.sqlite' says what changed"),
    ("top", "'memwall run --pid PID --seconds 10' looks at a running process"),
    (
        "annotate",
        "'memwall report --verbose' lists the instructions of a recording, 'memwall report --html FILE' shows them beside \
         their source",
    ),
    (
        "flamegraph",
        "'memwall run --call-graph --html app.html ./app' draws one; of a recording, 'memwall report --folded - | \
         flamegraph.pl > app.svg', or 'memwall report --firefox app.json' for profiler.firefox.com",
    ),
    ("script", "'memwall report --json' is for scripts"),
    ("mem", "'memwall run --precise ./app' samples loads with their latency where the processor can"),
    ("c2c", "'memwall run ./app' names lines that threads share under its data; '--verbose' lists them"),
];

/// Flags of other tools, and what to write here.
const FLAGS_OF_PEERS: [(&str, &str); 4] = [
    ("-F", "samples per second are asked for with --rate, as in 'memwall run --rate 999 ./app'"),
    ("-g", "call chains are asked for with --call-graph, as in 'memwall record --call-graph ./app'"),
    ("-i", "a recording is named without a flag, as in 'memwall report before.sqlite'"),
    ("--stdio", "a report is text unless something else is asked for; leave it out"),
];

/// Commands that are about no machine, or about this one only.
const WITHOUT_MACHINE: [&str; 9] =
    ["demo", "run", "record", "report", "import", "compare", "kernels", "models", "setup"];

/// Options that choose a machine.
const CHOOSES_MACHINE: [&str; 3] = ["on", "model_file", "prefetchers"];

/// All commands. Options that a command refuses are known to it, to be refused with a reason, and not listed.
pub fn command() -> clap::Command {
    listing_what_it_takes(Cli::command())
}

/// The same for man pages: a page for each way to ask for help would say nothing.
pub fn documented() -> clap::Command {
    listing_what_it_takes(Cli::command().disable_help_subcommand(true))
}

fn listing_what_it_takes(mut command: clap::Command) -> clap::Command {
    command.build();
    for name in WITHOUT_MACHINE {
        if let Some(found) = command.find_subcommand_mut(name) {
            let is_refused = |argument: &clap::Arg| {
                // Its own --model-file is another.
                CHOOSES_MACHINE.contains(&argument.get_id().as_str()) && argument.is_global_set()
            };
            let hide =
                |argument: clap::Arg| if is_refused(&argument) { argument.hide(true) } else { argument };
            *found = std::mem::take(found).mut_args(hide);
        }
    }
    command
}

fn parsed(words: &[OsString]) -> Result<Cli, clap::Error> {
    // Only whoever is to be helped needs to know what is listed.
    Cli::try_parse_from(words).or_else(|_| with_help(words))
}

fn with_help(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let mut matches = command.try_get_matches_from_mut(words)?;
    Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// Parses what was typed, the program's name first.
pub fn parse(words: Vec<OsString>) -> Result<Cli, TypedAnswer> {
    let cli = match parsed(&words) {
        Ok(cli) => cli,
        Err(error) => return Err(refused(error)),
    };
    match &cli.command {
        Command::Program(program) => as_run(&words, program),
        _ => Ok(cli),
    }
}

/// `memwall ./app -x`: as if `run --` stood before it, unless it is no program.
fn as_run(words: &[OsString], program: &[OsString]) -> Result<Cli, TypedAnswer> {
    let name = program.first().map(OsString::as_os_str).unwrap_or_default();
    if let Some((word, pointer)) = pointer(&WORDS_OF_PEERS, name) {
        return Err(usage(format!(
            "'{word}' is a command of other tools; {pointer}. To measure a program of that name write 'memwall run {word}'"
        )));
    }
    let is_path = name.as_encoded_bytes().contains(&b'/');
    if !is_path && matches!(LaunchedProgram::find(program), Err(NotFound::Missing)) {
        return Err(misspelt(words, name));
    }
    let at = words.len() - program.len();
    let run = [OsString::from("run"), OsString::from("--")];
    // `memwall -- ./app`
    let options = words[..at].iter().filter(|word| *word != "--").cloned();
    let words: Vec<OsString> = options.chain(run).chain(program.iter().cloned()).collect();
    parsed(&words).map_err(TypedAnswer::Parser)
}

/// Neither a command nor a program: the parser knows which command it looks like.
fn misspelt(words: &[OsString], name: &OsStr) -> TypedAnswer {
    let none = clap::builder::Resettable::<clap::builder::ValueParser>::Reset;
    let command = Cli::command().allow_external_subcommands(false).external_subcommand_value_parser(none);
    let strict = command.try_get_matches_from(words);
    match strict {
        Err(error) if error.get(ContextKind::SuggestedSubcommand).is_some() => TypedAnswer::Parser(error),
        _ => usage(format!(
            "'{}' is neither a command of memwall nor a program on the path; give a path such as ./{}, or see 'memwall \
             --help'",
            name.display(),
            name.display()
        )),
    }
}

/// What the parser refused may have another name here.
fn refused(error: clap::Error) -> TypedAnswer {
    let unknown = match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(argument))) => Some(argument.as_str()),
        _ => None,
    };
    match unknown.and_then(|flag| pointer(&FLAGS_OF_PEERS, OsStr::new(flag))) {
        Some((flag, pointer)) => usage(format!("{flag} is a flag of other tools; {pointer}")),
        None => TypedAnswer::Parser(error),
    }
}

fn pointer(table: &'static [(&str, &str)], word: &OsStr) -> Option<&'static (&'static str, &'static str)> {
    table.iter().find(|(name, _)| word == *name)
}

fn usage(line: String) -> TypedAnswer {
    TypedAnswer::Usage(Failure::Usage(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(line: &str) -> Result<Cli, TypedAnswer> {
        parse(line.split(' ').map(OsString::from).collect())
    }

    /// The line of ours that it is answered with.
    fn said(line: &str) -> String {
        match typed(line) {
            Err(TypedAnswer::Usage(Failure::Usage(line))) => line,
            Err(TypedAnswer::Parser(error)) => panic!("{line}: {error}"),
            Err(_) => panic!("{line}: no usage"),
            Ok(_) => panic!("{line}: accepted"),
        }
    }

    #[test]
    fn words_and_flags_of_other_tools_point_to_ours() {
        for (word, ours) in [
            ("stat", "memwall count"),
            ("diff", "memwall compare"),
            ("top", "--pid"),
            ("annotate", "--verbose"),
            ("flamegraph", "--call-graph"),
        ] {
            let line = said(&format!("memwall {word} -p 3"));
            assert!(line.contains(ours) && line.contains(&format!("memwall run {word}")), "{line}");
        }
        for (flag, ours) in [("-F", "--rate"), ("-F99", "--rate"), ("-g", "--call-graph")] {
            let line = said(&format!("memwall record {flag} ./app"));
            assert!(line.contains(ours), "{line}");
        }
    }

    #[test]
    fn a_misspelt_command_gets_a_suggestion_and_a_name_of_nothing_a_clear_line() {
        for (typo, meant) in [("recrod ./app", "record"), ("compair a b", "compare"), ("dotcor", "doctor")] {
            let Err(TypedAnswer::Parser(error)) = typed(&format!("memwall {typo}")) else {
                panic!("{typo}");
            };
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains(&format!("'{meant}'")), "{error}");
        }
        let line = said("memwall no-such-program-anywhere -x");
        assert!(line.contains("neither a command") && line.contains("./no-such-program-anywhere"), "{line}");
    }

    #[test]
    fn a_program_needs_no_dashes_before_it() {
        for line in [
            "memwall true -x",
            "memwall -- true -x",
            "memwall --color never /bin/true --json",
            "memwall ./app",
        ] {
            let cli = typed(line).unwrap_or_else(|_| panic!("{line}"));
            assert!(matches!(cli.command, Command::Run(_)), "{line}");
        }
    }

    /// What scripts were written with: understood as what it is called now, and listed nowhere.
    #[test]
    fn older_spellings_of_flags_are_understood() {
        let matches = |line: &str| command().try_get_matches_from(line.split(' '));
        for (older, now) in [
            ("bench triad --repeat 3 --time 0.1", "bench triad --runs 3 --seconds 0.1"),
            ("run --duration 1 ./app", "run --seconds 1 ./app"),
            ("record --duration 1 ./app", "record --seconds 1 ./app"),
            ("count --duration 1 ./app", "count --seconds 1 ./app"),
            ("scenario neither --record a.sqlite", "scenario neither --output a.sqlite"),
            ("import a.csv --cpu GenuineIntel,6,143,8", "import a.csv --cpu-id GenuineIntel,6,143,8"),
        ] {
            let [then, now] = [older, now].map(|line| matches(&format!("memwall {line}")));
            assert_eq!(
                then.unwrap_or_else(|error| panic!("{error}")),
                now.expect("what it is now"),
                "{older}"
            );
        }
        for older in ["run --to a.txt ./app", "predict a.json --machine sim:tiny"] {
            assert!(typed(&format!("memwall {older}")).is_ok(), "{older}");
        }
        for (name, flags) in [
            ("bench", &["--repeat", "--time "][..]),
            ("run", &["--duration", "--to "]),
            ("scenario", &["--record"]),
            ("import", &["--cpu "]),
            ("predict", &["--machine"]),
        ] {
            let mut all = command();
            let help = all.find_subcommand_mut(name).expect("a command").render_long_help().to_string();
            for flag in flags {
                assert!(!help.contains(flag), "{name} {flag}");
            }
        }
    }
}
