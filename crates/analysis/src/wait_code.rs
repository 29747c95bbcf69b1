//! Code that only waits for other threads: runtimes, functions that take locks, and loops that nothing but another thread can end.
//!
//! Who spins retires instructions, and asks for a line that is written once all others are there: neither is work, nor is the
//! program held back by memory there.

use code::{Block, Class, Flow, Instruction, MemoryOperand, Reg};

/// How the file names of libraries begin in which threads wait for each other.
const RUNTIMES: [&str; 5] = ["libgomp", "libomp", "libiomp", "libtbb.", "libtbb_debug."];

/// How the names of functions begin that take locks, and give up their CPU where they cannot have them.
const LOCKS: [&str; 14] = [
    "pthread_mutex_",
    "___pthread_mutex_",
    "__pthread_mutex_",
    "pthread_barrier_",
    "pthread_cond_",
    "pthread_rwlock_",
    "___pthread_rwlock_",
    "__pthread_rwlock_",
    "___pthread_cond_",
    "__lll_lock_",
    "__GI___lll_lock_",
    "sem_wait",
    "sched_yield",
    "futex_",
];

/// The same of those that ask again and again, also where a runtime is linked statically.
const SPINS: [&str; 5] = ["pthread_spin_", "__pthread_spin_", "__kmp", "gomp_", "GOMP_"];

/// Whether code only waits for other threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCode {
    None,
    /// It takes locks, and gives up its CPU where it cannot have them.
    Locks,
    /// It asks again and again.
    Spins,
}

impl WaitCode {
    /// By the name of a function, or of its library.
    pub(crate) fn of(name: &str, module: &str) -> Self {
        let file = module.rsplit('/').next().unwrap_or(module);
        let begins = |text: &str, with: &[&str]| with.iter().any(|beginning| text.starts_with(beginning));
        if begins(file, &RUNTIMES) || begins(name, &SPINS) {
            Self::Spins
        } else if begins(name, &LOCKS) {
            Self::Locks
        } else {
            Self::None
        }
    }
}

/// Whether a block is part of a loop that another thread has to end: a core that pauses between its turns, or one that changes
/// nothing and reads the same places again and again.
pub(crate) fn only_asks(block: &Block) -> bool {
    let instructions = block.instructions();
    let writes = |one: &Instruction| one.has_store() || one.is_repeated() || one.is_locked();
    if instructions.iter().any(writes) {
        return false;
    }
    let pauses = || instructions.iter().any(|one| one.class() == Class::Pause);
    let reads = || instructions.iter().any(Instruction::has_load);
    pauses() || block.is_loop() && block.flow() == Flow::Conditional && reads() && changes_nothing(block)
}

/// No turn of the loop leaves anything to the next: it ends when someone else writes what it reads.
fn changes_nothing(block: &Block) -> bool {
    // What a turn reads before it writes it comes from the turn before.
    let mut written = [false; Reg::COUNT];
    let mut carried = [false; Reg::COUNT];
    for uop in block.uops() {
        uop.sources().iter().filter(|reg| !written[reg.index()]).for_each(|reg| carried[reg.index()] = true);
        uop.destinations().iter().for_each(|reg| written[reg.index()] = true);
    }
    let registers = |operand: &MemoryOperand| [operand.base(), operand.index()];
    let mut addressing =
        block.instructions().iter().flat_map(|one| block.memory_of(one)).flat_map(registers).flatten();
    addressing.all(|reg| !written[reg.index()]) && !(0..Reg::COUNT).any(|at| written[at] && carried[at])
}

#[cfg(test)]
mod tests {
    use super::*;
    use code::blame::Routine;

    /// mov eax,[rdi]; test eax,eax; je 0; ret
    const ASKING: [u8; 7] = [0x8b, 0x07, 0x85, 0xc0, 0x74, 0xfa, 0xc3];
    /// pause; cmp dword [rdi],0; je 0; ret
    const PAUSING: [u8; 8] = [0xf3, 0x90, 0x83, 0x3f, 0x00, 0x74, 0xf9, 0xc3];
    /// mov rdi,[rdi]; test rdi,rdi; jne 0; ret
    const CHASING: [u8; 9] = [0x48, 0x8b, 0x3f, 0x48, 0x85, 0xff, 0x75, 0xf8, 0xc3];
    /// add eax,[rdi]; cmp eax,esi; jb 0; ret
    const ADDING: [u8; 7] = [0x03, 0x07, 0x39, 0xf0, 0x72, 0xfa, 0xc3];
    /// mov eax,[rdi]; mov [rsi],eax; test eax,eax; je 0; ret
    const COPYING: [u8; 9] = [0x8b, 0x07, 0x89, 0x06, 0x85, 0xc0, 0x74, 0xf8, 0xc3];
    /// mov eax,[rdi]; add rdi,4; test eax,eax; je 0; ret
    const SEEKING: [u8; 11] = [0x8b, 0x07, 0x48, 0x83, 0xc7, 0x04, 0x85, 0xc0, 0x74, 0xf6, 0xc3];

    #[test]
    fn a_loop_that_only_another_thread_can_end_waits_for_it() {
        let asks = |code: &[u8]| only_asks(&Routine::new(code, 0x1000).blocks()[0]);
        assert!(asks(&ASKING) && asks(&PAUSING));
        for code in [&CHASING[..], &ADDING, &COPYING, &SEEKING] {
            assert!(Routine::new(code, 0x1000).blocks()[0].is_loop());
            assert!(!asks(code), "{code:x?}");
        }
    }

    #[test]
    fn runtimes_are_known_by_their_libraries_and_locks_by_their_names() {
        assert_eq!(WaitCode::of("unnamed at 0x1f780", "/usr/lib/libgomp.so.1.0.0"), WaitCode::Spins);
        assert_eq!(WaitCode::of("gomp_team_barrier_wait_end", "/opt/app"), WaitCode::Spins);
        assert_eq!(WaitCode::of("pthread_mutex_lock", "/usr/lib/libc.so.6"), WaitCode::Locks);
        assert_eq!(WaitCode::of("scalable_malloc", "/usr/lib/libtbbmalloc.so.2"), WaitCode::None);
        assert_eq!(WaitCode::of("main._omp_fn.0", "/opt/app"), WaitCode::None);
        // Knuth, Morris and Pratt's.
        assert_eq!(WaitCode::of("kmp_search", "/opt/app"), WaitCode::None);
    }
}
