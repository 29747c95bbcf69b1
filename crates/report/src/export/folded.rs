//! Folded stacks, the form that flame graph tools read: `process;thread;caller;…;function samples`.

use std::{
    collections::{BTreeMap, HashMap},
    fmt::Write as _,
};

use record::{
    ids::{PlaceId, ThreadId},
    run::Run,
};

use super::{name_of, outside_in, stack_of};

/// All samples, one line per thread and call chain, sorted. The numbers add up to the samples.
pub fn folded(run: &Run) -> String {
    let mut counts: HashMap<(ThreadId, PlaceId, Option<u32>), u64> = HashMap::new();
    for (index, (&thread, &place)) in run.samples.thread.iter().zip(&run.samples.place).enumerate() {
        *counts.entry((thread, place, stack_of(run, index))).or_default() += 1;
    }
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for ((thread, place, stack), count) in counts {
        let mut line = who(run, thread);
        for place in outside_in(run, &place, stack) {
            line.push(';');
            push_plain(&mut line, &name_of(run, place));
        }
        *lines.entry(line).or_default() += count;
    }
    lines.into_iter().fold(String::new(), |mut text, (line, count)| {
        let _ = writeln!(text, "{line} {count}");
        text
    })
}

/// `process-PID;thread-TID`.
fn who(run: &Run, thread: ThreadId) -> String {
    let mut text = String::new();
    let Some(thread) = run.thread(thread) else { return "unknown;unknown".to_owned() };
    if let Some(process) = run.process(thread.process) {
        push_plain(&mut text, &process.name);
        let _ = write!(text, "-{}", process.pid);
    }
    text.push(';');
    push_plain(&mut text, &thread.name);
    let _ = write!(text, "-{}", thread.tid);
    text
}

/// Names must not hold what separates them.
fn push_plain(text: &mut String, name: &str) {
    text.extend(name.chars().map(|letter| match letter {
        ';' => ':',
        letter if letter.is_control() => ' ',
        letter => letter,
    }));
}
