//! Samples and the records that go with them, from the rings of one event on many CPUs.
//!
//! A [`SamplerRequest`] says what to sample, of whom and how often; [`Sampler::open`] opens one event and one ring
//! per CPU, [`Sampler::wait`] sleeps until there is something to read and [`Sampler::drain`] hands it out.
//!
//! ```no_run
//! use std::time::Duration;
//! use pmu::{Live, Scope, sampling::{RingRecord, Sampler, SamplerRequest}};
//!
//! let pid = 1234; // a child that waits to execute a program
//! let mut sampler = Sampler::open(&Live, &SamplerRequest::clock(Scope::Child(pid), "0-1".parse()?))?;
//! while sampler.wait(Duration::from_millis(100))?.more_to_come() {
//!     sampler.drain(|record| if let RingRecord::Sample(sample) = record { println!("{:x?}", sample.ip) });
//! }
//! sampler.drain_all(|_| ());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The clock
//! Without a PMU the software clock is what samples. What a kernel does with it, tried on Linux 6.18:
//!
//! - `cpu-clock` and `task-clock` run on the same timer and give the same samples: 0.95 to 1.00 per millisecond of user
//!   time at a period of 1 ms, for inherited threads as for others, with twice as many threads as CPUs. A thread takes
//!   what is left of its period along when it is switched out. Both stop in the timer's interrupt, so neither lands
//!   closer to the instruction than the other. `cpu-clock` is the one used here: it also means something for a CPU.
//! - Ticks that fall into the kernel are dropped when kernel mode is excluded: user time is sampled, not all time.
//! - A thread's first sample comes one full period after it starts, so threads that live shorter leave none.
//! - A rate is turned into a fixed period when the event is opened: the kernel adds no jitter of its own. A period
//!   drawn at random for each event, and so for each CPU ([`Jitter`]), and drawn anew from time to time
//!   ([`Sampler::redraw_periods`]), keeps the samples from marching in step with a loop of the program.
//! - `PERF_EVENT_IOC_PERIOD` changes the timer of the event it is given, and so of threads that are inherited from then
//!   on. Threads inherited earlier keep theirs. What had passed of the period before leaves no sample. The samples go
//!   on to state the period the event was opened with: after a change they are off by up to twice the jitter.
//! - When one thread follows another on a CPU and one inherited from the other, or both from a third, the kernel may
//!   leave the events in place and exchange their owners. So periods wander among such threads.

mod data_source;
mod failure;
mod fields;
mod file_layout;
mod jitter;
mod layout;
mod opening;
mod other_order;
mod precise;
mod request;
mod ring;
mod sample;
mod sampler;
mod sideband;
mod threads;
mod words;

pub use data_source::{
    Blocked, DataSource, Distance, SampledAccess, ServedBy, Snoop, TlbOutcome, TlbServedBy,
};
pub use failure::SamplingFailure;
pub use fields::Fields;
pub use file_layout::{FileAttributes, FileLayout, FileSample, Readings};
pub use jitter::Jitter;
pub use layout::{RecordLayout, RingRecord};
pub use other_order::turn_words;
pub use precise::{LoadSampling, NoPreciseLoads, precise_loads};
pub use request::{SamplerRequest, SamplingPace, SamplingStart, Sideband};
pub use sample::{Abi, CallChain, KernelSample, Mode, UserRegisters, Weight};
pub use sampler::{RingActivity, Sampler, SamplerSwitch};
pub use sideband::{MappedFile, Mmap, Stamp};
