//! Functions of a Linux kernel, as `/proc/kallsyms` or a `vmlinux` names them.

use std::ops::Range;

use crate::{Image, PerfMap};

/// More than any kernel has; the rest of a longer list is not read.
const MOST_SYMBOLS: usize = 4 << 20;

/// Symbols of a kernel by address.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct KernelNames {
    /// Sorted by address; the best name of an address first.
    symbols: Vec<KernelSymbol>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelSymbol {
    address: u64,
    name: Box<str>,
    /// It is code.
    is_code: bool,
    /// Seen from other files; these are preferred.
    is_global: bool,
    /// The module it belongs to; none of the kernel itself.
    module: Option<Box<str>>,
}

impl KernelNames {
    /// Reads lines of `ADDRESS KIND NAME`, with `[MODULE]` behind those of modules. `None`: no symbol has an address, as
    /// the kernel shows them to those who may not know (`kptr_restrict`).
    ///
    /// ```
    /// let list = b"ffffffff81000000 T _text\nffffffff81000040 t work\nffffffff81000100 T rest\n";
    /// let names = symbols::KernelNames::parse(list).expect("addresses");
    /// let moved = names.functions(0x1000, false);
    /// assert_eq!(moved.at(0xffff_ffff_8100_1050).map(|(_, name)| name), Some("work"));
    /// ```
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let lines = bytes.split(|byte| *byte == b'\n').take(MOST_SYMBOLS);
        let symbols: Vec<KernelSymbol> = lines.filter_map(symbol).collect();
        Self::of(symbols)
    }

    /// The functions of a `vmlinux`, with the symbol that says where it begins.
    #[must_use]
    pub fn of_image(image: &Image, begin: &str) -> Option<Self> {
        let function = |range: Range<u64>| {
            let name = image.function_at(range.start)?.demangled().into_owned().into_boxed_str();
            let symbol = |address, name, is_code| KernelSymbol {
                address,
                name,
                is_code,
                is_global: true,
                module: None,
            };
            Some([symbol(range.start, name, true), symbol(range.end, "".into(), false)])
        };
        let mut symbols: Vec<KernelSymbol> =
            image.function_ranges().take(MOST_SYMBOLS).filter_map(function).flatten().collect();
        let address = image.symbol_address(begin)?;
        let (name, module) = (begin.into(), None);
        symbols.push(KernelSymbol { address, name, is_code: false, is_global: true, module });
        Self::of(symbols)
    }

    fn of(mut symbols: Vec<KernelSymbol>) -> Option<Self> {
        if symbols.iter().all(|symbol| symbol.address == 0) {
            return None;
        }
        let underscores = |name: &str| name.len() - name.trim_start_matches('_').len();
        symbols.sort_by_key(|symbol| {
            (symbol.address, !symbol.is_code, !symbol.is_global, underscores(&symbol.name))
        });
        Some(Self { symbols })
    }

    /// Where a symbol of the kernel itself lies.
    #[must_use]
    pub fn address_of(&self, name: &str) -> Option<u64> {
        let mut own = self.symbols.iter().filter(|symbol| symbol.module.is_none());
        own.find(|symbol| &*symbol.name == name).map(|symbol| symbol.address)
    }

    /// The functions with their names, moved by `slide`: each reaches to the next symbol of the same module, and one that
    /// none follows is left out. Those of modules only on demand: they lie elsewhere after each boot.
    #[must_use]
    pub fn functions(&self, slide: u64, with_modules: bool) -> PerfMap {
        let mut map = PerfMap::default();
        let mut rest = self.symbols.as_slice();
        while let [first, others @ ..] = rest {
            let next = others.iter().position(|other| other.address > first.address);
            let Some(next) = next else { break };
            rest = &others[next..];
            let is_wanted = first.is_code && (with_modules || first.module.is_none());
            if is_wanted && rest[0].module == first.module {
                let range = first.address.wrapping_add(slide)..rest[0].address.wrapping_add(slide);
                let name = match &first.module {
                    Some(module) => format!("{} [{module}]", first.name).into_boxed_str(),
                    None => first.name.clone(),
                };
                map.add(range, name);
            }
        }
        map
    }
}

fn symbol(line: &[u8]) -> Option<KernelSymbol> {
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next().filter(|kind| kind.len() == 1)?.chars().next()?;
    let name = words.next()?;
    let module = words.next().and_then(|word| word.strip_prefix('[')?.strip_suffix(']'));
    Some(KernelSymbol {
        address,
        name: name.into(),
        is_code: matches!(kind, 't' | 'T' | 'w' | 'W'),
        is_global: kind == 'T',
        module: module.map(Into::into),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &[u8] = b"ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000040 t __do_work
ffffffff81000040 T do_work
ffffffff81000040 W weak_work
ffffffff81000100 T rest
ffffffff81000200 T _etext
ffffffff81000300 D table
ffffffffc0000000 t hello\t[greet]
ffffffffc0000010 t bye\t[greet]
nonsense
";

    fn name(map: &PerfMap, address: u64) -> Option<&str> {
        map.at(address).map(|(_, name)| name)
    }

    #[test]
    fn a_function_reaches_to_the_next_symbol_and_has_the_best_of_its_names() {
        let names = KernelNames::parse(LIST).expect("addresses");
        assert_eq!(names.address_of("_stext"), Some(0xffff_ffff_8100_0000));
        assert_eq!(names.address_of("hello"), None, "a module's own");
        let map = names.functions(0, false);
        assert_eq!(name(&map, 0xffff_ffff_8100_0041), Some("do_work"));
        assert_eq!(name(&map, 0xffff_ffff_8100_01ff), Some("rest"));
        assert_eq!(name(&map, 0xffff_ffff_8100_0300), None, "data");
        assert_eq!(name(&map, 0xffff_ffff_c000_0000), None, "modules were not asked for");
        let moved = names.functions(0u64.wrapping_sub(0x40), true);
        assert_eq!(name(&moved, 0xffff_ffff_8100_0001), Some("do_work"));
        assert_eq!(name(&moved, 0xffff_ffff_bfff_ffc1), Some("hello [greet]"));
        assert_eq!(name(&moved, 0xffff_ffff_bfff_ffd1), None, "nothing tells where the last one ends");
    }

    #[test]
    fn addresses_that_are_kept_secret_name_nothing() {
        assert_eq!(KernelNames::parse(b"0000000000000000 T _text\n0000000000000000 t work\n"), None);
        assert_eq!(KernelNames::parse(b""), None);
    }
}
