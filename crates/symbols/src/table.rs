//! A table of named address ranges: built once, then searched by halving.

use std::cmp::Reverse;
use std::ops::Range;

/// Where a name's bytes lie: in the image or in its debug file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NameRef {
    pub in_debug_file: bool,
    pub offset: usize,
    pub len: u32,
}

/// Where a candidate was found. Later is preferred among equal names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolOrigin {
    Frame,
    Plt,
    Dynamic,
    DebugFile,
    Symtab,
}

/// What a symbol says it is. Later is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SymbolKind {
    /// Bounds without a name.
    Bounds,
    /// A label of hand-written assembly.
    Label,
    /// A function that chooses the implementation of the one it is named after.
    Resolver,
    /// A function or data object.
    Proper,
}

/// How far a symbol is visible. Later is preferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Binding {
    Local,
    Weak,
    Global,
}

/// One symbol, before aliases and overlaps are settled.
#[derive(Debug, Clone)]
pub(crate) struct SymbolCandidate {
    pub start: u64,
    /// 0: not said.
    pub size: u64,
    /// Where its section ends.
    pub limit: u64,
    pub name: Option<NameRef>,
    pub kind: SymbolKind,
    pub binding: Binding,
    pub origin: SymbolOrigin,
}

impl SymbolCandidate {
    fn stated_end(&self) -> Option<u64> {
        (self.size > 0).then(|| self.start.saturating_add(self.size).min(self.limit))
    }
}

/// A named range.
#[derive(Debug, Clone)]
pub(crate) struct SymbolEntry {
    pub range: Range<u64>,
    pub name: Option<NameRef>,
    pub origin: SymbolOrigin,
    pub resolver: bool,
}

/// Entries by address, and the pieces of address space they own. Pieces differ from entries where symbols overlap:
/// the one that starts later owns the shared part.
#[derive(Debug, Default)]
pub(crate) struct TextTable {
    entries: Vec<SymbolEntry>,
    pieces: Vec<SymbolPiece>,
}

#[derive(Debug)]
struct SymbolPiece {
    start: u64,
    end: u64,
    entry: usize,
}

/// An entry whose end may still depend on its successor.
struct Draft {
    entry: SymbolEntry,
    limit: u64,
    open_ended: bool,
}

impl TextTable {
    /// Settles aliases (the best name wins, in an order that does not depend on the file's), sizes and overlaps.
    pub(crate) fn build<'a>(
        mut candidates: Vec<SymbolCandidate>,
        name_of: impl Fn(NameRef) -> &'a [u8],
    ) -> Self {
        candidates.retain(|candidate| candidate.start < candidate.limit);
        candidates.sort_by_key(|candidate| candidate.start);
        let mut drafts: Vec<Draft> = Vec::new();
        let mut covered_to = 0;
        for aliases in candidates.chunk_by(|a, b| a.start == b.start) {
            let Some(best) =
                aliases.iter().max_by(|a, b| preference(a, &name_of).cmp(&preference(b, &name_of)))
            else {
                continue;
            };
            let named_end = aliases
                .iter()
                .filter(|a| a.kind > SymbolKind::Bounds)
                .filter_map(SymbolCandidate::stated_end);
            let own_end =
                best.stated_end().filter(|_| best.kind > SymbolKind::Bounds).or_else(|| named_end.max());
            // Inside a sized function, a label or a frame is a part of it and not another function.
            if own_end.is_none() && best.start < covered_to {
                continue;
            }
            covered_to = covered_to.max(own_end.unwrap_or(0));
            drafts.push(draft(best, aliases, own_end));
        }
        let entries = close(drafts);
        Self { pieces: pieces_of(&entries), entries }
    }

    /// The entry that owns this address.
    pub(crate) fn at(&self, address: u64) -> Option<&SymbolEntry> {
        let after = self.pieces.partition_point(|piece| piece.start <= address);
        let piece = self.pieces.get(after.checked_sub(1)?)?;
        if address < piece.end { self.entries.get(piece.entry) } else { None }
    }

    pub(crate) fn entries(&self) -> &[SymbolEntry] {
        &self.entries
    }
}

