//! Model files: TOML. Every error names line and column.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{InvalidModel, Model, SourceNote};
use crate::DataFileError;

/// No model file is larger than this; a larger one is a mistake.
const LARGEST_FILE: usize = 1 << 20;

/// Keys of `[isa]`: that table serves elsewhere too and lets others pass.
const ISA_KEYS: [&str; 5] = ["x86_64", "avx", "avx2", "fma", "avx512f"];

impl SourceNote {
    /// The keys it speaks of.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.what.split(',').map(str::trim)
    }
}

impl Model {
    /// Reads and checks a model file. `origin` is the name shown in errors.
    ///
    /// ```
    /// use machine::model::Model;
    /// let text = Model::builtin_file("tiny").unwrap_or_default();
    /// assert_eq!(Model::parse(text, "mine.toml")?.cores_per_socket, 2);
    /// let error = Model::parse(&text.replace("dispatch_width = 4", "dispatch_width = 0"), "mine.toml").unwrap_err();
    /// assert!(error.to_string().ends_with("core.dispatch_width: 0 is not between 1 and 32"));
    /// # Ok::<(), machine::DataFileError>(())
    /// ```
    pub fn parse(text: &str, origin: &str) -> Result<Self, DataFileError> {
        let located = |at, message: String| DataFileError::at(text, at, origin, message);
        if text.len() > LARGEST_FILE {
            return Err(located(0, "the file is larger than 1 MiB: not a model file".into()));
        }
        let malformed = |error: toml::de::Error| DataFileError::toml(text, origin, &error);
        let table = DeTable::parse(text).map_err(malformed)?;
        let model: Self = toml::from_str(text).map_err(malformed)?;
        if let Some((at, key)) = unknown_isa_key(&table) {
            let message = format!("unknown field `{key}`, expected one of {}", ISA_KEYS.join(", "));
            return Err(located(at, message));
        }
        match check_name(&model.name).and_then(|()| model.check()) {
            Ok(()) => Ok(model),
            Err(invalid) => Err(located(find(&table, &invalid.path), invalid.to_string())),
        }
    }
}

/// What a user types after `sim:`.
fn check_name(name: &str) -> Result<(), InvalidModel> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=64).contains(&name.len()) && name.chars().all(plain) {
        return Ok(());
    }
    let message = "a name has 1 to 64 small letters, digits and hyphens".to_owned();
    Err(InvalidModel { path: "name".to_owned(), message })
}

fn unknown_isa_key(table: &Spanned<DeTable<'_>>) -> Option<(usize, String)> {
    let isa = table.get_ref().get("isa")?.get_ref().as_table()?;
    let key = isa.keys().find(|key| !ISA_KEYS.contains(&key.get_ref().as_ref()))?;
    Some((key.span().start, key.get_ref().to_string()))
}

