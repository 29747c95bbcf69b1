//! Plans as sources: what the threads of known work execute on a simulated machine.
//!
//! A [`PlacedPlan`] has the addresses of all code and data. Each of its threads is a [`PlanSource`]: it goes through
//! its schedule, meets others at gates and takes turns with them; or it runs one step alone, which is all there is
//! of a kernel.

mod placed;

use std::{cell::RefCell, rc::Rc, sync::Arc};

use code::Block;
use kernels::{
    draw::Lcg,
    scenario::{Event, Plan, PlanPart},
    walk::{Setting, WalkTouch, Walker},
};

use crate::{
    source::{BlockExecution, BlockSource, SourceStep},
    time::Time,
};
use placed::PlacedPart;
pub use placed::{AddressOrder, AddressRange, PlaceError, PlacedPlan};

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

/// What the threads of one run share.
struct Shared {
    gates: Vec<Gate>,
    /// Of each step whose turn it is (even for the first thread, odd for the second), and since when.
    turns: Vec<(u64, Time)>,
}

impl Shared {
    fn of(plan: &Plan) -> Rc<RefCell<Self>> {
        let gates = plan.regions().iter().map(|region| Gate::of(region.threads.len())).collect();
        Rc::new(RefCell::new(Self { gates, turns: vec![(0, Time::ZERO); plan.steps().len()] }))
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

/// One finished entry of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionVisit {
    /// Index into [`Plan::regions`].
    pub region: usize,
    /// When all its threads were there.
    pub start: Time,
    /// When this thread left it.
    pub end: Time,
}

/// One run of one thread.
pub struct PlanSource<'p> {
    placed: &'p PlacedPlan,
    shared: Rc<RefCell<Shared>>,
    thread: usize,
    schedule: Box<dyn Iterator<Item = Event> + 'p>,
    /// Passes of every step, if not as planned.
    passes: Option<u64>,
    walker: Option<Walker<'p>>,
    /// Of the program that is walked, in the thread's blocks.
    first_block: usize,
    touches: Vec<WalkTouch>,
    state: State,
    /// Before this its next execution cannot begin.
    not_before: Option<Time>,
    now: Time,
    inside: Vec<Time>,
    /// By step: state of its random sequence, and turns taken.
    random: Vec<u64>,
    taken: Vec<u64>,
    visits: Vec<RegionVisit>,
}

impl PlacedPlan {
    /// Sources of all threads, each going through its schedule.
    pub fn sources(&self) -> Vec<PlanSource<'_>> {
        let shared = Shared::of(&self.plan);
        (0..self.plan.threads())
            .map(|thread| PlanSource::new(self, &shared, thread, Box::new(self.plan.schedule(thread)), None))
            .collect()
    }

    /// Sources of the threads of one step, which runs alone for so many passes. Where threads take turns, all of
    /// them must run.
    pub fn step_sources(&self, step: usize, passes: u64) -> Vec<PlanSource<'_>> {
        let shared = Shared::of(&self.plan);
        let parts = self.plan.steps()[step].parts.iter();
        let alone = || Box::new(std::iter::once(Event::Run { step }));
        parts.map(|part| PlanSource::new(self, &shared, part.thread, alone(), Some(passes))).collect()
    }
}

impl<'p> PlanSource<'p> {
    fn new(
        placed: &'p PlacedPlan,
        shared: &Rc<RefCell<Shared>>,
        thread: usize,
        schedule: Box<dyn Iterator<Item = Event> + 'p>,
        passes: Option<u64>,
    ) -> Self {
        let steps = placed.plan.steps();
        Self {
            placed,
            shared: Rc::clone(shared),
            thread,
            schedule,
            passes,
            walker: None,
            first_block: 0,
            touches: Vec::new(),
            state: State::Next,
            not_before: None,
            now: Time::ZERO,
            inside: Vec::new(),
            random: steps.iter().map(|step| step.part(thread).map_or(0, |part| part.random)).collect(),
            taken: vec![0; steps.len()],
            visits: Vec::new(),
        }
    }

