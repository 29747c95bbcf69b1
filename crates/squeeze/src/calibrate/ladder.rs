//! The strengths of each kind, and which form takes the most.

use kernels::draw::Distribution;
use machine::squeezing::{Interference, SqueezeForm, SqueezeKind, SqueezePoint};

use super::{
    SqueezeError,
    measuring::SqueezeBench,
    pauses::{NextPause, next_pause},
};
use crate::victims::KnownVictim;

/// Tells room in the cache where only a change matters.
const QUICK: KnownVictim = KnownVictim { distribution: Distribution::Uni, additions: 1, times: 2.0 };

/// A form's strongest point, and why it was not chosen.
type TriedForm = (SqueezePoint, String);

impl SqueezeBench<'_> {
    /// What each strength of cache interference leaves, weakest first, beginning with none.
    pub fn storage_points(&mut self) -> Result<Vec<SqueezePoint>, SqueezeError> {
        let victims = self.request.victims.clone();
        let mut points = vec![self.point(&[], &victims)?];
        for interference in self.storage_ladder() {
            if points.last().and_then(|point| point.interference) != Some(interference) {
                let mut point = self.point(&[interference], &victims)?;
                point.known = self.known_slowdowns()?;
                points.push(point);
            }
        }
        Ok(points)
    }

    /// Partitions where there are any, else threads.
    fn storage_ladder(&self) -> Vec<Interference> {
        let steps = self.request.steps.max(1);
        let divided = self.divided(self.request.storage_form, SqueezeKind::Storage);
        if !divided.is_empty() {
            return divided;
        }
        let form = self.request.storage_form.filter(|form| *form == SqueezeForm::Paper);
        let form = form.unwrap_or(SqueezeForm::Shared);
        (1..=steps).map(|step| self.domain.storage(form, step as f64 / steps as f64)).collect()
    }

    /// Strengths of the hardware's partition; none where threads are asked for.
    fn divided(&self, form: Option<SqueezeForm>, kind: SqueezeKind) -> Vec<Interference> {
        match (form, self.partition) {
            (None, Some(partition)) => partition.strengths(kind, self.request.steps),
            _ => Vec::new(),
        }
    }

    /// The same of bandwidth interference, and the strongest points of forms that were not chosen.
    pub fn bandwidth_points(&mut self) -> Result<(Vec<SqueezePoint>, Vec<TriedForm>), SqueezeError> {
        let none = self.point(&[], &[QUICK])?;
        let divided = self.divided(self.request.bandwidth_form, SqueezeKind::Bandwidth);
        if !divided.is_empty() {
            let mut points = vec![none];
            for interference in divided {
                let mut point = self.point(&[interference], &[QUICK])?;
                point.known = self.known_slowdowns()?;
                points.push(point);
            }
            return Ok((points, Vec::new()));
        }
        let (form, full, tried) = match self.request.bandwidth_form {
            Some(SqueezeForm::Paper) => (SqueezeForm::Paper, self.at_full(SqueezeForm::Paper)?, Vec::new()),
            _ => self.strongest(&none)?,
        };
        let mut points = vec![none];
        for interference in self.bandwidth_ladder(form, &full)? {
            let mut point = self.point(&[interference], &[QUICK])?;
            point.known = self.known_slowdowns()?;
            points.push(point);
        }
        let mut full = full;
        if let Some(interference) = full.interference {
            self.squeeze(&[interference])?;
            full.known = self.known_slowdowns()?;
        }
        points.push(full);
        Ok((points, tried))
    }

    fn at_full(&mut self, form: SqueezeForm) -> Result<SqueezePoint, SqueezeError> {
        let interference = self.domain.bandwidth(form, self.domain.spare.len(), 0);
        self.point(&[interference], &[QUICK])
    }

    /// The form that takes the most bandwidth with the least cache.
    fn strongest(
        &mut self,
        none: &SqueezePoint,
    ) -> Result<(SqueezeForm, SqueezePoint, Vec<TriedForm>), SqueezeError> {
        let mut candidates = Vec::new();
        for form in [SqueezeForm::Paper, SqueezeForm::Reading, SqueezeForm::Writing] {
            let point = self.at_full(form)?;
            let (bandwidth, cache) = (taken(&point, none, Of::Bandwidth), taken(&point, none, Of::Cache));
            candidates.push((bandwidth - cache.max(0.0), form, point, bandwidth, cache));
        }
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut candidates = candidates.into_iter();
        let Some((_, form, full, ..)) = candidates.next() else { return Err(SqueezeError::NoSharedCache) };
        let tried = candidates.map(|(_, form, point, bandwidth, cache)| {
            let why = format!(
                "{} took {:.0} % of the bandwidth and {:.0} % of the cache",
                form.name(),
                bandwidth.max(0.0) * 100.0,
                cache.max(0.0) * 100.0
            );
            (point, why)
        });
        Ok((form, full, tried.collect()))
    }

    /// Strengths below the full one, weakest first.
    fn bandwidth_ladder(
        &mut self,
        form: SqueezeForm,
        full: &SqueezePoint,
    ) -> Result<Vec<Interference>, SqueezeError> {
        let threads = self.domain.spare.len();
        if form == SqueezeForm::Paper {
            return Ok((1..threads).map(|threads| self.domain.bandwidth(form, threads, 0)).collect());
        }
        let Some(drawn) = full.drawn else { return Ok(Vec::new()) };
        let steps = self.request.steps.max(1);
        let mut known = vec![(0, drawn)];
        let mut ladder: Vec<Interference> = Vec::new();
        // Weak ones too: queues to memory make a stream wait long before memory is busy all the time.
        let even = (1..steps).map(|step| step as f64 / steps as f64);
        for share in [0.25, 0.5].map(|part| part / steps as f64).into_iter().chain(even) {
            let pause = self.pause_for(form, drawn * share, 0.15 * drawn * share, &mut known)?;
            let interference = self.domain.bandwidth(form, threads, pause);
            if pause > 0 && !ladder.contains(&interference) {
                ladder.push(interference);
            }
        }
        Ok(ladder)
    }

    /// The pause that draws about this much, by halving between pauses that are known to draw more and less.
    fn pause_for(
        &mut self,
        form: SqueezeForm,
        wanted: f64,
        tolerance: f64,
        known: &mut Vec<(u64, f64)>,
    ) -> Result<u64, SqueezeError> {
        loop {
            match next_pause(known, wanted, tolerance) {
                NextPause::Found(pause) => return Ok(pause),
                NextPause::Try(pause) => {
                    let interference = [self.domain.bandwidth(form, self.domain.spare.len(), pause)];
                    self.squeeze(&interference)?;
                    let idle = self.beside_idle()?;
                    known.push((pause, self.drawn(&idle, &interference).unwrap_or(0.0)));
                }
            }
        }
    }

    /// What is left under both at once, if there are CPUs for both.
    pub fn together(
        &mut self,
        storage: Option<Interference>,
        bandwidth: Option<Interference>,
    ) -> Result<Option<SqueezePoint>, SqueezeError> {
        let Some((storage, bandwidth)) = storage.zip(bandwidth) else { return Ok(None) };
        if storage.threads + bandwidth.threads > self.domain.spare.len() {
            return Ok(None);
        }
        self.point(&[storage, bandwidth], &[QUICK]).map(Some)
    }
}

enum Of {
    Bandwidth,
    Cache,
}

/// Share of a resource that is gone.
fn taken(point: &SqueezePoint, none: &SqueezePoint, of: Of) -> f64 {
    let left = |point: &SqueezePoint| match of {
        Of::Bandwidth => point.bandwidth_left,
        Of::Cache => point.cache_left,
    };
    match (left(point), left(none)) {
        (Some(left), Some(whole)) if whole.value > 0.0 => 1.0 - left.value / whole.value,
        _ => 0.0,
    }
}
