//! Opening samplers on a scripted kernel: what they ask for, and what they make of refusals.
#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use pmu::{
    Errno, EventTarget, KernelEvent, Pmu, Scope, bindings as b,
    event::Modes,
    refusal::{Need, NextStep, Surroundings},
    sampling::{
        Fields, LoadSampling, NoPreciseLoads, RingActivity, Sampler, SamplerRequest, SamplingPace,
        precise_loads,
    },
    scripted::{Behaviour, Scripted},
};

fn request(cpus: &str) -> SamplerRequest {
    SamplerRequest::clock(Scope::Child(7), cpus.parse().unwrap())
}

/// Threads of one CPU share its ring, and a ring lasts as long as any of them.
#[test]
fn every_thread_of_a_process_on_every_cpu() {
    let kernel = Scripted::new(|asked| match asked.target {
        EventTarget::ThreadOnCpu { cpu: 3 | 5, .. } => Ok(Behaviour::samples(&[])),
        _ => Err(Errno(libc::EINVAL)),
    });
    let done = thread::scope(|scope| {
        let (hold, held) = std::sync::mpsc::channel::<()>();
        scope.spawn(move || held.recv());
        let here = std::process::id() as i32;
        let request = SamplerRequest::clock(Scope::Process(here.cast_unsigned()), "3,5".parse().unwrap());
        let mut sampler = Sampler::open(&kernel, &request).unwrap();
        drop(hold);
        assert_eq!(sampler.cpus().collect::<Vec<_>>(), [3, 5]);
        assert!(sampler.events() >= 4 && sampler.events().is_multiple_of(2), "{}", sampler.events());
        assert_eq!(sampler.events(), kernel.open_events());
        let turns = sampler.events() / 2;
        (0..turns).map(|_| sampler.wait(Duration::ZERO).unwrap()).collect::<Vec<_>>()
    });
    let (last, before) = done.split_last().unwrap();
    assert!(before.iter().all(|activity| *activity == RingActivity::TimeOut), "{before:?}");
    assert_eq!(*last, RingActivity::Over);
}

#[test]
fn rings_shrink_until_the_kernel_locks_them() {
    // The watermark is a quarter of the ring: 16 pages are the most this user gets.
    let most = 16 * rustix::param::page_size() as u32 / 4;
    let kernel = Scripted::new(move |asked| {
        let fits = asked.event.stream.watermark_bytes <= most;
        let map = if fits { Behaviour::samples(&[]).map } else { Err(Errno(libc::EPERM)) };
        Ok(Behaviour { map, ..Behaviour::counts(0) })
    });
    let sampler = Sampler::open(&kernel, &request("0-3")).unwrap();
    assert_eq!((sampler.ring_pages(), sampler.events(), kernel.open_events()), (16, 4, 4));
    assert_eq!(sampler.cpus().collect::<Vec<_>>(), [0, 1, 2, 3]);
    drop(sampler);
    let kernel = Scripted::new(|_| Ok(Behaviour { map: Err(Errno(libc::EPERM)), ..Behaviour::counts(0) }));
    let failure = Sampler::open(&kernel, &request("0")).err().unwrap();
    assert_eq!((failure.trouble.step, kernel.open_events()), (NextStep::Map, 0));
    assert_eq!(
        failure.to_string(),
        "cannot sample the clock of the program on CPUs 0: EPERM; ask for smaller rings or fewer CPUs"
    );
}

#[test]
fn older_kernels_get_the_older_forms() {
    let kernel = Scripted::new(|asked| {
        let sampling = asked.event.sampling.unwrap();
        let is_new = sampling.fields & u64::from(b::PERF_SAMPLE_WEIGHT_STRUCT) != 0;
        if is_new { Err(Errno(libc::EINVAL)) } else { Ok(Behaviour::samples(&[])) }
    });
    let fields = Fields { weight: true, ..Fields::clock() };
    assert!(Sampler::open(&kernel, &SamplerRequest { fields, ..request("0") }).is_ok());
}

#[test]
fn refusals_say_what_to_do() {
    let refuse = |errno, scope| {
        let kernel = Scripted::new(move |_| Err(Errno(errno)));
        let request = SamplerRequest { scope, ..request("0-1") };
        Sampler::open(&kernel, &request).err().unwrap()
    };
    let emfile = refuse(libc::EMFILE, Scope::Child(7)).to_string();
    assert!(
        emfile.contains("1 threads on 2 CPUs take 2 descriptors") && emfile.contains("ulimit -n"),
        "{emfile}"
    );
    assert!(refuse(libc::ENOENT, Scope::Child(7)).to_string().ends_with("the clock works everywhere"));
    assert!(refuse(libc::ESRCH, Scope::Child(7)).to_string().contains("the process is gone"));
    let whole = refuse(libc::EACCES, Scope::Cpus("0-1".parse().unwrap()));
    assert_eq!((whole.need, whole.trouble.errno), (Need::WholeCpu, Errno(libc::EACCES)));
    let here = Surroundings {
        paranoid_level: Some(2),
        ring_kib: 516,
        is_filtered: false,
        with_more_rights: "sudo memwall run".into(),
    };
    assert_eq!(
        whole.explain(&here).sentence(),
        "EACCES: kernel.perf_event_paranoid is 2, this needs 0 or less; try `sudo sysctl \
         kernel.perf_event_paranoid=0`"
    );
    let none = Sampler::open(&Scripted::new(|_| Ok(Behaviour::samples(&[]))), &request("")).err().unwrap();
    assert!(none.to_string().contains("name at least one CPU"), "{none}");
}

