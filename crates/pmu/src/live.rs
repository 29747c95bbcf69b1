//! The kernel this process runs on.
//!
//! # Safety
//! System calls are given descriptors that are borrowed for the length of the call and buffers that outlive it. A
//! mapping is handed straight to [`Mapping`], which owns it from then on.
#![allow(unsafe_code)]

use std::{
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
};

use perf_event_open_sys::{self as sys, bindings};
use rustix::mm::{MapFlags, ProtFlags};

use crate::{Errno, Event, Kernel, Mapping, Target};

/// Makes the real system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl Kernel for Live {
    fn open(&self, event: &Event, target: Target, leader: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
        let mut attr = event.attr();
        let (pid, cpu) = target.pid_and_cpu();
        let group = leader.map_or(-1, |fd| fd.as_raw_fd());
        // SAFETY: `attr` is initialised, states its size, and outlives the call; `group` is borrowed.
        let fd = unsafe {
            sys::perf_event_open(&mut attr, pid, cpu, group, bindings::PERF_FLAG_FD_CLOEXEC.into())
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the kernel just made this descriptor and nobody else has it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        let scope = if group { bindings::PERF_IOC_FLAG_GROUP } else { 0 };
        let call = if on { sys::ioctls::ENABLE } else { sys::ioctls::DISABLE };
        // SAFETY: `fd` is borrowed, and these requests take a number, not a pointer.
        match unsafe { call(fd.as_raw_fd(), scope) } {
            done if done < 0 => Err(Errno::last()),
            _ => Ok(()),
        }
    }

    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        Ok(rustix::io::read(fd, bytes)?)
    }

    fn map(&self, fd: BorrowedFd<'_>, data_pages: usize) -> Result<Mapping, Errno> {
        let length = (1 + data_pages) * rustix::param::page_size();
        // SAFETY: a new mapping at an address of the kernel's choosing overlaps nothing of ours.
        unsafe {
            let start = rustix::mm::mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                fd,
                0,
            )?;
            Ok(Mapping::new(start.cast(), length))
        }
    }
}
