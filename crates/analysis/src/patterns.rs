//! Known diseases of programs: each a file that says by which signs it is known (roehl2016 §2.2).
//!
//! A pattern computes nothing. Its signs are indicators that other parts of the analysis found: [`from_run`] takes them from
//! samples, [`from_counts`] from events. Where an indicator is missing, the pattern says what it would need.

mod counts;
mod file;
mod indicators;
mod listing;
mod remedies;
mod run;

use serde::{Deserialize, Serialize};

use crate::{findings::Confidence, scaling};

pub use counts::{RegionPatterns, SharedLoads, SharedLoadsTally, from_counts, in_regions};
pub use file::{KnownPattern, PatternClass, PatternSign, PatternSignature, SignLimit, SignSource, known};
pub use indicators::{IndicatorValue, Indicators};
pub use listing::{ListedPattern, ListedSignature, PATTERNS_SCHEMA, PatternsAnswer, patterns_here};
pub(crate) use remedies::{AccessWord, on_lines, remedy};
pub(crate) use run::from_run;

/// A pattern beside one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternFinding {
    /// Its name: `load-imbalance`.
    pub name: String,
    /// For people: `load imbalance`.
    pub title: String,
    /// What kind of problem it is.
    pub class: PatternClass,
    /// Whether the run has it.
    pub state: PatternState,
    /// How sure that is; none where it cannot be judged.
    pub confidence: Option<Confidence>,
    /// The signs that were looked at.
    pub evidence: Vec<PatternEvidence>,
    /// What would be won at most if it were gone, as a share of the time; none unless it was found and that is known.
    pub win_at_most: Option<f64>,
    /// About how much would be won, where no bound is known.
    pub win_about: Option<f64>,
    /// Where most of it is, if that is known.
    pub place: Option<String>,
    /// What to do about it, in a sentence.
    pub advice: String,
    /// What is missing to judge it, in plain sentences; empty where it was judged.
    pub needs: Vec<String>,
}

/// Whether a run has a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PatternState {
    /// All signs of a signature hold.
    Found,
    /// A sign of each signature that could be judged does not.
    Absent,
    /// No signature could be judged.
    Unknown,
}

/// One sign of a pattern beside its limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatternEvidence {
    /// The indicator.
    pub indicator: String,
    /// What it is, in words.
    pub about: String,
    /// What was measured.
    pub value: f64,
    /// Lower and upper end, where they are known.
    pub interval: Option<(f64, f64)>,
    /// From here on, or up to here, it is a sign.
    pub limit: SignLimit,
    /// Whether it is one.
    pub holds: bool,
    /// How far the indicator can be believed.
    pub confidence: Confidence,
}

/// Judges all patterns: those found first, those with most to win before others.
pub fn judge(indicators: &Indicators) -> Vec<PatternFinding> {
    let mut found: Vec<PatternFinding> = known().iter().map(|pattern| finding(pattern, indicators)).collect();
    let rank = |finding: &PatternFinding| match finding.state {
        PatternState::Found => 0,
        PatternState::Unknown => 1,
        PatternState::Absent => 2,
    };
    let win = |finding: &PatternFinding| finding.win_at_most.or(finding.win_about).unwrap_or(0.0);
    found.sort_by(|a, b| rank(a).cmp(&rank(b)).then(win(b).total_cmp(&win(a))));
    found
}

/// What a signature says.
struct Judged {
    from: SignSource,
    state: PatternState,
    confidence: Confidence,
    evidence: Vec<PatternEvidence>,
    needs: Vec<String>,
    win: Option<f64>,
    win_about: Option<f64>,
    place: Option<String>,
}

