//! A thread of a scenario as a source: it goes through its schedule, meets others at gates and takes turns.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use code::Block;
use kernels::{
    draw::Lcg,
    scenario::{Event, Part, Plan},
    walk::{Setting, Touch, Walker},
};
use sim::{
    source::{Execution, Source, Step},
    time::Time,
};

use super::stage::{Role, Stage};
use crate::scenario::Stay;

/// The interrupt flag is looked at once in so many steps.
const STEPS_PER_LOOK: u32 = 4096;

/// Where the threads of a region meet.
#[derive(Clone, Copy, Debug)]
struct Gate {
    members: usize,
    here: usize,
    rounds: u64,
    latest: Time,
    opened: Time,
}

impl Gate {
    fn of(members: usize) -> Self {
        Self { members, here: 0, rounds: 0, latest: Time::ZERO, opened: Time::ZERO }
    }

    fn arrive(&mut self, at: Time) {
        self.here += 1;
        self.latest = self.latest.max(at);
        if self.here == self.members {
            (self.opened, self.latest, self.here) = (self.latest, Time::ZERO, 0);
            self.rounds += 1;
        }
    }
}

/// What threads share.
pub(super) struct Shared {
    gates: Vec<Gate>,
    /// Of each step whose turn it is (even for the first thread, odd for the second), and since when.
    turns: Vec<(u64, Time)>,
}

impl Shared {
    /// Of the threads of a plan, before they begin.
    pub fn new(plan: &Plan) -> RefCell<Self> {
        let gates = plan.regions().iter().map(|region| Gate::of(region.threads.len())).collect();
        RefCell::new(Self { gates, turns: vec![(0, Time::ZERO); plan.steps().len()] })
    }
}

/// What a thread is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Look at its schedule.
    Next,
    /// Arrive at a region's gate, once all it did has settled.
    Arrives(usize),
    /// Wait for the others of a region; the gate had opened so often.
    Waits(usize, u64),
    /// In a step.
    Works(usize),
    /// Wait for its turn in a step; so many are left.
    WaitsTurn(usize, u64),
    /// In its turn.
    Turn(usize, u64),
    /// At the end of its turn, once it has settled.
    EndsTurn(usize, u64),
    /// Leave a region, once all it did has settled.
    Leaves(usize),
}

/// A thread of a scenario.
pub(super) struct Performer<'s> {
    stage: &'s Stage<'s>,
    shared: &'s RefCell<Shared>,
    interrupt: &'s AtomicBool,
    thread: usize,
    schedule: Box<dyn Iterator<Item = Event> + 's>,
    /// Passes of every step, if not as planned.
    passes: Option<u64>,
    walker: Option<Walker<'s>>,
    touches: Vec<Touch>,
    state: State,
    /// Before this its next execution cannot begin.
    not_before: Option<Time>,
    now: Time,
    inside: Vec<Time>,
    /// By step: state of its random sequence, and turns taken.
    random: Vec<u64>,
    taken: Vec<u64>,
    steps: u32,
    interrupted: bool,
    /// Entries that were finished.
    pub stays: Vec<Stay>,
}

impl<'s> Performer<'s> {
    /// Thread `thread` going through its schedule.
    pub fn new(
        stage: &'s Stage<'s>,
        shared: &'s RefCell<Shared>,
        thread: usize,
        interrupt: &'s AtomicBool,
    ) -> Self {
        let plan = stage.plan;
        let random =
            plan.steps().iter().map(|step| step.part(thread).map_or(0, |part| part.random)).collect();
        Self {
            stage,
            shared,
            interrupt,
            thread,
            schedule: Box::new(plan.schedule(thread)),
            passes: None,
            walker: None,
            touches: Vec::new(),
            state: State::Next,
            not_before: None,
            now: Time::ZERO,
            inside: Vec::new(),
            random,
            taken: vec![0; plan.steps().len()],
            steps: 0,
            interrupted: false,
            stays: Vec::new(),
        }
    }

    /// One step alone, for `passes`.
    pub fn alone(mut self, step: usize, passes: u64) -> Self {
        self.schedule = Box::new(std::iter::once(Event::Run { step }));
        self.passes = Some(passes);
        self
    }

    fn part(&self, step: usize) -> Option<(&'s Part, &'s Role)> {
        let stage = self.stage;
        stage.plan.steps()[step].part(self.thread).zip(stage.roles[self.thread][step].as_ref())
    }

    fn passes(&self, step: usize) -> u64 {
        self.passes.unwrap_or(self.stage.plan.steps()[step].passes)
    }

    fn walk(&mut self, step: usize, skipped: u64, passes: u64) {
        self.walker = self.part(step).map(|(part, role)| {
            let mut bases = role.bases;
            bases[0] += skipped;
            let setting = Setting {
                bases,
                arguments: role.arguments,
                stack: role.stack,
                table_at: role.table_at,
                table: role.table.as_ref(),
                random: self.random[step],
                follow: &*role.follow,
                passes,
            };
            Walker::new(&part.program, &part.geometry, setting)
        });
    }