/// Where a path such as `core.ports[2].bytes` begins, or the innermost part of it that the file has.
fn find(table: &Spanned<DeTable<'_>>, path: &str) -> usize {
    let mut at = 0;
    let mut inside: Option<&DeValue<'_>> = None;
    for part in path.split(['.', '[']) {
        let step = match part.strip_suffix(']').map(str::parse::<usize>) {
            Some(Ok(index)) => inside.and_then(|value| value.as_array()?.get(index)),
            _ => match inside {
                None => table.get_ref().get(part),
                Some(value) => value.as_table().and_then(|table| table.get(part)),
            },
        };
        match step {
            None => return at,
            Some(value) => {
                at = value.span().start;
                inside = Some(value.get_ref());
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> &'static str {
        Model::builtin_file("tiny").expect("a file")
    }

    /// Changes the first `from` of `tiny` into `to`; the error must say `message` and point at `at` within `to`.
    fn check(from: &str, to: &str, at: &str, message: &str) {
        let changed = tiny().find(from).unwrap_or_else(|| panic!("no {from}"));
        let text = tiny().replacen(from, to, 1);
        let error = Model::parse(&text, "x.toml").expect_err(to);
        assert!(error.message.contains(message), "{to}: {error}");
        let before = &text[..changed + to.find(at).unwrap_or_else(|| panic!("no {at}"))];
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        assert_eq!((error.line, error.column), (before.matches('\n').count() + 1, column), "{to}: {error}");
        assert!(error.to_string().starts_with(&format!("x.toml:{}:{column}: ", error.line)));
    }

    #[test]
    fn what_is_not_a_model_is_pointed_at() {
        check("size = \"64K\"", "size = \"64Q\"", "\"64Q\"", "'64Q' is not a size");
        check("size = \"64K\"", "size = -1", "-1", "-1 is not a size");
        check("\"load\"", "\"lode\"", "\"lode\"", "unknown variant `lode`");
        check("walkers = 1", "wakers = 1", "wakers", "unknown field `wakers`");
        check("avx2 = true", "avx3 = true", "avx3", "unknown field `avx3`");
        check("walkers = 1", "walkers = -1", "-1", "invalid value: integer `-1`, expected u32");
        check("walkers = 1", "walkers = = 1", "= 1", "");
    }

    #[test]
    fn broken_rules_are_pointed_at() {
        check("sockets = 1", "sockets = 5", "5", "sockets: 5 is not between 1 and 4");
        check("sockets = 1", "sockets = 2", "2", "sockets: 2 sockets need a [link] between them");
        check("walkers = 1", "walkers = 0", "0", "tlb.walkers: 0 is not between 1 and 64");
        check("idle_latency_ns = 60.0", "idle_latency_ns = nan", "nan", "NaN is not between 1 and 10000");
        check("name = \"tiny\"", "name = \"Tiny!\"", "\"Tiny!\"", "name: a name has 1 to 64");
        check("title = \"", "title = \"\\u001b", "\"", "title: must not hold control characters");
        check("what = \"tlb\"", "what = \"l4\"", "\"l4\"", "sources[6].what: this model has no 'l4'");
        check("avx = true\navx2 = true", "avx = false\navx2 = true", "true", "isa.avx2: avx2 needs avx");
    }

    #[test]
    fn geometry_that_cannot_be_built() {
        check("size = \"64K\"", "size = \"60K\"", "\"60K\"", "in 2 slices make no power of two of sets");
        check("size = \"64K\"", "size = \"8K\"", "\"8K\"", "an inclusive L3 of 8 KiB cannot hold the 16 KiB");
        check(
            "size = \"2K\", ways = 4, line = 64",
            "size = \"2K\", ways = 4, line = 32",
            "32",
            "must have 64 B",
        );
        check(
            "size = \"64K\", ways = 16",
            "size = \"1G\", ways = 256",
            "256",
            "256 is not between 1 and 128",
        );
        check("l2 = { entries = 32", "l2 = { entries = 24", "24", "24 entries with 4 ways");
        let tree = "size = \"48K\", ways = 12, line = 64, replacement = \"tree-plru\"";
        let error = "tree-plru needs a power of two of ways, not 12";
        check("size = \"64K\", ways = 16, line = 64, replacement = \"lru\"", tree, "\"tree-plru\"", error);
    }

    #[test]
    fn cores_that_cannot_run() {
        check("bytes = 32", "bytes = 24", "24", "core.ports[2].bytes: 24 is not 8, 16, 32 or 64");
        let port = "{ name = \"p3\", runs = [\"store-data\"]";
        check(&format!("{port}, bytes = 32"), port, "{", "port 'p3' moves data: it needs bytes");
        check("class = \"load\", latency = 4", "class = \"load\", latency = 9", "9", "l1d.latency says 4");
        let ports = "ports = [\n    { name = \"p0\", runs = [\"integer\", ";
        check(
            &format!("{ports}\"integer-multiply\", "),
            ports,
            "[",
            "core.ports: no port runs 'integer-multiply'",
        );
        check("\"p1\"", "\"p0\"", "\"p0\"", "core.ports[1].name: a port 'p0' stands above already");
        check("class = \"branch\"", "class = \"vector\"", "\"vector\"", "'vector' stands above already");
    }

    #[test]
    fn files_that_are_no_files() {
        assert!(Model::parse("", "x").expect_err("nothing").message.contains("missing field"));
        let large = " ".repeat(LARGEST_FILE + 1);
        assert!(Model::parse(&large, "x").expect_err("much").message.contains("larger than 1 MiB"));
        let deep = format!("name = {}", "[".repeat(100_000));
        assert!(Model::parse(&deep, "x").is_err());
    }
}