fn finding(pattern: &KnownPattern, indicators: &Indicators) -> PatternFinding {
    let scales = scaling::INDICATORS.iter().any(|name| indicators.get(name).is_ok());
    let looked_at = pattern.signatures.iter().filter(|one| scales || one.from != SignSource::Scaling);
    let judged: Vec<Judged> = looked_at.map(|signature| signature_of(signature, indicators)).collect();
    let of = |state: PatternState| judged.iter().filter(move |one| one.state == state);
    // An instrument that is there and leaves one of its signatures open has not decided against the pattern.
    let is_there = |from: SignSource| judged.iter().any(|one| one.from == from && !one.evidence.is_empty());
    let is_open = of(PatternState::Unknown).any(|one| is_there(one.from));
    let surest = |state: PatternState| of(state).max_by(|a, b| a.confidence.cmp(&b.confidence));
    let best = surest(PatternState::Found).or_else(|| surest(PatternState::Absent).filter(|_| !is_open));
    let mut needs = Vec::new();
    if best.is_none() {
        for need in judged.iter().flat_map(|one| &one.needs) {
            if !needs.contains(need) {
                needs.push(need.clone());
            }
        }
    }
    let state = best.map_or(PatternState::Unknown, |best| best.state);
    let found = best.filter(|_| state == PatternState::Found);
    PatternFinding {
        name: pattern.name.clone(),
        title: pattern.title.clone(),
        class: pattern.class,
        state,
        confidence: best.map(|best| best.confidence),
        evidence: best.map(|best| best.evidence.clone()).unwrap_or_default(),
        win_at_most: found.and_then(|found| found.win),
        win_about: found.and_then(|found| found.win_about),
        place: found.and_then(|found| found.place.clone()),
        advice: pattern.advice.clone(),
        needs,
    }
}

/// One sign that does not hold decides against a signature, whatever else is missing; it holds only if all signs do.
fn signature_of(signature: &PatternSignature, indicators: &Indicators) -> Judged {
    let (mut evidence, mut needs) = (Vec::new(), Vec::new());
    for sign in &signature.signs {
        match indicators.get(&sign.indicator) {
            Ok(value) => evidence.push(weigh(sign, value)),
            Err(need) => needs.push(need),
        }
    }
    // Other numbers of threads tell more where they were run; nobody has to.
    let known =
        signature.scaling.iter().filter_map(|sign| Some((sign, indicators.get(&sign.indicator).ok()?)));
    evidence.extend(known.map(|(sign, value)| weigh(sign, value)));
    let is_against = evidence.iter().any(|one| !one.holds);
    let state = match (is_against, needs.is_empty()) {
        (true, _) => PatternState::Absent,
        (false, true) => PatternState::Found,
        (false, false) => PatternState::Unknown,
    };
    // What decides against is as sure as the surest sign against it, what speaks for it as the weakest.
    let confidences = evidence.iter().filter(|one| !is_against || !one.holds).map(|one| one.confidence);
    let confidence = if is_against { confidences.max() } else { confidences.min() };
    let known = |name: &Option<String>| name.as_ref().and_then(|name| indicators.get(name).ok());
    let (win, about) = (known(&signature.win), known(&signature.win_about));
    let share = |win: &IndicatorValue| win.value.clamp(0.0, 1.0);
    // What must be little is nowhere.
    let signs = signature.signs.iter().filter(|sign| matches!(sign.limit, SignLimit::AtLeast(_)));
    let signs = signs.filter_map(|sign| indicators.get(&sign.indicator).ok());
    let mut places = win.into_iter().chain(about).chain(signs).filter_map(|known| known.place.clone());
    Judged {
        from: signature.from,
        state,
        confidence: confidence.unwrap_or(Confidence::Low),
        evidence,
        needs,
        win: win.map(share),
        win_about: about.map(share),
        place: places.next(),
    }
}

fn weigh(sign: &PatternSign, value: &IndicatorValue) -> PatternEvidence {
    let limit = match sign.limit {
        SignLimit::AtLeast(limit) | SignLimit::AtMost(limit) => limit,
    };
    let holds = match sign.limit {
        SignLimit::AtLeast(limit) => value.value >= limit,
        SignLimit::AtMost(limit) => value.value <= limit,
    };
    // An interval on both sides of the limit leaves it open.
    let is_open = value.interval.is_some_and(|(low, high)| low < limit && limit <= high);
    PatternEvidence {
        indicator: sign.indicator.clone(),
        about: value.about.clone(),
        value: value.value,
        interval: value.interval,
        limit: sign.limit,
        holds,
        confidence: if is_open { Confidence::Low } else { value.confidence },
    }
}

#[cfg(test)]
mod tests;
