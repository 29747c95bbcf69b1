//! The code that samples landed in: functions with names, bytes and source lines, so that a report needs no file of
//! the program.

use std::collections::{BTreeMap, HashMap};

use code::decode_range;
use record::{
    file::Code,
    ids::{FunctionId, ModuleId},
    inlined::{InlinedCall, InlinedRange},
    run::{Function, LineRange, Module, ModuleKind, Place, Run},
};
use symbols::{Identity, Image, PerfMap, SourceLocation};

use super::{known_work::GeneratedCode, memory::CodePages};

/// Of a longer function only the beginning is kept.
const LONGEST_CODE_BYTES: u64 = 256 << 10;

/// Code kept in all.
const KEPT_BYTES: usize = 64 << 20;

/// Lines of longer functions are looked up only around places.
const LINES_OF_INSTRUCTIONS: usize = 4096;

/// Names of inlined functions kept in all: those of templates may be as long as a page.
const KEPT_NAME_BYTES: usize = 8 << 20;

/// How many instructions around a place.
const NEAR: usize = 32;

/// Around places of which nothing is known, so many bytes of code are kept on either side.
const UNKNOWN_BYTES: u64 = 512;

/// Where the code of one module can be had from.
#[derive(Clone, Copy, Default)]
pub(super) struct Sources<'a> {
    pub image: Option<&'a Image>,
    /// Pages copied from memory, if there are any of this module.
    pub pages: Option<&'a CodePages>,
    /// Names that the program gave to generated code.
    pub names: Option<&'a PerfMap>,
    /// Generated code that was handed in.
    pub generated: &'a [GeneratedCode],
}

/// Collects the code of places, module by module.
#[derive(Debug, Default)]
pub(super) struct Collector {
    code: Code,
    /// Which places have samples; others are callers, of whose functions only the names are kept.
    sampled: Vec<bool>,
    files: HashMap<String, u32>,
    calls: HashMap<InlinedCall, u32>,
    kept_bytes: usize,
    kept_name_bytes: usize,
}

/// One function with the places in it.
struct FoundCode {
    function: Function,
    places: Vec<usize>,
}

impl Collector {
    /// For places of which these have samples.
    pub fn new(sampled: Vec<bool>) -> Self {
        let code = Code { function_of_place: vec![None; sampled.len()], ..Code::default() };
        Self { code, sampled, ..Self::default() }
    }

    /// Adds the functions of a module's places.
    pub fn module(&mut self, module: u32, places: &[Place], sources: Sources<'_>) {
        let own = places.iter().enumerate().filter(|(_, place)| place.module == ModuleId(module));
        let mut functions: BTreeMap<u64, FoundCode> = BTreeMap::new();
        let mut unknown: Vec<(u64, usize)> = Vec::new();
        for (index, place) in own {
            match function_at(module, place.address, sources) {
                Some(function) => {
                    let found = functions.entry(function.start);
                    found.or_insert(FoundCode { function, places: Vec::new() }).places.push(index);
                }
                None if self.sampled[index] => unknown.push((place.address, index)),
                None => {}
            }
        }
        unknown.sort_unstable();
        let unknown = unknown_code(module, &unknown, sources);
        for found in functions.into_values().chain(unknown) {
            self.add(found, places, sources);
        }
    }

    pub fn finish(mut self) -> Code {
        self.code.lines.sort_unstable_by_key(|line| (line.module, line.start));
        self.code.inlined.ranges.sort_unstable_by_key(|range| (range.module, range.start));
        self.code
    }

    fn add(&mut self, mut found: FoundCode, places: &[Place], sources: Sources<'_>) {
        let has_samples = found.places.iter().any(|place| self.sampled[*place]);
        let function = &mut found.function;
        let end = function.end.min(function.start.saturating_add(LONGEST_CODE_BYTES));
        if has_samples && function.code.is_none() && self.kept_bytes < KEPT_BYTES {
            function.code = bytes(function.module.0, function.start, end, sources);
        }
        self.kept_bytes += function.code.as_ref().map_or(0, Vec::len);
        if let Some(image) = sources.image.filter(|image| image.has_debug_info()) {
            let at = found.places.iter().map(|index| places[*index].address).collect();
            self.lines(&found.function, at, image);
        }
        let index = u32::try_from(self.code.functions.len()).unwrap_or(u32::MAX);
        for place in found.places {
            self.code.function_of_place[place] = Some(FunctionId(index));
        }
        self.code.functions.push(found.function);
    }

