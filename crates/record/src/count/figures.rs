//! What was measured of a machine, as formulas ask for it.

use std::collections::BTreeMap;

use machine::Profile;
use serde::{Deserialize, Serialize};
use trust::TrustCatalogue;

/// Who measured a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MeasuredBy {
    /// The profile of the machine.
    #[serde(rename = "memwall calibrate")]
    Calibrate,
    /// The maximal rates of known work.
    #[serde(rename = "memwall validate")]
    Validate,
}

impl MeasuredBy {
    /// What to type for it.
    pub const fn command(self) -> &'static str {
        match self {
            Self::Calibrate => "memwall calibrate",
            Self::Validate => "memwall validate",
        }
    }
}

/// A machine's profile, and the maximal rates that its validation found.
#[derive(Clone, Debug, Default)]
pub struct MachineFigures {
    profile: Option<Profile>,
    /// Bytes per second by name, of the whole machine.
    validated: BTreeMap<&'static str, f64>,
}

impl MachineFigures {
    /// Of a machine with so many packages: known work runs on one of them.
    pub fn of(profile: Option<Profile>, trusted: &TrustCatalogue, packages: usize) -> Self {
        let whole = |(name, rate): (&'static str, f64)| (name, rate * packages.max(1) as f64);
        Self { profile, validated: trusted.peaks().into_iter().map(whole).collect() }
    }

    /// A figure by name, and who measured it. Of a rate that both found it is the higher: 100 % is the most that was ever moved.
    pub fn figure(&self, name: &str) -> Option<(f64, MeasuredBy)> {
        let calibrated = self.profile.as_ref().and_then(|profile| profile.figure(name));
        let validated = self.validated.get(name).copied();
        match (validated, calibrated) {
            (Some(rate), other) if other.is_none_or(|other| other <= rate) => {
                Some((rate, MeasuredBy::Validate))
            }
            (_, other) => Some((other?, MeasuredBy::Calibrate)),
        }
    }
}

impl From<Profile> for MachineFigures {
    /// Of a machine that was not validated.
    fn from(profile: Profile) -> Self {
        Self { profile: Some(profile), validated: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use machine::profile::{Bandwidths, Estimate, LevelName, ProfileLevel};

    use super::*;

    /// A machine whose memory moved so much when it was calibrated, and so much when it was validated.
    fn figures(calibrated: Option<f64>, validated: Option<f64>) -> MachineFigures {
        let rate = |value| Estimate { value, low: value, high: value, samples: 1 };
        let mut profile = Profile::unmeasured();
        let all_cores = Bandwidths { load: calibrated.map(rate), ..Bandwidths::default() };
        let memory = ProfileLevel::unmeasured(LevelName::Memory { node: 0, local: true });
        profile.levels = vec![ProfileLevel { all_cores, ..memory }];
        let validated = validated.map(|rate| ("whole_memory_traffic_peak", rate)).into_iter().collect();
        MachineFigures { profile: Some(profile), validated }
    }

    #[test]
    fn the_higher_rate_is_all_there_is_and_its_maker_is_named() {
        let peak = |calibrated, validated| figures(calibrated, validated).figure("whole_memory_traffic_peak");
        assert_eq!(peak(Some(5e9), Some(7e9)), Some((7e9, MeasuredBy::Validate)));
        assert_eq!(peak(Some(8e9), Some(7e9)), Some((8e9, MeasuredBy::Calibrate)));
        assert_eq!(peak(Some(8e9), None), Some((8e9, MeasuredBy::Calibrate)));
        assert_eq!(peak(None, Some(7e9)), Some((7e9, MeasuredBy::Validate)));
        assert_eq!(peak(None, None), None);
        assert_eq!(figures(None, Some(7e9)).figure("l3_traffic_peak"), None, "another level");
    }
}
