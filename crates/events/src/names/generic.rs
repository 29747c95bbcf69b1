//! perf's generic names, and the kernel's numbers for them.

use crate::Signal;

const HARDWARE: &[(&str, u64)] = &[
    ("cpu-cycles", 0),
    ("cycles", 0),
    ("instructions", 1),
    ("cache-references", 2),
    ("cache-misses", 3),
    ("branch-instructions", 4),
    ("branches", 4),
    ("branch-misses", 5),
    ("bus-cycles", 6),
    ("stalled-cycles-frontend", 7),
    ("idle-cycles-frontend", 7),
    ("stalled-cycles-backend", 8),
    ("idle-cycles-backend", 8),
    ("ref-cycles", 9),
];

const SOFTWARE: &[(&str, u64)] = &[
    ("cpu-clock", 0),
    ("task-clock", 1),
    ("page-faults", 2),
    ("faults", 2),
    ("context-switches", 3),
    ("cs", 3),
    ("cpu-migrations", 4),
    ("migrations", 4),
    ("minor-faults", 5),
    ("major-faults", 6),
    ("alignment-faults", 7),
    ("emulation-faults", 8),
    ("dummy", 9),
    ("bpf-output", 10),
    ("cgroup-switches", 11),
];

const CACHES: [&str; 7] = ["L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node"];
const OPERATIONS: [&str; 6] =
    ["loads", "load-misses", "stores", "store-misses", "prefetches", "prefetch-misses"];

/// The kernel's event of a generic name; case does not matter.
pub fn signal(name: &str) -> Option<Signal> {
    let find = |table: &[(&str, u64)]| {
        table.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
    };
    find(HARDWARE)
        .map(Signal::Hardware)
        .or_else(|| find(SOFTWARE).map(Signal::Software))
        .or_else(|| cache(name))
}

fn cache(name: &str) -> Option<Signal> {
    let name = name.to_ascii_lowercase();
    for (cache, prefix) in (0u64..).zip(CACHES) {
        let Some(rest) =
            name.strip_prefix(&prefix.to_ascii_lowercase()).and_then(|rest| rest.strip_prefix('-'))
        else {
            continue;
        };
        let operation = OPERATIONS.iter().position(|operation| *operation == rest)? as u64;
        return Some(Signal::HardwareCache(cache | (operation / 2) << 8 | (operation % 2) << 16));
    }
    None
}

/// The generic name of a packed cache event.
pub fn cache_name(packed: u64) -> Option<String> {
    let byte = |shift: u32| usize::try_from(packed >> shift & 0xff).unwrap_or(usize::MAX);
    let (operation, result) = (byte(8), byte(16));
    if packed >> 24 != 0 || result > 1 || operation > 2 {
        return None;
    }
    Some(format!("{}-{}", CACHES.get(byte(0))?, OPERATIONS.get(operation * 2 + result)?))
}

/// Every generic name that is no alias of one before it.
pub fn all() -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for table in [HARDWARE, SOFTWARE] {
        for (at, (name, number)) in table.iter().enumerate() {
            if !table[..at].iter().any(|(_, earlier)| earlier == number) {
                names.push((*name).to_owned());
            }
        }
    }
    let caches = CACHES.iter().flat_map(|cache| OPERATIONS.map(|operation| format!("{cache}-{operation}")));
    names.extend(caches);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_kernels() {
        assert_eq!(signal("Cycles"), Some(Signal::Hardware(0)));
        assert_eq!(signal("cs"), Some(Signal::Software(3)));
        assert_eq!(signal("L1-dcache-load-misses"), Some(Signal::HardwareCache(0x1_0000)));
        assert_eq!(signal("LLC-stores"), Some(Signal::HardwareCache(0x0102)));
        assert_eq!(signal("node-prefetch-misses"), Some(Signal::HardwareCache(0x1_0206)));
        assert_eq!(signal("LLC-"), None);
    }

    #[test]
    fn names_and_numbers_agree() {
        for name in all() {
            let signal = signal(&name).unwrap();
            if let Signal::HardwareCache(packed) = signal {
                assert_eq!(cache_name(packed), Some(name));
            }
        }
        assert_eq!(cache_name(0xff), None);
        assert_eq!(cache_name(0x300), None);
        assert_eq!(cache_name(u64::MAX), None);
    }
}
