//! The claimed machine as a drawing: sockets, caches and cores as a tree, then nodes, limits and gaps.

mod nodes;
mod parts;
mod tree;

use machine::{
    CpuSet, Topology,
    topology::{CoreKind, Gap},
};

use crate::{
    layout::prose::{counted, dotted, width, wrap},
    layout::style::{HEADING, WARNING, paint},
};

/// Narrower terminals get lines of this many columns all the same.
const NARROWEST: usize = 40;

/// The machine in lines of at most `columns`, equal parts drawn once.
pub fn text(topology: &Topology, columns: usize) -> String {
    let columns = columns.max(NARROWEST);
    let mut sections = vec![identity(topology, columns), machine(topology, columns)];
    if !topology.nodes.is_empty() {
        sections.push(section("Memory nodes", &nodes::text(&topology.nodes, columns)));
    }
    sections.push(section("Left to us", &limits(topology, columns)));
    if !topology.gaps.is_empty() {
        sections.push(section("Not known, or doubtful", &gaps(&topology.gaps, columns)));
    }
    sections.join("\n")
}

fn section(title: &str, text: &str) -> String {
    format!("{}\n{text}", paint(HEADING, title))
}

/// What the machine calls itself.
fn identity(topology: &Topology, columns: usize) -> String {
    let cpu = &topology.cpu;
    let name = cpu.model_name.as_deref().unwrap_or("A CPU that does not say its name");
    let number = |label: &str, value: Option<u32>| value.map(|value| format!(" {label} {value}"));
    let signature = match topology.arch.as_deref() {
        Some("aarch64") => cpu.stepping.map(|value| format!(" r{}p{}", value >> 4, value & 0xf)),
        _ => Some(
            [number("family", cpu.family), number("model", cpu.model), number("stepping", cpu.stepping)]
                .into_iter()
                .flatten()
                .collect(),
        ),
    };
    let vendor = cpu.vendor.as_deref().unwrap_or("unknown vendor");
    let microcode = cpu.microcode.as_deref().map(|revision| format!("microcode {revision}"));
    let claims = dotted([
        topology.arch.as_deref().unwrap_or("unknown architecture"),
        &format!("{vendor}{}", signature.unwrap_or_default()),
        &microcode.unwrap_or_default(),
    ]);
    let guest = match &topology.hypervisor {
        Some(name) if name == "unknown" => "guest of a hypervisor that hides its name".into(),
        Some(name) => format!("guest of {name}"),
        None if topology.gaps.iter().any(|gap| gap.what == "hypervisor") => String::new(),
        None => "no hypervisor".into(),
    };
    let vectors = topology.isa.widest().map(|width| format!("vectors up to {width}"));
    let memory = topology.limits.memory_total.map(|memory| format!("{memory} of memory"));
    let lines = parts::common_line(topology).map(|line| format!("cache lines of {line}"));
    let abilities = dotted([
        guest.as_str(),
        &vectors.unwrap_or_default(),
        &memory.unwrap_or_default(),
        &lines.unwrap_or_default(),
    ]);
    let name = wrap("", &breakable(name, columns), columns);
    paint(HEADING, name.trim_end()) + "\n" + &phrases(&claims, columns) + &phrases(&abilities, columns)
}

/// Sockets down to cores.
fn machine(topology: &Topology, columns: usize) -> String {
    if topology.cpus.is_empty() {
        return wrap("", "No CPU could be read.", columns);
    }
    let sockets = match topology.sockets() {
        0 => "sockets not known".into(),
        count => counted(count, "socket"),
    };
    let cores = topology.cores();
    let hybrid = topology.cpus.iter().any(|cpu| cpu.kind != CoreKind::Uniform);
    let title = dotted([
        sockets.as_str(),
        &format!("{}{}", counted(cores.len(), "core"), if hybrid { " of two kinds" } else { "" }),
        &counted(topology.cpus.len(), "thread"),
    ]);
    let mut out = wrap("", &title, columns);
    out += &tree::draw(&parts::sockets(topology), columns);
    if !topology.offline.is_empty() {
        let offline = format!("{} of them", topology.offline.len());
        out += &wrap("offline: ", &format!("CPUs {} ({offline})", spaced(&topology.offline)), columns);
    }
    out
}

