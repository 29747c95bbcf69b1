//! What to count or sample, as plain values.

use perf_event_open_sys::bindings;

/// One event, before it is opened. Counts for a thread in user mode unless told otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelEvent {
    /// The PMU's type number: a `PERF_TYPE_` constant or the content of a PMU's `type` file.
    pub kind: u32,
    /// Which event of that PMU.
    pub config: u64,
    /// First extension: filters, and the address of a breakpoint.
    pub config1: u64,
    /// Second extension, and the length of a breakpoint.
    pub config2: u64,
    /// Third extension, on PMUs of newer kernels.
    pub config3: u64,
    /// What kind of access a breakpoint waits for; 0 for every other event.
    pub breakpoint: u32,
    /// Whose instructions count.
    pub modes: Modes,
    /// Starts only when enabled.
    pub disabled: bool,
    /// Starts by itself when the measured thread executes a program.
    pub enable_on_exec: bool,
    /// Follows threads and processes that the measured one starts.
    pub inherit: bool,
    /// Reading it gives the values of its whole group.
    pub group_read: bool,
    /// Takes samples as well.
    pub sampling: Option<Sampling>,
    /// What else goes into the ring, and how.
    pub stream: RecordStream,
}

/// Which processor modes an event counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// User mode only: the most an ordinary user is usually allowed.
    User,
    /// The kernel only.
    Kernel,
    /// All of them. Uncore PMUs accept nothing else.
    All,
}

/// How an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Events (for clocks: nanoseconds) between samples.
    pub period: u64,
    /// 0 to 3: how close the sample must lie to the instruction that caused it.
    pub precise: u8,
    /// `PERF_SAMPLE_` bits.
    pub fields: u64,
    /// Which user registers, by the bits of the architecture's `perf_regs.h`.
    pub user_registers: u64,
}

/// What an event writes into its ring beside samples, and when it wakes the reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordStream {
    /// The sampling period is a rate instead: samples per second.
    pub is_rate: bool,
    /// Wake the reader when this many bytes lie in the ring; 0 leaves it to the kernel.
    pub watermark_bytes: u32,
    /// Records of executable mappings, with the file's inode. Build ids are never asked for: kernels then mark the records of
    /// everybody else who hears of the same mapping as if they had them too, and perf has crashed on that.
    pub mmap: bool,
    /// Records of every other mapping as well.
    pub mmap_data: bool,
    /// Records of thread names, marked where an exec gave them.
    pub comm: bool,
    /// Records of forks and exits.
    pub task: bool,
    /// Records of context switches.
    pub switches: bool,
    /// Every record ends with the fields that say when, who and where.
    pub identified: bool,
    /// Times are those of this clock (`CLOCK_` number), not perf's own.
    pub clock: Option<i32>,
    /// Call chains have at most this many entries; 0 leaves it to the kernel.
    pub max_stack: u16,
}

/// Where one event counts: what `perf_event_open` takes as process and CPU. Whom to measure as a whole says
/// [`Scope`](crate::Scope).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTarget {
    /// The calling thread, wherever it runs.
    ThisThread,
    /// One thread, by its number, wherever it runs.
    Thread(i32),
    /// Everything that runs on one CPU.
    Cpu(u32),
    /// One thread, while it runs on one CPU. Only such events may both be inherited and have a ring.
    ThreadOnCpu {
        /// The thread.
        tid: i32,
        /// The CPU.
        cpu: u32,
    },
}

impl KernelEvent {
    /// An event of a PMU in user mode, started by hand.
    pub fn new(kind: u32, config: u64) -> Self {
        Self {
            kind,
            config,
            config1: 0,
            config2: 0,
            config3: 0,
            breakpoint: 0,
            modes: Modes::User,
            disabled: true,
            enable_on_exec: false,
            inherit: false,
            group_read: false,
            sampling: None,
            stream: RecordStream::default(),
        }
    }

    /// A generic hardware event (`PERF_COUNT_HW_`), on the core PMU of type `pmu` if the machine has several.
    pub fn hardware(id: bindings::perf_hw_id, pmu: Option<u32>) -> Self {
        Self::new(bindings::PERF_TYPE_HARDWARE, u64::from(pmu.unwrap_or(0)) << 32 | u64::from(id))
    }

    /// A kernel event (`PERF_COUNT_SW_`).
    pub fn software(id: bindings::perf_sw_ids) -> Self {
        Self::new(bindings::PERF_TYPE_SOFTWARE, u64::from(id))
    }

    /// Writes to the eight bytes at `address`, which must be aligned to eight.
    pub fn writes_to(address: u64) -> Self {
        Self {
            config1: address,
            config2: u64::from(bindings::HW_BREAKPOINT_LEN_8),
            breakpoint: bindings::HW_BREAKPOINT_W,
            ..Self::new(bindings::PERF_TYPE_BREAKPOINT, 0)
        }
    }

    /// The same event in every mode.
    pub fn in_all_modes(self) -> Self {
        Self { modes: Modes::All, ..self }
    }

    /// The same event, counting from the moment it is opened.
    pub fn started(self) -> Self {
        Self { disabled: false, ..self }
    }

