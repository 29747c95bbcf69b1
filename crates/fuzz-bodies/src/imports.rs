//! What perf wrote: records of any events, and counts.

use std::{fs, io::Cursor, sync::OnceLock};

use import::{
    EventAttributes, ImageFolders, ImportRequest, PipedInput, SeekableInput,
    perf_data::{FurtherRecords, RecordConsumer},
};
use pmu::sampling::{FileSample, RingRecord};

use crate::seeds;

/// Looks at all there is.
struct Onlooker(u64);

impl RecordConsumer for Onlooker {
    fn sample(&mut self, _: &[EventAttributes], _: usize, sample: &FileSample<'_>) {
        self.0 += 1;
        self.0 += sample.call_chain.map_or(0, |chain| chain.addresses().count() as u64);
        self.0 += sample.registers.map_or(0, |registers| registers.values().count() as u64);
        self.0 += u64::from(sample.of_ring().is_some());
    }

    fn beside(&mut self, _: &[EventAttributes], time_ns: u64, _: RingRecord<'_>) {
        self.0 = self.0.wrapping_add(time_ns);
    }
}

/// Any bytes in the place of a file, and of a pipe.
pub fn perf_data(bytes: &[u8]) -> bool {
    let mut onlooker = Onlooker(0);
    let file = import::perf_data::read(&mut SeekableInput(Cursor::new(bytes)), "file", &mut onlooker);
    let pipe = import::perf_data::read(&mut PipedInput(bytes), "pipe", &mut onlooker);
    file.is_ok() || pipe.is_ok()
}

/// Any bytes in the place of records that have files of their own, twice beside a file that is sound.
pub fn perf_rings(bytes: &[u8]) -> bool {
    let mut onlooker = Onlooker(0);
    static MAIN: OnceLock<Vec<u8>> = OnceLock::new();
    let main = MAIN.get_or_init(|| seeds::perf_data().swap_remove(0));
    let mut rings = [bytes, bytes].map(|ring| SeekableInput(Cursor::new(ring)));
    let further = rings.iter_mut().map(|input| FurtherRecords { name: "ring".to_owned(), input });
    let read = import::perf_data::read_folder(
        &mut SeekableInput(Cursor::new(main)),
        further.collect(),
        "folder",
        &mut onlooker,
    );
    read.is_ok_and(|outcome| outcome.cut_short.is_none())
}

/// Any text in the place of a kernel's symbols.
pub fn kernel_names(bytes: &[u8]) -> bool {
    let Some(names) = symbols::KernelNames::parse(bytes) else { return false };
    let _ = names.address_of("_text");
    !names.functions(0x1000, true).is_empty()
}

/// The same, into a recording that is read again.
pub fn whole(bytes: &[u8]) -> bool {
    let Ok(folder) = seeds::folder() else { return false };
    let (file, output) = (folder.path().join("perf.data"), folder.path().join("a.sqlite"));
    let request = ImportRequest {
        files: vec![file.clone()],
        output: output.clone(),
        trust: None,
        cpu_id: None,
        folders: ImageFolders::default(),
        memwall: "fuzz".to_owned(),
    };
    if fs::write(&file, bytes).is_err() || import::import(&request).is_err() {
        return false;
    }
    // What we write we have to understand.
    record::file::read(&output).expect("a recording that can be read").import.is_some()
}

/// Any text in the place of counts.
pub fn perf_stat(bytes: &[u8]) -> bool {
    import::perf_stat::parse(&String::from_utf8_lossy(bytes)).is_ok()
}
