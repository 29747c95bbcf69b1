//! The files and other memory that code is executed from, and their images while they are needed.

use std::{
    collections::HashMap,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use pmu::sampling::{MappedFile, Mode};
use record::run::{Module, ModuleKind};
use symbols::{Identity, Image, ImageError, ImageSegment};

use super::{
    areas::AreaSpan,
    memory,
    replay::{ImageFinder, WantedImage},
    spaces::Mapped,
};

/// Files whose images may stay open together; beyond it the one not used for longest is closed.
const OPEN_BYTES: u64 = 32 << 20;

const PAGE_BYTES: u64 = 4096;

/// What the kernel's own code is called.
const KERNEL: &str = "[kernel]";

/// What is known of one module.
#[derive(Debug)]
pub(super) struct KnownModule {
    /// As the recording has it.
    pub about: Module,
    /// The process whose generated code it is.
    pub pid: Option<i32>,
    /// Its index in the recording, once a sample landed in it.
    pub recorded: Option<u32>,
    identity: Identity,
    /// The inode it was mapped from, where the kernel says no build id.
    inode: Option<u64>,
    /// Those with code first.
    segments: Vec<ImageSegment>,
    state: ImageState,
    used: u64,
}

#[derive(Debug)]
enum ImageState {
    Unopened,
    Open(Box<Image>),
    /// Open, and gone if closed: its file was deleted.
    Kept(Box<Image>),
    Closed,
    Unusable,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ModuleKey {
    path: String,
    build_id: Option<Vec<u8>>,
    inode: Option<u64>,
    pid: Option<i32>,
}

/// All modules seen, by numbers of our own: only those with samples are recorded.
#[derive(Debug, Default)]
pub(super) struct Modules {
    all: Vec<KnownModule>,
    by_key: HashMap<ModuleKey, usize>,
    recorded: Vec<usize>,
    clock: u64,
    /// Who finds files, where no process leads to them.
    finder: Option<Box<dyn ImageFinder>>,
}

impl Modules {
    /// The number of the module that a process mapped.
    pub fn number(&mut self, pid: i32, path: &[u8], file: MappedFile<'_>) -> usize {
        let text = String::from_utf8_lossy(path);
        let kind = kind_of(&text);
        let (build_id, inode) = match file {
            _ if kind != ModuleKind::File => (None, None),
            MappedFile::BuildId(id) => (Some(id.to_vec()), None),
            MappedFile::Inode { inode, .. } => (None, Some(inode).filter(|inode| *inode != 0)),
            MappedFile::Unknown => (None, None),
        };
        let pid = matches!(kind, ModuleKind::Anonymous | ModuleKind::Unknown).then_some(pid);
        let path = match (kind, pid) {
            (ModuleKind::Anonymous, Some(pid)) => format!("generated code of process {pid}"),
            (ModuleKind::Unknown, Some(pid)) => format!("unknown memory of process {pid}"),
            _ => text.trim_end_matches(" (deleted)").to_owned(),
        };
        let key = ModuleKey { path: path.clone(), build_id: build_id.clone(), inode, pid };
        let identity = Identity { build_id, stamp: None };
        let about = Module { path, kind, build_id: identity.build_id_hex(), problem: None };
        self.keyed(key, about, identity)
    }

    fn keyed(&mut self, key: ModuleKey, about: Module, identity: Identity) -> usize {
        let (next, inode, pid) = (self.all.len(), key.inode, key.pid);
        let number = *self.by_key.entry(key).or_insert(next);
        if number == next {
            self.all.push(KnownModule {
                about,
                pid,
                recorded: None,
                identity,
                inode,
                segments: Vec::new(),
                state: ImageState::Unopened,
                used: 0,
            });
        }
        number
    }

    /// Files are found by `finder`, and no process is asked for anything.
    pub fn find_with(&mut self, finder: Box<dyn ImageFinder>) {
        self.finder = Some(finder);
    }

    /// Processes are those that run on this machine now.
    pub fn are_live(&self) -> bool {
        self.finder.is_none()
    }

    /// The number of what is executed in a mode that is not the program's.
    pub fn beyond(&mut self, mode: Mode) -> usize {
        let name = match mode {
            Mode::Kernel => KERNEL,
            Mode::Hypervisor => "[hypervisor]",
            Mode::GuestKernel => "[kernel of a guest]",
            _ => "[program of a guest]",
        };
        let key = ModuleKey { path: name.to_owned(), build_id: None, inode: None, pid: None };
        let kind = ModuleKind::Unknown;
        let about = Module { path: name.to_owned(), kind, build_id: None, problem: None };
        self.keyed(key, about, Identity::default())
    }

    /// The number of what stands for places that are not kept one by one.
    pub fn crowd(&mut self) -> usize {
        let path = "more places than are kept".to_owned();
        let key = ModuleKey { path: path.clone(), build_id: None, inode: None, pid: None };
        let about = Module { path, kind: ModuleKind::Unknown, build_id: None, problem: None };
        self.keyed(key, about, Identity::default())
    }

    /// The number of what lies where nothing is known to lie.
    pub fn unknown(&mut self, pid: i32) -> usize {
        self.number(pid, b"", MappedFile::Unknown)
    }

    pub fn get(&self, number: usize) -> &KnownModule {
        &self.all[number]
    }

    /// The modules with samples, in the order of the recording.
    pub fn recorded(&self) -> &[usize] {
        &self.recorded
    }

    /// Gives a module its place in the recording, after finding out all that is to be said of it. Gives its index, and
    /// whether that is new.
    pub fn record(&mut self, number: usize, pid: i32, mapped: Option<&Mapped>) -> (u32, bool) {
        if let Some(index) = self.all[number].recorded {
            return (index, false);
        }
        self.image(number, pid, mapped);
        let index = u32::try_from(self.recorded.len()).unwrap_or(u32::MAX);
        self.recorded.push(number);
        self.all[number].recorded = Some(index);
        (index, true)
    }

    /// An address in the module's own terms. Where the file could not be read these are offsets in it.
    pub fn address(&self, number: usize, mapped: Option<&Mapped>, ip: u64) -> u64 {
        let known = &self.all[number];
        let (ModuleKind::File | ModuleKind::Vdso, Some(mapped)) = (known.about.kind, mapped) else {
            return ip;
        };
        let offset = mapped.offset_of(ip);
        let segment = known.segments.iter().find(|segment| segment.file.contains(&offset));
        segment.map_or(offset, |segment| segment.addresses.start.wrapping_add(offset - segment.file.start))
    }

    /// The module's image, opened if need be; `pid` is a process that has it mapped.
    pub fn image(&mut self, number: usize, pid: i32, mapped: Option<&Mapped>) -> Option<&Image> {
        self.clock += 1;
        let clock = self.clock;
        let known = &mut self.all[number];
        known.used = clock;
        if matches!(known.state, ImageState::Unopened | ImageState::Closed) {
            known.open(pid, mapped, self.finder.as_deref_mut());
            self.close_others(number);
        }
        match &self.all[number].state {
            ImageState::Open(image) | ImageState::Kept(image) => Some(image),
            ImageState::Unopened | ImageState::Closed | ImageState::Unusable => None,
        }
    }

    /// Where a file that a process has mapped lies in its memory, zeroed data included.
    pub fn span(&mut self, pid: i32, mapped: &Mapped) -> Option<AreaSpan> {
        let number = mapped.module;
        if self.all[number].about.kind != ModuleKind::File {
            return None;
        }
        if matches!(self.all[number].state, ImageState::Unopened) {
            self.image(number, pid, Some(mapped));
        }
        let segments = &self.all[number].segments;
        let holder = segments.iter().find(|segment| {
            let first_page = segment.file.start - segment.file.start % PAGE_BYTES;
            (first_page..segment.file.end).contains(&mapped.offset)
        })?;
        let own = holder.addresses.start.wrapping_add(mapped.offset.wrapping_sub(holder.file.start));
        let bias = mapped.start.wrapping_sub(own);
        let first = segments.iter().map(|segment| segment.addresses.start).min()?;
        let last = segments.iter().map(|segment| segment.addresses.end).max()?;
        let (start, end) = (first.wrapping_add(bias), last.wrapping_add(bias));
        let round = |address: u64| address.checked_next_multiple_of(PAGE_BYTES).unwrap_or(address);
        (start < end).then(|| AreaSpan {
            start: start - start % PAGE_BYTES,
            end: round(end),
            module: number,
            bias,
        })
    }

    fn close_others(&mut self, current: usize) {
        let size = |known: &KnownModule| match &known.state {
            ImageState::Open(image) => image.identity().stamp.map_or(0, |stamp| stamp.size_bytes),
            _ => 0,
        };
        while self.all.iter().map(size).sum::<u64>() > OPEN_BYTES {
            let open =
                self.all.iter_mut().enumerate().filter(|(number, known)| {
                    *number != current && matches!(known.state, ImageState::Open(_))
                });
            let Some((_, oldest)) = open.min_by_key(|(_, known)| known.used) else { return };
            oldest.state = ImageState::Closed;
        }
    }
}

impl KnownModule {
    /// It is the kernel of the machine, not of a guest.
    pub fn is_kernel(&self) -> bool {
        self.about.kind == ModuleKind::Unknown && self.about.path == KERNEL
    }

    fn open(&mut self, pid: i32, mapped: Option<&Mapped>, finder: Option<&mut (dyn ImageFinder + 'static)>) {
        let first = matches!(self.state, ImageState::Unopened);
        let words = |error: ImageError| error.to_string();
        let opened = match (self.about.kind, finder) {
            (ModuleKind::Anonymous | ModuleKind::Unknown, _) => {
                self.state = ImageState::Unusable;
                return;
            }
            (kind, Some(finder)) => {
                let build_id = self.identity.build_id.as_deref();
                let wanted = WantedImage { path: &self.about.path, kind, build_id, inode: self.inode };
                finder.find(&wanted).map(|image| (image, false))
            }
            (ModuleKind::File, None) => self.open_file(pid, mapped).map_err(words),
            (ModuleKind::Vdso, None) => memory::own_vdso()
                .ok_or_else(|| ImageError::NotElf { name: "[vdso]".into() })
                .and_then(|bytes| Image::from_bytes("[vdso]", bytes))
                .map_err(words)
                .map(|image| (image, true)),
        };
        match opened {
            Ok((image, keep)) => {
                if first {
                    self.identity = image.identity().clone();
                    self.about.build_id = self.identity.build_id_hex();
                    self.segments = image.segments().to_vec();
                    self.segments.sort_by_key(|segment| !segment.executable);
                }
                let image = Box::new(image);
                self.state = if keep { ImageState::Kept(image) } else { ImageState::Open(image) };
            }
            Err(error) => {
                self.about.problem.get_or_insert(error);
                self.state = ImageState::Unusable;
            }
        }
    }

    /// The image, and whether it must be kept because its file cannot be opened again.
    fn open_file(&self, pid: i32, mapped: Option<&Mapped>) -> Result<(Image, bool), ImageError> {
        let path = Path::new(&self.about.path);
        let by_path = Image::open(path, Some(&self.identity));
        let same_inode = |inode| fs::metadata(path).is_ok_and(|metadata| metadata.ino() == inode);
        let is_certain = self.identity.build_id.is_some() || self.inode.is_none_or(same_inode);
        match by_path {
            Ok(image) if is_certain => Ok((image, false)),
            // Deleted, replaced, or seen under another root: as long as the process lives it leads to its files.
            by_path => {
                let mut others = self.other_ways(pid, mapped).into_iter();
                let other = others.find_map(|way| Image::open(&way, Some(&self.identity)).ok());
                other.map_or_else(|| by_path.map(|image| (image, false)), |image| Ok((image, true)))
            }
        }
    }

    fn other_ways(&self, pid: i32, mapped: Option<&Mapped>) -> Vec<PathBuf> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let executable = process.join("exe");
        let leads_here = fs::read_link(&executable)
            .is_ok_and(|path| path.to_string_lossy().trim_end_matches(" (deleted)") == self.about.path);
        let map_file =
            mapped.map(|mapped| process.join(format!("map_files/{:x}-{:x}", mapped.start, mapped.end)));
        let rooted = process.join("root").join(self.about.path.trim_start_matches('/'));
        leads_here.then_some(executable).into_iter().chain(map_file).chain([rooted]).collect()
    }
}

/// What the kernel's name of a mapping says it is.
pub(super) fn kind_of(path: &str) -> ModuleKind {
    /// Memory that looks like a file but is none.
    const NO_FILES: [&str; 6] = ["//", "/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage", "/[aio]"];
    match path {
        "[vdso]" => ModuleKind::Vdso,
        "" | "[vsyscall]" => ModuleKind::Unknown,
        _ if NO_FILES.iter().any(|start| path.starts_with(start)) => ModuleKind::Anonymous,
        _ if path.starts_with('/') => ModuleKind::File,
        _ => ModuleKind::Anonymous,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        for (path, kind) in [
            ("/usr/bin/sort", ModuleKind::File),
            ("/usr/bin/sort (deleted)", ModuleKind::File),
            ("//anon", ModuleKind::Anonymous),
            ("[heap]", ModuleKind::Anonymous),
            ("anon_inode:[perf_event]", ModuleKind::Anonymous),
            ("/memfd:jit (deleted)", ModuleKind::Anonymous),
            ("[vdso]", ModuleKind::Vdso),
            ("", ModuleKind::Unknown),
        ] {
            assert_eq!(kind_of(path), kind, "{path}");
        }
    }

    #[test]
    fn files_are_one_for_all_processes_and_generated_code_is_not() {
        let mut modules = Modules::default();
        let file = MappedFile::BuildId(&[1, 2]);
        let library = modules.number(1, b"/lib/x.so", file);
        assert_eq!(modules.number(2, b"/lib/x.so", file), library);
        assert_ne!(modules.number(2, b"/lib/x.so", MappedFile::BuildId(&[3])), library, "rebuilt meanwhile");
        assert_ne!(
            modules.number(1, b"//anon", MappedFile::Unknown),
            modules.number(2, b"//anon", MappedFile::Unknown)
        );
        assert_eq!(modules.get(library).about.build_id.as_deref(), Some("0102"));
    }

    #[test]
    fn an_address_of_this_program_is_found_in_its_file() {
        let path = std::env::current_exe().unwrap();
        let mut modules = Modules::default();
        let number = modules.number(1, path.as_os_str().as_encoded_bytes(), MappedFile::Unknown);
        let function = an_address_of_this_program_is_found_in_its_file as *const () as u64;
        let pid = i32::try_from(std::process::id()).unwrap();
        let maps = memory::maps(pid).unwrap();
        let found = maps.iter().find(|found| (found.start..found.end).contains(&function)).unwrap();
        let mapped = Mapped { start: found.start, end: found.end, offset: found.offset, module: number };
        let (index, is_new) = modules.record(number, pid, Some(&mapped));
        assert_eq!((index, is_new), (0, true));
        let address = modules.address(number, Some(&mapped), function);
        let image = modules.image(number, pid, None).unwrap();
        let name = image.function_at(address).unwrap().name.into_owned();
        assert!(name.contains("an_address_of_this_program"), "{name}");
        assert_eq!(modules.get(number).about.problem, None);
        let gone = modules.number(1, b"/no/such/file", MappedFile::Unknown);
        modules.record(gone, pid, None);
        assert!(modules.get(gone).about.problem.as_ref().unwrap().contains("/no/such/file"));
    }
}