fn draft(best: &SymbolCandidate, aliases: &[SymbolCandidate], own_end: Option<u64>) -> Draft {
    let frame_end =
        aliases.iter().filter(|a| a.kind == SymbolKind::Bounds).filter_map(SymbolCandidate::stated_end).max();
    let end = own_end.or(frame_end).unwrap_or(best.limit);
    let resolver = aliases.iter().any(|alias| alias.kind == SymbolKind::Resolver);
    let entry = SymbolEntry { range: best.start..end, name: best.name, origin: best.origin, resolver };
    Draft { entry, limit: best.limit, open_ended: own_end.is_none() }
}

/// Ends what has no size of its own where the next one starts.
fn close(drafts: Vec<Draft>) -> Vec<SymbolEntry> {
    let mut next_start = u64::MAX;
    let mut entries: Vec<SymbolEntry> = drafts
        .into_iter()
        .rev()
        .map(|Draft { mut entry, limit, open_ended }| {
            if open_ended {
                entry.range.end = entry.range.end.min(limit).min(next_start);
            }
            next_start = entry.range.start;
            entry
        })
        .collect();
    entries.reverse();
    entries
}

/// Which of two aliases to show: the larger one.
fn preference<'a>(candidate: &SymbolCandidate, name_of: &impl Fn(NameRef) -> &'a [u8]) -> impl Ord {
    let name = candidate.name.map(name_of).unwrap_or_default();
    // `read` before `__read` and `__libc_read`; mangled names all start alike.
    let underscores = match name {
        [b'_', b'Z' | b'R', ..] => 0,
        _ => name.iter().take_while(|byte| **byte == b'_').count(),
    };
    let versioned = name.contains(&b'@');
    (
        (candidate.kind, candidate.size > 0, Reverse(underscores), candidate.binding, !versioned),
        (Reverse(name.len()), Reverse(name), candidate.origin, candidate.size),
    )
}

fn pieces_of(entries: &[SymbolEntry]) -> Vec<SymbolPiece> {
    let mut pieces = Vec::with_capacity(entries.len());
    let mut open: Vec<usize> = Vec::new();
    let mut cursor = 0;
    for (index, entry) in entries.iter().enumerate() {
        emit_until(entry.range.start, entries, &mut open, &mut cursor, &mut pieces);
        cursor = entry.range.start;
        open.push(index);
    }
    emit_until(u64::MAX, entries, &mut open, &mut cursor, &mut pieces);
    pieces
}

