//! The end of an import: what the recording says of itself, and what its reader should know.

use std::{collections::BTreeMap, path::Path};

use record::{
    count::Counts,
    file::{Code, Writer},
    import::{ImportFile, ImportMachine, ImportRecord, Omission},
    run::About,
    sampled::{EventUse, RecordedEvent},
};
use recorder::{Replay, ReplayOutcome};
use trust::Validation;

use crate::{
    ImportError, ImportOutcome, facts, folder::PerfFolder, images::ImageFolders, origin,
    perf_data::PerfOutcome, writing::RecordingConsumer, written_at,
};

/// All that is known when everything was read.
pub(crate) struct Conclusion<'a> {
    pub begun: About,
    pub recorded: Option<(&'a Path, PerfOutcome)>,
    pub counted: Vec<(ImportFile, Counts)>,
    pub machine: ImportMachine,
    pub validation: Option<Validation>,
    pub folders: ImageFolders,
}

impl Conclusion<'_> {
    /// Writes it down.
    pub fn write(self, mut consumer: RecordingConsumer) -> Result<ImportOutcome, ImportError> {
        consumer.write_areas();
        consumer.settle_uses();
        let Some(mut replay) = consumer.replay.take() else { return self.write_counts(consumer) };
        let nameless = self.name_kernel(&consumer, &mut replay);
        let (origin_ns, elapsed_ns) = (replay.origin_ns(), replay.elapsed_ns());
        let mut said = None;
        let writer = replay.finish(|writer, outcome| {
            let record = self.record(&consumer, origin_ns);
            let mut remarks = self.remarks(&consumer, outcome);
            remarks.extend(nameless);
            let about = self.about(&mut consumer, elapsed_ns);
            remarks.iter().for_each(|text| writer.remark(text));
            writer.import(record.clone());
            said = Some((record, remarks));
            about
        })?;
        let (record, remarks) = said.unwrap_or_default();
        Ok(outcome(&writer, record, remarks))
    }

    /// Names the functions of the kernel, or says why not. Without samples in it nobody asks.
    fn name_kernel(&self, consumer: &RecordingConsumer, replay: &mut Replay) -> Option<String> {
        let (path, outcome) = self.recorded.as_ref()?;
        consumer.events.iter().find(|event| event.in_kernel > 0)?;
        let machine = &outcome.machine;
        let listed = machine.build_ids.get(facts::KERNEL).map(Vec::as_slice);
        let saved = PerfFolder::at(path).ok().flatten().and_then(|folder| folder.kernel_symbols);
        let release = machine.kernel.as_deref();
        match consumer.kernel.functions(listed, release, &self.folders, saved.as_deref()) {
            Ok(names) => {
                replay.name_kernel(names);
                None
            }
            Err(why) => Some(format!("Functions of the kernel have no names: {why}.")),
        }
    }

    /// Nothing was sampled.
    fn write_counts(self, mut consumer: RecordingConsumer) -> Result<ImportOutcome, ImportError> {
        let record = self.record(&consumer, None);
        let about = self.about(&mut consumer, 0);
        let mut writer = consumer.into_writer()?;
        let remarks = vec!["Nothing was sampled: the files hold counts only.".to_owned()];
        remarks.iter().for_each(|text| writer.remark(text));
        writer.loads_asked(Some("the files hold counts only"));
        writer.import(record.clone());
        writer.finish(&about, &Code::default())?;
        Ok(outcome(&writer, record, remarks))
    }

    fn about(&self, consumer: &mut RecordingConsumer, elapsed_ns: u64) -> About {
        let period_ns = consumer.pace.period_ns();
        let counted =
            self.counted.iter().flat_map(|(_, counts)| &counts.runs).map(|run| run.elapsed_ns).max();
        let command = match &self.recorded {
            Some((_, outcome)) => outcome.machine.command.clone(),
            None => self.counted.iter().map(|(file, _)| file.path.clone()).collect(),
        };
        let first = self.recorded.as_ref().map(|(path, _)| written_at(path));
        let other = || self.counted.first().map(|(file, _)| written_at(Path::new(&file.path)));
        About {
            command,
            started_at: first.or_else(other).unwrap_or(0),
            fingerprint: origin::fingerprint(&self.machine),
            rate_hz: 1e9 / period_ns,
            period_ns,
            skid_instructions: consumer.skid_instructions,
            elapsed_ns: Some(elapsed_ns)
                .filter(|elapsed| *elapsed > 0)
                .or(counted.filter(|elapsed| *elapsed > 0)),
            slowed: None,
            clock_hz: None,
            lost_samples: self.recorded.as_ref().map(|_| consumer.lost_samples),
            ..self.begun.clone()
        }
    }

    fn record(&self, consumer: &RecordingConsumer, origin_ns: Option<u64>) -> ImportRecord {
        let mut omissions: BTreeMap<String, u64> = BTreeMap::new();
        let mut files = Vec::new();
        if let Some((path, outcome)) = &self.recorded {
            omissions.extend(outcome.omissions.clone());
            let form = if outcome.is_pipe { "perf.data through a pipe" } else { "perf.data" };
            files.push(ImportFile {
                path: path.display().to_string(),
                form: form.to_owned(),
                bytes: outcome.bytes,
                perf: outcome.machine.perf.clone(),
                command: outcome.machine.command.clone(),
                cut_short: outcome.cut_short.clone(),
                origin_ns,
            });
        }
        omissions.extend(consumer.omissions.iter().map(|(what, count)| ((*what).to_owned(), *count)));
        files.extend(self.counted.iter().map(|(file, _)| file.clone()));
        ImportRecord {
            files,
            machine: self.machine.clone(),
            events: consumer.events.clone(),
            omissions: omissions.into_iter().map(|(what, count)| Omission { what, count }).collect(),
            validation: self.validation.clone().map(Box::new),
            counts: self.counted.iter().map(|(_, counts)| counts.clone()).collect(),
        }
    }

    fn remarks(&self, consumer: &RecordingConsumer, replayed: &ReplayOutcome) -> Vec<String> {
        let mut all = Vec::new();
        if let Some((path, outcome)) = &self.recorded {
            let path = path.display();
            if let Some(why) = &outcome.cut_short {
                all.push(format!("{path} was not read to its end: {why}. What came before is here."));
            }
            all.extend(outcome.faults.iter().map(|fault| format!("{path}: {fault}.")));
            all.extend(of_records(outcome, replayed));
        }
        if let (false, Some(architecture)) = (origin::is_x86_64(&self.machine), &self.machine.architecture) {
            all.push(format!(
                "Recorded on {architecture}, whose instructions memwall does not decode: what the core waited for is not \
                 known. Functions, sampled loads, events and counts are."
            ));
        }
        all.extend(of_events(&consumer.events));
        all
    }
}

