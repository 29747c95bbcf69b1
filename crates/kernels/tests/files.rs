//! Kernel files: what is wrong is said with line and column, and nothing a file holds can harm.

use kernels::{Kernel, KernelCatalogue, assemble, geometry, parse};
use machine::{Bytes, Width};
use proptest::prelude::*;

fn complaint(text: &str) -> String {
    parse::kernels(text, "k.toml").expect_err("the file is wrong").to_string()
}

fn with(line: &str) -> String {
    format!(
        "[[kernel]]\nname = \"k\"\nabout = \"test\"\nstreams = [\"A\", \"B\"]\nconstants = {{ c = 1.0, one = 1 }}\n{line}\n"
    )
}

#[test]
fn errors_name_line_and_column() {
    let cases = [
        (with("body = [\"x = lod A\"]"), "k.toml:6:14: unknown operation 'lod'"),
        (with("body = [\"x = load C\"]"), "k.toml:6:19: there is no stream 'C'"),
        (with("body = [\"x = load A\", \"store B, y\"]"), "k.toml:6:33: 'y' holds nothing yet"),
        (with("body = [\"c = load A\"]"), "k.toml:6:10: 'c' is a constant"),
        (with("body = [\"x = add c\"]"), "k.toml:6:19: a register or [stream] is missing here"),
        (with("body = [\"x = load A, B\"]"), "k.toml:6:22: nothing more is expected here"),
        (with("body = [\"x = add one, c\"]"), "k.toml:6:18: 'one' is not a vector register"),
        (with("body = [\"x = load A+99999\"]"), "k.toml:6:21: an offset is 0 to 4096 bytes"),
        (with("body = [\"nops $n\"]"), "k.toml:6:15: there is no parameter 'n'"),
        (with("body = [\"spread imul one, 99999\"]"), "k.toml:6:27: at most 4096 operations"),
        (with("body = [\"p = deref p\"]"), "k.toml:6:20: deref moves one pointer on"),
        (with("unroll = 0\nbody = [\"x = load A\"]"), "k.toml:6:10: unroll must be 1 to 64"),
        (with("element = 5\nbody = [\"x = load A\"]"), "k.toml:6:11: element must be 4 or 8 bytes"),
        (with("body = []"), "a body has 1 to 256 operations"),
        (with(""), "k.toml:2:9: kernel 'k' needs one of body, triangle or turns"),
        (with("colour = \"red\"\nbody = [\"x = load A\"]"), "k.toml:6:1: unknown field `colour`"),
        (with("body = [\"x = load A\"").replace("test", "te\"st"), "k.toml:3:"),
        (
            "[[kernel]]\nname = \"K!\"\nabout = \"\"\nbody = [\"nops 1\"]".to_owned(),
            "k.toml:2:9: 'K!' is no kernel name",
        ),
    ];
    for (text, expected) in cases {
        let found = complaint(&text);
        assert!(found.contains(expected), "expected «{expected}»\n   found «{found}»\n      in {text}");
    }
}

#[test]
fn patterns_are_checked() {
    let stream = |table: &str| {
        format!("[[kernel]]\nname = \"k\"\nabout = \"t\"\nstreams = [{table}]\nbody = [\"v = iload8 S\"]\n")
    };
    let cases = [
        ("{ name = \"S\", pattern = \"spiral\" }", "unknown pattern 'spiral'"),
        ("{ name = \"S\", stride = 3 }", "stride must be a multiple of 8"),
        ("{ name = \"S\", pattern = \"drawn\", distribution = \"zipf\" }", "zipf"),
        ("{ name = \"S\", pattern = \"coprime\", buffers = 0 }", "buffers must be 1 to 256"),
        ("{ name = \"S\", pattern = \"cycle\" }", "a cycle is only walked with deref"),
        ("{ name = \"S\", pattern = \"drawn\" }", "write S[i] with i from draw or step"),
        ("{ name = \"S\", stride = 64 }, { name = \"T\", stride = 128 }", "the same stride"),
        ("{ name = \"S\" }, { name = \"T\", pattern = \"cycle\" }", "must be a kernel's only stream"),
        ("{ nome = \"S\" }", "unknown field `nome`"),
    ];
    for (table, expected) in cases {
        let found = complaint(&stream(table));
        assert!(found.starts_with("k.toml:4:") || found.starts_with("k.toml:5:"), "{found}");
        assert!(found.contains(expected), "expected «{expected}»\n   found «{found}»");
    }
}

