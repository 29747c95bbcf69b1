//! A kernel and its files as described by a script, and what should come of counting on it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
};

use events::{Count, CountedPlace, Missing, Scope, Value};
use pmu::{
    CounterReading, Errno, EventTarget,
    event::Modes,
    scripted::{Behaviour, Scripted, ScriptedRequest},
};
use serde::Deserialize;

/// One file below `tests/scripts`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What it replays.
    pub about: String,
    /// sysfs and procfs, by path.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The first that matches answers an open; without one, `ENOENT`.
    #[serde(default)]
    pub rule: Vec<Rule>,
    /// What is asked and what must come of it.
    pub case: Vec<Case>,
}

/// What the kernel does with an event.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    r#type: Option<u32>,
    config: Option<u64>,
    config1: Option<u64>,
    /// `thread`, `cpu`, `cgroup`.
    target: Option<String>,
    cpu: Option<u32>,
    /// `user`, `kernel`, `all`.
    modes: Option<String>,
    /// The group has at least this many members already.
    members: Option<usize>,
    inherit: Option<bool>,
    /// Its group is to be read as a whole.
    whole: Option<bool>,
    /// This many were opened before.
    opened: Option<usize>,
    /// How it is refused.
    errno: Option<String>,
    /// Value, time enabled, time running: of each read in turn.
    #[serde(default)]
    reads: Vec<[u64; 3]>,
    /// Bytes a read gives at most.
    bytes: Option<usize>,
    /// How starting and stopping is refused.
    switch: Option<String>,
}

/// One request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// `thread`, `child:PID`, `process:PID`, `cpus:LIST`, `cgroup:NAME:LIST`.
    pub scope: String,
    /// Names as a user types them.
    pub events: Vec<String>,
    /// One value per thread, CPU or box.
    #[serde(default)]
    pub each: bool,
    /// No sharing of counters.
    #[serde(default)]
    pub refuse: bool,
    /// Groups are tried first.
    #[serde(default)]
    pub probe: bool,
    /// How often values are read; the last ones count.
    #[serde(default = "once")]
    pub reads: usize,
    /// How many groups must be open.
    pub groups: Option<usize>,
    /// How runs must be divided.
    pub runs: Option<Vec<Vec<usize>>>,
    /// Why opening or starting must be refused.
    pub refusal: Option<String>,
    /// Event, place and value of each count.
    #[serde(default)]
    pub counts: Vec<String>,
    /// What must be said beside.
    #[serde(default)]
    pub notes: Vec<String>,
}

fn once() -> usize {
    1
}

impl Rule {
    fn matches(&self, request: &ScriptedRequest<'_>, opened: usize) -> bool {
        let event = request.event;
        let (target, cpu) = match request.target {
            EventTarget::Cpu(cpu) if request.in_cgroup => ("cgroup", Some(cpu)),
            EventTarget::Cpu(cpu) => ("cpu", Some(cpu)),
            EventTarget::ThreadOnCpu { cpu, .. } => ("thread", Some(cpu)),
            EventTarget::ThisThread | EventTarget::Thread(_) => ("thread", None),
        };
        let modes = match event.modes {
            Modes::User => "user",
            Modes::Kernel => "kernel",
            Modes::All => "all",
        };
        self.r#type.is_none_or(|kind| kind == event.kind)
            && self.config.is_none_or(|config| config == event.config)
            && self.config1.is_none_or(|config| config == event.config1)
            && self.target.as_ref().is_none_or(|wanted| wanted == target)
            && self.cpu.is_none_or(|wanted| Some(wanted) == cpu)
            && self.modes.as_ref().is_none_or(|wanted| wanted == modes)
            && self.members.is_none_or(|members| request.group >= members)
            && self.inherit.is_none_or(|inherit| inherit == event.inherit)
            && self.whole.is_none_or(|whole| whole == event.group_read)
            && self.opened.is_none_or(|wanted| opened >= wanted)
    }

    fn answer(&self) -> Result<Behaviour, Errno> {
        if let Some(name) = &self.errno {
            return Err(errno(name));
        }
        let reading =
            |[value, enabled_ns, running_ns]: [u64; 3]| CounterReading { value, enabled_ns, running_ns };
        let mut readings = self.reads.iter().copied().map(reading);
        Ok(Behaviour {
            reading: readings.next().expect("a rule has an errno or reads"),
            later: readings.collect(),
            read_bytes: self.bytes.unwrap_or(usize::MAX),
            switch: self.switch.as_ref().map_or(Ok(()), |name| Err(errno(name))),
            ..Behaviour::counts(0)
        })
    }
}

fn errno(name: &str) -> Errno {
    (0..200).map(Errno).find(|errno| errno.name() == Some(name)).unwrap_or_else(|| panic!("no errno {name}"))
}

impl Script {
    /// Reads a script.
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Writes the files below a root.
    pub fn plant(&self, root: &Path) {
        for (name, text) in &self.files {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
    }

    /// The kernel, with nothing open.
    pub fn kernel(&self) -> Scripted {
        let rules = self.rule.clone();
        let opened = AtomicUsize::new(0);
        Scripted::new(move |request| {
            let so_far = opened.load(Ordering::Relaxed);
            let rule = rules.iter().find(|rule| rule.matches(&request, so_far));
            let answer = rule.map_or(Err(errno("ENOENT")), Rule::answer)?;
            opened.fetch_add(1, Ordering::Relaxed);
            Ok(answer)
        })
    }
}

/// A scope as scripts write it.
pub fn scope(text: &str) -> Scope {
    let parts: Vec<_> = text.split(':').collect();
    match parts.as_slice() {
        ["thread"] => Scope::ThisThread,
        ["child", pid] => Scope::Child(pid.parse().unwrap()),
        ["process", pid] => Scope::Process(pid.parse().unwrap()),
        ["cpus", list] => Scope::Cpus(list.parse().unwrap()),
        ["cgroup", name, list] => Scope::Cgroup((*name).to_owned(), list.parse().unwrap()),
        _ => panic!("no scope {text}"),
    }
}

/// A count as scripts write it.
pub fn show(count: &Count, names: &[String]) -> String {
    let place = match &count.place {
        CountedPlace::Target => String::new(),
        // The test's own thread has another number each time.
        CountedPlace::Thread(tid) if *tid > 1000 => " on this thread".to_owned(),
        CountedPlace::Thread(tid) => format!(" on thread {tid}"),
        CountedPlace::Cpu(cpu) => format!(" on CPU {cpu}"),
        CountedPlace::Box { package, name } => format!(" in {package}/{name}"),
    };
    let value = match &count.value {
        value @ Value::Counted { raw, enabled_ns, running_ns } => match value.exact() {
            Some(exact) => exact.to_string(),
            None => format!(
                "{raw} in {running_ns} of {enabled_ns} ns, about {:.0}",
                value.estimate().unwrap_or(f64::NAN)
            ),
        },
        Value::Missing(Missing::NeverRan) => "never ran".to_owned(),
        Value::Missing(Missing::NeverEnabled) => "never enabled".to_owned(),
        Value::Missing(Missing::Refused(words)) => format!("refused: {words}"),
        Value::Missing(Missing::Failed(words)) => format!("failed: {words}"),
        Value::Missing(Missing::Broken(words)) => format!("broken: {words}"),
    };
    format!("{}{place}: {value}", names[count.event])
}
