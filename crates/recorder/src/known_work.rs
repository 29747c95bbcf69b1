//! Known work of this process, under the sampler and the recorder that programs are recorded with: what validation
//! finds out about the one holds for the other.

use std::{
    io,
    path::{Path, PathBuf},
};

use machine::{CpuSet, profile::Fingerprint};
use pmu::{
    LinuxKernel, Scope,
    sampling::{Sampler, SamplerRequest, SamplingFailure, SamplingStart},
};
use record::{
    file::{FileError, Writer, read},
    run::{About, Ending, Run},
};

use super::{
    bursts::Bursts,
    core_clock::CoreClock,
    passing::{PassingFolder, PassingUse},
    recorder::{NEVER, RecordWindow, Recorder},
    session::{SLICE_NS, clock, now_ns},
};

/// Code that no file holds, as its maker knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratedCode {
    /// What to call it.
    pub name: String,
    /// Where it lies.
    pub start: u64,
    /// What lies there.
    pub bytes: Vec<u8>,
}

impl GeneratedCode {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.bytes.len() as u64)
    }

    pub(super) fn holds(&self, address: u64) -> bool {
        (self.start..self.end()).contains(&address)
    }
}

/// Why known work cannot be recorded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KnownWorkError {
    /// The kernel refuses to sample.
    #[error("{0}; `memwall doctor` says why and how to allow it")]
    Refused(#[from] SamplingFailure),
    /// The recording cannot be written or read.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is no place for it.
    #[error("no folder for temporary files can be made: {0}; check that TMPDIR can be written to")]
    Folder(#[from] io::Error),
}

/// A thread of this process, recorded while it executes generated code.
pub struct KnownWork<'k> {
    sampler: Sampler<'k>,
    bursts: Bursts<'k>,
    core_clock: CoreClock,
    recorder: Recorder,
    about: About,
    file: PathBuf,
    _folder: PassingFolder,
}

impl<'k> KnownWork<'k> {
    /// Prepares to sample thread `tid` of this process on one CPU, `rate_hz` times per second. Nothing is sampled before
    /// [`start`](Self::start).
    pub fn open(
        kernel: &'k dyn LinuxKernel,
        tid: i32,
        cpu: u32,
        rate_hz: u32,
        code: GeneratedCode,
    ) -> Result<Self, KnownWorkError> {
        let cpus = CpuSet::from_iter([cpu]);
        let scope = Scope::Thread(tid.cast_unsigned());
        let bursts = Bursts::open(kernel, &scope, &cpus);
        let request = SamplerRequest { start: SamplingStart::ByHand, ..clock(rate_hz, None, scope, cpus) };
        let sampler = Sampler::open(kernel, &request)?;
        let folder = PassingFolder::make(PassingUse::Recording)?;
        let file = folder.path().join("known.mw");
        let about = about(&code.name, rate_hz);
        let window = RecordWindow { origin_ns: now_ns(), delay_after_exec_ns: None, end_ns: NEVER };
        let own = std::process::id().cast_signed();
        let writer = Writer::create(&file, &about)?;
        let mut recorder = Recorder::new(writer, own, window, SLICE_NS, about.skid_instructions);
        recorder.known_work(own, tid, code);
        Ok(Self { sampler, bursts, core_clock: CoreClock::default(), recorder, about, file, _folder: folder })
    }

    /// Samples from now on.
    pub fn start(&mut self) -> Result<(), KnownWorkError> {
        Ok(self.sampler.start()?)
    }

