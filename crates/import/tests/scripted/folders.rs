//! A perf.data that is a folder, as `perf record --threads` and `--kcore` write it.

use super::*;

/// Two rings, each with a file of its own; what the second holds lies between the samples of the first.
fn rings() -> (ScriptedFile, [ScriptedFile; 2]) {
    let mut main = ScriptedFile::of(vec![cycles(0)]);
    main.say(6, "x86_64");
    main.execute((7, 7), 1000, "app");
    let ring = |first: u64| {
        let mut ring = ScriptedFile::of(vec![cycles(0)]);
        (0..1000).for_each(|turn| ring.sample(0, USER, &sample(2000 + 20 * turn + first, 0x40_0000 + turn)));
        ring
    };
    (main, [ring(0), ring(10)])
}

fn folder(main: &ScriptedFile, rings: [&[u8]; 2]) -> Imports {
    let mut imports = Imports::of(&[]);
    let folder = imports.folder.path().join("perf.data");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("data"), main.file()).unwrap();
    // In the order of their numbers, ten behind two.
    for (name, bytes) in ["data.2", "data.10"].into_iter().zip(rings) {
        fs::write(folder.join(name), bytes).unwrap();
    }
    imports.request.files = vec![folder];
    imports
}

fn rows_of(imports: &Imports) -> (Rows, PerfOutcome) {
    let mut rows = Rows::default();
    let outcome = import::read_perf(&imports.request.files[0], &mut rows).unwrap();
    (rows, outcome)
}

#[test]
fn rings_in_files_of_their_own_are_put_in_order_of_time() {
    let (main, [first, second]) = rings();
    let imports = folder(&main, [&first.records, &second.records]);
    let (rows, outcome) = rows_of(&imports);
    assert_eq!((outcome.cut_short, outcome.late, rows.all.len()), (None, 0, 2000));
    assert!(rows.all.is_sorted_by_key(|row| row.1), "by time");
    let (outcome, run) = imports.import().unwrap();
    assert_eq!((run.samples.place.len(), outcome.record.events[0].samples), (2000, 2000));
}

#[test]
fn each_file_is_compressed_by_itself() {
    let (main, rings) = rings();
    let packed = rings.map(|ring| ring.compressed(500, false).unwrap().records);
    let imports = folder(&main, [&packed[0], &packed[1]]);
    let (rows, outcome) = rows_of(&imports);
    assert_eq!((outcome.cut_short, rows.all.len()), (None, 2000));
    assert!(rows.all.is_sorted_by_key(|row| row.1));
}

#[test]
fn a_file_that_is_cut_short_is_named_and_the_others_are_read() {
    let (main, [first, second]) = rings();
    let imports = folder(&main, [&first.records[..1001], &second.records]);
    let (rows, outcome) = rows_of(&imports);
    let why = outcome.cut_short.unwrap();
    assert!(why.contains("data.2: it ends within"), "{why}");
    assert!((1000..1100).contains(&rows.all.len()), "{}", rows.all.len());
    let empty = Imports::of(&[]);
    let nothing = import::read_perf(empty.folder.path(), &mut Rows::default()).err().unwrap();
    assert!(nothing.to_string().contains("--threads"), "{nothing}");
    // A perf that failed leaves an empty one.
    let failed = folder(&main, [&[], &[]]);
    fs::write(failed.request.files[0].join("data"), b"").unwrap();
    let error = failed.import().err().unwrap().to_string();
    assert!(error.contains("damaged perf.data") && error.contains("ends within its header"), "{error}");
}

#[test]
fn kernel_functions_are_named_by_what_perf_kept_in_the_folder() {
    const TEXT: u64 = 0xffff_ffff_8100_0000;
    let (mut main, [mut first, second]) = rings();
    let kernel = sample(50_000, TEXT + 0x44);
    first.sample(0, KERNEL, &kernel);
    main.map_kernel((TEXT, TEXT + 0x1000), "_text");
    let imports = folder(&main, [&first.records, &second.records]);
    let (outcome, _) = imports.import().unwrap();
    let said = outcome.remarks.join(" ");
    assert!(said.contains("kernel have no names") && said.contains("no build id"), "{said}");
    let place = imports.request.files[0].join("kcore_dir");
    fs::create_dir(&place).unwrap();
    let list = "ffffffff81000000 T _text\nffffffff81000040 t work\nffffffff81000100 T _etext\n";
    fs::write(place.join("kallsyms"), list).unwrap();
    let (outcome, run) = imports.import().unwrap();
    assert!(!outcome.remarks.join(" ").contains("no names"), "{:?}", outcome.remarks);
    assert!(run.functions.iter().any(|function| function.name == "work"), "{:?}", run.functions);
}
