//! Whether the allocation library can be loaded into a program, told from its file.

use std::{
    fs::{self, File},
    io::Read as _,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
};

/// Why a program cannot be entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// No loader takes part.
    Static,
    /// It runs with other rights than ours; the loader then ignores such requests.
    OtherRights,
    /// For another kind of processor, or another width.
    OtherMachine,
    /// Its loader, which is not that of glibc.
    OtherLibrary(String),
    /// A sanitizer that insists on being the first library.
    Sanitizer(String),
}

impl Barrier {
    /// After "PROGRAM …".
    pub fn words(&self) -> String {
        match self {
            Self::Static => "is statically linked, so that what it starts is not looked at either".into(),
            Self::OtherRights => {
                "runs with rights of its own (set-user-ID, set-group-ID or capabilities), and the kernel takes no \
                 samples of it either"
                    .into()
            }
            Self::OtherMachine => "is made for another kind of processor than memwall".into(),
            Self::OtherLibrary(loader) => format!("uses another C library than glibc ({loader})"),
            Self::Sanitizer(library) => {
                format!("has an allocator of its own that must come first ({library})")
            }
        }
    }

    /// The program itself would complain or fail if it were tried, or have what it starts do so; else that can still be
    /// entered.
    pub fn is_harmful(&self) -> bool {
        matches!(self, Self::Static | Self::OtherMachine | Self::OtherLibrary(_) | Self::Sanitizer(_))
    }
}

/// Scripts may name scripts as their interpreters, up to five of them.
const LONGEST_CHAIN: usize = 6;

/// As the loaders of glibc are called, and no other's.
const LOADER: &str = "ld-linux";

const SANITIZERS: [&str; 5] = ["libasan.", "libtsan.", "liblsan.", "libhwasan.", "libclang_rt."];

/// What keeps the library out of the program at `path`; none also if the file cannot be read.
pub(crate) fn barrier(path: &Path) -> Option<Barrier> {
    let mut path = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        let file = machine::regular::open(&path).ok()?;
        let mut begin = Vec::new();
        (&file).take(256).read_to_end(&mut begin).ok()?;
        match interpreter(&begin) {
            Some(interpreter) => path = interpreter,
            None if begin.starts_with(b"\x7fELF") => {
                return has_other_rights(&path, &file).or_else(|| elf(&file));
            }
            // As shells run it.
            None => path = "/bin/sh".into(),
        }
    }
    None
}

/// The first word behind `#!`.
fn interpreter(begin: &[u8]) -> Option<PathBuf> {
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let word = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(PathBuf::from(String::from_utf8_lossy(word).into_owned()))
}

fn has_other_rights(path: &Path, file: &File) -> Option<Barrier> {
    const SET_USER: u32 = 0o4000;
    const SET_GROUP: u32 = 0o2000;
    let metadata = file.metadata().ok()?;
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let sets_user = metadata.mode() & SET_USER != 0 && metadata.uid() != user;
    let sets_group = metadata.mode() & SET_GROUP != 0 && metadata.gid() != group;
    let has_capabilities = user != 0
        && rustix::fs::getxattr(path, "security.capability", &mut [0_u8; 64][..]).is_ok_and(|size| size > 0);
    (sets_user || sets_group || has_capabilities).then_some(Barrier::OtherRights)
}

