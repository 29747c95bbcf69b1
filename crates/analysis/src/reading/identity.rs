//! Functions of one name, threads of one number and builds of one file, made by hand: none may stand for another.

use record::{
    data::{Area, AreaKind},
    ids::*,
    run::*,
};

use super::*;
use crate::{listing::AnnotatedFunction, timer::tests::run};

/// mov rax,[rdi]; mov [rdi],rax; add rcx,rdx; cmp rcx,rsi; jb 0; ret
const FIRST: [u8; 15] =
    [0x48, 0x8b, 0x07, 0x48, 0x89, 0x07, 0x48, 0x01, 0xd1, 0x48, 0x39, 0xf1, 0x72, 0xf2, 0xc3];
/// mov rax,[rsi]; add rcx,rdx; add rcx,rdx; cmp rcx,rsi; jb 0; ret
const SECOND: [u8; 15] =
    [0x48, 0x8b, 0x06, 0x48, 0x01, 0xd1, 0x48, 0x01, 0xd1, 0x48, 0x39, 0xf1, 0x72, 0xf2, 0xc3];
/// Behind the first instruction of either.
const LOADED: u64 = 3;

/// 39 samples in `FIRST` and 61 in `SECOND`, which lies `apart` behind it, in a module and on data of its own.
fn two_pieces(apart: u64, module: ModuleId) -> Run {
    let address = |index: u64| 0x1000_0000 + u64::from(index >= 39) * 0x1000_0000 + index * 64;
    let samples: Vec<_> = (0..100).map(|index| (LOADED, Some(address(index)))).collect();
    let mut run = run(&FIRST, &samples);
    let first = run.functions[0].clone();
    let (start, code) = (first.start + apart, Some(SECOND.to_vec()));
    run.functions.push(Function { module, start, end: start + SECOND.len() as u64, code, ..first });
    run.places.push(Place { module, address: start + LOADED, function: Some(FunctionId(1)) });
    run.samples.place[39..].fill(PlaceId(1));
    let area = |start| Area {
        process: ProcessId(0),
        start,
        end: start + 0x1000_0000,
        kind: AreaKind::Anonymous,
        pages: None,
    };
    run.data.areas = vec![area(0x1000_0000), area(0x2000_0000)];
    run
}

fn read(run: &Run) -> Reading {
    Reading::of(run, None, &TimerOptions::default())
}

fn listing(run: &Run, reading: &Reading) -> Vec<AnnotatedFunction> {
    reading.listing(run, 10)
}

fn parts(run: &Run, reading: &Reading) -> Vec<SamplePart> {
    reading.samples(run).collect()
}

/// The first two instructions of each function with its samples, the hottest function first.
fn first_lines(run: &Run, reading: &Reading) -> Vec<(String, u64, f64)> {
    let first = |function: &AnnotatedFunction| {
        let samples = function.lines.iter().map(|line| line.samples).sum();
        let texts = function.lines[..2].iter().map(|line| line.text.as_str());
        (texts.collect::<Vec<_>>().join("; "), function.lines[0].address, samples)
    };
    listing(run, reading).iter().map(first).collect()
}

/// Samples on each instruction, by the findings and by the samples one by one.
fn on_instructions(run: &Run, reading: &Reading) -> (Vec<f64>, Vec<f64>) {
    let instructions = &reading.findings.instructions;
    let mut sums = vec![0.0; instructions.len()];
    for part in parts(run, reading) {
        sums[part.instruction] += f64::from(part.parts.iter().sum::<f32>());
    }
    (instructions.iter().map(|found| found.samples()).collect(), sums)
}

#[test]
fn two_functions_of_one_name_show_each_its_own_code_and_data() {
    let run = two_pieces(0x1000, ModuleId(0));
    let reading = read(&run);
    let names: Vec<&str> = reading.findings.symbols.iter().map(|found| found.name.as_str()).collect();
    assert_eq!(names, ["f", "f"]);
    let expected = [
        ("mov rax,[rsi]; add rcx,rdx".to_owned(), 0x2000, 61.0),
        ("mov rax,[rdi]; mov [rdi],rax".to_owned(), 0x1000, 39.0),
    ];
    assert_eq!(first_lines(&run, &reading), expected);
    let used = |object: &crate::findings::ObjectFinding| object.symbols[0].symbol;
    let mut users: Vec<(u64, usize)> =
        reading.objects.objects.iter().map(|object| (object.samples, used(object))).collect();
    users.sort_unstable();
    assert_eq!(users, [(39, 1), (61, 0)]);
}

#[test]
fn two_builds_of_one_file_keep_their_instructions_apart() {
    let mut run = two_pieces(0, ModuleId(1));
    let build = |id: &str| Module { build_id: Some(id.to_owned()), ..run.modules[0].clone() };
    run.modules = vec![build("01"), build("02")];
    let reading = read(&run);
    let expected = [
        ("mov rax,[rsi]; add rcx,rdx".to_owned(), 0x1000, 61.0),
        ("mov rax,[rdi]; mov [rdi],rax".to_owned(), 0x1000, 39.0),
    ];
    assert_eq!(first_lines(&run, &reading), expected);
    let (found, summed) = on_instructions(&run, &reading);
    assert_eq!((found, summed), (vec![61.0, 39.0], vec![61.0, 39.0]));
}

#[test]
fn two_builds_of_a_file_that_cannot_be_read_are_two_as_well() {
    let mut run = two_pieces(0, ModuleId(1));
    run.modules.push(run.modules[0].clone());
    run.functions.clear();
    run.places.iter_mut().for_each(|place| place.function = None);
    let reading = read(&run);
    let (found, summed) = on_instructions(&run, &reading);
    assert_eq!((found, summed), (vec![61.0, 39.0], vec![61.0, 39.0]));
}

#[test]
fn a_number_used_again_is_another_thread() {
    let mut run = two_pieces(0x1000, ModuleId(0));
    run.threads.push(RecordedThread { name: "later".into(), ..run.threads[0].clone() });
    run.samples.thread[39..].fill(ThreadId(1));
    let reading = read(&run);
    let threads = &reading.findings.threads;
    let names: Vec<&str> = threads.iter().map(|thread| thread.name.as_str()).collect();
    assert_eq!(names, ["later", "p"]);
    let mut samples = [0, 0];
    parts(&run, &reading).iter().for_each(|part| samples[part.thread] += 1);
    assert_eq!(samples, [61, 39]);
}
