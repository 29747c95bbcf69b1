//! DWARF: sections brought into memory, and the index over them kept beside what it borrows from.
//!
//! # Safety
//!
//! No unsafe code is written here. `self_cell!` expands to some: it keeps the index and the bytes it borrows in one
//! place and drops the index first.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use addr2line::{FrameIter, LookupContinuation, LookupResult, SplitDwarfLoad};
use gimli::{DwarfPackage, EndianSlice, RunTimeEndian};
use object::{CompressedData, CompressionFormat, Object as _, ObjectSection as _};
use self_cell::self_cell;

use crate::contents::Contents;
use crate::debug_file;

/// What all sections of a file may unfold to, as a multiple of the file: debug information shrinks to a half or a tenth.
/// More is an attack or damage.
const UNFOLD_LIMIT: u64 = 32;
/// For small files, and of all files together.
const UNFOLDED_BYTES: RangeInclusive<u64> = 64 << 20..=4 << 30;
/// More split files than this are left unread, each costs a mapping.
const SPLIT_FILE_LIMIT: usize = 4096;

pub(crate) type DwarfReader<'a> = EndianSlice<'a, RunTimeEndian>;
type Dwarf<'a> = gimli::Dwarf<DwarfReader<'a>>;

/// Files and unfolded sections that stay in place while the index borrows from them. Grows at the end only.
struct Shelf {
    main: Arc<Contents>,
    path: Option<PathBuf>,
    first: OnceLock<Box<KeptDebug>>,
    /// Bytes that sections may still unfold to.
    room: Cell<u64>,
}

struct KeptDebug {
    contents: Arc<Contents>,
    next: OnceLock<Box<KeptDebug>>,
}

impl Shelf {
    fn new(main: Arc<Contents>, path: Option<&Path>) -> Self {
        let room = Cell::new(room_for(&main).max(*UNFOLDED_BYTES.start()));
        Self { main, path: path.map(Path::to_owned), first: OnceLock::new(), room }
    }

    /// Keeps another file, whose sections may unfold too.
    fn keep_file(&self, contents: Arc<Contents>) -> &[u8] {
        self.room.set(self.room.get().saturating_add(room_for(&contents)).min(*UNFOLDED_BYTES.end()));
        self.keep(contents)
    }

    /// The bytes of a section, unfolded if need be; none if it is damaged, or too much for the room that is left.
    fn unfold<'a>(&'a self, section: CompressedData<'a>) -> Option<&'a [u8]> {
        if section.format != CompressionFormat::None {
            self.room.set(self.room.get().checked_sub(section.uncompressed_size)?);
        }
        match section.decompress().ok()? {
            Cow::Borrowed(bytes) => Some(bytes),
            Cow::Owned(bytes) => Some(self.keep(Arc::new(Contents::Owned(bytes)))),
        }
    }

    fn keep(&self, contents: Arc<Contents>) -> &[u8] {
        let mut link = &self.first;
        let mut kept = Box::new(KeptDebug { contents, next: OnceLock::new() });
        loop {
            if let Err(back) = link.set(kept) {
                kept = back;
                // Just refused as taken, so there is one.
                let Some(taken) = link.get() else { return &[] };
                link = &taken.next;
                continue;
            }
            return link.get().map_or(&[], |kept| &kept.contents);
        }
    }
}

fn room_for(contents: &Contents) -> u64 {
    (contents.len() as u64).saturating_mul(UNFOLD_LIMIT).min(*UNFOLDED_BYTES.end())
}

impl Drop for Shelf {
    /// One after the other: the chain may be longer than the stack is deep.
    fn drop(&mut self) {
        let mut next = self.first.take();
        while let Some(mut kept) = next {
            next = kept.next.take();
        }
    }
}

/// The index over the DWARF sections of one image.
struct Index<'a> {
    context: addr2line::Context<DwarfReader<'a>>,
    package: Option<DwarfPackage<DwarfReader<'a>>>,
    split_files_left: Cell<usize>,
}

self_cell!(
    struct Bound {
        owner: Shelf,

        #[not_covariant]
        dependent: Index,
    }
);

/// The debug information of one image.
pub(crate) struct DebugInfo(Bound);

impl DebugInfo {
    /// Indexes the units of the file at `path`. `None`: there are none, or they are damaged.
    pub(crate) fn load(contents: Arc<Contents>, path: Option<&Path>) -> Option<Self> {
        Bound::try_new(Shelf::new(contents, path), |shelf| index(shelf).ok_or(())).ok().map(Self)
    }

