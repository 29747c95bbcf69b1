//! Samples of the software clock, with and without user registers.

use pmu::{Errno, EventTarget, KernelEvent, bindings, event::Sampling, record::Records};
use record::doctor::Capability;

use super::{
    Patient,
    refusal::{Need, Trouble},
    row::{RowSubject, counted},
};

const CLOCK: RowSubject = RowSubject {
    key: "clock_sampling",
    name: "Clock sampling",
    tried: "sampled the cpu-clock event every 0.2 ms into a ring while this thread computed",
    unlocks: "where a program spends its time, without a PMU",
};

const REGISTERS: RowSubject = RowSubject {
    key: "user_registers",
    name: "User registers",
    tried: "sampled the cpu-clock event with the user registers, and compared their instruction pointer with the \
            sample's own",
    unlocks: "which address a waiting load wanted, hence which data object",
};

/// Nanoseconds between samples.
const PERIOD_NS: u64 = 200_000;

/// General registers, stack and instruction pointer, as numbered in the architecture's `perf_regs.h`.
#[cfg(target_arch = "x86_64")]
const GENERAL_REGISTERS: u64 = 0xff_01ff;
#[cfg(target_arch = "x86_64")]
const INSTRUCTION_POINTER: u32 = 8;

/// x0 to x30, sp and pc.
#[cfg(not(target_arch = "x86_64"))]
const GENERAL_REGISTERS: u64 = 0x1_ffff_ffff;
#[cfg(not(target_arch = "x86_64"))]
const INSTRUCTION_POINTER: u32 = 32;

/// The row of plain samples.
pub(super) fn clock_sampling(patient: Patient<'_>) -> Capability {
    match sample(patient, 0) {
        Err(trouble) => patient.refusal(trouble, Need::User).row(&CLOCK),
        Ok(records) => match records.samples().count() {
            0 => CLOCK.missing("opens, but no sample arrived"),
            samples => CLOCK.found(format!("{} of our own thread arrived", counted(samples, "sample"))),
        },
    }
}

/// The row of samples with registers.
pub(super) fn user_registers(patient: Patient<'_>) -> Capability {
    match sample(patient, GENERAL_REGISTERS) {
        Err(trouble) if trouble.errno == Errno(libc::EINVAL) => {
            REGISTERS.missing(format!("{}: this kernel samples no user registers", trouble.errno))
        }
        Err(trouble) => patient.refusal(trouble, Need::User).row(&REGISTERS),
        Ok(records) => {
            let samples = records.samples().count();
            let right = records.samples().filter(|sample| agrees(sample.words())).count();
            match (samples, right) {
                (0, _) => REGISTERS.missing("opens, but no sample arrived"),
                (_, 0) => REGISTERS.missing("samples arrive, their registers are empty or wrong"),
                _ => REGISTERS.found(format!(
                    "{} registers arrive, {right} of {} consistent",
                    GENERAL_REGISTERS.count_ones(),
                    counted(samples, "sample"),
                )),
            }
        }
    }
}

fn sample(patient: Patient<'_>, user_registers: u64) -> Result<Records, Trouble> {
    let registers = if user_registers == 0 { 0 } else { bindings::PERF_SAMPLE_REGS_USER };
    let fields = u64::from(bindings::PERF_SAMPLE_IP | registers);
    let sampling = Sampling { period: PERIOD_NS, precise: 0, fields, user_registers };
    let event = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK).sampled(sampling);
    patient.sample(&event, EventTarget::ThisThread)
}

/// Whether a sample of instruction pointer, register format and registers agrees with itself.
fn agrees(mut words: impl Iterator<Item = u64>) -> bool {
    let (Some(address), Some(format)) = (words.next(), words.next()) else {
        return false;
    };
    // Registers come in the order of their bits.
    let before = (GENERAL_REGISTERS & ((1 << INSTRUCTION_POINTER) - 1)).count_ones() as usize;
    format == u64::from(bindings::PERF_SAMPLE_REGS_ABI_64) && words.nth(before) == Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, live_or_refused};
    use pmu::{record::encode, scripted::Behaviour};
    use record::doctor::CapabilityState;

    fn record(words: &[u64]) -> Vec<u8> {
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        encode(bindings::PERF_RECORD_SAMPLE, 2, &body)
    }

    fn registers(format: u64, pointer: u64) -> Vec<u8> {
        let mut words = vec![0x40_1000, format];
        let position = (GENERAL_REGISTERS & ((1 << INSTRUCTION_POINTER) - 1)).count_ones() as usize;
        words.extend(
            (0..GENERAL_REGISTERS.count_ones() as usize).map(|i| if i == position { pointer } else { 7 }),
        );
        record(&words)
    }

    #[test]
    fn samples_or_none() {
        let mut script = Script::new();
        script.kernel(|_| Ok(Behaviour::samples(&[record(&[1]), record(&[2])].concat())));
        let row = clock_sampling(script.patient());
        assert_eq!(
            (row.state, row.detail.as_str()),
            (CapabilityState::Found, "2 samples of our own thread arrived")
        );
        script.kernel(|_| Ok(Behaviour::samples(&encode(bindings::PERF_RECORD_LOST, 0, &[0; 16]))));
        assert_eq!(clock_sampling(script.patient()).state, CapabilityState::Missing);
    }

    #[test]
    fn registers_must_agree_with_the_sample() {
        let mut script = Script::new();
        for (bytes, state) in [
            (registers(2, 0x40_1000), CapabilityState::Found),
            (registers(2, 0x40_2000), CapabilityState::Missing),
            (registers(0, 0x40_1000), CapabilityState::Missing),
            (record(&[0x40_1000, 2]), CapabilityState::Missing),
            (record(&[]), CapabilityState::Missing),
            (Vec::new(), CapabilityState::Missing),
        ] {
            script.kernel(move |_| Ok(Behaviour::samples(&bytes)));
            assert_eq!(user_registers(script.patient()).state, state);
        }
    }

    #[test]
    fn refusals() {
        let mut script = Script::new();
        for (errno, state) in
            [(libc::EACCES, CapabilityState::Blocked), (libc::EMFILE, CapabilityState::Blocked)]
        {
            script.refuse_everything(errno);
            assert_eq!(clock_sampling(script.patient()).state, state);
            assert_eq!(user_registers(script.patient()).state, state);
        }
        script.refuse_everything(libc::EINVAL);
        assert!(user_registers(script.patient()).detail.contains("samples no user registers"));
        script.kernel(|_| Ok(Behaviour { map: Err(Errno(libc::EPERM)), ..Behaviour::counts(1) }));
        let row = clock_sampling(script.patient());
        assert_eq!(row.state, CapabilityState::Blocked);
        assert!(row.unlock_with.unwrap().contains("perf_event_mlock_kb"));
    }

    #[test]
    fn here_the_clock_samples_or_the_kernel_refuses() {
        let event = KernelEvent::software(bindings::PERF_COUNT_SW_CPU_CLOCK);
        live_or_refused(&event, clock_sampling, |row| assert!(row.detail.contains("of our own thread")));
        live_or_refused(&event, user_registers, |row| assert!(row.detail.contains("registers arrive")));
    }
}
