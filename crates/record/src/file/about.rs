//! What a recording says of itself, as keys and values and back.

use std::collections::BTreeMap;

use machine::profile::{Fingerprint, Noise};
use rusqlite::types::Value;

use crate::run::{About, Ending, SlowedSampling, Usage};

/// The keys and values of `about`. Absent values have no key. The command has a table of its own.
pub(super) fn pairs(about: &About) -> Vec<(&'static str, Value)> {
    let mut pairs = AboutPairs(Vec::new());
    pairs.text("memwall", &about.memwall);
    pairs.number("attached_pid", about.attached.map(u64::from));
    pairs.number("started_at", Some(about.started_at));
    pairs.text("machine_id", &about.fingerprint.id);
    pairs.text("machine_cpu", &about.fingerprint.cpu);
    pairs.text("machine_microcode", &about.fingerprint.microcode);
    pairs.text("machine_topology", &about.fingerprint.topology);
    pairs.text("machine_kernel", &about.fingerprint.kernel);
    pairs.text("machine_hypervisor", &about.fingerprint.hypervisor);
    pairs.real("rate_hz", Some(about.rate_hz));
    pairs.real("period_ns", Some(about.period_ns));
    pairs.number("skid_instructions", Some(about.skid_instructions.into()));
    pairs.number("slice_ns", Some(about.slice_ns));
    pairs.number("elapsed_ns", about.elapsed_ns);
    pairs.number("slowed_from_ns", about.slowed.map(|slowed| slowed.from_ns));
    pairs.real("counted_before", about.slowed.map(|slowed| slowed.counted_before));
    pairs.real("clock_hz", about.clock_hz);
    pairs.ending(about.ending);
    pairs.number("lost_samples", about.lost_samples);
    if let Some(usage) = &about.usage {
        usage_fields(usage).into_iter().for_each(|(key, value)| pairs.number(key, Some(value)));
    }
    if let Some(noise) = &about.noise {
        pairs.real("noise_wall_ns", Some(noise.wall_ns));
        pairs.real("noise_steal_ns", noise.steal_ns);
        pairs.number("noise_involuntary_switches", noise.involuntary_switches);
        pairs.real("noise_spread", noise.spread);
    }
    pairs.0
}

/// The other way. The error names the key that is missing or has the wrong type.
pub(super) fn from_pairs(pairs: &BTreeMap<String, Value>, command: Vec<String>) -> Result<About, String> {
    let keys = Keys(pairs);
    let fingerprint = Fingerprint {
        id: keys.text("machine_id")?,
        cpu: keys.text("machine_cpu")?,
        microcode: keys.text("machine_microcode")?,
        topology: keys.text("machine_topology")?,
        kernel: keys.text("machine_kernel")?,
        hypervisor: keys.text("machine_hypervisor")?,
    };
    let skid = keys.required("skid_instructions")?;
    Ok(About {
        memwall: keys.text("memwall")?,
        command,
        attached: keys.number("attached_pid")?.map(|pid| narrow("attached_pid", pid)).transpose()?,
        started_at: keys.required("started_at")?,
        fingerprint,
        rate_hz: keys.positive("rate_hz")?,
        period_ns: keys.positive("period_ns")?,
        skid_instructions: narrow("skid_instructions", skid)?,
        elapsed_ns: keys.number("elapsed_ns")?,
        ending: keys.ending()?,
        usage: keys.usage()?,
        lost_samples: keys.number("lost_samples")?,
        noise: keys.noise()?,
        slice_ns: keys.required("slice_ns")?.max(1),
        slowed: keys.slowed()?,
        clock_hz: if pairs.contains_key("clock_hz") { Some(keys.positive("clock_hz")?) } else { None },
    })
}

fn narrow(key: &str, value: u64) -> Result<u32, String> {
    u32::try_from(value).map_err(|_| format!("'{key}' in table about is {value}"))
}

