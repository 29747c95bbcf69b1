//! What every page holds, without a browser.

use machine::Profile;
use report::html;
use trust::{Indicator, Judged, Purpose, Quantity, Trust};

use crate::{benches, pages, profiles, validations};

/// What holds for every page, whatever it shows.
fn check(page: &str) {
    assert!(page.starts_with("<!doctype html>\n<html lang=\"en\">"));
    assert!(
        page.contains("default-src &#39;none&#39;; script-src &#39;sha256-")
            && !page.contains("unsafe-inline")
    );
    assert_eq!(page.matches("<script").count(), 2, "one script and its data");
    // Text may say anything; tags may not.
    let markup = page.split("<script").next().unwrap();
    for tag in markup.split('<').skip(1).filter_map(|piece| piece.split('>').next()) {
        let banned = [" src=", " onclick=", " onerror=", " style="];
        assert!(banned.iter().all(|attribute| !tag.contains(attribute)), "{tag}");
    }
    for outside in ["http://", "https://", "url(", "@import", "<img", "<iframe"] {
        assert!(!page.replace("http://www.w3.org/2000/svg", "").contains(outside), "{outside}");
    }
    assert!(!page.contains("NaN") && !page.contains(">inf"), "no number that is none");
    assert_eq!(page.matches("<h1>").count(), 1);
    for (id, _) in page.match_indices(" id=\"").map(|(at, _)| page[at + 5..].split_once('"').unwrap()) {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id} is there twice");
    }
    for (target, _) in page.match_indices("href=\"#").map(|(at, _)| page[at + 7..].split_once('"').unwrap()) {
        assert!(page.contains(&format!("id=\"{target}\"")), "nothing at #{target}");
    }
}