    /// Does the work with a burst now and then, as programs are sampled.
    pub fn beside_bursts<T>(&self, work: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            let (end, ended) = std::sync::mpsc::channel();
            let switch = self.bursts.switch();
            scope.spawn(move || switch.fire_until(&ended));
            let done = work();
            drop(end);
            done
        })
    }

    /// Samples no more, and gives the number of samples since the start.
    pub fn stop(&mut self) -> Result<u64, KnownWorkError> {
        self.sampler.stop()?;
        self.core_clock.measure();
        let (before, recorder) = (self.recorder.counts.samples, &mut self.recorder);
        recorder.drain_all(&mut self.sampler, &mut [], &mut []);
        recorder.drain_all_bursts(&mut self.bursts);
        // As in a recording of a program: samples must not march in step with the work.
        self.sampler.redraw_periods()?;
        Ok(self.recorder.counts.samples - before)
    }

    /// The recording, read back; one that is to be kept is copied there.
    pub fn finish(mut self, keep: Option<&Path>) -> Result<Run, KnownWorkError> {
        let end_ns = now_ns();
        self.recorder.end(end_ns);
        self.about.elapsed_ns = Some(self.recorder.window().time(end_ns));
        self.about.ending = Ending::Exited(0);
        self.about.lost_samples = Some(self.recorder.counts.lost);
        self.about.clock_hz = self.core_clock.hz();
        self.about.period_ns = self.sampler.mean_period().unwrap_or(self.about.period_ns);
        let code = self.recorder.code(std::process::id().cast_signed());
        self.recorder.writer.finish(&self.about, &code)?;
        if let Some(keep) = keep {
            std::fs::copy(&self.file, keep)?;
        }
        Ok(read(&self.file)?)
    }
}

/// Samples land just behind the instruction waited for, until a machine shows otherwise.
const SKID_INSTRUCTIONS: u32 = 1;

