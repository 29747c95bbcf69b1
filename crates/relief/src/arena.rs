//! Memory of a copy that our own code and data lie in, near each piece of the program's.

use record::relief::{ReliefBarrier, ReliefRefusal};

use crate::{
    copy::ProgramCopy,
    listing::{Listing, encode},
    program::refusal,
    straight::Segment,
};

/// Bytes of one.
const BYTES: u64 = 2 << 20;

/// Code this near reaches with displacements of 32 bits.
const REACH: u64 = 0x6000_0000;

/// Layout of the first arena's beginning.
pub(crate) const DATA_BYTES: u64 = 0x2_0000;

#[derive(Debug)]
struct Arena {
    base: u64,
    used: u64,
}

/// All of a copy's. The first begins with [`DATA_BYTES`] for data.
#[derive(Debug)]
pub(crate) struct Arenas {
    all: Vec<Arena>,
}

impl Arenas {
    /// With one near `address`.
    pub fn new(copy: &mut ProgramCopy, address: u64) -> Result<Self, ReliefRefusal> {
        let base = copy.map_near(address, BYTES)?;
        Ok(Self { all: vec![Arena { base, used: DATA_BYTES }] })
    }

    /// Where the data lies.
    pub fn data(&self) -> u64 {
        self.all[0].base
    }

    /// Which one reaches `address`; none yet if that is one more than there are.
    pub fn cluster(&self, address: u64) -> usize {
        let near = |arena: &Arena| arena.base.abs_diff(address) < REACH;
        self.all.iter().position(near).unwrap_or(self.all.len())
    }

    /// Sees to it that one reaches each of these.
    pub fn reach(
        &mut self,
        copy: &mut ProgramCopy,
        addresses: impl Iterator<Item = u64>,
    ) -> Result<(), ReliefRefusal> {
        for address in addresses {
            if self.cluster(address) == self.all.len() {
                let base = copy.map_near(address, BYTES)?;
                self.all.push(Arena { base, used: 0 });
            }
            if self.cluster(address) == self.all.len() {
                return Err(ReliefRefusal::new(ReliefBarrier::Trouble, "no room near the code"));
            }
        }
        Ok(())
    }

    /// Room near `near` that begins as far into a line as `like` does.
    pub fn take(&mut self, near: u64, bytes: u64, like: u64) -> Result<u64, ReliefRefusal> {
        const LINE: u64 = 64;
        let index = self.cluster(near).min(self.all.len() - 1);
        let arena = &mut self.all[index];
        let at = arena.base + arena.used.next_multiple_of(LINE) + like % LINE;
        let used = at + bytes - arena.base;
        if used > BYTES {
            return Err(ReliefRefusal::new(ReliefBarrier::Trouble, "a stretch is too long"));
        }
        arena.used = used;
        Ok(at)
    }

    /// How much is in use, to go back to.
    pub fn level(&self) -> Vec<u64> {
        self.all.iter().map(|arena| arena.used).collect()
    }

    /// Forgets what was taken since.
    pub fn lower(&mut self, level: &[u64]) {
        for (arena, used) in self.all.iter_mut().zip(level) {
            arena.used = *used;
        }
    }

    /// Writes segments that jump to each other; gives where the first begins.
    pub fn write(&mut self, copy: &ProgramCopy, segments: &[Segment]) -> Result<u64, ReliefRefusal> {
        let mut placed: Vec<(&Listing, u64)> = Vec::new();
        for segment in segments.iter().filter(|segment| !segment.listing.is_empty()) {
            let at = self.take(segment.near, segment.listing.most_bytes(), segment.near)?;
            placed.push((&segment.listing, at));
        }
        for (bytes, (_, at)) in encode(&placed)?.iter().zip(&placed) {
            copy.tracee().write(*at, bytes).map_err(refusal)?;
        }
        placed.first().map(|(_, at)| *at).ok_or_else(|| ReliefBarrier::NoTurns.into())
    }
}
