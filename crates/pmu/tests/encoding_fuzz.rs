//! Format files and events of every kind: encoded exactly, refused in words, and never a panic.
#![allow(clippy::unwrap_used)]

use std::{fs, sync::mpsc};

use events::{CountRequest, CountShare, Encoding, Event, Instrument, Scope, Signal, TooMany, Unit};
use machine::Source;
use pmu::{
    PerfEvents,
    scripted::{Behaviour, Scripted},
};
use proptest::prelude::*;

/// Opens one event of a PMU with these format files; gives the words of `config` and `config1`, or the refusal.
fn encode(formats: &[(String, String)], fields: Vec<(String, u64)>) -> Result<(u64, u64), String> {
    let root = tempfile::tempdir().unwrap();
    let pmu = root.path().join("sys/bus/event_source/devices/cpu");
    fs::create_dir_all(pmu.join("format")).unwrap();
    fs::write(pmu.join("type"), "4\n").unwrap();
    for (name, text) in formats {
        fs::write(pmu.join("format").join(name), text).unwrap();
    }
    let (tell, told) = mpsc::sync_channel(4);
    let kernel = Scripted::new(move |request| {
        tell.try_send((request.event.config, request.event.config1)).unwrap();
        Ok(Behaviour::counts(1))
    });
    let here = PerfEvents::new(&kernel, Source::under(root.path()));
    let encoding = Encoding { unit: Unit::Core, pmu: "cpu".into(), fields };
    let request = CountRequest {
        events: vec![Event::new("it", Signal::Encoded(encoding))],
        scope: Scope::ThisThread,
        too_many: TooMany::Multiplex,
        share: CountShare::Together,
    };
    let opened = here.open(&request).map(drop).map_err(|refusal| refusal.to_string());
    opened.map(|()| told.try_recv().unwrap())
}

/// Two fields that share no bit, each in up to three runs.
fn two_fields() -> impl Strategy<Value = (String, String, u32, u32)> {
    proptest::sample::subsequence((0u32..64).collect::<Vec<_>>(), 2..12).prop_map(|bits| {
        let (first, second) = bits.split_at(bits.len() / 2);
        let text = |bits: &[u32]| {
            let bits: Vec<_> = bits.iter().map(u32::to_string).collect();
            format!("config:{}\n", bits.join(","))
        };
        (text(first), text(second), first.len() as u32, second.len() as u32)
    })
}

/// The bits that a format names, as the format says.
fn gathered(config: u64, format: &str) -> u64 {
    let bits = format.trim().strip_prefix("config:").unwrap().split(',');
    bits.enumerate().map(|(at, bit)| (config >> bit.parse::<u32>().unwrap() & 1) << at).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_value_lands_in_its_bits((first, second, a, b) in two_fields(), values in any::<(u64, u64)>()) {
        let formats = [("event".to_owned(), first.clone()), ("umask".to_owned(), second.clone())];
        let (x, y) = (values.0 & ((1 << a) - 1), values.1 & ((1 << b) - 1));
        let (config, config1) = encode(&formats, vec![("event".into(), x), ("umask".into(), y)]).unwrap();
        prop_assert_eq!((gathered(config, &first), gathered(config, &second), config1), (x, y, 0));
        let refused = encode(&formats, vec![("event".into(), 1 << a)]).unwrap_err();
        prop_assert!(refused.contains("does not fit the field 'event' of cpu"), "{}", refused);
    }

    #[test]
    fn no_format_and_no_field_panics(
        formats in proptest::collection::vec(("[a-z]{1,6}", "(config[0-4]?:)?[0-9,-]{0,12}|.{0,10}"), 0..4),
        fields in proptest::collection::vec(("[a-z]{1,6}|config[0-4]?", any::<u64>()), 0..4),
    ) {
        if let Err(words) = encode(&formats, fields) {
            prop_assert!(words.contains("it cannot be counted: "), "{}", words);
        }
    }
}
