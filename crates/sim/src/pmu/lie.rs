//! Lies planted in counters, to see whether whoever reads them finds out.

/// What a counter tells instead of what it counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lie {
    /// So many in a hundred, as soon as so many hardware threads run.
    Percent {
        /// Of each hundred.
        told: u64,
        /// Fewer threads are told of truthfully.
        threads: usize,
    },
    /// The same number whatever runs.
    Constant(u64),
    /// What another event counts, by its name.
    Like(String),
    /// Of all hardware threads that are counted, only the first.
    FirstOnly,
}

impl Lie {
    /// What is told of a count at the `place`-th of all places, while so many threads ran.
    pub(super) fn tell(&self, counted: u64, place: usize, ran: usize) -> u64 {
        match self {
            Self::Percent { told, threads } if ran >= *threads => counted * told / 100,
            Self::Constant(number) => *number,
            Self::FirstOnly if place > 0 => 0,
            _ => counted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_lie_tells_what_it_says() {
        let undercounts = Lie::Percent { told: 60, threads: 2 };
        assert_eq!((undercounts.tell(1000, 0, 1), undercounts.tell(1000, 0, 2)), (1000, 600));
        assert_eq!(Lie::Constant(7).tell(1000, 3, 4), 7);
        assert_eq!((Lie::FirstOnly.tell(1000, 0, 2), Lie::FirstOnly.tell(1000, 1, 2)), (1000, 0));
        assert_eq!(Lie::Like("other".to_owned()).tell(1000, 0, 1), 1000);
    }
}
