//! `memwall squeeze --calibrate`.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use host::{Host, native::Native, repeat::RepeatPlan, simulated::Simulated};
use kernels::draw::Distribution;
use machine::{CpuSet, Profile, Source, Topology};
use pmu::PerfEvents;
use squeeze::{
    CalibrateSqueeze, KNOWN_SETS, SqueezeError, partition::HardwarePartition, recipe::SqueezeDomain,
    victims::KnownVictim,
};

use super::{FormChoice, KeptProfile, SqueezeArgs, counting::counters};
use crate::{failure::Failure, forms::Screen, interrupt, output, progress, target::Target, trust};

/// Seconds for one victim of a real machine, and how precise it has to be.
const VICTIM_NS: f64 = 4e8;
const VICTIM_PRECISION: f64 = 0.01;
/// The same of a program of known need: there are many of them, and a mixture of several evens out.
const KNOWN_NS: f64 = 1e8;
const KNOWN_PRECISION: f64 = 0.02;
/// Data of victims, in times of the cache, as in casas2017 §3.2.3: 30 to 74 MB beside 20.
const TIMES: [f64; 3] = [1.5, 2.6, 3.7];

/// Which strengths and victims a calibration takes.
#[derive(clap::Args)]
#[command(next_help_heading = "With --calibrate")]
pub struct Strengths {
    /// How interference is made: as casas2017 does it, or in whatever form takes the most
    #[arg(long, value_enum, default_value_t = FormChoice::Strongest)]
    form: FormChoice,
    /// Strengths of each kind
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(1..=20))]
    steps: u8,
    /// Ask victims of all fifteen distributions and three rates of access, instead of some
    #[arg(long)]
    all_victims: bool,
    /// Measure and print, keep nothing
    #[arg(long)]
    dry_run: bool,
}

/// Measures, keeps and prints.
pub fn run(args: &SqueezeArgs, machine: &Target) -> Result<(), Failure> {
    let kept = KeptProfile::of(machine)?;
    if !args.strengths.dry_run {
        // Said now, not after minutes of measuring.
        kept.store.check_writable().map_err(Failure::measurement)?;
    }
    let (mut host, topology, now, name) = subject(machine, args.seed)?;
    let (domain, partition, mut said) = domain(args, machine, &topology, &kept)?;
    let request = CalibrateSqueeze {
        victims: victims(args.strengths.all_victims),
        storage_form: args.strengths.form.named(),
        bandwidth_form: args.strengths.form.named(),
        steps: usize::from(args.strengths.steps),
        known_sets: KNOWN_SETS,
        repeat: RepeatPlan::within(VICTIM_NS, VICTIM_PRECISION),
        known_repeat: RepeatPlan::within(KNOWN_NS, KNOWN_PRECISION),
        seed: args.seed,
        now,
    };
    let interrupt = interrupt::flag()?;
    let bar = progress::filling();
    let mut cost = CalibrationCost::begin(request.strengths());
    let mut tell = |what: &str, fraction: f64| {
        let left = cost.next(Instant::now()).map_or(String::new(), |left| format!(", about {left} more"));
        progress::fill(&bar, fraction, &format!("{what}{left}"));
    };
    let source = Source::live();
    let instrument = PerfEvents::new(&pmu::Live, source.clone());
    let counters = match machine {
        Target::Native => {
            counters(&instrument, &trust::of(machine), Path::new("/"), &domain, partition.as_ref())
        }
        Target::Simulated(_) => Vec::new(),
    };
    let calibrated = squeeze::calibrate(
        &mut *host,
        &domain,
        partition.as_ref(),
        counters,
        &request,
        &mut tell,
        &interrupt,
    );
    bar.finish_and_clear();
    drop(partition);
    let mut calibrated = calibrated.map_err(failure)?;
    calibrated.remarks.append(&mut said);
    if let Some(remark) = unmeasured(&kept, &domain, machine) {
        calibrated.remarks.push(remark);
    }
    let mut profile = kept.profile.clone().unwrap_or_else(|| Profile {
        fingerprint: kept.fingerprint.clone(),
        simulated: match machine {
            Target::Simulated(model) => Some(model.name.clone()),
            Target::Native => None,
        },
        measured_at: now,
        ..Profile::unmeasured()
    });
    profile.squeeze = Some(Box::new(calibrated.clone()));
    if !args.strengths.dry_run {
        kept.store.save(&profile).map_err(Failure::measurement)?;
    }
    args.page.give(|| report::html::squeeze_calibration(&calibrated, &name))?;
    args.forms.give(Screen::Out, &profile, |columns| {
        report::terminal::squeeze::calibration(&calibrated, &name, columns)
    })
}

/// What a calibration will take: told by its first strengths.
struct CalibrationCost {
    strengths: usize,
    done: usize,
    last: Option<Instant>,
    /// Of the strength that took longest.
    each: Duration,
    said: bool,
}

