//! Files that are cut short or damaged: what came before the damage, or a clear refusal.

use super::*;

#[test]
fn a_file_that_is_cut_anywhere_gives_what_came_before() {
    let bytes = ordinary().file();
    // Names stand behind the records: without them an event is called by its number.
    let blind = |(_, time, tid, ip, period): &Row| (*time, *tid, *ip, *period);
    let whole: Vec<_> = read(&bytes).unwrap().0.all.iter().map(blind).collect();
    let mut partial = 0;
    for length in (0..bytes.len()).step_by(7) {
        match read(&bytes[..length]) {
            Ok((rows, outcome)) => {
                assert!(rows.all.iter().all(|row| whole.contains(&blind(row))), "cut at {length}");
                assert!(outcome.cut_short.is_some() || !outcome.faults.is_empty(), "cut at {length}");
                partial += 1;
            }
            Err(error) => assert!(matches!(error, ImportError::Damaged { .. }), "{length}: {error}"),
        }
    }
    assert!(partial > 100, "{partial}");
    let pipe = ordinary().pipe();
    for length in (0..pipe.len()).step_by(5) {
        if let Ok((rows, _)) = read_pipe(&pipe[..length]) {
            assert!(rows.all.iter().all(|row| whole.contains(&blind(row))), "cut at {length}");
        }
    }
}

#[test]
fn a_perf_that_was_killed_leaves_records_without_a_length() {
    let mut bytes = ordinary().file();
    let whole = read(&bytes).unwrap().0.all.len();
    // The size of the records, and the sections that were never written.
    bytes[48..56].fill(0);
    let end = 104 + 8 + 128 + ordinary().records.len();
    bytes.truncate(end);
    let (rows, outcome) = read(&bytes).unwrap();
    assert_eq!(rows.all.len(), whole);
    assert!(outcome.faults.iter().any(|fault| fault.contains("did not finish")), "{:?}", outcome.faults);
    let (outcome, run) = Imports::of(&[("perf.data", &bytes)]).import().unwrap();
    assert_eq!(run.samples.place.len(), 90);
    assert!(outcome.remarks.iter().any(|remark| remark.contains("did not finish")));
    assert_eq!(outcome.record.machine.host, None, "not told, not guessed");
}

#[test]
fn numbers_that_cannot_be_are_refused_without_reserving_room_for_them() {
    let good = ordinary().file();
    for (at, what) in [(16, "attribute size"), (24, "attributes at"), (32, "attributes"), (40, "records at")]
    {
        let mut bytes = good.clone();
        bytes[at..at + 8].fill(0xff);
        let error = read(&bytes).err().unwrap_or_else(|| panic!("{what} {at}"));
        assert!(matches!(error, ImportError::Damaged { .. }), "{what}: {error}");
    }
    // More records than there are bytes, sections that lie elsewhere, lists of four thousand million.
    for at in [48, good.len() - 4] {
        let mut bytes = good.clone();
        let end = (at + 8).min(bytes.len());
        bytes[at..end].fill(0xff);
        let _ = read(&bytes).unwrap();
    }
    let mut file = ordinary();
    file.sections.insert(11, [0xff; 64].to_vec());
    file.sections.insert(12, [0xff; 64].to_vec());
    file.sections.insert(2, [0xff; 64].to_vec());
    let (rows, _) = read(&file.file()).unwrap();
    assert_eq!(
        (rows.all.len(), rows.all[0].0.as_str()),
        (100, "cycles:HG"),
        "the name is that of its number"
    );
}

#[test]
fn a_record_of_no_length_ends_the_file_and_says_where() {
    let mut file = ordinary();
    let before = file.records.len();
    file.records.extend([9, 0, 0, 0, 0, 0, 3, 0]);
    file.sample(0, USER, &sample(9999, 1));
    let (rows, outcome) = read(&file.file()).unwrap();
    assert_eq!(rows.all.len(), 100);
    let said = outcome.cut_short.unwrap();
    assert!(said.contains(&format!("byte {}", 104 + 8 + 128 + before)) && said.contains("3 bytes"), "{said}");
}

#[test]
fn samples_that_end_too_soon_are_counted() {
    let mut file = ordinary();
    file.record(b::PERF_RECORD_SAMPLE, USER, &[1; 40]);
    let (rows, outcome) = read(&file.file()).unwrap();
    assert_eq!((rows.all.len(), outcome.malformed), (100, 1));
}

#[test]
fn a_stream_of_zstd_that_is_none_is_told() {
    let mut file = ordinary();
    file.record(81, 0, &[0x55; 100]);
    let (rows, outcome) = read(&file.file()).unwrap();
    assert_eq!(rows.all.len(), 100);
    assert!(outcome.cut_short.unwrap().contains("unpacked"));
}

#[test]
fn files_of_other_programs_and_headers_of_nothing_are_refused() {
    let refused = |begin: &[u8]| {
        let bytes = [begin, &[0; 200]].concat();
        read(&bytes).err().unwrap().to_string()
    };
    assert!(refused(b"2ELIFREP").contains("damaged perf.data"));
    assert!(refused(b"PERFFILE").contains("damaged perf.data"));
    assert!(refused(b"SQLite f").contains("neither perf.data nor"));
    let error = read_pipe(&ordinary().file()).err().unwrap().to_string();
    assert!(error.contains("give its name"), "{error}");
}

#[test]
fn events_that_cannot_be_told_apart_are_refused() {
    let no_number = u64::from(b::PERF_SAMPLE_IP | b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME);
    let event = |config| ScriptedEvent { sample_type: no_number, config, ..cycles(0) };
    let mut file = ScriptedFile::of(vec![event(0), event(1)]);
    file.sample(0, USER, &sample(1, 1));
    // One record was read before that was clear: it is not taken for the first event's.
    let refused = read(&file.file());
    assert!(refused.err().unwrap().to_string().contains("tells which is which"));
}
