//! Random kernels in a process of their own, recorded and relieved as a user's program is.
//!
//! Nobody can trace threads of their own process: another memwall is the kernel. It times itself beside its twin, says what it
//! found, runs until its input ends while we record and relieve it, and times itself once more.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use kernels::generate::RandomKernel;
use machine::Isa;
use record::{
    relief::{ReliefBarrier, ReliefRecord},
    run::{Ending, Run},
};
use recorder::ProgramOutput;
use validate::{
    native::{Analysed, KernelBesideTwin},
    unseen::TrialOutcome,
};

use crate::{
    commands::recording::{self, Recording},
    failure::Failure,
};

/// A program shorter than two seconds is not relieved; its loop is to be met several times after that.
const RECORDED: Duration = Duration::from_secs(5);

/// Is the kernel, until whoever started it ends our input.
pub fn be_kernel(seed: u64, cpu: u32) -> Result<(), Failure> {
    let kernel = RandomKernel::draw(seed, &Isa::native()).map_err(Failure::measurement)?;
    let mut work = KernelBesideTwin::prepare(&kernel, cpu).map_err(Failure::Measurement)?;
    tell(work.truth().map_err(Failure::Measurement)?)?;
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    std::thread::spawn(move || {
        // Whatever ends our input ends the work, its failure too.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        told.store(true, Ordering::Relaxed);
    });
    work.go_on(&stop).map_err(Failure::Measurement)?;
    tell(work.truth().map_err(Failure::Measurement)?)
}

/// Not through the ways reports are given: only a memwall reads it.
fn tell(truth: f64) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{truth}").and_then(|()| out.flush()).map_err(Failure::measurement)
}

/// Another memwall that is a kernel; killed if we give up on it.
struct KernelProcess {
    child: Child,
    told: BufReader<ChildStdout>,
}

impl KernelProcess {
    fn start(seed: u64, cpu: u32) -> Result<Self, String> {
        let own = std::env::current_exe().map_err(|error| format!("cannot find memwall itself: {error}"))?;
        let mut command = Command::new(own);
        command.args(["validate", "--be-kernel", &seed.to_string(), "--on-cpu", &cpu.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C is for us: the end of its input ends the kernel.
        command.process_group(0);
        let mut child = command.spawn().map_err(|error| format!("cannot start memwall itself: {error}"))?;
        let told = child.stdout.take().ok_or_else(|| "the kernel has no output".to_owned())?;
        Ok(Self { child, told: BufReader::new(told) })
    }

    fn truth(&mut self) -> Result<f64, String> {
        let mut line = String::new();
        self.told.read_line(&mut line).map_err(|error| format!("the kernel said nothing: {error}"))?;
        line.trim().parse().map_err(|_| "the kernel ended before it was timed".to_owned())
    }
}

impl Drop for KernelProcess {
    fn drop(&mut self) {
        // Gone already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Samples a kernel and relieves its loop.
pub fn relieve(
    kernel: &RandomKernel,
    cpu: u32,
    keep: Option<&Path>,
    analyse: &dyn Fn(&Run) -> Option<Analysed>,
    interrupt: &AtomicBool,
) -> Result<TrialOutcome, String> {
    let mut process = KernelProcess::start(kernel.seed, cpu)?;
    let before = process.truth()?;
    let (_folder, path) = recording::passing().map_err(Failure::line)?;
    let outcome = Recording::attached_only(process.child.id(), RECORDED)
        .record(&path, true, ProgramOutput::Stderr)
        .map_err(Failure::line)?;
    // The recorder takes signals while it records, and then lets go of the process.
    if outcome.ending == Ending::Detached && outcome.elapsed < RECORDED {
        interrupt.store(true, Ordering::Relaxed);
        return Err("interrupted".to_owned());
    }
    recording::kept(&outcome, &path).map_err(Failure::line)?;
    drop(process.child.stdin.take());
    let after = process.truth()?;
    if let Some(folder) = keep {
        let kept = folder.join(format!("{}.sqlite", kernel.seed));
        std::fs::copy(&path, kept).map_err(|error| error.to_string())?;
    }
    let mut run = record::file::read(&path).map_err(|error| error.to_string())?;
    recorder::complete(&mut run);
    if let ReliefRecord::Refused(refusal) = &run.relief
        && refusal.barrier != ReliefBarrier::NoHotLoop
    {
        return Err(refusal.sentence());
    }
    let samples = run.samples.place.len() as u64;
    let analysed = analyse(&run).ok_or_else(|| "no sample was taken".to_owned())?;
    let (truths, answer) = ([before, after], analysed.answer);
    Ok(TrialOutcome { truths, turn_ns: None, samples, answer, levels: None })
}