fn usage_fields(usage: &Usage) -> [(&'static str, u64); 7] {
    [
        ("user_ns", usage.user_ns),
        ("system_ns", usage.system_ns),
        ("peak_resident_bytes", usage.peak_resident_bytes),
        ("minor_faults", usage.minor_faults),
        ("major_faults", usage.major_faults),
        ("voluntary_switches", usage.voluntary_switches),
        ("involuntary_switches", usage.involuntary_switches),
    ]
}

struct AboutPairs(Vec<(&'static str, Value)>);

impl AboutPairs {
    fn text(&mut self, key: &'static str, value: &str) {
        self.0.push((key, Value::Text(value.to_owned())));
    }

    fn number(&mut self, key: &'static str, value: Option<u64>) {
        self.0.extend(value.map(|value| (key, Value::Integer(value.cast_signed()))));
    }

    fn real(&mut self, key: &'static str, value: Option<f64>) {
        self.0.extend(value.map(|value| (key, Value::Real(value))));
    }

    fn ending(&mut self, ending: Ending) {
        let (word, number) = match ending {
            Ending::Exited(code) => ("exited", Some(code)),
            Ending::Signalled(signal) => ("signalled", Some(signal)),
            Ending::Detached => ("detached", None),
            Ending::Unknown => return,
        };
        self.text("ending", word);
        self.0.extend(number.map(|number| ("ending_number", Value::Integer(number.into()))));
    }
}

struct Keys<'a>(&'a BTreeMap<String, Value>);

impl Keys<'_> {
    fn wrong(key: &str) -> String {
        format!("'{key}' in table about is missing or of the wrong type")
    }

    fn text(&self, key: &str) -> Result<String, String> {
        match self.0.get(key) {
            Some(Value::Text(text)) => Ok(text.clone()),
            _ => Err(Self::wrong(key)),
        }
    }

    fn number(&self, key: &str) -> Result<Option<u64>, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Integer(number)) => Ok(Some(number.cast_unsigned())),
            Some(_) => Err(Self::wrong(key)),
        }
    }

    fn required(&self, key: &str) -> Result<u64, String> {
        self.number(key)?.ok_or_else(|| Self::wrong(key))
    }

    fn real(&self, key: &str) -> Result<Option<f64>, String> {
        match self.0.get(key) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Real(number)) => Ok(Some(*number)),
            // Other clients may write whole numbers.
            Some(Value::Integer(number)) => Ok(Some(*number as f64)),
            Some(_) => Err(Self::wrong(key)),
        }
    }

    fn positive(&self, key: &str) -> Result<f64, String> {
        let value = self.real(key)?.filter(|value| value.is_normal() && *value > 0.0);
        value.ok_or_else(|| Self::wrong(key))
    }

    fn ending(&self) -> Result<Ending, String> {
        let number = || match self.0.get("ending_number") {
            Some(Value::Integer(number)) => i32::try_from(*number).map_err(|_| Self::wrong("ending_number")),
            _ => Err(Self::wrong("ending_number")),
        };
        match self.0.get("ending") {
            None | Some(Value::Null) => Ok(Ending::Unknown),
            Some(Value::Text(word)) => match word.as_str() {
                "exited" => number().map(Ending::Exited),
                "signalled" => number().map(Ending::Signalled),
                "detached" => Ok(Ending::Detached),
                _ => Err(format!("'ending' in table about is '{word}'")),
            },
            Some(_) => Err(Self::wrong("ending")),
        }
    }

    fn usage(&self) -> Result<Option<Usage>, String> {
        if self.number("user_ns")?.is_none() {
            return Ok(None);
        }
        Ok(Some(Usage {
            user_ns: self.required("user_ns")?,
            system_ns: self.required("system_ns")?,
            peak_resident_bytes: self.required("peak_resident_bytes")?,
            minor_faults: self.required("minor_faults")?,
            major_faults: self.required("major_faults")?,
            voluntary_switches: self.required("voluntary_switches")?,
            involuntary_switches: self.required("involuntary_switches")?,
        }))
    }

    fn slowed(&self) -> Result<Option<SlowedSampling>, String> {
        let Some(from_ns) = self.number("slowed_from_ns")? else { return Ok(None) };
        Ok(Some(SlowedSampling { from_ns, counted_before: self.positive("counted_before")? }))
    }

    fn noise(&self) -> Result<Option<Noise>, String> {
        let Some(wall_ns) = self.real("noise_wall_ns")? else { return Ok(None) };
        Ok(Some(Noise {
            wall_ns,
            steal_ns: self.real("noise_steal_ns")?,
            involuntary_switches: self.number("noise_involuntary_switches")?,
            spread: self.real("noise_spread")?,
        }))
    }
}
