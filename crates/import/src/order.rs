//! Records in order of time. Perf writes what each CPU's ring holds one after the other, and says when it has been through
//! all of them: what is older than the end of the round before cannot be overtaken any more.

use crate::stream::RawRecord;

/// Bytes that wait, at most; beyond it the older half goes on. Rounds of perf are far smaller.
const MOST_WAITING: usize = 48 << 20;

/// One that waits.
#[derive(Clone, Copy, Debug)]
struct WaitingRecord {
    time_ns: u64,
    kind: u32,
    misc: u16,
    length: u16,
    at: usize,
}

/// Holds records back until their turn.
#[derive(Debug, Default)]
pub(crate) struct TimeOrder {
    waiting: Vec<WaitingRecord>,
    bytes: Vec<u8>,
    spare: Vec<u8>,
    /// The latest there was, and the latest when the round before ended.
    latest_ns: u64,
    sure_ns: u64,
    /// The latest that went on.
    gone_ns: u64,
    /// Records that came too late for their turn.
    pub late: u64,
}

impl TimeOrder {
    /// Takes a record with its time. True: too much waits, and some has to go on.
    pub fn push(&mut self, time_ns: u64, record: RawRecord<'_>) -> bool {
        self.latest_ns = self.latest_ns.max(time_ns);
        self.late += u64::from(time_ns < self.gone_ns);
        // Bodies are shorter than their records, whose size has 16 bits.
        let length = record.body.len() as u16;
        let RawRecord { kind, misc, body } = record;
        self.waiting.push(WaitingRecord { time_ns, kind, misc, length, at: self.bytes.len() });
        self.bytes.extend_from_slice(body);
        self.bytes.len() > MOST_WAITING
    }

    /// Every ring was read: hands out what cannot be overtaken.
    pub fn finish_round(&mut self, each: impl FnMut(RawRecord<'_>)) {
        let sure_ns = self.sure_ns;
        self.sure_ns = self.latest_ns;
        self.hand_out(sure_ns, each);
    }

    /// Hands out the older half.
    pub fn relieve(&mut self, each: impl FnMut(RawRecord<'_>)) {
        self.waiting.sort_by_key(|waiting| waiting.time_ns);
        let middle = self.waiting.get(self.waiting.len() / 2).map_or(0, |waiting| waiting.time_ns);
        self.hand_out(middle, each);
    }

    /// Hands out all.
    pub fn finish(&mut self, each: impl FnMut(RawRecord<'_>)) {
        self.hand_out(u64::MAX, each);
    }

    fn hand_out(&mut self, until_ns: u64, mut each: impl FnMut(RawRecord<'_>)) {
        // Stable: records of the same moment keep the order of the file.
        self.waiting.sort_by_key(|waiting| waiting.time_ns);
        let count = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
        let body = |bytes: &[u8], waiting: &WaitingRecord| {
            waiting.at..(waiting.at + usize::from(waiting.length)).min(bytes.len())
        };
        for waiting in self.waiting.drain(..count) {
            let range = body(&self.bytes, &waiting);
            let body = self.bytes.get(range).unwrap_or_default();
            each(RawRecord { kind: waiting.kind, misc: waiting.misc, body });
            self.gone_ns = self.gone_ns.max(waiting.time_ns);
        }
        self.spare.clear();
        for waiting in &mut self.waiting {
            let range = body(&self.bytes, waiting);
            waiting.at = self.spare.len();
            self.spare.extend_from_slice(self.bytes.get(range).unwrap_or_default());
        }
        std::mem::swap(&mut self.bytes, &mut self.spare);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(order: &mut TimeOrder, time_ns: u64, mark: u8) {
        order.push(time_ns, RawRecord { kind: 9, misc: 0, body: &[mark] });
    }

    #[test]
    fn a_record_goes_on_when_no_ring_can_hold_an_older_one() {
        let mut order = TimeOrder::default();
        let mut all = Vec::new();
        let mut seen = |record: RawRecord<'_>| all.push(record.body[0]);
        // Two rings, read one after the other.
        [(1, 1), (3, 3), (2, 2), (4, 4)].iter().for_each(|(time, mark)| push(&mut order, *time, *mark));
        order.finish_round(&mut seen);
        push(&mut order, 5, 6);
        push(&mut order, 4, 5);
        push(&mut order, 6, 7);
        order.finish_round(&mut seen);
        assert_eq!(all, [1, 2, 3, 4, 5]);
        let mut rest = Vec::new();
        order.finish(|record| rest.push(record.body[0]));
        assert_eq!((rest, order.late), (vec![6, 7], 0));
    }

    #[test]
    fn too_much_goes_on_by_halves_and_what_comes_late_is_counted() {
        let mut order = TimeOrder::default();
        let body = [0; 60_000];
        let mut full = false;
        let mut time = 0;
        while !full {
            time += 1;
            full = order.push(time, RawRecord { kind: 1, misc: 0, body: &body });
        }
        let mut gone = 0;
        order.relieve(|_| gone += 1);
        assert!(gone > time / 3 && gone <= time / 2 + 1, "{gone} of {time}");
        order.push(1, RawRecord { kind: 1, misc: 0, body: &body });
        assert_eq!(order.late, 1);
        order.finish(|_| gone += 1);
        assert_eq!(gone, time + 1);
    }
}
