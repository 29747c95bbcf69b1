//! `/proc/cpuinfo`, as x86 and Arm kernels write it.

use std::collections::HashMap;

/// One map of fields per processor.
#[derive(Clone, Debug, Default)]
pub(super) struct CpuInfo {
    processors: Vec<HashMap<String, String>>,
}

impl CpuInfo {
    /// Blocks are separated by blank lines; only those with a `processor` number count.
    pub(super) fn parse(text: &str) -> Self {
        let mut processors = Vec::new();
        let mut fields = HashMap::new();
        for line in text.lines().chain([""]) {
            match line.split_once(':') {
                Some((key, value)) => {
                    fields.insert(key.trim().to_owned(), value.trim().to_owned());
                }
                None if line.trim().is_empty() => {
                    let block = std::mem::take(&mut fields);
                    if block.get("processor").is_some_and(|number| number.parse::<u32>().is_ok()) {
                        processors.push(block);
                    }
                }
                None => {}
            }
        }
        Self { processors }
    }

    /// The first processor's value of a field, if it is not empty.
    pub(super) fn first(&self, field: &str) -> Option<&str> {
        self.each(field).next().map(|(_, value)| value)
    }

    /// Processor number and value of a field, where it is not empty.
    pub(super) fn each(&self, field: &str) -> impl Iterator<Item = (u32, &str)> {
        self.processors.iter().filter_map(move |fields| {
            let value = fields.get(field).filter(|value| !value.is_empty())?;
            Some((fields.get("processor")?.parse().ok()?, value.as_str()))
        })
    }

    /// The numbers of the processors.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.each("processor").map(|(number, _)| number)
    }

    /// Whether the first processor has a flag; `None` if it states none. The kernel clears what it does not
    /// enable, so a flag here is one that programs may use.
    pub(super) fn flag(&self, flag: &str) -> Option<bool> {
        Some(self.first("flags")?.split_whitespace().any(|word| word == flag))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_without_a_processor_are_not_processors() {
        let info = CpuInfo::parse(
            "processor\t: 0\nflags : fpu lm\nmodel name :\n\nHardware : Board\n\nprocessor: 3",
        );
        assert_eq!(info.numbers().collect::<Vec<_>>(), [0, 3]);
        assert_eq!(info.flag("lm"), Some(true));
        assert_eq!(info.flag("avx"), Some(false));
        assert_eq!(info.first("model name"), None);
        assert_eq!(CpuInfo::parse("garbage \u{0}").flag("lm"), None);
    }
}
