//! The machine code, decoded without knowledge of kernels, must say what the truth says.

use code::MemoryAccess as Decoded;
use kernels::{
    Kernel, KernelCatalogue, assemble,
    generate::RandomKernel,
    geometry,
    program::{InstructionAction, ProgramAccess},
    truth::{self, TruthCounts},
    walk::{Setting, WalkTouch, Walker},
};
use machine::{Bytes, Isa, Width};

fn every_program(
    mut check: impl FnMut(&Kernel, Width, &geometry::Geometry, &kernels::program::KernelProgram),
) {
    let catalogue = KernelCatalogue::builtin().expect("built-in kernels are valid");
    for kernel in catalogue.iter() {
        let threads = kernel.description().fixed_threads().unwrap_or(1);
        for &width in kernel.widths() {
            let parts = geometry::divide(kernel, width, Bytes::kib(96), threads).expect("a geometry");
            for (role, geometry) in parts.iter().enumerate() {
                let program = assemble(kernel, width, geometry, role).expect("assembles");
                check(kernel, width, geometry, &program);
            }
        }
    }
    for seed in 0..GENERATED {
        let random =
            RandomKernel::draw(seed, &Isa::native()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        let size = Bytes(random.size.0.min(Bytes::kib(96).0).max(Bytes::kib(48).0));
        let parts = geometry::divide(&random.kernel, random.width, size, 1).expect("a geometry");
        let program = assemble(&random.kernel, random.width, &parts[0], 0);
        let program = program.unwrap_or_else(|error| panic!("{error}: {}", random.text));
        check(&random.kernel, random.width, &parts[0], &program);
    }
}

/// Random kernels that are decoded and walked.
const GENERATED: u64 = 300;

/// Whatever is drawn is a kernel, on its own data and on that of its twin.
#[test]
fn every_seed_gives_a_kernel() {
    for seed in 0..3000 {
        let random =
            RandomKernel::draw(seed, &Isa::native()).unwrap_or_else(|error| panic!("{seed}: {error}"));
        for job in [random.job(0), random.twin(0)] {
            let plan = job.plan(&Isa::native());
            let plan = plan.unwrap_or_else(|error| panic!("{error}, over {}: {}", job.size, random.text));
            let data = plan.steps()[0].size();
            assert!(data <= Bytes(job.size.0.max(4096)), "{data} of {}: {}", job.size, random.text);
        }
        let twin = random.twin(0).plan(&Isa::native()).expect("a plan");
        let turns = twin.steps()[0].parts[0].geometry.iterations;
        assert!(turns >= 32, "{turns} turns: {}", random.text);
        let whole = random.job(0).plan(&Isa::native()).expect("a plan");
        let is_fixed = random.footprint() == Bytes(64);
        let most = whole.steps()[0].parts[0].geometry.iterations;
        assert!(is_fixed || turns <= most, "a pass of {most} turns, its twin's of {turns}: {}", random.text);
    }
}

#[test]
fn decoding_gives_the_counts_of_the_truth() {
    let mut programs = 0;
    every_program(|kernel, width, _, program| {
        programs += 1;
        let blocks = program.blocks(0x40_0000).expect("kernels decode");
        for (number, (piece, block)) in program.pieces.iter().zip(&blocks).enumerate() {
            let place = format!("{} {width} piece {number}", kernel.name());
            assert_eq!(
                block.length_bytes(),
                (piece.end - piece.start) as u64,
                "{place}: one block per piece"
            );
            let totals = block.totals();
            let decoded = TruthCounts {
                instructions: totals.instructions,
                loads: totals.loads,
                stores: totals.stores,
                load_bytes: totals.load_bytes,
                store_bytes: totals.store_bytes,
                flops: totals.flops,
                branches: totals.branches,
            };
            assert_eq!(decoded, piece.counts, "{place}");
        }
    });
    assert!(programs > 70, "only {programs} programs were checked");
}

#[test]
fn decoding_gives_the_memory_operands_of_the_truth() {
    every_program(|kernel, width, _, program| {
        let blocks = program.blocks(0x40_0000).expect("kernels decode");
        for (piece, block) in program.pieces.iter().zip(&blocks) {
            let described: Vec<(u64, Decoded)> = piece
                .actions
                .iter()
                .filter_map(|action| match action {
                    InstructionAction::Touch { bytes, access, .. } => Some((*bytes, decoded_access(*access))),
                    _ => None,
                })
                .collect();
            let decoded: Vec<(u64, Decoded)> = block
                .memory()
                .iter()
                .map(|operand| (operand.bytes().map_or(0, u64::from), operand.access()))
                .collect();
            assert_eq!(decoded, described, "{} {width}", kernel.name());
        }
    });
}

fn decoded_access(access: ProgramAccess) -> Decoded {
    match access {
        ProgramAccess::Read => Decoded::Read,
        ProgramAccess::Write | ProgramAccess::NonTemporal => Decoded::Write,
        ProgramAccess::ReadWrite => Decoded::ReadWrite,
    }
}

/// A cycle that leads from each line to the next and from the last to the first.
fn ring(geometry: &geometry::Geometry) -> impl Fn(u64) -> u64 + use<> {
    let (bytes, stride) = (geometry.stream_bytes.max(1), geometry.stride.max(64));
    move |pointer| 0x10_0000 + (pointer - 0x10_0000 + stride) % bytes
}

#[test]
fn walking_runs_each_piece_as_often_as_the_truth_says() {
    every_program(|kernel, width, geometry, program| {
        let follow = ring(geometry);
        let table = draw_table(kernel, geometry);
        let setting = Setting {
            bases: [0x10_0000, 0x20_0000, 0x30_0000, 0x40_0000, 0x50_0000, 0x60_0000],
            arguments: 0x1000,
            stack: 0x9000,
            table_at: 0xa000,
            table: table.as_ref(),
            random: 42,
            follow: &follow,
            passes: 3,
        };
        let mut walker = Walker::new(program, geometry, setting);
        let blocks = program.blocks(0).expect("kernels decode");
        let (mut seen, mut touches) = (vec![0; program.pieces.len()], Vec::new());
        let mut expected: Option<u64> = Some(0);
        while let Some(step) = walker.next(&mut touches) {
            let block = &blocks[step.piece];
            let place = format!("{} {width} piece {}", kernel.name(), step.piece);
            assert_eq!(Some(block.address()), expected, "{place}: control flow leads elsewhere");
            expected = if step.taken { block.target() } else { block.fall_through() };
            assert_eq!(touches.len(), block.memory().len(), "{place}");
            check_bounds(&touches, geometry, &place);
            seen[step.piece] += 1;
        }
        assert_eq!(expected, None, "{} {width}: the walk ends with the return", kernel.name());
        assert_eq!(seen, truth::executions(program, geometry, 3, 42), "{} {width}", kernel.name());
    });
}

fn draw_table(kernel: &Kernel, geometry: &geometry::Geometry) -> Option<kernels::draw::DrawTable> {
    match kernel.description().streams.first()?.pattern {
        kernels::description::StreamPattern::Drawn { distribution, .. } => {
            Some(kernels::draw::DrawTable::new(distribution, geometry.elements).expect("a table"))
        }
        _ => None,
    }
}

/// Streams stand 1 MiB apart: a touch between the end of one and the beginning of the next is an error.
fn check_bounds(touches: &[WalkTouch], geometry: &geometry::Geometry, place: &str) {
    for touch in touches.iter().filter(|touch| touch.address >= 0x10_0000) {
        let offset = (touch.address - 0x10_0000) % 0x10_0000;
        assert!(
            offset < geometry.stream_bytes.max(geometry.pitch) + 4096,
            "{place}: touches {offset} beyond its stream"
        );
    }
}
