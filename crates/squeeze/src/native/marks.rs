//! Marks that a program writes: a line `begin` and a line `end` into the file that `MEMWALL_MARKS` names.

use std::{
    ffi::OsString,
    fs::{self, File, Permissions},
    io::{self, BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use machine::private;
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat, open};
use tempfile::TempDir;

/// The variable that names the file.
const VARIABLE: &str = "MEMWALL_MARKS";
/// Written by ourselves when the program has ended, so that the reader stops.
const OVER: &str = "memwall-over";
/// For marks that were written last.
const PATIENCE: Duration = Duration::from_millis(500);

/// A named pipe, and who reads it.
pub(super) struct Marks {
    folder: TempDir,
    heard: mpsc::Receiver<(String, Instant)>,
}

impl Marks {
    pub fn begin() -> io::Result<Self> {
        let ours = private::folder_permissions();
        let folder = tempfile::Builder::new().prefix("memwall-marks-").permissions(ours.clone()).tempdir()?;
        // A umask may have taken rights away, here and below.
        fs::set_permissions(folder.path(), ours)?;
        let path = folder.path().join("marks");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        fs::set_permissions(&path, Permissions::from_mode(private::FILE_MODE))?;
        // Opened for both, it never ends while programs open and close it.
        let pipe = File::from(open(&path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?);
        let (say, heard) = mpsc::channel();
        thread::Builder::new().spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                let over = line == OVER;
                if say.send((line, Instant::now())).is_err() || over {
                    return;
                }
            }
        })?;
        Ok(Self { folder, heard })
    }

    pub fn variable(&self) -> (OsString, OsString) {
        (VARIABLE.into(), self.folder.path().join("marks").into())
    }

    /// From the first `begin` to the last `end`.
    pub fn between_ns(self) -> Result<f64, String> {
        let over = std::fs::write(self.folder.path().join("marks"), format!("{OVER}\n"));
        let mut heard = Vec::new();
        let deadline = Instant::now() + PATIENCE;
        while over.is_ok() {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok((line, _)) if line == OVER => break,
                Ok(mark) => heard.push(mark),
                Err(_) => break,
            }
        }
        between(&heard)
    }
}

fn between(heard: &[(String, Instant)]) -> Result<f64, String> {
    let is = |mark: &'static str| move |(line, _): &&(String, Instant)| line.trim() == mark;
    let begin = heard.iter().find(is("begin"));
    let end = heard.iter().rev().find(is("end"));
    let (Some((_, begin)), Some((_, end))) = (begin, end) else {
        let missing = if begin.is_none() { "begin" } else { "end" };
        return Err(format!("it wrote no line '{missing}' to the file that {VARIABLE} names"));
    };
    Ok(end.saturating_duration_since(*begin).as_nanos() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_the_first_begin_to_the_last_end() {
        let start = Instant::now();
        let at = |mark: &str, ms: u64| (mark.to_owned(), start + Duration::from_millis(ms));
        let heard =
            [at("end", 1), at("begin", 2), at("end", 3), at("begin", 4), at("other", 9), at("end", 7)];
        assert_eq!(between(&heard), Ok(5e6));
        assert!(between(&heard[..1]).unwrap_err().contains("'begin'"));
        assert!(between(&heard[1..2]).unwrap_err().contains("'end'"));
    }

    #[test]
    fn nobody_else_can_swap_the_pipe() {
        let marks = Marks::begin().unwrap();
        let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(marks.folder.path()), private::FOLDER_MODE);
        assert_eq!(mode(&marks.folder.path().join("marks")), private::FILE_MODE);
    }

    #[test]
    fn what_programs_write_is_heard() {
        let marks = Marks::begin().unwrap();
        let path = marks.variable().1;
        for mark in ["begin\n", "end\n"] {
            std::fs::write(&path, mark).unwrap();
        }
        assert!(marks.between_ns().is_ok());
        let silent = Marks::begin().unwrap();
        assert!(silent.between_ns().unwrap_err().contains("'begin'"));
    }
}
