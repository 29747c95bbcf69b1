//! Names that only libpfm knows. The library is looked for at run time and never required.
//!
//! # Safety
//! The functions are called through the signatures of libpfm 4's public header, which has kept them since 4.0 and
//! names the file `libpfm.so.4`. One lock is held around every call: the library keeps global state. The
//! structure it fills is larger than any version of it, and 8-byte aligned.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, CString, c_char, c_int, c_void},
    sync::{Mutex, OnceLock, PoisonError},
};

use crate::{
    Encoding, Event, Signal, Unit,
    event::Modifiers,
    names::{PmuView, unit_of_pmu},
};

const FILE: &CStr = c"libpfm.so.4";
const PERF_EVENT_EXT: c_int = 2;
/// Kernel and user.
const BOTH_MODES: c_int = 0x1 | 0x8;

/// Why libpfm gave no event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LibpfmError {
    /// There is no such library, or it is not what its name says.
    #[error("libpfm.so.4 was not asked: {0}; installing libpfm4 gives more names")]
    Absent(String),
    /// A static program has no loader that would fit the C library of the file.
    #[error(
        "libpfm.so.4 was not asked: this memwall is linked statically; one made by 'cargo install' asks it"
    )]
    Static,
    /// It does not know the name.
    #[error("libpfm does not know '{name}': {reason}")]
    Unknown {
        /// As typed.
        name: String,
        /// In libpfm's words.
        reason: String,
    },
    /// It gave an event of a PMU that this machine's sysfs does not list.
    #[error("libpfm puts '{name}' on a PMU of type {kind}, which this machine does not list")]
    Elsewhere {
        /// As typed.
        name: String,
        /// The kernel's number of the PMU's type.
        kind: u32,
    },
}

/// The beginning of the kernel's `perf_event_attr`, and room for what later versions add.
#[repr(C, align(8))]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
    config2: u64,
    later: [u64; 32],
}

/// libpfm's `pfm_perf_encode_arg_t`.
#[repr(C)]
struct PfmArguments {
    attributes: *mut Attributes,
    full_name: *mut *mut c_char,
    size: usize,
    index: c_int,
    cpu: c_int,
    flags: c_int,
}

type Initialize = unsafe extern "C" fn() -> c_int;
type EncodeName = unsafe extern "C" fn(*const c_char, c_int, c_int, *mut c_void) -> c_int;
type Describe = unsafe extern "C" fn(c_int) -> *const c_char;

struct Library {
    encode: EncodeName,
    describe: Describe,
}

/// Whether the library is there, and if not, why.
pub fn available() -> Result<(), LibpfmError> {
    library().map(|_| ())
}

/// The event of a name.
pub fn encode(name: &str, pmus: &[PmuView]) -> Result<Event, LibpfmError> {
    let unknown = |reason: String| LibpfmError::Unknown { name: name.to_owned(), reason };
    let text = CString::new(name).map_err(|_| unknown("it holds a zero byte".into()))?;
    let mut attributes = Attributes {
        kind: 0,
        size: 0,
        config: 0,
        sample_period: 0,
        sample_type: 0,
        read_format: 0,
        flags: 0,
        wakeup: 0,
        breakpoint_type: 0,
        config1: 0,
        config2: 0,
        later: [0; 32],
    };
    let mut arguments = PfmArguments {
        attributes: &raw mut attributes,
        full_name: std::ptr::null_mut(),
        size: size_of::<PfmArguments>(),
        index: 0,
        cpu: 0,
        flags: 0,
    };
    let library = library()?.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: the name ends in a zero byte, the arguments are libpfm's structure with its size, and point to a
    // structure that is larger than the one it fills.
    let code = unsafe {
        (library.encode)(text.as_ptr(), BOTH_MODES, PERF_EVENT_EXT, (&raw mut arguments).cast::<c_void>())
    };
    if code != 0 {
        return Err(unknown(words(&library, code)));
    }
    drop(library);
    let mut event = Event::new(name, signal(name, &attributes, pmus)?);
    let (no_user, no_kernel) = (attributes.flags >> 4 & 1 == 1, attributes.flags >> 5 & 1 == 1);
    event.modifiers = Modifiers {
        user: no_kernel && !no_user,
        kernel: no_user && !no_kernel,
        precise: (attributes.flags >> 15 & 3) as u8,
    };
    Ok(event)
}

