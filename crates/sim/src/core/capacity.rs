//! Buffers that are filled and freed in order: what counts is when the oldest entry becomes free.

/// The times at which the last `n` entries are freed.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    freed: Box<[u64]>,
    next: usize,
    /// When the oldest is freed.
    room: u64,
}

impl Capacity {
    pub fn new(entries: u32) -> Self {
        Self { freed: vec![0; entries.max(1) as usize].into_boxed_slice(), next: 0, room: 0 }
    }

    /// When there is room for another entry.
    #[inline]
    pub fn room_at(&self) -> u64 {
        self.room
    }

    /// Another entry that is freed at `time`; times do not go back.
    #[inline]
    pub fn push(&mut self, time: u64) {
        self.freed[self.next] = time;
        self.next += 1;
        if self.next >= self.freed.len() {
            self.next = 0;
        }
        self.room = self.freed[self.next];
    }

    /// Entries free at `time`.
    pub fn free_at(&self, time: u64) -> u64 {
        let (newer, older) = self.freed.split_at(self.next);
        let held = newer.iter().rev().chain(older.iter().rev()).take_while(|&&freed| freed > time).count();
        (self.freed.len() - held) as u64
    }
}
