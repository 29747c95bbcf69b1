//! Marks and samples put together by hand.

use super::*;
use record::{
    file::{RecordedSample, read},
    ids::{PlaceId, ProcessId},
    run::{RecordedThread, Run},
};

const TID: i32 = 7;

fn at(time_ns: u64) -> MarkedMoment {
    MarkedMoment { tid: TID, time_ns }
}

/// A recording of one thread with samples at these times, and what regions make of it.
fn recorded(times: &[u64], mark: impl FnOnce(&mut RegionTally, &mut Writer)) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.sqlite");
    // It begins with a sample of its own.
    let mut recorder = crate::tests::recorder(&path);
    let mut regions = RegionTally::default();
    regions.sample(TID, ThreadId(0), 2);
    for &time_ns in times {
        let thread = ThreadId(0);
        recorder.writer.sample(RecordedSample {
            time_ns,
            thread,
            cpu: 0,
            place: PlaceId(0),
            address: None,
            stack: None,
        });
        regions.sample(TID, thread, time_ns);
    }
    mark(&mut regions, &mut recorder.writer);
    regions.finish(1000, &mut recorder.writer);
    crate::tests::finish(recorder);
    read(&path).unwrap()
}

fn named(regions: &mut RegionTally, name: &str, writer: &mut Writer) -> RegionId {
    let mut words = [0_u64; 8];
    let mut bytes = [0; RegionMark::BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    for (word, chunk) in words[4..].iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_ne_bytes(chunk.try_into().unwrap());
    }
    words[0] = 5 << 56;
    let note = ::heap::Note::parse(words).unwrap();
    let ::heap::NoteKind::RegionBegan(mark) = note.kind else { panic!("{note:?}") };
    let region = Region { name: name.to_owned(), is_parallel: false };
    regions.region(RegionKey::Named(mark), || region, writer).unwrap()
}

#[test]
fn samples_belong_to_the_innermost_region_and_regions_may_overlap() {
    let run = recorded(&[5, 15, 25, 35, 45, 55], |regions, writer| {
        let (outer, inner) = (named(regions, "outer", writer), named(regions, "inner", writer));
        regions.begin(outer, at(10), Some(ThreadId(0)), false, writer);
        regions.begin(inner, at(20), Some(ThreadId(0)), false, writer);
        // The outer one ends first.
        regions.end(outer, at(30), writer);
        regions.end(inner, at(40), writer);
        regions.begin(outer, at(50), Some(ThreadId(0)), false, writer);
    });
    let (outer, inner) = (Some(RegionId(0)), Some(RegionId(1)));
    assert_eq!(run.regions.of_samples, [None, None, outer, inner, inner, None, outer]);
    let visits = |region: u32, visits: u64, unended: u64, wall_ns: u64| RegionVisits {
        region: RegionId(region),
        thread: ThreadId(0),
        visits,
        unended,
        wall_ns,
        waits_ns: None,
        counts: None,
    };
    assert_eq!(run.regions.visits, [visits(0, 2, 1, 20 + 950), visits(1, 1, 0, 20)]);
}

#[test]
fn first_visits_can_be_skipped_and_ends_without_a_beginning_are_counted() {
    let mut strange = 0;
    let run = recorded(&[15, 35], |regions, writer| {
        let solve = named(regions, "solve", writer);
        regions.end(solve, at(3), writer);
        regions.skip(solve, 1);
        regions.begin(solve, at(10), Some(ThreadId(0)), false, writer);
        regions.end(solve, at(20), writer);
        regions.begin(solve, at(30), Some(ThreadId(0)), false, writer);
        regions.end(solve, at(40), writer);
        strange = regions.strange;
    });
    assert_eq!(run.regions.of_samples, [None, None, Some(RegionId(0))]);
    assert_eq!((run.regions.visits[0].visits, run.regions.visits[0].wall_ns), (1, 10));
    assert_eq!(strange, 1);
}

#[test]
fn counts_are_what_came_between_two_marks_and_a_mark_without_them_leaves_its_visit_out() {
    let run = recorded(&[], |regions, writer| {
        let solve = named(regions, "solve", writer);
        let counts = |minor_faults, voluntary_switches| ThreadCounts {
            minor_faults,
            voluntary_switches,
            ..ThreadCounts::default()
        };
        regions.counted(at(10), counts(100, 5));
        regions.begin(solve, at(10), Some(ThreadId(0)), false, writer);
        regions.counted(at(20), counts(107, 6));
        regions.end(solve, at(20), writer);
        // The mark behind these counts was lost.
        regions.counted(at(25), counts(500, 50));
        regions.begin(solve, at(30), Some(ThreadId(0)), false, writer);
        regions.counted(at(40), counts(600, 60));
        regions.end(solve, at(40), writer);
    });
    let expected =
        RegionCounts { visits: 1, minor_faults: 7, voluntary_switches: 1, ..RegionCounts::default() };
    assert_eq!((run.regions.visits[0].visits, run.regions.visits[0].counts), (2, Some(expected)));
    assert_eq!(run.regions.visits[0].waits_ns, None);
}

