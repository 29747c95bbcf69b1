//! How many types share their name with another one.
//!
//! A reader of a call should not need the list of imports to know which `Request` is meant. Types that a macro makes are
//! not seen.

use std::{
    collections::BTreeMap,
    fmt::{self, Display, Formatter},
    path::PathBuf,
};

use syn::{Attribute, Ident, Item, visit::Visit};

use crate::source_tree::{SourceFile, is_for_tests};

/// Where a type is declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// From the workspace's root.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
}

/// All structs, enums, traits and aliases, by name.
#[derive(Clone, Debug, Default)]
pub struct Census {
    types: BTreeMap<String, Vec<Declaration>>,
}

impl Census {
    /// Counts the types of files.
    pub fn of(files: &[SourceFile]) -> Self {
        let mut census = Self::default();
        for file in files {
            FileVisitor { file, census: &mut census }.visit_file(&file.syntax);
        }
        census
    }

    /// How many types there are.
    pub fn types(&self) -> usize {
        self.types.values().map(Vec::len).sum()
    }

    /// Names that several types have, the most frequent first.
    pub fn shared(&self) -> Vec<(&str, &[Declaration])> {
        let mut shared: Vec<_> = self
            .types
            .iter()
            .filter(|(_, declared)| declared.len() > 1)
            .map(|(name, declared)| (name.as_str(), declared.as_slice()))
            .collect();
        shared.sort_by_key(|(_, declared)| std::cmp::Reverse(declared.len()));
        shared
    }

    /// Of all types, the share in percent whose name another one has; none without types.
    pub fn shared_percent(&self) -> Option<f64> {
        let shared: usize = self.shared().iter().map(|(_, declared)| declared.len()).sum();
        (self.types() > 0).then(|| 100.0 * shared as f64 / self.types() as f64)
    }

    /// What is wrong with it: a share above the limit in percent, a name that may be there once and is there again.
    pub fn complaints(&self, limit: Option<f64>, once: &[String]) -> Vec<String> {
        let mut complaints = Vec::new();
        if let (Some(limit), Some(share)) = (limit, self.shared_percent())
            && share > limit
        {
            complaints.push(format!(
                "{share:.1} % of all types share their name, above the limit of {limit} %; rename one of a pair"
            ));
        }
        for name in once {
            let times = self.types.get(name).map_or(0, Vec::len);
            if times > 1 {
                complaints.push(format!("{name} is there {times} times; it may be there once"));
            }
        }
        complaints
    }
}

impl Display for Census {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for (name, declared) in self.shared() {
            writeln!(formatter, "{name} ×{}", declared.len())?;
            for Declaration { path, line } in declared {
                writeln!(formatter, "    {}:{line}", path.display())?;
            }
        }
        let shared: usize = self.shared().iter().map(|(_, declared)| declared.len()).sum();
        write!(formatter, "{shared} of {} types share their name with another", self.types())?;
        match self.shared_percent() {
            Some(percent) => write!(formatter, ": {percent:.1} %"),
            None => Ok(()),
        }
    }
}

struct FileVisitor<'a> {
    file: &'a SourceFile,
    census: &'a mut Census,
}

impl<'ast> Visit<'ast> for FileVisitor<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name): (&[Attribute], Option<&Ident>) = match item {
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Mod(item) => (&item.attrs, None),
            Item::Fn(item) => (&item.attrs, None),
            Item::Impl(item) => (&item.attrs, None),
            _ => (&[], None),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            let declaration = Declaration { path: self.file.path.clone(), line: name.span().start().line };
            self.census.types.entry(name.to_string()).or_default().push(declaration);
        }
        syn::visit::visit_item(self, item);
    }
}
