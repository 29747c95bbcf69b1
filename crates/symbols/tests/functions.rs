//! Functions and data of programs built in every usual way, against what the programs say themselves.

mod programs;

use std::collections::BTreeSet;

use object::{Object as _, ObjectSymbol as _, SymbolKind};
use programs::{Built, Printed};
use symbols::{Image, NameSource};

fn assert_named(image: &Image, printed: &Printed, part: &str) {
    let address = printed.address(image, part);
    let function = image.function_at(address).unwrap_or_else(|| panic!("{part} at {address:#x}"));
    assert_eq!(function.name, part);
    assert_eq!(function.range.start, address);
    assert_eq!(image.function_range(address), Some(function.range.clone()));
    let last = function.range.end - 1;
    assert_eq!(image.function_at(last).expect("its last byte").name, part);
    assert_eq!(
        image.bytes(function.range.clone()).map(|bytes| bytes.len() as u64),
        Some(function.range.end - address)
    );
}

#[test]
fn functions_have_their_names_however_the_program_was_linked() {
    for flags in [&["-fPIE", "-pie"][..], &["-no-pie"], &["-static"], &["-g"], &["-g", "-Wl,-z,now"]] {
        let built = Built::new(flags);
        let (image, printed) = (built.image(), built.run());
        for part in ["main", "hidden", "shown", "choose"] {
            if part == "shown" {
                // Three aliases: the shortest without underscores is shown, whatever their order.
                let address = printed.address(&image, part);
                assert_eq!(image.function_at(address).expect("found").name, "same", "{flags:?}");
            } else if part == "choose" {
                let function = image.function_at(printed.address(&image, part)).expect("found");
                assert!(function.resolver && function.name == "choose", "{flags:?}: {function:?}");
            } else {
                assert_named(&image, &printed, part);
            }
        }
        assert!(image.is_x86_64());
    }
}

#[test]
fn assembly_without_a_size_ends_at_the_next_symbol() {
    let built = Built::new(&[]);
    let (image, printed) = (built.image(), built.run());
    let start = printed.address(&image, "bare_label");
    let function = image.function_at(start + 3).expect("found");
    assert_eq!((&*function.name, function.range), ("bare_label", start..start + 4));
    assert_eq!(image.function_at(start + 4).expect("found").name, "bare_next");
}

#[test]
fn every_sized_function_symbol_is_found_at_its_place() {
    let built = Built::new(&["-static"]);
    let image = built.image();
    let bytes = std::fs::read(&built.path).expect("readable");
    let file = object::File::parse(&*bytes).expect("an ELF file");
    let symbols = || {
        file.symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0 && !symbol.is_undefined())
    };
    assert!(symbols().count() > 500);
    for symbol in symbols() {
        let function = image.function_at(symbol.address()).expect("found");
        let aliases: BTreeSet<&str> = symbols()
            .filter(|other| other.address() == symbol.address())
            .filter_map(|other| other.name().ok())
            .collect();
        assert!(aliases.contains(&*function.name), "{} for {aliases:?}", function.name);
    }
}

#[test]
fn stubs_carry_the_name_of_their_target() {
    for flags in [
        &["-fPIE", "-pie"][..],
        &["-no-pie", "-Wl,-z,lazy"],
        &["-fno-plt", "-Wl,-z,now"],
        &["-fcf-protection=full", "-Wl,-z,lazy"],
        &["-fcf-protection=full", "-Wl,-z,now"],
    ] {
        let built = Built::new(flags);
        let image = built.image();
        let names: BTreeSet<String> = image
            .function_ranges()
            .filter_map(|range| image.function_at(range.start))
            .filter(|function| function.source == NameSource::Plt)
            .map(|function| function.name.into_owned())
            .collect();
        if flags[0] == "-fno-plt" {
            assert!(!names.contains("malloc@plt"), "{names:?}");
        } else {
            assert!(names.contains("malloc@plt") && names.contains("fopen@plt"), "{flags:?}: {names:?}");
            // Called through a stub too, although it is the program's own: its target is chosen at start.
            assert!(names.contains("indirect@plt"), "{flags:?}: {names:?}");
        }
    }
}

#[test]
fn static_programs_name_the_stubs_of_resolved_functions() {
    let built = Built::new(&["-static"]);
    let image = built.image();
    let stubs: Vec<String> = image
        .function_ranges()
        .filter_map(|range| image.function_at(range.start))
        .filter(|function| function.source == NameSource::Plt)
        .map(|function| function.name.into_owned())
        .collect();
    assert!(stubs.iter().any(|name| name.contains("str") || name.contains("mem")), "{stubs:?}");
}

#[test]
fn stripped_programs_keep_exported_names_and_bounds() {
    let built = Built::new(&["-rdynamic"]);
    let printed = built.run();
    let hidden_range = {
        let image = built.image();
        image.function_range(printed.address(&image, "hidden")).expect("found")
    };
    built.tool("strip", &["program"]);
    let image = built.image();
    let shown = image.function_at(printed.address(&image, "shown")).expect("exported");
    assert_eq!((&*shown.name, shown.source), ("same", NameSource::DynamicTable));
    let hidden = image.function_at(printed.address(&image, "hidden")).expect("bounds");
    assert_eq!(hidden.name, format!("unnamed at {:#x}", hidden_range.start));
    assert!(!hidden.is_named());
    assert_eq!(hidden.range, hidden_range);
    assert!(!image.has_debug_info());
    assert!(image.data_object_at(printed.biased(&image, "zeroed")).is_none());
}

