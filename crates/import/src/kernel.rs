//! Names of kernel functions: only of the very kernel that was recorded, moved to where it lay then.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use machine::{
    Bytes,
    regular::{self, LARGEST_RESULT},
};
use pmu::sampling::{MappedFile, Mmap};
use symbols::{Identity, Image, KernelNames, PerfMap, hex};

use crate::{facts, images::ImageFolders};

/// The kernel that was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedKernel {
    /// A symbol, and its address at that time.
    begin: Option<(String, u64)>,
    build_id: Option<Vec<u8>>,
}

/// Symbols of a kernel that may be the one.
struct KernelSource {
    names: KernelNames,
    /// Of the very boot that was recorded: modules lie where they lay.
    is_same_boot: bool,
}

impl RecordedKernel {
    /// Takes note of a mapping, if it is that of the kernel.
    pub fn note(&mut self, mmap: &Mmap<'_>) {
        // Behind it stands the symbol that says where it began.
        let Some(symbol) = mmap.path.strip_prefix(facts::KERNEL).filter(|_| mmap.pid == -1) else { return };
        if !symbol.is_empty() {
            self.begin = Some((String::from_utf8_lossy(symbol).into_owned(), mmap.offset));
        }
        if let MappedFile::BuildId(id) = mmap.file {
            self.build_id = Some(id.to_vec());
        }
    }

    /// Its functions, or why they cannot be named. `listed` is the build id that the file lists, `saved` the symbols that
    /// perf kept beside the records.
    pub fn functions(
        &self,
        listed: Option<&[u8]>,
        release: Option<&str>,
        folders: &ImageFolders,
        saved: Option<&Path>,
    ) -> Result<PerfMap, String> {
        let source = match saved.map(listed_in) {
            Some(names) => KernelSource { names: names?, is_same_boot: true },
            None => {
                let id = self.build_id.as_deref().or(listed).filter(|id| !id.is_empty());
                let id = id.ok_or("the file has no build id of its kernel")?;
                let (begin, _) =
                    self.begin.as_ref().ok_or("the file does not say where its kernel lay in memory")?;
                KernelSource { names: found(id, begin, release, folders)?, is_same_boot: false }
            }
        };
        let slide = match &self.begin {
            Some((symbol, then)) => {
                let now = source.names.address_of(symbol);
                then.wrapping_sub(now.ok_or_else(|| format!("its symbols lack '{symbol}'"))?)
            }
            None => 0,
        };
        Ok(source.names.functions(slide, source.is_same_boot && slide == 0))
    }
}

/// By build id: in the caches of perf, of the kernel that runs, in debug files.
fn found(
    id: &[u8],
    begin: &str,
    release: Option<&str>,
    folders: &ImageFolders,
) -> Result<KernelNames, String> {
    let digits = hex(id);
    let (first, rest) = digits.split_at(digits.len().min(2));
    for cache in &folders.caches {
        let own = cache.join(OsStr::from_bytes(facts::KERNEL)).join(&digits);
        let places =
            [cache.join(".build-id").join(first).join(rest).join("kallsyms"), own.join("kallsyms"), own];
        if let Some(names) = places.iter().find_map(|place| listed_in(place).ok()) {
            return Ok(names);
        }
    }
    let mut is_running = false;
    if let Some(root) = &folders.running_kernel {
        is_running = running_build_id(root).is_some_and(|running| running == id);
        if is_running && let Ok(names) = listed_in(&root.join("proc/kallsyms")) {
            return Ok(names);
        }
    }
    let identity = Identity { build_id: Some(id.to_vec()), stamp: None };
    let images = images(&digits, release, folders);
    let mut images = images.iter().filter_map(|place| Image::open(place, Some(&identity)).ok());
    images.find_map(|image| KernelNames::of_image(&image, begin)).ok_or_else(|| match is_running {
        true => "the kernel that runs is the same, but keeps its addresses secret; 'sysctl kernel.kptr_restrict=0' (as \
                 root) shows them"
            .to_owned(),
        false => format!(
            "no symbols of a kernel with its build id {digits} are here; 'perf record --kcore' keeps them with the \
             samples, and 'perf archive' packs them"
        ),
    })
}

/// Where a kernel with its symbols may lie.
fn images(digits: &str, release: Option<&str>, folders: &ImageFolders) -> Vec<PathBuf> {
    let (first, rest) = digits.split_at(digits.len().min(2));
    let mut places = Vec::new();
    for folder in folders.caches.iter().chain(&folders.debug) {
        let entry = folder.join(".build-id").join(first);
        places.extend([entry.join(format!("{rest}.debug")), entry.join(rest).join("elf")]);
    }
    places.extend(folders.debuginfod.iter().map(|folder| folder.join(digits).join("debuginfo")));
    // A release that leads elsewhere is none.
    if let Some(release) = release.filter(|release| !release.contains('/')) {
        for folder in &folders.debug {
            places.push(folder.join(format!("boot/vmlinux-{release}")));
            places.push(folder.join(format!("lib/modules/{release}/vmlinux")));
        }
    }
    places
}

fn listed_in(path: &Path) -> Result<KernelNames, String> {
    let bytes = regular::read(path, LARGEST_RESULT).map_err(|error| error.to_string())?;
    KernelNames::parse(&bytes)
        .ok_or_else(|| format!("{} has no addresses: perf was not allowed to see them", path.display()))
}

