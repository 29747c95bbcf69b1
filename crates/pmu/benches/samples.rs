//! Samples decoded per second of one core's time, out of rings in memory: memwall's sampler beside the crate
//! `linux-perf-event-reader` (samply's), which is given the same bytes in one piece. Interleaved in one run; prints the
//! median rates and the median ratio with its spread; above 1, memwall is faster.
//!
//! `cargo bench -p memwall-pmu --bench samples [-- ROUNDS]`
#![allow(clippy::unwrap_used)]

use std::{hint::black_box, process::ExitCode};

use linux_perf_event_reader::{
    BranchSampleFormat, Endianness, EventRecord, RawData, RawEventRecord, ReadFormat, RecordIdParseInfo,
    RecordParseInfo, RecordType, SampleFormat,
};
use pmu::{
    EventTarget, Scope,
    bindings::{self, perf_event_mmap_page as Page},
    record::encode,
    sampling::{Fields, RingRecord, Sampler, SamplerRequest},
    scripted::{Behaviour, Scripted},
};
use rustix::time::{ClockId, clock_gettime};

/// Larger than a ring usually is, so that the clock's resolution does not matter.
const SAMPLES: u64 = 200_000;
const ROUNDS: usize = 11;
const LEAST_PER_S: f64 = 2e6;

struct Case {
    name: &'static str,
    fields: Fields,
    cpus: u32,
}

fn main() -> ExitCode {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS).max(1);
    let cases = [
        Case { name: "clock with 17 registers, 1 ring", fields: Fields::clock(), cpus: 1 },
        Case { name: "clock with 17 registers, 8 rings", fields: Fields::clock(), cpus: 8 },
        Case { name: "loads with source and weight, 1 ring", fields: Fields::loads(), cpus: 1 },
    ];
    println!("{:38} {:>12} {:>12}  ratio (min to max of {rounds} rounds)", "samples/s", "memwall", "reader");
    let mut slowest = f64::INFINITY;
    for case in &cases {
        slowest = slowest.min(compare(case, rounds));
    }
    println!("\nslowest {slowest:.3e} samples/s; the aim is {LEAST_PER_S:.0e}");
    if slowest >= LEAST_PER_S { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn compare(case: &Case, rounds: usize) -> f64 {
    // As the kernel deals them out: one after the other in time, each on some CPU.
    let streams: Vec<Vec<u8>> = (0..case.cpus).map(|cpu| stream(case, cpu)).collect();
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (mine, sum) = memwall(case, &streams);
        let (other, other_sum) = reader(case, &streams);
        assert_eq!(sum, other_sum, "both must see the same samples");
        ours.push(mine);
        theirs.push(other);
        ratios.push(mine / other);
    }
    let rate = median(&mut ours);
    let (ratio, least, most) = (median(&mut ratios), ratios[0], ratios[rounds - 1]);
    println!(
        "{:38} {rate:12.3e} {:12.3e}  {ratio:.2} ({least:.2} to {most:.2})",
        case.name,
        median(&mut theirs)
    );
    rate
}

fn stream(case: &Case, cpu: u32) -> Vec<u8> {
    let times = (0..SAMPLES).filter(|time| time % u64::from(case.cpus) == u64::from(cpu));
    times.flat_map(|time| sample(&case.fields, time, cpu)).collect()
}

fn sample(fields: &Fields, time: u64, cpu: u32) -> Vec<u8> {
    let mut words = vec![0x40_0000 + time % 4096, 7 << 32 | 7, time];
    words.extend(fields.address.then_some(0x7f00_0000_0000 + time));
    words.extend([u64::from(cpu), 1_000_000]);
    if fields.user_registers != 0 {
        words.push(2);
        words.extend((0..u64::from(fields.user_registers.count_ones())).map(|register| register ^ time));
    }
    words.extend(fields.weight.then_some(time % 500));
    words.extend(fields.data_source.then_some(0x6a10_0142));
    let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    encode(bindings::PERF_RECORD_SAMPLE, 2, &body)
}