#[test]
fn data_has_its_names_and_sections() {
    for flags in [&["-fPIE", "-pie"][..], &["-no-pie"], &["-static"]] {
        let built = Built::new(flags);
        let (image, printed) = (built.image(), built.run());
        for (part, section, size) in
            [("initialised", ".data", 800), ("zeroed", ".bss", 4096), ("constant", ".rodata", 32)]
        {
            let address = printed.biased(&image, part);
            let symbol =
                image.data_object_at(address + size - 1).unwrap_or_else(|| panic!("{part} {flags:?}"));
            assert_eq!((&*symbol.name, symbol.section), (part, section));
            assert_eq!(symbol.range, address..address + size);
            assert_eq!(image.section_at(address), Some(section));
        }
        let main = printed.biased(&image, "main");
        assert_eq!(main, printed.address(&image, "main"));
        assert!(image.data_object_at(main).is_none());
    }
}

#[test]
fn code_windows_stay_within_the_code() {
    let built = Built::new(&[]);
    let (image, printed) = (built.image(), built.run());
    let main = printed.address(&image, "main");
    let window = image.code_at(main, 4, 16).expect("code");
    assert_eq!((window.start, window.bytes.len()), (main - 4, 20));
    assert_eq!(image.bytes(main..main + 16), Some(&window.bytes[4..]));
    let held = image.executable_ranges().find(|range| range.contains(&main)).expect("a segment");
    let all = image.code_at(main, u64::MAX, u64::MAX).expect("code");
    assert_eq!((all.start, all.bytes.len() as u64), (held.start, held.end - held.start));
    assert!(image.code_at(printed.biased(&image, "zeroed"), 1, 1).is_none());
    assert!(image.function_at(u64::MAX).is_none());
    assert!(image.bytes(u64::MAX - 4..u64::MAX).is_none());
}

#[inline(never)]
fn a_function_of_this_test(values: &[u64]) -> u64 {
    std::hint::black_box(values).iter().sum()
}

#[test]
fn rust_names_are_demangled_in_this_very_program() {
    let image = Image::open(&std::env::current_exe().expect("a path"), None).expect("an image");
    let at = a_function_of_this_test as *const () as u64;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let offset = maps.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (start, end) = fields[0].split_once('-')?;
        (number(start)..number(end)).contains(&at).then(|| at - number(start) + number(fields[2]))
    });
    let address = image.address_of_offset(offset.expect("mapped")).expect("in a segment");
    let function = image.function_at(address).expect("found");
    assert_eq!(function.demangled(), "functions::a_function_of_this_test");
    assert!(image.has_debug_info());
    let lines = image.lines_at(address);
    let last = lines.last().expect("a line");
    assert!(last.file.as_deref().is_some_and(|file| file.ends_with("functions.rs")), "{lines:?}");
    assert_eq!(a_function_of_this_test(&[1, 2]), 3);
}

#[test]
fn the_c_library_is_named_without_debug_information() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    let path =
        maps.lines().filter_map(|line| line.split_whitespace().nth(5)).find(|path| path.contains("libc.so"));
    // A test program that is linked statically has none to look at.
    let Some(path) = path else {
        prerequisites::skip(prerequisites::Need::SharedLibc, "the test is linked statically");
        return;
    };
    let image = Image::open(path.as_ref(), None).expect("an image").with_debug_root("/nonexistent");
    let names: BTreeSet<String> = image
        .function_ranges()
        .filter_map(|range| image.function_at(range.start))
        .map(|function| function.name.into_owned())
        .collect();
    assert!(names.contains("malloc") && names.contains("read") && names.contains("qsort"));
    let range = image.executable_ranges().next().expect("code");
    let step = ((range.end - range.start) / 100_000).max(1);
    let found = (0..100_000).filter(|i| image.function_range(range.start + i * step).is_some()).count();
    assert!(found > 50_000, "only {found} of 100000 addresses of the C library are in a function");
}

#[test]
fn versions_are_not_part_of_the_name_shown() {
    let directory = tempfile::tempdir().expect("a directory");
    let source = r#"
        __asm__(".symver walk_then, walk@V1");
        __asm__(".symver walk_now, walk@@V2");
        long walk_then(long x) { return x + 1; }
        long walk_now(long x) { return x + 2; }
    "#;
    std::fs::write(directory.path().join("library.c"), source).expect("written");
    std::fs::write(
        directory.path().join("versions"),
        "V1 { global: walk; local: *; };\nV2 { global: walk; };\n",
    )
    .expect("written");
    let flags = ["-shared", "-fPIC", "-Wl,--version-script=versions", "-o", "library.so", "library.c"];
    programs::tool(directory.path(), "cc", &flags);
    let image = Image::open(&directory.path().join("library.so"), None).expect("an image");
    let shown: Vec<String> = image
        .function_ranges()
        .filter_map(|range| image.function_at(range.start))
        .filter(|function| function.name.contains("walk"))
        .map(|function| function.demangled().into_owned())
        .collect();
    assert_eq!(shown, ["walk", "walk"]);
}

#[test]
fn the_vdso_is_named_from_memory() {
    use std::os::unix::fs::FileExt as _;
    let maps = std::fs::read_to_string("/proc/self/maps").expect("readable");
    // Some sandboxes have none.
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else {
        prerequisites::skip(prerequisites::Need::Vdso, "nothing of that name is mapped");
        return;
    };
    let number = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
    let (start, end) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')).expect("a range");
    let mut bytes = vec![0; (number(end) - number(start)) as usize];
    let memory = std::fs::File::open("/proc/self/mem").expect("own memory");
    memory.read_exact_at(&mut bytes, number(start)).expect("mapped");
    let image = Image::from_bytes("[vdso]", bytes).expect("an image");
    let names: BTreeSet<String> = image
        .function_ranges()
        .filter_map(|range| image.function_at(range.start))
        .map(|function| function.name.into_owned())
        .collect();
    assert!(names.contains("clock_gettime") || names.contains("__vdso_clock_gettime"), "{names:?}");
}
