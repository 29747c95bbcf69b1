//! Step: how long a line takes from one core to another.

use machine::profile::CoreToCore;

use super::session::Session;

/// Time one pair needs to give a number worth having.
const PAIR_NS: f64 = 1.5e7;

/// A pair of simulated cores costs next to nothing: so many are measured however little time is left.
const LEAST_SIMULATED: usize = 64;

/// Every pair of cores, or as many as time allows.
pub(super) fn core_to_core(session: &mut Session<'_>) {
    if session.cores.len() < 2 {
        session.remark("Only one core may be used: there is no core-to-core latency.".to_owned());
        return;
    }
    let least = if session.request.simulated.is_some() { LEAST_SIMULATED } else { 1 };
    let affordable = ((session.left_ns() / PAIR_NS).max(0.0) as usize).max(least);
    let all = pairs(&session.cores);
    let chosen = sample(&all, affordable, session.request.seed);
    if chosen.len() < all.len() {
        session.remark(format!(
            "Core-to-core latency was measured for {} of {} pairs of cores, spread evenly.",
            chosen.len(),
            all.len()
        ));
    }
    for (done, &(from, to)) in chosen.iter().enumerate() {
        if session.interrupted() {
            return;
        }
        let plan = session.plan(chosen.len() - done);
        let result = session.host.ping_pong(from, to, &plan, session.interrupt);
        if let Some(latency_ns) = session.take(result).and_then(|measured| measured.step_ns()) {
            session.profile.core_to_core.push(CoreToCore { from, to, latency_ns });
        }
        session.progress((done + 1) as f64 / chosen.len() as f64);
    }
}

fn pairs(cores: &[u32]) -> Vec<(u32, u32)> {
    cores
        .iter()
        .enumerate()
        .flat_map(|(index, &from)| cores[index + 1..].iter().map(move |&to| (from, to)))
        .collect()
}

/// `count` pairs at even distances, beginning where the seed says.
fn sample(pairs: &[(u32, u32)], count: usize, seed: u64) -> Vec<(u32, u32)> {
    if count >= pairs.len() {
        return pairs.to_vec();
    }
    let offset = (seed % pairs.len() as u64) as usize;
    let mut chosen: Vec<(u32, u32)> =
        (0..count).map(|index| pairs[(offset + index * pairs.len() / count) % pairs.len()]).collect();
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_once() {
        assert_eq!(pairs(&[0, 2, 5]), [(0, 2), (0, 5), (2, 5)]);
    }

    #[test]
    fn a_sample_has_no_pair_twice() {
        let all = pairs(&(0..32).collect::<Vec<_>>());
        for (count, seed) in [(1, 0), (7, 3), (100, u64::MAX), (495, 9), (496, 1), (1000, 2)] {
            let chosen = sample(&all, count, seed);
            let mut once = chosen.clone();
            once.dedup();
            assert_eq!((chosen.len(), once.len()), (count.min(all.len()), count.min(all.len())));
        }
    }
}
