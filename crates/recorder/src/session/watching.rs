//! The time in which the program runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::bursts::BURST_EVERY;

impl RecordSession<'_> {
    /// Watches until the program ends or the recording does; then finishes the recording and waits for the program.
    pub fn run(mut self) -> Result<RecordOutcome, RecordError> {
        if matches!(self.instrument, SessionInstrument::Schedule(_)) && self.is_child {
            self.look_at_schedule();
        }
        let cause = self.guard(Self::watch).unwrap_or(Cause::Unwritable);
        let end_ns = now_ns();
        if let Some(onlooker) = self.onlooker.take() {
            let found = onlooker.finish();
            self.recorder.writer.relief(found);
        }
        if cause == Cause::Stopped && matches!(self.instrument, SessionInstrument::Sampler(_)) {
            self.recorder.look_around(end_ns, true);
        }
        self.recorder.close(end_ns);
        self.guard(Self::stop_instrument);
        let ending = match cause {
            Cause::Ended(ending, usage) => {
                // From here on Ctrl-C means us; what was committed stays.
                self.signals = None;
                self.guard(|session| session.conclude(end_ns, ending, usage));
                ending
            }
            // The recording is complete; the program goes on, and its exit code is still ours.
            Cause::Stopped => {
                self.guard(|session| session.conclude(end_ns, Ending::Detached, None));
                if self.is_child { self.wait_for_program().0 } else { Ending::Detached }
            }
            Cause::Unwritable => {
                let (ending, usage) = match self.is_child {
                    true => self.wait_for_program(),
                    false => (Ending::Detached, None),
                };
                self.guard(|session| session.conclude(end_ns, ending, usage));
                ending
            }
        };
        let heap = self.recorder.heap.take();
        let left_behind = heap.and_then(|heap| heap.remove(self.recorder.has_survivors()));
        Ok(RecordOutcome {
            ending,
            elapsed: Duration::from_nanos(self.about.elapsed_ns.unwrap_or(0)),
            samples: self.recorder.writer.samples(),
            older: self.recorder.writer.older().cloned(),
            refusal: self.refusal,
            no_loads: self.no_loads,
            trouble: self.trouble,
            left_behind,
            marked: self.recorder.regions.take_marked(),
        })
    }

    /// There is something to record: from now on killing memwall leaves a recording. Where that fails it is tried again at
    /// the end, and said then.
    pub(super) fn settle(&mut self) {
        let _ = self.recorder.writer.settle();
    }

    /// Does a part of the work. Where that panics the program must not pay for it: recording is over, what was committed
    /// is kept, and the program is waited for.
    fn guard<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> Option<T> {
        let done = catch_unwind(AssertUnwindSafe(|| work(self)));
        done.inspect_err(|_| {
            // What it would read next may be what it failed on.
            self.instrument = SessionInstrument::Off;
            self.trouble = Some(RecordTrouble::OwnFault);
        })
        .ok()
    }

    fn watch(&mut self) -> Cause {
        let mut next_commit = Instant::now() + COMMIT_EVERY;
        let mut next_look = Instant::now() + LOOK_EVERY;
        let mut next_burst = Instant::now() + BURST_EVERY / 2;
        let mut next_show = Instant::now() + SHOW_EVERY;
        loop {
            let activity = self.sleep();
            if self.pass_signals_on() {
                return Cause::Stopped;
            }
            let is_due = Instant::now() >= next_commit;
            if is_due || activity != RingActivity::TimeOut {
                self.drain();
            }
            if Instant::now() >= next_look && matches!(self.instrument, SessionInstrument::Sampler(_)) {
                // Who is there to be looked at stands in the ring.
                self.drain();
                next_look = Instant::now() + LOOK_EVERY;
                self.recorder.look_around(now_ns(), false);
                self.jitter();
                self.restrain();
            }
            if Instant::now() >= next_burst && matches!(self.instrument, SessionInstrument::Sampler(_)) {
                self.bursts.switch().fire();
                next_burst = Instant::now() + BURST_EVERY;
            }
            if is_due {
                next_commit = Instant::now() + COMMIT_EVERY;
                self.core_clock.measure();
                if let Err(error) = self.recorder.writer.flush() {
                    self.trouble = Some(error.into());
                    return Cause::Unwritable;
                }
            }
            if Instant::now() >= next_show {
                next_show = Instant::now() + SHOW_EVERY;
                self.show();
                if let Some(clock) = &mut self.clock {
                    clock(self.began.elapsed());
                }
            }
            if let Some(cause) = self.has_ended(activity == RingActivity::Over) {
                return cause;
            }
            if self.stop_at.is_some_and(|stop_at| Instant::now() >= stop_at) {
                return Cause::Stopped;
            }
        }
    }

    /// Shows onlooker and viewer what was sampled lately, if they are there.
    fn show(&mut self) {
        let began = Instant::now();
        let is_viewed = self.viewer.is_some() && began >= self.next_view;
        if self.onlooker.is_none() && !is_viewed {
            return;
        }
        let moment = self.recorder.moment(&self.about, self.pid, now_ns());
        let viewer = self.viewer.as_deref_mut().filter(|_| is_viewed);
        if is_viewed {
            self.next_view = Instant::now() + VIEW_EVERY.max(began.elapsed() * VIEW_PART);
        }
        let Some(moment) = moment else { return };
        match (self.onlooker.as_deref_mut(), viewer) {
            (Some(onlooker), Some(viewer)) => {
                viewer(moment.clone());
                onlooker.look(moment);
            }
            (Some(onlooker), None) => onlooker.look(moment),
            (None, Some(viewer)) => viewer(moment),
            (None, None) => {}
        }
    }

    fn sleep(&mut self) -> RingActivity {
        let until_stop =
            self.stop_at.map_or(Duration::MAX, |stop_at| stop_at.saturating_duration_since(Instant::now()));
        let process = self.process.as_ref().map(|process| process.as_fd());
        let wait = |signals: &Option<CaughtSignals>, timeout| match signals {
            Some(signals) => signals.wait(process, timeout),
            None => std::thread::sleep(timeout),
        };
        match &mut self.instrument {
            // A ring that cannot be waited for is still drained in time.
            SessionInstrument::Sampler(sampler) => sampler.wait(TICK.min(until_stop)).unwrap_or_else(|_| {
                wait(&self.signals, TICK.min(until_stop));
                RingActivity::TimeOut
            }),
            SessionInstrument::Schedule(_) => {
                wait(&self.signals, Duration::from_nanos(SLICE_NS).min(until_stop));
                RingActivity::Ready
            }
            SessionInstrument::Off => {
                wait(&self.signals, COMMIT_EVERY);
                RingActivity::TimeOut
            }
        }
    }

    /// Gives the program the signals that only we got. True: the recording is to stop.
    fn pass_signals_on(&mut self) -> bool {
        let mut stop = false;
        while let Some(arrival) = self.signals.as_ref().and_then(CaughtSignals::next) {
            match (self.is_child, arrival.reached_program) {
                (true, true) => {}
                (true, false) => signals::send(self.pid, arrival.signal),
                (false, _) => stop = true,
            }
        }
        stop
    }

    /// Has the next samples come at another distance. Where that is refused they stay as far apart as they are.
    fn jitter(&mut self) {
        if self.may_draw()
            && let SessionInstrument::Sampler(sampler) = &mut self.instrument
        {
            let _ = sampler.redraw_periods();
        }
    }

    pub(super) fn drain(&mut self) {
        match &mut self.instrument {
            SessionInstrument::Sampler(sampler) => {
                self.recorder.drain(sampler, &mut self.loads, &mut self.events, &mut self.bursts);
            }
            SessionInstrument::Schedule(_) => self.look_at_schedule(),
            SessionInstrument::Off => {}
        }
    }

    /// Asks procfs what the threads of the program and its descendants did.
    fn look_at_schedule(&mut self) {
        let at_ns = now_ns();
        let mut rest = vec![self.pid];
        let mut parent_of = vec![None];
        while let (Some(pid), Some(parent)) = (rest.pop(), parent_of.pop()) {
            let Ok(threads) = schedule::threads(pid) else { continue };
            self.recorder.seen(pid, parent, &threads, at_ns);
            if let SessionInstrument::Schedule(watch) = &mut self.instrument {
                for (tid, ..) in &threads {
                    self.recorder.ask(watch, pid, *tid, at_ns, SLICE_NS);
                }
            }
            for child in schedule::children(pid) {
                rest.push(child);
                parent_of.push(Some(pid));
            }
        }
    }

    fn has_ended(&self, everybody_is_gone: bool) -> Option<Cause> {
        if !self.is_child {
            let is_alive = Path::new(&format!("/proc/{}/task", self.pid)).exists();
            return (everybody_is_gone || !is_alive).then_some(Cause::Ended(Ending::Unknown, None));
        }
        // Whoever traces the program waits for its stops; asking for them here would take those away.
        let may_be_traced = self.onlooker.is_some();
        if may_be_traced && self.process.as_ref().is_some_and(|process| !has_exited(process)) {
            return None;
        }
        match usage::wait(self.pid, everybody_is_gone && !may_be_traced) {
            Ok(None) => None,
            Ok(Some((ending, usage))) => Some(Cause::Ended(ending, Some(usage))),
            // Waited for by another thread, as where SIGCHLD is ignored: it has ended, and nobody knows how.
            Err(_) => Some(Cause::Ended(Ending::Unknown, None)),
        }
    }

    fn stop_instrument(&mut self) {
        self.tell_period();
        self.core_clock.measure();
        self.about.clock_hz = self.core_clock.hz();
        match std::mem::replace(&mut self.instrument, SessionInstrument::Off) {
            SessionInstrument::Sampler(mut sampler) => {
                // If it cannot be stopped, closing it stops it.
                let _ = sampler.stop();
                let mut loads = std::mem::take(&mut self.loads);
                for loads in &loads {
                    let _ = loads.stop();
                }
                let mut events = std::mem::take(&mut self.events);
                for one in &events {
                    let _ = one.sampler.stop();
                }
                self.recorder.drain_all(&mut sampler, &mut loads, &mut events);
                self.recorder.drain_all_bursts(&mut self.bursts);
                self.about.lost_samples = Some(self.recorder.counts.lost);
            }
            SessionInstrument::Schedule(_) | SessionInstrument::Off => {}
        }
    }

    /// Passes signals on until the program ends.
    fn wait_for_program(&mut self) -> (Ending, Option<Usage>) {
        loop {
            if let Some(Cause::Ended(ending, usage)) = self.has_ended(false) {
                return (ending, usage);
            }
            self.sleep();
            self.pass_signals_on();
        }
    }
}

/// Whether the process of a descriptor is gone, or a zombie.
fn has_exited(process: &OwnedFd) -> bool {
    let mut asked = [rustix::event::PollFd::new(process, rustix::event::PollFlags::IN)];
    let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&now)).is_ok_and(|ready| ready > 0)
}
