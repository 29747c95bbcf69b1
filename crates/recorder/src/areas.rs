//! What lies where in the address space of a running process, as procfs shows it.
//!
//! Looking makes the kernel walk the page tables, so it is done seldom: early, then ever more rarely, and never more
//! often than one per cent of a core allows.

use std::{fs, time::Duration};

use record::{
    data::{Area, AreaKind, AreaPages},
    ids::{ProcessId, ThreadId},
};

use super::procfs::{self, MapLine};

/// A process is looked at when it is so old, and then after three times as long, again and again.
pub(super) const FIRST_LOOK_NS: u64 = 100_000_000;

/// But at least so often.
const SELDOM_NS: u64 = 60_000_000_000;

/// Of the time between two looks, the first may take one part in this many.
const COST_SHARE: u64 = 100;

/// Larger processes are looked at without asking for their pages.
const MOST_RESIDENT_BYTES: u64 = 16 << 30;

/// Areas kept of one process.
const MOST_AREAS: usize = 4096;

/// When to look again at a process of some age, after a look that took some time.
pub(super) fn next_look_ns(age_ns: u64, took: Duration) -> u64 {
    let cost_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).saturating_mul(COST_SHARE);
    age_ns.saturating_mul(2).clamp(FIRST_LOOK_NS, SELDOM_NS).max(cost_ns)
}

/// Addresses of a file that a process has loaded, zeroed data included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AreaSpan {
    pub start: u64,
    pub end: u64,
    pub module: usize,
    /// What the loader added to the module's own addresses.
    pub bias: u64,
}

/// What is known of a process beside procfs.
pub(super) struct Knowledge<'a> {
    pub process: ProcessId,
    /// The index of its first thread.
    pub main_thread: Option<u32>,
    /// Threads by index with their stack pointers.
    pub stack_pointers: &'a [(u32, u64)],
    /// Files it has loaded, with their paths.
    pub loaded: &'a [(AreaSpan, String)],
    /// The machine has one memory node only: nobody needs to be asked.
    pub one_node: bool,
}

/// The address space of a process; none if it is gone.
pub(super) fn look(pid: i32, knowledge: &Knowledge<'_>) -> Option<Vec<Area>> {
    let smaps = if procfs::resident_bytes(&read(pid, "statm")?)? > MOST_RESIDENT_BYTES {
        None
    } else {
        read(pid, "smaps")
    };
    let nodes = if knowledge.one_node || smaps.is_none() { None } else { read(pid, "numa_maps") };
    let text = smaps.or_else(|| read(pid, "maps"))?;
    let areas = areas(&text, &nodes.unwrap_or_default(), knowledge);
    // A process that has just ended has an empty list.
    (!areas.is_empty()).then_some(areas)
}

/// Whether the machine has one memory node only.
pub(super) fn has_one_node() -> bool {
    fs::read_to_string("/sys/devices/system/node/online").is_ok_and(|online| online.trim() == "0")
}

fn read(pid: i32, name: &str) -> Option<String> {
    fs::read(format!("/proc/{pid}/{name}")).ok().map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// Areas from the text of `smaps` or `maps` and that of `numa_maps`. Neighbours of the same kind become one.
pub(super) fn areas(text: &str, numa_maps: &str, knowledge: &Knowledge<'_>) -> Vec<Area> {
    let nodes: Vec<(u64, Vec<(u32, u64)>)> = numa_maps.lines().filter_map(procfs::nodes).collect();
    let mut all: Vec<Area> = Vec::new();
    for line in text.lines() {
        match MapLine::parse(line) {
            Some(MapLine { start, end, path, .. }) if all.len() < MOST_AREAS => {
                let kind = knowledge.kind(start, end, path.trim_end());
                all.push(Area { process: knowledge.process, start, end, kind, pages: None });
            }
            Some(_) => break,
            None => {
                if let Some(last) = all.last_mut() {
                    detail(line, last, &nodes, knowledge.one_node);
                }
            }
        }
    }
    merged(all)
}

/// A line such as `Rss:     12 kB` below the first one.
fn detail(line: &str, area: &mut Area, nodes: &[(u64, Vec<(u32, u64)>)], one_node: bool) {
    let Some((name, bytes)) = procfs::detail(line) else { return };
    match name {
        "Rss" => {
            let resident_bytes = bytes;
            let known = nodes.iter().find(|(start, _)| *start == area.start).map(|(_, nodes)| nodes.clone());
            let single = if one_node && resident_bytes > 0 { vec![(0, resident_bytes)] } else { Vec::new() };
            area.pages = Some(AreaPages { resident_bytes, huge_bytes: 0, nodes: known.unwrap_or(single) });
        }
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" | "Private_Hugetlb" | "Shared_Hugetlb" => {
            if let Some(pages) = &mut area.pages {
                pages.huge_bytes = pages.huge_bytes.saturating_add(bytes);
                // Memory of hugetlbfs is not counted as resident.
                pages.resident_bytes = pages.resident_bytes.max(pages.huge_bytes);
            }
        }
        _ => {}
    }
}

