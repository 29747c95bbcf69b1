//! What samples behind jumps are of, in code where other rules would say something else.

use record::{ids::FunctionId, run::Run};

use crate::{
    findings::Split,
    timer::{
        TimerOptions, analyse,
        tests::{BASE, run},
    },
};

fn split(run: &Run) -> Split {
    analyse(run, None, &TimerOptions::default()).overall.unwrap()
}

/// So many samples at each offset.
fn at(counts: &[(u64, u64)], address: impl Fn(u64) -> Option<u64>) -> Vec<(u64, Option<u64>)> {
    counts
        .iter()
        .flat_map(|&(offset, count)| (0..count).map(move |i| (offset, i)))
        .map(|(o, i)| (o, address(i)))
        .collect()
}

/// A generator of random numbers: shifts and exclusive ors of one register, in a loop that counts down.
#[test]
fn the_first_instruction_of_a_chain_waits_for_the_turn_before_and_not_for_the_jump_back() {
    // mov rax,rbx; shl rax,13; xor rbx,rax; mov rax,rbx; shr rax,7; xor rbx,rax; mov rax,rbx; shl rax,17; xor rbx,rax;
    // sub ecx,1; jne 0; ret
    let code = [
        0x48, 0x89, 0xd8, 0x48, 0xc1, 0xe0, 0x0d, 0x48, 0x31, 0xc3, 0x48, 0x89, 0xd8, 0x48, 0xc1, 0xe8, 0x07,
        0x48, 0x31, 0xc3, 0x48, 0x89, 0xd8, 0x48, 0xc1, 0xe0, 0x11, 0x48, 0x31, 0xc3, 0x83, 0xe9, 0x01, 0x75,
        0xdd, 0xc3,
    ];
    let counts = [(3, 300), (7, 20), (10, 10), (13, 300), (17, 20), (20, 10), (23, 300), (27, 20), (30, 10)];
    let found = split(&run(&code, &at(&counts, |_| None)));
    assert!(found.branches < 0.02 && found.chains > 0.4, "{found:?}");
}

/// call [r14+rax*8]; add rax,1; jmp 0; then twice: movsd xmm0,[rdi+8]; mulsd xmm0,[rdi+16]; ret
const CALLS: [u8; 43] = [
    0x41, 0xff, 0x14, 0xc6, 0x48, 0x83, 0xc0, 0x01, 0xeb, 0xf6, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf2,
    0x0f, 0x10, 0x47, 0x08, 0xf2, 0x0f, 0x59, 0x47, 0x10, 0xc3, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf2, 0x0f,
    0x10, 0x47, 0x08, 0xf2, 0x0f, 0x59, 0x47, 0x10, 0xc3,
];

/// The caller and those of the called that are sampled, each a function of its own.
fn calls(counts: &[(u64, u64)]) -> Run {
    let mut run = run(&CALLS, &at(counts, |i| Some(0x7000_0000_0000 + i % 100 * 24)));
    let starts = [0, 16, 32].map(|offset| BASE + offset);
    let whole = run.functions.remove(0);
    for (start, end) in starts.into_iter().zip([BASE + 10, BASE + 27, BASE + 43]) {
        let code = CALLS[(start - BASE) as usize..(end - BASE) as usize].to_vec();
        run.functions.push(record::run::Function { start, end, code: Some(code), ..whole.clone() });
    }
    for place in &mut run.places {
        place.function =
            Some(FunctionId::of(starts.iter().rposition(|start| place.address >= *start).unwrap()));
    }
    run
}

#[test]
fn calls_to_one_of_several_functions_are_guessed_where_these_begin() {
    let both = split(&calls(&[(4, 20), (8, 20), (21, 200), (26, 20), (37, 200), (42, 20)]));
    assert!(both.branches > 0.5 && both.loads < 0.05, "{both:?}");
    // One alone is foreseen.
    let one = split(&calls(&[(4, 20), (8, 20), (21, 400), (26, 40)]));
    assert!(one.branches < 0.05, "{one:?}");
}
