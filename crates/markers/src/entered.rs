//! The library that memwall puts into the program, if it did.
//!
//! # Safety
//! Functions are found by name in what is loaded, and have the types that `include/memwall.h` gives them: the library is memwall's
//! own, and nobody else has such names.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_uint, c_void},
    ptr,
    sync::atomic::{AtomicPtr, AtomicU8, Ordering},
};

/// Bytes of a name that count, and one that ends it.
const NAME_BYTES: usize = 33;

const UNKNOWN: u8 = 0;
const ABSENT: u8 = 1;
const PRESENT: u8 = 2;

/// Whether the library is there: all that a mark without it looks at.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

static BEGIN: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static END: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SKIP: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static DONE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

unsafe extern "C" {
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// The library is there.
#[derive(Clone, Copy)]
pub(crate) struct Entered(());

impl Entered {
    #[inline]
    pub fn here() -> Option<Self> {
        // ATOMICS: pairs with the store behind those of the functions.
        match STATE.load(Ordering::Acquire) {
            PRESENT => Some(Self(())),
            ABSENT => None,
            _ => Self::look(),
        }
    }

    #[cold]
    fn look() -> Option<Self> {
        let names = [
            (&BEGIN, c"memwall_region_begin"),
            (&END, c"memwall_region_end"),
            (&SKIP, c"memwall_region_skip_first"),
            (&DONE, c"memwall_region_event_done"),
        ];
        let mut is_whole = true;
        for (function, name) in names {
            let found = found(name);
            is_whole &= !found.is_null();
            function.store(found, Ordering::Relaxed);
        }
        STATE.store(if is_whole { PRESENT } else { ABSENT }, Ordering::Release);
        is_whole.then_some(Self(()))
    }

    pub fn begin(self, name: &str) {
        named(&BEGIN, name);
    }

    pub fn end(self, name: &str) {
        named(&END, name);
    }

    pub fn skip_first(self, name: &str, visits: u32) {
        let name = terminated(name);
        // SAFETY: `Entered` exists only where this function was found.
        let skip: extern "C" fn(*const c_char, c_uint) =
            unsafe { std::mem::transmute(SKIP.load(Ordering::Relaxed)) };
        skip(name.as_ptr().cast(), visits);
    }

    pub fn event_done(self) {
        // SAFETY: as above.
        let done: extern "C" fn() = unsafe { std::mem::transmute(DONE.load(Ordering::Relaxed)) };
        done();
    }
}

fn found(name: &CStr) -> *mut c_void {
    // SAFETY: a null handle asks for the first of all that is loaded; the name ends with a zero.
    unsafe { dlsym(ptr::null_mut(), name.as_ptr()) }
}

fn named(function: &AtomicPtr<c_void>, name: &str) {
    let name = terminated(name);
    // SAFETY: only called on an `Entered`, which exists only where the function was found.
    let mark: extern "C" fn(*const c_char) = unsafe { std::mem::transmute(function.load(Ordering::Relaxed)) };
    mark(name.as_ptr().cast());
}

/// As much of a name as counts, and a zero.
fn terminated(name: &str) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    let length = name.len().min(NAME_BYTES - 1);
    bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
    bytes
}
