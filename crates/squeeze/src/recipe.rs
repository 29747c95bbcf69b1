//! Interference of two kinds as jobs: which kernel, how much data, how many threads.

use host::{Host, HostError};
use kernels::{Job, kernel::KernelError};
use machine::{
    Bytes, CpuSet, Topology,
    squeezing::{Interference, SqueezeForm, SqueezeKind},
};

use crate::{SqueezeError, partition::HardwarePartition};

/// Buffers of the paper's bandwidth thread together, as a share of the cache: 44 of 520 KB beside 20 MB (casas2017 §3.1).
const PAPER_BANDWIDTH: f64 = 44.0 * 520.0 * 1024.0 / (20.0 * 1024.0 * 1024.0);
/// The buffer of the paper's storage thread: 4 of 20 MB (casas2017 §3.2.3).
const PAPER_STORAGE: f64 = 0.2;
/// A storage thread has at least this many times its private cache, so that it lives in the shared one.
const PRIVATE_TIMES: u64 = 4;
/// What a reader goes over, in times of the cache: its own lines are gone when it comes back.
const READER_TIMES: u64 = 4;
/// A writer past the caches needs no more than this; it leaves nothing in any cache.
const WRITER_BYTES: Bytes = Bytes::mib(1);

/// A shared cache, and the CPUs around it.
#[derive(Clone, Debug, PartialEq)]
pub struct SqueezeDomain {
    /// Its level.
    pub level: u32,
    /// What it claims to hold.
    pub claimed: Bytes,
    /// What a strength of one is to hold: the claim, or what one core could use of it.
    pub cache: Bytes,
    /// The largest cache that each core has for itself.
    pub private: Bytes,
    /// One usable CPU of each core that shares it.
    pub cpus: CpuSet,
    /// Of these, the last ones: where interference runs.
    pub spare: Vec<u32>,
    /// The others: where victims and programs run.
    pub own: Vec<u32>,
}

/// Of eight cores the paper gives five to interference (casas2017 §3.2.3).
fn spare_of(cores: usize) -> usize {
    (cores * 5 / 8).max(1).min(cores.saturating_sub(1))
}

impl SqueezeDomain {
    /// The last cache of the first usable CPU, with `own` CPUs for the program if they were named. `usable`: what one core
    /// can really use of it, if that was measured. `None` if no cache is known.
    pub fn of(machine: &Topology, own: Option<&CpuSet>, usable: Option<Bytes>) -> Option<Self> {
        let first = own.and_then(CpuSet::first).or_else(|| machine.usable_cpus().first())?;
        let caches = machine.data_caches_of(first);
        let last = caches.last()?;
        let claimed = last.size.filter(|size| size.0 > 0)?;
        let private = caches.iter().rev().skip(1).find_map(|cache| cache.size).unwrap_or(Bytes(0));
        let cpus = machine.usable_cores().intersection(&last.shared_by);
        let all: Vec<u32> = cpus.iter().collect();
        let (own, spare) = match own {
            Some(own) => {
                // A sibling of a CPU of the program would share its core.
                let beside = |cpu: &&u32| {
                    let core = machine.cpus.iter().find(|known| known.id == **cpu);
                    !core.is_some_and(|core| core.siblings.iter().any(|sibling| own.contains(sibling)))
                        && !own.contains(**cpu)
                };
                (own.iter().collect(), all.iter().filter(beside).copied().collect())
            }
            None => {
                let own = all.len() - spare_of(all.len()).min(all.len());
                (all[..own].to_vec(), all[own..].to_vec())
            }
        };
        let cache = usable.filter(|usable| usable.0 > 0).map_or(claimed, |usable| usable.min(claimed));
        Some(Self { level: last.level, claimed, cache, private, cpus, spare, own })
    }

    /// Interference that is to hold this share of the cache.
    pub fn storage(&self, form: SqueezeForm, share: f64) -> Interference {
        let bytes = self.cache.0 as f64 * share;
        let threads = match form {
            SqueezeForm::Paper => (share / PAPER_STORAGE).round().max(1.0) as usize,
            _ => (bytes / (PRIVATE_TIMES * self.private.0).max(1) as f64).floor().max(1.0) as usize,
        };
        let threads = threads.min(self.spare.len()).max(1);
        let each = match form {
            SqueezeForm::Paper => self.cache.0 as f64 * PAPER_STORAGE,
            _ => bytes / threads as f64,
        };
        Interference {
            kind: SqueezeKind::Storage,
            form,
            threads,
            bytes_each: whole(each),
            pause: 0,
            left: None,
        }
    }

    /// Interference that draws bandwidth with so many threads, each with this pause.
    pub fn bandwidth(&self, form: SqueezeForm, threads: usize, pause: u64) -> Interference {
        let bytes_each = match form {
            SqueezeForm::Paper => whole(self.cache.0 as f64 * PAPER_BANDWIDTH),
            SqueezeForm::Writing => WRITER_BYTES,
            _ => Bytes(self.cache.0 * READER_TIMES),
        };
        let threads = threads.min(self.spare.len()).max(1);
        Interference { kind: SqueezeKind::Bandwidth, form, threads, bytes_each, pause, left: None }
    }
}

