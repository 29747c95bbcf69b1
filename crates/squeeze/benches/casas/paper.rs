//! §3.1 to §3.3: what the paper's threads take, beside what it published.

use kernels::draw::Distribution;
use machine::{
    model::Model,
    squeezing::{SqueezeForm, SqueezeKind, SqueezePoint, SqueezeVictim},
};
use squeeze::{
    casas::{self, CasasConfiguration, PUBLISHED_MB},
    victims::KnownVictim,
};

const MIB: f64 = 1048576.0;

/// Figs. 5 to 9: so many of the configurations, each beside nothing and beside its threads.
pub fn configurations(model: &Model, divisor: u32, many: usize, seed: u64) {
    let domain = squeeze::recipe::SqueezeDomain::of(&model.topology(), None, None).expect("a shared cache");
    let mut host = super::host(model, seed);
    let whole = |bytes: f64| bytes * f64::from(divisor) / MIB;
    let (mut rooms, mut errors) = (vec![Vec::new(); PUBLISHED_MB.len()], Vec::new());
    for configuration in casas::configurations(many, seed) {
        let mut tried = vec![configuration];
        if configuration.threads > 0 {
            tried.push(CasasConfiguration { threads: 0, ..configuration });
        }
        for one in tried {
            let reading = casas::measure(&mut host, &domain, one, None, &super::NEVER).expect("a reading");
            let found = &reading.found;
            let room = found.capacity.map(whole);
            println!(
                "{} | {} | {:.1} MB | {} threads | hits {:.3} | Che {:.3} | eq. 4 {:.3} | room {:.2} MB",
                found.distribution,
                found.additions,
                whole(found.size.0 as f64),
                one.threads,
                found.hit_rate,
                reading.expected_che,
                reading.expected_casas,
                room.unwrap_or(f64::NAN),
            );
            rooms[one.threads].extend(room.map(|room| (one.victim.additions, room)));
            if one.threads == 0 {
                errors.push((
                    1.0 - found.hit_rate,
                    reading.expected_che - found.hit_rate,
                    reading.expected_casas - found.hit_rate,
                ));
            }
        }
    }
    println!("\n| threads | published, MB | n | mean | sd | least | most | 1 addition | 10 | 100 |");
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for (threads, found) in rooms.iter().enumerate() {
        let of = |rate: Option<u64>| -> Vec<f64> {
            found.iter().filter(|one| rate.is_none_or(|rate| one.0 == rate)).map(|one| one.1).collect()
        };
        let all = of(None);
        let Some((mean, deviation)) = casas::spread(&all) else { continue };
        let by_rate: Vec<String> = [1, 10, 100]
            .map(|rate| {
                casas::spread(&of(Some(rate))).map_or("–".to_owned(), |(mean, _)| format!("{mean:.1}"))
            })
            .to_vec();
        println!(
            "| {threads} | {} | {} | {mean:.1} | {deviation:.1} | {:.1} | {:.1} | {} |",
            PUBLISHED_MB[threads],
            all.len(),
            all.iter().fold(f64::INFINITY, |a, b| a.min(*b)),
            all.iter().fold(0.0, |a: f64, b| a.max(*b)),
            by_rate.join(" | "),
        );
    }
    for (name, least) in [("all", 0.0), ("above half misses", 0.5)] {
        let those: Vec<_> = errors.iter().filter(|one| one.0 > least).collect();
        for (formula, pick) in [("Che", 1), ("eq. 4", 2)] {
            let off: Vec<f64> =
                those.iter().map(|one| 100.0 * if pick == 1 { one.1 } else { one.2 }.abs()).collect();
            if let Some((mean, deviation)) = casas::spread(&off) {
                println!(
                    "{name}, {formula}: {} victims, mean error {mean:.1} points, with one deviation {:.1}",
                    off.len(),
                    mean + deviation
                );
            }
        }
    }
}

/// §3.3: three storage threads, two bandwidth threads, and both at once.
pub fn both(model: &Model) {
    use host::Host as _;
    let domain = squeeze::recipe::SqueezeDomain::of(&model.topology(), None, None).expect("a shared cache");
    let storage = domain.storage(SqueezeForm::Paper, 0.6);
    let bandwidths = [
        ("the paper's", domain.bandwidth(SqueezeForm::Paper, 2, 0)),
        ("writing", domain.bandwidth(SqueezeForm::Writing, 2, 0)),
    ];
    for (name, bandwidth) in bandwidths {
        for (what, taken) in [
            ("nothing", vec![]),
            ("3 storage threads", vec![storage]),
            ("2 bandwidth threads", vec![bandwidth]),
            ("both", vec![storage, bandwidth]),
        ] {
            let mut host = super::host(model, 1);
            squeeze::recipe::take(&mut host, None, &taken, &domain.spare).expect("taken");
            let victim = KnownVictim { distribution: Distribution::Uni, additions: 1, times: 2.0 };
            let plan = host::repeat::RepeatPlan::within(1e8, 0.01);
            let reading = victim
                .watch(&mut host, domain.cache, domain.own[0], &plan, &super::NEVER)
                .expect("a reading");
            let found = victim.found(&reading, domain.cache, None).expect("a table").expect("counted");
            let job = host.job("load", machine::Bytes(domain.cache.0 * 12), &domain.own).expect("a job");
            let length = host::VictimLength { warm_up: 1500, timed: 3000 };
            let stream = host.watch_victim(&job, length, &plan, &super::NEVER).expect("a reading");
            println!(
                "{name}: {what}: room {:.1} % of the cache, a stream gets {:.1} GB/s",
                100.0 * found.capacity.unwrap_or(f64::NAN) / domain.cache.0 as f64,
                stream.measured.program_bytes_per_s().map_or(f64::NAN, |rate| rate.value / 1e9),
            );
        }
    }
}

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
            PUBLISHED_MB.get(threads).map_or("–".to_owned(), |mb| mb.to_string()),
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