    /// The lines of a function's instructions, neighbours with the same line as one range.
    fn lines(&mut self, function: &Function, mut places: Vec<u64>, image: &Image) {
        let Some(bytes) = &function.code else { return };
        let decoded = decode_range(bytes, function.start, &[]);
        let all: Vec<(u64, u64)> = decoded
            .blocks
            .iter()
            .flat_map(|block| block.instructions())
            .map(|instruction| (instruction.address(), instruction.next_address()))
            .collect();
        places.sort_unstable();
        let is_near = |index: usize| {
            let first = all[index.saturating_sub(NEAR)].0;
            let last = all[(index + NEAR).min(all.len() - 1)].0;
            places.get(places.partition_point(|place| *place < first)).is_some_and(|place| *place <= last)
        };
        for (index, &(start, end)) in all.iter().enumerate() {
            if all.len() > LINES_OF_INSTRUCTIONS && !is_near(index) {
                continue;
            }
            let frames = image.lines_at(start);
            let known = frames.first().and_then(|innermost| innermost.file.as_ref().zip(innermost.line));
            let Some((file, line)) = known else { continue };
            let file = self.file(file.clone());
            if let Some(call) = self.innermost_call(&frames) {
                self.inlined(function.module, (start, end), call);
            }
            match self.code.lines.last_mut() {
                Some(last)
                    if (last.module, last.end, last.file, last.line)
                        == (function.module, start, file, line) =>
                {
                    last.end = end;
                }
                _ => self.code.lines.push(LineRange { module: function.module, start, end, file, line }),
            }
        }
    }

    /// The call that the innermost of these frames was inlined at; none if nothing was, or its names take too much room.
    fn innermost_call(&mut self, frames: &[SourceLocation]) -> Option<u32> {
        let mut caller = None;
        // From the outside in: each call stands in the frame around it.
        for pair in frames.windows(2).rev() {
            let [inner, outer] = pair else { continue };
            let call = InlinedCall {
                function: inner.function.clone().unwrap_or_else(|| "a function without a name".to_owned()),
                file: outer.file.as_ref().map(|file| self.file(file.clone())),
                line: outer.line,
                caller,
            };
            caller = Some(self.call(call)?);
        }
        caller
    }

    fn call(&mut self, call: InlinedCall) -> Option<u32> {
        if let Some(&index) = self.calls.get(&call) {
            return Some(index);
        }
        self.kept_name_bytes += call.function.len();
        if self.kept_name_bytes > KEPT_NAME_BYTES {
            return None;
        }
        let index = u32::try_from(self.code.inlined.calls.len()).ok()?;
        self.code.inlined.calls.push(call.clone());
        self.calls.insert(call, index);
        Some(index)
    }

    /// Neighbours of the same call are one range.
    fn inlined(&mut self, module: ModuleId, (start, end): (u64, u64), call: u32) {
        match self.code.inlined.ranges.last_mut() {
            Some(last) if (last.module, last.end, last.call) == (module, start, call) => last.end = end,
            _ => self.code.inlined.ranges.push(InlinedRange { module, start, end, call }),
        }
    }

    fn file(&mut self, path: String) -> u32 {
        let next = u32::try_from(self.code.files.len()).unwrap_or(u32::MAX);
        *self.files.entry(path).or_insert_with_key(|path| {
            self.code.files.push(path.clone());
            next
        })
    }
}

/// The function at an address, without its code.
fn function_at(module: u32, address: u64, sources: Sources<'_>) -> Option<Function> {
    if let Some(found) = sources.generated.iter().find(|code| code.holds(address)) {
        let (name, code) = (found.name.clone(), Some(found.bytes.clone()));
        return Some(Function {
            module: ModuleId(module),
            symbol: None,
            name,
            start: found.start,
            end: found.end(),
            code,
        });
    }
    if let Some(found) = sources.image.and_then(|image| image.function_at(address)) {
        let symbol = found.is_named().then(|| found.name.clone().into_owned());
        let name = found.demangled().into_owned();
        let range = found.range;
        return Some(Function {
            module: ModuleId(module),
            symbol,
            name,
            start: range.start,
            end: range.end,
            code: None,
        });
    }
    let (range, name) = sources.names?.at(address)?;
    let (symbol, name) = (Some(name.to_owned()), symbols::demangle(name).into_owned());
    Some(Function { module: ModuleId(module), symbol, name, start: range.start, end: range.end, code: None })
}