fn data(page: &str) -> serde_json::Value {
    let from = page.split("id=\"data\">").nth(1).unwrap();
    serde_json::from_str(from.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn a_run() {
    let page = pages::join(|_, _, _| ());
    check(&page);
    for words in [
        "Held back by memory: yes",
        "76 % (74 to 78 %) of user time went into waiting for memory, 64 % into waiting on loads.",
        "Confidence: high. 6000 samples, 2 % of them undecided.",
        "claims 260 MiB, gives one core ~10.2 MiB",
        "program streams 7.80 GB/s of 21.8 GB/s",
        "◆ block of 64 MiB from join::Table:…: 64 MiB",
        "1.9 threads ran at once, on 2 CPUs",
        "What to try next",
        "not known: the kernel gave no context-switch records",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let data = data(&page);
    assert_eq!(data["symbols"].as_array().unwrap().len(), 6);
    assert_eq!(data["aggregate"]["intervals"], 600);
    assert_eq!(data["aggregate"]["span_ns"], 3_000_000_000u64);
}

#[test]
fn threads_with_one_number_stay_two() {
    let page = pages::join(|findings, objects, _| {
        findings.threads.iter_mut().for_each(|thread| thread.tid = 4101);
        objects.shared_lines[0].uses.iter_mut().for_each(|found| found.tid = 4101);
        objects.objects[0].readers = vec![4101, 4101];
    });
    let data = data(&page);
    let names = |rows: &serde_json::Value| -> Vec<String> {
        let rows = rows.as_array().unwrap().iter().map(|row| row.as_u64().unwrap() as usize);
        rows.map(|row| data["threads"][row]["name"].as_str().unwrap().to_owned()).collect()
    };
    let uses = data["objects"]["lines"][0]["uses"].as_array().unwrap();
    let users = serde_json::Value::Array(uses.iter().map(|found| found[0].clone()).collect());
    assert_eq!(names(&users), ["worker-0", "worker-1"]);
    assert_eq!(names(&data["objects"]["objects"][0]["readers"]), ["worker-0", "worker-1"]);
    assert_eq!(names(&data["objects"]["objects"][0]["writers"]), ["worker-0"]);
}

#[test]
fn intervals_join_where_there_are_too_many() {
    let mut findings = pages::findings();
    let first = findings.timeline.intervals[0];
    findings.timeline.interval_ns = 1000;
    findings.timeline.intervals = vec![first; 1500];
    let seen = |time_ns| analysis::reading::SamplePart {
        time_ns,
        thread: 0,
        instruction: 1,
        object: None,
        parts: [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0],
    };
    // One at the very end, one past it, as a clock may give.
    let found = html::Aggregate::collect(&findings, 0, [0, 2999, 3000, 1_499_999, 9_000_000].map(seen));
    assert_eq!((found.intervals, found.span_ns), (500, 1_500_000));
    assert_eq!((found.symbols.rows[0].index, found.objects.rows.len()), (1, 0));
    // Halves of two samples in the first interval, of one in the second, of two in the last.
    let cells: Vec<_> = found.threads.rows[0].tracks.iter().map(|track| track.cells.clone()).collect();
    assert_eq!(
        cells,
        [vec![0, 1, 1, 1, 498, 1], vec![0, 1, 1, 1, 498, 1]],
        "rounded, the sum is kept within one"
    );
}

#[test]
fn a_run_of_which_little_is_known() {
    let mut findings = pages::findings();
    findings.overall = None;
    findings.symbols.clear();
    findings.instructions.clear();
    findings.threads.clear();
    findings.timeline.intervals.clear();
    findings.verdict.memory = None;
    findings.verdict.loads = None;
    findings.verdict.held_back = analysis::findings::HeldBack::Unknown;
    findings.limits.levels =
        analysis::findings::KnownLimits::Missing("this machine has no profile".to_owned());
    findings.limits.streams = analysis::findings::KnownLimits::Missing("no sample was taken".to_owned());
    let page = html::run(&html::RunPage {
        findings: &findings,
        objects: None,
        profile: None,
        functions: &[],
        sources: &[],
        source_remark: None,
        surroundings: None,
        import: None,
        aggregate: None,
    });
    check(&page);
    assert!(!page.contains("href=\"#code\"") && page.contains("href=\"#machine\""), "no table of nothing");
    for words in
        ["cannot be told", "not asked which data", "this machine has no profile", "run memwall calibrate"]
    {
        assert!(page.contains(words), "{words}");
    }
}

#[test]
fn profiles_and_sweeps() {
    let empty = Profile { levels: vec![], latency_curve: vec![], tlb: None, ..profiles::interrupted() };
    for profile in
        [profiles::guest(), profiles::one_cpu(), profiles::two_nodes(2), profiles::interrupted(), empty]
    {
        check(&html::profile(&profile, &[]));
    }
    let page = html::profile(&profiles::guest(), &[]);
    assert_eq!(page.matches("<figure class=\"curve\">").count(), 3);
    assert!(page.contains("latency rises after 96 pages (384 KiB)"));
    let changed = html::profile(&profiles::guest(), &["kernel: was 6.1, is 6.12".to_owned()]);
    assert!(changed.contains("has changed since") && changed.contains("was 6.1, is 6.12"));
    let mut nothing = benches::divide();
    nothing.points.clear();
    for bench in [benches::triad_sweep(), benches::chase_sweep(), benches::divide(), nothing] {
        check(&html::bench(&bench));
    }
    let page = html::bench(&benches::chase_sweep());
    assert!(page.contains("Latency, ns (log scale), by data set size"), "a chain is drawn by its latency");
    assert!(html::bench(&benches::triad_sweep()).contains("what the program sees"));
}

#[test]
fn names_cannot_leave_their_place() {
    let evil = "</script><img src=x onerror=alert(1)>\"'\u{202e}\u{1b}[31m\0";
    let page = pages::join(|findings, objects, functions| {
        findings.symbols[0].name = evil.to_owned();
        findings.about.command = vec![evil.to_owned()];
        findings.advice = vec![evil.to_owned()];
        objects.objects[0].name = evil.to_owned();
        functions[0].lines[3].text = evil.to_owned();
    });
    check(&page);
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}') && !page.contains('\0'));
    assert!(data(&page)["symbols"][0]["name"].as_str().unwrap().starts_with("</script><img"));
}

#[test]
fn an_indicator_of_any_purpose_and_trust_is_in_the_text_and_on_the_page() {
    let others = [Purpose::Stall, Purpose::Latency, Purpose::Software, Purpose::Timer, Purpose::Unclaimed];
    let volumes = Quantity::ALL.iter().map(|quantity| Purpose::Volume(*quantity));
    let purposes = volumes.chain(others).chain([Purpose::Foreign("l9_in".to_owned())]);
    let text = |text: &str| text.to_owned();
    let trusts = || {
        let flaw = trust::Flaw::Silent;
        [
            Trust::Trusted { error: 0.01 },
            Trust::Qualitative { tells: text("much"), misses: text("how much") },
            Trust::Broken { flaw, why: text("is silent"), shown_by: text("load") },
            Trust::Untested { missing: text("nobody tried") },
        ]
    };
    let mut validation = validations::haswell();
    validation.indicators = purposes
        .flat_map(|purpose| trusts().map(|trust| (purpose.clone(), trust)))
        .enumerate()
        .map(|(at, (purpose, trust))| {
            Judged::new(Indicator::Event(format!("NAME_{at}_")), purpose, "what it says", "volume", trust)
        })
        .collect();
    let (text, page) = (report::terminal::validate::text(&validation, 100), html::validate(&validation));
    for one in &validation.indicators {
        assert!(text.contains(one.name.name()), "{} for {:?}: {text}", one.name, one.tried_for);
        assert!(page.contains(&format!("\"{}\"", one.name)), "{} for {:?}", one.name, one.tried_for);
    }
}
