//! Functions that the compiler put into those that call them: whose line an address really is.

use serde::{Deserialize, Serialize};

use crate::ids::ModuleId;

/// What was inlined where, within the functions that samples landed in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlinedCode {
    /// Ordered by module and address. Addresses that are in none belong to the function they are in.
    pub ranges: Vec<InlinedRange>,
    /// Calls that are no calls any more, outer ones before those inside them.
    pub calls: Vec<InlinedCall>,
}

/// Addresses that an inlined function became.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InlinedRange {
    /// The module they are in.
    pub module: ModuleId,
    /// First address, in the module's own terms.
    pub start: u64,
    /// Behind the last address.
    pub end: u64,
    /// Index of the innermost call among [`InlinedCode::calls`].
    pub call: u32,
}

/// A call whose function was inlined.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct InlinedCall {
    /// The function that was inlined, for people.
    pub function: String,
    /// Index of the file it is called in among [`Run::files`](crate::run::Run::files), if known.
    pub file: Option<u32>,
    /// Line of the call in it, if known.
    pub line: Option<u32>,
    /// Index of the call that this one is inside of; none: it stands in the function itself.
    pub caller: Option<u32>,
}

impl InlinedCode {
    /// The calls that lead to an address, the innermost first; none if nothing was inlined there.
    pub fn at(&self, module: ModuleId, address: u64) -> Vec<&InlinedCall> {
        let after = self.ranges.partition_point(|range| (range.module, range.start) <= (module, address));
        let range = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        let range = range.filter(|range| range.module == module && address < range.end);
        // Each call is inside of an earlier one, so that this ends.
        let mut next = range.map(|range| range.call);
        let mut found = Vec::new();
        while let Some((index, call)) = next.and_then(|index| Some((index, self.calls.get(index as usize)?)))
        {
            found.push(call);
            next = call.caller.filter(|caller| *caller < index);
        }
        found
    }
}

/// Whether a source file comes with a compiler, a language or a package, by where it lies: its lines are not those of
/// whoever wrote the program.
pub fn is_library_source(file: &str) -> bool {
    const BEGINNINGS: [&str; 5] = ["/usr/include/", "/usr/lib/", "/usr/lib64/", "/rustc/", "/opt/rh/"];
    const MIDDLES: [&str; 5] =
        ["/include/c++/", "/.cargo/registry/", "/.cargo/git/", "/.rustup/toolchains/", "/lib/rustlib/"];
    BEGINNINGS.iter().any(|beginning| file.starts_with(beginning))
        || MIDDLES.iter().any(|middle| file.contains(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(function: &str, caller: Option<u32>) -> InlinedCall {
        InlinedCall { function: function.to_owned(), file: Some(0), line: Some(1), caller }
    }

    #[test]
    fn calls_are_found_from_the_inside_out() {
        let range = |start, end, call| InlinedRange { module: ModuleId(0), start, end, call };
        let code = InlinedCode {
            ranges: vec![range(10, 20, 1), range(20, 30, 0)],
            calls: vec![call("outer", None), call("inner", Some(0))],
        };
        let names = |address| -> Vec<String> {
            code.at(ModuleId(0), address).iter().map(|call| call.function.clone()).collect()
        };
        assert_eq!(names(10), ["inner", "outer"]);
        assert_eq!(names(25), ["outer"]);
        assert!(names(9).is_empty() && names(30).is_empty() && code.at(ModuleId(1), 15).is_empty());
    }

    #[test]
    fn a_circle_of_calls_ends() {
        let ranges = vec![InlinedRange { module: ModuleId(0), start: 0, end: 9, call: 0 }];
        let code = InlinedCode { ranges, calls: vec![call("a", Some(1)), call("b", Some(0))] };
        assert_eq!(code.at(ModuleId(0), 3).len(), 1);
    }

    #[test]
    fn libraries_are_known_by_where_they_lie() {
        for file in [
            "/usr/include/c++/12/bits/stl_algo.h",
            "/rustc/abc/library/core/src/slice/mod.rs",
            "/home/a/.cargo/registry/src/index/rand-0.8/src/lib.rs",
        ] {
            assert!(is_library_source(file), "{file}");
        }
        for file in ["/home/a/app/src/main.rs", "sort.cpp", "/src/usr/include/own.h"] {
            assert!(!is_library_source(file), "{file}");
        }
    }
}
