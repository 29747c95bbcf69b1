//! One record after the other, from a file of any size.

use std::io;

use crate::{file_order::FileOrder, input::Input};

/// Type, flags and size in front of each record.
pub(crate) const RECORD_HEADER: usize = 8;

/// Read at a time. A record has less than 64 KiB.
const BUFFER: usize = 1 << 20;

/// The same where many files are read in turn.
const SMALL_BUFFER: usize = 128 << 10;

/// A record as it stands in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRecord<'a> {
    pub kind: u32,
    pub misc: u16,
    pub body: &'a [u8],
}

/// Splits the first record off; `None`: there is no whole one. The error is its size, which cannot be.
pub(crate) fn split_first(bytes: &[u8], order: FileOrder) -> Result<Option<(RawRecord<'_>, usize)>, usize> {
    let Some(&[k0, k1, k2, k3, m0, m1, s0, s1]) = bytes.first_chunk::<RECORD_HEADER>() else {
        return Ok(None);
    };
    let size = usize::from(order.u16([s0, s1]));
    if size < RECORD_HEADER {
        return Err(size);
    }
    let Some(record) = bytes.get(RECORD_HEADER..size) else { return Ok(None) };
    let kind = order.u32([k0, k1, k2, k3]);
    Ok(Some((RawRecord { kind, misc: order.u16([m0, m1]), body: record }, size)))
}

/// Reads records of an input.
pub(crate) struct RecordStream<'i> {
    input: &'i mut dyn Input,
    buffer: Vec<u8>,
    /// What of the buffer is not yet handed out.
    from: usize,
    to: usize,
    /// Bytes of records that are not yet in the buffer; none: as many as come.
    left: Option<u64>,
    /// Where in the file the next record begins.
    at: u64,
    order: FileOrder,
}

impl<'i> RecordStream<'i> {
    /// From where the input is, which is byte `at`, for so many bytes.
    pub fn new(input: &'i mut dyn Input, at: u64, left: Option<u64>, order: FileOrder) -> Self {
        Self { input, buffer: vec![0; BUFFER], from: 0, to: 0, left, at, order }
    }

    /// One of many files that hold nothing but records, from its beginning.
    pub fn one_of_many(input: &'i mut dyn Input, order: FileOrder) -> Self {
        Self { input, buffer: vec![0; SMALL_BUFFER], from: 0, to: 0, left: None, at: 0, order }
    }

    /// Where in the file the next record begins.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The next record. The error says why there is none although there should be.
    pub fn next(&mut self) -> Result<Option<RawRecord<'_>>, String> {
        if !self.fill(RECORD_HEADER)? {
            return match self.to - self.from {
                0 => Ok(None),
                rest => Err(format!("it ends within a record, {rest} bytes after byte {}", self.at)),
            };
        }
        let at = self.at;
        let bad = |size| format!("the record at byte {at} says that it has {size} bytes");
        if split_first(&self.buffer[self.from..self.to], self.order).map_err(bad)?.is_none() {
            let [.., s0, s1] = self.buffer[self.from..self.from + RECORD_HEADER] else { return Ok(None) };
            let size = usize::from(self.order.u16([s0, s1]));
            if !self.fill(size)? {
                return Err(format!("it ends within the record at byte {at}"));
            }
        }
        let first = split_first(&self.buffer[self.from..self.to], self.order).map_err(bad)?;
        let Some((_, size)) = first else { return Ok(None) };
        let (from, to) = (self.from, self.from + size);
        self.from = to;
        self.at += size as u64;
        Ok(split_first(&self.buffer[from..to], self.order).map_err(bad)?.map(|(record, _)| record))
    }

    /// Leaves out bytes that follow a record and are none. The error says that they are not there.
    pub fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let begin = self.at;
        let mut left = bytes;
        while left > 0 {
            if self.from == self.to && !self.fill(1)? {
                return Err(format!("it ends within the {bytes} bytes of data at byte {begin}"));
            }
            let step = ((self.to - self.from) as u64).min(left);
            // No longer than the buffer.
            self.from += step as usize;
            self.at += step;
            left -= step;
        }
        Ok(())
    }

    /// Makes sure of so many bytes in the buffer; false if there are not as many.
    fn fill(&mut self, wanted: usize) -> Result<bool, String> {
        if self.to - self.from >= wanted {
            return Ok(true);
        }
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        while self.to < wanted {
            let room = (self.buffer.len() - self.to) as u64;
            // No longer than the buffer.
            let room = self.left.map_or(room, |left| left.min(room)) as usize;
            let read = match self.input.read(&mut self.buffer[self.to..self.to + room]) {
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(format!("it cannot be read beyond byte {}: {error}", self.at)),
            };
            if read == 0 {
                break;
            }
            self.to += read;
            self.left = self.left.map(|left| left - read as u64);
        }
        Ok(self.to >= wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::PipedInput;

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        pmu::record::encode(kind, 0, body)
    }

    #[test]
    fn records_come_whole_whatever_lies_between() {
        let bytes =
            [record(9, &[1; 16]), vec![7; 3_000_000], record(1, &[2; 60_000]), record(3, &[])].concat();
        let mut input = PipedInput(bytes.as_slice());
        let mut stream = RecordStream::new(&mut input, 100, None, FileOrder::Same);
        assert_eq!(stream.next().unwrap().unwrap().body, [1; 16]);
        assert_eq!(stream.position(), 124);
        stream.skip(3_000_000).unwrap();
        let long = stream.next().unwrap().unwrap();
        assert_eq!((long.kind, long.body.len()), (1, 60_000));
        assert_eq!(stream.next().unwrap().unwrap().kind, 3);
        assert!(stream.next().unwrap().is_none());
    }

    #[test]
    fn what_is_cut_off_is_told() {
        let good = record(9, &[1; 16]);
        for (tail, said) in [
            (&record(9, &[0; 16])[..20], "within the record at byte 24"),
            (&[1, 2, 3][..], "3 bytes after byte 24"),
            (&[0; 8][..], "says that it has 0 bytes"),
        ] {
            let bytes = [good.clone(), tail.to_vec()].concat();
            let mut input = PipedInput(bytes.as_slice());
            let mut stream = RecordStream::new(&mut input, 0, None, FileOrder::Same);
            assert!(stream.next().unwrap().is_some());
            let error = stream.next().unwrap_err();
            assert!(error.contains(said), "{error}");
        }
        let mut input = PipedInput(good.as_slice());
        let mut stream = RecordStream::new(&mut input, 0, Some(24), FileOrder::Same);
        stream.next().unwrap();
        assert!(stream.skip(1).unwrap_err().contains("byte 24"));
    }
}
