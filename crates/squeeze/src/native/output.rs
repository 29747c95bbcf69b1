//! What a program prints: passed on, and searched for its time or rate.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::mpsc,
    thread,
    time::Duration,
};

use regex::bytes::Regex;
use rustix::pipe::{PipeFlags, pipe_with};

/// Processes that a program left behind may hold its output; they are not waited for longer than this.
const PATIENCE: Duration = Duration::from_millis(500);
/// Of a program that prints more, the last part is searched.
const KEPT: usize = 1 << 20;

/// A number that a program prints.
#[derive(Clone, Debug)]
pub struct PrintedValue {
    pattern: Regex,
    /// Whether more is faster.
    pub is_rate: bool,
}

impl PrintedValue {
    /// The first group of `pattern`, or all of it, is the number.
    pub fn new(pattern: &str, is_rate: bool) -> Result<Self, String> {
        let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
        Ok(Self { pattern, is_rate })
    }

    /// The pattern as it was given.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// The last number of this text as a time; units do not matter, as times are only compared.
    pub fn time_ns(&self, text: &[u8]) -> Result<f64, String> {
        let found = self.pattern.captures_iter(text).last();
        let found = found.ok_or_else(|| format!("it printed nothing that matches '{}'", self.pattern))?;
        let number = found.get(1).or_else(|| found.get(0)).map_or(&b""[..], |group| group.as_bytes());
        let number = String::from_utf8_lossy(number);
        let value: f64 = number.trim().parse().map_err(|_| format!("'{number}' is not a number"))?;
        if !(value > 0.0 && value.is_finite()) {
            return Err(format!("it printed {value}, which is no time and no rate"));
        }
        Ok(if self.is_rate { 1e9 / value } else { value })
    }
}

/// A pipe that a program prints into.
pub(super) struct Tee {
    ours: OwnedFd,
    /// Ours to give away; closed once the program has it.
    theirs: Option<OwnedFd>,
    shown: bool,
    text: Option<mpsc::Receiver<Vec<u8>>>,
}

impl Tee {
    pub fn begin(shown: bool) -> io::Result<Self> {
        let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        Ok(Self { ours, theirs: Some(theirs), shown, text: None })
    }

    pub fn program_end(&self) -> BorrowedFd<'_> {
        self.theirs.as_ref().map_or_else(|| self.ours.as_fd(), |fd| fd.as_fd())
    }

    /// The program has its end: ours of it is closed, and what comes is read.
    pub fn listen(mut self) -> Self {
        self.theirs = None;
        let (say, hear) = mpsc::channel();
        let (file, shown) = (self.ours.try_clone().map(File::from), self.shown);
        // Without a thread nothing is heard, and the number is missing.
        let _ = thread::Builder::new().spawn(move || {
            let Ok(mut file) = file else { return };
            let (mut kept, mut part) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(many @ 1..) = file.read(&mut part) {
                if shown {
                    let _ = io::stdout().write_all(&part[..many]).and_then(|()| io::stdout().flush());
                }
                kept.extend_from_slice(&part[..many]);
                if kept.len() > 2 * KEPT {
                    kept.drain(..kept.len() - KEPT);
                }
            }
            let _ = say.send(kept);
        });
        self.text = Some(hear);
        self
    }

    /// All it printed.
    pub fn finish(self) -> Vec<u8> {
        self.text.and_then(|text| text.recv_timeout(PATIENCE).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        let rate = PrintedValue::new(r"rate: ([\d.]+)", true).unwrap();
        assert_eq!(rate.time_ns(b"rate: 2.0\nrate: 4.0 MB/s\n"), Ok(2.5e8));
        let time = PrintedValue::new(r"[\d.]+(?: s)?", false).unwrap();
        assert!(time.time_ns(b"took 12.5 s").is_err());
        let time = PrintedValue::new(r"took ([\d.]+)", false).unwrap();
        assert_eq!(time.time_ns(b"took 12.5 s"), Ok(12.5));
        assert!(time.time_ns(b"nothing").unwrap_err().contains("matches"));
        assert!(time.time_ns(b"took 0").is_err());
        assert!(PrintedValue::new("(", true).is_err());
    }
}