/// A part of an ELF file, as its program headers name it.
#[derive(Clone, Copy)]
struct ElfPart {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

fn elf(file: &File) -> Option<Barrier> {
    const X86_64: u16 = 62;
    const ARM64: u16 = 183;
    let machine = if cfg!(target_arch = "aarch64") { ARM64 } else { X86_64 };
    let head = bytes(file, 0, 64)?;
    if head.get(4) != Some(&2) || number(&head, 18, 2)? != u64::from(machine) {
        return Some(Barrier::OtherMachine);
    }
    let (at, size, count) = (number(&head, 32, 8)?, number(&head, 54, 2)?, number(&head, 56, 2)?);
    let headers = bytes(file, at, size.checked_mul(count)?.min(1 << 20))?;
    let parts: Vec<ElfPart> = headers
        .chunks(usize::try_from(size).ok().filter(|size| *size >= 56)?)
        .filter_map(|header| {
            Some(ElfPart {
                kind: u32::try_from(number(header, 0, 4)?).ok()?,
                offset: number(header, 8, 8)?,
                address: number(header, 16, 8)?,
                size: number(header, 32, 8)?,
            })
        })
        .collect();
    const INTERPRETER: u32 = 3;
    let Some(loader) = parts.iter().find(|part| part.kind == INTERPRETER) else {
        // Who executes the loader itself names the program behind it.
        let is_loader = named(file, &parts, OWN_NAME)
            .is_some_and(|names| names.iter().any(|name| name.starts_with(LOADER)));
        return (!is_loader).then_some(Barrier::Static);
    };
    let loader = bytes(file, loader.offset, loader.size.min(4096))?;
    let loader = text(&loader);
    let name = loader.rsplit('/').next().unwrap_or_default();
    if !name.starts_with(LOADER) {
        return Some(Barrier::OtherLibrary(loader));
    }
    let sanitizer = named(file, &parts, NEEDED)?
        .into_iter()
        .find(|library| SANITIZERS.iter().any(|start| library.starts_with(start)));
    sanitizer.map(Barrier::Sanitizer)
}

/// Entries that name the libraries a file asks for, and itself.
const NEEDED: u64 = 1;
const OWN_NAME: u64 = 14;

/// The names that such entries lead to.
fn named(file: &File, parts: &[ElfPart], kind: u64) -> Option<Vec<String>> {
    const LOADED: u32 = 1;
    const DYNAMIC: u32 = 2;
    const NAMES: u64 = 5;
    const LONGEST_NAMES: u64 = 1 << 20;
    let dynamic = parts.iter().find(|part| part.kind == DYNAMIC)?;
    let entries = bytes(file, dynamic.offset, dynamic.size.min(1 << 16))?;
    let entries: Vec<(u64, u64)> =
        entries.chunks(16).filter_map(|entry| Some((number(entry, 0, 8)?, number(entry, 8, 8)?))).collect();
    let names = entries.iter().find(|(tag, _)| *tag == NAMES)?.1;
    let part = parts
        .iter()
        .find(|part| part.kind == LOADED && part.address <= names && names - part.address < part.size)?;
    let offset = part.offset.checked_add(names - part.address)?;
    let names = bytes(file, offset, LONGEST_NAMES.min(part.size))?;
    let wanted = entries.iter().filter(|(tag, _)| *tag == kind);
    Some(wanted.filter_map(|(_, at)| names.get(usize::try_from(*at).ok()?..).map(text)).collect())
}

/// As many of these bytes as there are.
fn bytes(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    let count = file.read_at(&mut bytes, offset).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// A number of up to eight bytes, little-endian.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + size)?;
    Some(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// What a process executed, as far as its file still tells why it has no log.
pub(crate) fn why_no_log(executable: &str) -> Option<String> {
    fs::metadata(executable).ok()?;
    barrier(Path::new(executable)).map(|barrier| barrier.words())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::PermissionsExt as _, process::Command};

    fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
        let (source, program) = (folder.join("m.c"), folder.join(name));
        fs::write(&source, "int main(void) { return 0; }").unwrap();
        let status = Command::new("cc").arg("-o").arg(&program).arg(&source).args(flags).status().unwrap();
        assert!(status.success());
        program
    }

    #[test]
    fn programs_that_cannot_be_entered_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let plain = build(folder.path(), "plain", &[]);
        assert_eq!(barrier(&plain), None);
        assert_eq!(barrier(&build(folder.path(), "static", &["-static"])), Some(Barrier::Static));
        let other = build(folder.path(), "other", &["-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"]);
        assert!(matches!(barrier(&other), Some(Barrier::OtherLibrary(loader)) if loader.contains("musl")));
        let library = build(folder.path(), "libasan.so.8", &["-shared", "-fPIC", "-Wl,-soname,libasan.so.8"]);
        let asan = build(folder.path(), "asan", &["-Wl,--no-as-needed", library.to_str().unwrap()]);
        assert_eq!(barrier(&asan), Some(Barrier::Sanitizer("libasan.so.8".into())));
        let loaders = ["/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"].map(Path::new);
        loaders.iter().filter(|loader| loader.exists()).for_each(|loader| assert_eq!(barrier(loader), None));
        let script = folder.path().join("script");
        fs::write(&script, format!("#! {} -x\n", asan.display())).unwrap();
        assert!(matches!(barrier(&script), Some(Barrier::Sanitizer(_))));
        fs::write(&script, "echo no interpreter\n").unwrap();
        assert_eq!(barrier(&script), None);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&plain, Some(65534), None).unwrap();
            fs::set_permissions(&plain, fs::Permissions::from_mode(0o4755)).unwrap();
            assert_eq!(barrier(&plain), Some(Barrier::OtherRights));
        }
        assert_eq!(barrier(&folder.path().join("nothing")), None);
    }

    #[test]
    fn damaged_files_are_survived() {
        let folder = tempfile::tempdir().unwrap();
        let plain = fs::read(build(folder.path(), "plain", &[])).unwrap();
        let path = folder.path().join("damaged");
        for cut in [4, 20, 63, 64, 100, 300, 1000] {
            fs::write(&path, &plain[..cut]).unwrap();
            barrier(&path);
        }
        for at in 4..300 {
            let mut bytes = plain.clone();
            bytes[at] = 0xff;
            fs::write(&path, &bytes[..20_000.min(bytes.len())]).unwrap();
            barrier(&path);
        }
    }
}
