//! A validation speaks for the machine it was made on, and for no other.

use super::*;

const VALIDATION: &str = include_str!("../../../fuzz-bodies/seeds/validation.json");

/// The validation as if it had been made on such a machine.
fn validation(cpu: &str, kernel: &str) -> Vec<u8> {
    let mut value: serde_json::Value = serde_json::from_str(VALIDATION).unwrap();
    value["fingerprint"]["cpu"] = cpu.into();
    value["fingerprint"]["kernel"] = kernel.into();
    serde_json::to_vec(&value).unwrap()
}

fn with_trust(bytes: &[u8]) -> Result<(ImportOutcome, Run), ImportError> {
    let mut imports = Imports::of(&[("perf.data", &ordinary().file())]);
    let path = imports.folder.path().join("trust.json");
    fs::write(&path, bytes).unwrap();
    imports.request.trust = Some(path);
    imports.import()
}

#[test]
fn what_is_imported_is_untested_unless_that_machine_was_validated() {
    let (outcome, run) = Imports::of(&[("perf.data", &ordinary().file())]).import().unwrap();
    assert_eq!((outcome.record.validation, run.import.unwrap().validation), (None, None));
    let same = validation("GenuineIntel Some Xeon, family 6 model 85 stepping 4", "5.4.0");
    let (_, run) = with_trust(&same).unwrap();
    assert_eq!(run.import.unwrap().validation.unwrap().fingerprint.kernel, "5.4.0");
}

#[test]
fn a_validation_of_another_machine_is_refused() {
    let other = validation("GenuineIntel Some Xeon, family 6 model 143 stepping 4", "5.4.0");
    let error = with_trust(&other).err().unwrap().to_string();
    assert!(error.contains("model 143") && error.contains("model 85"), "{error}");
    let later = validation("GenuineIntel Some Xeon, family 6 model 85 stepping 4", "6.1.0");
    let error = with_trust(&later).err().unwrap().to_string();
    assert!(error.contains("kernel 6.1.0"), "{error}");
    let error = with_trust(b"{}").err().unwrap().to_string();
    assert!(error.contains("memwall validate --json"), "{error}");
}
