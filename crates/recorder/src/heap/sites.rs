//! From return addresses to who allocated.
//!
//! The first address of a note is certain: the allocator returns to it. The others are words that lay on the stack and
//! may be left over from earlier calls. One is believed if a call stands before it that leads where the stack says:
//! into the function further in, to a stub or through a pointer, or to a function that jumps there at its end.

use std::{
    collections::{BTreeSet, HashMap},
    rc::Rc,
};

use code::{Flow, decode_range};
use record::data::Site;
use symbols::Image;

use super::{assigned::AssignedNames, wrappers::is_wrapper};
use crate::{calls::call_before, modules::Modules, spaces::Space};

/// Frames remembered; beyond it the memory begins anew.
const KEPT_FRAMES: usize = 1 << 16;

/// Functions that end in a jump elsewhere are looked through up to this size.
const LONGEST_STUB_BYTES: u64 = 4096;

/// A return address, explained.
#[derive(Debug)]
struct SiteFrame {
    module: usize,
    path: String,
    /// In the module's own terms.
    address: u64,
    function: String,
    /// First address of the function; none if it is not known.
    start: Option<u64>,
    /// The call before it.
    call: Option<Call>,
}

#[derive(Debug)]
enum Call {
    Indirect,
    /// Into the function with this first address and name, which jumps to these addresses.
    Direct {
        start: u64,
        name: String,
        jumps: BTreeSet<u64>,
    },
}

/// Explains return addresses, and remembers them.
#[derive(Debug, Default)]
pub(super) struct Frames {
    by_address: HashMap<(usize, u64), Rc<SiteFrame>>,
    names: AssignedNames,
}

/// Who allocated: which frames, outwards.
pub(super) type SiteKey = Vec<(usize, u64)>;

impl Frames {
    /// The site of a note's return addresses, and what makes it this one. None: the address lies in no known code.
    pub fn site(
        &mut self,
        callers: &[u64],
        space: &Space,
        modules: &mut Modules,
        pid: i32,
    ) -> Option<(SiteKey, Site)> {
        let first = self.frame(*callers.first()?, space, modules, pid)?;
        let (mut key, mut names) =
            (vec![(first.module, first.address)], vec![(Rc::clone(&first), first.function.clone())]);
        let mut inner = first;
        for address in callers[1..].iter().take_while(|address| **address != 0) {
            let Some(outer) = self.frame(*address, space, modules, pid) else { continue };
            let Some(between) = leads_to(&outer, &inner) else { continue };
            key.push((outer.module, outer.address));
            names.extend(between.map(|name| (Rc::clone(&outer), name)));
            names.push((Rc::clone(&outer), outer.function.clone()));
            inner = outer;
        }
        let at = names.iter().position(|(_, name)| !is_wrapper(name)).unwrap_or(names.len() - 1);
        let (frame, function) = &names[at];
        let line = modules.image(frame.module, pid, None).and_then(|image| line_of(image, frame.address));
        let mut callers: Vec<String> = names[at + 1..].iter().map(|(_, name)| name.clone()).collect();
        callers.dedup();
        let variable = line.as_ref().and_then(|(file, line)| self.names.at(file, *line));
        let site = Site {
            variable,
            function: function.clone(),
            module: frame.path.clone(),
            address: frame.address,
            line,
            callers,
        };
        Some((key, site))
    }

    fn frame(
        &mut self,
        address: u64,
        space: &Space,
        modules: &mut Modules,
        pid: i32,
    ) -> Option<Rc<SiteFrame>> {
        let mapped = *space.at(address)?;
        let number = mapped.module;
        // Opened first: the module's own addresses are known only then.
        modules.image(number, pid, Some(&mapped));
        let own = modules.address(number, Some(&mapped), address);
        if let Some(known) = self.by_address.get(&(number, own)) {
            return Some(Rc::clone(known));
        }
        let path = modules.get(number).about.path.clone();
        let image = modules.image(number, pid, Some(&mapped));
        let frame = Rc::new(explain(number, path, own, image));
        if self.by_address.len() >= KEPT_FRAMES {
            self.by_address.clear();
        }
        self.by_address.insert((number, own), Rc::clone(&frame));
        Some(frame)
    }
}

/// A call may be the last instruction of its function: what belongs to it is found before the return address.
fn inside(address: u64) -> u64 {
    address.saturating_sub(1)
}

fn line_of(image: &Image, address: u64) -> Option<(String, u32)> {
    // The last is of the function itself, those before were inlined into it.
    let location = image.lines_at(inside(address)).pop()?;
    location.file.zip(location.line)
}

fn explain(module: usize, path: String, address: u64, image: Option<&Image>) -> SiteFrame {
    let function = image.and_then(|image| image.function_at(inside(address)));
    let start = function.as_ref().map(|function| function.range.start);
    let function = function.map_or_else(
        || format!("unknown code at {address:#x}"),
        |function| function.demangled().into_owned(),
    );
    let call = image.filter(|image| image.is_x86_64()).and_then(|image| {
        let (flow, block) = call_before(image, address)?;
        Some(if flow == Flow::Call { direct(image, block.target()?) } else { Call::Indirect })
    });
    SiteFrame { module, path, address, function, start, call }
}

fn direct(image: &Image, target: u64) -> Call {
    let Some(function) = image.function_at(target) else {
        return Call::Direct { start: target, name: String::new(), jumps: BTreeSet::new() };
    };
    let range = function.range.clone();
    let bytes = Some(range.clone()).filter(|range| range.end - range.start <= LONGEST_STUB_BYTES);
    let decoded =
        bytes.and_then(|range| image.bytes(range)).map(|bytes| decode_range(bytes, range.start, &[]));
    let jumps = decoded.map_or_else(BTreeSet::new, |decoded| {
        let leaving = decoded.blocks.iter().filter_map(|block| block.target());
        leaving.filter(|target| !range.contains(target)).collect()
    });
    Call::Direct { start: range.start, name: function.demangled().into_owned(), jumps }
}

/// Whether the call before `outer` leads into the function of `inner`. Gives the function in between, if it left its
/// frame to the next one by a jump.
fn leads_to(outer: &SiteFrame, inner: &SiteFrame) -> Option<Option<String>> {
    match outer.call.as_ref()? {
        Call::Indirect => Some(None),
        Call::Direct { name, .. } if name.ends_with("@plt") => (outer.module != inner.module).then_some(None),
        Call::Direct { start, name, jumps } => {
            let wanted = inner.start.filter(|_| outer.module == inner.module)?;
            if *start == wanted {
                return Some(None);
            }
            jumps.contains(&wanted).then(|| Some(name.clone()))
        }
    }
}
