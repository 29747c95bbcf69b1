//! What users type, in every notation.
#![allow(clippy::unwrap_used)]

use events::{
    Catalogue, Demand, Event, Modifiers, Signal, Unit,
    names::{self, Context, NameOrigin, PmuView},
};
use proptest::prelude::*;

fn pmus() -> Vec<PmuView> {
    let pmu = |name: &str, kind, fields: &[&str], events: &[(&str, &str)]| PmuView {
        name: name.into(),
        kind,
        fields: fields.iter().map(|field| (*field).into()).collect(),
        events: events.iter().map(|(name, text)| ((*name).into(), (*text).into())).collect(),
    };
    let core = ["event", "umask", "cmask", "inv", "edge", "any", "ldlat", "offcore_rsp"];
    let cas = [("cas_count_read", "event=0x04,umask=0x03\n")];
    vec![
        pmu(
            "cpu",
            4,
            &core,
            &[("mem-loads", "event=0xcd,umask=0x1,ldlat=3"), ("slots", "event=0x0,umask=0x4")],
        ),
        pmu("uncore_imc_0", 20, &["event", "umask", "thresh"], &cas),
        pmu("uncore_imc_1", 21, &["event", "umask", "thresh"], &cas),
        pmu("power", 30, &["event"], &[("energy-pkg", "event=0x02")]),
    ]
}

fn context(pmus: &[PmuView]) -> Context<'_> {
    Context { catalogue: Some(Catalogue::named("haswell-ep").unwrap()), pmus, libpfm: false }
}

fn parse(name: &str) -> (Event, NameOrigin) {
    let pmus = pmus();
    let parsed = names::parse(name, &context(&pmus)).unwrap_or_else(|error| panic!("{error}"));
    (parsed.event, parsed.origin)
}

fn error(name: &str) -> String {
    let pmus = pmus();
    names::parse(name, &context(&pmus)).unwrap_err().to_string()
}

fn fields(name: &str) -> String {
    let Signal::Encoded(encoding) = parse(name).0.signal else { panic!("{name} is not encoded") };
    let fields = encoding.fields.iter().map(|(name, value)| format!("{name}={value:#x}"));
    format!("{}:{}", encoding.pmu, fields.collect::<Vec<_>>().join(","))
}

#[test]
fn names_of_the_catalogue() {
    assert_eq!(fields("L2_TRANS.L1D_WB"), "cpu:event=0xf0,umask=0x10");
    assert_eq!(fields("l2_trans:l1d_wb"), "cpu:event=0xf0,umask=0x10");
    assert_eq!(fields("UOPS_ISSUED.ANY:cmask=1:inv"), "cpu:event=0xe,umask=0x1,cmask=0x1,inv=0x1");
    assert_eq!(fields("UOPS_ISSUED:ANY:c=0x2:e=1:u"), "cpu:event=0xe,umask=0x1,cmask=0x2,edge=0x1");
    assert_eq!(fields("UNC_M_CAS_COUNT.RD:t=4"), "uncore_imc:event=0x4,umask=0x3,thresh=0x4");
    assert_eq!(fields("mem-loads:ldlat=30:pp"), "cpu:event=0xcd,umask=0x1,ldlat=0x1e");
    let (event, origin) = parse("inst_retired.any:upp");
    assert_eq!(event.modifiers, Modifiers { user: true, kernel: false, precise: 2 });
    assert_eq!((event.name.as_str(), origin), ("inst_retired.any:upp", NameOrigin::Catalogue));
    assert_eq!(event.counters.fixed, Some(0));
    assert_eq!(parse("inst_retired.any:cmask=1").0.counters.fixed, None);
    let registers = |name: &str, pmu: &str| {
        Demand::of(&parse(name).0, pmu, context(&[]).catalogue)
            .registers
            .into_iter()
            .map(|(name, _)| name)
            .collect::<Vec<_>>()
    };
    assert_eq!(registers("OFFCORE_RESPONSE.ALL_READS.LLC_MISS.LOCAL_DRAM", "cpu"), ["offcore_rsp"]);
    assert_eq!(registers("UNC_C_LLC_LOOKUP.ANY", "uncore_cbox_3"), ["filter_state"]);
}