impl Knowledge<'_> {
    fn kind(&self, start: u64, end: u64, path: &str) -> AreaKind {
        let holds = |address: &u64| (start..end).contains(address);
        let thread =
            self.stack_pointers.iter().find(|(_, pointer)| holds(pointer)).map(|(thread, _)| *thread);
        match (path, thread) {
            ("[stack]", thread) if thread.or(self.main_thread).is_some() => {
                AreaKind::Stack(ThreadId(self.main_thread.or(thread).unwrap_or(0)))
            }
            ("[heap]", _) => AreaKind::Heap,
            _ if path.starts_with('/') => AreaKind::File(path.trim_end_matches(" (deleted)").to_owned()),
            (_, Some(thread)) => AreaKind::Stack(ThreadId(thread)),
            // The zeroed data of a program or library.
            _ => match self.loaded.iter().find(|(span, _)| span.start <= start && end <= span.end) {
                Some((_, path)) => AreaKind::File(path.clone()),
                None => AreaKind::Anonymous,
            },
        }
    }
}

fn merged(all: Vec<Area>) -> Vec<Area> {
    let mut merged: Vec<Area> = Vec::with_capacity(all.len());
    for area in all {
        match merged.last_mut() {
            Some(last)
                if last.end == area.start
                    && last.kind == area.kind
                    && !matches!(area.kind, AreaKind::Stack(_)) =>
            {
                last.end = area.end;
                add(&mut last.pages, area.pages);
            }
            _ => merged.push(area),
        }
    }
    merged
}

