//! Buffers for kernels: 2 MiB-aligned, on huge or small pages, bound to a NUMA node, touched by their owner.
//!
//! # Safety
//! This file maps memory. What must hold: a [`Buffer`] owns its reservation alone and unmaps it exactly once;
//! the usable range lies inside the reservation, is readable and writable, and starts out as zeroes, so every
//! [`Element`] type may be read from it.
#![allow(unsafe_code)]

use std::{ffi::c_void, fs, io, ptr::NonNull};

use machine::{Bytes, CpuSet};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use serde::{Deserialize, Serialize};

mod smaps;

pub use smaps::Backing;

/// Alignment of every buffer, and the size of a transparent huge page on x86-64.
pub const HUGE_PAGE: Bytes = Bytes::mib(2);

/// One store per this many bytes reaches every page on any page size Linux has.
const TOUCH_STRIDE: usize = 4096;

/// The kernel refuses node masks longer than one page of bits.
const HIGHEST_NODE: u32 = 32_767;

/// Which pages a buffer asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PagePolicy {
    /// Transparent huge pages where the kernel gives them; [`Buffer::backing`] says what was got.
    #[default]
    Huge,
    /// 4 KiB pages only.
    Small,
}

/// Where a buffer is to lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Placement {
    /// Page size asked for.
    pub pages: PagePolicy,
    /// NUMA node to bind to; `None` leaves it to first touch.
    pub node: Option<u32>,
}

