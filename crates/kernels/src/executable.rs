//! Machine code in memory: written, then made executable, never both at once.
//!
//! # Safety
//! This file maps executable pages and jumps into them. What must hold: a [`CodePage`] owns its mapping alone
//! and nothing writes to it after it became executable; that the bytes are sane code is the promise of whoever
//! calls [`CodePage::call`].
#![allow(unsafe_code)]

use std::io;

/// Why there is no executable code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodeError {
    /// No bytes.
    #[error("there is no machine code to run: the kernel assembled to nothing")]
    Empty,
    /// The kernel did not give pages or did not make them executable.
    #[error(
        "cannot make {len} bytes of machine code executable: {source}; \
         a security policy (SELinux execmem, noexec seccomp) may forbid it"
    )]
    Refused {
        /// Length of the code.
        len: usize,
        /// The kernel's answer.
        source: io::Error,
    },
    /// Not an x86-64 CPU.
    #[error("kernels are x86-64 machine code and cannot run on this CPU; use the simulated machine")]
    WrongArchitecture,
}

pub use page::CodePage;

#[cfg(target_arch = "x86_64")]
mod page {
    use std::{ffi::c_void, ptr::NonNull};

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    use super::CodeError;

    /// `int3`: code that runs over its end stops there.
    const TRAP: u8 = 0xcc;

    /// Executable machine code with the System V calling convention and one pointer argument.
    #[derive(Debug)]
    pub struct CodePage {
        base: NonNull<c_void>,
        mapped: usize,
        len: usize,
    }

    // SAFETY: the pages are owned and never written after construction; running them concurrently is up to
    // what the code does with its argument, which `call` makes its caller answer for.
    unsafe impl Send for CodePage {}
    // SAFETY: as above.
    unsafe impl Sync for CodePage {}

    impl CodePage {
        /// Copies `code` to fresh pages and makes them read-and-execute only.
        pub fn new(code: &[u8]) -> Result<Self, CodeError> {
            if code.is_empty() {
                return Err(CodeError::Empty);
            }
            let refused =
                |errno: rustix::io::Errno| CodeError::Refused { len: code.len(), source: errno.into() };
            // A slice is never longer than isize::MAX, so this cannot overflow.
            let mapped = code.len().next_multiple_of(rustix::param::page_size());
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: a fresh private mapping at an address of the kernel's choice touches nothing that exists.
            let base = unsafe { mmap_anonymous(std::ptr::null_mut(), mapped, access, MapFlags::PRIVATE) }
                .map_err(refused)?;
            let base = NonNull::new(base).ok_or_else(|| refused(rustix::io::Errno::NOMEM))?;
            let page = Self { base, mapped, len: code.len() };
            // SAFETY: `mapped` >= `code.len()` writable bytes that nobody else knows of.
            unsafe {
                base.cast::<u8>().write_bytes(TRAP, mapped);
                base.cast::<u8>().copy_from_nonoverlapping(NonNull::from(code).cast(), code.len());
            }
            // SAFETY: the mapping is ours, and no reference into it exists that could still write.
            unsafe { mprotect(base.as_ptr(), mapped, MprotectFlags::READ | MprotectFlags::EXEC) }
                .map_err(refused)?;
            Ok(page)
        }

        /// Runs the code with `argument` in `rdi`.
        ///
        /// # Safety
        /// The code must follow the System V ABI for `fn(*mut u8)`: keep the callee-saved registers, leave the
        /// direction flag clear and the upper vector halves zero, and return. It must use only instructions this
        /// CPU has, and `argument` and all memory reached from it must be valid for what the code does, with no
        /// conflicting access from elsewhere during the call.
        pub unsafe fn call(&self, argument: *mut u8) {
            // SAFETY: the address is that of mapped, executable bytes, which the caller says are such a function.
            let entry: unsafe extern "sysv64" fn(*mut u8) = unsafe { std::mem::transmute(self.base) };
            // SAFETY: the caller's promise.
            unsafe { entry(argument) }
        }

        /// Address of the first instruction, to match samples with.
        pub fn address(&self) -> u64 {
            self.base.as_ptr() as u64
        }

        /// The code as it lies in memory.
        pub fn bytes(&self) -> &[u8] {
            // SAFETY: `len` readable bytes that live as long as `self` and never change.
            unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len) }
        }
    }

    impl Drop for CodePage {
        fn drop(&mut self) {
            // SAFETY: this value is the only owner of the mapping, and `call` has returned.
            let _ = unsafe { munmap(self.base.as_ptr(), self.mapped) };
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod page {
    use std::convert::Infallible;

    use super::CodeError;

    /// Cannot exist here: [`CodePage::new`] always fails.
    #[derive(Debug)]
    pub struct CodePage(Infallible);

    impl CodePage {
        /// Says that this CPU cannot run kernels.
        pub fn new(code: &[u8]) -> Result<Self, CodeError> {
            Err(if code.is_empty() { CodeError::Empty } else { CodeError::WrongArchitecture })
        }

        /// Never runs.
        ///
        /// # Safety
        /// None needed: there is no value to call it on.
        pub unsafe fn call(&self, _argument: *mut u8) {
            match self.0 {}
        }

        /// Never runs.
        pub fn address(&self) -> u64 {
            match self.0 {}
        }

        /// Never runs.
        pub fn bytes(&self) -> &[u8] {
            match self.0 {}
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// `mov qword [rdi], 42; ret`
    const STORE_42: [u8; 8] = [0x48, 0xc7, 0x07, 0x2a, 0, 0, 0, 0xc3];

    #[test]
    fn runs_and_stores_through_its_argument() {
        let page = CodePage::new(&STORE_42).expect("executable memory");
        assert_eq!(page.bytes(), STORE_42);
        let mut cell = 0u64;
        // SAFETY: the code stores eight bytes at its argument and returns.
        unsafe { page.call((&raw mut cell).cast()) };
        assert_eq!(cell, 42);
    }

    #[test]
    fn runs_on_several_threads_at_once() {
        let page = CodePage::new(&STORE_42).expect("executable memory");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut cell = 0u64;
                    // SAFETY: as above, each thread with its own cell.
                    unsafe { page.call((&raw mut cell).cast()) };
                    assert_eq!(cell, 42);
                });
            }
        });
    }

    /// Access of the mapping that `address` lies in.
    fn access(address: u64) -> Option<String> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("own maps");
        maps.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let (low, high) = words.next()?.split_once('-')?;
            let inside = u64::from_str_radix(low, 16).ok()? <= address
                && address < u64::from_str_radix(high, 16).ok()?;
            inside.then(|| words.next().map(str::to_owned))?
        })
    }

    #[test]
    fn executable_and_not_writable() {
        let mut long = vec![0x90; 10_000];
        long.push(0xc3);
        let page = CodePage::new(&long).expect("executable memory");
        for offset in [0, 4096, 10_000] {
            assert_eq!(access(page.address() + offset).as_deref(), Some("r-xp"));
        }
        // SAFETY: no-operations and a return.
        unsafe { page.call(std::ptr::null_mut()) };
    }

    #[test]
    fn nothing_is_not_code() {
        assert!(matches!(CodePage::new(&[]), Err(CodeError::Empty)));
    }
}