fn outcome(writer: &Writer, record: ImportRecord, remarks: Vec<String>) -> ImportOutcome {
    ImportOutcome { record, samples: writer.samples(), older: writer.older().cloned(), remarks }
}

/// What happened to records on their way.
fn of_records(outcome: &PerfOutcome, replayed: &ReplayOutcome) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |count: u64, text: &str| {
        if count > 0 {
            all.push(format!("{count} {text}"));
        }
    };
    say(outcome.malformed + replayed.malformed, "records made no sense and were left out.");
    say(outcome.late, "records stand so far from their turn that their order is not certain.");
    say(replayed.throttled, "times the kernel paused an event because it came too often.");
    say(replayed.unmapped, "samples lie in memory that no record told of.");
    say(replayed.crowded, "samples lie at more places than are kept: their code is not named.");
    say(replayed.chains_left_out, "samples have no call chain, since there were too many different ones.");
    all
}

/// What samples of time say of the kernel, or that there are none.
fn of_events(events: &[RecordedEvent]) -> Vec<String> {
    let timed: Vec<&RecordedEvent> = events.iter().filter(|event| event.used_for == EventUse::Time).collect();
    let names: Vec<&str> = timed.iter().map(|event| event.name.as_str()).collect();
    let [samples, in_kernel, in_guests] = timed.iter().fold([0; 3], |[all, kernel, guests], event| {
        [all + event.samples, kernel + event.in_kernel, guests + event.in_guests]
    });
    let mut all = Vec::new();
    if timed.is_empty() {
        all.push(
            "No event of the file ticks as time goes by, as cycles and clocks do: where time went is not known.".to_owned(),
        );
    }
    let mut say = |part: u64, place: &str| {
        if part > 0 {
            let percent = part as f64 / samples as f64 * 100.0;
            all.push(format!(
                "{part} of {samples} samples of {} ({percent:.1} %) were taken in {place}; shares are of the others.",
                names.join(" and ")
            ));
        }
    };
    say(in_kernel, "the kernel");
    say(in_guests, "guests or a hypervisor");
    all
}