/// Why there is no buffer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// A length of zero.
    #[error("a buffer of 0 bytes holds nothing to measure; ask for at least 1 byte")]
    Empty,
    /// A length that no address space holds.
    #[error("a buffer of {len} does not fit into the address space; ask for less")]
    TooLarge {
        /// What was asked for.
        len: Bytes,
    },
    /// The kernel did not give the memory.
    #[error("cannot get {len} of memory: {source}; ask for less or raise the limit (ulimit -v, overcommit)")]
    Refused {
        /// What was asked for.
        len: Bytes,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A node that the machine does not have, or that has no memory.
    #[error("NUMA node {node} has no memory on this machine; nodes with memory: {nodes}")]
    NoSuchNode {
        /// What was asked for.
        node: u32,
        /// What there is.
        nodes: CpuSet,
    },
    /// The kernel did not bind the memory.
    #[error(
        "cannot bind memory to NUMA node {node}: {source}; \
         leave the node out, or allow mbind (cpuset.mems, the container's seccomp profile)"
    )]
    BindRefused {
        /// What was asked for.
        node: u32,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What the kernel said to the page policy. Taken is not got: see [`Buffer::backing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PageAdvice {
    /// The advice was accepted.
    Taken,
    /// The advice was refused (a kernel without transparent huge pages says `EINVAL`); the buffer is on
    /// whatever pages the kernel uses by default.
    Refused {
        /// The error number.
        errno: i32,
    },
}

/// Owned address space: unmapped on drop.
#[derive(Debug)]
struct Reservation {
    base: NonNull<c_void>,
    len: usize,
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // SAFETY: this value is the only owner of exactly this mapping, and nothing borrows from it any more.
        // The call fails only for ranges that were never mapped, which leaves nothing to do.
        let _ = unsafe { munmap(self.base.as_ptr(), self.len) };
    }
}

/// A 2 MiB-aligned range of private memory, zero until written.
///
/// Inaccessible pages lie on both sides: a kernel that runs over the end faults instead of changing its
/// neighbour, and the kernel cannot merge the range with another one, so its page sizes can be read back.
///
/// ```
/// use kernels::memory::{Buffer, Placement};
/// use machine::Bytes;
/// let mut buffer = Buffer::allocate(Bytes::kib(16), Placement::default())?;
/// buffer.touch();
/// buffer.as_mut_slice::<u64>()[7] = 1;
/// assert_eq!(buffer.as_slice::<u64>().iter().sum::<u64>(), 1);
/// # Ok::<(), kernels::memory::MemoryError>(())
/// ```
#[derive(Debug)]
pub struct Buffer {
    /// Never read: holds the mapping for as long as the buffer lives.
    _reservation: Reservation,
    start: NonNull<u8>,
    len: usize,
    mapped: usize,
    placement: Placement,
    advice: PageAdvice,
}

// SAFETY: the memory is owned, not tied to a thread, and reached only through `self` or, unsafely, by pointer.
unsafe impl Send for Buffer {}
// SAFETY: through `&Buffer` safe code can only read, and nothing inside changes behind a shared reference.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Maps `len` bytes as `placement` asks. No page is touched: call [`Buffer::touch`] on the owning thread.
    ///
    /// With [`PagePolicy::Huge`] the mapping is rounded up to whole huge pages, so that short buffers and tails
    /// can be on one too. A huge page that was asked for and not got is no error; a node is.
    pub fn allocate(len: Bytes, placement: Placement) -> Result<Self, MemoryError> {
        if len.0 == 0 {
            return Err(MemoryError::Empty);
        }
        if let Some(node) = placement.node {
            check_node(node, nodes_with_memory())?;
        }
        let (huge, page) = (HUGE_PAGE.0 as usize, rustix::param::page_size());
        let unit = if placement.pages == PagePolicy::Huge { huge } else { page };
        let sizes = usize::try_from(len.0).ok().and_then(|wanted| {
            let mapped = wanted.checked_next_multiple_of(unit)?;
            let reserved = mapped.checked_add(spare(page))?;
            (reserved <= isize::MAX as usize).then_some((wanted, mapped, reserved))
        });
        let (wanted, mapped, reserved) = sizes.ok_or(MemoryError::TooLarge { len })?;

        let refused = |errno: rustix::io::Errno| MemoryError::Refused { len, source: errno.into() };
        let reservation = reserve(reserved).map_err(refused)?;
        let guard = guard(reservation.base.as_ptr() as usize, page);
        // SAFETY: `spare` leaves room for `guard` before the range and at least a page after it, so start and
        // end stay inside the reservation.
        let start = unsafe { reservation.base.cast::<u8>().add(guard) };
        // SAFETY: the range is ours (see above), page-aligned, and nothing uses it yet.
        unsafe { mprotect(start.as_ptr().cast(), mapped, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(refused)?;
        let advice = advise(start, mapped, placement.pages);
        // A program that we start needs none of it; without this, threads that write here would pay for its copy.
        // SAFETY: changes only what a fork does with the range, which is ours. Where it is refused, forks cost more.
        let _ = unsafe { madvise(start.as_ptr().cast(), mapped, Advice::LinuxDontFork) };
        if let Some(node) = placement.node {
            bind(start, mapped, node)?;
        }
        Ok(Self { _reservation: reservation, start, len: wanted, mapped, placement, advice })
    }

    /// Copies of this process have it too, which they do not unless told so.
    pub fn go_into_copies(&self) {
        // SAFETY: changes only what a fork does with the range, which is ours. Where it is refused, copies have none of it.
        let _ = unsafe { madvise(self.start.as_ptr().cast(), self.mapped, Advice::LinuxDoFork) };
    }

    /// Writes a zero into every 4 KiB page, so that each page lies where the calling thread (or the bound node)
    /// puts it. Call it on the owning thread, before filling the buffer.
    pub fn touch(&mut self) {
        for offset in (0..self.len).step_by(TOUCH_STRIDE) {
            // SAFETY: `offset` < `len`, and `&mut self` means nobody else looks. Volatile, as the store is the
            // point; a read first would map the shared zero page and cost the huge page.
            unsafe { self.start.add(offset).write_volatile(0) };
        }
    }

    /// The pages behind the buffer so far, from `/proc/self/smaps`; `None` where that cannot be read.
    pub fn backing(&self) -> Option<Backing> {
        let text = fs::read("/proc/self/smaps").ok()?;
        let low = self.start.as_ptr() as u64;
        smaps::backing(&String::from_utf8_lossy(&text), low..low + self.mapped as u64)
    }

    /// Whether the kernel accepted the page policy.
    pub fn advice(&self) -> PageAdvice {
        self.advice
    }

    /// What was asked for.
    pub fn placement(&self) -> Placement {
        self.placement
    }

    /// The length that was asked for.
    pub fn len(&self) -> Bytes {
        Bytes(self.len as u64)
    }

    /// Never: an empty buffer cannot be made.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Start of the buffer, for machine code. Who writes through it must know that no slice is alive.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// The buffer as elements; bytes behind the last whole element are left out.
    pub fn as_slice<T: Element>(&self) -> &[T] {
        // SAFETY: aligned (2 MiB), readable for `len` bytes, initialised (zero pages), any bits are a `T`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast(), self.len / size_of::<T>()) }
    }

    /// The buffer as elements to write; bytes behind the last whole element are left out.
    pub fn as_mut_slice<T: Element>(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`, and `&mut self` makes this the only view.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().cast(), self.len / size_of::<T>()) }
    }
}

/// Types that any bits are a valid value of.
pub trait Element: sealed::Plain {}

mod sealed {
    /// Not nameable outside: only the types below may view raw memory.
    pub trait Plain: Copy {}
}

macro_rules! elements {
    ($($kind:ty)*) => { $(impl sealed::Plain for $kind {} impl Element for $kind {})* };
}
elements!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Address space to reserve beyond the range itself: for its alignment, and an inaccessible page on both sides.
fn spare(page: usize) -> usize {
    HUGE_PAGE.0 as usize + 2 * page
}

/// Bytes from the start of a reservation to its first aligned address behind at least one page.
fn guard(base: usize, page: usize) -> usize {
    page + (base + page).wrapping_neg() % HUGE_PAGE.0 as usize
}

/// Address space without access: costs no memory until made writable.
fn reserve(len: usize) -> rustix::io::Result<Reservation> {
    // SAFETY: a fresh private mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe {
        mmap_anonymous(std::ptr::null_mut(), len, ProtFlags::empty(), MapFlags::PRIVATE | MapFlags::NORESERVE)
    }?;
    let base = NonNull::new(base).ok_or(rustix::io::Errno::NOMEM)?;
    Ok(Reservation { base, len })
}

fn advise(start: NonNull<u8>, len: usize, pages: PagePolicy) -> PageAdvice {
    let advice = match pages {
        PagePolicy::Huge => Advice::LinuxHugepage,
        PagePolicy::Small => Advice::LinuxNoHugepage,
    };
    // SAFETY: the range is mapped and ours; both advices change page sizes, never contents.
    match unsafe { madvise(start.as_ptr().cast(), len, advice) } {
        Ok(()) => PageAdvice::Taken,
        Err(errno) => PageAdvice::Refused { errno: errno.raw_os_error() },
    }
}

/// The nodes that have memory, `None` where the kernel does not say (no NUMA support, no sysfs).
fn nodes_with_memory() -> Option<CpuSet> {
    fs::read_to_string("/sys/devices/system/node/has_memory").ok()?.parse().ok()
}

/// Refuses a node that cannot be; without a list only `mbind` can tell, within the mask it accepts.
fn check_node(node: u32, nodes: Option<CpuSet>) -> Result<(), MemoryError> {
    match nodes {
        Some(nodes) if !nodes.contains(node) => Err(MemoryError::NoSuchNode { node, nodes }),
        None if node > HIGHEST_NODE => {
            Err(MemoryError::BindRefused { node, source: io::Error::from_raw_os_error(libc::EINVAL) })
        }
        _ => Ok(()),
    }
}

fn bind(start: NonNull<u8>, len: usize, node: u32) -> Result<(), MemoryError> {
    let bits = libc::c_ulong::BITS;
    let mut mask: Vec<libc::c_ulong> = vec![0; (node / bits + 1) as usize];
    mask[(node / bits) as usize] |= 1 << (node % bits);
    // The kernel reads one bit fewer than it is told.
    let mask_bits = mask.len() * bits as usize + 1;
    // SAFETY: the range is mapped and ours, and the mask outlives the call and holds the bits announced.
    let status = unsafe {
        libc::syscall(libc::SYS_mbind, start.as_ptr(), len, libc::MPOL_BIND, mask.as_ptr(), mask_bits, 0)
    };
    if status == 0 {
        Ok(())
    } else {
        Err(MemoryError::BindRefused { node, source: io::Error::last_os_error() })
    }
}

#[cfg(test)]
mod tests;
