//! Several processes of a scenario as one: each with threads, buffers and rates of its own.

use kernels::scenario::{Body, BufferSharing, Scenario, ScenarioRegion, ScenarioStep};

/// `many` copies of a scenario, each of `threads` threads: thread t of copy c is thread c · `threads` + t. What threads share
/// only those of the same copy do; copies enter regions together.
pub fn copies(scenario: &Scenario, threads: usize, many: usize) -> Scenario {
    if many <= 1 {
        return scenario.clone();
    }
    let copying = Copying { threads, many, buffers: scenario.buffers.len() };
    let mut copied = scenario.clone();
    copied.threads = Some(threads * many);
    for copy in 1..many {
        copied.buffers.extend(scenario.buffers.iter().cloned().map(|mut buffer| {
            buffer.name = format!("{} of copy {}", buffer.name, copy + 1);
            buffer
        }));
    }
    let shared = |index: usize| scenario.buffers[index].sharing == BufferSharing::Shared;
    copied.regions.iter_mut().for_each(|region| copying.region(region, &shared));
    copied
}

struct Copying {
    threads: usize,
    many: usize,
    /// Of one copy.
    buffers: usize,
}

impl Copying {
    fn region(&self, region: &mut ScenarioRegion, shared: &dyn Fn(usize) -> bool) {
        // Threads of the region around it if none are named, as before.
        let of_one: Vec<usize> = region.threads.clone().unwrap_or_else(|| (0..self.threads).collect());
        if region.threads.is_some() {
            region.threads = Some((0..self.many).flat_map(|copy| self.of_copy(copy, &of_one)).collect());
        }
        match &mut region.body {
            Body::Regions(regions) => regions.iter_mut().for_each(|inner| {
                inner.threads.get_or_insert_with(|| of_one.clone());
                self.region(inner, shared);
            }),
            Body::Steps(steps) => {
                *steps = steps.iter().flat_map(|step| self.step(step, &of_one, shared)).collect();
            }
        }
    }

    /// A step of each copy: their threads go through them side by side.
    fn step(
        &self,
        step: &ScenarioStep,
        threads: &[usize],
        shared: &dyn Fn(usize) -> bool,
    ) -> Vec<ScenarioStep> {
        let of_one = step.threads.as_deref().unwrap_or(threads);
        (0..self.many)
            .map(|copy| ScenarioStep {
                threads: Some(self.of_copy(copy, of_one)),
                // A private one is each thread's own anyway.
                buffer: step.buffer.map(|index| index + if shared(index) { copy * self.buffers } else { 0 }),
                ..step.clone()
            })
            .collect()
    }

    fn of_copy(&self, copy: usize, threads: &[usize]) -> Vec<usize> {
        threads.iter().map(|thread| copy * self.threads + thread).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::{KernelCatalogue, scenario::Plan};
    use machine::Bytes;

    fn scenario(text: &str) -> Scenario {
        let catalogue = KernelCatalogue::builtin().expect("kernels");
        kernels::scenario::parse(text, "test", &catalogue, &[]).expect("a scenario")
    }

    fn plan(scenario: &Scenario) -> Plan {
        let isa = host::imagined::machine(8).isa;
        Plan::new(scenario, scenario.threads.expect("threads"), &isa, 1).expect("a plan")
    }

    #[test]
    fn each_copy_has_data_of_its_own() {
        let one = scenario(
            "name = \"one\"\nabout = \"a set\"\nthreads = 1\n[[buffer]]\nname = \"set\"\nsize = \"64K\"\n\
             [[region]]\nname = \"work\"\n[[region.step]]\nkernel = \"random-uni\"\nbuffer = \"set\"\n",
        );
        let plan = plan(&copies(&one, 1, 4));
        assert_eq!((plan.threads(), plan.instances().len()), (4, 4));
        let owners: Vec<Option<usize>> = plan.instances().iter().map(|instance| instance.thread).collect();
        assert_eq!(owners, [0, 1, 2, 3].map(Some));
        assert_eq!(plan.regions()[0].threads, [0, 1, 2, 3]);
        assert_eq!(copies(&one, 1, 1), one);
    }

    #[test]
    fn what_threads_share_stays_in_the_copy_and_so_does_its_rate() {
        let two = scenario(
            "name = \"two\"\nabout = \"a pair\"\nthreads = 2\n\
             [[buffer]]\nname = \"both\"\nsize = \"64K\"\nsharing = \"shared\"\n\
             [[buffer]]\nname = \"own\"\nsize = \"64K\"\n\
             [[region]]\nname = \"work\"\n\
             [[region.step]]\nkernel = \"load\"\nbuffer = \"both\"\n\
             [[region.step]]\nkernel = \"delayed-read\"\nbuffer = \"own\"\nrate = \"1GB/s\"\nthreads = [1]\n",
        );
        let copied = copies(&two, 2, 2);
        let plan = plan(&copied);
        let threads: Vec<Vec<usize>> =
            plan.steps().iter().map(|step| step.parts.iter().map(|part| part.thread).collect()).collect();
        assert_eq!(threads, [vec![0, 1], vec![2, 3], vec![1], vec![3]]);
        // Each pair has one buffer, half of which is each thread's.
        let shared: Vec<_> = plan.instances().iter().filter(|one| one.thread.is_none()).collect();
        assert_eq!(shared.len(), 2);
        assert_ne!(shared[0].buffer, shared[1].buffer);
        assert_eq!(plan.size(shared[1].buffer), Bytes::kib(64));
        // Each stream keeps the pace of one.
        let rates: Vec<Option<f64>> = plan.steps().iter().map(|step| step.rate_bytes_per_s).collect();
        assert_eq!(rates, [None, None, Some(1e9), Some(1e9)]);
    }

    #[test]
    fn regions_in_regions_keep_their_threads() {
        let nested = scenario(
            "name = \"nested\"\nabout = \"some\"\nthreads = 2\n[[buffer]]\nname = \"set\"\nsize = \"64K\"\n\
             [[region]]\nname = \"all\"\n[[region.region]]\nname = \"some\"\nthreads = [1]\n\
             [[region.region.step]]\nkernel = \"load\"\nbuffer = \"set\"\n",
        );
        let plan = plan(&copies(&nested, 2, 3));
        let threads: Vec<Vec<usize>> = plan.regions().iter().map(|region| region.threads.clone()).collect();
        assert_eq!(threads, [vec![0, 1, 2, 3, 4, 5], vec![1, 3, 5]]);
    }
}