fn add(to: &mut Option<AreaPages>, more: Option<AreaPages>) {
    let (Some(pages), Some(more)) = (to.as_mut(), more) else {
        *to = None;
        return;
    };
    pages.resident_bytes = pages.resident_bytes.saturating_add(more.resident_bytes);
    pages.huge_bytes = pages.huge_bytes.saturating_add(more.huge_bytes);
    for (node, bytes) in more.nodes {
        match pages.nodes.iter_mut().find(|(known, _)| *known == node) {
            Some((_, sum)) => *sum = sum.saturating_add(bytes),
            None => pages.nodes.push((node, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
00400000-00401000 r--p 00000000 08:01 42                         /bin/a b
Size:                  4 kB
Rss:                   4 kB
AnonHugePages:         0 kB
VmFlags: rd mr mw me
00401000-00402000 rw-p 00001000 08:01 42                         /bin/a b
Rss:                   0 kB
00402000-00403000 rw-p 00000000 00:00 0
Rss:                   4 kB
01000000-01021000 rw-p 00000000 00:00 0                          [heap]
Rss:                   8 kB
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Rss:                4096 kB
AnonHugePages:      2048 kB
7f0001000000-7f0001800000 rw-p 00000000 00:00 0
Rss:                  12 kB
7f0002000000-7f0002200000 rw-p 00000000 00:00 0                  /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0                  [stack]
Rss:                  16 kB
";

    const NUMA: &str = "\
00400000 default file=/bin/a\\040b mapped=1 N0=1 kernelpagesize_kB=4
7f0000000000 default anon=1024 dirty=1024 N0=512 N1=512 kernelpagesize_kB=4
nonsense
";

    fn look_at(smaps: &str, one_node: bool) -> Vec<Area> {
        let span = AreaSpan { start: 0x40_0000, end: 0x40_3000, module: 0, bias: 0 };
        let knowledge = Knowledge {
            process: ProcessId(3),
            main_thread: Some(5),
            stack_pointers: &[(5, 0x7ffc_0000_1000), (6, 0x7f00_0100_2000)],
            loaded: &[(span, "/bin/a b".into())],
            one_node,
        };
        areas(smaps, NUMA, &knowledge)
    }

    #[test]
    fn areas_with_their_pages() {
        let all = look_at(SMAPS, false);
        let kinds: Vec<_> = all.iter().map(|area| (area.start, area.end, area.kind.clone())).collect();
        let expected = [
            (0x40_0000, 0x40_3000, AreaKind::File("/bin/a b".into())),
            (0x100_0000, 0x102_1000, AreaKind::Heap),
            (0x7f00_0000_0000, 0x7f00_0040_0000, AreaKind::Anonymous),
            (0x7f00_0100_0000, 0x7f00_0180_0000, AreaKind::Stack(ThreadId(6))),
            (0x7f00_0200_0000, 0x7f00_0220_0000, AreaKind::File("/anon_hugepage".into())),
            (0x7ffc_0000_0000, 0x7ffc_0002_1000, AreaKind::Stack(ThreadId(5))),
        ];
        assert_eq!(kinds, expected);
        assert!(all.iter().all(|area| area.process == ProcessId(3)));
        let pages = |index: usize| all[index].pages.clone().unwrap();
        assert_eq!(pages(0), AreaPages { resident_bytes: 8192, huge_bytes: 0, nodes: vec![(0, 4096)] });
        let both = vec![(0, 2 << 20), (1, 2 << 20)];
        assert_eq!(pages(2), AreaPages { resident_bytes: 4 << 20, huge_bytes: 2 << 20, nodes: both });
        assert_eq!(pages(4).huge_bytes, 2 << 20);
        assert_eq!(pages(4).resident_bytes, 2 << 20);
        assert_eq!(pages(3).nodes, [], "the kernel did not say");
        let single = look_at(SMAPS, true);
        assert_eq!(single[1].pages.as_ref().unwrap().nodes, [(0, 8192)]);
    }

    #[test]
    fn maps_alone_say_nothing_of_pages() {
        let maps: String = SMAPS
            .lines()
            .filter(|line| MapLine::parse(line).is_some())
            .map(|line| format!("{line}\n"))
            .collect();
        let all = look_at(&maps, true);
        assert_eq!(all.len(), 6);
        assert!(all.iter().all(|area| area.pages.is_none()));
        for garbage in ["", "x", "1-2", "1-2 rw-p", "zz-yy rw-p 0 0 0", "Rss: 4 kB\nRss:\n:"] {
            assert!(look_at(garbage, true).len() <= 1);
        }
    }

    #[test]
    fn looks_become_rare_and_cheap() {
        let quick = Duration::from_micros(100);
        assert_eq!(next_look_ns(0, quick), FIRST_LOOK_NS);
        assert_eq!(next_look_ns(1_000_000_000, quick), 2_000_000_000);
        assert_eq!(next_look_ns(u64::MAX, quick), SELDOM_NS);
        assert_eq!(next_look_ns(100_000_000, Duration::from_millis(50)), 5_000_000_000);
    }

    #[test]
    fn this_process_can_be_looked_at() {
        let local = 5_u64;
        let knowledge = Knowledge {
            process: ProcessId(0),
            main_thread: Some(0),
            stack_pointers: &[(7, &raw const local as u64)],
            loaded: &[],
            one_node: true,
        };
        let all = look(i32::try_from(std::process::id()).unwrap(), &knowledge).unwrap();
        assert!(all.iter().any(|area| area.kind == AreaKind::Stack(ThreadId(7))), "{all:?}");
        assert!(all.is_sorted_by_key(|area| area.start));
        assert!(look(i32::MAX, &knowledge).is_none());
    }
}
