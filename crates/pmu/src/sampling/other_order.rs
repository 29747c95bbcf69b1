//! Records of a machine with the other byte order, turned into what this one would have written.
//!
//! All fields but a few are words. First all words are turned, so that the event of a record can be told; then what is no
//! word is set right.

use perf_event_open_sys::bindings as b;

use super::{file_layout::FileLayout, words::Words};

/// Turns every word of a record's body.
pub fn turn_words(body: &mut [u8]) {
    let (words, _): (&mut [[u8; 8]], _) = body.as_chunks_mut();
    words.iter_mut().for_each(|word| word.reverse());
}

/// Two numbers of four bytes each, of which turning the word has changed the places.
fn turn_halves(body: &mut [u8], at: usize) {
    if let Some(word) = body.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<8>()) {
        word.rotate_left(4);
    }
}

impl FileLayout {
    /// Sets right what is no word in a body whose words were turned.
    pub fn finish_turning(&self, kind: u32, misc: u16, body: &mut [u8]) {
        if kind == b::PERF_RECORD_SAMPLE {
            for at in self.halves_of_sample(body).into_iter().flatten() {
                turn_halves(body, at);
            }
            return;
        }
        let Some(end) = body.len().checked_sub(self.stamp_length()) else { return };
        let (own, stamp) = body.split_at_mut(end);
        turn_sideband(kind, misc, own);
        for field in [b::PERF_SAMPLE_TID, b::PERF_SAMPLE_CPU] {
            if let Some(at) = self.before_end(field).and_then(|before| stamp.len().checked_sub(before)) {
                turn_halves(stamp, at);
            }
        }
    }

    /// Where in a sample the words of two halves lie: thread, CPU, and the length of raw bytes.
    fn halves_of_sample(&self, body: &[u8]) -> [Option<usize>; 3] {
        let mut halves = [None; 3];
        let mut words = Words(body);
        let _ = self.find_halves(&mut words, body.len(), &mut halves);
        halves
    }

    fn find_halves(
        &self,
        words: &mut Words<'_>,
        length: usize,
        found: &mut [Option<usize>; 3],
    ) -> Option<()> {
        let skip = |words: &mut Words<'_>, fields: &[u32]| {
            words.words(fields.iter().filter(|field| self.has(**field)).count() as u64).map(drop)
        };
        let here = |words: &Words<'_>, field: u32| self.has(field).then_some(length - words.0.len());
        skip(words, &[b::PERF_SAMPLE_IDENTIFIER, b::PERF_SAMPLE_IP])?;
        found[0] = here(words, b::PERF_SAMPLE_TID);
        skip(words, &[b::PERF_SAMPLE_TID, b::PERF_SAMPLE_TIME, b::PERF_SAMPLE_ADDR])?;
        skip(words, &[b::PERF_SAMPLE_ID, b::PERF_SAMPLE_STREAM_ID])?;
        found[1] = here(words, b::PERF_SAMPLE_CPU);
        skip(words, &[b::PERF_SAMPLE_CPU, b::PERF_SAMPLE_PERIOD])?;
        if self.has(b::PERF_SAMPLE_READ) {
            self.readings(words)?;
        }
        if self.has(b::PERF_SAMPLE_CALLCHAIN) {
            let count = words.u64()?;
            words.words(count)?;
        }
        found[2] = here(words, b::PERF_SAMPLE_RAW);
        Some(())
    }
}

