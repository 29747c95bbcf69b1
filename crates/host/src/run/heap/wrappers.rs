//! Functions that allocate for others: the site is whoever called them.
//!
//! Known by their names, as written for people: C functions that end like an allocator's (`xmalloc`, `g_malloc0`,
//! `PyObject_Malloc`, `sqlite3Realloc`, `strdup`), what C++'s and Rust's libraries put between a container and the
//! allocator (`operator new`, `std::…`, `alloc::…`, `hashbrown::…`), and Rust's own entry points (`__rust_alloc`).

/// Ends of the names of C functions.
const ENDS: [&str; 9] =
    ["malloc", "malloc0", "malloc_n", "calloc", "zalloc", "realloc", "memalign", "strdup", "strndup"];

/// Beginnings, behind a return type and an opening `<`.
const BEGINNINGS: [&str; 12] = [
    "operator new",
    "std::",
    "__gnu_cxx::",
    "alloc::",
    "core::",
    "hashbrown::",
    "__rust_",
    "__rustc::",
    "__rdl_",
    "__rg_",
    "_PyMem_",
    "PyMem_",
];

/// Whether a function allocates for others.
pub(super) fn is_wrapper(name: &str) -> bool {
    // `T* std::f<…>(…)` and `<alloc::vec::Vec<T> as …>::f`: the word before the first bracket, and what it begins with.
    let begin = name.trim_start_matches(['<', '&']);
    let head = begin.split(['(', '<']).next().unwrap_or_default();
    let path = head.rsplit(' ').next().unwrap_or_default();
    if BEGINNINGS.iter().any(|start| path.starts_with(start) || begin.starts_with(start)) {
        return true;
    }
    let last = path.rsplit("::").next().unwrap_or_default().trim_end_matches("@plt").to_ascii_lowercase();
    ENDS.iter().any(|end| last.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::is_wrapper;

    #[test]
    fn names() {
        for name in [
            "malloc",
            "xmalloc",
            "xcalloc@plt",
            "g_malloc0",
            "PyObject_Malloc",
            "PyMem_RawMalloc",
            "sqlite3DbMallocRawNN_malloc",
            "__rust_alloc",
            "__rustc::__rdl_alloc",
            "operator new(unsigned long)",
            "std::vector<int, std::allocator<int> >::_M_realloc_insert(int&&)",
            "int* std::__uninitialized_copy<false>::__uninit_copy<int*>(int*)",
            "alloc::raw_vec::RawVecInner<A>::try_allocate_in",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "<alloc::string::String as core::convert::From<&str>>::from",
            "hashbrown::raw::RawTable<T,A>::reserve_rehash",
        ] {
            assert!(is_wrapper(name), "{name}");
        }
        for name in [
            "main",
            "allocate_customers",
            "app::load(std::string const&)",
            "<app::Table as app::Build>::build",
            "",
        ] {
            assert!(!is_wrapper(name), "{name}");
        }
    }
}
