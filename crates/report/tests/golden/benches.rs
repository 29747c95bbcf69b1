//! Results of known work, made by hand.

use machine::{
    Bytes, Width,
    profile::{Clock, Estimate, Noise},
};
use record::bench::{BackingPages, Bench, Point, Stopped, Work};

pub fn clock() -> Clock {
    Clock { add_hz: 3.71e9, mul_hz: 3.70e9, tsc_hz: Some(2.6e9) }
}

/// A triad over two threads; `gb_per_s` is what the program sees.
pub fn triad_point(size: Bytes, gb_per_s: f64) -> Point {
    let elements = size.0 as f64 / 32.0;
    let time_ns = size.0 as f64 / gb_per_s;
    Point {
        asked: size,
        size,
        pages: Some(BackingPages { huge: Bytes::mib(2), total: Bytes::mib(2) }),
        stopped: Stopped::Precise,
        samples_ns: vec![time_ns; 24],
        time_ns: Estimate { value: time_ns, low: time_ns * 0.994, high: time_ns * 1.006, samples: 24 },
        work: Work {
            instructions: elements * 0.75,
            accesses: elements * 0.5,
            program_bytes: elements * 32.0,
            memory_bytes: elements * 40.0,
            flops: elements * 2.0,
            chain: 0.0,
        },
        noise: Noise {
            wall_ns: 3e8,
            steal_ns: Some(0.0),
            involuntary_switches: Some(0),
            spread: Some(0.0042),
        },
    }
}

pub fn triad(points: Vec<Point>) -> Bench {
    Bench {
        simulated: None,
        schema: "memwall.bench/1".into(),
        kernel: "triad".into(),
        summary: "A[i] = B[i] * C[i] + D[i]".into(),
        width: Width::Avx512,
        parameters: vec![],
        cpus: [0, 1].into_iter().collect(),
        node: Some(0),
        seed: 42,
        clock: Some(clock()),
        points,
        interrupted: false,
    }
}

/// From L1 to memory.
pub fn triad_sweep() -> Bench {
    let speeds = [
        412.0, 431.0, 405.0, 218.0, 196.0, 190.0, 171.0, 98.3, 61.0, 52.4, 24.1, 17.9, 17.2, 17.1, 17.0,
        17.0, 16.9,
    ];
    triad((14..).zip(speeds).map(|(exponent, gb)| triad_point(Bytes(1 << exponent), gb)).collect())
}

pub fn chase_point(size: Bytes, latency_ns: f64) -> Point {
    let steps = size.0 as f64 / 64.0;
    let time_ns = steps * latency_ns;
    let mut point = triad_point(size, 1.0);
    point.samples_ns = vec![time_ns; 24];
    point.time_ns = Estimate { value: time_ns, low: time_ns * 0.99, high: time_ns * 1.01, samples: 24 };
    point.work = Work {
        instructions: steps * 1.25,
        accesses: steps,
        program_bytes: steps * 8.0,
        memory_bytes: steps * 64.0,
        flops: 0.0,
        chain: steps,
    };
    point
}

/// A pointer chase whose larger sizes were disturbed and got fewer huge pages.
pub fn chase_sweep() -> Bench {
    let latencies = [1.35, 1.35, 1.36, 3.9, 4.3, 4.4, 4.6, 18.2, 24.0, 27.1, 64.0, 98.3, 107.0];
    let mut points: Vec<Point> =
        (14..).zip(latencies).map(|(exponent, ns)| chase_point(Bytes(1 << exponent), ns)).collect();
    for point in points.iter_mut().skip(9) {
        point.pages = Some(BackingPages { huge: Bytes(point.size.0 / 4), total: point.size });
        point.stopped = Stopped::TimeUp;
        point.noise.steal_ns = Some(9.3e6);
        point.noise.involuntary_switches = Some(2);
        point.noise.spread = Some(0.061);
        point.time_ns.high = point.time_ns.value * 1.24;
    }
    Bench {
        kernel: "chase".into(),
        summary:
            "pointer chase over a random single cycle of lines, with multiplications that depend on each load"
                .into(),
        width: Width::Scalar,
        parameters: vec![("dependent".into(), 4), ("independent".into(), 0)],
        cpus: [3].into_iter().collect(),
        node: None,
        ..triad(points)
    }
}

/// A chain of divisions: no memory at all.
pub fn divide() -> Bench {
    let mut point = chase_point(Bytes::kib(16), 4.9);
    point.work.program_bytes = 0.0;
    point.work.memory_bytes = 0.0;
    point.pages = Some(BackingPages { huge: Bytes(0), total: Bytes(0) });
    Bench {
        kernel: "divide".into(),
        summary: "each division waits for the one before".into(),
        width: Width::Scalar,
        cpus: [0].into_iter().collect(),
        node: None,
        ..triad(vec![point])
    }
}