/// A record that is no sample, without its stamp.
fn turn_sideband(kind: u32, misc: u16, body: &mut [u8]) {
    let has_build_id = u32::from(misc) & b::PERF_RECORD_MISC_MMAP_BUILD_ID != 0;
    // Words of two halves, bytes that are no number, and from where on there is text.
    let (halves, bytes, text): (&[usize], _, _) = match kind {
        b::PERF_RECORD_MMAP => (&[0], None, Some(4)),
        b::PERF_RECORD_MMAP2 if has_build_id => (&[0, 7], Some(4..7), Some(8)),
        b::PERF_RECORD_MMAP2 => (&[0, 4, 7], None, Some(8)),
        b::PERF_RECORD_COMM => (&[0], None, Some(1)),
        b::PERF_RECORD_FORK | b::PERF_RECORD_EXIT => (&[0, 1], None, None),
        b::PERF_RECORD_SWITCH_CPU_WIDE => (&[0], None, None),
        _ => (&[], None, None),
    };
    halves.iter().for_each(|word| turn_halves(body, 8 * word));
    let end = body.len() / 8;
    for range in bytes.into_iter().chain(text.map(|from| from..end)) {
        if let Some(plain) = body.get_mut(8 * range.start..8 * range.end.max(range.start)) {
            turn_words(plain);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        record,
        sampling::{FileAttributes, MappedFile, RingRecord},
    };

    fn layout() -> FileLayout {
        let fields = b::PERF_SAMPLE_IP
            | b::PERF_SAMPLE_TID
            | b::PERF_SAMPLE_TIME
            | b::PERF_SAMPLE_CPU
            | b::PERF_SAMPLE_PERIOD
            | b::PERF_SAMPLE_CALLCHAIN
            | b::PERF_SAMPLE_RAW
            | b::PERF_SAMPLE_DATA_SRC;
        FileLayout::new(FileAttributes {
            sample_type: fields.into(),
            stamps_all: true,
            ..FileAttributes::default()
        })
    }

    /// Numbers of the other order, each of so many bytes.
    fn other(numbers: &[(u64, usize)]) -> Vec<u8> {
        let bytes = |(number, size): &(u64, usize)| {
            let mut bytes = number.to_ne_bytes();
            bytes.reverse();
            let from = if cfg!(target_endian = "little") { 8 - size } else { 0 };
            bytes[from..from + size].to_vec()
        };
        numbers.iter().flat_map(bytes).collect()
    }

    #[test]
    fn a_sample_of_the_other_order_says_the_same() {
        let mut body = other(&[
            (0x1234_5678, 8),
            (77, 4),
            (78, 4),
            (999, 8),
            (5, 4),
            (0, 4),
            (4000, 8),
            (2, 8),
            (0xa, 8),
            (0xb, 8),
            (12, 4),
        ]);
        body.extend(b"twelve bytes");
        body.extend(other(&[(0x42, 8)]));
        turn_words(&mut body);
        layout().finish_turning(b::PERF_RECORD_SAMPLE, 2, &mut body);
        let sample = layout().sample(2, &body).unwrap();
        assert_eq!((sample.ip, sample.task, sample.time_ns), (Some(0x1234_5678), Some((77, 78)), Some(999)));
        assert_eq!((sample.cpu, sample.period, sample.raw_bytes), (Some(5), Some(4000), Some(12)));
        assert_eq!(sample.call_chain.unwrap().addresses().collect::<Vec<_>>(), [0xa, 0xb]);
        assert!(sample.data_source.is_some());
    }

    #[test]
    fn mappings_names_and_tasks_of_the_other_order_say_the_same() {
        let stamp = [(7, 4), (8, 4), (55, 8), (3, 4), (0, 4)];
        let decode = |kind: u32, misc: u32, mut body: Vec<u8>| {
            turn_words(&mut body);
            layout().finish_turning(kind, misc as u16, &mut body);
            body
        };
        let mut body = other(&[(7, 4), (8, 4), (0x40_0000, 8), (0x1000, 8), (0x2000, 8)]);
        body.extend(other(&[(8, 4), (1, 4), (4321, 8), (9, 8), (5, 4), (2, 4)]));
        body.extend(b"/usr/bin/app\0\0\0\0");
        body.extend(other(&stamp));
        let body = decode(b::PERF_RECORD_MMAP2, 2, body);
        let raw = record::Record { kind: b::PERF_RECORD_MMAP2, misc: 2, body: &body };
        let RingRecord::Mmap(mmap) = layout().decode(raw) else { panic!("no mapping") };
        assert_eq!((mmap.pid, mmap.tid, mmap.start, mmap.length), (7, 8, 0x40_0000, 0x1000));
        assert_eq!((mmap.path, mmap.protection), (&b"/usr/bin/app"[..], Some(5)));
        let inode = MappedFile::Inode { major: 8, minor: 1, inode: 4321, generation: 9 };
        assert_eq!((mmap.file, mmap.stamp.time_ns, mmap.stamp.cpu), (inode, 55, 3));
        let build_id = b::PERF_RECORD_MISC_MMAP_BUILD_ID;
        let mut body = other(&[(7, 4), (8, 4), (0x40_0000, 8), (0x1000, 8), (0x2000, 8)]);
        body.extend([3, 0, 0, 0, 0xaa, 0xbb, 0xcc]);
        body.extend([0; 17]);
        body.extend(other(&[(5, 4), (2, 4)]));
        body.extend(b"/a\0\0\0\0\0\0");
        body.extend(other(&stamp));
        let body = decode(b::PERF_RECORD_MMAP2, build_id, body);
        let raw = record::Record { kind: b::PERF_RECORD_MMAP2, misc: build_id as u16, body: &body };
        let RingRecord::Mmap(mmap) = layout().decode(raw) else { panic!("no mapping") };
        assert_eq!((mmap.file, mmap.path), (MappedFile::BuildId(&[0xaa, 0xbb, 0xcc]), &b"/a"[..]));
        let mut body = other(&[(7, 4), (8, 4)]);
        body.extend(b"app\0\0\0\0\0");
        body.extend(other(&stamp));
        let body = decode(b::PERF_RECORD_COMM, 0, body);
        let raw = record::Record { kind: b::PERF_RECORD_COMM, misc: 0, body: &body };
        let RingRecord::Comm { pid, tid, name, .. } = layout().decode(raw) else { panic!("no name") };
        assert_eq!((pid, tid, name), (7, 8, &b"app"[..]));
        let mut body = other(&[(7, 4), (6, 4), (8, 4), (5, 4), (55, 8)]);
        body.extend(other(&stamp));
        let body = decode(b::PERF_RECORD_FORK, 0, body);
        let raw = record::Record { kind: b::PERF_RECORD_FORK, misc: 0, body: &body };
        let RingRecord::Fork { pid, tid, parent_pid, parent_tid, .. } = layout().decode(raw) else {
            panic!("no fork")
        };
        assert_eq!((pid, parent_pid, tid, parent_tid), (7, 6, 8, 5));
    }
}
