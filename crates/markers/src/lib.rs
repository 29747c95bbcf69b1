//! Regions of a program, for memwall: which part waits for memory.
//!
//! ```
//! for _ in 0..10 {
//!     let _region = markers::region("assemble"); // ends with its scope
//!     // ...
//!     markers::event_done();
//! }
//! ```
//!
//! Under `memwall run` and `memwall record` marks are written down; otherwise each is a load and a branch. Regions may be nested,
//! may overlap, and are each thread's own: a mark is about the thread that makes it. Of names the first 32 bytes count. C and C++
//! have the same in `memwall.h`.
#![deny(unsafe_code)]

mod entered;

use std::marker::PhantomData;

use entered::Entered;

/// A region begins on this thread.
#[inline]
pub fn begin(name: &str) {
    if let Some(entered) = Entered::here() {
        entered.begin(name);
    }
}

/// It ends.
#[inline]
pub fn end(name: &str) {
    if let Some(entered) = Entered::here() {
        entered.end(name);
    }
}

/// The first visits of a region, on each thread, do not count: caches and pages are cold. Say so before they begin.
#[inline]
pub fn skip_first(name: &str, visits: u32) {
    if let Some(entered) = Entered::here() {
        entered.skip_first(name, visits);
    }
}

/// The program has done with one of the events, steps or requests that it works on. How many and how long they take is told,
/// and `memwall run --skip-events N` leaves out what came before the first N were done.
#[inline]
pub fn event_done() {
    if let Some(entered) = Entered::here() {
        entered.event_done();
    }
}

/// Whether marks are written down.
#[inline]
#[must_use]
pub fn is_watching() -> bool {
    Entered::here().is_some()
}

/// A region that ends when it is dropped, on the thread that began it.
#[must_use = "the region ends when this is dropped"]
#[derive(Debug)]
pub struct Region<'a> {
    name: &'a str,
    /// It belongs to a thread.
    of_thread: PhantomData<*const ()>,
}

/// Begins a region that ends with what is given back.
#[inline]
pub fn region(name: &str) -> Region<'_> {
    begin(name);
    Region { name, of_thread: PhantomData }
}

impl Drop for Region<'_> {
    #[inline]
    fn drop(&mut self) {
        end(self.name);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn without_memwall_marks_do_nothing() {
        assert!(!super::is_watching());
        let outer = super::region("outer");
        super::begin("inner");
        drop(outer);
        super::end("inner");
        super::skip_first("inner", 2);
        super::event_done();
    }
}
