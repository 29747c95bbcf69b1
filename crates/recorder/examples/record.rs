//! The smallest recorder: `record FILE [--pid PID | --rate HZ | --duration SECONDS | --delay SECONDS | --refused | --faulty | --no-heap | --call-graph]... -- PROGRAM [ARGUMENT]...`
//!
//! Runs a program, writes a recording and ends with the program's exit code. Tests use it as the process to kill.

use std::{
    env,
    ffi::OsString,
    os::fd::{BorrowedFd, OwnedFd},
    process::ExitCode,
    time::Duration,
};

use machine::Source;
use pmu::{
    Errno, EventTarget, KernelEvent, LinuxKernel, Live, Mapping, kernel::RingState, scripted::Scripted,
};
use recorder::{RecordRequest, RecordTarget, record};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let Some(file) = arguments.next() else { return usage() };
    let mut request = RecordRequest::new(RecordTarget::Launch(Vec::new()), file);
    let refusing = Scripted::new(|_| Err(Errno(libc::EACCES)));
    let mut kernel: &dyn LinuxKernel = &Live;
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next()?.to_str()?.parse::<f64>().ok();
        match argument.to_str() {
            Some("--") => break,
            Some("--refused") => kernel = &refusing,
            Some("--faulty") => kernel = &Faulty,
            Some("--no-heap") => request.heap = false,
            Some("--call-graph") => request.call_chains = true,
            Some("--pid") => match number() {
                Some(pid) => request.target = RecordTarget::Attach(pid as u32),
                None => return usage(),
            },
            Some("--rate") => request.rate_hz = number().unwrap_or(0.0) as u32,
            Some("--duration") => request.duration = number().map(Duration::from_secs_f64),
            Some("--delay") => request.delay = number().map(Duration::from_secs_f64).unwrap_or_default(),
            _ => return usage(),
        }
    }
    let command: Vec<OsString> = arguments.collect();
    if !command.is_empty() {
        request.target = RecordTarget::Launch(command);
    }
    match record(&request, kernel, &Source::live()) {
        Ok(outcome) => {
            for trouble in outcome.trouble.iter().map(ToString::to_string).chain(outcome.refusal.clone()) {
                eprintln!("record: {trouble}");
            }
            ExitCode::from(outcome.exit_code())
        }
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// The kernel, and a planted bug: whoever changes a period panics. That is a tenth of a second after the beginning.
struct Faulty;

impl LinuxKernel for Faulty {
    fn open(
        &self,
        event: &KernelEvent,
        target: EventTarget,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        Live.open(event, target, leader)
    }

    fn open_in_cgroup(
        &self,
        event: &KernelEvent,
        cgroup: BorrowedFd<'_>,
        cpu: u32,
        leader: Option<BorrowedFd<'_>>,
    ) -> Result<OwnedFd, Errno> {
        Live.open_in_cgroup(event, cgroup, cpu, leader)
    }

    fn switch(&self, fd: BorrowedFd<'_>, on: bool, group: bool) -> Result<(), Errno> {
        Live.switch(fd, on, group)
    }

    fn read(&self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        Live.read(fd, bytes)
    }

    fn map(&self, fd: BorrowedFd<'_>, data_pages: usize) -> Result<Mapping, Errno> {
        Live.map(fd, data_pages)
    }

    fn redirect(&self, fd: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
        Live.redirect(fd, to)
    }

    fn set_period(&self, _: BorrowedFd<'_>, _: u64) -> Result<(), Errno> {
        panic!("a planted bug");
    }

    fn wait(&self, rings: &[BorrowedFd<'_>], timeout: Duration) -> Result<Vec<RingState>, Errno> {
        Live.wait(rings, timeout)
    }
}

fn usage() -> ExitCode {
    eprintln!(
        "usage: record FILE [--pid PID | --rate HZ | --duration SECONDS | --delay SECONDS | --refused | --faulty | --no-heap | --call-graph]... -- PROGRAM [ARGUMENT]..."
    );
    ExitCode::from(2)
}
