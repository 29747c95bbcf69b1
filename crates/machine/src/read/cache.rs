//! Caches from sysfs, each physical cache once.

use super::list;
use crate::{
    Bytes, CpuSet, Source,
    gaps::Gaps,
    source::ReadError,
    topology::{Cache, CacheKind, Cpu},
};

/// Index folders looked at; processors have four or five.
const MOST_INDEXES: u32 = 16;
/// No cache is larger.
const LARGEST: Bytes = Bytes::gib(16);

/// Every cache of the online CPUs, by level, kind and first CPU.
pub(super) fn caches(source: &Source, cpus: &[Cpu], gaps: &mut Gaps) -> Vec<Cache> {
    let online: CpuSet = cpus.iter().map(|cpu| cpu.id).collect();
    let mut caches = Distinct::default();
    let mut unshared = Vec::new();
    for cpu in cpus {
        let directory = format!("sys/devices/system/cpu/cpu{}/cache", cpu.id);
        let Some(indexes) = gaps.take(source.numbered(&directory, "index")) else {
            continue;
        };
        for index in indexes.into_iter().filter(|&index| index < MOST_INDEXES) {
            let path = format!("{directory}/index{index}");
            let Some(place) = place(source, &path, gaps) else {
                continue;
            };
            match gaps.take(sharing(source, &path, cpu.id)) {
                Some(shared_by) => {
                    let shared_by = shared_by.intersection(&online);
                    if let Some(cache) = caches.new_one(place, cpu.id, shared_by, &path, gaps) {
                        fill(source, &path, cache, gaps);
                    }
                }
                None => unshared.push((place, cpu.id, path)),
            }
        }
    }
    // Where one CPU does not state the sharing, another CPU of the same cache may have.
    for (place, cpu, path) in unshared {
        if let Some(cache) = caches.new_one(place, cpu, CpuSet::from_iter([cpu]), &path, gaps) {
            fill(source, &path, cache, gaps);
        }
    }
    caches.sorted()
}

/// Level and kind.
type CachePlace = (u32, CacheKind);

fn place(source: &Source, path: &str, gaps: &mut Gaps) -> Option<CachePlace> {
    let level = source.value(&format!("{path}/level"), "a cache level", |text| {
        text.parse().ok().filter(|level| (1..=8).contains(level))
    });
    let kind = source.value(&format!("{path}/type"), "a kind of cache", |text| match text {
        "Data" => Some(CacheKind::Data),
        "Instruction" => Some(CacheKind::Instruction),
        "Unified" => Some(CacheKind::Unified),
        _ => None,
    });
    let (level, kind) = (gaps.take(level), gaps.take(kind));
    Some((level?, kind?))
}

fn sharing(source: &Source, path: &str, cpu: u32) -> Result<CpuSet, ReadError> {
    source.value(&format!("{path}/shared_cpu_list"), "a list with the CPU itself", |text| {
        list(text).filter(|set| set.contains(cpu))
    })
}

/// Caches found so far. Those of one level and kind never overlap: a CPU has one cache of each.
#[derive(Default)]
struct Distinct(Vec<Cache>);

impl Distinct {
    /// Adds the cache of `cpu` unless it is known, and returns it if it is new.
    fn new_one(
        &mut self,
        (level, kind): CachePlace,
        cpu: u32,
        shared_by: CpuSet,
        path: &str,
        gaps: &mut Gaps,
    ) -> Option<&mut Cache> {
        let disagree = || format!("shared by {shared_by}, but another CPU of these says otherwise");
        let same = |cache: &&Cache| cache.level == level && cache.kind == kind;
        if let Some(known) = self.0.iter().filter(same).find(|cache| cache.shared_by.contains(cpu)) {
            if known.shared_by != shared_by && shared_by.len() > 1 {
                gaps.note(format!("/{path}/shared_cpu_list"), disagree());
            }
            return None;
        }
        let mut free = shared_by.clone();
        for other in self.0.iter().filter(same) {
            free = free.difference(&other.shared_by);
        }
        if free != shared_by {
            gaps.note(format!("/{path}/shared_cpu_list"), disagree());
        }
        self.0.push(Cache { level, kind, size: None, ways: None, line: None, sets: None, shared_by: free });
        self.0.last_mut()
    }

    fn sorted(self) -> Vec<Cache> {
        let mut caches = self.0;
        caches.sort_by_key(|cache| (cache.level, cache.kind, cache.shared_by.first()));
        caches
    }
}

/// Reads the numbers of one cache.
fn fill(source: &Source, path: &str, cache: &mut Cache, gaps: &mut Gaps) {
    let size = source.value(&format!("{path}/size"), "a cache size", |text| {
        text.parse().ok().filter(|size| (Bytes(1)..=LARGEST).contains(size))
    });
    let line = number(source, &format!("{path}/coherency_line_size"), "a line size", 4096);
    cache.size = gaps.take(size);
    cache.line = gaps.take(line).map(|line| Bytes(u64::from(line)));
    cache.ways =
        gaps.take(number(source, &format!("{path}/ways_of_associativity"), "a number of ways", 4096));
    cache.sets = gaps.take(number(source, &format!("{path}/number_of_sets"), "a number of sets", 1 << 30));
    let partitions = number(source, &format!("{path}/physical_line_partition"), "a number", 1 << 10);
    check_product(path, cache, partitions.unwrap_or(1), gaps);
}

fn number(source: &Source, path: &str, wanted: &str, most: u32) -> Result<u32, ReadError> {
    source.value(path, wanted, |text| text.parse().ok().filter(|number| (1..=most).contains(number)))
}

/// Hypervisors that change one number of a cache often leave the others as they were.
fn check_product(path: &str, cache: &Cache, partitions: u32, gaps: &mut Gaps) {
    let (Some(size), Some(line), Some(ways), Some(sets)) = (cache.size, cache.line, cache.ways, cache.sets)
    else {
        return;
    };
    let product = [u64::from(ways), u64::from(sets), u64::from(partitions)]
        .into_iter()
        .try_fold(line.0, |product, factor| product.checked_mul(factor));
    if product != Some(size.0) {
        let product = product.map_or("more than 16 EiB".into(), |product| Bytes(product).to_string());
        gaps.note(format!("/{path}/size"), format!("claims {size}, but lines, ways and sets make {product}"));
    }
}
