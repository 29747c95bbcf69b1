//! The operating system this process runs on.
//!
//! # Safety
//! Pages tried are mapped by [`TrialPages`], which owns them: nothing else points into them, and they are unmapped
//! when the trial ends. Calls that take masks are given local arrays with their true length in bits.
#![allow(unsafe_code)]

use std::{fs, ptr, thread};

use machine::Bytes;
use pmu::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::System;

/// `MPOL_F_NODE | MPOL_F_ADDR`: which node holds this address.
const NODE_OF_ADDRESS: libc::c_ulong = 1 | 2;

/// Makes the real system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct LiveSystem;

impl System for LiveSystem {
    fn run_on(&self, cpu: u32, work: &mut (dyn FnMut() + Send)) -> Result<u32, Errno> {
        thread::scope(|scope| {
            let pinned = thread::Builder::new().spawn_scoped(scope, || {
                pin(cpu)?;
                work();
                Ok(rustix::thread::sched_getcpu() as u32)
            })?;
            pinned.join().unwrap_or(Err(Errno(libc::EIO)))
        })
    }

    fn transparent_huge_pages(&self, page: Bytes) -> Result<Bytes, Errno> {
        let size = usize::try_from(page.0).map_err(|_| Errno(libc::EINVAL))?;
        // Twice the size holds one aligned page wherever the mapping starts.
        let pages = TrialPages::map(size.checked_mul(2).ok_or(Errno(libc::EINVAL))?, MapFlags::empty())?;
        pages.advise_huge()?;
        pages.touch();
        let smaps = fs::read_to_string("/proc/self/smaps")?;
        anonymous_huge(&smaps, pages.start as u64).ok_or(Errno(libc::ENODATA))
    }

    fn pooled_huge_page(&self) -> Result<(), Errno> {
        // Mapping reserves the page; touching it could kill us where a cgroup limits the pool.
        TrialPages::map(default_huge_page()?, MapFlags::HUGETLB).map(drop)
    }

    fn bind_page(&self, node: u32) -> Result<u32, Errno> {
        let pages = TrialPages::map(rustix::param::page_size(), MapFlags::empty())?;
        pages.bind(node)?;
        pages.touch();
        pages.node()
    }
}

/// Pins the calling thread.
fn pin(cpu: u32) -> Result<(), Errno> {
    let index = usize::try_from(cpu).map_err(|_| Errno(libc::EINVAL))?;
    if index >= rustix::thread::CpuSet::MAX_CPU {
        return Err(Errno(libc::EINVAL));
    }
    let mut set = rustix::thread::CpuSet::new();
    set.set(index);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Size of a page of the default hugetlb pool.
fn default_huge_page() -> Result<usize, Errno> {
    let info = fs::read_to_string("/proc/meminfo")?;
    let line = info.lines().find_map(|line| line.strip_prefix("Hugepagesize:"));
    let kib = line.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<usize>().ok());
    kib.map(|kib| kib * 1024).ok_or(Errno(libc::EOPNOTSUPP))
}

/// `AnonHugePages` of the mapping that holds `address`.
fn anonymous_huge(smaps: &str, address: u64) -> Option<Bytes> {
    let mut inside = false;
    for line in smaps.lines() {
        if let Some((start, end)) = line.split_whitespace().next().and_then(|range| range.split_once('-')) {
            let bounds = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16));
            if let (Ok(start), Ok(end)) = bounds {
                inside = (start..end).contains(&address);
            }
        } else if let Some(text) = line.strip_prefix("AnonHugePages:").filter(|_| inside) {
            return text.trim().strip_suffix("kB")?.trim().parse().ok().map(Bytes::kib);
        }
    }
    None
}

/// Anonymous memory of our own; unmapped when dropped.
struct TrialPages {
    start: *mut u8,
    length: usize,
}

impl TrialPages {
    fn map(length: usize, flags: MapFlags) -> Result<Self, Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choosing overlaps nothing of ours.
        let start = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), length, access, MapFlags::PRIVATE | flags)?
        };
        Ok(Self { start: start.cast(), length })
    }

    fn advise_huge(&self) -> Result<(), Errno> {
        // SAFETY: the range is our own mapping, and this advice never changes its contents.
        unsafe { rustix::mm::madvise(self.start.cast(), self.length, Advice::LinuxHugepage) }
            .map_err(Errno::from)
    }

    /// Writes to every small page.
    fn touch(&self) {
        for offset in (0..self.length).step_by(rustix::param::page_size()) {
            // SAFETY: the offset lies inside our own writable mapping.
            unsafe { self.start.add(offset).write_volatile(1) };
        }
    }

    /// Lets the pages come from `node` only.
    fn bind(&self, node: u32) -> Result<(), Errno> {
        let mut mask = [0u64; 16];
        let word = mask.get_mut(node as usize / 64).ok_or(Errno(libc::EINVAL))?;
        *word = 1 << (node % 64);
        // The kernel takes one bit less than it is told.
        let bits = 64 * mask.len() + 1;
        // SAFETY: the range is our own mapping; the mask has as many bits as stated and outlives the call.
        let done = unsafe {
            libc::syscall(libc::SYS_mbind, self.start, self.length, libc::MPOL_BIND, mask.as_ptr(), bits, 0)
        };
        if done < 0 { Err(Errno::last()) } else { Ok(()) }
    }

    /// The node the first page lies on.
    fn node(&self) -> Result<u32, Errno> {
        let mut node: libc::c_int = -1;
        // SAFETY: `node` receives one number; no mask is asked for; the address is our own mapping.
        let done = unsafe {
            libc::syscall(
                libc::SYS_get_mempolicy,
                &raw mut node,
                ptr::null::<u64>(),
                0,
                self.start,
                NODE_OF_ADDRESS,
            )
        };
        if done < 0 { Err(Errno::last()) } else { u32::try_from(node).map_err(|_| Errno(libc::ENODATA)) }
    }
}

impl Drop for TrialPages {
    fn drop(&mut self) {
        // SAFETY: we own this mapping, and nothing borrows from it. Failing to unmap can only leak it.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_of_the_right_mapping() {
        let smaps = "\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0
Size:               2048 kB
AnonHugePages:         0 kB
VmFlags: rd wr mr mw me ac hg
7f0000200000-7f0000600000 rw-p 00000000 00:00 0 [anon:a-b]
AnonHugePages:      2048 kB
";
        assert_eq!(anonymous_huge(smaps, 0x7f00_0020_0000), Some(Bytes::mib(2)));
        assert_eq!(anonymous_huge(smaps, 0x7f00_0000_0000), Some(Bytes(0)));
        assert_eq!(anonymous_huge(smaps, 0x7f00_0060_0000), None);
    }

    #[test]
    fn a_thread_lands_where_it_was_pinned_and_no_cpu_is_too_odd() {
        let here = rustix::thread::sched_getcpu() as u32;
        let mut ran = false;
        assert_eq!(LiveSystem.run_on(here, &mut || ran = true), Ok(here));
        assert!(ran);
        for cpu in [1_000, 1_023, 1_024, u32::MAX] {
            assert!(LiveSystem.run_on(cpu, &mut || ()).is_err());
        }
    }

    #[test]
    fn pages_land_where_they_were_bound_or_the_refusal_has_a_name() {
        match LiveSystem.bind_page(0) {
            Ok(node) => assert_eq!(node, 0),
            Err(errno) => assert!(errno.is_permission() || errno == Errno(libc::ENOSYS), "{errno}"),
        }
        assert_eq!(LiveSystem.bind_page(u32::MAX), Err(Errno(libc::EINVAL)));
    }
}
