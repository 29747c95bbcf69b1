//! The files that ran elsewhere, found on this machine by their build ids; never by their names alone.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use record::run::ModuleKind;
use recorder::{ImageFinder, WantedImage};
use symbols::{Identity, Image, hex};

/// Where files may be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageFolders {
    /// Caches of `perf buildid-cache`, as `~/.debug`.
    pub caches: Vec<PathBuf>,
    /// Folders with separate debug information, as `/usr/lib/debug`; the first is also searched for the symbols of
    /// stripped files.
    pub debug: Vec<PathBuf>,
    /// Caches of debuginfod.
    pub debuginfod: Vec<PathBuf>,
    /// Where `proc` and `sys` of the running kernel are; none: it is not asked for names.
    pub running_kernel: Option<PathBuf>,
}

impl ImageFolders {
    /// Those that perf and debuggers use, for a user with this home and cache.
    pub fn of_user(home: Option<&Path>, cache: Option<&Path>) -> Self {
        Self {
            caches: home.map(|home| home.join(".debug")).into_iter().collect(),
            debug: vec!["/usr/lib/debug".into()],
            debuginfod: cache.map(|cache| cache.join("debuginfod_client")).into_iter().collect(),
            running_kernel: Some("/".into()),
        }
    }

    /// The folder with the symbols of a stripped file: the first that has them.
    fn debug_root(&self, build_id: Option<&[u8]>) -> Option<&Path> {
        let digits = hex(build_id.unwrap_or_default());
        let (first, rest) = digits.split_at(digits.len().min(2));
        let has =
            |folder: &&PathBuf| folder.join(".build-id").join(first).join(format!("{rest}.debug")).exists();
        self.debug.iter().find(has).or(self.debug.first()).map(PathBuf::as_path)
    }

    /// All places of a file with a build id, wherever it was when it ran.
    fn of_build_id(&self, id: &[u8]) -> Vec<PathBuf> {
        let digits = hex(id);
        let (first, rest) = digits.split_at(digits.len().min(2));
        let mut places = Vec::new();
        for folder in self.caches.iter().chain(&self.debug) {
            let place = folder.join(".build-id").join(first).join(rest);
            // A folder since perf 4.11; before, a link to the file.
            places.extend([place.join("elf"), place.join("vdso"), place]);
        }
        places.extend(self.debuginfod.iter().map(|folder| folder.join(&digits).join("executable")));
        places
    }
}

/// Finds files.
#[derive(Debug)]
pub(crate) struct ImportedImages {
    pub folders: ImageFolders,
    /// The file was recorded on this machine, as far as its name and its kernel tell.
    pub is_this_machine: bool,
}

impl ImageFinder for ImportedImages {
    fn find(&mut self, wanted: &WantedImage<'_>) -> Result<Image, String> {
        let found = match wanted.build_id.filter(|id| !id.is_empty()) {
            Some(id) => self.by_build_id(wanted, id),
            None if wanted.kind == ModuleKind::Vdso && self.is_this_machine => own_vdso(None),
            None if wanted.kind == ModuleKind::Vdso => {
                Err("the file has no build id of it, and every kernel has its own".to_owned())
            }
            None => self.by_inode(wanted),
        };
        found.map(|image| match self.folders.debug_root(wanted.build_id) {
            Some(root) => image.with_debug_root(root),
            None => image,
        })
    }
}

impl ImportedImages {
    fn by_build_id(&self, wanted: &WantedImage<'_>, id: &[u8]) -> Result<Image, String> {
        let identity = Identity { build_id: Some(id.to_vec()), stamp: None };
        let own = Path::new(wanted.path);
        let places =
            own.is_absolute().then(|| own.to_owned()).into_iter().chain(self.folders.of_build_id(id));
        let mut opened = places.filter_map(|place| Image::open(&place, Some(&identity)).ok());
        if let Some(image) = opened.next() {
            return Ok(image);
        }
        if wanted.kind == ModuleKind::Vdso {
            return own_vdso(Some(id));
        }
        let digits = hex(id);
        Err(format!(
            "no file with its build id {digits} is here; 'perf buildid-cache --add FILE' makes one known, and 'perf \
             archive' on the machine that recorded packs all of them"
        ))
    }

    /// Without a build id only the file itself will do: on the same machine, under the same name and number.
    fn by_inode(&self, wanted: &WantedImage<'_>) -> Result<Image, String> {
        let no = |why: &str| Err(format!("the file has no build id of it, and {why}"));
        if !self.is_this_machine {
            return no("it was recorded on another machine; 'perf inject -b' there adds them");
        }
        let Some(inode) = wanted.inode else {
            return no("no inode either: nobody knows whether it is the same");
        };
        match fs::metadata(wanted.path) {
            Ok(about) if about.ino() == inode => {
                Image::open(wanted.path.as_ref(), None).map_err(|error| error.to_string())
            }
            Ok(_) => no("another file has its name now"),
            Err(_) => no("it is not there any more"),
        }
    }
}

/// The kernel's page of shared code, if it is the one with this build id.
fn own_vdso(id: Option<&[u8]>) -> Result<Image, String> {
    let bytes = recorder::own_vdso().ok_or("this kernel has none")?;
    if id.is_some_and(|id| symbols::build_id(&bytes).as_deref() != Some(id)) {
        return Err("it is that of another kernel".to_owned());
    }
    Image::from_bytes("[vdso]", bytes).map_err(|error| error.to_string())
}
