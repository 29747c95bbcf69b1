//! What procfs says, from text to values. Names of files, threads and programs in it are chosen by others, and may hold
//! anything; numbers are the kernel's, and no more is believed of them than that they are numbers.

use record::{data::Area, ids::ProcessId};

use super::areas::{self, Knowledge};

/// A line of `maps`, or the first one of an area of `smaps`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapLine<'a> {
    /// First address.
    pub start: u64,
    /// Behind the last one.
    pub end: u64,
    /// Code may be executed there.
    pub is_code: bool,
    /// Where in the file it begins.
    pub offset: u64,
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file, or what the kernel calls the memory; empty if it has no name.
    pub path: &'a str,
}

impl<'a> MapLine<'a> {
    /// None if it is no such line.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(6, ' ');
        let (start, end) = words.next()?.split_once('-')?;
        let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
        let access = words.next().filter(|access| access.len() == 4)?;
        let offset = hexadecimal(words.next()?)?;
        let inode = words.nth(1)?.parse().ok()?;
        let path = words.next().unwrap_or_default().trim_start();
        let (start, end) = (hexadecimal(start)?, hexadecimal(end)?);
        (start <= end).then_some(Self { start, end, is_code: access.contains('x'), offset, inode, path })
    }
}

/// A line such as `Rss:     12 kB`: its name and the bytes.
pub fn detail(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let kib: u64 = value.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some((name, kib.saturating_mul(1024)))
}

/// A line of `numa_maps`: the first address, and bytes by node.
pub fn nodes(line: &str) -> Option<(u64, Vec<(u32, u64)>)> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let value = |word: &str, key: &str| word.strip_prefix(key)?.parse::<u64>().ok();
    let page_kib = words.clone().find_map(|word| value(word, "kernelpagesize_kB=")).unwrap_or(4);
    let nodes = words.filter_map(|word| {
        let (node, pages) = word.strip_prefix('N')?.split_once('=')?;
        let bytes = pages.parse::<u64>().ok()?.saturating_mul(page_kib.saturating_mul(1024));
        Some((node.parse().ok()?, bytes))
    });
    Some((start, nodes.collect()))
}

/// Areas by `smaps` and `numa_maps` alone, where nothing else is known of a process.
pub fn areas(smaps: &str, numa_maps: &str) -> Vec<Area> {
    let nothing = Knowledge {
        process: ProcessId(0),
        main_thread: None,
        stack_pointers: &[],
        loaded: &[],
        one_node: numa_maps.is_empty(),
    };
    areas::areas(smaps, numa_maps, &nothing)
}

/// Resident bytes by `statm`.
pub fn resident_bytes(statm: &str) -> Option<u64> {
    statm.split(' ').nth(1)?.parse::<u64>().ok().map(|pages| pages.saturating_mul(4096))
}

/// What follows the name in `stat`, which ends with the last parenthesis.
fn behind_name(stat: &str) -> Option<&str> {
    Some(stat.rsplit_once(')')?.1)
}

/// The letter of the state by `stat`.
pub fn state(stat: &str) -> Option<char> {
    behind_name(stat)?.trim_start().chars().next()
}

/// When a process began, by `stat`: ticks since boot.
pub fn began_ticks(stat: &str) -> Option<u64> {
    behind_name(stat)?.split_whitespace().nth(19)?.parse().ok()
}

/// Time on a CPU and time ready to run by `schedstat`, in nanoseconds.
pub fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut words = text.split_whitespace().map(str::parse);
    Some((words.next()?.ok()?, words.next()?.ok()?))
}

/// Numbers by `children`.
pub fn children(text: &str) -> impl Iterator<Item = i32> + '_ {
    text.split_whitespace().filter_map(|pid| pid.parse().ok())
}

/// The user that a process belongs to, by `status`.
pub fn real_user(status: &str) -> Option<u32> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().next()?.parse().ok()
}

/// The number that a process has in its own namespace, by `status`.
pub fn own_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().next_back()?.parse().ok()
}

/// Program and arguments by `cmdline`; empty of a thread of the kernel.
pub fn arguments(cmdline: &[u8]) -> Vec<String> {
    let mut all: Vec<String> = cmdline
        .split(|byte| *byte == 0)
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    // Each ends with a zero, so what follows the last one is none.
    all.truncate(all.len().saturating_sub(1));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps() {
        let code = "7f12a000-7f12b000 r-xp 00001000 08:01 42                  /usr/lib/a b.so (deleted)";
        let expected = MapLine {
            start: 0x7f12_a000,
            end: 0x7f12_b000,
            is_code: true,
            offset: 0x1000,
            inode: 42,
            path: "/usr/lib/a b.so (deleted)",
        };
        assert_eq!(MapLine::parse(code), Some(expected));
        assert_eq!(MapLine::parse("1000-2000 rwxp 00000000 00:00 0 ").unwrap().path, "");
        assert!(!MapLine::parse("1000-2000 rw-p 00000000 00:00 0 [heap]").unwrap().is_code);
        let bad =
            ["", "garbage", "1-2", "1-2 r-xp", "x-y r-xp 0 0:0 0", "1-2 r-xp 0 00:00 z", "2-1 r-xp 0 0:0 0"];
        for line in bad {
            assert_eq!(MapLine::parse(line), None, "{line}");
        }
    }

    #[test]
    fn states_times_and_numbers() {
        assert_eq!(
            (state("12 (a) b) R 1 2"), state("12 (R) S 1 2"), state("")),
            (Some('R'), Some('S'), None)
        );
        assert_eq!(schedstat("12 34 5\n"), Some((12, 34)));
        assert_eq!((schedstat("12"), schedstat("a b c")), (None, None));
        assert_eq!(began_ticks(&format!("1 (x) S {}77 0", "0 ".repeat(18))), Some(77));
        assert_eq!(began_ticks("1 (x) S 0"), None);
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nNSpid:\t70\t3\n";
        assert_eq!((real_user(status), own_number(status)), (Some(1000), Some(3)));
        assert_eq!(children("3 4 x 5\n").collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(arguments(b"a\0b c\0\0"), ["a", "b c", ""]);
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn numbers_that_cannot_be_do_no_harm() {
        let most = u64::MAX;
        assert_eq!(detail(&format!("Rss: {most} kB")), Some(("Rss", most)));
        assert_eq!(resident_bytes(&format!("1 {most} 2")), Some(most));
        assert_eq!(nodes(&format!("1000 N0=2 kernelpagesize_kB={most}")), Some((0x1000, vec![(0, most)])));
        let smaps: String = ["1000-2000", "2000-3000"]
            .iter()
            .map(|at| {
                format!("{at} rw-p 0 0:0 0\nRss: {most} kB\nAnonHugePages: {most} kB\nAnonHugePages: 1 kB\n")
            })
            .collect();
        let numa = format!("1000 N0={most}\n2000 N0={most}\n");
        let all = areas(&smaps, &numa);
        let pages = all[0].pages.as_ref().unwrap();
        assert_eq!((all.len(), pages.resident_bytes, pages.huge_bytes), (1, most, most));
    }
}
