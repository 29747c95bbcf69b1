//! Numbers of tracepoints.

use machine::{Source, source::ReadError};

/// Where tracefs is mounted, today and on older kernels.
const MOUNTS: [&str; 2] = ["sys/kernel/tracing", "sys/kernel/debug/tracing"];

/// The number of a tracepoint, or why there is none.
pub(super) fn id(source: &Source, subsystem: &str, name: &str) -> Result<u64, String> {
    if [subsystem, name].iter().any(|part| part.is_empty() || part.contains('/') || part.contains("..")) {
        return Err(format!("'{subsystem}:{name}' is no tracepoint; write SUBSYSTEM:NAME"));
    }
    let mut mounted = None;
    for mount in MOUNTS {
        let path = format!("{mount}/events/{subsystem}/{name}/id");
        match source.value(&path, "a number", |text| text.parse().ok()) {
            Ok(id) => return Ok(id),
            Err(error @ ReadError::Missing { .. }) if source.exists(&format!("{mount}/events")) => {
                mounted = Some(error.to_string());
            }
            Err(ReadError::Missing { .. }) => {}
            Err(error) => return Err(format!("{error}; reading tracefs usually takes root")),
        }
    }
    Err(mounted.map_or_else(
        || "tracefs is not mounted; try `sudo mount -t tracefs tracefs /sys/kernel/tracing`".to_owned(),
        |missing| format!("this kernel has no such tracepoint ({missing})"),
    ))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn both_mount_points_and_neither() {
        let root = tempfile::tempdir().unwrap();
        let source = Source::under(root.path());
        assert!(id(&source, "sched", "sched_switch").unwrap_err().contains("mount -t tracefs"));
        let folder = root.path().join("sys/kernel/debug/tracing/events/sched/sched_switch");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("id"), "316\n").unwrap();
        assert_eq!(id(&source, "sched", "sched_switch"), Ok(316));
        assert!(id(&source, "sched", "none").unwrap_err().contains("no such tracepoint"));
        fs::write(folder.join("id"), "many\n").unwrap();
        assert!(id(&source, "sched", "sched_switch").unwrap_err().contains("holds 'many', not a number"));
        assert!(id(&source, "../sched", "sched_switch").unwrap_err().contains("SUBSYSTEM:NAME"));
    }
}
