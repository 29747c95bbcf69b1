//! Teams on the CPUs this process may use, be it one.

use std::sync::atomic::AtomicBool;

use super::*;

/// The CPUs we may run on, from the kernel.
fn allowed() -> Vec<u32> {
    let set = rustix::thread::sched_getaffinity(None).expect("own affinity");
    (0..Affinity::MAX_CPU).filter(|&cpu| set.is_set(cpu)).map(|cpu| cpu as u32).collect()
}

#[test]
fn every_member_runs_on_its_cpu() {
    let cpus = allowed();
    let mut team = Team::start(&cpus).expect("a team");
    assert_eq!((team.members(), team.cpus()), (cpus.len(), &cpus[..]));
    for _ in 0..3 {
        let found = team.setup(|_| sched_getcpu() as u32).expect("setup");
        assert_eq!(found, cpus);
    }
}

#[test]
fn closures_borrow_from_the_caller() {
    let mut team = Team::start(&allowed()).expect("a team");
    let words: Vec<String> = (0..team.members()).map(|n| format!("word {n}")).collect();
    let seen: Vec<&str> = team.setup(|member| words[member].as_str()).expect("setup");
    assert_eq!(seen, words.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn nobody_starts_before_everybody_is_there() {
    let cpu = allowed()[0];
    for members in 1..=3 {
        let mut team = Team::start(&vec![cpu; members]).expect("members sharing a CPU");
        let gate = Gate::new(members);
        let arrived = AtomicUsize::new(0);
        let seen = team.setup(|_| {
            arrived.fetch_add(1, Ordering::SeqCst);
            gate.pass();
            arrived.load(Ordering::SeqCst)
        });
        assert_eq!(seen.expect("setup"), vec![members; members]);
    }
}

#[test]
fn runs_overlap_and_are_ordered() {
    let mut team = Team::start(&allowed()).expect("a team");
    let arrived = AtomicUsize::new(0);
    let members = team.members();
    let outside = monotonic_ns();
    let timed = team
        .run(|member| {
            // Each waits for all: with one member per CPU this ends only if they run at the same time.
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < members {
                thread::yield_now();
            }
            member * 2
        })
        .expect("run");
    let after = monotonic_ns();
    let latest_start = timed.iter().map(|t| t.start_ns).max();
    for (member, timed) in timed.iter().enumerate() {
        assert_eq!(timed.value, member * 2);
        assert!(outside <= timed.start_ns && timed.end_ns <= after);
        assert!(Some(timed.end_ns) >= latest_start, "member {member} ended before another started");
        assert_eq!(timed.elapsed_ns(), timed.end_ns - timed.start_ns);
    }
}

#[test]
fn members_sharing_a_cpu_count_their_switches() {
    let cpu = allowed()[0];
    let mut team = Team::start(&[cpu, cpu]).expect("two members on one CPU");
    let stop = AtomicBool::new(false);
    let started = AtomicUsize::new(0);
    let timed = team.run(|_| {
        // The first can see the second start only after the kernel took the CPU away from it.
        if started.fetch_add(1, Ordering::SeqCst) == 1 {
            stop.store(true, Ordering::SeqCst);
        }
        while !stop.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    });
    let counts: Vec<_> = timed.expect("run").iter().map(|t| t.involuntary_switches).collect();
    assert!(counts.iter().all(Option::is_some), "getrusage works on every Linux: {counts:?}");
    assert!(counts.iter().flatten().sum::<u64>() >= 1, "{counts:?}");
}

#[test]
fn a_panic_is_an_error_and_the_team_lives_on() {
    let mut team = Team::start(&[allowed()[0]; 2]).expect("a team");
    let error = team.run(|member| assert!(member == 0, "number {member} failed")).expect_err("a panic");
    let TeamError::Panicked { member, message, .. } = error else { panic!("{error}") };
    assert_eq!((member, message.contains("number 1 failed")), (1, true), "{message}");
    let odd = team.setup(|_| std::panic::panic_any(7u8)).expect_err("a panic");
    assert!(odd.to_string().contains("without a message"), "{odd}");
    assert_eq!(team.setup(|member| member).expect("the team still works"), [0, 1]);
}

#[test]
fn idle_members_sleep() {
    let mut team = Team::start(&allowed()).expect("a team");
    let ids = team.setup(|_| rustix::thread::gettid().as_raw_nonzero()).expect("setup");
    for id in ids {
        let stat = format!("/proc/self/task/{id}/stat");
        let asleep = (0..10_000).any(|_| {
            thread::yield_now();
            let text = fs::read_to_string(&stat).unwrap_or_default();
            text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S'))
        });
        assert!(asleep, "member {id} never slept");
    }
}

#[test]
fn cpus_that_cannot_be() {
    assert!(matches!(Team::start(&[]), Err(TeamError::Empty)));
    for cpu in [Affinity::MAX_CPU as u32 - 1, u32::MAX] {
        if allowed().contains(&cpu) {
            continue;
        }
        let error = Team::start(&[allowed()[0], cpu]).expect_err("no such CPU");
        assert!(
            error.to_string().contains(&format!("CPU {cpu} ")) || error.to_string().contains("pin"),
            "{error}"
        );
        match (error, online_cpus()) {
            (TeamError::Offline { cpu: named, .. }, Some(_)) => assert_eq!(named, cpu),
            (TeamError::PinRefused { cpu: named, .. }, None) => assert_eq!(named, cpu),
            (other, _) => panic!("{other}"),
        }
    }
    let online = || "0-3".parse().ok();
    assert!(matches!(unavailable(2, online()), TeamError::OutsideCpuset { cpu: 2 }));
    assert_eq!(unavailable(9, online()).to_string(), "CPU 9 is offline or absent; online CPUs: 0-3");
}

#[test]
fn dropping_joins_the_threads() {
    let mut team = Team::start(&allowed()).expect("a team");
    let ids = team.setup(|_| rustix::thread::gettid().as_raw_nonzero()).expect("setup");
    drop(team);
    for id in ids {
        // A joined thread may still be on its way out of the task list for a moment.
        let gone = (0..100_000).any(|_| {
            thread::yield_now();
            fs::metadata(format!("/proc/self/task/{id}")).is_err()
        });
        assert!(gone, "thread {id} is still there");
    }
}
