//! The value of an indicator that best tells two states apart.

/// Share of the experiments that may lie on the wrong side of a threshold.
const FEW_WRONG: f64 = 0.1;

/// How well one threshold tells experiments in a state from the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Separation {
    /// Above this an experiment is taken to be in the state.
    pub threshold: f64,
    /// Experiments on the wrong side.
    pub wrong: usize,
    /// Experiments whose state is known.
    pub of: usize,
    /// Highest value of those that are not in the state.
    pub highest_without: f64,
    /// Lowest value of those that are.
    pub lowest_with: f64,
}

impl Separation {
    /// Whether hardly any experiment lies on the wrong side.
    pub fn is_good(&self) -> bool {
        self.wrong as f64 <= FEW_WRONG * self.of as f64
    }
}

/// The threshold with the fewest experiments on the wrong side, halfway between two values; none unless there are
/// experiments of both kinds. Each is a value and whether it was in the state.
pub fn separate(known: &[(f64, bool)]) -> Option<Separation> {
    let of = |wanted: bool| known.iter().filter(move |(_, state)| *state == wanted).map(|(value, _)| *value);
    let (highest_without, lowest_with) = (of(false).reduce(f64::max)?, of(true).reduce(f64::min)?);
    let mut values: Vec<f64> = known.iter().map(|(value, _)| *value).collect();
    values.sort_by(f64::total_cmp);
    let between = values.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0);
    let wrong = |threshold: f64| known.iter().filter(|(value, state)| (*value > threshold) != *state).count();
    let (wrong, threshold) = between
        .map(|threshold| (wrong(threshold), threshold))
        .min_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)))?;
    Some(Separation { threshold, wrong, of: known.len(), highest_without, lowest_with })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_lies_between_the_two_kinds() {
        let found = separate(&[(1.0, false), (2.0, false), (6.0, true), (9.0, true)]).expect("both kinds");
        assert_eq!((found.threshold, found.wrong, found.of), (4.0, 0, 4));
        assert!(found.is_good());
    }

    #[test]
    fn kinds_that_overlap_have_experiments_on_the_wrong_side() {
        let found = separate(&[(1.0, true), (2.0, false), (3.0, true), (4.0, false)]).expect("both kinds");
        assert!(found.wrong > 0 && !found.is_good());
        assert_eq!(separate(&[(1.0, true), (2.0, true)]), None);
    }
}