/// The build id of the kernel that runs.
fn running_build_id(root: &Path) -> Option<Vec<u8>> {
    let notes = regular::read(&root.join("sys/kernel/notes"), Bytes(1 << 20)).ok()?;
    build_id_in(&notes)
}

/// The build id among ELF notes: lengths of name and contents, kind, both padded to four bytes.
fn build_id_in(mut notes: &[u8]) -> Option<Vec<u8>> {
    const BUILD_ID: u32 = 3;
    loop {
        let half = |at: usize| notes.get(at..)?.first_chunk().map(|half| u32::from_ne_bytes(*half));
        let (name_length, length, kind) = (half(0)? as usize, half(4)? as usize, half(8)?);
        let contents_at = 12 + name_length.next_multiple_of(4);
        let name = notes.get(12..12 + name_length)?;
        let contents = notes.get(contents_at..contents_at.checked_add(length)?)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return Some(contents.to_vec());
        }
        notes = notes.get(contents_at + length.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pmu::sampling::Stamp;
    use std::fs;

    const ID: [u8; 4] = [0xab, 1, 2, 3];
    const LIST: &str = "ffffffff81000000 T _text\nffffffff81000040 t work\nffffffff81000100 T _etext\n\
                        ffffffffc0000000 t hello\t[greet]\nffffffffc0000010 t bye\t[greet]\n";

    fn mapped_at(address: u64) -> RecordedKernel {
        let stamp = Stamp { time_ns: 0, pid: -1, tid: 0, cpu: 0, id: None };
        let mut kernel = RecordedKernel::default();
        kernel.note(&Mmap {
            stamp,
            pid: -1,
            tid: 0,
            start: address,
            length: 0x1000,
            offset: address,
            file: MappedFile::Unknown,
            protection: None,
            flags: None,
            is_data: false,
            path: b"[kernel.kallsyms]_text",
        });
        kernel
    }

    fn notes(id: &[u8]) -> Vec<u8> {
        let half = |value: u32| value.to_ne_bytes();
        let other = [half(6), half(4), half(0x101)].concat();
        let own = [half(4), half(id.len() as u32), half(3)].concat();
        [&other[..], b"Linux\0\0\0", &[1; 4], &own, b"GNU\0", id].concat()
    }

    #[test]
    fn the_running_kernel_names_functions_only_if_it_is_the_one_and_where_they_lay() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["proc", "sys/kernel"] {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        fs::write(root.path().join("proc/kallsyms"), LIST).unwrap();
        fs::write(root.path().join("sys/kernel/notes"), notes(&ID)).unwrap();
        let folders = ImageFolders { running_kernel: Some(root.path().to_owned()), ..Default::default() };
        let kernel = mapped_at(0xffff_ffff_9b00_0000);
        let map = kernel.functions(Some(&ID), None, &folders, None).unwrap();
        assert_eq!(map.at(0xffff_ffff_9b00_0050).map(|(_, name)| name), Some("work"));
        assert_eq!(map.at(0xffff_ffff_8100_0050), None, "that is where it lies now");
        assert_eq!(map.at(0xffff_ffff_c000_0001), None, "modules lie elsewhere after each boot");
        let other = kernel.functions(Some(&[9; 4]), None, &folders, None).unwrap_err();
        assert!(other.contains("09090909"), "{other}");
        assert!(kernel.functions(None, None, &folders, None).unwrap_err().contains("no build id"));
        let unplaced = RecordedKernel::default().functions(Some(&ID), None, &folders, None).unwrap_err();
        assert!(unplaced.contains("where its kernel lay"), "{unplaced}");
        fs::write(root.path().join("proc/kallsyms"), "0000000000000000 T _text\n").unwrap();
        let secret = kernel.functions(Some(&ID), None, &folders, None).unwrap_err();
        assert!(secret.contains("kptr_restrict"), "{secret}");
    }

    #[test]
    fn caches_of_perf_and_what_it_kept_beside_the_records_are_believed() {
        let cache = tempfile::tempdir().unwrap();
        let folders = ImageFolders { caches: vec![cache.path().to_owned()], ..Default::default() };
        let kernel = mapped_at(0xffff_ffff_8100_0000);
        assert!(kernel.functions(Some(&ID), None, &folders, None).is_err());
        let place = cache.path().join("[kernel.kallsyms]/ab010203");
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join("kallsyms"), LIST).unwrap();
        let map = kernel.functions(Some(&ID), None, &folders, None).unwrap();
        assert_eq!(map.at(0xffff_ffff_8100_0041).map(|(_, name)| name), Some("work"));
        let saved = place.join("kallsyms");
        let map = kernel.functions(None, None, &ImageFolders::default(), Some(&saved)).unwrap();
        assert_eq!(map.at(0xffff_ffff_c000_0001).map(|(_, name)| name), Some("hello [greet]"));
    }

    #[test]
    fn notes_that_end_too_soon_have_no_build_id() {
        let all = notes(&ID);
        assert_eq!(build_id_in(&all), Some(ID.to_vec()));
        (0..all.len()).for_each(|length| assert_eq!(build_id_in(&all[..length]), None));
    }
}
