//! Work beside what is measured: threads of this process, pinned, over and over, so that they end with it whatever ends it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::Instant,
};

use kernels::{Job, Workload};

use crate::host::HostError;

/// How long a thread goes on before it looks whether it is still wanted.
const LOOK_NS: f64 = 2e6;

/// One job that runs until this is dropped.
#[derive(Debug)]
pub(super) struct BesideWork {
    stop: Arc<AtomicBool>,
    /// Passes of all threads together.
    passes: Arc<AtomicU64>,
    /// Bytes of one pass of one thread, as if no cache held any.
    pass_bytes: f64,
    thread: Option<JoinHandle<()>>,
}

/// How far the work was, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct BesideProgress {
    passes: u64,
    at: Instant,
}

impl BesideWork {
    /// Comes back when its data is touched and its threads run.
    pub fn begin(job: &Job) -> Result<Self, HostError> {
        let (stop, passes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (say, hear) = mpsc::channel();
        let (stopped, counted, owned) = (Arc::clone(&stop), Arc::clone(&passes), job.clone());
        let spawned = thread::Builder::new().name("memwall-beside".to_owned()).spawn(move || {
            match prepared(&owned) {
                Err(error) => drop(say.send(Err(error))),
                Ok((mut workload, bytes, each)) => {
                    drop(say.send(Ok(bytes)));
                    // A fault of the workload ends it; that it makes no progress is then seen in what it moved.
                    let _ = workload.run_threads(&stopped, |thread| {
                        while !stopped.load(Ordering::Relaxed) {
                            thread.run_passes(0, each);
                            counted.fetch_add(each, Ordering::Relaxed);
                        }
                    });
                }
            }
        });
        let thread = spawned.map_err(|error| HostError::new(job.to_string(), error))?;
        let ready = hear.recv().unwrap_or_else(|_| Err(HostError::new(job.to_string(), "its thread ended")));
        let mut work = Self { stop, passes, pass_bytes: 0.0, thread: Some(thread) };
        work.pass_bytes = ready?;
        Ok(work)
    }

    /// How far it is.
    pub fn done(&self) -> BesideProgress {
        BesideProgress { passes: self.passes.load(Ordering::Relaxed), at: Instant::now() }
    }

    /// What it moved since then.
    pub fn bytes_per_s_since(&self, before: &BesideProgress) -> f64 {
        let now = self.done();
        let seconds = now.at.duration_since(before.at).as_secs_f64();
        let passes = now.passes.saturating_sub(before.passes) as f64;
        if seconds > 0.0 { passes * self.pass_bytes / seconds } else { 0.0 }
    }
}

/// The workload, the bytes of a pass of one thread, and how many passes to make between two looks.
fn prepared(job: &Job) -> Result<(Workload, f64, u64), HostError> {
    let mut workload = super::prepare(job)?;
    let bytes = super::pass(&workload, job)?.memory_bytes / job.cpus.len().max(1) as f64;
    let once = workload.run(1).map_err(|error| HostError::new(job.to_string(), error))?;
    let each = (LOOK_NS / (once.elapsed_ns().max(1) as f64)).clamp(1.0, 1e6) as u64;
    Ok((workload, bytes, each))
}

impl Drop for BesideWork {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
