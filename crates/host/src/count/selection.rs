//! Which events to count: by name and by group, each once.

use events::{
    CountRefusal, Event, Instrument,
    groups::{Chosen, MetricGroup, ProfileFigures},
    names,
};
use record::count::{
    CountedRun, Counts, GroupMetrics, MachineFigures, MetricsAround, add_packages, group_metrics,
    program_cycles,
};

/// Events and the groups they serve.
#[derive(Clone, Debug)]
pub struct Selection {
    events: Vec<Event>,
    groups: Vec<Wanted>,
}

#[derive(Clone, Debug)]
struct Wanted {
    chosen: Chosen<'static>,
    /// Input and the index of its event.
    inputs: Vec<(&'static str, usize)>,
}

impl Selection {
    /// Resolves lists of names (`a,b,{c,d}`) and names of groups against an instrument.
    pub fn new(
        instrument: &dyn Instrument,
        lists: &[String],
        groups: &[String],
    ) -> Result<Self, CountRefusal> {
        let mut selection = Self { events: Vec::new(), groups: Vec::new() };
        for list in lists {
            let pieces = names::split(list).map_err(|error| CountRefusal::UnknownEvent {
                name: list.clone(),
                hint: error.to_string(),
            })?;
            for piece in pieces.iter().flatten() {
                let event = instrument.resolve(piece.text)?;
                selection.add(event);
            }
        }
        for name in groups {
            selection.add_group(instrument, name)?;
        }
        Ok(selection)
    }

    /// All events, each once.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    fn add(&mut self, event: Event) -> usize {
        match self.events.iter().position(|known| known.name == event.name) {
            Some(index) => index,
            None => {
                self.events.push(event);
                self.events.len() - 1
            }
        }
    }

    fn add_group(&mut self, instrument: &dyn Instrument, name: &str) -> Result<(), CountRefusal> {
        let has = |event: &str| instrument.resolve(event).is_ok();
        let Some(group) = MetricGroup::fitting(name, &has) else {
            let known: Vec<&str> = MetricGroup::all().iter().map(|group| group.name.as_str()).collect();
            return Err(CountRefusal::UnknownEvent {
                name: name.to_owned(),
                hint: format!("no such group; there are {}", known.join(", ")),
            });
        };
        let chosen = group.choose(&has);
        if chosen.events.is_empty() {
            return Err(CountRefusal::NotHere {
                event: format!("group {}", group.name),
                reason: "this machine has none of its events; 'memwall events' lists what it has".to_owned(),
            });
        }
        let mut inputs = Vec::new();
        for &(input, event) in &chosen.events {
            inputs.push((input, self.add(instrument.resolve(event)?)));
        }
        self.groups.push(Wanted { chosen, inputs });
        Ok(())
    }

    /// The metrics of all groups over all repetitions; with what was measured of the machine, with its own penalties too. Those who run
    /// on some packages only can draw on `memory_share` of its memory.
    pub fn metrics(
        &self,
        counts: &Counts,
        measured: Option<&MachineFigures>,
        memory_share: f64,
    ) -> Vec<GroupMetrics> {
        self.metrics_of_part(counts, &[], measured, memory_share)
    }

    /// The same of a part of a program, such as a region; `program` is what was counted of all of it.
    pub fn metrics_of_part(
        &self,
        counts: &Counts,
        program: &[CountedRun],
        measured: Option<&MachineFigures>,
        memory_share: f64,
    ) -> Vec<GroupMetrics> {
        let share = |name: &str| if name == "memory_traffic_peak" { memory_share } else { 1.0 };
        let figure = |name: &str| Some(measured?.figure(name)?.0 * share(name));
        let figures = measured.is_some().then_some(&figure as ProfileFigures<'_>);
        let measured_by = |name: &str| Some(measured?.figure(name)?.1);
        let metrics = |wanted: &Wanted| {
            let Wanted { chosen, inputs } = wanted;
            let program_cycles = program_cycles(inputs, program);
            let around = MetricsAround { profile: figures, program_cycles, measured_by: Some(&measured_by) };
            let mut group = group_metrics(chosen, inputs, &counts.runs, around);
            if let Some(run) = counts.runs.first() {
                add_packages(&mut group, chosen, inputs, run, &counts.packages, around);
            }
            group
        };
        self.groups.iter().map(metrics).collect()
    }
}
