//! The code behind the places of a recording.

use std::{collections::BTreeSet, path::Path};

use record::{file::Code, run::ModuleKind};
use symbols::PerfMap;

use super::Recorder;
use crate::code_store::{Collector, Sources};

impl Recorder {
    /// The code of all places, module by module, so that few images are open at a time. `pid` is a process that has
    /// them mapped.
    pub fn code(&mut self, pid: i32) -> Code {
        let mut collector = Collector::new(self.sampled.clone());
        let mut refusals = BTreeSet::new();
        for (index, number) in self.modules.recorded().to_vec().into_iter().enumerate() {
            let known = self.modules.get(number);
            let is_generated = known.about.kind == ModuleKind::Anonymous && self.modules.are_live();
            let owner = known.pid.filter(|_| is_generated).and_then(|pid| u32::try_from(pid).ok());
            let names = owner.and_then(|pid| match PerfMap::open(Path::new("/"), pid) {
                Ok(names) => names,
                Err(error) => {
                    refusals.insert(format!("Code that process {pid} generated has no names: {error}."));
                    None
                }
            });
            let names = names.as_ref().or_else(|| self.kernel_names.as_ref().filter(|_| known.is_kernel()));
            let image = self.modules.image(number, pid, None);
            let generated = if is_generated { self.generated.as_slice() } else { &[] };
            let sources = Sources { image, pages: Some(&self.pages), names, generated };
            collector.module(u32::try_from(index).unwrap_or(u32::MAX), &self.places, sources);
        }
        refusals.iter().for_each(|text| self.writer.remark(text));
        collector.finish()
    }
}