/// Samples per second, and a sum over what they carry.
fn memwall(case: &Case, streams: &[Vec<u8>]) -> (f64, u64) {
    let rings: Vec<_> = streams.iter().map(|stream| ring(stream)).collect();
    let kernel = Scripted::new(move |asked| match asked.target {
        EventTarget::ThreadOnCpu { cpu, .. } => Ok(rings[cpu as usize].clone()),
        _ => Err(pmu::Errno(libc::EINVAL)),
    });
    let request = SamplerRequest {
        fields: case.fields,
        ..SamplerRequest::clock(Scope::Child(7), (0..case.cpus).collect())
    };
    let mut sampler = Sampler::open(&kernel, &request).unwrap();
    let mut sum = 0u64;
    let began = seconds_on_cpu();
    let count = sampler.drain_all(|record| {
        if let RingRecord::Sample(sample) = record {
            let stack = sample.registers.and_then(|registers| registers.get(7)).unwrap_or(0);
            sum = sum.wrapping_add(sample.ip.unwrap_or(0)).wrapping_add(sample.time_ns).wrapping_add(stack);
            sum = sum.wrapping_add(sample.address.unwrap_or(0));
        }
        black_box(&record);
    });
    let seconds = seconds_on_cpu() - began;
    assert_eq!(count as u64, SAMPLES);
    (SAMPLES as f64 / seconds, sum)
}

fn ring(stream: &[u8]) -> Behaviour {
    let mut bytes = stream.to_vec();
    bytes.resize(stream.len().next_power_of_two(), 0);
    let page = Page { data_head: stream.len() as u64, ..Default::default() };
    Behaviour { map: Ok((page, bytes)), ..Behaviour::counts(0) }
}

/// The same with the other crate, stream by stream, without merging.
fn reader(case: &Case, streams: &[Vec<u8>]) -> (f64, u64) {
    let info = parse_info(&case.fields);
    let mut sum = 0u64;
    let began = seconds_on_cpu();
    for stream in streams {
        let mut rest = stream.as_slice();
        while let Some((header, _)) = rest.split_first_chunk::<8>() {
            let size = usize::from(u16::from_ne_bytes([header[6], header[7]]));
            let (record, next) = rest.split_at(size);
            rest = next;
            let raw = RawEventRecord::new(RecordType::SAMPLE, 2, RawData::Single(&record[8..]), info);
            let parsed = raw.parse().unwrap();
            if let EventRecord::Sample(sample) = &parsed {
                let stack = sample.user_regs.as_ref().and_then(|registers| registers.get(7)).unwrap_or(0);
                sum = sum.wrapping_add(sample.ip.unwrap_or(0)).wrapping_add(sample.timestamp.unwrap_or(0));
                sum = sum.wrapping_add(stack).wrapping_add(sample.addr.unwrap_or(0));
            }
            black_box(&parsed);
        }
    }
    (SAMPLES as f64 / (seconds_on_cpu() - began), sum)
}

fn parse_info(fields: &Fields) -> RecordParseInfo {
    let mut format =
        SampleFormat::IP | SampleFormat::TID | SampleFormat::TIME | SampleFormat::CPU | SampleFormat::PERIOD;
    format.set(SampleFormat::ADDR, fields.address);
    format.set(SampleFormat::REGS_USER, fields.user_registers != 0);
    format.set(SampleFormat::WEIGHT, fields.weight);
    format.set(SampleFormat::DATA_SRC, fields.data_source);
    RecordParseInfo {
        endian: if cfg!(target_endian = "big") { Endianness::BigEndian } else { Endianness::LittleEndian },
        sample_format: format,
        branch_sample_format: BranchSampleFormat::empty(),
        read_format: ReadFormat::empty(),
        common_data_offset_from_end: None,
        sample_regs_user: fields.user_registers,
        user_regs_count: fields.user_registers.count_ones() as u8,
        sample_regs_intr: 0,
        intr_regs_count: 0,
        id_parse_info: RecordIdParseInfo {
            nonsample_record_id_offset_from_end: None,
            sample_record_id_offset_from_start: None,
        },
        nonsample_record_time_offset_from_end: None,
        sample_record_time_offset_from_start: Some(16),
    }
}

/// Of this thread: neighbours on the CPU do not count.
fn seconds_on_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Sorts, too.
fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
