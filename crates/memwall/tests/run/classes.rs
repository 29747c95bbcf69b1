//! The right class and the right function for every example, on recordings of them.
//!
//! A live run would test how busy the machine is as well: see `benches/accuracy.rs`.

use serde_json::Value;

use super::{
    expected::{EXAMPLES, FIRST_CACHE_WAITS, IN_FIRST_CACHE, LOADS, share},
    place::{findings, functions, number, recording},
};

fn recorded(name: &str) -> Value {
    findings(&recording(name))
}

#[test]
fn each_example_shows_its_class_and_function() {
    let mut problems = Vec::new();
    for expected in &EXAMPLES {
        let findings = recorded(expected.recording);
        if let Some(problem) = expected.problem(&findings) {
            problems.push(format!("{}: {problem}; {}", expected.command, findings["overall"]));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn code_that_lives_in_the_first_cache_does_not_wait_on_loads() {
    for (name, _) in IN_FIRST_CACHE {
        let findings = recorded(name);
        assert!(share(&findings, LOADS) < FIRST_CACHE_WAITS, "{name}: {}", findings["overall"]);
    }
}

#[test]
fn a_stream_streams_and_a_chase_looks_like_latency() {
    // These recordings have no profile: what code and lines of a stream take is then known from tables, which may leave it open.
    for (name, nature, answers) in
        [("stream", "streams", &["yes", "unknown"][..]), ("chase", "latency", &["yes"][..])]
    {
        let findings = recorded(name);
        let answer = findings["verdict"]["held_back"].as_str().expect("an answer");
        assert!(answers.contains(&answer), "{name}: {}", findings["verdict"]);
        assert!(number(&findings, "/verdict/memory/high") > 0.7, "{name}: {}", findings["verdict"]);
        assert!(findings["verdict"]["nature"].to_string().contains(nature), "{}", findings["verdict"]);
    }
}

/// Both runtimes of OpenMP spin at barriers: reading a line until someone writes it is no waiting for memory.
#[test]
fn threads_that_spin_at_barriers_wait_for_other_threads_and_not_for_memory() {
    for name in ["short_loops", "short_loops_clang"] {
        let findings = recorded(name);
        assert_eq!(findings["verdict"]["held_back"], "no", "{name}: {}", findings["verdict"]);
        assert_eq!(findings["verdict"]["largest"], "other_threads", "{name}: {}", findings["verdict"]);
        assert!(share(&findings, &["other_threads"]) > 0.9, "{name}: {}", findings["overall"]);
        assert!(number(&findings, "/verdict/memory/high") < 0.15, "{name}: {}", findings["verdict"]);
    }
}

#[test]
fn programs_of_several_threads_are_followed() {
    let shared = recorded("false_sharing");
    for function in ["count_left", "count_right"] {
        assert!(functions(&shared).iter().any(|name| name == function), "{}", shared["symbols"]);
    }
    let spinning = recorded("spinlock");
    assert!(functions(&spinning).iter().take(4).any(|name| name == "lock_spin"), "{}", spinning["symbols"]);
    let uneven = recorded("imbalance");
    assert_eq!(functions(&uneven)[0], "multiply_rows");
    let threads = uneven["threads"].as_array().expect("threads").iter();
    let mut times: Vec<f64> = threads.map(|thread| number(thread, "/account/user_ns")).collect();
    times.sort_by(f64::total_cmp);
    let [.., less, most] = times.as_slice() else { panic!("{}", uneven["threads"]) };
    // 1 to 3 by construction.
    assert!(*most > less * 1.6, "{times:?}");
}

#[test]
fn the_c_library_is_named_where_it_takes_the_time() {
    let findings = recorded("allocator");
    let symbols = findings["symbols"].as_array().expect("symbols");
    let in_library = symbols.iter().filter(|symbol| symbol["module"].to_string().contains("libc"));
    let share: f64 = in_library.map(|symbol| number(symbol, "/user_share/value")).sum();
    assert!(share > 0.2, "{}", findings["symbols"]);
    assert!(functions(&findings).iter().any(|name| name.contains("malloc") || name.contains("free")));
}
