//! The kernels that come with memwall, and those a user adds.

use machine::DataFileError;

use crate::{description::Description, draw::Distribution, kernel::Kernel, parse};

/// The files the built-in kernels are written in.
const FILES: [(&str, &str); 8] = [
    ("streaming.toml", include_str!("../catalogue/streaming.toml")),
    ("latency.toml", include_str!("../catalogue/latency.toml")),
    ("threads.toml", include_str!("../catalogue/threads.toml")),
    ("interference.toml", include_str!("../catalogue/interference.toml")),
    ("compute.toml", include_str!("../catalogue/compute.toml")),
    ("stalls.toml", include_str!("../catalogue/stalls.toml")),
    ("random.toml", include_str!("../catalogue/random.toml")),
    ("plain.toml", include_str!("../catalogue/plain.toml")),
];

/// The file that stands for one kernel per distribution.
const PER_DISTRIBUTION: &str = "random.toml";

/// All kernels that can be named.
#[derive(Clone, Debug)]
pub struct KernelCatalogue(Vec<Kernel>);

/// A name that no kernel has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown kernel '{name}'{}; 'memwall kernels' lists all", hint(.like))]
pub struct UnknownKernel {
    /// What was asked for.
    pub name: String,
    /// Names that look alike.
    pub like: Vec<String>,
}

fn hint(like: &[String]) -> String {
    if like.is_empty() { String::new() } else { format!(" (did you mean {}?)", like.join(", ")) }
}

impl KernelCatalogue {
    /// The kernels that come with memwall.
    pub fn builtin() -> Result<Self, DataFileError> {
        let mut found: Vec<Description> = Vec::new();
        for (origin, text) in FILES {
            if origin == PER_DISTRIBUTION {
                for distribution in Distribution::ALL {
                    let text = text.replace("DISTRIBUTION", distribution.name());
                    found.extend(parse::kernels(&text, origin)?);
                }
            } else {
                found.extend(parse::kernels(text, origin)?);
            }
        }
        Ok(Self(found.into_iter().map(Kernel::new).collect()))
    }

    /// Adds the kernels of a user's file. A name that is taken is an error: results must not change meaning.
    pub fn add(&mut self, text: &str, origin: &str) -> Result<(), DataFileError> {
        for description in parse::kernels(text, origin)? {
            if self.0.iter().any(|kernel| kernel.name() == description.name) {
                return Err(DataFileError {
                    origin: origin.to_owned(),
                    line: 1,
                    column: 1,
                    message: format!(
                        "a kernel named '{}' exists already: choose another name",
                        description.name
                    ),
                });
            }
            self.0.push(Kernel::new(description));
        }
        Ok(())
    }

    /// All kernels in the order of their files.
    pub fn iter(&self) -> impl Iterator<Item = &Kernel> {
        self.0.iter()
    }

    /// The kernel of this name.
    pub fn get(&self, name: &str) -> Result<Kernel, UnknownKernel> {
        self.0.iter().find(|kernel| kernel.name() == name).cloned().ok_or_else(|| {
            let alike = |other: &str| other.contains(name) || name.contains(other);
            let like = self.0.iter().map(|kernel| kernel.name().to_owned()).filter(|other| alike(other));
            UnknownKernel { name: name.to_owned(), like: like.take(4).collect() }
        })
    }
}
