//! Prefetchers switched off, as a machine's firmware or its registers allow.

use std::{fmt, str::FromStr};

use super::{Model, Prefetchers, SourceNote};

/// A hardware prefetcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefetcher {
    /// Next line into the L1.
    L1NextLine,
    /// Stride by instruction address into the L1.
    L1Stride,
    /// The other half of a 128-byte pair into the L2.
    L2Adjacent,
    /// The streamer of the L2.
    L2Streamer,
}

impl Prefetcher {
    /// All that are known.
    pub const ALL: [Self; 4] = [Self::L1NextLine, Self::L1Stride, Self::L2Adjacent, Self::L2Streamer];

    fn name(self) -> &'static str {
        match self {
            Self::L1NextLine => "l1-next-line",
            Self::L1Stride => "l1-stride",
            Self::L2Adjacent => "l2-adjacent",
            Self::L2Streamer => "l2-streamer",
        }
    }
}

impl fmt::Display for Prefetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why prefetchers cannot be switched as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SwitchError {
    /// No prefetcher has this name.
    #[error("no prefetcher is called '{0}'; write none, or some of {all}", all = list(&Prefetcher::ALL))]
    Unknown(String),
    /// The machine does not have it.
    #[error("{model} has no {prefetcher} prefetcher; it has {has}")]
    Absent {
        /// The machine.
        model: String,
        /// What was asked for.
        prefetcher: Prefetcher,
        /// What it has.
        has: String,
    },
}

impl FromStr for Prefetcher {
    type Err = SwitchError;

    fn from_str(text: &str) -> Result<Self, SwitchError> {
        let named = |prefetcher: &Self| prefetcher.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| SwitchError::Unknown(text.to_owned()))
    }
}

/// Names with commas between them.
fn list(prefetchers: &[Prefetcher]) -> String {
    match prefetchers {
        [] => "none".to_owned(),
        some => some.iter().map(|one| one.name()).collect::<Vec<_>>().join(","),
    }
}

impl Prefetchers {
    /// Those that it has.
    pub fn present(&self) -> Vec<Prefetcher> {
        let has = |prefetcher: &Prefetcher| match prefetcher {
            Prefetcher::L1NextLine => self.l1_next_line,
            Prefetcher::L1Stride => self.l1_stride,
            Prefetcher::L2Adjacent => self.l2_adjacent,
            Prefetcher::L2Streamer => self.l2_streamer.is_some(),
        };
        Prefetcher::ALL.into_iter().filter(has).collect()
    }
}

impl Model {
    /// The same machine with only the prefetchers of a list on: names with commas between them, or `none`. It has
    /// another name, as what is measured on it is another machine's.
    ///
    /// ```
    /// use machine::model::{Model, Prefetcher};
    /// let off = Model::builtin("haswell-ep-e5-2680v3")?.with_prefetchers("none")?;
    /// assert!(off.prefetch.present().is_empty());
    /// assert_eq!(off.name, "haswell-ep-e5-2680v3+prefetchers=none");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_prefetchers(&self, names: &str) -> Result<Self, SwitchError> {
        let named = names.split(',').map(str::trim).filter(|name| *name != "none");
        let on = named.map(str::parse).collect::<Result<Vec<Prefetcher>, _>>()?;
        let present = self.prefetch.present();
        if let Some(&prefetcher) = on.iter().find(|one| !present.contains(one)) {
            let has = list(&present);
            return Err(SwitchError::Absent { model: self.name.clone(), prefetcher, has });
        }
        let kept: Vec<Prefetcher> = present.iter().copied().filter(|one| on.contains(one)).collect();
        if kept == present {
            return Ok(self.clone());
        }
        let mut model = self.clone();
        let keeps = |prefetcher| kept.contains(&prefetcher);
        model.prefetch = Prefetchers {
            l1_next_line: keeps(Prefetcher::L1NextLine),
            l1_stride: keeps(Prefetcher::L1Stride),
            l2_adjacent: keeps(Prefetcher::L2Adjacent),
            l2_streamer: self.prefetch.l2_streamer.filter(|_| keeps(Prefetcher::L2Streamer)),
        };
        let kept = list(&kept);
        model.name = format!("{}+prefetchers={kept}", self.name);
        model.title = format!("{}, prefetchers on: {kept}", self.title);
        model.sources.push(SourceNote {
            what: "prefetch".to_owned(),
            from: format!("those of {}, switched by the user", self.name),
        });
        Ok(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_none_and_all() {
        let model = Model::builtin("haswell-ep-e5-2680v3").expect("a model");
        assert_eq!(model.prefetch.present(), Prefetcher::ALL);
        let some = model.with_prefetchers("l2-streamer, l1-stride").expect("some");
        assert_eq!(some.prefetch.present(), [Prefetcher::L1Stride, Prefetcher::L2Streamer]);
        assert_eq!(some.prefetch.l2_streamer, model.prefetch.l2_streamer);
        assert_eq!(some.name, "haswell-ep-e5-2680v3+prefetchers=l1-stride,l2-streamer");
        assert!(some.check().is_ok());
        let all = Prefetcher::ALL.map(Prefetcher::name).join(",");
        assert_eq!(model.with_prefetchers(&all).as_ref(), Ok(&model), "nothing is switched");
    }

    #[test]
    fn what_is_not_there_cannot_be_on() {
        let mut model = Model::builtin("tiny").expect("a model");
        model.prefetch.l1_stride = false;
        let error = model.with_prefetchers("l1-stride").expect_err("absent").to_string();
        assert!(error.starts_with("tiny has no l1-stride prefetcher; it has "), "{error}");
        let error = model.with_prefetchers("streamer").expect_err("unknown").to_string();
        assert!(error.contains("'streamer'") && error.contains("l2-adjacent"), "{error}");
    }
}
