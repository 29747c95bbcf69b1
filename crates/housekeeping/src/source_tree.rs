//! The source files of a workspace that are not tests.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use syn::{Attribute, Item, Meta, Token, punctuated::Punctuated};

/// Why a tree could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// A file or folder cannot be read.
    #[error("{}: {error}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file is not Rust.
    #[error("{}:{}: {error}", path.display(), error.span().start().line)]
    Unparsed {
        /// Which.
        path: PathBuf,
        /// Why.
        error: syn::Error,
    },
    /// There is no crate: `crates/*/src` of the root is empty.
    #[error("{}: no crates/*/src here; give the root of the workspace", root.display())]
    NoCrates {
        /// Where they were looked for.
        root: PathBuf,
    },
}

/// A file outside tests.
pub struct SourceFile {
    /// From the workspace's root.
    pub path: PathBuf,
    /// Its items.
    pub syntax: syn::File,
}

/// Reads `crates/*/src` below a root, without files that are only there for tests.
pub fn read(root: &Path) -> Result<Vec<SourceFile>, TreeError> {
    let mut paths = Vec::new();
    for member in entries(&root.join("crates"))? {
        let src = member.join("src");
        if src.is_dir() {
            collect(&src, &mut paths)?;
        }
    }
    if paths.is_empty() {
        return Err(TreeError::NoCrates { root: root.to_owned() });
    }
    let mut files = Vec::new();
    let mut tests = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).map_err(|error| TreeError::Unreadable { path: path.clone(), error })?;
        let syntax =
            syn::parse_file(&text).map_err(|error| TreeError::Unparsed { path: path.clone(), error })?;
        test_modules(&path, &syntax.items, &mut tests);
        files.push(SourceFile { path, syntax });
    }
    files.retain(|file| {
        !is_for_tests(&file.syntax.attrs) && !tests.iter().any(|test| within(&file.path, test))
    });
    for file in &mut files {
        if let Ok(inside) = file.path.strip_prefix(root) {
            file.path = inside.to_owned();
        }
    }
    Ok(files)
}

/// Whether an item is compiled for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .filter(|attribute| attribute.path().is_ident("cfg"))
        .any(|attribute| attribute.parse_args::<Meta>().is_ok_and(|condition| implies_test(&condition)))
}

/// Whether a condition of `cfg` can hold in tests only.
fn implies_test(condition: &Meta) -> bool {
    let Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let Ok(parts) = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated) else {
        return false;
    };
    match list.path.get_ident() {
        Some(name) if name == "all" => parts.iter().any(implies_test),
        Some(name) if name == "any" => !parts.is_empty() && parts.iter().all(implies_test),
        _ => false,
    }
}

/// Where files of `#[cfg(test)] mod name;` are: the path without its ending.
fn test_modules(file: &Path, items: &[Item], into: &mut Vec<PathBuf>) {
    let folder = file.parent().unwrap_or(Path::new(""));
    let stem = file.file_stem().unwrap_or_default();
    let own = if ["lib", "main", "mod"].iter().any(|name| stem == *name) {
        folder.into()
    } else {
        folder.join(stem)
    };
    for item in items {
        if let Item::Mod(module) = item
            && module.content.is_none()
            && is_for_tests(&module.attrs)
        {
            into.push(own.join(module.ident.to_string()));
        }
    }
}

/// Whether a file is a module, or below it.
fn within(file: &Path, module: &Path) -> bool {
    file.with_extension("") == module || file.starts_with(module)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, TreeError> {
    let unreadable = |error| TreeError::Unreadable { path: folder.to_owned(), error };
    let entries = fs::read_dir(folder).map_err(unreadable)?;
    let mut paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(unreadable)?;
    paths.sort();
    Ok(paths)
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), TreeError> {
    for path in entries(folder)? {
        if path.is_dir() {
            collect(&path, into)?;
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            into.push(path);
        }
    }
    Ok(())
}
