//! The same work is never said not to wait, and is of the same object, wherever the compiler computes the pointer.
#![allow(clippy::unwrap_used)]

use std::{fs, process::Command};

use analysis::{
    findings::{HeldBack, KnownLimits},
    reading::Reading,
    timer::TimerOptions,
};
use machine::Source;
use pmu::Live;
use recorder::{RecordRequest, RecordTarget, record};

/// Fills 256 MiB again and again: with `argument` the pointer comes from the caller, else from the same block.
const FILL: &str = r#"
#include <stdlib.h>
#include <string.h>
void fill_argument(char *to, long *length, char *same);
void fill_computed(char *to, long *length, char *same);
__asm__(
    ".text\n"
    ".globl fill_argument\n.type fill_argument, @function\nfill_argument:\n"
    "  mov (%rsi), %rcx\n  rep stosb\n  ret\n.size fill_argument, .-fill_argument\n"
    ".globl fill_computed\n.type fill_computed, @function\nfill_computed:\n"
    "  mov (%rsi), %rcx\n  lea (%rdx), %rdi\n  rep stosb\n  ret\n.size fill_computed, .-fill_computed\n");
int main(int argc, char **argv) {
    long length = 256 << 20;
    char *to = malloc(length);
    int by_argument = argc > 1 && !strcmp(argv[1], "argument");
    for (int round = 0; round < 12; round++) (by_argument ? fill_argument : fill_computed)(to, &length, to);
    return to[length / 2];
}"#;

/// Verdict, and the object that most samples touched with its size.
fn recorded(way: &str) -> Option<(HeldBack, String, KnownLimits<u64>)> {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("fill.c"), folder.path().join("fill"));
    fs::write(&source, FILL).unwrap();
    let built = Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    let file = folder.path().join("fill.mw");
    let request = RecordRequest::new(RecordTarget::Launch(vec![program.into(), way.into()]), &file);
    let outcome = record(&request, &Live, &Source::live()).unwrap();
    if let Some(refusal) = outcome.refusal {
        prerequisites::skip(prerequisites::Need::PerfEvent, refusal);
        return None;
    }
    let run = record::file::read(&file).unwrap();
    let reading = Reading::of(&run, None, &TimerOptions::default());
    let most = reading.objects.objects.into_iter().max_by_key(|object| object.samples).unwrap();
    Some((reading.findings.verdict.held_back, most.name, most.size_bytes))
}

#[test]
fn a_fill_is_held_back_by_stores_wherever_its_pointer_comes_from() {
    let (Some(argument), Some(computed)) = (recorded("argument"), recorded("computed")) else { return };
    assert_eq!((&argument.1, &argument.2), (&computed.1, &computed.2));
    assert_eq!(argument.2.value(), Some(&(256 << 20)), "{argument:?}");
    // How fast it went decides how much it waits, and where others have the CPU that cannot be told. The verdict on given samples
    // is held by `filling_memory_waits_on_stores_wherever_its_pointer_comes_from` of `analysis`.
    assert!(![argument.0, computed.0].contains(&HeldBack::No), "{:?} {:?}", argument.0, computed.0);
}