fn signal(name: &str, attributes: &Attributes, pmus: &[PmuView]) -> Result<Signal, LibpfmError> {
    let encoded = |unit, pmu: &str| {
        let words =
            [("config", attributes.config), ("config1", attributes.config1), ("config2", attributes.config2)];
        let fields = words.into_iter().filter(|(word, value)| *value != 0 || *word == "config");
        let fields = fields.map(|(word, value)| (word.to_owned(), value)).collect();
        Signal::Encoded(Encoding { unit, pmu: pmu.to_owned(), fields })
    };
    match attributes.kind {
        0 => Ok(Signal::Hardware(attributes.config)),
        1 => Ok(Signal::Software(attributes.config)),
        3 => Ok(Signal::HardwareCache(attributes.config)),
        4 => Ok(encoded(Unit::Core, "cpu")),
        kind => match pmus.iter().find(|pmu| pmu.kind == kind) {
            Some(pmu) => Ok(encoded(unit_of_pmu(&pmu.name), &pmu.name)),
            None => Err(LibpfmError::Elsewhere { name: name.to_owned(), kind }),
        },
    }
}

fn words(library: &Library, code: c_int) -> String {
    // SAFETY: libpfm returns a constant text for every code.
    let text = unsafe { (library.describe)(code) };
    if text.is_null() {
        return format!("error {code}");
    }
    // SAFETY: not null, and a constant text of the library, which is never closed.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn library() -> Result<&'static Mutex<Library>, LibpfmError> {
    static LIBRARY: OnceLock<Result<Mutex<Library>, LibpfmError>> = OnceLock::new();
    LIBRARY.get_or_init(|| open().map(Mutex::new)).as_ref().map_err(Clone::clone)
}

fn open() -> Result<Library, LibpfmError> {
    if cfg!(target_feature = "crt-static") {
        return Err(LibpfmError::Static);
    }
    // SAFETY: a name that ends in a zero byte; the library's constructors do nothing to this program.
    let handle = unsafe { libc::dlopen(FILE.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() {
        return Err(LibpfmError::Absent("it is not installed".into()));
    }
    let symbol = |name: &CStr| {
        // SAFETY: the handle is open and stays so; the name ends in a zero byte.
        let found = unsafe { libc::dlsym(handle, name.as_ptr()) };
        let missing = || LibpfmError::Absent(format!("it has no {}", name.to_string_lossy()));
        if found.is_null() { Err(missing()) } else { Ok(found) }
    };
    let (start, encode, describe) =
        (symbol(c"pfm_initialize")?, symbol(c"pfm_get_os_event_encoding")?, symbol(c"pfm_strerror")?);
    // SAFETY: these are the functions of those names, with the signatures of libpfm 4's header.
    let (start, library) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Initialize>(start),
            Library {
                encode: std::mem::transmute::<*mut c_void, EncodeName>(encode),
                describe: std::mem::transmute::<*mut c_void, Describe>(describe),
            },
        )
    };
    // SAFETY: takes nothing, and is called once, before anything else of the library.
    match unsafe { start() } {
        0 => Ok(library),
        code => Err(LibpfmError::Absent(format!("it does not start: {}", words(&library, code)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_library_or_words_about_its_absence() {
        match available() {
            Ok(()) => {
                let faults = encode("perf::PERF_COUNT_SW_PAGE_FAULTS:u", &[]).unwrap();
                assert_eq!(faults.signal, Signal::Software(2));
                let unknown = encode("NO_SUCH_EVENT_ANYWHERE", &[]).unwrap_err();
                assert!(unknown.to_string().contains("does not know 'NO_SUCH_EVENT_ANYWHERE'"), "{unknown}");
                assert!(encode("a\0b", &[]).is_err());
            }
            Err(error) => assert!(error.to_string().contains("libpfm4"), "{error}"),
        }
    }
}