#[test]
fn attributes_follow_the_request() {
    let kernel = Scripted::new(|asked| {
        let attr = asked.event.attr();
        assert_eq!((attr.disabled(), attr.enable_on_exec(), attr.inherit()), (1, 1, 1));
        assert_eq!((attr.sample_id_all(), attr.mmap2()), (1, 1));
        assert_eq!(attr.build_id(), 0, "it would spoil what others hear of mappings");
        assert_eq!((attr.freq(), attr.use_clockid(), attr.watermark()), (0, 1, 1));
        assert!((900_000..=1_100_000).contains(&asked.event.sampling.unwrap().period));
        Ok(Behaviour::samples(&[]))
    });
    let mut sampler = Sampler::open(&kernel, &request("0-7")).unwrap();
    sampler.redraw_periods().unwrap();
}

fn pmu(name: &str, fields: &[(&str, &str)], events: &[(&str, &str)]) -> Pmu {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("sys/bus/event_source/devices").join(name);
    for (sub, files) in [("format", fields), ("events", events)] {
        std::fs::create_dir_all(folder.join(sub)).unwrap();
        for (file, text) in files {
            std::fs::write(folder.join(sub).join(file), text).unwrap();
        }
    }
    std::fs::write(folder.join("type"), "4\n").unwrap();
    Pmu::list(root.path()).remove(0)
}

const INTEL: &[(&str, &str)] =
    &[("event", "config:0-7"), ("umask", "config:8-15"), ("ldlat", "config1:0-15")];

#[test]
fn load_latency_with_and_without_its_auxiliary_event() {
    let skylake = pmu("cpu", INTEL, &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3")]);
    let [loads]: [LoadSampling; 1] = precise_loads(&[skylake], 30).unwrap().try_into().unwrap();
    assert_eq!((loads.event.config, loads.event.config1), (0x01cd, 30));
    assert_eq!((loads.leader, loads.threshold_cycles, loads.precise), (None, Some(30), 2));

    let aux = ("mem-loads-aux", "event=0x03,umask=0x82");
    let rapids = pmu("cpu", INTEL, &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3"), aux]);
    let loads = precise_loads(&[rapids], 0).unwrap().remove(0);
    assert_eq!((loads.event.config1, loads.threshold_cycles), (3, Some(3)), "below 3 is refused");
    assert_eq!(loads.leader.as_ref().map(|leader| leader.config), Some(0x8203));
    // As the kernel has it: without the auxiliary event in front, ENODATA.
    let leads = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&leads);
    let kernel = Scripted::new(move |asked| match (asked.event.config, asked.group) {
        (0x8203, 0) => {
            assert!(asked.event.sampling.is_none() && asked.event.enable_on_exec && asked.event.inherit);
            seen.fetch_add(1, Ordering::Relaxed);
            Ok(Behaviour::counts(0))
        }
        (0x01cd, 1) => {
            assert!(!asked.event.disabled && asked.event.attr().precise_ip() == 2);
            Ok(Behaviour::samples(&[]))
        }
        _ => Err(Errno(libc::ENODATA)),
    });
    let cpus = "0-1".parse().unwrap();
    let asked = SamplerRequest::loads(&loads, 1000, Scope::Child(7), &cpus);
    let sampler = Sampler::open(&kernel, &asked).unwrap();
    assert_eq!((leads.load(Ordering::Relaxed), sampler.events(), kernel.open_events()), (2, 2, 4));
    sampler.start().unwrap();
    let alone = SamplerRequest { leader: None, ..asked };
    let failure = Sampler::open(&kernel, &alone).err().unwrap();
    assert!(failure.to_string().contains("auxiliary event"), "{failure}");
}

#[test]
fn ibs_and_machines_without_anything() {
    let formats = [("cnt_ctl", "config:19"), ("swfilt", "config2:0"), ("ldlat", "config1:0-11")];
    let zen5 = pmu("ibs_op", &formats, &[]);
    let loads = precise_loads(&[pmu("cpu", INTEL, &[]), zen5], 200).unwrap().remove(0);
    assert_eq!(loads.event, KernelEvent { config1: 256, config2: 1, ..KernelEvent::new(4, 1 << 19) });
    assert_eq!(loads.threshold_cycles, Some(256));
    let zen2 = precise_loads(&[pmu("ibs_op", &[], &[])], 200).unwrap().remove(0);
    assert_eq!((zen2.event.modes, zen2.threshold_cycles), (Modes::All, None));

    assert_eq!(precise_loads(&[], 30), Err(NoPreciseLoads::NoPmu));
    let words = precise_loads(&[pmu("cpu", INTEL, &[])], 30).unwrap_err().to_string();
    assert!(words.starts_with("cpu has no event for load latency"), "{words}");
    let broken = pmu("cpu", INTEL, &[("mem-loads", "event=0xcd,nonsense=1")]);
    assert!(matches!(precise_loads(&[broken], 30), Err(NoPreciseLoads::Description { .. })));
}

#[test]
fn a_rate_is_left_to_the_kernel_unless_a_clock_ticks() {
    let kernel = Scripted::new(|asked| {
        let attr = asked.event.attr();
        assert_eq!((attr.freq(), asked.event.sampling.unwrap().period), (1, 500));
        Ok(Behaviour::samples(&[]))
    });
    let asked = SamplerRequest {
        event: KernelEvent::hardware(0, None),
        pace: SamplingPace::PerSecond(500),
        ..request("0")
    };
    assert!(Sampler::open(&kernel, &asked).unwrap().redraw_periods().is_ok());
}
