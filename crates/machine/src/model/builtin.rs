//! The models that come with memwall.

use strsim::levenshtein;

use super::Model;

/// Names and files, oldest machine first, the test machine last.
const FILES: [(&str, &str); 10] = [
    ("core2-e5430", include_str!("../../models/core2-e5430.toml")),
    ("nehalem-ep-x5570", include_str!("../../models/nehalem-ep-x5570.toml")),
    ("sandy-bridge-ep-e5-2670", include_str!("../../models/sandy-bridge-ep-e5-2670.toml")),
    ("haswell-ep-e5-2680v3", include_str!("../../models/haswell-ep-e5-2680v3.toml")),
    ("haswell-ep-e5-2695v3", include_str!("../../models/haswell-ep-e5-2695v3.toml")),
    ("haswell-ep-e5-2699v3", include_str!("../../models/haswell-ep-e5-2699v3.toml")),
    ("broadwell-ep-e5-2699v4", include_str!("../../models/broadwell-ep-e5-2699v4.toml")),
    ("broadwell-ex-e7-8890v4", include_str!("../../models/broadwell-ex-e7-8890v4.toml")),
    ("emerald-rapids", include_str!("../../models/emerald-rapids.toml")),
    ("tiny", include_str!("../../models/tiny.toml")),
];

/// A name that no model has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown model '{name}'{}; 'memwall models' lists all", hint(.like))]
pub struct UnknownModel {
    /// What was asked for.
    pub name: String,
    /// Names that look alike.
    pub like: Vec<&'static str>,
}

fn hint(like: &[&str]) -> String {
    if like.is_empty() { String::new() } else { format!(" (did you mean {}?)", like.join(", ")) }
}

impl Model {
    /// Names of the models that come with memwall, in the order they are listed.
    pub fn builtin_names() -> impl ExactSizeIterator<Item = &'static str> {
        FILES.iter().map(|(name, _)| *name)
    }

    /// One of the models that come with memwall.
    ///
    /// ```
    /// use machine::model::Model;
    /// assert_eq!(Model::builtin("haswell-ep-e5-2680v3")?.cores_per_socket, 12);
    /// let error = Model::builtin("haswell-ep-e5-2680").unwrap_err();
    /// assert!(error.to_string().contains("did you mean haswell-ep-e5-2680v3?"));
    /// # Ok::<(), machine::model::UnknownModel>(())
    /// ```
    pub fn builtin(name: &str) -> Result<Self, UnknownModel> {
        match Self::builtin_file(name) {
            Some(text) => Ok(Self::parse(text, name).expect("files that come with memwall are tested")),
            None => Err(UnknownModel { name: name.to_owned(), like: alike(name) }),
        }
    }

    /// The file behind a built-in model, as a start for one's own.
    pub fn builtin_file(name: &str) -> Option<&'static str> {
        FILES.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
    }
}

/// Names that hold `name`, or else those a few letters away from it.
fn alike(name: &str) -> Vec<&'static str> {
    // No name is this long; comparing letter by letter would take a while.
    if name.is_empty() || name.len() > 64 {
        return Vec::new();
    }
    let name = name.to_ascii_lowercase();
    let names = Model::builtin_names;
    let holding: Vec<_> = names().filter(|known| known.contains(&name)).collect();
    if !holding.is_empty() {
        return holding;
    }
    let nearest = names().map(|known| levenshtein(known, &name)).min().unwrap_or(usize::MAX);
    if nearest > name.chars().count() / 3 {
        return Vec::new();
    }
    names().filter(|known| levenshtein(known, &name) == nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_holds_a_valid_model_of_its_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
        let files = std::fs::read_dir(folder).expect("a folder").count();
        assert_eq!(files, FILES.len(), "each file of {folder} stands in FILES");
        for (name, text) in FILES {
            let model = Model::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(model.name, name);
            let json = serde_json::to_string(&model).expect("JSON");
            assert_eq!(serde_json::from_str::<Model>(&json).expect("a model"), model);
        }
    }

    #[test]
    fn names_that_look_alike() {
        assert_eq!(alike("tyny"), ["tiny"]);
        assert_eq!(alike("2699v"), ["haswell-ep-e5-2699v3", "broadwell-ep-e5-2699v4"]);
        assert_eq!(alike("Emerald-Rapid"), ["emerald-rapids"]);
        assert!(alike("pentium").is_empty());
        assert!(alike("").is_empty());
    }

    #[test]
    fn the_haswells_have_the_same_core() {
        let part = |name: &str| {
            let Model { core, front_end, l1d, l2, tlb, prefetch, .. } =
                Model::builtin(name).expect("a model");
            (core, front_end, l1d, l2, tlb, prefetch)
        };
        let first = part("haswell-ep-e5-2680v3");
        assert_eq!(first, part("haswell-ep-e5-2695v3"));
        assert_eq!(first, part("haswell-ep-e5-2699v3"));
        assert_eq!(part("broadwell-ep-e5-2699v4"), part("broadwell-ex-e7-8890v4"));
    }
}
