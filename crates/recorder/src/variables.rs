//! Variables of the program and its libraries that samples touched.

use std::collections::BTreeMap;

use record::{data::Variable, ids::ProcessId};

use super::{areas::AreaSpan, modules::Modules};

/// Variables and gaps between them that are remembered, over all processes.
const KEPT: usize = 50_000;

/// Where there is no variable none is looked for again within a line.
const LINE: u64 = 64;

/// Finds variables, each once.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// By process and first address: the end.
    known: BTreeMap<(ProcessId, u64), u64>,
}

impl Variables {
    /// The variable at an address of a process, if it has not been found before.
    pub fn touch(
        &mut self,
        process: ProcessId,
        address: u64,
        spans: &[AreaSpan],
        modules: &mut Modules,
        pid: i32,
    ) -> Option<Variable> {
        let after = spans.partition_point(|span| span.start <= address);
        let span = spans.get(after.checked_sub(1)?).filter(|span| address < span.end)?;
        let before = self.known.range(..=(process, address)).next_back();
        let is_known = before.is_some_and(|(&(other, _), &end)| other == process && address < end);
        if is_known || self.known.len() >= KEPT {
            return None;
        }
        let path = modules.get(span.module).about.path.clone();
        let image = modules.image(span.module, pid, None)?;
        let Some(found) = image.data_object_at(address.wrapping_sub(span.bias)) else {
            let line = address - address % LINE;
            self.known.insert((process, line), line.saturating_add(LINE));
            return None;
        };
        let [start, end] = [found.range.start, found.range.end].map(|own| own.wrapping_add(span.bias));
        self.known.insert((process, start), end);
        Some(Variable { process, start, end, name: found.demangled().into_owned(), module: path })
    }
}
