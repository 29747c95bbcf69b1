//! A perf.data that is a folder: `perf record --threads` and `--kcore` write one.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use crate::{
    ImportError,
    input::{Input, SeekableInput},
    opened,
    perf_data::{self, FurtherRecords, PerfOutcome, RecordConsumer},
};

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerfFolder {
    /// With the frame.
    pub main: PathBuf,
    /// With records of a ring each.
    pub further: Vec<PathBuf>,
    /// The kernel's symbols at that time.
    pub kernel_symbols: Option<PathBuf>,
}

impl PerfFolder {
    /// Looks into a folder; none if the path is no folder.
    pub fn at(path: &Path) -> Result<Option<Self>, ImportError> {
        if !path.is_dir() {
            return Ok(None);
        }
        let main = path.join("data");
        if !main.is_file() {
            return Err(ImportError::Folder { path: path.to_owned() });
        }
        let unreadable = |source| ImportError::Unreadable { path: path.to_owned(), source };
        let mut numbered = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let name = entry.file_name();
            let number = name.to_str().and_then(|name| name.strip_prefix("data.")?.parse::<u32>().ok());
            numbered.extend(number.map(|number| (number, entry.path())));
        }
        numbered.sort();
        let symbols = path.join("kcore_dir/kallsyms");
        Ok(Some(Self {
            main,
            further: numbered.into_iter().map(|(_, path)| path).collect(),
            kernel_symbols: symbols.is_file().then_some(symbols),
        }))
    }

    /// Reads all of it; `path` is for errors.
    pub fn read(&self, path: &str, consumer: &mut dyn RecordConsumer) -> Result<PerfOutcome, ImportError> {
        let mut main = SeekableInput(opened(&self.main)?);
        let opened = self.further.iter().map(|path| opened(path).map(SeekableInput));
        let mut inputs = opened.collect::<Result<Vec<SeekableInput<File>>, _>>()?;
        let further = inputs.iter_mut().zip(&self.further).map(|(input, path)| FurtherRecords {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            input: input as &mut dyn Input,
        });
        perf_data::read_folder(&mut main, further.collect(), path, consumer)
    }
}
