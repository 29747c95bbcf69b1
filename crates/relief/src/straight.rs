//! A stretch as a straight line: the same instructions in the same order, every jump to the next one.

use iced_x86::{Code, FlowControl, Instruction, MemoryOperand, Register};
use record::relief::ReliefRefusal;

use crate::{
    listing::{Label, Labels, Listing, jump, made},
    stretch::TracedStep,
};

/// What becomes of a jump that was taken. A loop has one jump that is always taken, at no cost; in a line each is
/// another one, of which a core can follow fewer at a time. One that is not taken costs too little, one that is too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JumpForm {
    /// It is taken, to the next instruction.
    Taken,
    /// It is turned round, and passed by.
    PassedBy,
}

/// Instructions that lie side by side near some code.
#[derive(Debug)]
pub(crate) struct Segment {
    pub listing: Listing,
    /// Near this address, so that operands relative to the instruction reach.
    pub near: u64,
}

/// Lays out steps, which end at `follower`; then goes to the address `end`. The first segment's first instruction begins.
/// `cluster` says which code is near to which.
pub(crate) fn lay_out(
    steps: &[TracedStep],
    follower: u64,
    end: u64,
    form: JumpForm,
    cluster: impl Fn(u64) -> usize,
) -> Result<Vec<Segment>, ReliefRefusal> {
    let mut labels = Labels::default();
    let places: Vec<Label> = (0..=steps.len()).map(|_| labels.next()).collect();
    let first = steps.first().map_or(follower, |step| step.instruction.ip());
    let mut line = Line { segments: vec![segment(first)], current: 0, callers: Vec::new(), labels };
    for (index, step) in steps.iter().enumerate() {
        let next = steps.get(index + 1).map_or(follower, |step| step.instruction.ip());
        let (here, onward) = (places[index], places[index + 1]);
        if line.add(step, here, onward, next, form)? {
            continue;
        }
        if cluster(next) != cluster(line.segments[line.current].near) {
            let label = line.labels.next();
            line.put(label, jump(Code::Jmp_rel32_64, onward)?);
            line.begin(next);
        }
    }
    let last = made(Instruction::with_branch(Code::Jmp_rel32_64, end))?;
    line.put(places[steps.len()], last);
    Ok(line.segments)
}

fn segment(near: u64) -> Segment {
    Segment { listing: Listing::default(), near }
}

struct Line {
    segments: Vec<Segment>,
    current: usize,
    /// Segments that wait for a return, and where it must go.
    callers: Vec<(usize, u64)>,
    labels: Labels,
}

impl Line {
    fn put(&mut self, label: Label, instruction: Instruction) {
        self.segments[self.current].listing.put(label, instruction);
    }

    fn begin(&mut self, near: u64) {
        self.segments.push(segment(near));
        self.current = self.segments.len() - 1;
    }

