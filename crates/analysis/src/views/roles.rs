//! Which event counts cycles and which of these are stalled: by what papers, makers and perf call them.

use record::sampled::RecordedEvent;

use super::{ViewedEvent, ViewedKind, is_time};
use crate::event_names::plain;

/// Beginnings of names of cycles in which a core runs.
const CYCLES: [&str; 5] =
    ["cycles", "cpu-cycles", "cpu_clk_unhalted.thread", "cpu_clk_unhalted.core", "unhalted_core_cycles"];

fn counts_cycles(name: &str) -> bool {
    let name = plain(name);
    CYCLES.iter().any(|known| name.strip_prefix(known).is_some_and(ends_there))
}

/// What follows a name is a suffix of its own, not more of the name.
fn ends_there(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '_', '/'])
}

/// Cycles in which nothing is dispatched, issued or executed: by name, or by the form that kruse2011 counts them in (at least
/// one, inverted).
fn counts_stalls(name: &str) -> bool {
    let name = plain(name);
    let inverted = name.contains("inv") && (name.contains("cmask=1") || name.contains("cmask=0x1"));
    name.contains("stall") || name.contains("no_execute") || inverted
}

/// The event that counts cycles: one of that name, else the clock.
pub(super) fn cycles(events: &[ViewedEvent], list: &[RecordedEvent], is_import: bool) -> Option<usize> {
    let first = events.len() - list.len();
    let named = events.iter().position(|event| {
        event.kind == ViewedKind::Event && event.samples > 0.0 && counts_cycles(&event.name)
    });
    let timed = || list.iter().position(|event| is_time(event) && event.samples > 0).map(|at| first + at);
    let clock = || events.iter().position(|event| event.kind == ViewedKind::UserTime);
    named.or_else(|| if is_import { timed() } else { clock() })
}

/// The event that counts stalled cycles, where those of cycles are events too; else waiting.
pub(super) fn stalled(events: &[ViewedEvent], cycles: Option<usize>) -> Option<usize> {
    let of_cycles =
        cycles.is_some_and(|at| events[at].kind == ViewedKind::Event && counts_cycles(&events[at].name));
    let counted = events.iter().position(|event| {
        event.kind == ViewedKind::Event && event.samples > 0.0 && counts_stalls(&event.name)
    });
    let waiting = || events.iter().position(|event| event.kind == ViewedKind::Waiting);
    counted.filter(|_| of_cycles).or_else(waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_stalls_are_known_by_the_names_of_papers_makers_and_perf() {
        for name in ["cycles", "cycles:u", "cpu-cycles", "cpu_core/cycles/u", "UNHALTED_CORE_CYCLES"] {
            assert!(counts_cycles(name) && !counts_stalls(name), "{name}");
        }
        assert!(counts_cycles("CPU_CLK_UNHALTED:THREAD_P") && counts_cycles("CPU_CLK_UNHALTED.THREAD"));
        for name in [
            "stalled-cycles-backend",
            "cpu/uops_executed.stall_cycles/",
            "CYCLE_ACTIVITY.CYCLES_NO_EXECUTE",
            "RS_UOPS_DISPATCHED:CMASK=1:INV=1",
            "cpu/event=0xa0,cmask=1,inv/",
        ] {
            assert!(counts_stalls(name) && !counts_cycles(name), "{name}");
        }
        for name in
            ["cycles_of_the_moon", "ref-cycles", "instructions", "page-faults", "cpu/event=0x3c,cmask=1/"]
        {
            assert!(!counts_stalls(name), "{name}");
        }
        assert!(!counts_cycles("ref-cycles") && !counts_cycles("cyclesque"));
    }
}
