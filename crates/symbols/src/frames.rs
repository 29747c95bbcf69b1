//! The bounds of functions as unwinding information gives them: present even in stripped files.

use std::collections::HashMap;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection as _};
use object::{Object as _, ObjectSection as _};

use crate::layout::ImageLayout;
use crate::table::{Binding, SymbolCandidate, SymbolKind, SymbolOrigin};

/// Every range that `.eh_frame` describes. Damaged entries end the list; what came before them stays.
pub(crate) fn candidates(file: &object::File<'_>, layout: &ImageLayout) -> Vec<SymbolCandidate> {
    let mut found = Vec::new();
    let Some(section) = file.section_by_name(".eh_frame") else { return found };
    let Ok(data) = section.data() else { return found };
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut frames = EhFrame::from(EndianSlice::new(data, endian));
    frames.set_address_size(if file.is_64() { 8 } else { 4 });
    let address_of = |name: &str| file.section_by_name(name).map_or(0, |section| section.address());
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address())
        .set_text(address_of(".text"))
        .set_got(address_of(".got"));

    let mut shared = HashMap::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else { continue };
        let parsed = partial.parse(|section, bases, offset| match shared.get(&offset.0) {
            Some(cie) => Ok(Clone::clone(cie)),
            None => {
                let cie = section.cie_from_offset(bases, offset)?;
                shared.insert(offset.0, cie.clone());
                Ok(cie)
            }
        });
        let Ok(fde) = parsed else { continue };
        let Some(limit) = layout.code_end(fde.initial_address()) else { continue };
        if fde.len() > 0 {
            found.push(SymbolCandidate {
                start: fde.initial_address(),
                size: fde.len(),
                limit,
                name: None,
                kind: SymbolKind::Bounds,
                binding: Binding::Local,
                origin: SymbolOrigin::Frame,
            });
        }
    }
    found
}
