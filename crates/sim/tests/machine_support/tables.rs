//! molka2017 Tables 2 and 3: what the paper measured, and the work that measures the same here.

use super::Work;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// How far off reads of caches and memory may be, percent.
const READS: f64 = 15.0;
/// How far off writes and links may be, percent.
const WRITES_AND_LINKS: f64 = 25.0;

/// One row of a table.
pub struct Row {
    pub name: &'static str,
    /// What instructions load or store; write-backs and reads for ownership are not counted.
    pub paper_gb_per_s: f64,
    pub bound_percent: f64,
    pub work: Work,
    /// What is known about the difference.
    pub remark: Option<&'static str>,
}

impl Row {
    fn new(name: &'static str, paper_gb_per_s: f64, bound_percent: f64, work: Work) -> Self {
        Self { name, paper_gb_per_s, bound_percent, work, remark: None }
    }

    fn because(self, remark: &'static str) -> Self {
        Self { remark: Some(remark), ..self }
    }

    /// How far off a rate is, percent.
    pub fn off_percent(&self, gb_per_s: f64) -> f64 {
        (gb_per_s / self.paper_gb_per_s - 1.0) * 100.0
    }
}

fn work(kernel: &'static str, bytes_per_thread: u64, passes: u64) -> Work {
    Work { passes, ..Work::new(kernel, bytes_per_thread) }
}

fn remote(work: Work) -> Work {
    Work { node: Some(1), ..work }
}

fn all(work: Work) -> Work {
    Work { threads: 12, ..work }
}

/// One core. `memory` is a size that does not fit the shared cache.
pub fn table_two(memory: u64) -> Vec<Row> {
    vec![
        Row::new("L1 read", 159.8, READS, work("load", 16 * KIB, 20)),
        Row::new("L1 write", 79.9, WRITES_AND_LINKS, work("store", 16 * KIB, 20)),
        Row::new("L2 read", 75.0, READS, work("load", 128 * KIB, 4)),
        Row::new("L2 write", 25.5, WRITES_AND_LINKS, work("store", 128 * KIB, 4)),
        Row::new("L3 read", 29.9, READS, work("load", 2 * MIB, 2)),
        Row::new("L3 write", 17.7, WRITES_AND_LINKS, work("store", 2 * MIB, 2))
            .because("the paper says 15.0 GB/s and 277 M lines/s; only the latter, 17.7 GB/s, fits Table 3"),
        Row::new("local read", 10.4, READS, work("load", memory, 1)),
        Row::new("local write", 7.7, WRITES_AND_LINKS, work("store", memory, 1)),
        Row::new("remote read", 8.0, READS, remote(work("load", memory, 1))).because(
            "each 4 KiB begins with misses, as no prefetcher crosses; real ones since Ivy Bridge touch the next page",
        ),
        Row::new("remote write", 5.5, WRITES_AND_LINKS, remote(work("store", memory, 1))),
    ]
}

/// All cores of a package. `shared` per core fits the shared cache but not the L2, `memory` per core does not fit.
pub fn table_three(shared: u64, memory: u64) -> Vec<Row> {
    vec![
        Row::new("L3 read", 342.0, READS, all(work("load", shared, 1))),
        Row::new("L3 write", 209.0, WRITES_AND_LINKS, all(work("store", shared, 1))),
        Row::new("memory read", 63.1, READS, all(work("load", memory, 1))),
        Row::new("memory write", 25.8, WRITES_AND_LINKS, all(work("store", memory, 1))).because(
            "writes are drained in batches of half a queue, with one turn of the bus each; refresh, and turns \
             between ranks and bank groups, are not modelled",
        ),
        Row::new("QPI read", 16.3, WRITES_AND_LINKS, remote(all(work("load", memory, 1))))
            .because("chose link.requests_in_flight: no result"),
        Row::new("QPI write", 11.0, WRITES_AND_LINKS, remote(all(work("store", memory, 1)))),
    ]
}