/// Hands out the addresses from the cursor to `to`, innermost entry first.
fn emit_until(
    to: u64,
    entries: &[SymbolEntry],
    open: &mut Vec<usize>,
    cursor: &mut u64,
    pieces: &mut Vec<SymbolPiece>,
) {
    while let Some(&entry) = open.last() {
        let end = entries[entry].range.end;
        if *cursor < end.min(to) {
            pieces.push(SymbolPiece { start: *cursor, end: end.min(to), entry });
            *cursor = end.min(to);
        }
        if end > to {
            return;
        }
        open.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAMES: &[u8] = b"readinner__read";
    const READ: NameRef = NameRef { in_debug_file: false, offset: 0, len: 4 };
    const INNER: NameRef = NameRef { in_debug_file: false, offset: 4, len: 5 };
    const UNDER_READ: NameRef = NameRef { in_debug_file: false, offset: 9, len: 6 };

    fn name_of(name: NameRef) -> &'static [u8] {
        &NAMES[name.offset..name.offset + name.len as usize]
    }

    fn symbol(start: u64, size: u64, name: NameRef) -> SymbolCandidate {
        SymbolCandidate {
            start,
            size,
            limit: 1000,
            name: Some(name),
            kind: SymbolKind::Proper,
            binding: Binding::Global,
            origin: SymbolOrigin::Symtab,
        }
    }

    fn frame(start: u64, size: u64) -> SymbolCandidate {
        SymbolCandidate {
            name: None,
            kind: SymbolKind::Bounds,
            origin: SymbolOrigin::Frame,
            ..symbol(start, size, READ)
        }
    }

    fn table(candidates: &[SymbolCandidate]) -> TextTable {
        TextTable::build(candidates.to_vec(), name_of)
    }

    fn name_at(table: &TextTable, address: u64) -> Option<&'static [u8]> {
        table.at(address).and_then(|entry| entry.name).map(name_of)
    }

    #[test]
    fn the_plain_name_wins_in_any_order() {
        let weak = SymbolCandidate { binding: Binding::Weak, ..symbol(10, 5, READ) };
        let strong = symbol(10, 5, UNDER_READ);
        for order in [[weak.clone(), strong.clone()], [strong, weak]] {
            assert_eq!(name_at(&table(&order), 12), Some(&b"read"[..]));
        }
    }

    #[test]
    fn an_inner_function_splits_the_outer_one() {
        let table = table(&[symbol(10, 90, READ), symbol(40, 10, INNER)]);
        assert_eq!(name_at(&table, 39), Some(&b"read"[..]));
        assert_eq!(name_at(&table, 40), Some(&b"inner"[..]));
        assert_eq!(name_at(&table, 50), Some(&b"read"[..]));
        assert_eq!(name_at(&table, 100), None);
        assert_eq!(table.at(60).map(|entry| entry.range.clone()), Some(10..100));
    }

    #[test]
    fn an_unsized_symbol_ends_at_the_next_or_with_its_section() {
        let table = table(&[symbol(10, 0, READ), symbol(40, 0, INNER)]);
        assert_eq!(table.at(39).map(|entry| entry.range.clone()), Some(10..40));
        assert_eq!(table.at(999).map(|entry| entry.range.clone()), Some(40..1000));
        assert!(table.at(1000).is_none() && table.at(9).is_none());
    }

    #[test]
    fn a_frame_bounds_an_unsized_symbol_and_stands_for_a_missing_one() {
        let table =
            table(&[symbol(10, 0, READ), frame(10, 20), frame(50, 5), frame(80, 5), symbol(70, 20, INNER)]);
        assert_eq!(table.at(10).map(|entry| entry.range.clone()), Some(10..30));
        assert!(table.at(30).is_none());
        assert_eq!(table.at(52).map(|entry| (entry.range.clone(), entry.name)), Some((50..55, None)));
        assert_eq!(name_at(&table, 82), Some(&b"inner"[..]));
    }

    #[test]
    fn absurd_sizes_end_with_the_section() {
        let table = table(&[symbol(10, u64::MAX, READ)]);
        assert_eq!(table.at(10).map(|entry| entry.range.clone()), Some(10..1000));
    }

    proptest! {
        /// Against a walk over all entries: the owner is the entry with the latest start among those that hold it.
        #[test]
        fn lookups_agree_with_a_scan(raw in prop::collection::vec((0u64..1100, 0u64..60), 0..40)) {
            let candidates: Vec<SymbolCandidate> =
                raw.iter().map(|(start, size)| symbol(*start, *size, READ)).collect();
            let table = table(&candidates);
            for address in 0..1100 {
                let scanned = table.entries().iter().rev().find(|entry| entry.range.contains(&address));
                prop_assert_eq!(
                    table.at(address).map(|entry| entry.range.clone()),
                    scanned.map(|entry| entry.range.clone())
                );
                let inside = raw.iter().any(|(s, n)| address >= *s && address < s + n && address < 1000);
                prop_assert!(!inside || scanned.is_some());
            }
        }
    }
}