    /// Calls `visit` with the frames at an address, innermost first.
    pub(crate) fn with_frames<T>(
        &self,
        address: u64,
        visit: impl FnOnce(FrameIter<'_, DwarfReader<'_>>) -> T,
    ) -> Option<T> {
        self.0.with_dependent(|shelf, index| {
            let mut result = index.context.find_frames(address);
            loop {
                match result {
                    LookupResult::Output(frames) => return frames.ok().map(visit),
                    LookupResult::Load { load, continuation } => {
                        result = continuation.resume(split(shelf, index, &load));
                    }
                }
            }
        })
    }
}

/// Whether a file has DWARF to index.
pub(crate) fn has_units(file: &object::File<'_>) -> bool {
    file.section_by_name(".debug_info").is_some_and(|section| section.size() > 0)
        && file.section_by_name(".debug_abbrev").is_some()
}

fn index(shelf: &Shelf) -> Option<Index<'_>> {
    let file = object::File::parse(&**shelf.main).ok()?;
    let mut dwarf = load(shelf, &file, |id| Some(id.name()))?;
    if let Some(supplement) = debug_file::supplement(&file, shelf.path.as_deref()) {
        let bytes = shelf.keep_file(supplement.contents);
        let file = object::File::parse(bytes).ok()?;
        dwarf.set_sup(load(shelf, &file, |id| Some(id.name()))?);
    }
    dwarf.populate_abbreviations_cache(gimli::AbbreviationsCacheStrategy::Duplicates);
    let context = addr2line::Context::from_dwarf(dwarf).ok()?;
    Some(Index { context, package: package(shelf), split_files_left: Cell::new(SPLIT_FILE_LIMIT) })
}

fn load<'a>(
    shelf: &'a Shelf,
    file: &object::File<'a>,
    name_of: impl Fn(gimli::SectionId) -> Option<&'static str>,
) -> Option<Dwarf<'a>> {
    gimli::Dwarf::load(|id| Ok::<_, ()>(section(shelf, file, name_of(id)))).ok()
}

/// A section's bytes, unfolded if need be; nothing if it is absent or damaged.
fn section<'a>(shelf: &'a Shelf, file: &object::File<'a>, name: Option<&str>) -> DwarfReader<'a> {
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let bytes = || shelf.unfold(file.section_by_name(name?)?.compressed_data().ok()?);
    EndianSlice::new(bytes().unwrap_or_default(), endian)
}

/// The package of split units beside the program: `NAME.dwp`.
fn package(shelf: &Shelf) -> Option<DwarfPackage<DwarfReader<'_>>> {
    let mut path = shelf.path.clone()?.into_os_string();
    path.push(".dwp");
    let (contents, _) = Contents::open(Path::new(&path)).ok()?;
    let file = object::File::parse(shelf.keep_file(Arc::new(contents))).ok()?;
    let sections = |id: gimli::SectionId| Ok::<_, gimli::Error>(section(shelf, &file, id.dwo_name()));
    DwarfPackage::load(sections, EndianSlice::new(&[], RunTimeEndian::Little)).ok()
}

/// The split unit that a skeleton in the program asks for.
fn split<'a>(
    shelf: &'a Shelf,
    index: &Index<'a>,
    load: &SplitDwarfLoad<DwarfReader<'a>>,
) -> Option<Arc<Dwarf<'a>>> {
    if let Some(package) = &index.package
        && let Ok(Some(unit)) = package.find_cu(load.dwo_id, &load.parent)
    {
        return Some(Arc::new(unit));
    }
    index.split_files_left.set(index.split_files_left.get().checked_sub(1)?);
    let name = Path::new(OsStr::from_bytes(load.path?.slice()));
    let built_at = load.comp_dir.map(|directory| Path::new(OsStr::from_bytes(directory.slice())).join(name));
    let beside = shelf.path.as_deref().and_then(Path::parent).zip(name.file_name());
    let places = built_at.into_iter().chain(beside.map(|(directory, name)| directory.join(name)));
    places.into_iter().find_map(|place| split_file(shelf, &place, load))
}

fn split_file<'a>(
    shelf: &'a Shelf,
    path: &Path,
    load: &SplitDwarfLoad<DwarfReader<'a>>,
) -> Option<Arc<Dwarf<'a>>> {
    let (contents, _) = Contents::open(path).ok()?;
    let file = object::File::parse(shelf.keep_file(Arc::new(contents))).ok()?;
    let mut dwarf = self::load(shelf, &file, |id| id.dwo_name())?;
    let header = dwarf.units().next().ok()??;
    if dwarf.unit(header).ok()?.dwo_id != Some(load.dwo_id) {
        return None;
    }
    dwarf.make_dwo(&load.parent);
    Some(Arc::new(dwarf))
}
