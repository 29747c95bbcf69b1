//! How much was allocated at each place in the code in all: blocks that were chosen among many stand for those like them.

use std::collections::HashMap;

use record::{
    data::{BlockKind, HeapBlock},
    run::Run,
};

use crate::findings::{AllocatedBytes, ObjectId};

/// Sum over the blocks of one object.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AllocatedSum {
    bytes: f64,
    variance: f64,
    noted: u64,
    /// Some do not say what they stand for: recorded before that was kept.
    has_gaps: bool,
}

/// Of every object that has blocks.
pub(super) fn of_all(run: &Run) -> HashMap<ObjectId, AllocatedSum> {
    let mut all: HashMap<ObjectId, AllocatedSum> = HashMap::new();
    for block in run.data.blocks.iter().filter(|block| block.kind != BlockKind::Unmapped) {
        if let Some(key) = ObjectId::of_block(block) {
            all.entry(key).or_default().add(block);
        }
    }
    all
}

impl AllocatedSum {
    fn add(&mut self, block: &HeapBlock) {
        self.noted += 1;
        let size = block.size_bytes as f64;
        match (block.kind, block.stands_for_bytes) {
            // Chosen with chance p it stands for w = size / p, and adds size² (1 - p) / p² = w (w - size) to the variance.
            (BlockKind::Small, Some(bytes)) => {
                let stands_for = (bytes as f64).max(size);
                self.bytes += stands_for;
                self.variance += stands_for * (stands_for - size);
            }
            (BlockKind::Small, None) => self.has_gaps = true,
            _ => self.bytes += size,
        }
    }

    /// None where the recording does not tell.
    pub fn estimate(&self) -> Option<AllocatedBytes> {
        const DEVIATIONS: f64 = 1.96;
        let Self { bytes, variance, noted, has_gaps } = *self;
        (!has_gaps).then(|| AllocatedBytes { bytes, error: DEVIATIONS * variance.sqrt(), noted })
    }
}
