//! The memory of running processes, as procfs shows it: what is mapped, and bytes of code that no file holds.

use std::{collections::BTreeMap, fs, os::unix::fs::FileExt as _};

use super::procfs::MapLine;

/// Code kept of memory without a file, at most.
const KEPT_BYTES: usize = 16 << 20;

const PAGE: u64 = 4096;

/// Code that a process has mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MappedCode {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub inode: u64,
    /// As in the kernel's records.
    pub path: String,
}

/// All code that a process has mapped.
pub(super) fn maps(pid: i32) -> std::io::Result<Vec<MappedCode>> {
    let text = fs::read(format!("/proc/{pid}/maps"))?;
    let code = |line: MapLine<'_>| {
        let MapLine { start, end, offset, inode, path, .. } = line;
        let path = if path.is_empty() { "//anon" } else { path }.to_owned();
        line.is_code.then_some(MappedCode { start, end, offset, inode, path })
    };
    Ok(String::from_utf8_lossy(&text).lines().filter_map(MapLine::parse).filter_map(code).collect())
}

/// Bytes of a process's memory, as many as can be read from `start` on.
fn read(pid: i32, start: u64, length: u64) -> Option<Vec<u8>> {
    let memory = fs::File::open(format!("/proc/{pid}/mem")).ok()?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let count = memory.read_at(&mut bytes, start).ok()?;
    bytes.truncate(count);
    Some(bytes)
}

/// The kernel's page of shared code. It is the same for every process of this width.
pub fn own_vdso() -> Option<Vec<u8>> {
    let own = i32::try_from(std::process::id()).ok()?;
    let vdso = maps(own).ok()?.into_iter().find(|line| line.path == "[vdso]")?;
    read(own, vdso.start, vdso.end - vdso.start)
}

/// Pages of code that were copied out of running processes.
#[derive(Debug, Default)]
pub(super) struct CodePages {
    /// By module of the recording and address in its terms.
    pages: BTreeMap<(u32, u64), Vec<u8>>,
    bytes: usize,
}

impl CodePages {
    /// Copies the page of a sample at `ip` and its neighbours, as far as they lie in `range`. `address` is the same
    /// place in the terms of `module`. A page is copied once: code that is written anew keeps its first bytes.
    pub fn copy(&mut self, module: u32, address: u64, pid: i32, ip: u64, range: (u64, u64)) {
        let first_byte = |at: u64| at - at % PAGE;
        for neighbour in [0, -1, 1] {
            let page = first_byte(ip).wrapping_add_signed(neighbour * PAGE as i64);
            let key = (module, address.wrapping_add(page.wrapping_sub(ip)));
            let is_inside = page >= first_byte(range.0) && page < range.1;
            if !is_inside || self.bytes >= KEPT_BYTES || self.pages.contains_key(&key) {
                continue;
            }
            // An empty page is kept too: it says that there is nothing to be had.
            let bytes = read(pid, page, PAGE).unwrap_or_default();
            self.bytes += bytes.len();
            self.pages.insert(key, bytes);
        }
    }

    /// The bytes of these addresses of a module, if all were copied.
    pub fn bytes(&self, module: u32, start: u64, end: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut at = start;
        while at < end {
            let page = at - at % PAGE;
            let skip = usize::try_from(at - page).ok()?;
            let found = self.pages.get(&(module, page))?.get(skip..)?;
            let take = found.len().min(usize::try_from(end - at).ok()?);
            if take == 0 {
                return None;
            }
            bytes.extend_from_slice(&found[..take]);
            at += take as u64;
        }
        Some(bytes)
    }

    /// The stretch of copied pages around an address.
    pub fn around(&self, module: u32, address: u64) -> Option<(u64, u64)> {
        let has = |page: u64| self.pages.get(&(module, page)).is_some_and(|bytes| bytes.len() as u64 == PAGE);
        let page = address - address % PAGE;
        has(page).then_some(())?;
        let start = if page >= PAGE && has(page - PAGE) { page - PAGE } else { page };
        let end = page.checked_add(PAGE)?;
        Some((start, if has(end) { end.checked_add(PAGE)? } else { end }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_code_can_be_copied() {
        let own = i32::try_from(std::process::id()).unwrap();
        let ip = our_own_code_can_be_copied as *const () as u64;
        let line = maps(own).unwrap().into_iter().find(|line| (line.start..line.end).contains(&ip)).unwrap();
        let mut pages = CodePages::default();
        pages.copy(3, ip, own, ip, (line.start, line.end));
        let (start, end) = pages.around(3, ip).unwrap();
        assert!(start <= ip && ip < end);
        assert_eq!(pages.bytes(3, ip, ip + 8), read(own, ip, 8));
        assert_eq!(pages.bytes(4, ip, ip + 8), None);
        assert_eq!(pages.bytes(3, start, end + 2 * PAGE), None);
    }

    #[test]
    fn the_vdso_is_an_elf_file() {
        if let Some(bytes) = own_vdso() {
            assert!(bytes.starts_with(b"\x7fELF"));
        }
    }
}
