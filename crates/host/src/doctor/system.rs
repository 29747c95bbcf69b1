//! System calls other than perf_event's that a trial needs.

use machine::Bytes;
use pmu::Errno;

/// What the trials ask of the operating system.
pub trait System: Sync {
    /// Runs `work` on a throwaway thread pinned to `cpu`; gives the CPU the thread then found itself on.
    fn run_on(&self, cpu: u32, work: &mut (dyn FnMut() + Send)) -> Result<u32, Errno>;

    /// Asks for transparent huge pages of `page` bytes, touches them, and gives how many bytes became huge.
    fn transparent_huge_pages(&self, page: Bytes) -> Result<Bytes, Errno>;

    /// Reserves one page of the hugetlb pool, and gives it back.
    fn pooled_huge_page(&self) -> Result<(), Errno>;

    /// Binds a fresh page to `node`, touches it, and gives the node it landed on.
    fn bind_page(&self, node: u32) -> Result<u32, Errno>;
}