    /// Adds a step. True: the line goes on in another segment already.
    fn add(
        &mut self,
        step: &TracedStep,
        here: Label,
        onward: Label,
        next: u64,
        form: JumpForm,
    ) -> Result<bool, ReliefRefusal> {
        let mut instruction = step.instruction;
        match instruction.flow_control() {
            FlowControl::ConditionalBranch => {
                let was_taken = next != instruction.next_ip();
                instruction.set_near_branch64(onward.0);
                if was_taken && form == JumpForm::PassedBy && instruction.is_jcc_short_or_near() {
                    instruction.negate_condition_code();
                }
                self.put(here, instruction);
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                self.put(here, jump(Code::Jmp_rel32_64, onward)?);
            }
            FlowControl::Call | FlowControl::IndirectCall => {
                self.put(here, jump(Code::Call_rel32_64, onward)?);
                self.callers.push((self.current, instruction.next_ip()));
                self.begin(next);
                return Ok(true);
            }
            FlowControl::Return => match self.callers.pop() {
                Some((caller, back)) if back == next => {
                    self.put(here, instruction);
                    self.current = caller;
                    return Ok(true);
                }
                _ => {
                    // Called before the stretch began: only the stack pointer moves.
                    let above = MemoryOperand::with_base_displ(Register::RSP, 8);
                    self.put(here, made(Instruction::with2(Code::Lea_r64_m, Register::RSP, above))?);
                }
            },
            _ => self.put(here, instruction),
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    use super::*;
    use crate::listing::encode;

    /// Steps along a path through some code.
    fn steps(code: &[u8], path: &[u64]) -> Vec<TracedStep> {
        let decode = |at: &u64| {
            let from = usize::try_from(at - 0x1000).unwrap();
            Decoder::with_ip(64, &code[from..], *at, DecoderOptions::NONE).decode()
        };
        let step = |at| TracedStep { instruction: decode(at), before: [0; 16], touches: Vec::new() };
        path.iter().map(step).collect()
    }

    fn mnemonics(segment: &Segment) -> Vec<Mnemonic> {
        let bytes = encode(&[(&segment.listing, 0x9000)]).unwrap().remove(0);
        Decoder::with_ip(64, &bytes, 0x9000, DecoderOptions::NONE).iter().map(|i| i.mnemonic()).collect()
    }

    /// add rax,8; cmp rax,rdx; jne back
    const LOOP: [u8; 9] = [0x48, 0x83, 0xc0, 0x08, 0x48, 0x39, 0xd0, 0x75, 0xf7];

    #[test]
    fn two_turns_lie_behind_each_other() {
        let path = [0x1000, 0x1004, 0x1007, 0x1000, 0x1004, 0x1007];
        for (form, jcc) in [(JumpForm::Taken, Mnemonic::Jne), (JumpForm::PassedBy, Mnemonic::Je)] {
            let segments = lay_out(&steps(&LOOP, &path), 0x1000, 0x9100, form, |_| 0).unwrap();
            assert_eq!(segments.len(), 1);
            let turn = [Mnemonic::Add, Mnemonic::Cmp, jcc];
            assert_eq!(mnemonics(&segments[0]), [&turn[..], &turn[..], &[Mnemonic::Jmp]].concat());
            // Whether taken or not, a jump leads to the next instruction.
            let bytes = encode(&[(&segments[0].listing, 0x9000)]).unwrap().remove(0);
            let all: Vec<_> = Decoder::with_ip(64, &bytes, 0x9000, DecoderOptions::NONE).iter().collect();
            assert_eq!(all[2].near_branch_target(), all[2].next_ip());
            assert_eq!(all[6].near_branch_target(), 0x9100);
        }
    }

    #[test]
    fn a_jump_passed_by_stays_as_it_was() {
        let segments =
            lay_out(&steps(&LOOP, &[0x1000, 0x1004, 0x1007]), 0x1009, 0x9100, JumpForm::PassedBy, |_| 0)
                .unwrap();
        assert_eq!(mnemonics(&segments[0])[2], Mnemonic::Jne);
    }

    #[test]
    fn calls_stay_real_and_come_back() {
        // call +1; nop; (called:) ret
        let code = [0xe8, 0x01, 0, 0, 0, 0x90, 0xc3];
        let path = [0x1000, 0x1006, 0x1005];
        let segments = lay_out(&steps(&code, &path), 0x1006, 0x9100, JumpForm::Taken, |_| 0).unwrap();
        assert_eq!(segments.len(), 2);
        let bytes = encode(&[(&segments[0].listing, 0x9000), (&segments[1].listing, 0x9800)]).unwrap();
        let decoded = |bytes: &[u8], at| {
            Decoder::with_ip(64, bytes, at, DecoderOptions::NONE).iter().collect::<Vec<_>>()
        };
        let caller = decoded(&bytes[0], 0x9000);
        let all: Vec<Mnemonic> = caller.iter().map(|instruction| instruction.mnemonic()).collect();
        assert_eq!(all, [Mnemonic::Call, Mnemonic::Nop, Mnemonic::Jmp]);
        assert_eq!(caller[0].near_branch_target(), 0x9800);
        assert_eq!(decoded(&bytes[1], 0x9800)[0].mnemonic(), Mnemonic::Ret);
    }

    #[test]
    fn a_return_to_before_the_stretch_moves_the_stack_only() {
        let code = [0xc3, 0x90];
        let segments =
            lay_out(&steps(&code, &[0x1000, 0x1001]), 0x1002, 0x9100, JumpForm::Taken, |_| 0).unwrap();
        assert_eq!(mnemonics(&segments[0]), [Mnemonic::Lea, Mnemonic::Nop, Mnemonic::Jmp]);
    }

    #[test]
    fn far_code_has_a_segment_of_its_own() {
        let mut path = steps(&[0xeb, 0x00, 0x90, 0x90], &[0x1000, 0x1002]);
        path[1].instruction.set_ip(0x7000_0000_1002);
        let cluster = |at: u64| usize::from(at > 1 << 40);
        let segments = lay_out(&path, 0x7000_0000_1003, 0x9100, JumpForm::Taken, cluster).unwrap();
        assert_eq!(
            segments.iter().map(|segment| segment.near).collect::<Vec<_>>(),
            [0x1000, 0x7000_0000_1002]
        );
    }
}
