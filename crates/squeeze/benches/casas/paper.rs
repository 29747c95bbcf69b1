//! §3.1 to §3.3: what the paper's threads take, beside what it published.

use kernels::draw::Distribution;
use machine::{
    model::Model,
    squeezing::{SqueezeForm, SqueezeKind, SqueezePoint, SqueezeVictim},
};
use squeeze::victims::KnownVictim;

/// Cache that 0 to 5 threads leave, MB (casas2017 §3.2.3; §5.2 says 4 and 3 for the last two).
const PUBLISHED_MB: [&str; 6] = ["20", "15", "12", "7", "5 (4)", "2.5 (3)"];
const MIB: f64 = 1048576.0;

pub fn print(model: &Model, divisor: u32, all: bool) {
    let times = [1.5, 2.6, 3.7];
    let distributions: Vec<Distribution> = match all {
        true => Distribution::ALL.to_vec(),
        false => vec![Distribution::Uni, Distribution::Norm4, Distribution::Exp8, Distribution::Tri2],
    };
    let victims = distributions.iter().enumerate().flat_map(|(index, distribution)| {
        let rates: &[u64] = if all || index == 0 { &[1, 10, 100] } else { &[1] };
        rates.iter().map(move |additions| KnownVictim {
            distribution: *distribution,
            additions: *additions,
            times: times[index % times.len()],
        })
    });
    let (domain, profile) = super::calibrated(model, Some(SqueezeForm::Paper), victims.collect());
    let whole = |bytes: f64| bytes * f64::from(divisor) / MIB;
    println!("\nRoom in the cache, MB of the whole machine, by storage threads (4 MB each)\n");
    println!(
        "| threads | published | middle | least | most | rate 1 | rate 10 | rate 100 | bandwidth left % |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (threads, point) in profile.storage.iter().enumerate() {
        let Some(left) = point.cache_left else { continue };
        let of_rate = |additions: u64| {
            middle(point, additions).map_or("–".to_owned(), |v| format!("{:.1}", whole(v)))
        };
        println!(
            "| {threads} | {} | {:.1} | {:.1} | {:.1} | {} | {} | {} | {:.0} |",
            PUBLISHED_MB.get(threads).unwrap_or(&"–"),
            whole(left.value),
            whole(left.low),
            whole(left.high),
            of_rate(1),
            of_rate(10),
            of_rate(100),
            share(point, &profile.storage[0], SqueezeKind::Bandwidth),
        );
    }
    let each = profile.bandwidths.get(1).and_then(|point| point.interference);
    println!(
        "\nBandwidth threads: 44 buffers of {} together for each, whole bandwidth {:.1} GB/s (published: about 40)\n",
        each.map_or(machine::Bytes(0), |one| one.bytes_each),
        profile.bandwidth / 1e9
    );
    println!("| threads | counted, GB/s | by eq. 1, GB/s | published | bandwidth left % | cache left % |");
    println!("|---|---|---|---|---|---|");
    for (threads, point) in profile.bandwidths.iter().enumerate().skip(1) {
        println!(
            "| {threads} | {:.1} | {} | {:.1} | {:.0} | {:.0} |",
            point.drawn.unwrap_or(f64::NAN) / 1e9,
            point.drawn_by_misses.map_or("–".to_owned(), |drawn| format!("{:.1}", drawn / 1e9)),
            5.6 * threads as f64,
            share(point, &profile.bandwidths[0], SqueezeKind::Bandwidth),
            share(point, &profile.bandwidths[0], SqueezeKind::Storage),
        );
    }
    println!("\n§3.2.2, 0 threads: hit rates expected at {} against counted", domain.cache);
    model_error(&profile.storage[0].victims, domain.cache.0);
    println!(
        "orthogonal: {} storage strengths, {} bandwidth strengths (published: 5, 2)",
        profile.storage_orthogonal - 1,
        profile.bandwidth_orthogonal - 1
    );
}

fn middle(point: &SqueezePoint, additions: u64) -> Option<f64> {
    let mut found: Vec<f64> = point
        .victims
        .iter()
        .filter(|victim| victim.additions == additions)
        .filter_map(|victim| victim.capacity)
        .collect();
    found.sort_by(f64::total_cmp);
    found.get(found.len() / 2).copied()
}

fn share(point: &SqueezePoint, none: &SqueezePoint, kind: SqueezeKind) -> f64 {
    let left = |point: &SqueezePoint| point.left(kind).map_or(f64::NAN, |left| left.value);
    100.0 * left(point) / left(none)
}

/// How far expected miss rates are from counted ones, by both formulas.
fn model_error(victims: &[SqueezeVictim], cache: u64) {
    let (mut che, mut casas) = (Vec::new(), Vec::new());
    for victim in victims {
        let Ok(distribution) = victim.distribution.parse::<Distribution>() else { continue };
        let Ok(table) = kernels::draw::DrawTable::new(distribution, victim.size.0 / 4) else { continue };
        let granule = std::num::NonZeroU64::new(16).expect("16");
        che.push((table.hit_rate_che(cache / 4, granule) - victim.hit_rate).abs() * 100.0);
        casas.push((table.hit_rate_casas(cache / 4).min(1.0) - victim.hit_rate).abs() * 100.0);
    }
    for (name, errors) in [("Che", che), ("eq. 4", casas)] {
        let many = errors.len().max(1) as f64;
        let mean = errors.iter().sum::<f64>() / many;
        let deviation = (errors.iter().map(|error| (error - mean).powi(2)).sum::<f64>() / many).sqrt();
        println!("  {name}: mean error {mean:.1} points, plus one deviation {:.1}", mean + deviation);
    }
}
