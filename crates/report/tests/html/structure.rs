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
        let is_there = page.contains(&format!("id=\"{target}\"")) || has_detail(page, target);
        assert!(is_there, "nothing at #{target}");
    }
}

/// Whether the page's script shows a function or an object at this link.
fn has_detail(page: &str, target: &str) -> bool {
    let Some((kind, index)) = target.split_once('-') else { return false };
    let Ok(index) = index.parse::<usize>() else { return false };
    match kind {
        "symbol" => !data(page)["symbols"][index].is_null(),
        "object" => !data(page)["objects"]["objects"][index].is_null(),
        _ => false,
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
        "waits here 60 %",
        "<dt>To be won</dt>",
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
fn regions_lead_to_the_symbols_within_them() {
    let data = data(&pages::join(|_, _, _| ()));
    let tables = data["tables"].as_array().unwrap();
    let first = |id: &str, row: usize| {
        let table = tables.iter().find(|table| table["id"] == id).unwrap();
        table["rows"][row][0].clone()
    };
    assert_eq!(first("regions-table", 0), serde_json::json!({"text": "probe", "to": "#region-0"}));
    assert_eq!(first("region-threads-table", 3), serde_json::json!({"text": "build", "to": "#region-1"}));
    assert_eq!(data["views"]["regions"][1]["name"], "build");
    // No sample lies in it.
    assert_eq!(first("regions-table", 2), "open");
    // The answer stands beside the share, as on the terminal.
    let table = tables.iter().find(|table| table["id"] == "regions-table").unwrap();
    let held =
        table["columns"].as_array().unwrap().iter().position(|one| one["title"] == "held back").unwrap();
    assert_eq!(table["rows"][0][held], "yes, medium");
    assert!(table["rows"][2][held].is_null(), "{}", table["rows"][2]);
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
        parts: [0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0],
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
        views: None,
        hybrid: None,
        import: None,
        aggregate: None,
        calls: None,
        regions: &[],
        scaling: None,
        patterns: &[],
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
        check(&html::bench(&bench, &html::BenchMachine::default()));
    }
    let unknown = html::BenchMachine::default();
    let page = html::bench(&benches::chase_sweep(), &unknown);
    assert!(page.contains("Latency, ns (log scale), by data set size"), "a chain is drawn by its latency");
    assert!(page.contains("&#39;memwall calibrate&#39; would draw its levels"));
    assert!(html::bench(&benches::triad_sweep(), &unknown).contains("what the program sees"));
}

#[test]
fn a_sweep_has_the_machine_drawn_in() {
    let profile = profiles::guest();
    let known = html::BenchMachine { profile: Some(&profile), claimed: None };
    let page = html::bench(&benches::triad_sweep(), &known);
    check(&page);
    // Both cores of the guest: a limit at each level, and capacities of both first caches together.
    assert_eq!(page.matches("class=\"limit\"").count(), 4, "{page}");
    assert!(page.contains(">L1</text>") && page.contains("memory copy"), "{page}");
    // Bytes with write-allocate are drawn and listed only of sizes that no cache holds.
    let rows = data(&page)["tables"][0]["rows"].clone();
    let last = profile.levels.iter().rfind(|level| level.usable.is_some()).unwrap();
    let held = 2.0 * last.usable.unwrap().high;
    let mut beyond = 0;
    for row in rows.as_array().unwrap() {
        let size = row[0].as_f64().unwrap();
        assert_eq!(row[3].is_null(), size <= held, "{row}");
        beyond += usize::from(size > held);
    }
    assert!(beyond > 0 && beyond < rows.as_array().unwrap().len(), "{rows}");
    let drawn = page.split("class=\"series s1\"").nth(1).unwrap().split("</g>").next().unwrap();
    assert_eq!(drawn.matches("<circle").count(), beyond);
    // One core of a chase: latencies.
    let page = html::bench(&benches::chase_sweep(), &known);
    check(&page);
    assert!(page.contains("class=\"limit-name\"") && !page.contains("memory copy"), "{page}");
    // Without a profile what the caches claim has to do; without that it is not known.
    let claimed = html::BenchMachine { profile: None, claimed: Some(machine::Bytes::mib(16)) };
    assert!(html::bench(&benches::triad_sweep(), &claimed).contains("with write-allocate"));
    let unknown = html::BenchMachine::default();
    assert!(!html::bench(&benches::triad_sweep(), &unknown).contains("with write-allocate"));
}

#[test]
fn calls_are_drawn_or_it_is_said_that_none_were_recorded() {
    let page = pages::join(|_, _, _| ());
    assert_eq!(data(&page)["calls"]["nodes"].as_array().unwrap().len(), 6);
    assert!(!page.contains("No call chains were recorded"));
    let without = crate::large::large();
    assert!(without.contains("No call chains were recorded. &#39;memwall run --call-graph&#39;"));
}

#[test]
fn a_validation_begins_with_what_is_broken() {
    let page = html::validate(&validations::haswell());
    let (summary, verdicts) = (page.find("id=\"summary\"").unwrap(), page.find("id=\"verdicts\"").unwrap());
    assert!(
        summary < verdicts && page[summary..verdicts].contains("Broken: "),
        "{}",
        &page[summary..verdicts]
    );
    let tables = data(&page)["tables"].clone();
    let table = tables.as_array().unwrap().iter().find(|table| table["id"] == "verdicts-table").unwrap();
    let words: Vec<&str> =
        table["rows"].as_array().unwrap().iter().map(|row| row[2].as_str().unwrap()).collect();
    let order =
        |word: &&str| ["broken", "qualitative", "trusted", "untested"].iter().position(|one| one == word);
    assert!(words.is_sorted_by_key(order), "{words:?}");
    assert_eq!(table["columns"][2]["kind"], "trust");
    // Errors as people read them.
    let mut exact = validations::haswell();
    exact.indicators[0].trust = Trust::Trusted { error: 2.2e-16 };
    let page = html::validate(&exact);
    assert!(page.contains("\"0.1 %\"") && !page.contains("0.000000"), "{page}");
    // What random kernels gave is there, or that none were tried.
    assert!(page.contains("None were tried"));
    let mut tried = validations::haswell();
    tried.unseen = Some(validations::unseen());
    let page = html::validate(&tried);
    check(&page);
    let tables = data(&page)["tables"].clone();
    let table = tables.as_array().unwrap().iter().find(|table| table["id"] == "random-table").unwrap();
    assert_eq!(table["rows"][0][0], "stores");
    assert_eq!(table["rows"][0][1], "broken");
    assert!(page.contains("Intervals hold the truth in"));
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
    let waiting = [Purpose::Stall, Purpose::NoExecution, Purpose::CycleShare, Purpose::Latency];
    let others = waiting.into_iter().chain([Purpose::Software, Purpose::Timer, Purpose::Unclaimed]);
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
