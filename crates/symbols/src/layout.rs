//! Where an ELF file's segments and sections lie, in the file and in memory.

use std::ops::Range;

use object::elf;
use object::read::elf::{FileHeader, ProgramHeader as _};
use object::{Endianness, Object as _, ObjectSection as _, ObjectSegment as _, SectionFlags, SegmentFlags};

use crate::error::ImageError;

/// The smallest page: file offsets and addresses of a segment agree modulo this.
const PAGE_BYTES: u64 = 4096;

/// A part of the file that is mapped into memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSegment {
    /// The addresses it occupies, including what is filled with zeros beyond the file's bytes.
    pub addresses: Range<u64>,
    /// The bytes of the file it shows.
    pub file: Range<u64>,
    /// Whether its code may run.
    pub executable: bool,
    /// Whether it may be written.
    pub writable: bool,
}

/// A section that occupies memory.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub addresses: Range<u64>,
    pub name: Box<str>,
    pub executable: bool,
}

/// The parts of an image.
#[derive(Debug, Default)]
pub(crate) struct ImageLayout {
    segments: Vec<ImageSegment>,
    /// By address.
    sections: Vec<Section>,
}

impl ImageLayout {
    pub(crate) fn of(file: &object::File<'_>) -> Self {
        let mut segments: Vec<ImageSegment> =
            file.segments().filter_map(|segment| to_segment(&segment)).collect();
        segments.sort_by_key(|segment| segment.addresses.start);
        let mut sections: Vec<Section> = file.sections().filter_map(|section| to_section(&section)).collect();
        sections.sort_by_key(|section| section.addresses.start);
        Self { segments, sections }
    }

    pub(crate) fn segments(&self) -> &[ImageSegment] {
        &self.segments
    }

    /// The segments, those with code first: where file pages are shared between segments, code was sampled.
    fn code_first(&self) -> impl Iterator<Item = &ImageSegment> {
        let with = |executable: bool| self.segments.iter().filter(move |s| s.executable == executable);
        with(true).chain(with(false))
    }

    pub(crate) fn address_of_offset(&self, offset: u64) -> Option<u64> {
        let segment = self.code_first().find(|segment| segment.file.contains(&offset))?;
        segment.addresses.start.checked_add(offset - segment.file.start)
    }

    /// What the loader added to every address, given one mapping of the file.
    pub(crate) fn bias(&self, mapping_start: u64, mapping_offset: u64) -> Option<u64> {
        let segment = self.code_first().find(|segment| {
            let first_page = segment.file.start - segment.file.start % PAGE_BYTES;
            (first_page..segment.file.end).contains(&mapping_offset)
        })?;
        let address = segment.addresses.start.wrapping_add(mapping_offset.wrapping_sub(segment.file.start));
        Some(mapping_start.wrapping_sub(address))
    }

    /// Where in the file the bytes of these addresses lie, if one segment holds them all.
    pub(crate) fn file_range(&self, addresses: &Range<u64>) -> Option<Range<usize>> {
        let segment = self.segments.iter().find(|segment| segment.addresses.contains(&addresses.start))?;
        let skip = addresses.start - segment.addresses.start;
        let start = segment.file.start.checked_add(skip)?;
        let end = start.checked_add(addresses.end.checked_sub(addresses.start)?)?;
        (end <= segment.file.end).then_some(())?;
        Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
    }

    /// The segment with code that holds this address.
    pub(crate) fn code_segment(&self, address: u64) -> Option<&ImageSegment> {
        self.segments.iter().find(|segment| segment.executable && segment.addresses.contains(&address))
    }

    pub(crate) fn section_at(&self, address: u64) -> Option<&Section> {
        let after = self.sections.partition_point(|section| section.addresses.start <= address);
        // Sections of damaged files may overlap; looking at one is enough for sound ones.
        let section = self.sections.get(after.checked_sub(1)?)?;
        section.addresses.contains(&address).then_some(section)
    }

