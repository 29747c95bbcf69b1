//! The names people type for events, in the notations of perf, libpfm and our catalogue.

pub mod generic;
mod list;
mod modifiers;
pub(crate) mod near;
mod pmu;
mod special;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

pub use list::{Piece, split};
pub use near::nearest;
pub use pmu::{is_box_of, unit_of_pmu};

use crate::{Catalogue, Event, Signal, catalogue::Entry, event::Modifiers, libpfm};

/// Longest name that is read.
const LONGEST: usize = 1024;

/// A PMU as the kernel lists it: all that is needed to understand names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PmuView {
    /// Folder name: `cpu`, `uncore_imc_0`.
    pub name: String,
    /// The kernel's number of its type.
    pub kind: u32,
    /// Fields of its `format` folder.
    pub fields: BTreeSet<String>,
    /// Its named events, as text: `event=0x04,umask=0x03`.
    pub events: BTreeMap<String, String>,
}

/// What names are understood against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Events of the microarchitecture, if it is known.
    pub catalogue: Option<&'a Catalogue>,
    /// What sysfs lists; empty on a simulated machine.
    pub pmus: &'a [PmuView],
    /// Whether libpfm may be asked for names nobody else knows.
    pub libpfm: bool,
}

/// Where a name was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameOrigin {
    /// In our event files.
    Catalogue,
    /// In a PMU's `events` folder.
    Sysfs,
    /// Spelled out: fields of a PMU, or a raw code.
    Raw,
    /// A generic name of the kernel, a tracepoint or a breakpoint.
    Kernel,
    /// A value of resctrl.
    Resctrl,
    /// libpfm knows it.
    Libpfm,
}

/// A name that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// Ready to be opened.
    pub event: Event,
    /// Where the name was found.
    pub origin: NameOrigin,
    /// The catalogue's entry it comes from, by name.
    pub entry: Option<String>,
}

/// A name that was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// What was read.
    pub text: String,
    /// Where in it, from 1, in characters.
    pub position: usize,
    /// What is wrong.
    pub message: String,
    /// Names that look like it.
    pub near: Vec<String>,
}

impl NameError {
    pub(crate) fn new(text: &str, at: usize, message: impl Into<String>) -> Self {
        let position = text.char_indices().take_while(|(index, _)| *index < at).count() + 1;
        Self { text: text.to_owned(), position, message: message.into(), near: Vec::new() }
    }
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: String = self.text.chars().take(200).collect();
        write!(f, "'{shown}', at {}: {}", self.position, self.message)?;
        match self.near.as_slice() {
            [] => Ok(()),
            near => write!(f, "; did you mean {}?", near.join(", ")),
        }
    }
}

impl std::error::Error for NameError {}

/// Understands one name.
pub fn parse(text: &str, context: &Context) -> Result<Parsed, NameError> {
    match find(text.trim(), context)? {
        Some(parsed) => Ok(parsed),
        None => unknown(text.trim(), context),
    }
}

/// Whether a name is understood, without a search for names near it and without libpfm.
pub fn is_known(name: &str, context: &Context) -> bool {
    matches!(find(name.trim(), context), Ok(Some(_)))
}

fn find(name: &str, context: &Context) -> Result<Option<Parsed>, NameError> {
    if name.is_empty() || name.len() > LONGEST {
        let message = format!("a name has 1 to {LONGEST} bytes");
        return Err(NameError::new(&name.chars().take(40).collect::<String>(), 0, message));
    }
    if let Some(parsed) = special::breakpoint(name)? {
        return Ok(Some(parsed));
    }
    if name.contains('/') {
        return pmu::parse(name, context).map(Some);
    }
    if let Some(parsed) = in_catalogue(name, context)? {
        return Ok(Some(parsed));
    }
    let (base, modes) = split_modes(name);
    let known = generic::signal(base).map(|signal| kernel(base, signal));
    let known = known.or_else(|| special::raw(base, context)).or_else(|| pmu::in_sysfs(base, context));
    let known = known.or_else(|| special::tracepoint(base, context));
    Ok(known.map(|mut parsed| {
        parsed.event.modifiers = modes;
        parsed.event.name = name.to_owned();
        parsed
    }))
}

/// A name of the catalogue, with what follows it.
fn in_catalogue(name: &str, context: &Context) -> Result<Option<Parsed>, NameError> {
    let Some(catalogue) = context.catalogue else { return Ok(None) };
    // The longest name that exists wins: masks and modifiers are separated by the same colon.
    let ends = name.char_indices().filter(|(_, c)| *c == ':').map(|(at, _)| at);
    let mut ends: Vec<usize> = ends.chain([name.len()]).collect();
    ends.reverse();
    for end in ends {
        if let Some(event) = catalogue.event(&name[..end]) {
            let base = name[..end].split('@').next().unwrap_or_default();
            return follow(event, catalogue.entry(base), name, end).map(Some);
        }
    }
    Ok(None)
}

/// Applies what follows the first `end` bytes of a name.
fn follow(mut event: Event, entry: Option<&Entry>, name: &str, end: usize) -> Result<Parsed, NameError> {
    let mut at = end;
    for part in name[end..].split(':').skip(1) {
        at += 1;
        let error = |message: String| NameError::new(name, at, message);
        if let Some(more) = modifiers::modes(part) {
            modifiers::merge(&mut event.modifiers, more).map_err(error)?;
        } else if let Signal::Encoded(encoding) = &mut event.signal
            && !modifiers::set(encoding, part).map_err(error)?
        {
            return Err(error(format!("'{part}' is no mask, field or modifier of {}", event.name)));
        }
        at += part.len();
    }
    // A changed event is no longer what fixed counters count.
    if at > end && entry.is_some_and(|entry| Signal::Encoded(entry.encoding.clone()) != event.signal) {
        event.counters.fixed = None;
    }
    event.name = name.to_owned();
    Ok(Parsed { event, origin: NameOrigin::Catalogue, entry: entry.map(|entry| entry.name.clone()) })
}

/// A name without the modes after its last colon.
fn split_modes(name: &str) -> (&str, Modifiers) {
    let Some((base, last)) = name.rsplit_once(':') else { return (name, Modifiers::default()) };
    match modifiers::modes(last) {
        Some(modes) => (base, modes),
        None => (name, Modifiers::default()),
    }
}

fn kernel(name: &str, signal: Signal) -> Parsed {
    Parsed { event: Event::new(name, signal), origin: NameOrigin::Kernel, entry: None }
}

/// Asks libpfm, and says which names are near if it does not know either.
fn unknown(name: &str, context: &Context) -> Result<Parsed, NameError> {
    let mut message = "no such event here".to_owned();
    if context.libpfm {
        match libpfm::encode(name, context.pmus) {
            Ok(event) => return Ok(Parsed { event, origin: NameOrigin::Libpfm, entry: None }),
            Err(libpfm::LibpfmError::Unknown { .. }) => message += ", and libpfm does not know it either",
            Err(error) => message = format!("{message} ({error})"),
        }
    }
    let mut error = NameError::new(name, 0, message);
    let generic = generic::all();
    let sysfs = context.pmus.iter().flat_map(|pmu| pmu.events.keys().map(String::as_str));
    let catalogue = context.catalogue.into_iter().flat_map(Catalogue::names);
    let base = split_modes(name).0;
    error.near = near::nearest(base, catalogue.chain(generic.iter().map(String::as_str)).chain(sysfs));
    Err(error)
}
