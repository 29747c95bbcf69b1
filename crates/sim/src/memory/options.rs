//! What can be chosen about a simulated memory besides its model.

/// Bytes of a small page, which no prefetcher crosses.
pub const SMALL_PAGE_BYTES: u64 = 4 << 10;
/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: u64 = 2 << 20;

/// How large pages are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageSize {
    /// 4 KiB.
    #[default]
    Small,
    /// 2 MiB.
    Huge,
}

/// Where pages go that no one placed with [`super::MemorySystem::map`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PagePlacement {
    /// To the package of the core that touches them first.
    #[default]
    FirstTouch,
    /// Round all packages, page by page.
    Interleave,
    /// To this package; one that does not exist means the last.
    Node(u32),
}

/// Which physical frames small pages get.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FrameOrder {
    /// One after the other, as on a machine that was just started.
    #[default]
    InOrder,
    /// All over memory by a seeded permutation, as on a machine that has run for long.
    Scattered,
}

/// Which prefetchers are on. A prefetcher that the model has not cannot be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchSwitches {
    /// Next line into the L1.
    pub l1_next_line: bool,
    /// Stride by instruction address into the L1.
    pub l1_stride: bool,
    /// Other half of a 128-byte pair into the L2.
    pub l2_adjacent: bool,
    /// Streamer of the L2.
    pub l2_streamer: bool,
}

impl PrefetchSwitches {
    /// All on.
    pub const ON: Self = Self { l1_next_line: true, l1_stride: true, l2_adjacent: true, l2_streamer: true };
    /// All off.
    pub const OFF: Self =
        Self { l1_next_line: false, l1_stride: false, l2_adjacent: false, l2_streamer: false };
}

impl Default for PrefetchSwitches {
    fn default() -> Self {
        Self::ON
    }
}

/// Traffic of others, for experiments under noise. Arrivals are random but follow the seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbance {
    /// Lines read from each package's memory per second.
    pub memory_lines_per_s: f64,
    /// Foreign lines brought into each package's last-level cache per second, where they displace others.
    pub l3_lines_per_s: f64,
}

/// What can be chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MemoryOptions {
    /// Prefetchers that are on at the start, for all cores.
    pub prefetchers: PrefetchSwitches,
    /// For random replacement, scattered frames and disturbance.
    pub seed: u64,
    /// Size of pages that no one placed.
    pub page_size: PageSize,
    /// Where they go.
    pub placement: PagePlacement,
    /// Which frames small pages get.
    pub frames: FrameOrder,
    /// Traffic of others; none by default.
    pub disturbance: Option<Disturbance>,
}