/// Takes these away from what runs from now on, and nothing else: by threads on `spare` CPUs, or by a partition.
pub fn take(
    host: &mut dyn Host,
    partition: Option<&HardwarePartition>,
    interferences: &[Interference],
    spare: &[u32],
) -> Result<(), SqueezeError> {
    let (mut free, mut jobs) = (spare, Vec::new());
    for interference in interferences.iter().filter(|one| one.form != SqueezeForm::Partition) {
        jobs.push(job(host, interference, free)?);
        free = &free[..free.len() - interference.threads];
    }
    match partition {
        Some(partition) => partition.take(interferences)?,
        None if interferences.iter().any(|one| one.form == SqueezeForm::Partition) => {
            let why = "the kernel's resctrl is not there, or not ours to use; 'memwall squeeze --calibrate' takes what there is";
            return Err(HostError::new("a partition of the hardware", why).into());
        }
        None => {}
    }
    Ok(host.run_beside(&jobs)?)
}

/// Whole pages.
fn whole(bytes: f64) -> Bytes {
    Bytes(((bytes / 4096.0).round() as u64).max(1) * 4096)
}

/// The kernel that does it.
fn kernel_of(interference: &Interference) -> &'static str {
    match (interference.kind, interference.form) {
        // Never a partition: that has no thread.
        (SqueezeKind::Storage, _) => "cache-storage-thread",
        (SqueezeKind::Bandwidth, SqueezeForm::Writing) => "bandwidth-writer",
        (SqueezeKind::Bandwidth, SqueezeForm::Reading) => "bandwidth-reader",
        (SqueezeKind::Bandwidth, _) => "bandwidth-thread",
    }
}

/// The job that does it on these CPUs, the last of them first taken.
pub fn job(host: &dyn Host, interference: &Interference, spare: &[u32]) -> Result<Job, HostError> {
    let name = kernel_of(interference);
    if spare.len() < interference.threads {
        let why = format!("{} threads on {} spare CPUs", interference.threads, spare.len());
        return Err(HostError::new(name, why));
    }
    let cpus = &spare[spare.len() - interference.threads..];
    let size = Bytes(interference.bytes_each.0 * interference.threads as u64);
    let job = host.job(name, size, cpus)?;
    let bad = |error: KernelError| HostError::new(name, error);
    match interference.form {
        SqueezeForm::Reading | SqueezeForm::Writing => job.with("nops", interference.pause).map_err(bad),
        _ => Ok(job),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use host::imagined;

    #[test]
    fn eight_cores_give_five() {
        let domain = SqueezeDomain::of(&imagined::machine(8), None, None).expect("a cache");
        assert_eq!((domain.own.len(), domain.spare.len(), domain.level), (3, 5, 3));
        assert_eq!((domain.cache, domain.private), (Bytes::mib(32), Bytes::mib(1)));
        let two = SqueezeDomain::of(&imagined::machine(2), None, None).expect("a cache");
        assert_eq!((two.own, two.spare), (vec![0], vec![1]));
        let one = SqueezeDomain::of(&imagined::machine(1), None, None).expect("a cache");
        assert_eq!((one.own, one.spare), (vec![0], vec![]));
    }

    #[test]
    fn a_program_keeps_the_cpus_it_was_given() {
        let own: CpuSet = [0, 5].into_iter().collect();
        let domain =
            SqueezeDomain::of(&imagined::machine(8), Some(&own), Some(Bytes::mib(20))).expect("a cache");
        assert_eq!(domain.spare, vec![1, 2, 3, 4, 6, 7]);
        assert_eq!(domain.cache, Bytes::mib(20));
    }

    #[test]
    fn strengths_of_the_paper() {
        let domain = SqueezeDomain::of(&imagined::machine(8), None, Some(Bytes::mib(20))).expect("a cache");
        let three = domain.storage(SqueezeForm::Paper, 0.6);
        assert_eq!((three.threads, three.bytes_each), (3, Bytes::mib(4)));
        // 44 buffers of 520 KB.
        let bandwidth = domain.bandwidth(SqueezeForm::Paper, 2, 0);
        assert_eq!(bandwidth.bytes_each, Bytes(44 * 520 * 1024));
        // What is shared is held by as many threads as have to go beyond their own caches.
        let shared = domain.storage(SqueezeForm::Shared, 0.5);
        assert_eq!((shared.threads, shared.bytes_each), (2, Bytes::mib(5)));
        assert_eq!(domain.storage(SqueezeForm::Shared, 1.0).threads, 5);
    }

    #[test]
    fn a_partition_that_is_gone_is_said() {
        let catalogue = kernels::KernelCatalogue::builtin().unwrap();
        let mut host = imagined::ImaginedHost::new(imagined::machine(4), catalogue, |_, _| 1.0);
        let root = crate::partition::tests::divided();
        let partition = HardwarePartition::make(root.path(), 3, &(0..2).collect(), &mut |_| {}).unwrap();
        let few = partition.strengths(SqueezeKind::Storage, 1);
        take(&mut host, Some(&partition), &few, &[2, 3]).unwrap();
        assert!(take(&mut host, None, &few, &[2, 3]).unwrap_err().to_string().contains("resctrl"));
    }
}
