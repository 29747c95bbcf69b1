//! Validations that versions of before have kept.
//!
//! `kept/tiny-1.json` is what `memwall validate --on sim:tiny --quick` left under `$XDG_DATA_HOME/memwall/trust` before
//! indicators and purposes were values, cut to a few indicators with two lines of evidence each.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use trust::{Indicator, Judged, Purpose, Quantity, Validation};

const KEPT: &str = include_str!("kept/tiny-1.json");

fn judged<'a>(validation: &'a Validation, name: &str) -> &'a Judged {
    validation.of(name).next().unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn a_validation_of_before_is_read_and_written_as_it_was() {
    let validation: Validation = serde_json::from_str(KEPT).unwrap();
    let purpose = |name: &str| judged(&validation, name).tried_for.clone();
    assert_eq!(purpose("L1D.REPLACEMENT"), Purpose::Volume(Quantity::L1In));
    assert_eq!(purpose("MEM_LOAD_UOPS_L3_MISS_RETIRED.LOCAL_DRAM"), Purpose::Volume(Quantity::LocalInRead));
    assert_eq!(purpose("AVX_INSTS.CALC"), Purpose::Volume(Quantity::Fused256));
    assert_eq!(purpose("L1D_PEND_MISS.FB_FULL + OFFCORE_REQUESTS_BUFFER.SQ_FULL"), Purpose::Stall);
    let latency = judged(&validation, "load-miss real latency");
    assert_eq!((&latency.name, &latency.tried_for), (&Indicator::LoadMissRealLatency, &Purpose::Latency));
    assert!(validation.indicators.iter().all(|one| one.signals.is_empty()));
    let again: Value = serde_json::to_value(&validation).unwrap();
    assert_eq!(again, without_single_answers(serde_json::from_str(KEPT).unwrap()));
}

/// What versions of before said of stores from one experiment each was often wrong: it is not believed, and not written again.
fn without_single_answers(mut file: Value) -> Value {
    let indicators = file["indicators"].as_array_mut().unwrap();
    let mut dropped = 0;
    for one in indicators.iter_mut().filter_map(Value::as_object_mut) {
        dropped +=
            usize::from(one.remove("sees_out").is_some()) + usize::from(one.remove("sees_owned").is_some());
    }
    assert!(dropped > 0);
    file
}

#[test]
fn what_another_version_tried_it_for_is_kept_in_its_words() {
    let mut file: Value = serde_json::from_str(KEPT).unwrap();
    file["indicators"][0]["quantity"] = json!("l9_in");
    let validation: Validation = serde_json::from_value(file.clone()).unwrap();
    assert_eq!(validation.indicators[0].tried_for, Purpose::Foreign("l9_in".to_owned()));
    assert_eq!(serde_json::to_value(&validation).unwrap(), without_single_answers(file));
}
