//! The order in which a thread goes through regions and steps.

use super::plan::Plan;

/// Something a thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Waits until all threads of the region are here, then enters it.
    Enter {
        /// Index into [`Plan::regions`].
        region: usize,
    },
    /// Executes its part of a step.
    Run {
        /// Index into [`Plan::steps`].
        step: usize,
    },
    /// Leaves the region without waiting.
    Leave {
        /// Index into [`Plan::regions`].
        region: usize,
    },
}

/// What one thread does from beginning to end. Threads that go through their schedules, meeting at each
/// [`Event::Enter`], never wait for each other in a circle: regions stand in the same order in all of them.
#[derive(Clone, Debug)]
pub struct Schedule<'a> {
    plan: &'a Plan,
    thread: usize,
    frames: Vec<Frame>,
}

/// Work left to do, innermost last.
#[derive(Clone, Debug)]
enum Frame {
    /// Sibling regions, in this order.
    Siblings { regions: Vec<usize>, next: usize },
    /// A region, to be entered this many times more.
    Repeat { region: usize, left: u64 },
    /// Steps of the region entered, then its end.
    Steps { region: usize, next: usize },
    /// The end of the region entered.
    End { region: usize },
}

impl<'a> Schedule<'a> {
    pub(super) fn new(plan: &'a Plan, thread: usize) -> Self {
        let regions = plan.outermost().collect();
        Self { plan, thread, frames: vec![Frame::Siblings { regions, next: 0 }] }
    }

    fn enter(&mut self, region: usize) -> Event {
        let planned = &self.plan.regions[region];
        if planned.inside.is_empty() {
            self.frames.push(Frame::Steps { region, next: planned.steps.start });
        } else {
            self.frames.push(Frame::End { region });
            self.frames.push(Frame::Siblings { regions: planned.inside.clone(), next: 0 });
        }
        Event::Enter { region }
    }
}

impl Iterator for Schedule<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let plan = self.plan;
        loop {
            match self.frames.last_mut()? {
                Frame::Siblings { regions, next } => match regions.get(*next).copied() {
                    Some(region) => {
                        *next += 1;
                        let planned = &plan.regions[region];
                        if planned.threads.contains(&self.thread) {
                            self.frames.push(Frame::Repeat { region, left: planned.repeat });
                        }
                    }
                    None => {
                        self.frames.pop();
                    }
                },
                Frame::Repeat { left: 0, .. } => {
                    self.frames.pop();
                }
                Frame::Repeat { region, left } => {
                    *left -= 1;
                    let region = *region;
                    return Some(self.enter(region));
                }
                Frame::Steps { region, next } => {
                    let (region, step) = (*region, *next);
                    if step == plan.regions[region].steps.end {
                        self.frames.pop();
                        return Some(Event::Leave { region });
                    }
                    *next += 1;
                    if plan.steps[step].part(self.thread).is_some() {
                        return Some(Event::Run { step });
                    }
                }
                Frame::End { region } => {
                    let region = *region;
                    self.frames.pop();
                    return Some(Event::Leave { region });
                }
            }
        }
    }
}