#[test]
fn names_of_sysfs_and_fields_of_a_pmu() {
    assert_eq!(fields("uncore_imc/cas_count_read/"), "uncore_imc:event=0x4,umask=0x3");
    assert_eq!(parse("uncore_imc/cas_count_read/").1, NameOrigin::Sysfs);
    assert_eq!(fields("uncore_imc_1/cas_count_read/"), "uncore_imc_1:event=0x4,umask=0x3");
    assert_eq!(fields("uncore_imc_*/cas_count_read/u"), "uncore_imc:event=0x4,umask=0x3");
    assert_eq!(fields("uncore_imc/cas_count_read,thresh=2/"), "uncore_imc:event=0x4,umask=0x3,thresh=0x2");
    assert_eq!(fields("cpu/event=0x3c,umask=0x1,inv,cmask=2/"), "cpu:event=0x3c,umask=0x1,inv=0x1,cmask=0x2");
    assert_eq!(fields("cpu/config=0x1234,config1=5/"), "cpu:config=0x1234,config1=0x5");
    assert_eq!(fields("cpu/L2_TRANS.L2_WB/"), "cpu:event=0xf0,umask=0x40");
    assert_eq!(fields("slots"), "cpu:event=0x0,umask=0x4");
    assert_eq!(parse("power/energy-pkg/").1, NameOrigin::Sysfs);
    let (event, origin) = parse("cpu/event=0xd1,umask=0x1,name=mine/kp");
    assert_eq!((event.name.as_str(), origin), ("mine", NameOrigin::Raw));
    assert_eq!(event.modifiers, Modifiers { user: false, kernel: true, precise: 1 });
    // What is spelled out still gets the catalogue's constraints.
    assert_eq!(parse("cpu/event=0x48,umask=0x1/").0.counters.programmable, 0b100);
    // Without sysfs, a simulated machine understands the same.
    let simulated = Context { pmus: &[], ..context(&[]) };
    let event = names::parse("uncore_imc/cas_count_read/", &simulated).unwrap().event;
    assert_eq!(event.unit(), Some(Unit::MemoryController));
    assert!(names::parse("cpu/event=1,umask=2/", &simulated).is_ok());
}

#[test]
fn raw_codes() {
    assert_eq!(fields("r01c0"), "cpu:event=0xc0,umask=0x1");
    assert_eq!(fields("r18401c2:u"), "cpu:event=0xc2,umask=0x1,edge=0x1,inv=0x1,cmask=0x1");
    assert_eq!(fields("r1008003c0000"), "cpu:config=0x1008003c0000");
    assert_eq!(parse("r3c").1, NameOrigin::Raw);
}

#[test]
fn names_of_the_kernel() {
    assert_eq!(parse("cycles").0.signal, Signal::Hardware(0));
    assert_eq!(parse("instructions:u").0.signal, Signal::Hardware(1));
    assert!(parse("instructions:u").0.modifiers.user);
    assert_eq!(parse("LLC-load-misses").0.signal, Signal::HardwareCache(0x1_0002));
    assert_eq!(parse("page-faults").0.signal, Signal::Software(2));
    let tracepoint = Signal::Tracepoint { subsystem: "sched".into(), name: "sched_switch".into() };
    assert_eq!(parse("sched:sched_switch").0.signal, tracepoint);
    assert_eq!(parse("resctrl/mbm_total_bytes/").0.signal, Signal::Resctrl("mbm_total_bytes".into()));
}

