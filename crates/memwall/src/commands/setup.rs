//! `memwall setup`: man pages and shell completions, where `man` and shells look for them; and what programs mark regions with.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap_complete::Shell;
use rustix::fs::Mode;

use crate::{failure::Failure, output, typed};

/// Install man pages, shell completions, and the headers that programs mark regions with
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct SetupArgs {
    /// Below this folder [default: /usr/local for root, else ~/.local]
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  memwall setup                        for you alone, or for all if you are root
  memwall setup --prefix pkg/usr       into a package

Writes share/man/man1, share/bash-completion/completions, share/zsh/site-functions, share/fish/vendor_completions.d,
include/memwall (memwall.h, and likwid-marker.h and likwid.h for programs that are marked for LIKWID), lib/libmemwall.a (the
marks for languages that include no headers) and share/memwall/python.";

/// What programs mark their regions with, below the prefix.
const MARKERS: [(&str, &str, &[u8]); 5] = [
    ("include/memwall", "memwall.h", include_bytes!("../../../../include/memwall.h")),
    ("include/memwall", "likwid-marker.h", include_bytes!("../../../../include/likwid-marker.h")),
    ("include/memwall", "likwid.h", include_bytes!("../../../../include/likwid.h")),
    ("share/memwall/python/memwall", "__init__.py", include_bytes!("../../../../python/memwall/__init__.py")),
    ("lib", "libmemwall.a", heap::MARK_LIBRARY),
];

/// Where each shell looks, below the prefix.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "share/bash-completion/completions"),
    (Shell::Zsh, "share/zsh/site-functions"),
    (Shell::Fish, "share/fish/vendor_completions.d"),
];

const MAN: &str = "share/man/man1";

/// What others get of it: all may read it, nobody else write. Programs of theirs load what lies here.
const WITHHELD: Mode = Mode::from_raw_mode(0o022);

/// Writes them.
pub fn run(args: &SetupArgs) -> Result<(), Failure> {
    // Whatever the caller's is: those who make pages and completions ask for no mode of their own.
    rustix::process::umask(WITHHELD);
    let prefix = match &args.prefix {
        Some(prefix) => prefix.clone(),
        None => default_prefix()?,
    };
    let failed = |folder: &Path| {
        let folder = folder.display().to_string();
        move |error: std::io::Error| Failure::Measurement(format!("cannot write below {folder}: {error}"))
    };
    let man = folder(&prefix, MAN)?;
    clap_mangen::generate_to(typed::documented(), &man).map_err(failed(&man))?;
    for (shell, place) in SHELLS {
        let place = folder(&prefix, place)?;
        let mut command = typed::command();
        clap_complete::generate_to(shell, &mut command, "memwall", &place).map_err(failed(&place))?;
    }
    for (place, name, bytes) in MARKERS {
        let place = folder(&prefix, place)?;
        fs::write(place.join(name), bytes).map_err(failed(&place))?;
    }
    output::text(&format!(
        "man pages and completions for bash, zsh and fish are below {}; shells that run already read them when they start anew\n\
         headers to mark regions with are in {}",
        prefix.join("share").display(),
        prefix.join("include/memwall").display()
    ))
}

fn folder(prefix: &Path, below: &str) -> Result<PathBuf, Failure> {
    let folder = prefix.join(below);
    fs::create_dir_all(&folder)
        .map_err(|error| Failure::Measurement(format!("cannot make {}: {error}", folder.display())))?;
    Ok(folder)
}

fn default_prefix() -> Result<PathBuf, Failure> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from("/usr/local"));
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(|home| PathBuf::from(home).join(".local"))
        .ok_or_else(|| Failure::Usage("there is no home folder; name one with --prefix".to_owned()))
}
