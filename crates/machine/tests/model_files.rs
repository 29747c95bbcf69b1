//! Model files that were damaged: an error with a place, or a model within bounds; never a panic.

use machine::model::Model;
use proptest::prelude::*;

/// What a model may cost the simulator at most, whatever a file says.
fn bounded(model: &Model) {
    assert!(model.check().is_ok());
    let cores = u64::from(model.cores());
    assert!(cores <= 512);
    let l3 = model.l3.map_or(0, |l3| l3.geometry.size.0 * u64::from(model.sockets));
    let l2 = model.l2.geometry.size.0 * (cores / u64::from(model.l2.shared_by_cores));
    assert!(l3 + l2 + model.l1d.geometry.size.0 * cores <= 2 << 30);
    assert_eq!(model.topology().cpus.len() as u64, cores * u64::from(model.threads_per_core));
    let latencies = model.idle_latencies();
    assert!(latencies.local_ns.is_finite() && latencies.l1_ns < latencies.l2_ns);
    if let Ok(half) = model.scaled(2) {
        assert!(half.check().is_ok());
    }
}

fn survives(text: &str) -> Result<(), TestCaseError> {
    match Model::parse(text, "x.toml") {
        Ok(model) => bounded(&model),
        Err(error) => {
            prop_assert!(error.line >= 1 && error.line <= text.matches('\n').count() + 1, "{}", error);
            prop_assert!(error.column >= 1 && !error.message.is_empty() && !error.message.contains('\n'));
        }
    }
    Ok(())
}

fn file() -> impl Strategy<Value = &'static str> {
    let names: Vec<&str> = Model::builtin_names().collect();
    prop::sample::select(names).prop_map(|name| Model::builtin_file(name).expect("a file"))
}

/// Texts that are likely to mean something where a value stands.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<u8>().prop_map(|n| n.to_string()),
        (0u32..40).prop_map(|bits| (1u64 << bits).to_string()),
        any::<f64>().prop_map(|x| format!("{x:?}")),
        Just("nan".to_owned()),
        Just("-inf".to_owned()),
        Just("true".to_owned()),
        Just("[]".to_owned()),
        Just("{}".to_owned()),
        Just("\"1T\"".to_owned()),
        Just("\"lru\"".to_owned()),
        Just("\"victim\"".to_owned()),
        "\"[a-zé\\PC]{0,6}\"",
    ]
}

/// Random TOML with keys of model files.
fn toml_like() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "name", "sources", "sockets", "core", "ports", "l1d", "geometry", "size", "ways", "l3", "tlb",
        "memory", "x",
    ]);
    let line = prop_oneof![
        (key.clone(), value()).prop_map(|(key, value)| format!("{key} = {value}\n")),
        key.clone().prop_map(|key| format!("[{key}]\n")),
        (key.clone(), key).prop_map(|(outer, inner)| format!("[[{outer}.{inner}]]\n")),
    ];
    prop::collection::vec(line, 0..30).prop_map(|lines| lines.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn values_replaced(text in file(), edits in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..4)) {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (at, value) in edits {
            let at = at.index(lines.len());
            if let Some((key, _)) = lines[at].split_once(" = ") {
                lines[at] = format!("{key} = {value}");
            }
        }
        survives(&lines.join("\n"))?;
    }

    #[test]
    fn numbers_replaced(text in file(), at in any::<prop::sample::Index>(), value in value()) {
        // Every number of the file in turn, those within inline tables too.
        let starts: Vec<usize> = text
            .char_indices()
            .zip(text.chars().skip(1))
            .filter(|((_, before), digit)| *before == ' ' && digit.is_ascii_digit())
            .map(|((i, _), _)| i + 1)
            .collect();
        let start = starts[at.index(starts.len())];
        let length = text[start..].find(|c: char| !c.is_ascii_digit() && c != '_' && c != '.').unwrap_or(0);
        survives(&format!("{}{value}{}", &text[..start], &text[start + length..]))?;
    }

    #[test]
    fn lines_lost_and_doubled(text in file(), at in any::<prop::sample::Index>(), times in 0usize..3) {
        let lines: Vec<&str> = text.lines().collect();
        let at = at.index(lines.len());
        let repeated = std::iter::repeat_n(lines[at], times);
        let changed: Vec<&str> = lines[..at].iter().copied().chain(repeated).chain(lines[at + 1..].iter().copied()).collect();
        survives(&changed.join("\n"))?;
    }

    #[test]
    fn characters_changed(text in file(), at in any::<prop::sample::Index>(), with in "\\PC{0,3}|[\\n\\[\\]{}=\",.]") {
        let characters: Vec<char> = text.chars().collect();
        let at = at.index(characters.len());
        let changed: String = characters[..at].iter().chain(&with.chars().collect::<Vec<_>>()).chain(&characters[at + 1..]).collect();
        survives(&changed)?;
    }

    #[test]
    fn files_cut_short(text in file(), at in any::<prop::sample::Index>()) {
        let at = at.index(text.len());
        survives(&text.chars().take(at).collect::<String>())?;
    }

    #[test]
    fn random_toml(text in toml_like()) {
        survives(&text)?;
    }

    #[test]
    fn random_text(text in "\\PC{0,200}") {
        survives(&text)?;
    }

    #[test]
    fn random_names(name in "\\PC{0,80}") {
        let _ = Model::builtin(&name);
    }
}
