//! The same file as a machine with the other byte order writes it.

use pmu::{
    record::encode,
    sampling::{FileAttributes, FileLayout, turn_words},
};

use super::{ATTRIBUTES, ScriptedEvent, ScriptedFile, text};
use crate::container::{EVENT_DESC, FILE_HEADER, MAGIC_OTHER_ORDER};

/// Where in the flags it stands how precise an event is.
const PRECISE: u32 = 15;

fn word(word: u64) -> [u8; 8] {
    word.swap_bytes().to_ne_bytes()
}

fn half(half: u32) -> [u8; 4] {
    half.swap_bytes().to_ne_bytes()
}

/// A text of a section: only its length is a number.
fn turned_text(mut bytes: Vec<u8>) -> Vec<u8> {
    if let Some(length) = bytes.first_chunk_mut::<4>() {
        length.reverse();
    }
    bytes
}

impl ScriptedEvent {
    fn attributes_of_other_order(&self) -> Vec<u8> {
        // The two bits that say how precise it is are a number, whose higher one comes first there.
        let precise = self.flags >> PRECISE & 3;
        let turned = (precise >> 1 | precise << 1) & 3;
        let flags = self.flags & !(3 << PRECISE) | turned << PRECISE;
        let mut bytes = Self { flags, ..self.clone() }.attributes();
        turn_words(&mut bytes);
        // Kind and size share a word; the first of the flags is the highest bit.
        bytes[..8].rotate_left(4);
        bytes[40..48].iter_mut().for_each(|byte| *byte = byte.reverse_bits());
        bytes[40..48].reverse();
        bytes
    }

    fn layout(&self) -> FileLayout {
        FileLayout::new(FileAttributes {
            sample_type: self.sample_type,
            read_format: self.read_format,
            branch_sample_type: self.branch_sample_type,
            user_registers: self.registers,
            interrupt_registers: 0,
            stamps_all: true,
        })
    }
}

impl ScriptedFile {
    /// As `perf record -o FILE` writes it there; all records are of the first event's form.
    pub fn file_of_other_order(&self) -> Vec<u8> {
        let each = ATTRIBUTES as u64 + 16;
        let count = self.events.len() as u64;
        let attributes_at = FILE_HEADER + 8 * count;
        let data_at = attributes_at + each * count;
        let records = self.turned_records();
        let mut sections = self.sections.clone();
        sections.values_mut().for_each(|section| *section = turned_text(std::mem::take(section)));
        sections.insert(EVENT_DESC, self.turned_descriptions());
        let flags: u64 = sections.keys().map(|bit| 1 << bit).sum();
        let header =
            [FILE_HEADER, each, attributes_at, each * count, data_at, records.len() as u64, 0, 0, flags];
        let mut bytes = MAGIC_OTHER_ORDER.to_vec();
        bytes.extend(header.iter().chain(&[0; 3]).flat_map(|number| word(*number)));
        bytes.extend(self.events.iter().flat_map(|event| word(event.id)));
        for (index, event) in self.events.iter().enumerate() {
            bytes.extend(event.attributes_of_other_order());
            bytes.extend([FILE_HEADER + 8 * index as u64, 8].iter().flat_map(|number| word(*number)));
        }
        bytes.extend(records);
        let mut at = bytes.len() as u64 + 16 * sections.len() as u64;
        for section in sections.values() {
            bytes.extend([at, section.len() as u64].iter().flat_map(|number| word(*number)));
            at += section.len() as u64;
        }
        bytes.extend(sections.values().flatten());
        bytes
    }

    fn turned_records(&self) -> Vec<u8> {
        let layout = self.events[0].layout();
        let mut all = Vec::new();
        let mut rest = self.records.as_slice();
        while let Ok(Some((record, size))) = crate::stream::split_first(rest, Default::default()) {
            rest = &rest[size..];
            let mut body = record.body.to_vec();
            layout.finish_turning(record.kind, record.misc, &mut body);
            turn_words(&mut body);
            let mut bytes = encode(record.kind, record.misc, &body);
            bytes[..4].reverse();
            bytes[4..6].reverse();
            bytes[6..8].reverse();
            all.extend(bytes);
        }
        all
    }

    fn turned_descriptions(&self) -> Vec<u8> {
        let mut bytes = [half(self.events.len() as u32), half(ATTRIBUTES as u32)].concat();
        for event in &self.events {
            bytes.extend(event.attributes_of_other_order());
            bytes.extend(half(1));
            bytes.extend(turned_text(text(&event.name)));
            bytes.extend(word(event.id));
        }
        bytes
    }
}
