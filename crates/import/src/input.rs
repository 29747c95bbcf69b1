//! Where bytes come from: a file that can be gone through in any order, or a pipe that cannot.

use std::io::{self, Read, Seek, SeekFrom};

/// Bytes of a file or pipe.
pub trait Input: Read {
    /// Goes on reading from here.
    fn jump(&mut self, to: u64) -> io::Result<()>;

    /// How many bytes there are; none of a pipe.
    fn length(&mut self) -> io::Result<Option<u64>>;
}

/// A file, or bytes in memory.
#[derive(Debug)]
pub struct SeekableInput<R>(pub R);

impl<R: Read> Read for SeekableInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read + Seek> Input for SeekableInput<R> {
    fn jump(&mut self, to: u64) -> io::Result<()> {
        self.0.seek(SeekFrom::Start(to)).map(drop)
    }

    fn length(&mut self) -> io::Result<Option<u64>> {
        let here = self.0.stream_position()?;
        let end = self.0.seek(SeekFrom::End(0))?;
        self.0.seek(SeekFrom::Start(here))?;
        Ok(Some(end))
    }
}

/// What can be read once, from its beginning to its end.
#[derive(Debug)]
pub struct PipedInput<R>(pub R);

impl<R: Read> Read for PipedInput<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Input for PipedInput<R> {
    fn jump(&mut self, _to: u64) -> io::Result<()> {
        Err(io::ErrorKind::NotSeekable.into())
    }

    fn length(&mut self) -> io::Result<Option<u64>> {
        Ok(None)
    }
}

/// Reads as many bytes as there are, up to `length`, without reserving room for more than that.
pub(crate) fn read_up_to(input: &mut dyn Input, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}
