//! Source lines from debug information, wherever the tool chain put it.

mod programs;

use programs::{Built, Printed, SOURCE};
use symbols::{Image, NameSource};

fn line_of(text: &str) -> u32 {
    let line = SOURCE.lines().position(|line| line.contains(text)).expect("a line of the source");
    u32::try_from(line).expect("a small number") + 1
}

/// Some address in `hidden` must come from the inlined function's line, called from the line of the call.
fn assert_lines(image: &Image, printed: &Printed, what: &str) {
    assert!(image.has_debug_info(), "{what}");
    let range = image.function_range(printed.address(image, "hidden")).expect("bounds");
    let (inner, outer) = (line_of("the inlined line"), line_of("the line of the call"));
    let inlined = range.map(|address| image.lines_at(address)).find(|frames| frames.len() == 2);
    let frames = inlined.unwrap_or_else(|| panic!("{what}: no inlined frames"));
    assert_eq!((frames[0].function.as_deref(), frames[0].line), (Some("inlined"), Some(inner)), "{what}");
    assert_eq!((frames[1].function.as_deref(), frames[1].line), (Some("hidden"), Some(outer)), "{what}");
    assert!(frames.iter().all(|frame| frame.file.as_deref().is_some_and(|file| file.ends_with("program.c"))));
}

#[test]
fn lines_and_inlined_functions_from_every_form_of_dwarf() {
    for flags in [&["-g"][..], &["-gdwarf-4"], &["-gdwarf-3"], &["-g", "-static"], &["-g", "-gz=zlib"]] {
        let built = Built::new(flags);
        assert_lines(&built.image(), &built.run(), &format!("{flags:?}"));
    }
}

#[test]
fn without_debug_information_there_are_no_lines() {
    let built = Built::new(&[]);
    let (image, printed) = (built.image(), built.run());
    assert!(!image.has_debug_info());
    assert!(image.lines_at(printed.address(&image, "main")).is_empty());
}

/// Moves symbols and debug information to `debug_file` and strips the program.
fn separate(built: &Built, debug_file: &str) {
    built.tool("objcopy", &["--only-keep-debug", "program", debug_file]);
    built.tool("strip", &["program"]);
}

#[test]
fn a_debug_file_is_found_by_its_build_id() {
    let built = Built::new(&["-g"]);
    let printed = built.run();
    let id = built.image().identity().build_id_hex().expect("a build id");
    let directory = built.directory.path().join("debug/.build-id").join(&id[..2]);
    std::fs::create_dir_all(&directory).expect("a directory");
    let debug_file = directory.join(format!("{}.debug", &id[2..]));
    separate(&built, &debug_file.display().to_string());
    let image = built.image();
    assert_lines(&image, &printed, "by build id");
    let hidden = image.function_at(printed.address(&image, "hidden")).expect("found");
    assert_eq!((&*hidden.name, hidden.source), ("hidden", NameSource::DebugFile));
    assert_eq!(image.data_object_at(printed.biased(&image, "zeroed")).expect("found").name, "zeroed");

    // Another program's debug file under that name is passed over.
    let other = Built::from_source("int main(void) { return 7; }", &["-g"]);
    std::fs::copy(&other.path, &debug_file).expect("copied");
    assert!(!built.image().has_debug_info());
}

#[test]
fn a_debug_file_is_found_by_its_link() {
    for (directory, id) in [(".", "--build-id"), (".debug", "--build-id=none")] {
        let built = Built::new(&["-g", &format!("-Wl,{id}")]);
        let printed = built.run();
        std::fs::create_dir_all(built.directory.path().join(directory)).expect("a directory");
        let debug_file = format!("{directory}/program.debug");
        separate(&built, &debug_file);
        built.tool("objcopy", &[&format!("--add-gnu-debuglink={debug_file}"), "program"]);
        assert_lines(&built.image(), &printed, &debug_file);
        if id == "--build-id=none" {
            // Without a build id the checksum must hold.
            let path = built.directory.path().join(&debug_file);
            let mut bytes = std::fs::read(&path).expect("readable");
            bytes.push(0);
            std::fs::write(&path, bytes).expect("writable");
            assert!(!built.image().has_debug_info());
        }
    }
}

#[test]
fn split_units_are_found_where_they_were_built_and_beside_the_program() {
    let built = Built::new(&["-g", "-gsplit-dwarf", "-gdwarf-5"]);
    let printed = built.run();
    assert_lines(&built.image(), &printed, "where it was built");
    let moved = tempfile::tempdir().expect("a directory");
    for entry in built.directory.path().read_dir().expect("a listing").flatten() {
        std::fs::copy(entry.path(), moved.path().join(entry.file_name())).expect("copied");
        std::fs::remove_file(entry.path()).expect("removed");
    }
    let image = Image::open(&moved.path().join("program"), None).expect("an image");
    assert_lines(&image, &printed, "beside the program");
}

#[test]
fn debug_information_names_what_the_symbol_table_lost() {
    let built = Built::new(&["-g"]);
    let printed = built.run();
    built.tool("objcopy", &["--strip-symbol=hidden", "program"]);
    let image = built.image();
    let hidden = image.function_at(printed.address(&image, "hidden")).expect("found");
    assert_eq!((&*hidden.name, hidden.source), ("hidden", NameSource::DebugInfo));
}
