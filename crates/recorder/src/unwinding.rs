//! Callers of samples that bring a piece of their stack along (`perf record --call-graph dwarf`), found by the tables
//! that programs carry for exceptions.

use std::{
    collections::{HashMap, VecDeque},
    rc::Rc,
    sync::Arc,
};

use framehop::{
    ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder as _,
    x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64},
};
use pmu::sampling::{Abi, KernelSample};
use symbols::{Image, ImageSection};

use crate::{areas::AreaSpan, modules::Modules, recorder::Recorder};

/// Numbers of registers in the kernel's `perf_regs.h`.
const FRAME_POINTER: u32 = 6;
const STACK_POINTER: u32 = 7;
const INSTRUCTION_POINTER: u32 = 8;

/// Frames of a sample, as many as perf keeps.
const MOST_FRAMES: usize = 127;

/// Tables of all files together; those of more are left out.
const MOST_TABLE_BYTES: usize = 64 << 20;

/// Processes whose tables stay laid out; beyond it those of the oldest are laid out again.
const MOST_PROCESSES: usize = 64;

type Tables = Arc<[u8]>;

/// What a file has for it.
#[derive(Clone, Default)]
struct FileTables {
    frames: Option<(std::ops::Range<u64>, Tables)>,
    index: Option<(std::ops::Range<u64>, Tables)>,
}

/// A process as it was laid out.
struct LaidOutProcess {
    spans: Rc<[AreaSpan]>,
    unwinder: UnwinderX86_64<Tables>,
}

/// Finds callers.
#[derive(Default)]
pub(super) struct StackUnwinding {
    files: HashMap<usize, FileTables>,
    bytes: usize,
    processes: HashMap<i32, LaidOutProcess>,
    laid_out: VecDeque<i32>,
    cache: CacheX86_64<MayAllocateDuringUnwind>,
    /// The addresses found last, the innermost first.
    words: Vec<[u8; 8]>,
}

impl Recorder {
    /// The instruction pointers of a sample and its callers, as the kernel writes call chains; the innermost is the sampled
    /// one. None without registers of x86-64.
    pub(crate) fn unwind(&mut self, sample: &KernelSample<'_>, stack: &[u8]) -> Option<Vec<[u8; 8]>> {
        let registers = sample.registers.filter(|registers| registers.abi == Abi::Bits64)?;
        let [ip, sp, bp] =
            [INSTRUCTION_POINTER, STACK_POINTER, FRAME_POINTER].map(|number| registers.get(number));
        let (ip, sp) = (ip.or(sample.ip)?, sp?);
        let spans = self.spans(sample.pid)?;
        let mut unwinding = std::mem::take(&mut self.unwinding);
        unwinding.lay_out(sample.pid, &spans, &mut self.modules);
        let registers = UnwindRegsX86_64::new(ip, sp, bp.unwrap_or(0));
        unwinding.walk(sample.pid, ip, registers, |address| {
            let at = usize::try_from(address.checked_sub(sp)?).ok()?;
            stack.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word))
        });
        let words = std::mem::take(&mut unwinding.words);
        self.unwinding = unwinding;
        Some(words)
    }
}

impl StackUnwinding {
    fn lay_out(&mut self, pid: i32, spans: &Rc<[AreaSpan]>, modules: &mut Modules) {
        if self.processes.get(&pid).is_some_and(|known| Rc::ptr_eq(&known.spans, spans)) {
            return;
        }
        let mut unwinder = UnwinderX86_64::new();
        for span in spans.iter() {
            if !self.files.contains_key(&span.module) {
                let tables = modules.image(span.module, pid, None).map(|image| self.tables(image));
                let tables = tables.unwrap_or_default();
                self.files.insert(span.module, tables);
            }
            let FileTables { frames, index } = self.files[&span.module].clone();
            let sections = ExplicitModuleSectionInfo {
                base_svma: 0,
                eh_frame_svma: frames.as_ref().map(|(range, _)| range.clone()),
                eh_frame: frames.map(|(_, bytes)| bytes),
                eh_frame_hdr_svma: index.as_ref().map(|(range, _)| range.clone()),
                eh_frame_hdr: index.map(|(_, bytes)| bytes),
                ..ExplicitModuleSectionInfo::default()
            };
            unwinder.add_module(Module::new(String::new(), span.start..span.end, span.bias, sections));
        }
        self.processes.insert(pid, LaidOutProcess { spans: Rc::clone(spans), unwinder });
        self.laid_out.push_back(pid);
        if self.laid_out.len() > MOST_PROCESSES
            && let Some(oldest) = self.laid_out.pop_front().filter(|oldest| *oldest != pid)
        {
            self.processes.remove(&oldest);
        }
    }

    fn tables(&mut self, image: &Image) -> FileTables {
        let mut kept = |name: &str| {
            let ImageSection { addresses, bytes } = image.section(name)?;
            self.bytes += bytes.len();
            (self.bytes <= MOST_TABLE_BYTES).then(|| (addresses, Tables::from(bytes)))
        };
        FileTables { frames: kept(".eh_frame"), index: kept(".eh_frame_hdr") }
    }

    /// Follows the frames as far as the tables and the piece of the stack reach.
    fn walk(
        &mut self,
        pid: i32,
        ip: u64,
        registers: UnwindRegsX86_64,
        mut read: impl FnMut(u64) -> Option<u64>,
    ) {
        self.words.clear();
        let Some(process) = self.processes.get(&pid) else { return };
        let mut read = |address: u64| read(address).ok_or(());
        let mut frames = process.unwinder.iter_frames(ip, registers, &mut self.cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            self.words.push(frame.address().to_ne_bytes());
            if self.words.len() == MOST_FRAMES {
                return;
            }
        }
    }
}