/// Machine code goes where loaded numbers say: none may come from elsewhere, and nobody may change them.
#[test]
fn numbers_say_where_to_go_and_stay_what_they_are() {
    let kernel = |streams: &str, body: &str| {
        format!(
            "[[kernel]]\nname = \"k\"\nabout = \"t\"\nstreams = [{streams}]\nconstants = {{ one = 1 }}\n\
             chains = {{ n = 0, m = 0 }}\nbody = [{body}]\n"
        )
    };
    let numbers = "{ name = \"X\", pattern = \"numbers\", of = \"G\" }";
    let both =
        format!("{numbers}, {{ name = \"G\", pattern = \"gathered\" }}, {{ name = \"A\", stride = 8 }}");
    let load = "\"i = iload8 X\"";
    let drawn = "{ name = \"S\", pattern = \"drawn\" }";
    let cases = [
        (
            &*both,
            format!("{load}, \"v = iload8 A\", \"rmw8 G[v]\""),
            "'v' must come from draw, step or a load",
        ),
        (&both, format!("{load}, \"i = iadd i, one\", \"rmw8 G[i]\""), "and from nothing else"),
        (&both, format!("{load}, \"rmw8 G[n]\""), "'n' must come from"),
        (&both, format!("{load}, \"rmw8 X\""), "cannot be written to"),
        (&both, format!("{load}, \"istore8 A+8, i\""), "have no offset"),
        (&both, format!("{load}, \"rmw8 G[i]+8\""), "have no offset"),
        (&both, "\"rmw8 G\"".to_owned(), "loaded from a stream of its numbers"),
        (
            &both,
            "\"v = iload8 A\", \"branch v < 3, n, m, one\"".to_owned(),
            "'v' must come from a load of numbers",
        ),
        (&both, format!("{load}, \"branch i > 3, n, m, one\""), "a condition such as v < 30"),
        (numbers, load.to_owned(), "there is no gathered stream 'G'"),
        ("{ name = \"X\", pattern = \"numbers\" }", load.to_owned(), "numbers need one of below"),
        (
            "{ name = \"X\", pattern = \"numbers\", below = 9 }, { name = \"A\", stride = 64 }",
            load.to_owned(),
            "the same stride",
        ),
        (
            "{ name = \"G\", pattern = \"gathered\" }",
            "\"nops 1\"".to_owned(),
            "needs a stream of its numbers",
        ),
        (drawn, "\"i = draw S\", \"v = iload8 S[i]\", \"rmw8 S[v]\"".to_owned(), "'v' must come from draw"),
    ];
    for (streams, body, expected) in cases {
        let found = complaint(&kernel(streams, &body));
        assert!(found.contains(expected), "expected «{expected}»\n   found «{found}»\n      in {body}");
    }
}

#[test]
fn a_taken_name_is_refused() {
    let mut catalogue = KernelCatalogue::builtin().expect("valid");
    let text = with("body = [\"x = load A\"]").replace("\"k\"", "\"load\"");
    assert!(catalogue.add(&text, "k.toml").expect_err("taken").to_string().contains("exists already"));
    let twice = format!("{0}{0}", with("body = [\"x = load A\"]"));
    assert!(complaint(&twice).contains("stands above already"));
}

#[test]
fn too_many_registers_are_an_error_not_a_panic() {
    let lanes: String = (0..20).map(|number| format!("s{number} = 0.0, ")).collect();
    let text = format!(
        "[[kernel]]\nname = \"k\"\nabout = \"t\"\nstreams = [\"A\"]\nlanes = {{ {lanes} }}\nbody = [\"x = load A\"]\n"
    );
    let kernel = Kernel::new(parse::kernels(&text, "k.toml").expect("parses").remove(0));
    let parts = geometry::divide(&kernel, Width::Sse, Bytes::kib(16), 1).expect("a geometry");
    let error = assemble(&kernel, Width::Sse, &parts[0], 0).expect_err("no registers");
    assert!(error.to_string().contains("more vector registers"), "{error}");
}

#[test]
fn names_that_look_alike_are_offered() {
    let catalogue = KernelCatalogue::builtin().expect("valid");
    let error = catalogue.get("chas").expect_err("unknown").to_string();
    assert!(error.contains("did you mean chase"), "{error}");
}

/// Everything that parses must also assemble or be refused in words, at any width and small size.
fn try_all(text: &str) {
    let Ok(descriptions) = parse::kernels(text, "fuzz") else { return };
    for kernel in descriptions.into_iter().map(Kernel::new) {
        let threads = kernel.description().fixed_threads().unwrap_or(1);
        for &width in kernel.widths() {
            if let Ok(parts) = geometry::divide(&kernel, width, Bytes::kib(64), threads)
                && let Ok(program) = assemble(&kernel, width, &parts[0], 0)
            {
                assert!(program.blocks(0).is_ok(), "{} {width} does not decode", kernel.name());
            }
        }
    }
}

const SEEDS: [&str; 5] = [
    include_str!("../catalogue/streaming.toml"),
    include_str!("../catalogue/latency.toml"),
    include_str!("../catalogue/threads.toml"),
    include_str!("../catalogue/interference.toml"),
    include_str!("../catalogue/stalls.toml"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(
        seed in 0..SEEDS.len(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), "[ -~\n]{0,3}"), 1..6),
    ) {
        let mut text: Vec<char> = SEEDS[seed].chars().collect();
        for (at, replacement) in edits {
            let at = at.index(text.len());
            text.splice(at..(at + 2).min(text.len()), replacement.chars());
        }
        try_all(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        let _ = parse::kernels(&text, "fuzz");
    }

    #[test]
    fn any_body_never_panics(line in "[a-zA-Z0-9 =,+$\\[\\]-]{0,40}") {
        try_all(&with(&format!("body = [\"{line}\"]")));
    }
}
