//! Which strengths to try next.

use machine::squeezing::SqueezeKind;
use record::squeeze::{HarmVerdict, SqueezeEnd};

use super::{MOST_ROUNDS, SessionProgress, SqueezeSession};
use crate::{
    SqueezeError, mixture,
    slowdown::{self, LEAST_ROUNDS},
};

/// Between what did not harm and what did; indices into all strengths.
#[derive(Clone, Copy, Debug)]
struct Bracket {
    /// The strongest that is known to be harmless; none: no interference at all.
    harmless: Option<usize>,
    harmful: usize,
    first: usize,
}

impl Bracket {
    /// The strength half way; none if they are neighbours.
    fn middle(&self) -> Option<usize> {
        let low = self.harmless.map_or(self.first as i64 - 1, |index| index as i64);
        let middle = (low + self.harmful as i64) / 2;
        (middle > low && middle < self.harmful as i64).then_some(middle.max(self.first as i64) as usize)
    }
}

impl SqueezeSession<'_> {
    /// Full strength, then the knees, then the rest of the curves.
    pub(super) fn search(&mut self) -> Result<(), SqueezeError> {
        if self.tried.is_empty() {
            return Ok(());
        }
        if self.subject.is_exact() && self.tried.iter().all(|tried| !tried.rung.known.is_empty()) {
            // One run of each tells all there is to tell.
            return self.try_out(&(0..self.tried.len()).collect::<Vec<_>>());
        }
        let full = self.strongest_that_runs()?;
        let mut brackets: Vec<Bracket> = full
            .into_iter()
            .filter(|index| self.verdict(*index) == HarmVerdict::Harmful)
            .map(|harmful| {
                let first = self.of_kind(self.tried[harmful].kind)[0];
                Bracket { harmless: None, harmful, first }
            })
            .collect();
        loop {
            let middles: Vec<usize> = brackets.iter().filter_map(Bracket::middle).collect();
            if middles.is_empty() || self.ended.is_some() {
                break;
            }
            self.try_out(&middles)?;
            let verdicts: Vec<(usize, HarmVerdict)> =
                middles.iter().map(|index| (*index, self.verdict(*index))).collect();
            brackets.retain_mut(|bracket| {
                let Some(middle) = bracket.middle() else { return false };
                let verdict =
                    verdicts.iter().find(|(index, _)| *index == middle).map(|(_, verdict)| *verdict);
                match verdict {
                    Some(HarmVerdict::Harmful) => bracket.harmful = middle,
                    Some(HarmVerdict::Harmless) => bracket.harmless = Some(middle),
                    // What stays open ends the search: both sides of it are as far as it got.
                    _ => return false,
                }
                true
            });
        }
        if self.plan.whole_curves {
            self.fill_in()?;
        }
        if self.ended.is_none() && self.tried_ones().any(|index| self.verdict(index) == HarmVerdict::Open) {
            self.ended = Some(SqueezeEnd::Rounds);
        }
        Ok(())
    }

    /// Full strength of each kind; where the program does not stand it, the next below.
    fn strongest_that_runs(&mut self) -> Result<Vec<usize>, SqueezeError> {
        loop {
            let stands = |index: &&usize| !self.tried[**index].is_given_up();
            let strongest: Vec<usize> = SqueezeKind::ALL
                .iter()
                .filter_map(|kind| self.of_kind(*kind).iter().rfind(stands).copied())
                .collect();
            self.try_out(&strongest)?;
            if self.ended.is_some() || strongest.iter().all(|index| !self.tried[*index].is_given_up()) {
                return Ok(strongest);
            }
        }
    }

    /// The strengths of a kind, weakest first.
    fn of_kind(&self, kind: SqueezeKind) -> Vec<usize> {
        (0..self.tried.len()).filter(|index| self.tried[*index].kind == kind).collect()
    }

    fn tried_ones(&self) -> impl Iterator<Item = usize> {
        (0..self.tried.len()).filter(|index| !self.tried[*index].ratios.is_empty())
    }

    fn verdict(&self, index: usize) -> HarmVerdict {
        let tried = &self.tried[index];
        slowdown::verdict(&tried.ratios, self.plan.harm, self.subject.is_exact())
    }

    /// Rounds until each of these is decided and what it loses is explained, or it has had its share.
    fn try_out(&mut self, strengths: &[usize]) -> Result<(), SqueezeError> {
        self.rounds_until(strengths, MOST_ROUNDS, |session, index| {
            slowdown::worth_a_look(session.tried[index].ratios.len())
                && session.verdict(index) != HarmVerdict::Open
                && (!session.tells_more(index) || session.is_explained())
        })
    }

    /// Whether more rounds of a strength could tell known programs apart: its noise is not small beside what they are off by.
    fn tells_more(&self, index: usize) -> bool {
        let tried = &self.tried[index];
        !tried.rung.known.is_empty()
            && slowdown::slowdown(&tried.ratios).is_some_and(|found| !mixture::is_sharp(&found))
    }

    /// The strengths that were passed over, each as often as an interval needs; only of kinds that harm.
    fn fill_in(&mut self) -> Result<(), SqueezeError> {
        for kind in SqueezeKind::ALL {
            let all = self.of_kind(kind);
            if !all.iter().any(|index| self.verdict(*index) == HarmVerdict::Harmful) {
                continue;
            }
            let missing: Vec<usize> =
                all.into_iter().filter(|index| self.tried[*index].ratios.is_empty()).collect();
            self.rounds_until(&missing, LEAST_ROUNDS, |_, _| false)?;
        }
        Ok(())
    }

    fn rounds_until(
        &mut self,
        strengths: &[usize],
        most: usize,
        done: impl Fn(&Self, usize) -> bool,
    ) -> Result<(), SqueezeError> {
        let exact = self.subject.is_exact();
        let mut open = strengths.to_vec();
        loop {
            // What is told stays so: looking again each round would only take time.
            open.retain(|index| {
                let tried = &self.tried[*index];
                let rounds = tried.ratios.len() + tried.bad;
                let told = if exact { rounds >= 1 } else { rounds >= most || done(self, *index) };
                let enough = told || tried.is_given_up();
                !enough
            });
            if open.is_empty() || !self.may_go_on(open.len()) {
                return Ok(());
            }
            self.run_round(&open)?;
            self.tell(open.len(), most);
        }
    }

    /// So many runs of this round are still to come, and nothing after it: one run tells all.
    pub(super) fn tell_of(&mut self, runs_left: usize) {
        let each = self.running_s / self.runs.len().max(1) as f64;
        let seconds_left = each * runs_left as f64;
        (self.watch)(SessionProgress { runs: self.runs.len(), runs_left, seconds_left });
    }

    /// How much is still to come at most: the rest of these rounds, and as much again for each halving that is left.
    fn tell(&mut self, strengths: usize, most: usize) {
        let each = self.running_s / self.runs.len().max(1) as f64;
        let done = self.tried_ones().map(|index| self.tried[index].ratios.len()).min().unwrap_or(0);
        // Most are decided at one of the first looks.
        let rest = (2 * LEAST_ROUNDS).max(done + done / 2).min(most).saturating_sub(done) * (strengths + 1);
        let spent_s = self.subject.now_s() - self.started_s;
        let by_budget = self.plan.budget_s.map_or(f64::INFINITY, |budget| (budget - spent_s).max(0.0));
        let seconds_left = (rest as f64 * each).min(by_budget);
        let runs_left = if each > 0.0 { (seconds_left / each) as usize } else { rest };
        (self.watch)(SessionProgress { runs: self.runs.len(), runs_left, seconds_left });
    }
}