#[test]
fn waiting_at_barriers_is_told_without_tasks_worked_on_meanwhile() {
    let run = recorded(&[], |regions, writer| {
        let solve = named(regions, "solve", writer);
        regions.begin(solve, at(10), Some(ThreadId(0)), true, writer);
        regions.wait_began(at(20));
        regions.wait_ended(at(50), 10);
        regions.end(solve, at(100), writer);
        // Outside of any region.
        regions.wait_began(at(200));
        regions.wait_ended(at(300), 0);
    });
    assert_eq!((run.regions.visits[0].wall_ns, run.regions.visits[0].waits_ns), (90, Some(20)));
}

#[test]
fn regions_before_so_many_events_were_done_do_not_count() {
    let run = recorded(&[15, 45], |regions, writer| {
        let solve = named(regions, "solve", writer);
        regions.skip_events(2);
        for round in 0..4 {
            regions.begin(solve, at(10 + 20 * round), Some(ThreadId(0)), false, writer);
            regions.end(solve, at(20 + 20 * round), writer);
            regions.event_done(25 + 20 * round);
        }
        assert_eq!(regions.strange, 0);
    });
    assert_eq!((run.regions.visits[0].visits, run.regions.visits[0].wall_ns), (2, 20));
    let events = run.regions.events.unwrap();
    assert_eq!(events, EventsDone { done: 4, skipped: 2, first_ns: Some(45), last_ns: 85 });
    assert_eq!(events.mean_ns(), Some(20.0));
}

#[test]
fn one_line_that_is_entered_from_several_places_is_one_region() {
    recorded(&[], |regions, writer| {
        let region = |name: &str| Region { name: name.to_owned(), is_parallel: true };
        let mut of = |module, address, name: &str| {
            regions.region(RegionKey::Code { module, address }, || region(name), writer)
        };
        let first = of(0, 10, "main (a.c:3)");
        assert_eq!((of(0, 20, "main (a.c:3)"), of(0, 20, "main (a.c:3)")), (first, first));
        let others = [of(0, 30, "main (a.c:9)"), of(1, 10, "main (a.c:3)")];
        assert_eq!(others, [Some(RegionId(1)), Some(RegionId(2))]);
    });
}

#[test]
fn a_thread_ends_with_its_regions_open_and_the_next_of_its_number_begins_anew() {
    let mut strange = 0;
    let run = recorded(&[15, 45, 65], |regions, writer| {
        let solve = named(regions, "solve", writer);
        let next = RecordedThread {
            tid: TID as u32,
            process: ProcessId(0),
            name: "next".to_owned(),
            began_ns: 40,
            ended_ns: None,
        };
        writer.thread(1, &next);
        regions.skip(solve, 1);
        regions.begin(solve, at(5), Some(ThreadId(0)), false, writer);
        regions.end(solve, at(8), writer);
        regions.begin(solve, at(10), Some(ThreadId(0)), false, writer);
        regions.ended(at(30), ThreadId(0));
        // Another one, whose first visit does not count either.
        regions.begin(solve, at(50), Some(ThreadId(1)), false, writer);
        regions.end(solve, at(54), writer);
        // Read late: the first one was in it once more, and out of it before it ended.
        regions.begin(solve, at(20), None, false, writer);
        regions.end(solve, at(22), writer);
        regions.begin(solve, at(60), Some(ThreadId(1)), false, writer);
        regions.end(solve, at(70), writer);
        strange = regions.strange;
    });
    let solve = Some(RegionId(0));
    assert_eq!(run.regions.of_samples, [None, solve, None, solve]);
    let visits = |thread: u32, visits: u64, unended: u64, wall_ns: u64| RegionVisits {
        region: RegionId(0),
        thread: ThreadId(thread),
        visits,
        unended,
        wall_ns,
        waits_ns: None,
        counts: None,
    };
    assert_eq!(run.regions.visits, [visits(0, 2, 1, 2 + 20), visits(1, 1, 0, 10)]);
    assert_eq!(strange, 0);
}

#[test]
fn a_thread_that_executes_another_program_is_the_same_in_the_recording() {
    let run = recorded(&[15, 35, 55], |regions, writer| {
        let (old, common) = (named(regions, "old", writer), named(regions, "common", writer));
        let counts = |minor_faults| ThreadCounts { minor_faults, ..ThreadCounts::default() };
        let visit = |regions: &mut RegionTally, from: u64, writer: &mut Writer| {
            regions.counted(at(from), counts(from));
            regions.begin(common, at(from), Some(ThreadId(0)), true, writer);
            regions.wait_began(at(from + 1));
            regions.wait_ended(at(from + 3), 0);
            regions.counted(at(from + 4), counts(from + 4));
            regions.end(common, at(from + 4), writer);
        };
        visit(regions, 3, writer);
        regions.begin(old, at(10), Some(ThreadId(0)), false, writer);
        regions.ended(at(30), ThreadId(0));
        visit(regions, 40, writer);
        // Long after, as the recording goes on.
        regions.settle(10_000_000_000, writer);
    });
    assert_eq!(run.regions.of_samples, [None, Some(RegionId(0)), None, None]);
    let [old, common] = run.regions.visits.try_into().unwrap();
    assert_eq!((old.visits, old.unended, old.wall_ns), (1, 1, 20));
    assert_eq!((common.visits, common.unended, common.wall_ns, common.waits_ns), (2, 0, 8, Some(4)));
    assert_eq!(common.counts.map(|counts| (counts.visits, counts.minor_faults)), Some((2, 8)));
}
