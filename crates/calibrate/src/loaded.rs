//! Step: latency of one core while the others draw bandwidth (the loaders of helm2019 §4.3.1).

use kernels::Job;
use machine::{
    Bytes,
    profile::{Estimate, LevelName, LoadedLatency},
};

use super::session::Session;

/// Nops between the reads of a loader, from light load to heavy.
const DELAYS_FULL: [u64; 9] = [1024, 512, 256, 128, 64, 32, 16, 8, 0];
const DELAYS_QUICK: [u64; 4] = [512, 128, 32, 0];

/// A pass under load takes about this many times a pass alone.
const SLOWED: f64 = 2.5;

/// Chases in memory alone, then against loaders of growing intensity.
pub(super) fn loaded_latency(session: &mut Session<'_>) {
    let loaders: Vec<u32> = session.cores.iter().copied().filter(|&cpu| cpu != session.cpu).collect();
    if loaders.is_empty() {
        session.remark("Only one core may be used: there is no latency under load.".to_owned());
        return;
    }
    let Some(size) = memory_size(session) else { return };
    let delays: &[u64] = if session.request.quick { &DELAYS_QUICK } else { &DELAYS_FULL };
    let Some(chase) = session.job("chase", size, &[session.cpu]) else { return };
    let begun_ns = session.left_ns();
    let Some(alone) = session.measure(&chase, delays.len() + 1) else {
        return;
    };
    let (Some(pass_ns), Some(latency_ns)) = (alone.repeated.time_ns(), alone.step_ns()) else {
        return;
    };
    keep(session, None, 0, 0.0, latency_ns);
    let left_ns = session.left_ns();
    let preparing_ns = (begun_ns - left_ns - alone.repeated.wall_ns).max(0.0);
    let delays = affordable(delays, left_ns / (SLOWED * pass_ns.value + preparing_ns));
    for (done, &nops) in delays.iter().enumerate() {
        if session.interrupted() {
            return;
        }
        under_load(session, &chase, &loaders, nops, delays.len() - done);
        session.progress((done + 1) as f64 / delays.len() as f64);
    }
}

fn under_load(session: &mut Session<'_>, chase: &Job, loaders: &[u32], nops: u64, remaining: usize) {
    let size = loader_size(session, chase.size, loaders.len());
    let Some(load) = session.job("delayed-read", size, loaders) else { return };
    let load = match load.with("nops", nops) {
        Ok(load) => load,
        Err(error) => return session.remark(format!("{error}.")),
    };
    let plan = session.plan(remaining);
    let (result, drawn) = match session.host.measure_loaded(chase, &load, &plan, session.interrupt) {
        Ok(loaded) => (Ok(loaded.chase), loaded.drawn_bytes_per_s),
        Err(error) => (Err(error), 0.0),
    };
    if let Some(latency_ns) = session.take(result).and_then(|chase| chase.step_ns()) {
        keep(session, Some(nops), loaders.len(), drawn, latency_ns);
    }
}

/// Adds a point, and says anew which of all contradict each other.
fn keep(
    session: &mut Session<'_>,
    delay_nops: Option<u64>,
    loaders: usize,
    drawn: f64,
    latency_ns: Estimate,
) {
    let point = LoadedLatency { delay_nops, loaders, drawn, latency_ns, rising_ns: None, contradicts: false };
    session.profile.loaded_latency.push(point);
    compare(&mut session.profile.loaded_latency);
}

/// More load cannot mean less latency: the nearest latencies that never fall (isotonic regression, by least squares,
/// pooling neighbours that fall), and whether each point's interval has room for its own.
fn compare(points: &mut [LoadedLatency]) {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| points[a].drawn.total_cmp(&points[b].drawn));
    let mut pools: Vec<(f64, Vec<usize>)> = Vec::new();
    for index in order {
        let mut pool = (points[index].latency_ns.value, vec![index]);
        while let Some((mean, members)) = pools.pop_if(|before| before.0 > pool.0) {
            let (a, b) = (members.len() as f64, pool.1.len() as f64);
            pool = ((mean * a + pool.0 * b) / (a + b), [members, pool.1].concat());
        }
        pools.push(pool);
    }
    for (rising_ns, index) in
        pools.iter().flat_map(|(mean, members)| members.iter().map(move |&index| (*mean, index)))
    {
        let interval = points[index].latency_ns;
        points[index].rising_ns = Some(rising_ns);
        points[index].contradicts = !(interval.low..=interval.high).contains(&rising_ns);
    }
}

/// As many delays as there is time for, at least the lightest and the heaviest, evenly spread.
fn affordable(delays: &[u64], count: f64) -> Vec<u64> {
    let last = delays.len() - 1;
    let count = (count.max(2.0) as usize).min(delays.len());
    (0..count).map(|index| delays[index * last / (count - 1)]).collect()
}

/// What local memory was measured with.
fn memory_size(session: &Session<'_>) -> Option<Bytes> {
    let local = |name: &LevelName| matches!(name, LevelName::Memory { local: true, .. });
    session.profile.levels.iter().find(|level| local(&level.name)).and_then(|level| level.measured_with)
}

/// As much for each loader as for the chase, within memory: none may find its data in a cache.
fn loader_size(session: &Session<'_>, size: Bytes, loaders: usize) -> Bytes {
    Bytes(size.0.saturating_mul(loaders as u64)).min(session.memory())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(points: &[(f64, f64, f64)]) -> Vec<(f64, bool)> {
        let point = |&(drawn, value, half): &(f64, f64, f64)| LoadedLatency {
            delay_nops: Some(0),
            loaders: 1,
            drawn,
            latency_ns: Estimate { value, low: value - half, high: value + half, samples: 9 },
            rising_ns: None,
            contradicts: false,
        };
        let mut points: Vec<LoadedLatency> = points.iter().map(point).collect();
        compare(&mut points);
        points.iter().map(|point| (point.rising_ns.unwrap_or(0.0), point.contradicts)).collect()
    }

    #[test]
    fn points_that_contradict_each_other_are_marked() {
        // 258 ns at 0.7 GB/s and 214 at 12.5 cannot both be right.
        let marked =
            marks(&[(12.5e9, 214.0, 3.0), (0.0, 120.0, 2.0), (0.7e9, 258.0, 3.0), (20e9, 280.0, 3.0)]);
        assert_eq!(marked, [(236.0, true), (120.0, false), (236.0, true), (280.0, false)]);
        // Within their intervals they can.
        assert_eq!(marks(&[(1.0, 102.0, 3.0), (2.0, 100.0, 3.0)]), [(101.0, false), (101.0, false)]);
        assert_eq!(marks(&[(1.0, 100.0, 0.0), (2.0, 100.0, 0.0)]), [(100.0, false), (100.0, false)]);
        // One that is far too high pulls down all that it contradicts.
        let pulled = marks(&[(1.0, 300.0, 1.0), (2.0, 110.0, 1.0), (3.0, 130.0, 1.0), (4.0, 400.0, 1.0)]);
        assert_eq!(pulled, [(180.0, true), (180.0, true), (180.0, true), (400.0, false)]);
    }

    #[test]
    fn the_ends_are_always_measured() {
        assert_eq!(affordable(&DELAYS_FULL, -1.0), [1024, 0]);
        assert_eq!(affordable(&DELAYS_QUICK, 3.9), [512, 128, 0]);
        assert_eq!(affordable(&DELAYS_FULL, f64::INFINITY), DELAYS_FULL);
        assert_eq!(affordable(&DELAYS_FULL, f64::NAN), [1024, 0]);
    }
}
