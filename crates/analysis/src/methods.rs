//! Which method answers which question on this machine (helm2019 §7): one set of rules, for `memwall methods` and for
//! commands that choose by themselves.

mod known;

use events::{Catalogue, MetricGroup, names};
use record::{
    doctor::{Capability, CapabilityState, Checkup},
    methods::{
        MethodPurpose, MethodQuestion, MethodStanding, MethodState, MethodTopic, MethodsAnswer, SCHEMA,
    },
};
use trust::{Claimed, Indicator, Standing, Trust, TrustCatalogue};

use known::{KNOWN, KnownMethod, Proof};

/// What is known of the machine.
pub struct MethodsMachine<'a> {
    /// What was tried on it.
    pub checkup: &'a Checkup,
    /// What earned trust on it.
    pub trust: &'a TrustCatalogue,
    /// The events of its CPU; none if no file describes it.
    pub events: Option<&'a Catalogue>,
    /// As `--on` has it, if it is simulated.
    pub simulated: Option<&'a str>,
}

/// Answers all questions.
pub fn answer(machine: &MethodsMachine<'_>, purpose: MethodPurpose) -> MethodsAnswer {
    MethodsAnswer {
        schema: SCHEMA.to_owned(),
        purpose,
        questions: MethodTopic::ALL.map(|topic| question(machine, topic, purpose)).to_vec(),
        validation: machine.trust.basis().clone(),
    }
}

/// Answers one.
pub fn question(machine: &MethodsMachine<'_>, topic: MethodTopic, purpose: MethodPurpose) -> MethodQuestion {
    let rank = |method: &&KnownMethod| match purpose {
        MethodPurpose::Exact => method.exact,
        MethodPurpose::Diagnose => method.diagnose,
    };
    let mut known: Vec<&KnownMethod> = KNOWN.iter().filter(|method| method.topic == topic).collect();
    known.retain(|method| rank(method) > 0);
    known.sort_by_key(rank);
    let methods: Vec<MethodStanding> = known.into_iter().map(|method| standing(machine, method)).collect();
    let (chosen, because) = choose(&methods);
    let better = chosen.unwrap_or(methods.len());
    let unlocks = methods[..better].iter().filter_map(|method| match &method.state {
        MethodState::Blocked { unlock_with: Some(command), .. } => {
            Some((method.name.clone(), command.clone()))
        }
        _ => None,
    });
    MethodQuestion {
        topic,
        words: words(topic, purpose).to_owned(),
        unlocks: unlocks.collect(),
        chosen: chosen.map(|index| methods[index].key.clone()),
        because,
        methods,
    }
}

fn words(topic: MethodTopic, purpose: MethodPurpose) -> &'static str {
    match (topic, purpose) {
        (MethodTopic::Bandwidth, MethodPurpose::Exact) => "How many bytes does memory move?",
        (MethodTopic::Bandwidth, MethodPurpose::Diagnose) => "Does memory bandwidth hold the program back?",
        (MethodTopic::Latency, MethodPurpose::Exact) => "How long do loads wait?",
        (MethodTopic::Latency, MethodPurpose::Diagnose) => "Does waiting for loads hold the program back?",
        (MethodTopic::Code, _) => "Which code waits?",
        (MethodTopic::Data, _) => "For which data?",
    }
}

/// The best that is allowed: one that earned trust before one that nobody tried, and never a broken one.
fn choose(methods: &[MethodStanding]) -> (Option<usize>, String) {
    let allowed = |method: &MethodStanding| method.state == MethodState::Allowed;
    let position = |fits: &dyn Fn(&MethodStanding) -> bool| {
        methods.iter().position(|method| allowed(method) && fits(method))
    };
    if let Some(index) = position(&|method| matches!(trust(method), Some(Trust::Trusted { .. }))) {
        let first = position(&|_| true) == Some(index);
        let because = match first {
            true => "it is the best that this machine allows, and it earned trust here",
            false => "it earned trust here; what would come before it did not",
        };
        return (Some(index), because.to_owned());
    }
    if let Some(index) = position(&|method| !matches!(trust(method), Some(Trust::Broken { .. }))) {
        let because = match trust(&methods[index]) {
            Some(Trust::Qualitative { .. }) => {
                "it is the best that this machine allows; it tells more from less, but no exact value"
            }
            _ => {
                "it is the best that this machine allows; nobody has tried it here yet: 'memwall validate' does"
            }
        };
        return (Some(index), because.to_owned());
    }
    let because = match position(&|_| true) {
        Some(_) => "all that this machine allows is broken here",
        None => "this machine allows none",
    };
    (None, because.to_owned())
}

