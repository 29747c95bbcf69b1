//! Symbols of an ELF file as candidates for the tables of functions and of data.

use std::cell::Cell;

use object::elf;
use object::{
    Object as _, ObjectSymbol as _, ObjectSymbolTable as _, SymbolFlags, SymbolIndex, SymbolSection,
};

use crate::layout::ImageLayout;
use crate::table::{Binding, NameRef, SymbolCandidate, SymbolKind, SymbolOrigin};

/// All names of a file together; the largest browsers have a tenth of it.
const NAMES_LIMIT_BYTES: usize = 1 << 30;

/// What to collect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WantedSymbols {
    Functions,
    Data,
}

/// The symbols of one file that lie in the image's code or data.
pub(crate) fn candidates(
    file: &object::File<'_>,
    names: &Names<'_>,
    layout: &ImageLayout,
    wanted: WantedSymbols,
) -> Vec<SymbolCandidate> {
    let full = if names.in_debug_file { SymbolOrigin::DebugFile } else { SymbolOrigin::Symtab };
    let from_full = file.symbols().map(|symbol| (symbol, full));
    let from_dynamic = file.dynamic_symbols().map(|symbol| (symbol, SymbolOrigin::Dynamic));
    from_full
        .chain(from_dynamic)
        .filter_map(|(symbol, origin)| {
            let (kind, binding) = classify(&symbol, wanted)?;
            let start = symbol.address();
            let limit = match wanted {
                WantedSymbols::Functions => layout.code_end(start),
                WantedSymbols::Data => layout.data_end(start),
            }?;
            let name = names.place(&symbol)?;
            Some(SymbolCandidate {
                start,
                size: symbol.size(),
                limit,
                name: Some(name),
                kind,
                binding,
                origin,
            })
        })
        .collect()
}

fn classify(symbol: &object::Symbol<'_, '_>, wanted: WantedSymbols) -> Option<(SymbolKind, Binding)> {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return None };
    if matches!(symbol.section(), SymbolSection::Undefined | SymbolSection::Absolute) {
        return None;
    }
    let binding = match st_info.st_bind() {
        elf::STB_LOCAL => Binding::Local,
        elf::STB_WEAK => Binding::Weak,
        _ => Binding::Global,
    };
    let kind = match (wanted, st_info.st_type()) {
        (WantedSymbols::Functions, elf::STT_FUNC)
        | (WantedSymbols::Data, elf::STT_OBJECT | elf::STT_COMMON) => SymbolKind::Proper,
        (WantedSymbols::Functions, elf::STT_GNU_IFUNC) => SymbolKind::Resolver,
        (WantedSymbols::Functions, elf::STT_NOTYPE) => SymbolKind::Label,
        // Without a size these are marks of the linker (`__bss_start`), not data.
        (WantedSymbols::Data, elf::STT_NOTYPE) if symbol.size() > 0 => SymbolKind::Label,
        _ => return None,
    };
    Some((kind, binding))
}

/// Finds the places of names. Reading a name means looking for its end; a file whose symbols all point into one
/// endless string would take hours, so that the sum is limited. Sound files stay far below.
pub(crate) struct Names<'a> {
    bytes: &'a [u8],
    in_debug_file: bool,
    budget_bytes: Cell<usize>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(bytes: &'a [u8], in_debug_file: bool) -> Self {
        Self { bytes, in_debug_file, budget_bytes: Cell::new(NAMES_LIMIT_BYTES) }
    }

    fn place(&self, symbol: &object::Symbol<'_, '_>) -> Option<NameRef> {
        if self.budget_bytes.get() == 0 {
            return None;
        }
        let name = symbol.name_bytes().ok()?;
        self.budget_bytes.set(self.budget_bytes.get().saturating_sub(name.len()));
        // Labels local to an assembly file, and marks of code and data on other architectures.
        if name.is_empty() || name.starts_with(b".L") || name.starts_with(b"$") {
            return None;
        }
        let offset = (name.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize)?;
        Some(NameRef { in_debug_file: self.in_debug_file, offset, len: u32::try_from(name.len()).ok()? })
    }

    /// The place of a dynamic symbol's name, for entries that are named after it.
    pub(crate) fn of_dynamic(&self, file: &object::File<'_>, index: usize) -> Option<NameRef> {
        let symbol = file.dynamic_symbol_table()?.symbol_by_index(SymbolIndex(index)).ok()?;
        self.place(&symbol)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_only_as_far_as_the_limit() {
        let bytes = std::fs::read(std::env::current_exe().expect("a path")).expect("readable");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let read = |names: &Names<'_>| file.symbols().filter_map(|symbol| names.place(&symbol)).count();
        let all = read(&Names::of(&bytes, false));
        let few = read(&Names { budget_bytes: Cell::new(100), ..Names::of(&bytes, false) });
        assert!(all > 1000 && (1..=100).contains(&few), "{few} of {all}");
    }
}