    /// The end of the code that `address` lies in: its section's, or its segment's in files without sections.
    pub(crate) fn code_end(&self, address: u64) -> Option<u64> {
        if self.sections.is_empty() {
            return self.code_segment(address).map(|segment| segment.addresses.end);
        }
        self.section_at(address).filter(|section| section.executable).map(|section| section.addresses.end)
    }

    /// The end of the data section that `address` lies in.
    pub(crate) fn data_end(&self, address: u64) -> Option<u64> {
        self.section_at(address).filter(|section| !section.executable).map(|section| section.addresses.end)
    }
}

fn to_segment(segment: &object::Segment<'_, '_>) -> Option<ImageSegment> {
    let SegmentFlags::Elf { p_flags, .. } = segment.flags() else { return None };
    let (file_start, file_len) = segment.file_range();
    let addresses = segment.address()..segment.address().checked_add(segment.size())?;
    let file = file_start..file_start.checked_add(file_len)?;
    let executable = p_flags.contains(elf::PF_X);
    Some(ImageSegment { addresses, file, executable, writable: p_flags.contains(elf::PF_W) })
}

fn to_section(section: &object::Section<'_, '_>) -> Option<Section> {
    let SectionFlags::Elf { sh_type, sh_flags } = section.flags() else { return None };
    // Thread-local zeros have addresses that belong to other sections.
    let thread_local_zeros = sh_type == elf::SHT_NOBITS && sh_flags.contains(elf::SHF_TLS);
    if !sh_flags.contains(elf::SHF_ALLOC) || thread_local_zeros || section.size() == 0 {
        return None;
    }
    Some(Section {
        addresses: section.address()..section.address().checked_add(section.size())?,
        name: String::from_utf8_lossy(section.name_bytes().unwrap_or_default()).into(),
        executable: sh_flags.contains(elf::SHF_EXECINSTR),
    })
}

/// Whether the bytes are an ELF file that is as long as its headers say.
pub(crate) fn check(name: &str, bytes: &[u8]) -> Result<(), ImageError> {
    let not_elf = || ImageError::NotElf { name: name.to_owned() };
    let truncated = |needed: u64| {
        let actual = bytes.len() as u64;
        if needed <= actual {
            return Ok(());
        }
        Err(ImageError::Truncated { name: name.to_owned(), needed, actual })
    };
    if !bytes.starts_with(&elf::ELFMAG) {
        return Err(not_elf());
    }
    match bytes.get(4).copied() {
        Some(class) if class == elf::ELFCLASS32.0 => {
            truncated(size_of::<elf::FileHeader32<Endianness>>() as u64)?;
            truncated(needed_bytes::<elf::FileHeader32<Endianness>>(bytes).ok_or_else(not_elf)?)
        }
        Some(class) if class == elf::ELFCLASS64.0 => {
            truncated(size_of::<elf::FileHeader64<Endianness>>() as u64)?;
            truncated(needed_bytes::<elf::FileHeader64<Endianness>>(bytes).ok_or_else(not_elf)?)
        }
        Some(_) => Err(not_elf()),
        None => truncated(size_of::<elf::FileHeader64<Endianness>>() as u64),
    }
}

/// How long the file must be for its header tables and segments to fit.
fn needed_bytes<Header: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> Option<u64> {
    let header = Header::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let table_end = |offset: u64, count: u16, size: u16| match offset {
        0 => 0,
        _ => offset.saturating_add(u64::from(count) * u64::from(size)),
    };
    let programs =
        table_end(header.e_phoff(endian).into(), header.e_phnum(endian), header.e_phentsize(endian));
    let sections =
        table_end(header.e_shoff(endian).into(), header.e_shnum(endian), header.e_shentsize(endian));
    let segments = header.program_headers(endian, bytes).unwrap_or_default().iter();
    let loaded = segments.filter(|program| program.p_type(endian) == elf::PT_LOAD).map(|program| {
        let (offset, len): (u64, u64) = (program.p_offset(endian).into(), program.p_filesz(endian).into());
        offset.saturating_add(len)
    });
    Some(loaded.fold(programs.max(sections), u64::max))
}
