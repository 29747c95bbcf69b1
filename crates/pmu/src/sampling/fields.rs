//! What a sample carries.

use perf_event_open_sys::bindings;

/// What to put into each sample. Time, thread and CPU are always there, and end every other record too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// The instruction pointer.
    pub ip: bool,
    /// The call chain, as far as frame pointers carry: at most this many entries (0: as the kernel likes).
    pub call_chain: Option<u16>,
    /// User registers, by the bits of the architecture's `perf_regs.h`; 0 for none.
    pub user_registers: u64,
    /// The data address.
    pub address: bool,
    /// The physical data address. Needs privileges.
    pub physical_address: bool,
    /// The size of the page the data lies in.
    pub data_page_size: bool,
    /// Latencies, as [`Weight`](super::Weight).
    pub weight: bool,
    /// Where the data came from.
    pub data_source: bool,
    /// How many events (for clocks: nanoseconds) the sample stands for.
    pub period: bool,
    /// The event's number.
    pub id: bool,
}

impl Fields {
    /// Instruction pointer and the general registers of x86-64, `rip` and `rsp` included: what the clock needs.
    pub fn clock() -> Self {
        Self { ip: true, user_registers: Self::GENERAL_REGISTERS, period: true, ..Self::default() }
    }

    /// What a precise load has to tell.
    pub fn loads() -> Self {
        Self { ip: true, address: true, weight: true, data_source: true, period: true, ..Self::default() }
    }

    /// `ax` to `ip` (0 to 8) and `r8` to `r15` (16 to 23); the segment registers between are of no use.
    #[cfg(not(target_arch = "aarch64"))]
    pub const GENERAL_REGISTERS: u64 = 0xff_01ff;
    /// `x0` to `x30`, `sp` and `pc`.
    #[cfg(target_arch = "aarch64")]
    pub const GENERAL_REGISTERS: u64 = 0x1_ffff_ffff;

    /// The `PERF_SAMPLE_` bits. Kernels before 5.12 only know the plain `weight`.
    pub(super) fn bits(&self, weight: u32) -> u64 {
        use bindings as b;
        let asked = [
            (true, b::PERF_SAMPLE_TID | b::PERF_SAMPLE_TIME | b::PERF_SAMPLE_CPU),
            (self.ip, b::PERF_SAMPLE_IP),
            (self.call_chain.is_some(), b::PERF_SAMPLE_CALLCHAIN),
            (self.user_registers != 0, b::PERF_SAMPLE_REGS_USER),
            (self.address, b::PERF_SAMPLE_ADDR),
            (self.physical_address, b::PERF_SAMPLE_PHYS_ADDR),
            (self.data_page_size, b::PERF_SAMPLE_DATA_PAGE_SIZE),
            (self.weight, weight),
            (self.data_source, b::PERF_SAMPLE_DATA_SRC),
            (self.period, b::PERF_SAMPLE_PERIOD),
            (self.id, b::PERF_SAMPLE_IDENTIFIER),
        ];
        asked.iter().filter(|(asked, _)| *asked).fold(0, |bits, (_, bit)| bits | u64::from(*bit))
    }
}