fn trust(method: &MethodStanding) -> Option<&Trust> {
    method.trust.as_ref().map(|standing| &standing.trust)
}

fn standing(machine: &MethodsMachine<'_>, method: &KnownMethod) -> MethodStanding {
    MethodStanding {
        key: method.key.to_owned(),
        name: method.name.to_owned(),
        state: state(machine, method),
        trust: trust_of(machine, &method.proof),
        sees: method.sees.to_owned(),
        cost: method.cost.to_owned(),
        command: command(machine, method),
        group: match method.proof {
            Proof::Metric { group, .. } => Some(group.to_owned()),
            _ => None,
        },
    }
}

/// What to type. A simulated machine runs scenarios, not programs.
fn command(machine: &MethodsMachine<'_>, method: &KnownMethod) -> String {
    let Some(name) = machine.simulated else { return method.command.to_owned() };
    match &method.proof {
        Proof::Metric { group, .. } => {
            format!("memwall count -g {group} --on sim:{name} --scenario load-store-phases")
        }
        Proof::Indicator(Indicator::SampledLatency) => format!(
            "memwall scenario load-store-phases --on sim:{name} -o r.sqlite && memwall report r.sqlite"
        ),
        _ if method.topic == MethodTopic::Code => {
            format!("memwall count -g STALLS --per-region --on sim:{name} --scenario load-store-phases")
        }
        _ => format!("memwall squeeze --on sim:{name} working-set --set w=512K --set rounds=1"),
    }
}

/// All it needs must be there; the first that is not says why. Of each need one of several capabilities will do.
fn state(machine: &MethodsMachine<'_>, method: &KnownMethod) -> MethodState {
    for need in method.needs {
        let rows = || machine.checkup.rows.iter().filter(|row| need.contains(&row.key.as_str()));
        if rows().any(|row| row.state == CapabilityState::Found) {
            continue;
        }
        let blocked = rows().find(|row| row.state == CapabilityState::Blocked);
        return match (blocked, rows().next()) {
            (Some(row), _) => MethodState::Blocked { why: why(row), unlock_with: row.unlock_with.clone() },
            (None, Some(row)) => MethodState::Missing { why: why(row) },
            (None, None) => MethodState::Missing { why: format!("{} is not known here", need[0]) },
        };
    }
    if let Proof::Metric { group, metric } = method.proof
        && metric_events(machine, group, metric).is_none()
    {
        let why = format!("no event of this CPU is known that gives '{metric}' of group {group}");
        return MethodState::Missing { why };
    }
    MethodState::Allowed
}

fn why(row: &Capability) -> String {
    format!("{}: {}", row.name, row.detail)
}

/// Events of a metric as the machine has them, and its unit.
fn metric_events(
    machine: &MethodsMachine<'_>,
    group: &str,
    metric: &str,
) -> Option<(Vec<(String, events::Signal)>, String)> {
    let context = names::Context { catalogue: machine.events, ..names::Context::default() };
    let chosen = MetricGroup::named(group)?.choose(&|event| names::is_known(event, &context));
    let metric = *chosen.metrics.iter().find(|known| known.name == metric)?;
    let inputs = chosen.inputs_of(metric);
    if inputs.iter().any(|input| chosen.missing.contains(input)) {
        return None;
    }
    let signal = |input: &str| {
        let event = chosen.event(input)?;
        Some((event.to_owned(), names::parse(event, &context).ok()?.event.signal))
    };
    let events: Option<Vec<_>> = inputs.into_iter().map(signal).collect();
    Some((events?, metric.unit.clone()))
}

fn trust_of(machine: &MethodsMachine<'_>, proof: &Proof) -> Option<Standing> {
    match proof {
        Proof::Indicator(indicator) => machine.trust.indicator(indicator),
        Proof::Metric { group, metric } => {
            let (events, unit) = metric_events(machine, group, metric)?;
            let claimed: Vec<Claimed<'_>> =
                events.iter().map(|(name, signal)| Claimed { name, signal, purpose: None }).collect();
            machine.trust.metric(&claimed, &unit)
        }
        Proof::None => None,
    }
}

#[cfg(test)]
mod tests;