    /// The same event, sampling.
    pub fn sampled(self, sampling: Sampling) -> Self {
        Self { sampling: Some(sampling), ..self }
    }

    /// The same event, counting what the target's children do as well.
    pub fn inherited(self) -> Self {
        Self { inherit: true, ..self }
    }

    /// The kernel's form of it. Every value is read with the times it was enabled and running.
    pub fn attr(&self) -> bindings::perf_event_attr {
        let mut attr = bindings::perf_event_attr {
            type_: self.kind,
            size: size_of::<bindings::perf_event_attr>() as u32,
            config: self.config,
            bp_type: self.breakpoint,
            config3: self.config3,
            read_format: u64::from(
                bindings::PERF_FORMAT_TOTAL_TIME_ENABLED
                    | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING
                    | if self.group_read { bindings::PERF_FORMAT_GROUP } else { 0 },
            ),
            ..Default::default()
        };
        // Also the breakpoint's address and length: the kernel keeps them in the same place.
        attr.config1 = self.config1;
        attr.config2 = self.config2;
        attr.set_disabled(self.disabled.into());
        attr.set_exclude_user((self.modes == Modes::Kernel).into());
        attr.set_exclude_kernel((self.modes == Modes::User).into());
        attr.set_exclude_hv((self.modes != Modes::All).into());
        attr.set_enable_on_exec(self.enable_on_exec.into());
        attr.set_inherit(self.inherit.into());
        self.stream.fill(&mut attr);
        if let Some(sampling) = self.sampling {
            // Also the rate: the kernel keeps it in the same place.
            attr.sample_period = sampling.period;
            attr.sample_type = sampling.fields;
            attr.sample_regs_user = sampling.user_registers;
            attr.set_precise_ip(u64::from(sampling.precise));
        }
        attr
    }
}

impl RecordStream {
    fn fill(&self, attr: &mut bindings::perf_event_attr) {
        attr.set_freq(self.is_rate.into());
        attr.set_watermark((self.watermark_bytes > 0).into());
        attr.wakeup_watermark = self.watermark_bytes;
        attr.set_mmap(self.mmap.into());
        attr.set_mmap2(self.mmap.into());
        attr.set_mmap_data(self.mmap_data.into());
        attr.set_comm(self.comm.into());
        attr.set_comm_exec(self.comm.into());
        attr.set_task(self.task.into());
        attr.set_context_switch(self.switches.into());
        attr.set_sample_id_all(self.identified.into());
        attr.set_use_clockid(self.clock.is_some().into());
        attr.clockid = self.clock.unwrap_or(0);
        attr.sample_max_stack = self.max_stack;
    }
}

impl EventTarget {
    /// `pid` and `cpu` as the system call wants them.
    pub fn pid_and_cpu(self) -> (i32, i32) {
        let number = |cpu| i32::try_from(cpu).unwrap_or(i32::MAX);
        match self {
            Self::ThisThread => (0, -1),
            Self::Thread(tid) => (tid, -1),
            Self::Cpu(cpu) => (-1, number(cpu)),
            Self::ThreadOnCpu { tid, cpu } => (tid, number(cpu)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attr_carries_what_was_asked() {
        let sampling = Sampling { period: 7, precise: 2, fields: 5, user_registers: 9 };
        let attr =
            KernelEvent::hardware(bindings::PERF_COUNT_HW_INSTRUCTIONS, Some(10)).sampled(sampling).attr();
        assert_eq!((attr.type_, attr.config), (0, 10 << 32 | 1));
        assert_eq!((attr.sample_period, attr.sample_type, attr.sample_regs_user), (7, 5, 9));
        assert_eq!((attr.precise_ip(), attr.exclude_kernel(), attr.disabled()), (2, 1, 1));

        let attr = KernelEvent::writes_to(0x1000).in_all_modes().started().attr();
        assert_eq!((attr.bp_addr, attr.bp_len, attr.bp_type), (0x1000, 8, bindings::HW_BREAKPOINT_W));
        assert_eq!((attr.exclude_kernel(), attr.exclude_hv(), attr.disabled()), (0, 0, 0));
    }

    #[test]
    fn targets() {
        assert_eq!(EventTarget::ThisThread.pid_and_cpu(), (0, -1));
        assert_eq!(EventTarget::Cpu(3).pid_and_cpu(), (-1, 3));
        assert_eq!(EventTarget::Thread(7).pid_and_cpu(), (7, -1));
        assert_eq!(EventTarget::ThreadOnCpu { tid: 7, cpu: 3 }.pid_and_cpu(), (7, 3));
    }

    #[test]
    fn modes_inheritance_and_group_reads() {
        let event = KernelEvent {
            modes: Modes::Kernel,
            group_read: true,
            enable_on_exec: true,
            ..KernelEvent::new(4, 1)
        };
        let attr = event.inherited().attr();
        assert_eq!((attr.exclude_user(), attr.exclude_kernel(), attr.exclude_hv()), (1, 0, 1));
        assert_eq!((attr.inherit(), attr.enable_on_exec()), (1, 1));
        assert_eq!(attr.read_format, 0b1011);
    }
}
