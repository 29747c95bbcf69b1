//! A line handed back and forth between two CPUs.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use kernels::team::{Team, TeamError};
use machine::Bytes;
use record::bench::Work;

use crate::{
    host::Measured,
    repeat::{Executor, RepeatPlan, Sample, repeat},
};

/// The word in turn, alone on its line and on the one that a prefetcher may bring along.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Ball(AtomicU64);

/// Two threads; a pass is one round trip.
struct PingPong {
    team: Team,
    ball: Box<Ball>,
}

impl Executor for PingPong {
    type Error = TeamError;

    fn execute(&mut self, passes: u64) -> Result<Sample, TeamError> {
        let ball = &self.ball.0;
        ball.store(0, Ordering::Relaxed);
        let times = self.team.run(|member| {
            for pass in 0..passes {
                let mine = 2 * pass + member as u64;
                // No pause in the loop: it would add its own latency to that of the line. The partner cannot
                // fail to answer: it was seen running on its own CPU, and this loop has no way to panic.
                // ATOMICS: one word is all that is passed on; acquire and release keep each turn in order.
                while ball.load(Ordering::Acquire) != mine {}
                ball.store(mine + 1, Ordering::Release);
            }
        })?;
        let start_ns = times.iter().map(|time| time.start_ns).min().unwrap_or(0);
        let end_ns = times.iter().map(|time| time.end_ns).max().unwrap_or(0);
        Ok(Sample {
            wall_ns: end_ns.saturating_sub(start_ns) as f64,
            involuntary_switches: times.iter().map(|time| time.involuntary_switches).sum(),
        })
    }
}

/// Bounces a line between two different CPUs; one step of the chain is one way.
pub(super) fn measure(
    from: u32,
    to: u32,
    plan: &RepeatPlan,
    interrupt: &AtomicBool,
) -> Result<Measured, TeamError> {
    let mut game = PingPong { team: Team::start(&[from, to])?, ball: Box::default() };
    let repeated = repeat(&mut game, plan, interrupt)?;
    let work = Work { chain: 2.0, ..Work::default() };
    Ok(Measured { repeated, work, size: Bytes(64), pages: None })
}