#[test]
fn breakpoints() {
    let breakpoint =
        |address, length, read, write, execute| Signal::Breakpoint { address, length, read, write, execute };
    assert_eq!(parse("mem:0x1000").0.signal, breakpoint(0x1000, 4, true, true, false));
    assert_eq!(parse("mem:0x1000/8:w").0.signal, breakpoint(0x1000, 8, false, true, false));
    assert_eq!(parse("mem:4096/1:rw:u").0.signal, breakpoint(0x1000, 1, true, true, false));
    assert!(parse("mem:4096/1:rw:u").0.modifiers.user);
    assert_eq!(parse("mem:0x1000:x").0.signal, breakpoint(0x1000, 8, false, false, true));
    assert!(error("mem:main").contains("at 5: 'main' is no address"), "{}", error("mem:main"));
    assert!(error("mem:0x10/3:w").contains("at 10: '3' is no length"), "{}", error("mem:0x10/3:w"));
    assert!(error("mem:0x10:xw").contains("counted alone"));
    assert!(error("mem:0x10:q").contains("no access"));
}

#[test]
fn what_is_not_understood_says_where_and_what_is_near() {
    assert_eq!(
        error("L2_TRANS:L1D_WV"),
        "'L2_TRANS:L1D_WV', at 1: no such event here; did you mean L2_TRANS.L1D_WB, L2_TRANS.L2_WB?"
    );
    assert!(error("l2_trans:l1d_wv").contains("no such event here"));
    assert!(error("instuctions").contains("did you mean instructions"));
    assert!(error("L2_TRANS.L1D_WB:cmask=999").contains("at 17: 0x3e7 needs more than the 8 bits of cmask"));
    assert!(error("L2_TRANS.L1D_WB:what").contains("at 17: 'what' is no mask, field or modifier"));
    assert!(
        error("cpu/event=0x1,umsk=2/")
            .contains("at 15: cpu has no event or field 'umsk'; did you mean umask")
    );
    assert!(error("cpu/event=blue/").contains("'blue' is no number"));
    assert!(error("uncore_cha/event=1/").contains("this machine has no PMU 'uncore_cha'"));
    assert!(error("cpu/event=1").contains("closing slash"));
    assert!(error("cpu/cycles=1/q").contains("no event or field"));
    assert!(error("cpu/event=1/q").contains("'q' is no modifier"));
    assert!(error("resctrl/mbm_total/").contains("did you mean mbm_total_bytes"));
    assert!(error("").contains("1 to 1024 bytes"));
}

#[test]
fn boxes_of_a_name() {
    let is = names::is_box_of;
    assert!(is("uncore_imc_3", "uncore_imc") && is("cpu", "cpu"));
    assert!(!is("uncore_imc_free_running_0", "uncore_imc"));
    assert!(!is("cpu_core", "cpu") && !is("uncore_imc_", "uncore_imc"));
    assert!(is("uncore_imc_3", "uncore_imc_3") && !is("uncore_imc_31", "uncore_imc_3"));
}

#[test]
fn libpfm_is_asked_last_and_never_needed() {
    let pmus = pmus();
    let context = Context { libpfm: true, ..context(&pmus) };
    let error = names::parse("NO_SUCH_EVENT_AT_ALL", &context).unwrap_err();
    assert!(error.message.contains("libpfm"), "{error}");
    if events::libpfm::available().is_ok() {
        let parsed = names::parse("perf::PERF_COUNT_SW_CPU_MIGRATIONS", &context).unwrap();
        assert_eq!((parsed.origin, parsed.event.signal), (NameOrigin::Libpfm, Signal::Software(4)));
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,40}") {
        let pmus = pmus();
        let _ = names::parse(&text, &context(&pmus));
    }

    #[test]
    fn no_text_near_a_name_panics(
        text in "(cpu|uncore_imc|mem|resctrl|L2_TRANS|r|sched|cycles)[:/.@,{}=]{0,2}[a-zA-Z0-9_=,:/é{}@.]{0,24}"
    ) {
        let pmus = pmus();
        if let Err(error) = names::parse(&text, &context(&pmus)) {
            prop_assert!(error.position <= text.chars().count() + 1, "{}", error);
        }
    }
}
