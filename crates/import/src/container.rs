//! The frame of a perf.data: where its records lie, its events, and what it says of the machine.
//!
//! linux-perf-data decodes what files say of machines and build ids (see `facts`). Their frame is read here: that crate
//! keeps whole sections and rounds of records in memory, reserves room for whatever number a file states, reads no trace
//! data that stands between the records of a pipe, and gives up on a file at its first fault. Files come from anywhere,
//! are cut short when perf is killed, and may be larger than memory.

use std::{collections::BTreeMap, io};

use crate::{
    attributes::{EventAttributes, MOST_IDS},
    error::ImportError,
    facts::{self, FileFacts},
    file_order::FileOrder,
    input::{Input, read_up_to},
};

/// With this begins every file of perf since 2012, and one of a machine with the other byte order.
pub(crate) const MAGIC: &[u8; 8] = b"PERFILE2";
pub(crate) const MAGIC_OTHER_ORDER: &[u8; 8] = b"2ELIFREP";
/// Of before, whatever the order.
const MAGIC_OLD: &[u8; 8] = b"PERFFILE";

/// Bytes of the header of a file, and of a pipe.
pub(crate) const FILE_HEADER: u64 = 104;
pub(crate) const PIPE_HEADER: u64 = 16;

/// Sections that are larger are left out: build ids of a million files fit.
const LARGEST_SECTION: u64 = 64 << 20;

/// Events of a file, at most.
pub(crate) const MOST_EVENTS: u64 = 1 << 16;

/// Number of the section that describes events.
pub(crate) const EVENT_DESC: u32 = 12;

/// The frame of a file.
#[derive(Debug, Default)]
pub(crate) struct PerfContainer {
    pub is_pipe: bool,
    pub order: FileOrder,
    /// In the order of the file; of a pipe those come with the records.
    pub events: Vec<EventAttributes>,
    pub facts: FileFacts,
    /// First byte of the records, and how many bytes they take; none: to the end.
    pub data: (u64, Option<u64>),
    /// What could not be read of it, in words.
    pub faults: Vec<String>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug)]
struct Section {
    offset: u64,
    size: u64,
}

impl Section {
    fn end(self) -> Option<u64> {
        self.offset.checked_add(self.size)
    }
}

/// Reads the frame; `path` is for errors. Leaves the input at the first record.
pub(crate) fn read(input: &mut dyn Input, path: &str) -> Result<PerfContainer, ImportError> {
    let damaged = |detail: &str| ImportError::Damaged { path: path.to_owned(), detail: detail.to_owned() };
    let unreadable = |source: io::Error| ImportError::Unreadable { path: path.into(), source };
    let begin = read_up_to(input, PIPE_HEADER).map_err(unreadable)?;
    let order = order_of(&begin, path)?;
    let size = order.word(&begin, 8).ok_or_else(|| damaged("it ends within its header"))?;
    if size == PIPE_HEADER {
        return Ok(PerfContainer { is_pipe: true, order, data: (PIPE_HEADER, None), ..Default::default() });
    }
    if size < FILE_HEADER {
        return Err(damaged(&format!("its header says that it has {size} bytes")));
    }
    let rest = read_up_to(input, FILE_HEADER - PIPE_HEADER).map_err(unreadable)?;
    let header = [begin, rest].concat();
    let at = |at| order.word(&header, at).ok_or_else(|| damaged("it ends within its header"));
    let section = |from: usize| Ok::<_, ImportError>(Section { offset: at(from)?, size: at(from + 8)? });
    let (attr_size, attrs, data) = (at(16)?, section(24)?, section(40)?);
    let flags = sections_of([at(72)?, at(80)?, at(88)?, at(96)?], order);
    let Some(length) = input.length().map_err(unreadable)? else {
        return Err(ImportError::Unsupported {
            path: path.to_owned(),
            what: "a file of perf, read through a pipe".to_owned(),
            advice: "give its name, or write it with 'perf record -o -'",
        });
    };
    let events = events(input, attr_size, attrs, length, order).map_err(|detail| damaged(&detail))?;
    let mut container = PerfContainer { events, order, ..PerfContainer::default() };
    container.place_data(data, length).map_err(|detail| damaged(&detail))?;
    container.read_features(input, flags, data, length);
    input.jump(container.data.0).map_err(unreadable)?;
    Ok(container)
}

