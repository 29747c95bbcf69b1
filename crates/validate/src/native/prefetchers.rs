//! Prefetchers of this machine, switched off for an experiment where the kernel lets us (Intel's register 0x1a4, through the
//! files of the `msr` module), and back on when it is over, whatever came of it.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
};

/// The register in which prefetchers are switched (Intel SDM volume 4, MSR_MISC_FEATURE_CONTROL).
const REGISTER: u64 = 0x1a4;
/// Both prefetchers of the L2 and both of the L1: a bit that is set switches one off.
const ALL_FOUR: u64 = 0b1111;

/// The switches of some CPUs.
#[derive(Clone, Debug)]
pub struct PrefetchControl {
    files: Vec<PathBuf>,
}

impl PrefetchControl {
    /// Of CPUs of an Intel core under a root directory; none unless every one of them can be read and written.
    pub fn find(root: &Path, cpus: &[u32]) -> Option<Self> {
        let files: Vec<PathBuf> = cpus.iter().map(|cpu| root.join(format!("dev/cpu/{cpu}/msr"))).collect();
        let usable = |file: &PathBuf| {
            let register = Register::open(file)?;
            // What is there already must be accepted; a guest may refuse.
            register.write(register.read()?)
        };
        let all = !files.is_empty() && files.iter().all(|file| usable(file).is_ok());
        all.then_some(Self { files })
    }

    /// Switches all off until the guard goes.
    pub fn off(&self) -> io::Result<PrefetchersOff> {
        let mut guard = PrefetchersOff { before: Vec::new() };
        for file in &self.files {
            let register = Register::open(file)?;
            let before = register.read()?;
            // From before it is written, whatever comes of that.
            guard.before.push((register, before));
            let Some((register, _)) = guard.before.last() else { continue };
            register.write(before | ALL_FOUR)?;
            let kept = register.read()?;
            // A hypervisor may take what is written and do nothing with it.
            if kept & ALL_FOUR != ALL_FOUR {
                return Err(io::Error::other(
                    "prefetchers cannot be switched off: the register does not keep it",
                ));
            }
        }
        Ok(guard)
    }
}

/// Puts back what was there when it goes.
#[derive(Debug)]
pub struct PrefetchersOff {
    before: Vec<(Register, u64)>,
}

impl Drop for PrefetchersOff {
    fn drop(&mut self) {
        for (register, before) in &self.before {
            // It could be written a moment ago; there is nobody to tell if it cannot now.
            let _ = register.write(*before);
        }
    }
}

#[derive(Debug)]
struct Register(File);

impl Register {
    fn open(file: &Path) -> io::Result<Self> {
        OpenOptions::new().read(true).write(true).open(file).map(Self)
    }

    fn read(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, REGISTER)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write(&self, value: u64) -> io::Result<()> {
        self.0.write_all_at(&value.to_le_bytes(), REGISTER)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A kernel with the registers of these CPUs.
    fn scripted(cpus: &[u32], value: u64) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for cpu in cpus {
            let folder = root.path().join(format!("dev/cpu/{cpu}"));
            fs::create_dir_all(&folder).unwrap();
            let mut registers = vec![0; 0x200];
            registers[REGISTER as usize..][..8].copy_from_slice(&value.to_le_bytes());
            fs::write(folder.join("msr"), registers).unwrap();
        }
        root
    }

    fn value(root: &Path, cpu: u32) -> u64 {
        Register::open(&root.join(format!("dev/cpu/{cpu}/msr"))).unwrap().read().unwrap()
    }

    #[test]
    fn prefetchers_are_off_for_an_experiment_and_then_as_they_were() {
        // One of them was off already, and another bit is somebody else's.
        let root = scripted(&[0, 3], 0x24);
        let control = PrefetchControl::find(root.path(), &[0, 3]).unwrap();
        assert_eq!([value(root.path(), 0), value(root.path(), 3)], [0x24; 2], "looking changes nothing");
        let off = control.off().unwrap();
        assert_eq!([value(root.path(), 0), value(root.path(), 3)], [0x2f; 2]);
        drop(off);
        assert_eq!([value(root.path(), 0), value(root.path(), 3)], [0x24; 2]);
    }

    #[test]
    fn without_the_registers_of_every_cpu_there_is_no_switch() {
        let root = scripted(&[0], 0);
        assert!(PrefetchControl::find(root.path(), &[0]).is_some());
        assert!(PrefetchControl::find(root.path(), &[0, 1]).is_none());
        assert!(PrefetchControl::find(root.path(), &[]).is_none());
        // A file that is too short is no register.
        fs::write(root.path().join("dev/cpu/0/msr"), [0; 16]).unwrap();
        assert!(PrefetchControl::find(root.path(), &[0]).is_none());
    }
}
