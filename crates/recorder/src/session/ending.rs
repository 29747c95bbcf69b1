//! The end of a recording: what is left to be said, and the code of the samples.

use machine::profile::Noise;
use record::run::ModuleKind;

use super::*;
use crate::recorder::RecordCounts;

/// Of fewer samples no share is told.
const FEWEST_FOR_A_SHARE: u64 = 30;

/// An end by a signal, of the program or of one that it waited for as shells do.
fn sudden_end(ending: Ending) -> Option<String> {
    const BY_SIGNAL: i32 = 128;
    const MOST_SIGNALS: i32 = 64;
    match ending {
        Ending::Signalled(signal) => Some(format!("The program was ended by signal {signal}")),
        Ending::Exited(code) => {
            let signal = Some(code - BY_SIGNAL).filter(|signal| (1..=MOST_SIGNALS).contains(signal))?;
            Some(format!(
                "The program ended with exit code {code}, as shells do where a program was ended by signal {signal}"
            ))
        }
        _ => None,
    }
}

impl RecordSession<'_> {
    /// Writes how the recording ended. What goes wrong with that is kept as trouble.
    pub(super) fn conclude(&mut self, end_ns: u64, ending: Ending, usage: Option<Usage>) {
        let is_whole = self.has_whole_run(ending);
        // The kernel's record of the end is nearer to it than we are.
        let end_ns = self.recorder.root_ended_ns.filter(|_| is_whole).unwrap_or(end_ns);
        self.recorder.end(end_ns);
        let elapsed_ns = end_ns.saturating_sub(self.recorder.window().origin_ns);
        self.about.elapsed_ns = Some(elapsed_ns);
        self.about.ending = ending;
        self.about.usage = usage.filter(|_| is_whole);
        self.about.noise = Some(Noise {
            wall_ns: self.began.elapsed().as_nanos() as f64,
            steal_ns: self.steal.stolen_ns(),
            involuntary_switches: usage.filter(|_| is_whole).map(|usage| usage.involuntary_switches),
            spread: None,
        });
        self.remarks(ending, is_whole);
        self.gone().iter().for_each(|text| self.recorder.writer.remark(text));
        self.data_remarks();
        let code = self.recorder.code(self.pid);
        if let Err(error) = self.recorder.writer.finish(&self.about, &code) {
            self.trouble = self.trouble.take().or(Some(error.into()));
        }
    }

    /// The recording spans the program from its beginning to its end.
    fn has_whole_run(&self, ending: Ending) -> bool {
        let ended = matches!(ending, Ending::Exited(_) | Ending::Signalled(_));
        self.is_child && ended && !self.has_delay && self.trouble.is_none()
    }

    fn remarks(&mut self, ending: Ending, is_whole: bool) {
        let RecordCounts {
            lost_loads,
            lost_events,
            throttled,
            malformed,
            unmapped,
            crowded,
            samples,
            own,
            ..
        } = self.recorder.counts;
        let mut say = |text: String| self.recorder.writer.remark(&text);
        if let Some(refusal) = &self.refusal {
            say(format!("There are no samples, since the kernel refused them: {refusal}."));
        }
        if let Some(reason) = &self.no_loads {
            say(format!("No loads were sampled: {}.", reason.trim_end_matches('.')));
        }
        for event in &self.refused_events {
            let reason = event.refusal.as_deref().unwrap_or_default().trim_end_matches('.');
            say(format!("{} was not sampled: {reason}.", event.name));
        }
        if lost_events > 0 {
            say(format!("{lost_events} samples of events were lost because the rings were full."));
        }
        if lost_loads > 0 {
            say(format!("{lost_loads} sampled loads were lost because the rings were full."));
        }
        if let Some(trouble) = &self.trouble {
            say(format!("The recording stopped before the program did: {trouble}."));
        }
        if let (Some(held_back), Some(slowed)) = (&self.held_back, &self.about.slowed) {
            say(held_back.words(slowed, self.about.period_ns));
        }
        if throttled > 0 {
            say(format!("The kernel paused sampling {throttled} times because the rate is too high."));
        }
        if malformed > 0 {
            say(format!("{malformed} records of the kernel made no sense and were left out."));
        }
        if unmapped > 0 {
            say(format!("{unmapped} of {samples} samples lie in memory that no record told of."));
        }
        if crowded > 0 {
            say(format!(
                "{crowded} of {samples} samples lie at more places than are kept: their code is not named."
            ));
        }
        let share = 100.0 * own as f64 / (own + samples).max(1) as f64;
        if share >= 0.1 && own + samples >= FEWEST_FOR_A_SHARE {
            say(format!(
                "{share:.1} % of the program's time in user mode went to memwall's own notes of its allocations; these \
                 samples are left out."
            ));
        }
        if let Some(end) = sudden_end(ending).filter(|_| self.recorder.heap.is_some()) {
            say(format!(
                "{end}. If it is not when it runs alone, memwall may be to blame: --no-heap leaves out the library that \
                 memwall loads into it."
            ));
        }
        if !self.is_child && ending == Ending::Unknown {
            say("The process ended while it was recorded; only its parent knows its exit code.".into());
        }
        if self.is_child && !is_whole {
            say("Processor time of the program is left out: the recording does not span all of its run."
                .into());
        }
    }

    /// Files that code was run from and that are gone. One that could not be read has its own remark.
    fn gone(&self) -> Vec<String> {
        let modules = &self.recorder.modules;
        let abouts = modules.recorded().iter().map(|&number| &modules.get(number).about);
        abouts
            .filter(|about| about.kind == ModuleKind::File && about.problem.is_none())
            .filter(|about| !Path::new(&about.path).exists())
            .map(|about| format!("{} is gone from the disk; its code was read before.", about.path))
            .collect()
    }

    /// What is not known about data and callers, and why.
    fn data_remarks(&mut self) {
        let recorder = &mut self.recorder;
        let mut all = Vec::new();
        if let Some(reason) = &self.no_heap {
            all.push(format!(
                "Allocations are not known: {reason}. Data on the heap is named by its mapping."
            ));
        }
        all.extend(recorder.heap.iter().flat_map(Heap::remarks));
        if recorder.chains.left_out > 0 {
            let count = recorder.chains.left_out;
            all.push(format!(
                "{count} samples have no call chain, since there were too many different ones."
            ));
        }
        all.iter().for_each(|text| recorder.writer.remark(text));
    }
}
