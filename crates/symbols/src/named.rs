//! What an address turns out to be: a function or a data symbol.

use std::borrow::Cow;
use std::ops::Range;

use crate::demangle::demangle;

/// Where a function's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum NameSource {
    /// The symbol table of the file itself.
    SymbolTable,
    /// The symbol table of the separate debug file.
    DebugFile,
    /// Debug information, where no symbol table has a name.
    DebugInfo,
    /// The table of what the file exports or imports: all that stripped files keep.
    DynamicTable,
    /// A stub that calls into a shared library; the name is its target's with `@plt`.
    Plt,
    /// No name: the bounds come from unwinding information, the name says where it starts.
    Unnamed,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedFunction<'a> {
    /// The name as in the file; `unnamed at 0x…` for code without one.
    pub name: Cow<'a, str>,
    /// The addresses it occupies. Another function may lie within.
    pub range: Range<u64>,
    /// Where the name comes from.
    pub source: NameSource,
    /// The code only chooses, once per process, which implementation of the named function is used.
    pub resolver: bool,
}

impl NamedFunction<'_> {
    /// The name as the programmer wrote it. Demangling takes longer than finding the function: do it once per
    /// function, not once per sample.
    #[must_use]
    pub fn demangled(&self) -> Cow<'_, str> {
        demangle(&self.name)
    }

    /// Whether the program gives this code a name.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.source != NameSource::Unnamed
    }
}

/// A global or static variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataSymbol<'a> {
    /// The name as in the file.
    pub name: Cow<'a, str>,
    /// The addresses it occupies.
    pub range: Range<u64>,
    /// The section it lies in: `.data`, `.bss`, `.rodata`.
    pub section: &'a str,
}

impl DataSymbol<'_> {
    /// The name as the programmer wrote it.
    #[must_use]
    pub fn demangled(&self) -> Cow<'_, str> {
        demangle(&self.name)
    }
}
