//! The kernel this process runs on.
//!
//! # Safety
//! System calls are given descriptors that are borrowed for the length of the call and buffers that outlive it. A
//! mapping is handed straight to [`Mapping`], which owns it from then on.
#![allow(unsafe_code)]

use std::{
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
    ptr,
    time::Duration,
};

use perf_event_open_sys::{self as sys, bindings};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    mm::{MapFlags, ProtFlags},
};

use crate::{Errno, EventTarget, KernelEvent, LinuxKernel, Mapping, kernel::RingState};

/// Makes the real system calls.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live;

impl LinuxKernel for Live {
    fn open(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let (pid, cpu) = target.pid_and_cpu();
        open(event, pid, cpu, leader, 0)
    }

    fn open_in_cgroup(
        &self,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        let cpu = i32::try_from(cpu).unwrap_or(i32::MAX);
        open(event, cgroup.as_raw_fd(), cpu, leader, bindings::PERF_FLAG_PID_CGROUP)
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        let scope = if group { bindings::PERF_IOC_FLAG_GROUP } else { 0 };
        let call = if on { sys::ioctls::ENABLE } else { sys::ioctls::DISABLE };
        // SAFETY: `fd` is borrowed, and these requests take a number, not a pointer.
        check(unsafe { call(fd.as_raw_fd(), scope) })
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

    fn redirect(&self, fd: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        // SAFETY: both descriptors are borrowed, and the request takes a number, not a pointer.
        check(unsafe { sys::ioctls::SET_OUTPUT(fd.as_raw_fd(), to.as_raw_fd()) })
    }

    fn set_period(&self, fd: BorrowedFd<'_>, period: u64) -> Result<(), Errno> {
        // SAFETY: `fd` is borrowed; the kernel reads one number through the pointer before the call returns.
        check(unsafe { sys::ioctls::PERIOD(fd.as_raw_fd(), &raw const period as u64) })
    }

    fn wait(&self, rings: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<RingState>, Errno> {
        let mut polled: Vec<_> = rings.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let timeout = Timespec::try_from(timeout).map_err(|_| Errno(libc::EINVAL))?;
        poll(&mut polled, Some(&timeout))?;
        let state = |fd: &PollFd<'_>| match fd.revents() {
            seen if seen.intersects(PollFlags::HUP | PollFlags::ERR) => RingState::Over,
            seen if seen.contains(PollFlags::IN) => RingState::Ready,
            _ => RingState::Quiet,
        };
        Ok(polled.iter().map(state).collect())
    }
}

fn open(
    event: &KernelEvent,
    pid: i32,
    cpu: i32,
    leader: Option<BorrowedFd<'_>>,
    flags: u32,
) -> Result<OwnedFd, Errno> {
    let mut attr = event.attr();
    let group = leader.map_or(-1, |fd| fd.as_raw_fd());
    let flags = (flags | bindings::PERF_FLAG_FD_CLOEXEC).into();
    // SAFETY: `attr` is initialised, states its size, and outlives the call; `group`, and `pid` where it is a control
    // group's descriptor, are borrowed by our caller.
    let fd = unsafe { sys::perf_event_open(&mut attr, pid, cpu, group, flags) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the kernel just made this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The kernel's form of an event, as bytes for another process to open.
pub(crate) fn bytes(event: &KernelEvent) -> Vec<u8> {
    let attr = event.attr();
    // SAFETY: plain numbers without gaps, all of them set when the form was made; copied while `attr` lives.
    unsafe { std::slice::from_raw_parts((&raw const attr).cast::<u8>(), size_of_val(&attr)) }.to_vec()
}

fn check(answer: i32) -> Result<(), Errno> {
    if answer < 0 { Err(Errno::last()) } else { Ok(()) }
}
