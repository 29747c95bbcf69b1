//! Which functions of several runs are the same one.
//!
//! Ids hold within one recording only. In one build of a module its address tells a function for sure. Across builds it
//! is known by its module, its name as linked and the source file it begins in; two of the same file cannot be told
//! apart then, and are taken together with a remark. A folder of programs or sources that was moved between the sides is
//! followed as long as names of files leave no choice.

use std::collections::{BTreeMap, BTreeSet};

use record::run::Run;

use super::ComparedFunction;
use crate::findings::{Split, SymbolFinding, ThreadActivity};

/// Who a function is, as far as its recording tells.
#[derive(Clone, Debug)]
pub(super) struct FunctionIdentity {
    /// For people.
    pub name: String,
    /// As linked, or for people where it has no name there.
    pub symbol: String,
    /// Path of the module.
    pub module: String,
    /// Build of the module.
    pub build: Option<String>,
    /// Source file of its first address.
    pub file: Option<String>,
    /// First address; none of code that belongs to no known function.
    pub start: Option<u64>,
    /// Samples in it, by what the core did.
    pub split: Split,
}

impl FunctionIdentity {
    /// Of a finding in its own run.
    pub fn of(run: &Run, found: &SymbolFinding) -> Self {
        let start = found.function.and_then(|id| run.function(id)).map(|function| function.start);
        let line = start.and_then(|start| run.line_at(found.module_id, start));
        Self {
            name: found.name.clone(),
            symbol: found.symbol.clone().unwrap_or_else(|| found.name.clone()),
            module: found.module.clone(),
            build: run.module(found.module_id).and_then(|module| module.build_id.clone()),
            file: line.map(|(file, _)| file.to_owned()),
            start,
            split: found.split,
        }
    }
}

/// One function over all runs.
pub(super) struct JoinedFunction {
    pub name: String,
    pub about: ComparedFunction,
    /// Samples of each run of a side that saw it.
    pub samples: [BTreeMap<usize, u64>; 2],
    /// The same by activity, in the order of [`ThreadActivity::ALL`].
    pub activities: [BTreeMap<usize, ActivitySamples>; 2],
}

/// Samples by activity.
pub(super) type ActivitySamples = [f64; ThreadActivity::ALL.len()];

/// A function of one run, its paths as the side before has them.
struct Member {
    side: usize,
    run: usize,
    file: Option<String>,
    of: FunctionIdentity,
}

/// All functions of the runs of both sides, each once, and what could not be told apart.
pub(super) fn joined(both: [Vec<&[FunctionIdentity]>; 2]) -> (Vec<JoinedFunction>, Vec<String>) {
    let mut modules: [BTreeSet<String>; 2] = Default::default();
    each(&both).for_each(|(side, _, function)| modules[side].extend([function.module.clone()]));
    let moved_modules = moved(&modules);
    let module_of = |function: &FunctionIdentity| followed(&moved_modules, &function.module);
    let mut files: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for (side, _, function) in each(&both) {
        files.entry(module_of(function)).or_default()[side].extend(function.file.clone());
    }
    // Where any file is still where it was, the sources were not moved.
    let stayed = |files: &[BTreeSet<String>; 2]| !files[0].is_disjoint(&files[1]);
    let moved_files: BTreeMap<String, BTreeMap<String, String>> = files
        .iter()
        .filter(|(_, files)| !stayed(files))
        .map(|(module, files)| (module.clone(), moved(files)))
        .collect();
    let mut groups: BTreeMap<(String, String), Vec<Member>> = BTreeMap::new();
    for (side, run, function) in each(&both) {
        let module = module_of(function);
        let file = function.file.as_deref().map(|file| {
            moved_files.get(&module).map_or_else(|| file.to_owned(), |moved| followed(moved, file))
        });
        let member = Member { side, run, file, of: function.clone() };
        groups.entry((module, function.symbol.clone())).or_default().push(member);
    }
    let (mut all, mut remarks) = (Vec::new(), Vec::new());
    for ((module, _), members) in groups {
        for group in told_apart(members) {
            remarks.extend(summed(&module, &group));
            all.extend(function(&module, group));
        }
    }
    (all, remarks)
}

