//! Programs that ran elsewhere: found by their build ids, or said to be missing.

use super::*;

/// This test program: its path, its build id, and where in its file and in memory a function of it begins.
struct OwnProgram {
    path: String,
    build_id: Vec<u8>,
    file_offset: u64,
}

#[inline(never)]
extern "C" fn a_function_to_be_found() -> u32 {
    std::hint::black_box(42)
}

/// None if the linker writes no build ids.
fn own_program() -> Option<OwnProgram> {
    assert_eq!(a_function_to_be_found(), 42);
    let path = std::env::current_exe().unwrap();
    let image = symbols::Image::open(&path, None).unwrap();
    let build_id = image.identity().build_id.clone()?;
    let range = image
        .function_ranges()
        .find(|range| image.function_at(range.start).unwrap().demangled().contains("a_function_to_be_found"))
        .unwrap();
    let segment = image.segments().iter().find(|segment| segment.addresses.contains(&range.start)).unwrap();
    let file_offset = segment.file.start + range.start - segment.addresses.start;
    Some(OwnProgram { path: path.to_str().unwrap().to_owned(), build_id, file_offset })
}

/// A sample in that function of a program mapped from its first byte.
fn sampled(path: &str, build_id: &[u8], file_offset: u64) -> Vec<u8> {
    const BASE: u64 = 0x5555_0000_0000;
    let mut file = ordinary();
    file.execute((9, 9), 5000, "own");
    file.map((9, 9), 5001, (BASE, BASE + (1 << 32)), path, build_id);
    let own = ScriptedSample { task: (9, 9), ..sample(6000, BASE + file_offset) };
    file.sample(0, USER, &own);
    file.file()
}

fn function_of_last_sample(run: &Run) -> Option<String> {
    let place = run.place(*run.samples.place.last().unwrap()).unwrap();
    place.function.and_then(|id| run.function(id)).map(|function| function.name.clone())
}

fn problem_of_last_sample(run: &Run) -> Option<String> {
    let place = run.place(*run.samples.place.last().unwrap()).unwrap();
    run.module(place.module).unwrap().problem.clone()
}

#[test]
fn a_program_with_the_same_build_id_gives_names() {
    let Some(own) = own_program() else {
        return prerequisites::skip(prerequisites::Need::BuildIds, "the linker writes none");
    };
    let bytes = sampled(&own.path, &own.build_id, own.file_offset);
    let (_, run) = Imports::of(&[("perf.data", &bytes)]).import().unwrap();
    let name = function_of_last_sample(&run).unwrap();
    assert!(name.contains("a_function_to_be_found"), "{name}");
    assert_eq!(problem_of_last_sample(&run), None);
}

#[test]
fn another_program_of_the_same_name_gives_none_and_that_is_said() {
    let Some(own) = own_program() else {
        return prerequisites::skip(prerequisites::Need::BuildIds, "the linker writes none");
    };
    let bytes = sampled(&own.path, &[7; 20], own.file_offset);
    let (_, run) = Imports::of(&[("perf.data", &bytes)]).import().unwrap();
    assert_eq!(function_of_last_sample(&run), None);
    let problem = problem_of_last_sample(&run).unwrap();
    assert!(problem.contains("0707070707") && problem.contains("buildid-cache"), "{problem}");
    // Without a build id a file of another machine is nobody's.
    let bytes = sampled(&own.path, &[], own.file_offset);
    let (_, run) = Imports::of(&[("perf.data", &bytes)]).import().unwrap();
    assert_eq!(function_of_last_sample(&run), None);
    assert!(problem_of_last_sample(&run).unwrap().contains("another machine"));
}

#[test]
fn a_program_that_is_gone_is_found_in_the_cache_of_perf() {
    let Some(own) = own_program() else {
        return prerequisites::skip(prerequisites::Need::BuildIds, "the linker writes none");
    };
    let bytes = sampled("/gone/app", &own.build_id, own.file_offset);
    let mut imports = Imports::of(&[("perf.data", &bytes)]);
    let (_, run) = imports.import().unwrap();
    assert_eq!(function_of_last_sample(&run), None, "nothing is guessed");
    let digits: String = own.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let cache = imports.folder.path().join("cache");
    let place = cache.join(".build-id").join(&digits[..2]).join(&digits[2..]);
    fs::create_dir_all(&place).unwrap();
    std::os::unix::fs::symlink(&own.path, place.join("elf")).unwrap();
    imports.request.folders.caches = vec![cache];
    let (outcome, run) = imports.import().unwrap();
    assert!(function_of_last_sample(&run).unwrap().contains("a_function_to_be_found"));
    // The recording of before is kept.
    assert!(outcome.older.unwrap().path.ends_with("out.sqlite.old"));
}
