//! Distributions against numeric integration, published values and their own inverses.

use proptest::prelude::*;

use super::*;

/// Midpoint rule for ∫ f over [low, high].
fn integrate(low: f64, high: f64, f: impl Fn(f64) -> f64) -> f64 {
    let steps = 200_000;
    let width = (high - low) / f64::from(steps);
    (0..steps).map(|k| f(low + (f64::from(k) + 0.5) * width)).sum::<f64>() * width
}

fn close(a: f64, b: f64, tolerance: f64) -> bool {
    (a - b).abs() <= tolerance
}

#[test]
fn parameters_give_the_deviation_stated() {
    for d in Distribution::ALL {
        let f = |x: f64| d.shape().density(x);
        let mass = integrate(-10.0, 10.0, f);
        let mean = integrate(-10.0, 10.0, |x| x * f(x));
        let variance = integrate(-10.0, 10.0, |x| (x - mean).powi(2) * f(x));
        assert!(close(mass, 1.0, 1e-3), "{d}: mass {mass}");
        assert!(
            close(variance.sqrt(), d.untruncated_deviation(), 1e-3),
            "{d}: deviation {}",
            variance.sqrt()
        );
    }
}

#[test]
fn deviations_are_those_of_the_paper_put_right() {
    let logistic = |k: f64| (consts::PI.powi(2) / (3.0 * k * k)).sqrt();
    let published = [
        [0.25, 1.0 / 6.0, 0.125],
        [0.25, 1.0 / 6.0, 0.125],
        // Laplace has no third; the uniform one stands in its place.
        [0.25, 1.0 / 6.0, (1.0f64 / 12.0).sqrt()],
        [logistic(4.0), logistic(6.0), logistic(8.0)],
        [(0.76f64 / 18.0).sqrt(), (0.76f64 / 18.0).sqrt(), (0.84f64 / 18.0).sqrt()],
    ];
    let families = [
        [Distribution::Norm4, Distribution::Norm6, Distribution::Norm8],
        [Distribution::Exp4, Distribution::Exp6, Distribution::Exp8],
        [Distribution::Laplace4, Distribution::Laplace6, Distribution::Uni],
        [Distribution::Logistic4, Distribution::Logistic6, Distribution::Logistic8],
        [Distribution::Tri1, Distribution::Tri2, Distribution::Tri3],
    ];
    for (d, expected) in families.into_iter().flatten().zip(published.into_iter().flatten()) {
        assert!(close(d.untruncated_deviation(), expected, 1e-12), "{d}: {}", d.untruncated_deviation());
    }
}

#[test]
fn truncated_densities_are_densities() {
    for d in Distribution::ALL {
        assert!(close(integrate(0.0, 1.0, |x| d.density(x)), 1.0, 1e-8), "{d}");
        for x in [0.01, 0.2, 0.39, 0.5, 0.61, 0.9, 1.0] {
            let area = integrate(0.0, x, |y| d.density(y));
            assert!(close(area, d.cdf(x), 1e-6), "{d} at {x}: {area} and {}", d.cdf(x));
        }
        assert_eq!((d.density(-0.1), d.density(1.0), d.cdf(-1.0), d.cdf(2.0)), (0.0, 0.0, 0.0, 1.0), "{d}");
    }
}

#[test]
fn means_of_draws_match_the_density() {
    for d in Distribution::ALL {
        let by_density = integrate(0.0, 1.0, |x| x * d.density(x));
        let by_quantile = integrate(0.0, 1.0, |p| d.quantile(p));
        assert!(close(by_density, by_quantile, 1e-6), "{d}: {by_density} and {by_quantile}");
        let expected = match d.shape() {
            DistributionShape::Exponential { rate } => 1.0 / rate - 1.0 / rate.exp_m1(),
            DistributionShape::Triangular { mode } => (1.0 + mode) / 3.0,
            _ => 0.5,
        };
        assert!(close(by_density, expected, 1e-6), "{d}: {by_density} and {expected}");
    }
}

#[test]
fn normal_against_published_values() {
    for (z, p) in [
        (0.0, 0.5),
        (1.0, 0.841_344_746_068_543),
        (-2.0, 0.022_750_131_948_179),
        (4.0, 0.999_968_328_758_167),
    ] {
        assert!(close(standard_normal_cdf(z), p, 1e-14), "{z}");
        assert!(close(standard_normal_quantile(p, 4.5), z, 1e-9), "{z}");
    }
}

#[test]
fn names_round_trip() {
    for d in Distribution::ALL {
        assert_eq!(d.to_string().parse(), Ok(d));
    }
    let error = "normal".parse::<Distribution>().expect_err("not a name");
    assert!(error.to_string().contains("norm4, norm6"), "{error}");
}

proptest! {
    #[test]
    fn quantile_inverts_cdf(which in 0usize..15, p in 0.0f64..=1.0) {
        let d = Distribution::ALL[which];
        let x = d.quantile(p);
        prop_assert!((0.0..=1.0).contains(&x), "{} {}", d, x);
        prop_assert!(close(d.cdf(x), p, 1e-12), "{}: cdf({}) = {}, not {}", d, x, d.cdf(x), p);
    }

    #[test]
    fn cdf_inverts_quantile_and_rises(which in 0usize..15, x in 0.0f64..1.0, step in 0.0f64..0.5) {
        let d = Distribution::ALL[which];
        prop_assert!(close(d.quantile(d.cdf(x)), x, 1e-9), "{} at {}", d, x);
        prop_assert!(d.cdf(x + step) >= d.cdf(x));
    }
}