/// Which sections there are, a bit each. They stand in words of the machine that recorded: where those had 32 bits and the
/// other order, the halves lie the other way round. Every perf tells its host.
fn sections_of(flags: [u64; 4], order: FileOrder) -> [u64; 4] {
    const HOST: u64 = 1 << 3;
    let turned = flags.map(|word| word.rotate_left(32));
    let is_turned = order == FileOrder::Other && flags[0] & HOST == 0 && turned[0] & HOST != 0;
    if is_turned { turned } else { flags }
}

/// The byte order of a file, by how it begins.
fn order_of(begin: &[u8], path: &str) -> Result<FileOrder, ImportError> {
    match begin.first_chunk() {
        Some(MAGIC) => Ok(FileOrder::Same),
        Some(MAGIC_OTHER_ORDER) => Ok(FileOrder::Other),
        // The length of the header is small.
        Some(MAGIC_OLD)
            if begin.get(8..16).is_some_and(|size| size == FILE_HEADER.swap_bytes().to_ne_bytes()) =>
        {
            Ok(FileOrder::Other)
        }
        Some(MAGIC_OLD) => Ok(FileOrder::Same),
        Some(_) => Err(ImportError::Foreign { path: path.to_owned(), is: "it begins otherwise".to_owned() }),
        None => {
            let detail = "it ends within its header".to_owned();
            Err(ImportError::Damaged { path: path.to_owned(), detail })
        }
    }
}

impl PerfContainer {
    /// Finds out where records lie; a perf that was killed has not written how many there are.
    fn place_data(&mut self, data: Section, length: u64) -> Result<(), String> {
        if data.offset < FILE_HEADER || data.offset > length {
            return Err(format!("its records begin at byte {}, and it has {length}", data.offset));
        }
        let there = length - data.offset;
        if data.size == 0 && there > 0 {
            self.faults.push("perf did not finish it: nobody knows how many records there should be".into());
        } else if data.size > there {
            let lacking = data.size - there;
            self.faults.push(format!("{lacking} of {} bytes of records are not there", data.size));
        }
        let size = if data.size == 0 { there } else { data.size.min(there) };
        self.data = (data.offset, Some(size));
        Ok(())
    }

    /// Reads what stands behind the records. What is damaged of it is left out.
    fn read_features(&mut self, input: &mut dyn Input, flags: [u64; 4], data: Section, length: u64) {
        let present = (0..256u32).filter(|bit| flags[*bit as usize / 64] >> (bit % 64) & 1 != 0);
        let present: Vec<u32> = present.collect();
        let table = data.end().filter(|_| data.size > 0);
        let table_end = table.and_then(|end| end.checked_add(16 * present.len() as u64));
        let (Some(table), Some(_)) = (table, table_end.filter(|end| *end <= length)) else {
            if !present.is_empty() {
                self.faults.push("what it says of the machine and of build ids is not there".into());
            }
            return;
        };
        let entries = input.jump(table).and_then(|()| read_up_to(input, 16 * present.len() as u64));
        let Ok(entries) = entries else { return };
        let mut sections = BTreeMap::new();
        for (index, feature) in present.into_iter().enumerate() {
            if !facts::is_wanted(feature) && feature != EVENT_DESC {
                continue;
            }
            let word = |at: usize| self.order.word(&entries, 16 * index + at);
            let (Some(offset), Some(size)) = (word(0), word(8)) else {
                continue;
            };
            let end = Section { offset, size }.end();
            if size > LARGEST_SECTION || end.is_none_or(|end| end > length) {
                self.faults.push(format!("section {feature} lies outside the file and is left out"));
                continue;
            }
            if let Ok(bytes) = input.jump(offset).and_then(|()| read_up_to(input, size)) {
                sections.insert(feature, bytes);
            }
        }
        self.take_sections(sections);
    }