    /// The next execution of the step under way, if it has one.
    fn execute(&mut self, step: usize, execution: &mut Execution) -> Option<Step> {
        let first_block = self.part(step).map_or(0, |(_, role)| role.first_block);
        let walked = self.walker.as_mut()?.next(&mut self.touches)?;
        execution.block = first_block + walked.piece;
        execution.taken = walked.taken;
        execution.addresses.clear();
        execution.addresses.extend(self.touches.iter().map(|touch| touch.address));
        Some(self.not_before.take().map_or(Step::Execute, Step::ExecuteAt))
    }

    /// Turns the next event into a state; `None` at the end.
    fn begin(&mut self) -> Option<State> {
        Some(match self.schedule.next()? {
            Event::Enter { region } => State::Arrives(region),
            Event::Leave { region } => State::Leaves(region),
            Event::Run { step } => {
                let Some((part, _)) = self.part(step) else { return Some(State::Next) };
                let passes = self.passes(step);
                if self.stage.plan.steps()[step].takes_turns() {
                    return Some(State::WaitsTurn(step, part.geometry.turns * passes));
                }
                self.walk(step, 0, passes);
                State::Works(step)
            }
        })
    }

    /// The step is over: its random sequence has moved on.
    fn end_step(&mut self, step: usize) {
        self.walker = None;
        if let Some((part, _)) = self.part(step) {
            let mut random = Lcg::new(self.random[step]);
            for _ in 0..self.stage.plan.steps()[step].draws(part) {
                random.next();
            }
            self.random[step] = random.state();
        }
    }

    fn begin_turn(&mut self, step: usize, left: u64) -> Option<State> {
        let (part, _) = self.part(step)?;
        let mine = 2 * self.taken[step] + part.role as u64;
        let (number, since) = self.shared.borrow().turns[step];
        if number != mine {
            return None;
        }
        let (turns, bytes) = (part.geometry.turns, part.geometry.end());
        let done = turns * self.passes(step) - left;
        self.walk(step, done % turns * bytes, 1);
        self.now = self.now.max(since);
        self.not_before = Some(self.now);
        Some(State::Turn(step, left))
    }
}

impl Source for Performer<'_> {
    fn blocks(&self) -> &Arc<[Block]> {
        &self.stage.blocks[self.thread]
    }

    fn next(&mut self, execution: &mut Execution) -> bool {
        matches!(self.poll(execution), Step::Execute | Step::ExecuteAt(_))
    }

    fn poll(&mut self, execution: &mut Execution) -> Step {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(STEPS_PER_LOOK) {
            self.interrupted |= self.interrupt.load(Ordering::Relaxed);
        }
        loop {
            if self.interrupted {
                return Step::End;
            }
            match self.state {
                State::Next => match self.begin() {
                    Some(state) => self.state = state,
                    None => return Step::End,
                },
                State::Arrives(_) | State::Leaves(_) | State::EndsTurn(..) => return Step::Settle,
                State::Waits(region, rounds) => {
                    let gate = self.shared.borrow().gates[region];
                    if gate.rounds == rounds {
                        self.interrupted |= self.interrupt.load(Ordering::Relaxed);
                        return if self.interrupted { Step::End } else { Step::Blocked };
                    }
                    self.now = self.now.max(gate.opened);
                    self.inside.push(self.now);
                    self.not_before = Some(self.now);
                    self.state = State::Next;
                }
                State::Works(step) => match self.execute(step, execution) {
                    Some(step) => return step,
                    None => {
                        self.end_step(step);
                        self.state = State::Next;
                    }
                },
                State::WaitsTurn(_, 0) => self.state = State::Next,
                State::WaitsTurn(step, left) => match self.begin_turn(step, left) {
                    Some(state) => self.state = state,
                    None => return Step::Blocked,
                },
                State::Turn(step, left) => match self.execute(step, execution) {
                    Some(step) => return step,
                    None => self.state = State::EndsTurn(step, left),
                },
            }
        }
    }

    fn settled(&mut self, at: Time) {
        self.now = self.now.max(at);
        let mut shared = self.shared.borrow_mut();
        match self.state {
            State::Arrives(region) => {
                let gate = &mut shared.gates[region];
                self.state = State::Waits(region, gate.rounds);
                gate.arrive(self.now);
            }
            State::Leaves(region) => {
                let start = self.inside.pop().unwrap_or(self.now);
                self.stays.push(Stay { region, start_ns: start.ns(), end_ns: self.now.ns() });
                self.state = State::Next;
            }
            State::EndsTurn(step, left) => {
                let turn = &mut shared.turns[step];
                *turn = (turn.0 + 1, self.now);
                self.taken[step] += 1;
                self.state = State::WaitsTurn(step, left - 1);
            }
            _ => {}
        }
    }
}