fn bytes(module: u32, start: u64, end: u64, sources: Sources<'_>) -> Option<Vec<u8>> {
    let in_image = sources.image.and_then(|image| {
        // Functions may be said to reach beyond what the file holds.
        image.bytes(start..end).or_else(|| image.code_at(start, 0, end - start).map(|window| window.bytes))
    });
    in_image.map(<[u8]>::to_vec).or_else(|| sources.pages?.bytes(module, start, end))
}

/// Code that belongs to no known function: stretches around the places, sorted by address. A stretch begins where
/// decoding from there meets the places.
fn unknown_code(module: u32, places: &[(u64, usize)], sources: Sources<'_>) -> Vec<FoundCode> {
    let mut all: Vec<FoundCode> = Vec::new();
    for &(address, index) in places {
        if let Some(last) = all.last_mut()
            && address < last.function.end
        {
            last.places.push(index);
            continue;
        }
        let before = all.last().map_or(0, |last| last.function.end);
        let Some((start, code)) = unknown_stretch(module, address, sources, before) else { continue };
        let end = start + code.len() as u64;
        let name = format!("unknown code at {start:#x}");
        let function =
            Function { module: ModuleId(module), symbol: None, name, start, end, code: Some(code) };
        all.push(FoundCode { function, places: vec![index] });
    }
    all
}

/// Code around an address of which nothing is known, behind `before`.
pub(super) fn unknown_stretch(
    module: u32,
    address: u64,
    sources: Sources<'_>,
    before: u64,
) -> Option<(u64, Vec<u8>)> {
    let (start, bytes) = stretch_around(module, address, sources)?;
    Some(align(start, bytes, address, before))
}

fn stretch_around(module: u32, address: u64, sources: Sources<'_>) -> Option<(u64, Vec<u8>)> {
    if let Some(window) = sources.image.and_then(|image| image.code_at(address, UNKNOWN_BYTES, UNKNOWN_BYTES))
    {
        return Some((window.start, window.bytes.to_vec()));
    }
    let pages = sources.pages?;
    let (first, last) = pages.around(module, address)?;
    let start = address.saturating_sub(UNKNOWN_BYTES).max(first);
    let end = address.saturating_add(UNKNOWN_BYTES).min(last);
    Some((start, pages.bytes(module, start, end)?))
}

/// Instructions have no marks: of the first bytes behind `before`, takes one from which decoding meets `address`.
fn align(start: u64, bytes: Vec<u8>, address: u64, before: u64) -> (u64, Vec<u8>) {
    const LONGEST_INSTRUCTION: usize = 15;
    let skip = usize::try_from(before.saturating_sub(start)).unwrap_or(bytes.len()).min(bytes.len());
    let fits = (skip..bytes.len().min(skip + 4 * LONGEST_INSTRUCTION)).find(|&first| {
        let decoded = decode_range(&bytes[first..], start + first as u64, &[]);
        decoded.find(address).is_some()
    });
    let first = fits.unwrap_or(skip);
    (start + first as u64, bytes[first..].to_vec())
}

/// Adds functions, code and lines to a run that was cut off before they were written, as far as the files are still
/// there with the same build id. Does nothing to a run that has them.
pub fn complete(run: &mut Run) {
    if !run.functions.is_empty() || run.places.is_empty() {
        return;
    }
    let mut sampled = vec![false; run.places.len()];
    for place in &run.samples.place {
        sampled[place.index()] = true;
    }
    for load in run.loads.taken() {
        sampled[load.place.index()] = true;
    }
    let mut collector = Collector::new(sampled);
    for (index, module) in run.modules.iter_mut().enumerate() {
        let image = if module.kind == ModuleKind::File { reopen(module) } else { None };
        if let Some(image) = &image {
            let sources = Sources { image: Some(image), ..Sources::default() };
            collector.module(u32::try_from(index).unwrap_or(u32::MAX), &run.places, sources);
        }
    }
    let code = collector.finish();
    for (place, function) in run.places.iter_mut().zip(&code.function_of_place) {
        place.function = *function;
    }
    (run.functions, run.files, run.lines) = (code.functions, code.files, code.lines);
    run.inlined = code.inlined;
}

fn reopen(module: &mut Module) -> Option<Image> {
    let Some(build_id) = module.build_id.as_deref().and_then(from_hex) else {
        module.problem.get_or_insert_with(|| {
            format!("{}: without a build id nobody knows whether the file is still the same", module.path)
        });
        return None;
    };
    let identity = Identity { build_id: Some(build_id), stamp: None };
    match Image::open(module.path.as_ref(), Some(&identity)) {
        Ok(image) => Some(image),
        Err(error) => {
            module.problem.get_or_insert_with(|| error.to_string());
            None
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok())).collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