    /// Takes what was collected: event names and facts of the machine.
    pub fn take_sections(&mut self, sections: BTreeMap<u32, Vec<u8>>) {
        if let Some(described) = sections.get(&EVENT_DESC).and_then(|bytes| descriptions(bytes, self.order)) {
            self.describe(described);
        }
        let (mut facts, faults) = facts::read(sections, self.order);
        // A pipe tells of build ids one by one.
        facts.build_ids.append(&mut self.facts.build_ids);
        self.facts = facts;
        self.faults.extend(faults);
    }

    /// Gives events their names; where the list of events itself is not there, this is it.
    fn describe(&mut self, described: Vec<EventAttributes>) {
        if self.events.is_empty() {
            self.events = described;
            return;
        }
        if described.len() != self.events.len() {
            self.faults.push("it describes other events than it has; their names may be missing".into());
        }
        for (event, described) in self.events.iter_mut().zip(described) {
            if event.kind == described.kind && event.config == described.config {
                event.name = described.name;
                if event.ids.is_empty() {
                    event.ids = described.ids;
                }
            }
        }
    }
}

/// The events: attributes, each followed by where their numbers stand.
fn events(
    input: &mut dyn Input,
    each: u64,
    list: Section,
    length: u64,
    order: FileOrder,
) -> Result<Vec<EventAttributes>, String> {
    if list.size == 0 {
        return Ok(Vec::new());
    }
    let outside = || "its list of events lies outside the file".to_owned();
    let is_inside = list.end().is_some_and(|end| end <= length);
    if each < 64 + 16
        || each > list.size
        || list.size / each > MOST_EVENTS
        || list.size > LARGEST_SECTION
        || !is_inside
    {
        return Err(outside());
    }
    let bytes = input.jump(list.offset).and_then(|()| read_up_to(input, list.size));
    let bytes = bytes.map_err(|_| outside())?;
    let mut events = Vec::new();
    // The size was found to fit into memory.
    for entry in bytes.chunks_exact(each as usize) {
        let (mut event, size) = EventAttributes::parse(&entry[..entry.len() - 16], order)
            .ok_or("the attributes of an event are longer than their room")?;
        let ids = order.word(entry, size).zip(order.word(entry, size + 8));
        let (offset, size) = ids.ok_or_else(outside)?;
        let is_inside = offset.checked_add(size).is_some_and(|end| end <= length);
        if is_inside && size / 8 <= MOST_IDS as u64 {
            let numbers = input.jump(offset).and_then(|()| read_up_to(input, size)).unwrap_or_default();
            event.ids = order.words(&numbers).collect();
        }
        events.push(event);
    }
    Ok(events)
}

/// The section that describes events: their attributes again, with names and numbers.
fn descriptions(bytes: &[u8], order: FileOrder) -> Option<Vec<EventAttributes>> {
    let half = |bytes: &[u8], at: usize| order.half(bytes, at);
    let (count, each) = (half(bytes, 0)?, half(bytes, 4)? as usize);
    let mut events = Vec::new();
    let mut at: usize = 8;
    for _ in 0..count {
        let (mut event, _) = EventAttributes::parse(bytes.get(at..at.checked_add(each)?)?, order)?;
        at += each;
        let ids = half(bytes, at)? as usize;
        let length = half(bytes, at + 4)? as usize;
        let name = bytes.get(at + 8..(at + 8).checked_add(length)?)?;
        at += 8 + length;
        let numbers = bytes.get(at..at.checked_add(ids.checked_mul(8)?)?)?;
        at += numbers.len();
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        event.name = Some(String::from_utf8_lossy(&name[..end]).into_owned());
        event.ids = order.words(numbers).collect();
        events.push(event);
    }
    Some(events)
}
