//! What memwall must say of the example programs: the class of waiting and the function. Tests hold it against
//! recordings, `benches/accuracy.rs` against the machine at hand.

use serde_json::Value;

use super::place::{functions, number};

/// What an example must show, as shares of user time.
pub struct Expected {
    /// Name of its recording.
    pub recording: &'static str,
    /// How it is called.
    pub command: &'static str,
    pub function: &'static str,
    /// Waits of these kinds together take at least the share.
    at_least: (&'static [&'static str], f64),
    /// The largest wait, unless others may be as large.
    largest: Option<&'static str>,
    /// How the hottest access walks.
    pattern: Option<&'static str>,
}

const fn expect(
    (recording, command): (&'static str, &'static str),
    function: &'static str,
    at_least: (&'static [&'static str], f64),
    largest: Option<&'static str>,
    pattern: Option<&'static str>,
) -> Expected {
    Expected { recording, command, function, at_least, largest, pattern }
}

pub const LOADS: &[&str] = &["loads"];
const CHASING: Option<&str> = Some("pointer_chasing");
const MULTIPLY_L1: &str = "chase --muls 24 --size L1";
const INDEPENDENT: &str = "chase --muls 24 --independent";

pub const EXAMPLES: [Expected; 16] = [
    expect(("chase", "chase"), "chase", (LOADS, 0.6), Some("loads"), CHASING),
    expect(("chase_l3", "chase --size L3"), "chase", (LOADS, 0.6), Some("loads"), CHASING),
    expect(("chase_l2", "chase --size L2"), "chase", (LOADS, 0.5), Some("loads"), CHASING),
    expect(("chase_l1", "chase --size L1"), "chase", (&["first_cache"], 0.5), Some("first_cache"), None),
    expect(("chase_multiply", "chase --muls 24"), "chase_dependent_24", (LOADS, 0.5), Some("loads"), None),
    expect(
        ("chase_multiply_l1", MULTIPLY_L1),
        "chase_dependent_24",
        (&["chains"], 0.6),
        Some("chains"),
        None,
    ),
    expect(("chase_independent", INDEPENDENT), "chase_independent_24", (LOADS, 0.5), Some("loads"), None),
    expect(("stream", "stream"), "triad", (&["loads", "stores"], 0.3), None, Some("streaming")),
    expect(
        ("store_stream", "store_stream"),
        "write_buffer",
        (&["stores"], 0.4),
        Some("stores"),
        Some("streaming"),
    ),
    expect(("multiply", "multiply"), "multiply_chain", (&["chains"], 0.6), Some("chains"), None),
    expect(("divide", "divide"), "divide_chain", (&["divides"], 0.5), Some("divides"), None),
    expect(("branches", "branches"), "count_heads", (&["branches"], 0.15), Some("branches"), None),
    expect(("atomics", "atomics"), "add_atomically", (&["first_cache"], 0.6), Some("first_cache"), None),
    expect(("hash_join", "hash_join"), "probe", (LOADS, 0.4), Some("loads"), Some("random")),
    expect(("chase_rs", "chase_rs"), "walk", (LOADS, 0.5), Some("loads"), CHASING),
    expect(
        ("hash_join_rs", "hash_join_rs"),
        "hash_join_rs::probe",
        (LOADS, 0.4),
        Some("loads"),
        Some("random"),
    ),
];

/// Code that lives in the first cache: recording, command.
pub const IN_FIRST_CACHE: [(&str, &str); 4] = [
    ("sum", "sum"),
    ("sum_dot", "sum --dot"),
    ("chase_independent_l1", "chase --muls 24 --independent --size L1"),
    ("stream_l1", "stream --size L1"),
];
/// Of user time, what code in the first cache waits on loads at most.
pub const FIRST_CACHE_WAITS: f64 = 0.2;

/// The share of user time that kinds of waiting take together.
pub fn share(findings: &Value, waits: &[&str]) -> f64 {
    waits.iter().map(|wait| number(findings, &format!("/overall/{wait}"))).sum()
}

/// The walk of the function's hottest instruction that has one.
fn pattern(findings: &Value) -> Option<&str> {
    let top = findings["symbols"][0]["top"].as_array()?.iter();
    let mut walks = top
        .filter_map(|index| findings["instructions"][index.as_u64()? as usize]["access"]["pattern"].as_str());
    walks.next()
}

impl Expected {
    /// What is wrong with the findings, if anything.
    pub fn problem(&self, findings: &Value) -> Option<String> {
        let top = functions(findings).into_iter().next().unwrap_or_default();
        if !top.contains(self.function) {
            return Some(format!("the hottest function is {top}"));
        }
        let (waits, least) = self.at_least;
        let found = share(findings, waits);
        if found < least {
            return Some(format!("{waits:?} take {found:.2} of user time"));
        }
        let largest = findings["verdict"]["largest"].as_str();
        if self.largest.is_some() && largest != self.largest {
            return Some(format!("the largest wait is {largest:?}"));
        }
        let walk = pattern(findings);
        if self.pattern.is_some() && walk != self.pattern {
            return Some(format!("the walk is {walk:?}"));
        }
        let undecided = share(findings, &["undecided"]);
        (undecided > 0.3).then(|| format!("{undecided:.2} of user time is undecided"))
    }
}

/// The share of a hash join's probing that its findings blame on the table of customers.
pub fn blamed_on_customers(found: &Value) -> Option<f64> {
    let symbols = found["symbols"].as_array()?;
    let probe = symbols.iter().position(|symbol| symbol["name"] == "probe")?;
    let objects = found["objects"]["objects"].as_array()?;
    let table = objects.iter().find(|object| object["site"]["function"] == "allocate_customers")?;
    let uses = table["symbols"].as_array()?.iter().find(|used| used["symbol"] == probe)?;
    Some(number(uses, "/waiting_on_loads") / number(&symbols[probe], "/split/samples"))
}