/// What our cgroup and affinity leave of it.
fn limits(topology: &Topology, columns: usize) -> String {
    let limits = &topology.limits;
    let online: CpuSet = topology.cpus.iter().map(|cpu| cpu.id).collect();
    let usable = topology.usable_cpus();
    let cpus = match &limits.cpus {
        None => "not known which".into(),
        Some(_) if usable == online => format!("all {} that are online", online.len()),
        Some(_) => format!("{} of the {} online", spaced(&usable), online.len()),
    };
    let all_nodes: CpuSet = topology.nodes.iter().map(|node| node.id).collect();
    let nodes = match &limits.nodes {
        Some(nodes) if all_nodes.len() > 1 && all_nodes.difference(nodes).is_empty() => Some("all".into()),
        Some(nodes) if !all_nodes.difference(nodes).is_empty() => {
            Some(format!("{} of {}", spaced(&nodes.intersection(&all_nodes)), spaced(&all_nodes)))
        }
        _ => None,
    };
    let available = limits.memory_available.map(|memory| format!("{memory} can be had now"));
    let capped = limits.memory.map(|memory| format!("{memory} at most by our cgroup"));
    let memory = dotted([
        capped.as_deref().unwrap_or("no limit found"),
        available.as_deref().unwrap_or("not known how much is free"),
    ]);
    let time = limits.cpu_quota.map(|quota| format!("{} CPUs at most by our cgroup", trimmed(quota)));
    let rows = [
        ("  CPUs    ", Some(cpus)),
        ("  nodes   ", nodes),
        ("  memory  ", Some(memory)),
        ("  time    ", Some(time.unwrap_or_else(|| "no limit found".into()))),
    ];
    rows.into_iter().filter_map(|(label, text)| Some(wrap(label, &text?, columns))).collect()
}

/// `1.5`, `2`.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn gaps(gaps: &[Gap], columns: usize) -> String {
    let line = |gap: &Gap| {
        let what = format!("{}:", gap.what);
        wrap("  • ", &format!("{} {}", breakable(&what, columns - 4), gap.why), columns)
    };
    paint(WARNING, gaps.iter().map(line).collect::<String>().trim_end()) + "\n"
}

/// `text` broken into lines of at most `room`, between phrases rather than inside them where that is possible.
/// Phrases end at a dot or a bar between blanks.
fn phrases(text: &str, room: usize) -> String {
    // The blank that is no place to break.
    const FIXED: &str = "\u{a0}";
    let keep = |phrase: &str| match width(phrase) + 2 <= room {
        true => phrase.replace(' ', FIXED),
        false => phrase.to_owned(),
    };
    let mut kept = text.to_owned();
    for end in [" · ", " | "] {
        let phrases: Vec<String> = kept.split(end).map(keep).collect();
        if phrases.len() > 1 {
            kept = phrases.join(&format!("{FIXED}{}", end.trim_start()));
        }
    }
    wrap("", &kept, room).replace(FIXED, " ")
}

/// A list that can be broken between its ranges.
fn spaced(set: &CpuSet) -> String {
    set.to_string().replace(',', ", ")
}

/// `text` with spaces where words longer than `room` may be broken: before a slash, or else anywhere.
fn breakable(text: &str, room: usize) -> String {
    let mut words = Vec::new();
    for word in text.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        while rest.len() > room {
            let slash = (room / 2..room).rev().find(|&at| rest[at] == '/');
            let tail = rest.split_off(slash.unwrap_or(room));
            words.push(rest.into_iter().collect::<String>());
            rest = tail;
        }
        words.push(rest.into_iter().collect());
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_paths_break_at_slashes() {
        let path = "/sys/devices/system/cpu/cpu0/cache/index0/size:";
        assert_eq!(breakable(path, 30), "/sys/devices/system/cpu/cpu0 /cache/index0/size:");
        assert_eq!(breakable(path, 60), path);
        assert_eq!(breakable("aaaaaaaa", 3), "aaa aaa aa");
    }

    #[test]
    fn quotas_are_short() {
        assert_eq!(trimmed(1.5), "1.5");
        assert_eq!(trimmed(2.0), "2");
        assert_eq!(trimmed(10.0), "10");
    }

    #[test]
    fn nothing_known_is_still_a_text() {
        let drawn = text(&Topology::default(), 1);
        assert!(drawn.contains("No CPU could be read"), "{drawn}");
    }
}
