//! What a user of `memwall doctor` sees, on the real binary and the machine of the test.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    process::{Command, Output},
};

use record::doctor::{CapabilityState, Checkup};

const NOBODY: u32 = 65534;

fn memwall() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("memwall"))
}

fn checkup(output: &Output) -> Checkup {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Runs the doctor as a user without any privilege. Who has none already stays who they are.
fn as_nobody(arguments: &[&str]) -> Output {
    // A copy, because the build folder may lie where nobody may look.
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = folder.path().join("memwall");
    prerequisites::copy_program(assert_cmd::cargo::cargo_bin!("memwall"), &copy);
    let mut command = Command::new(&copy);
    command.args(arguments).current_dir("/");
    let is_root =
        fs::read_to_string("/proc/self/status").unwrap().lines().any(|line| line == "Uid:\t0\t0\t0\t0");
    if is_root {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

#[test]
fn json_names_every_capability() {
    let checkup = checkup(&memwall().args(["doctor", "--json"]).output().unwrap());
    assert_eq!(checkup.schema, "memwall.doctor/1");
    let keys: Vec<_> = checkup.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "core_pmu",
            "precise_sampling",
            "uncore_memory_controllers",
            "offcore_filters",
            "breakpoint_events",
            "clock_sampling",
            "user_registers",
            "rdpmc",
            "resctrl_allocation",
            "resctrl_monitoring",
            "rapl_energy",
            "prefetcher_control",
            "huge_pages",
            "numa_binding",
            "pinning",
            "hypervisor",
            "steal_time",
            "perf_event_paranoid",
            "nmi_watchdog",
            "smt",
            "frequency_control",
        ]
    );
    assert!(!checkup.because.is_empty());
}

#[test]
fn text_shows_every_row_and_ends_with_the_instrument() {
    let shown = text(&memwall().arg("doctor").output().unwrap());
    let checkup = checkup(&memwall().args(["doctor", "--json"]).output().unwrap());
    for row in &checkup.rows {
        assert!(shown.contains(&row.name), "{} in {shown}", row.name);
    }
    assert!(shown.contains("Best instrument here: "));
    assert!(!shown.contains('\x1b'), "no colours into a pipe");
    assert!(!shown.contains("tried: "));
    let verbose = text(&memwall().args(["doctor", "--verbose"]).output().unwrap());
    assert_eq!(verbose.matches("tried: ").count(), checkup.rows.len());
    let coloured = text(&memwall().args(["doctor", "--color", "always"]).output().unwrap());
    assert!(coloured.contains('\x1b'));
}

#[test]
fn a_user_without_privileges_gets_every_row_and_the_way_out() {
    let checkup = checkup(&as_nobody(&["doctor", "--json"]));
    assert_eq!(checkup.rows.len(), 21);
    let row = |key: &str| checkup.rows.iter().find(|row| row.key == key).unwrap();
    let level: Option<i64> = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse().ok());
    let paranoid = row("perf_event_paranoid");
    match level {
        Some(1..) => {
            assert_eq!(paranoid.state, CapabilityState::Blocked, "{paranoid:?}");
            assert!(paranoid.unlock_with.is_some(), "{paranoid:?}");
        }
        Some(_) => assert!(paranoid.detail.starts_with(&level.unwrap().to_string()), "{paranoid:?}"),
        None => assert_ne!(paranoid.state, CapabilityState::Found, "{paranoid:?}"),
    }
    assert_eq!(row("pinning").state, CapabilityState::Found, "{:?}", row("pinning"));
    assert!(text(&as_nobody(&["doctor"])).contains("Best instrument here: "));
}

#[test]
fn a_starved_process_still_answers() {
    let mut command = Command::new("sh");
    let output = command
        .args(["-c", "ulimit -n 8 && exec \"$0\" doctor --json"])
        .arg(assert_cmd::cargo::cargo_bin!("memwall"))
        .output()
        .unwrap();
    assert_eq!(checkup(&output).rows.len(), 21);
}

#[test]
fn bad_usage_is_one_clear_exit() {
    let output = memwall().args(["doctor", "--json", "--verbose"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    let help = text(&memwall().args(["doctor", "--help"]).output().unwrap());
    assert!(help.contains("memwall doctor --verbose"), "{help}");
}