    /// Entries of regions that were finished.
    pub fn into_visits(self) -> Vec<RegionVisit> {
        self.visits
    }

    fn part(&self, step: usize) -> Option<(&'p PlanPart, &'p PlacedPart)> {
        let placed = self.placed;
        placed.plan.steps()[step].part(self.thread).zip(placed.parts[self.thread][step].as_ref())
    }

    fn passes(&self, step: usize) -> u64 {
        self.passes.unwrap_or(self.placed.plan.steps()[step].passes)
    }

    fn walk(&mut self, step: usize, skipped: u64, passes: u64) {
        let Some((part, placed)) = self.part(step) else { return };
        let mut bases = placed.bases;
        bases[0] += skipped;
        let setting = Setting {
            bases,
            arguments: placed.arguments,
            stack: placed.stack,
            table_at: placed.table_at,
            table: placed.table.as_ref(),
            random: self.random[step],
            follow: &*placed.follow,
            passes,
        };
        self.first_block = placed.first_block;
        self.walker = Some(Walker::new(&part.program, &part.geometry, setting));
    }

    /// The next execution of the step under way, if it has one.
    fn execute(&mut self, execution: &mut BlockExecution) -> Option<SourceStep> {
        let walked = self.walker.as_mut()?.next(&mut self.touches)?;
        execution.block = self.first_block + walked.piece;
        execution.taken = walked.taken;
        execution.addresses.clear();
        execution.addresses.extend(self.touches.iter().map(|touch| touch.address));
        Some(self.not_before.take().map_or(SourceStep::Execute, SourceStep::ExecuteAt))
    }

    /// Turns the next event into a state; `None` at the end.
    fn begin(&mut self) -> Option<State> {
        Some(match self.schedule.next()? {
            Event::Enter { region } => State::Arrives(region),
            Event::Leave { region } => State::Leaves(region),
            Event::Run { step } => {
                let Some((part, _)) = self.part(step) else { return Some(State::Next) };
                let passes = self.passes(step);
                if self.placed.plan.steps()[step].takes_turns() {
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
            let draws = self.placed.plan.steps()[step].draws(part, self.passes(step));
            self.random[step] = Lcg::new(self.random[step]).after(draws).state();
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

impl BlockSource for PlanSource<'_> {
    fn blocks(&self) -> &Arc<[Block]> {
        &self.placed.blocks[self.thread]
    }

    fn next(&mut self, execution: &mut BlockExecution) -> bool {
        matches!(self.poll(execution), SourceStep::Execute | SourceStep::ExecuteAt(_))
    }

    fn poll(&mut self, execution: &mut BlockExecution) -> SourceStep {
        loop {
            match self.state {
                State::Works(step) => match self.execute(execution) {
                    Some(step) => return step,
                    None => {
                        self.end_step(step);
                        self.state = State::Next;
                    }
                },
                State::Next => match self.begin() {
                    Some(state) => self.state = state,
                    None => return SourceStep::End,
                },
                State::Arrives(_) | State::Leaves(_) | State::EndsTurn(..) => return SourceStep::Settle,
                State::Waits(region, rounds) => {
                    let gate = self.shared.borrow().gates[region];
                    if gate.rounds == rounds {
                        return SourceStep::Blocked;
                    }
                    self.now = self.now.max(gate.opened);
                    self.inside.push(self.now);
                    self.not_before = Some(self.now);
                    self.state = State::Next;
                }
                State::WaitsTurn(_, 0) => self.state = State::Next,
                State::WaitsTurn(step, left) => match self.begin_turn(step, left) {
                    Some(state) => self.state = state,
                    None => return SourceStep::Blocked,
                },
                State::Turn(step, left) => match self.execute(execution) {
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
                self.visits.push(RegionVisit { region, start, end: self.now });
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