impl CalibrationCost {
    /// Says what is to come.
    fn begin(strengths: usize) -> Self {
        output::say(&format!(
            "about {strengths} strengths are measured; what that takes is said after the first of them"
        ));
        Self { strengths, done: 0, last: None, each: Duration::ZERO, said: false }
    }

    /// The next strength begins: what all that are left will take, if that can be told, and says it once. Beside nothing no
    /// program of known need is run, so that the first tells nothing.
    fn next(&mut self, now: Instant) -> Option<String> {
        if let Some(last) = self.last.filter(|_| self.done >= 2) {
            self.each = self.each.max(now.duration_since(last));
        }
        (self.last, self.done) = (Some(now), self.done + 1);
        if self.done < 3 {
            return None;
        }
        let left = self.strengths.saturating_sub(self.done - 1).max(1);
        let time = machine::units::nanos(self.each.as_nanos() as f64 * left as f64);
        if !std::mem::replace(&mut self.said, true) {
            output::say(&format!("about {left} strengths follow, {time} in all"));
        }
        Some(time)
    }
}

/// What is measured on, what it claims, the time, and its name.
fn subject(machine: &Target, seed: u64) -> Result<(Box<dyn Host>, Topology, u64, String), Failure> {
    match machine {
        Target::Native => {
            let source = Source::live();
            let host = Native::new(&source, seed).map_err(Failure::measurement)?;
            Ok((Box::new(host), Topology::read(&source), trust::now(), "this machine".to_owned()))
        }
        Target::Simulated(model) => {
            let host = Simulated::new(model, seed).map_err(Failure::measurement)?;
            Ok((Box::new(host), model.topology(), 0, format!("simulated {}", model.name)))
        }
    }
}

/// The cache and its CPUs, a partition for those of the program where the kernel gives one, and what is to be said of that.
fn domain(
    args: &SqueezeArgs,
    machine: &Target,
    topology: &Topology,
    kept: &KeptProfile,
) -> Result<(SqueezeDomain, Option<HardwarePartition>, Vec<String>), Failure> {
    let find = |usable| SqueezeDomain::of(topology, args.cpus.as_ref(), usable);
    let missing = || Failure::measurement(SqueezeError::NoSharedCache);
    let claimed = find(None).ok_or_else(missing)?;
    let own: CpuSet = claimed.own.iter().copied().collect();
    let mut said = Vec::new();
    let partition = match (machine, args.strengths.form) {
        (Target::Native, FormChoice::Strongest) => {
            HardwarePartition::make(Path::new("/"), claimed.level, &own, &mut |text| said.push(text))
        }
        _ => None,
    };
    if claimed.spare.is_empty() && partition.is_none() {
        return Err(Failure::Measurement(format!(
            "this machine cannot be squeezed: of {} cores around its L{} none is spare for interference; what would do: at \
             least four cores around one last-level cache, or --on sim:NAME",
            claimed.cpus.len(),
            claimed.level
        )));
    }
    let domain = find(kept.usable(claimed.level)).ok_or_else(missing)?;
    Ok((domain, partition, said))
}

fn unmeasured(kept: &KeptProfile, domain: &SqueezeDomain, machine: &Target) -> Option<String> {
    let native = matches!(machine, Target::Native);
    (native && kept.usable(domain.level).is_none()).then(|| {
        format!(
            "What one core can use of the L{} was not measured, so its claim of {} was taken; 'memwall calibrate' first \
             makes strengths fit better.",
            domain.level, domain.claimed
        )
    })
}

/// Those of the paper, or some of them.
fn victims(all: bool) -> Vec<KnownVictim> {
    if all {
        let each = Distribution::ALL.iter().enumerate();
        return each
            .flat_map(|(index, distribution)| {
                [1, 10, 100].map(|additions| KnownVictim {
                    distribution: *distribution,
                    additions,
                    times: TIMES[index % TIMES.len()],
                })
            })
            .collect();
    }
    [(Distribution::Uni, 1), (Distribution::Norm6, 1), (Distribution::Exp6, 10), (Distribution::Tri2, 10)]
        .into_iter()
        .map(|(distribution, additions)| KnownVictim { distribution, additions, times: TIMES[1] })
        .collect()
}

/// A request that makes no sense is told from one that failed.
pub fn failure(error: SqueezeError) -> Failure {
    match error {
        SqueezeError::Program { .. } | SqueezeError::Metric(_) => Failure::usage(error),
        _ => Failure::measurement(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_strength_tells_what_is_left() {
        let mut cost = CalibrationCost::begin(18);
        let began = Instant::now();
        let at = |seconds| began + Duration::from_secs(seconds);
        // Nothing taken takes 3 s, the first strength 10.
        assert_eq!((cost.next(at(0)), cost.next(at(3))), (None, None));
        assert_eq!(cost.next(at(13)).as_deref(), Some("160 s"));
        assert_eq!(cost.next(at(18)).as_deref(), Some("150 s"), "as long as the longest");
    }
}
