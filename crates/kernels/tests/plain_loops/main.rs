//! What compilers make of plain loops must be among what random kernels are made of: an instruction that no kernel has is
//! one that no validation tries.
#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use code::{Block, Class, Instruction, MemoryAccess};
use kernels::{assemble, generate::RandomKernel, geometry};
use machine::Isa;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

/// Kernels that are drawn.
const SEEDS: u64 = 400;

/// What an instruction does and how it reaches memory, as words: `Load read [base+index]`.
fn form(block: &Block, instruction: &Instruction) -> String {
    let mut form = format!("{:?}", instruction.class());
    for operand in block.memory_of(instruction) {
        let how = match operand.access() {
            MemoryAccess::Read => "reads",
            MemoryAccess::Write => "writes",
            MemoryAccess::ReadWrite => "reads and writes",
            MemoryAccess::Prefetch | MemoryAccess::Flush => "asks for",
        };
        let place = match (operand.base(), operand.index()) {
            (Some(_), None) => "[base]",
            (Some(_), Some(_)) => "[base+index]",
            (None, Some(_)) => "[index]",
            (None, None) => "[constant]",
        };
        form += &format!(" {how} {place}");
    }
    form
}

fn forms<'a>(blocks: impl IntoIterator<Item = &'a Block>) -> BTreeSet<String> {
    let of_block = |block: &'a Block| {
        let wanted = |one: &&Instruction| one.class() != Class::Nop;
        block.instructions().iter().filter(wanted).map(move |one| form(block, one))
    };
    blocks.into_iter().flat_map(of_block).collect()
}

/// Blocks from which a jump back can be reached without passing its target again: those of natural loops.
fn in_loops(blocks: &[Block]) -> Vec<&Block> {
    let mut inside = BTreeSet::new();
    for latch in blocks {
        let Some(header) = latch.target().filter(|target| *target <= latch.address()) else { continue };
        let (mut body, mut open) = (BTreeSet::from([header]), vec![latch.address()]);
        while let Some(address) = open.pop() {
            if body.insert(address) {
                let leads =
                    |one: &&Block| one.target() == Some(address) || one.fall_through() == Some(address);
                open.extend(blocks.iter().filter(leads).map(Block::address));
            }
        }
        // A jump back to code that is not entered through its target only is no loop.
        if blocks.first().is_some_and(|first| !body.contains(&first.address()) || header == first.address()) {
            inside.extend(body);
        }
    }
    blocks.iter().filter(|block| inside.contains(&block.address())).collect()
}

/// The forms in the loops of a compiled file, with a function that has each.
fn compiled(compiler: &Path, level: &str) -> BTreeMap<String, String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("loops.o");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plain_loops/loops.c");
    let status = Command::new(compiler)
        .args([level, "-fno-math-errno", "-c", "-o"])
        .args([&file, &source])
        .status()
        .unwrap();
    assert!(status.success(), "{compiler:?} {level}");
    let bytes = std::fs::read(&file).unwrap();
    let read = object::File::parse(&*bytes).unwrap();
    let mut found = BTreeMap::new();
    let mut functions = 0;
    for symbol in read.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text) {
        let section = read.section_by_index(symbol.section_index().unwrap()).unwrap();
        let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
        let decoded = code::decode_range(code, symbol.address(), &[]);
        let blocks = decoded.complete().unwrap();
        let loops = in_loops(&blocks);
        functions += 1;
        for form in forms(loops) {
            found.entry(form).or_insert_with(|| symbol.name().unwrap().to_owned());
        }
    }
    assert_eq!(functions, 20, "{compiler:?} {level}");
    found
}

/// The forms in the loops of random kernels.
fn generated() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for seed in 0..SEEDS {
        let random = RandomKernel::draw(seed, &Isa::native()).unwrap();
        let job = random.twin(0);
        let parts = geometry::divide(&job.kernel, random.width, job.size, 1).unwrap();
        let blocks = assemble(&job.kernel, random.width, &parts[0], 0).unwrap().blocks(0x1000).unwrap();
        found.extend(forms(in_loops(&blocks)));
    }
    found
}

#[test]
fn random_kernels_have_every_instruction_form_of_plain_loops() {
    let known = generated();
    for (name, levels) in [("gcc", &["-O2", "-O3"][..]), ("clang", &["-O2"])] {
        let Some(compiler) = prerequisites::installed(name) else { continue };
        for level in levels {
            let wanted = compiled(&compiler, level);
            assert!(wanted.len() > 10, "{wanted:?}");
            let missing: Vec<_> = wanted.iter().filter(|(form, _)| !known.contains(*form)).collect();
            assert!(
                missing.is_empty(),
                "{name} {level}: no random kernel has {missing:#?}; they have {known:#?}"
            );
        }
    }
}
