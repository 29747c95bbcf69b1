//! The cgroup mounts in `/proc/self/mountinfo`.

/// Where a cgroup hierarchy is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The cgroup that appears at the mount point; not `/` inside a container that shares its host's names.
    pub(super) root: String,
    /// The mount point.
    pub(super) point: String,
    /// Of the unified hierarchy (cgroup v2).
    pub(super) unified: bool,
    /// Controllers of a v1 hierarchy, and its other options.
    pub(super) options: Vec<String>,
}

/// Every cgroup mount, in the order of the file; lines of other kinds are passed over.
pub(super) fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

/// `36 35 98:0 /root /point rw,noatime shared:1 - type source options`
fn mount(line: &str) -> Option<Mount> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let unified = match kind.next()? {
        "cgroup2" => true,
        "cgroup" => false,
        _ => return None,
    };
    let options = kind.nth(1).unwrap_or_default().split(',').map(str::to_owned).collect();
    let mut place = place.split(' ').skip(3);
    Some(Mount { root: unescape(place.next()?), point: unescape(place.next()?), unified, options })
}

/// The kernel writes space, tab, line end and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(code) => {
                out.push(code as char);
                rest = &rest[at + 4..];
            }
            None => {
                out.push('\\');
                rest = &rest[at + 1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_versions_are_found() {
        let text = "31 23 0:28 / /sys rw - sysfs sysfs rw\n\
            35 31 0:32 /docker/ab\\040c /sys/fs/cgroup/memory rw shared:9 master:3 - cgroup cgroup rw,memory\n\
            41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n\
            broken line\n";
        let mounts = parse(text);
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[0].root, "/docker/ab c");
        assert!(!mounts[0].unified && mounts[0].options.contains(&"memory".into()));
        assert!(mounts[1].unified && mounts[1].point == "/sys/fs/cgroup/unified");
    }

    proptest! {
        #[test]
        fn no_line_panics(line in ".{0,60}") {
            let _ = (mount(&line), unescape(&line));
        }
    }
}