/// Every function with its side and its run.
fn each<'a>(
    both: &'a [Vec<&'a [FunctionIdentity]>; 2],
) -> impl Iterator<Item = (usize, usize, &'a FunctionIdentity)> {
    both.iter().enumerate().flat_map(|(side, runs)| {
        runs.iter()
            .enumerate()
            .flat_map(move |(run, functions)| functions.iter().map(move |function| (side, run, function)))
    })
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Paths of the side after that the side before has elsewhere: neither has the other's, and each has one of that name.
fn moved([before, after]: &[BTreeSet<String>; 2]) -> BTreeMap<String, String> {
    let only = |here: &BTreeSet<String>, there: &BTreeSet<String>| {
        let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in here.difference(there) {
            by_name.entry(file_name(path).to_owned()).or_default().push(path.clone());
        }
        by_name
    };
    let (before, after) = (only(before, after), only(after, before));
    let pair = |(name, paths): (String, Vec<String>)| match (&paths[..], before.get(&name).map(Vec::as_slice))
    {
        ([now], Some([once])) => Some((now.clone(), once.clone())),
        _ => None,
    };
    after.into_iter().filter_map(pair).collect()
}

fn followed(moved: &BTreeMap<String, String>, path: &str) -> String {
    moved.get(path).map_or(path, String::as_str).to_owned()
}

/// Functions of one name and module, as far as they can be told apart.
fn told_apart(members: Vec<Member>) -> Vec<Vec<Member>> {
    let build = members[0].of.build.clone();
    let same_build = members.iter().all(|member| member.of.build == build && member.of.start.is_some());
    if build.is_some() && same_build {
        return split(members, |member| member.of.start);
    }
    let files: BTreeSet<&String> = members.iter().filter_map(|member| member.file.as_ref()).collect();
    // Debug information that one side lacks makes no other function of it.
    if files.len() < 2 && !has_namesakes(&members) {
        return vec![members];
    }
    split(members, |member| member.file.clone())
}

fn split<Key: Ord>(members: Vec<Member>, key: impl Fn(&Member) -> Key) -> Vec<Vec<Member>> {
    let mut parts: BTreeMap<Key, Vec<Member>> = BTreeMap::new();
    for member in members {
        parts.entry(key(&member)).or_default().push(member);
    }
    parts.into_values().collect()
}

/// One run has several of them.
fn has_namesakes(members: &[Member]) -> bool {
    let runs: BTreeSet<(usize, usize)> = members.iter().map(|member| (member.side, member.run)).collect();
    runs.len() < members.len()
}

fn summed(module: &str, members: &[Member]) -> Option<String> {
    has_namesakes(members).then(|| {
        format!(
            "Several functions of {} are called {}, and these builds do not tell them apart: their times are taken \
             together.",
            file_name(module),
            members[0].of.name
        )
    })
}

fn function(module: &str, members: Vec<Member>) -> Option<JoinedFunction> {
    let first = members.first()?;
    let same = |member: &Member| member.of.build.is_some() && member.of.build == first.of.build;
    let in_one_build = members.iter().all(|member| same(member) && member.of.start == first.of.start);
    let about = ComparedFunction {
        module: module.to_owned(),
        file: members.iter().find_map(|member| member.file.clone()),
        address: first.of.start.filter(|_| in_one_build),
    };
    let mut samples: [BTreeMap<usize, u64>; 2] = Default::default();
    let mut activities: [BTreeMap<usize, ActivitySamples>; 2] = Default::default();
    for member in &members {
        let split = &member.of.split;
        *samples[member.side].entry(member.run).or_default() += split.samples;
        let sums = activities[member.side].entry(member.run).or_default();
        for (sum, activity) in sums.iter_mut().zip(ThreadActivity::ALL) {
            *sum += split.samples as f64 * split.share(activity);
        }
    }
    Some(JoinedFunction { name: first.of.name.clone(), about, samples, activities })
}
