//! Least squares with coefficients that are not negative.

/// Coefficients, none negative, with which `columns` come nearest to `target` (the active sets of Lawson and Hanson).
pub(super) fn nonnegative(columns: &[Vec<f64>], target: &[f64]) -> Vec<f64> {
    let many = columns.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let products: Vec<Vec<f64>> =
        columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect();
    let wanted: Vec<f64> = columns.iter().map(|a| dot(a, target)).collect();
    let (mut found, mut active) = (vec![0.0; many], vec![false; many]);
    // Each round takes one in; some go out again, so that a few rounds more may be needed.
    for _ in 0..4 * many {
        let gain = |one: usize| wanted[one] - dot(&products[one], &found);
        let next = (0..many).filter(|one| !active[*one]).max_by(|a, b| gain(*a).total_cmp(&gain(*b)));
        let Some(next) = next.filter(|next| gain(*next) > 1e-9 * (1.0 + wanted[*next].abs())) else { break };
        active[next] = true;
        loop {
            let trial = restricted(&products, &wanted, &active);
            let part = (0..many)
                .filter(|one| active[*one] && trial[*one] <= 0.0)
                .map(|one| (one, found[one] / (found[one] - trial[one]).max(f64::MIN_POSITIVE)))
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((first, part)) = part else {
                found = trial;
                break;
            };
            for one in 0..many {
                found[one] += part.clamp(0.0, 1.0) * (trial[one] - found[one]);
            }
            active[first] = false;
            found[first] = 0.0;
        }
    }
    found
}

/// The solution in which only active ones take part, by elimination.
fn restricted(products: &[Vec<f64>], wanted: &[f64], active: &[bool]) -> Vec<f64> {
    let chosen: Vec<usize> = (0..active.len()).filter(|one| active[*one]).collect();
    let many = chosen.len();
    let mut rows: Vec<Vec<f64>> = chosen
        .iter()
        .map(|a| chosen.iter().map(|b| products[*a][*b]).chain([wanted[*a]]).collect())
        .collect();
    for (index, row) in rows.iter_mut().enumerate() {
        // Two columns may be alike; a hair more on the diagonal decides between them.
        row[index] *= 1.0 + 1e-9;
        row[index] += 1e-12;
    }
    for pivot in 0..many {
        let row = rows[pivot].clone();
        for other in (0..many).filter(|other| *other != pivot) {
            let factor = rows[other][pivot] / row[pivot];
            rows[other].iter_mut().zip(&row).for_each(|(value, above)| *value -= factor * above);
        }
    }
    let mut solution = vec![0.0; active.len()];
    for (index, one) in chosen.into_iter().enumerate() {
        solution[one] = rows[index][many] / rows[index][index];
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn none_is_negative() {
        let found = nonnegative(&[vec![1.0, 0.0], vec![0.0, 1.0]], &[2.0, -3.0]);
        assert!((found[0] - 2.0).abs() < 1e-6 && found[1] == 0.0, "{found:?}");
        assert_eq!(nonnegative(&[], &[1.0]), Vec::<f64>::new());
        let alike = nonnegative(&[vec![1.0, 1.0], vec![1.0, 1.0]], &[2.0, 2.0]);
        assert!((alike.iter().sum::<f64>() - 2.0).abs() < 1e-3, "{alike:?}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn what_was_mixed_is_found(
            shares in proptest::collection::vec(0.0f64..2.0, 4),
            values in proptest::collection::vec(-1.0f64..1.0, 40),
        ) {
            let columns: Vec<Vec<f64>> = values.chunks(10).map(<[f64]>::to_vec).collect();
            let mixed = |shares: &[f64]| -> Vec<f64> {
                (0..10).map(|row| columns.iter().zip(shares).map(|(c, s)| c[row] * s).sum()).collect()
            };
            let target = mixed(&shares);
            let back = mixed(&nonnegative(&columns, &target));
            for (a, b) in back.iter().zip(&target) {
                prop_assert!((a - b).abs() < 1e-4, "{back:?} {target:?}");
            }
        }
    }
}
