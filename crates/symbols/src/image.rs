//! One ELF file, and the questions it answers.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::{Architecture, Object as _, ObjectSection as _, ObjectSymbol as _};

use crate::contents::Contents;
use crate::debug::{self, DebugInfo};
use crate::debug_file::{self, DebugFile};
use crate::error::ImageError;
use crate::identity::{Identity, build_id};
use crate::layout::{self, ImageLayout, ImageSegment};
use crate::lines::{self, SourceLocation};
use crate::named::{DataSymbol, NameSource, NamedFunction};
use crate::symtab::{Names, WantedSymbols};
use crate::table::{NameRef, SymbolCandidate, SymbolEntry, SymbolOrigin, TextTable};
use crate::{frames, plt, symtab};

/// Where distributions put separate debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// An executable, a shared library or the vDSO. Addresses are those of the file, before the loader moved it.
pub struct Image {
    name: String,
    path: Option<PathBuf>,
    contents: Arc<Contents>,
    identity: Identity,
    layout: ImageLayout,
    debug_root: PathBuf,
    debug_file: OnceLock<Option<DebugFile>>,
    functions: OnceLock<TextTable>,
    data: OnceLock<TextTable>,
    lines: OnceLock<Option<Mutex<DebugInfo>>>,
}

/// Code around an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeWindow<'a> {
    /// The address of the first byte.
    pub start: u64,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// A section of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSection<'a> {
    /// Where it lies.
    pub addresses: Range<u64>,
    /// What it holds.
    pub bytes: &'a [u8],
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image")
            .field("name", &self.name)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Image {
    /// Opens a file, and makes sure that it is the one `expected` describes.
    ///
    /// # Errors
    /// Every reason why the file cannot name the addresses of the program that ran.
    pub fn open(path: &Path, expected: Option<&Identity>) -> Result<Self, ImageError> {
        let (contents, stamp) = Contents::open(path)?;
        let replaced = || ImageError::Replaced { path: path.to_owned() };
        let identity = Identity { build_id: build_id(&contents), stamp: Some(stamp) };
        // Asked before the format: a script in the program's place was replaced, that it is no ELF file follows.
        if expected.is_some_and(|expected| !expected.matches(&identity)) {
            return Err(replaced());
        }
        Self::new(path.display().to_string(), Some(path.to_owned()), contents, identity)
    }

    /// Takes the bytes of a file that has no path: the vDSO, or a deleted executable read through `/proc/PID/exe`.
    ///
    /// # Errors
    /// The bytes are not a whole ELF file.
    pub fn from_bytes(name: impl Into<String>, bytes: Vec<u8>) -> Result<Self, ImageError> {
        let identity = Identity { build_id: build_id(&bytes), stamp: None };
        Self::new(name.into(), None, Contents::Owned(bytes), identity)
    }

    fn new(
        name: String,
        path: Option<PathBuf>,
        contents: Contents,
        identity: Identity,
    ) -> Result<Self, ImageError> {
        layout::check(&name, &contents)?;
        let layout = match object::File::parse(&*contents) {
            Ok(file) => ImageLayout::of(&file),
            Err(error) => return Err(ImageError::Damaged { name, detail: error.to_string() }),
        };
        Ok(Self {
            name,
            path,
            contents: Arc::new(contents),
            identity,
            layout,
            debug_root: DEBUG_ROOT.into(),
            debug_file: OnceLock::new(),
            functions: OnceLock::new(),
            data: OnceLock::new(),
            lines: OnceLock::new(),
        })
    }

    /// Looks for separate debug files under `root` instead of `/usr/lib/debug`.
    #[must_use]
    pub fn with_debug_root(mut self, root: impl Into<PathBuf>) -> Self {
        self.debug_root = root.into();
        self.debug_file = OnceLock::new();
        self.functions = OnceLock::new();
        self.data = OnceLock::new();
        self.lines = OnceLock::new();
        self
    }

    /// The path or name it was opened with.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What to compare with later, to know whether the file is still this one.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Whether the code is for x86-64, the only kind that the decoder knows.
    #[must_use]
    pub fn is_x86_64(&self) -> bool {
        self.parsed().is_some_and(|file| file.architecture() == Architecture::X86_64)
    }

    /// The parts of the file that are mapped, by address.
    #[must_use]
    pub fn segments(&self) -> &[ImageSegment] {
        self.layout.segments()
    }

    /// The addresses of code that the file holds.
    pub fn executable_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.segments().iter().filter(|segment| segment.executable).map(|segment| {
            let len =
                (segment.file.end - segment.file.start).min(segment.addresses.end - segment.addresses.start);
            segment.addresses.start..segment.addresses.start + len
        })
    }

    /// The address of a place in the file. A sample at `ip` in a mapping of the file is at the file offset
    /// `ip - mapping_start + mapping_offset`.
    #[must_use]
    pub fn address_of_offset(&self, file_offset: u64) -> Option<u64> {
        self.layout.address_of_offset(file_offset)
    }

    /// What the loader added to the image's addresses, given where it put one part of the file. Also turns
    /// addresses of zeroed data, which no file offset describes, into the image's: `address - bias`.
    #[must_use]
    pub fn bias(&self, mapping_start: u64, mapping_offset: u64) -> Option<u64> {
        self.layout.bias(mapping_start, mapping_offset)
    }

    /// The bytes at these addresses, if the file holds all of them.
    #[must_use]
    pub fn bytes(&self, addresses: Range<u64>) -> Option<&[u8]> {
        self.contents.get(self.layout.file_range(&addresses)?)
    }

    /// The code from `before` bytes before `address` to `after` bytes behind it, or as much as there is. `None`: the
    /// address is not code.
    #[must_use]
    pub fn code_at(&self, address: u64, before: u64, after: u64) -> Option<CodeWindow<'_>> {
        let held = self.executable_ranges().find(|range| range.contains(&address))?;
        let start = address.saturating_sub(before).max(held.start);
        let end = address.saturating_add(after).min(held.end);
        Some(CodeWindow { start, bytes: self.bytes(start..end)? })
    }

    /// The function at an address. `None`: nothing in the file says what this code is, and the nearest name would
    /// be a guess.
    #[must_use]
    pub fn function_at(&self, address: u64) -> Option<NamedFunction<'_>> {
        let entry = self.functions().at(address)?;
        let (name, source) = self.function_name(entry);
        Some(NamedFunction { name, range: entry.range.clone(), source, resolver: entry.resolver })
    }

    /// A section that is loaded with the program, as it stands in the file.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<ImageSection<'_>> {
        let file = self.parsed()?;
        let section = file.section_by_name(name)?;
        let (at, length) = section.file_range()?;
        let from = usize::try_from(at).ok()?;
        let bytes = self.contents.get(from..from.checked_add(usize::try_from(length).ok()?)?)?;
        let start = section.address();
        Some(ImageSection { addresses: start..start.checked_add(length)?, bytes })
    }

    /// Where a symbol lies, by its name as it stands in the file.
    #[must_use]
    pub fn symbol_address(&self, name: &str) -> Option<u64> {
        let file = self.parsed()?;
        let found = file.symbols().find(|symbol| symbol.name_bytes().is_ok_and(|own| own == name.as_bytes()));
        found.map(|symbol| symbol.address())
    }

    /// The bounds of the function at an address: where decoding may start.
    #[must_use]
    pub fn function_range(&self, address: u64) -> Option<Range<u64>> {
        self.functions().at(address).map(|entry| entry.range.clone())
    }

    /// The bounds of every function, by start.
    pub fn function_ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.functions().entries().iter().map(|entry| entry.range.clone())
    }

    /// The variable at an address. `None`: stripped, or not a variable; [`Image::section_at`] may still help.
    #[must_use]
    pub fn data_object_at(&self, address: u64) -> Option<DataSymbol<'_>> {
        let entry = self.data.get_or_init(|| self.table(WantedSymbols::Data)).at(address)?;
        let name = String::from_utf8_lossy(self.name_bytes(entry.name?));
        let section = &self.layout.section_at(entry.range.start)?.name;
        Some(DataSymbol { name, range: entry.range.clone(), section })
    }

    /// The name of the section at an address.
    #[must_use]
    pub fn section_at(&self, address: u64) -> Option<&str> {
        self.layout.section_at(address).map(|section| &*section.name)
    }

    /// Whether there is debug information, in the file or in its debug file.
    #[must_use]
    pub fn has_debug_info(&self) -> bool {
        self.lines().is_some()
    }

    /// The source lines of an address, innermost first: all but the last were inlined. Empty: not known.
    #[must_use]
    pub fn lines_at(&self, address: u64) -> Vec<SourceLocation> {
        // Nothing else has lines; damaged tables may claim so for addresses that cannot be.
        let Some(info) = self.layout.code_segment(address).and_then(|_| self.lines()) else {
            return Vec::new();
        };
        lines::at(&info.lock().unwrap_or_else(PoisonError::into_inner), address)
    }

    fn parsed(&self) -> Option<object::File<'_>> {
        object::File::parse(&**self.contents).ok()
    }

    fn functions(&self) -> &TextTable {
        self.functions.get_or_init(|| self.table(WantedSymbols::Functions))
    }

    fn table(&self, wanted: WantedSymbols) -> TextTable {
        let mut candidates: Vec<SymbolCandidate> = Vec::new();
        if let Some(file) = self.parsed() {
            let names = Names::of(&self.contents, false);
            candidates = symtab::candidates(&file, &names, &self.layout, wanted);
            if wanted == WantedSymbols::Functions {
                candidates.extend(plt::candidates(&file, &names, &candidates));
                candidates.extend(frames::candidates(&file, &self.layout));
            }
        }
        if let Some(DebugFile { contents, .. }) = self.debug_file()
            && let Ok(file) = object::File::parse(&***contents)
        {
            candidates.extend(symtab::candidates(&file, &Names::of(contents, true), &self.layout, wanted));
        }
        TextTable::build(candidates, |name| self.name_bytes(name))
    }

    /// The separate debug file, looked for only where something is missing here.
    fn debug_file(&self) -> Option<&DebugFile> {
        let find = || {
            let file = self.parsed()?;
            let complete = debug::has_units(&file) && file.symbol_table().is_some();
            if complete { None } else { debug_file::find(&file, self.path.as_deref(), &self.debug_root) }
        };
        self.debug_file.get_or_init(find).as_ref()
    }

    fn lines(&self) -> Option<&Mutex<DebugInfo>> {
        let load = || {
            if debug::has_units(&self.parsed()?) {
                return DebugInfo::load(Arc::clone(&self.contents), self.path.as_deref()).map(Mutex::new);
            }
            let separate = self.debug_file()?;
            let units = object::File::parse(&**separate.contents).is_ok_and(|file| debug::has_units(&file));
            units.then_some(())?;
            DebugInfo::load(Arc::clone(&separate.contents), Some(&separate.path)).map(Mutex::new)
        };
        self.lines.get_or_init(load).as_ref()
    }

    fn name_bytes(&self, name: NameRef) -> &[u8] {
        let bytes: &[u8] = match (name.in_debug_file, self.debug_file.get()) {
            (false, _) => &self.contents,
            (true, Some(Some(file))) => &file.contents,
            (true, _) => &[],
        };
        bytes.get(name.offset..name.offset.saturating_add(name.len as usize)).unwrap_or_default()
    }

    fn function_name(&self, entry: &SymbolEntry) -> (Cow<'_, str>, NameSource) {
        let Some(name) = entry.name else {
            return self.name_of_unnamed(entry.range.start);
        };
        let name = String::from_utf8_lossy(self.name_bytes(name));
        match entry.origin {
            SymbolOrigin::Plt => (Cow::Owned(format!("{name}@plt")), NameSource::Plt),
            SymbolOrigin::Dynamic => (name, NameSource::DynamicTable),
            SymbolOrigin::DebugFile => (name, NameSource::DebugFile),
            SymbolOrigin::Symtab | SymbolOrigin::Frame => (name, NameSource::SymbolTable),
        }
    }

    /// Debug information may know what the symbol tables lost.
    fn name_of_unnamed(&self, start: u64) -> (Cow<'_, str>, NameSource) {
        let known = self.lines().and_then(|info| {
            lines::function_name(&info.lock().unwrap_or_else(PoisonError::into_inner), start)
        });
        match known {
            Some(name) => (Cow::Owned(name), NameSource::DebugInfo),
            None => (Cow::Owned(format!("unnamed at {start:#x}")), NameSource::Unnamed),
        }
    }
}