fn about(name: &str, rate_hz: u32) -> About {
    About {
        memwall: env!("CARGO_PKG_VERSION").to_owned(),
        command: vec![name.to_owned()],
        attached: None,
        started_at: 0,
        fingerprint: Fingerprint::default(),
        rate_hz: rate_hz.into(),
        period_ns: 1e9 / f64::from(rate_hz),
        skid_instructions: SKID_INSTRUCTIONS,
        elapsed_ns: None,
        ending: Ending::Unknown,
        usage: None,
        slowed: None,
        clock_hz: None,
        lost_samples: None,
        noise: None,
        slice_ns: SLICE_NS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmu::{
        Errno, bindings,
        scripted::{Behaviour, Scripted},
    };

    const START: u64 = 0x10_0000;
    const TID: i32 = 77;
    /// Far ahead of the moment at which the recording begins.
    const TIME_NS: u64 = 1 << 60;

    /// A sample as the kernel writes it: general registers by the kernel's numbers, all others 0.
    fn sample(ip: u64, registers: &[(usize, u64)]) -> Vec<u8> {
        let own = std::process::id();
        let mut words = vec![ip, u64::from(own) | (TID as u64) << 32, TIME_NS, 0, 2];
        // ax to ip, then r8 to r15: the numbers up to 8 are their places.
        let mut values = [0u64; 17];
        registers.iter().for_each(|&(number, value)| values[number] = value);
        words.extend(values);
        let size = 8 + 8 * words.len() as u64;
        let user = u64::from(bindings::PERF_RECORD_MISC_USER);
        let header = u64::from(bindings::PERF_RECORD_SAMPLE) | user << 32 | size << 48;
        [header].into_iter().chain(words).flat_map(u64::to_ne_bytes).collect()
    }

    /// The recording of generated code with these samples.
    fn recorded(bytes: &[u8], samples: &[Vec<u8>]) -> Run {
        let ring = samples.concat();
        let kernel = Scripted::new(move |_| Ok(Behaviour::samples(&ring)));
        let code = GeneratedCode { name: "fill".into(), start: START, bytes: bytes.to_vec() };
        let mut work = KnownWork::open(&kernel, TID, 0, 1000, code).unwrap();
        work.start().unwrap();
        assert_eq!(work.stop().unwrap(), 2, "what lies elsewhere is not the work's");
        work.finish(None).unwrap()
    }

    #[test]
    fn what_is_filled_is_the_address_wherever_its_pointer_comes_from() {
        // mov rcx,[rsi]; rep stosb; ret
        let argument = [0x48, 0x8b, 0x0e, 0xf3, 0xaa, 0xc3];
        // mov rcx,[rsi]; lea rdi,[rdx]; rep stosb; ret
        let computed = [0x48, 0x8b, 0x0e, 0x48, 0x8d, 0x3a, 0xf3, 0xaa, 0xc3];
        let (si, di) = (4, 5);
        for (code, fill) in [(&argument[..], 3), (&computed[..], 6)] {
            let registers = [(si, 0x5000), (di, 0x7000)];
            let run = recorded(
                code,
                &[
                    sample(START + fill, &registers),
                    sample(START - 64, &registers),
                    sample(START + fill + 2, &registers),
                ],
            );
            let addresses: Vec<_> =
                run.samples.address.iter().map(|address| address.map(|address| address.get())).collect();
            assert_eq!(addresses, [Some(0x7000), Some(0x6fff)]);
            // Two clocks of bursts were handed the same; a repeated instruction tells at which byte it is, what follows does not.
            let paced: Vec<_> =
                run.bursts.address.iter().map(|at| at.map(std::num::NonZeroU64::get)).collect();
            assert_eq!(paced, [Some(0x7000), None, Some(0x7000), None]);
            assert_eq!((run.functions.len(), run.functions[0].code.as_deref()), (1, Some(code)));
            assert_eq!((run.threads[0].tid, run.places[0].function), (77, Some(record::ids::FunctionId(0))));
        }
    }

    #[test]
    fn samples_of_bursts_tell_the_turn_wherever_they_land() {
        // mov rcx,[rsi]; add rax,rcx; add rsi,8; cmp rsi,rdi; jne 0; ret
        let code =
            [0x48, 0x8b, 0x0e, 0x48, 0x01, 0xc8, 0x48, 0x83, 0xc6, 0x08, 0x48, 0x39, 0xfe, 0x75, 0xf1, 0xc3];
        let samples = [sample(START + 10, &[(4, 0x5000)]), sample(START + 6, &[(4, 0x5040)])];
        let run = recorded(&code, &samples);
        let addresses = |column: &[Option<std::num::NonZeroU64>]| -> Vec<Option<u64>> {
            column.iter().map(|address| address.map(std::num::NonZeroU64::get)).collect()
        };
        assert_eq!(addresses(&run.samples.address), [None; 2], "an addition touches no memory");
        assert_eq!(
            addresses(&run.bursts.address),
            [Some(0x5000), Some(0x5040), Some(0x5000), Some(0x5040)],
            "both clocks"
        );
    }

    #[test]
    fn samples_of_a_loop_within_a_loop_tell_the_pass() {
        // xor eax,eax; inc [r8+rax]; add rax,8; cmp rax,rsi; jb 2; dec rdx; jne 0; ret
        let code = [
            0x31, 0xc0, 0x49, 0xff, 0x04, 0x00, 0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xf0, 0x72, 0xf3, 0x48,
            0xff, 0xca, 0x75, 0xec, 0xc3,
        ];
        let dx = 3;
        let run = recorded(&code, &[sample(START + 6, &[(dx, 41)]), sample(START + 18, &[(dx, 40)])]);
        let passes: Vec<_> = run.passes.address.iter().map(|at| at.map(std::num::NonZeroU64::get)).collect();
        assert_eq!(passes, [Some(41)], "of the inner loop alone");
        assert_eq!(
            (run.passes.time_ns[0], run.passes.place[0]),
            (run.samples.time_ns[0], run.samples.place[0])
        );
    }

    #[test]
    fn a_refusal_leads_to_the_doctor() {
        let kernel = Scripted::new(|_| Err(Errno(libc::EACCES)));
        let code = GeneratedCode { name: "fill".into(), start: START, bytes: vec![0xc3] };
        let error = KnownWork::open(&kernel, TID, 0, 1000, code).err().unwrap().to_string();
        assert!(error.contains("EACCES") && error.contains("doctor"), "{error}");
    }
}
