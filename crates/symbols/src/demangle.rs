//! Mangled names turned into what the programmer wrote.

use std::borrow::Cow;
use std::fmt::{self, Write};

/// Longer input is not a name anyone wrote.
const INPUT_LIMIT_BYTES: usize = 1 << 16;
/// Back-references let a short name unfold without end; this is where reading stops.
const OUTPUT_LIMIT_BYTES: usize = 1 << 14;
/// How deep nested types are followed.
const DEPTH_LIMIT: u32 = 128;

/// The name as written in the source: Rust (both schemes, without the hash) and C++ are demangled, a symbol version
/// (`@@GLIBC_2.14`) is dropped, anything else stays as it is.
///
/// ```
/// assert_eq!(symbols::demangle("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
/// assert_eq!(symbols::demangle("_RNvCskwGfYPst2Cb_3foo3bar"), "foo::bar");
/// assert_eq!(symbols::demangle("_ZNSt6vectorIiSaIiEE9push_backEOi"), "std::vector<int, std::allocator<int> >::push_back(int&&)");
/// assert_eq!(symbols::demangle("memcpy@@GLIBC_2.14"), "memcpy");
/// assert_eq!(symbols::demangle("main"), "main");
/// ```
#[must_use]
pub fn demangle(name: &str) -> Cow<'_, str> {
    let (plain, mark) = split_version(name);
    if plain.len() > INPUT_LIMIT_BYTES {
        return Cow::Borrowed(name);
    }
    match rust(plain).or_else(|| cpp(plain)) {
        Some(demangled) => Cow::Owned(demangled + mark),
        None if mark.is_empty() => Cow::Borrowed(plain),
        None => Cow::Borrowed(name),
    }
}

/// Cuts `@VERSION` and `@@VERSION`, and returns the `@plt` of stubs apart.
fn split_version(name: &str) -> (&str, &str) {
    match name.find('@') {
        Some(at) if at > 0 && &name[at..] == "@plt" => name.split_at(at),
        Some(at) if at > 0 => (&name[..at], ""),
        _ => (name, ""),
    }
}

fn rust(name: &str) -> Option<String> {
    let demangled = rustc_demangle::try_demangle(name).ok()?;
    let mut text = Limited::default();
    // The alternate form leaves the hash out.
    write!(text, "{demangled:#}").ok()?;
    Some(text.0)
}

fn cpp(name: &str) -> Option<String> {
    if !name.starts_with("_Z") {
        return None;
    }
    let parse = cpp_demangle::ParseOptions::default().recursion_limit(DEPTH_LIMIT);
    let symbol = cpp_demangle::Symbol::new_with_options(name.as_bytes(), &parse).ok()?;
    let mut text = Limited::default();
    let options = cpp_demangle::DemangleOptions::new().recursion_limit(DEPTH_LIMIT);
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

/// Text that refuses to grow beyond the limit.
#[derive(Default)]
struct Limited(String);

impl Write for Limited {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > OUTPUT_LIMIT_BYTES {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stubs_keep_their_mark() {
        assert_eq!(demangle("malloc@plt"), "malloc@plt");
        assert_eq!(demangle("_Znwm@plt"), "operator new(unsigned long)@plt");
    }

    #[test]
    fn clones_say_so() {
        assert_eq!(demangle("_Z3foov.cold"), "foo() [clone .cold]");
        assert_eq!(demangle("walk.isra.0"), "walk.isra.0");
    }

    #[test]
    fn names_that_unfold_without_end_stay_mangled() {
        // Each substitution doubles the one before it.
        let mut name = "_Z1fSt4pairIiiE".to_owned();
        for index in 0..40 {
            let seed = char::from_digit(index % 36, 36).unwrap_or('0').to_ascii_uppercase();
            name.push_str(&format!("St4pairIS{seed}_S{seed}_E"));
        }
        assert!(demangle(&name).len() <= OUTPUT_LIMIT_BYTES);
    }

    proptest! {
        #[test]
        fn nothing_panics_or_grows(name in "(_Z|_R|_ZN)[A-Za-z0-9_@.$]{0,60}") {
            prop_assert!(demangle(&name).len() <= OUTPUT_LIMIT_BYTES + name.len());
        }
    }
}
