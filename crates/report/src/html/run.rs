//! The page of a run.

mod flame;
mod hybrid;
mod patterns;
pub(super) mod payload;
mod regions;
mod scaling;
mod sources;
mod trust;
mod verdict;
mod views;

use analysis::{
    findings::{Findings, KnownLimits, Objects, StreamLimit, WaitLevel},
    hybrid::HybridFindings,
    import::ImportFindings,
    listing::AnnotatedFunction,
    patterns::PatternFinding,
    reading::Reading,
    regions::RegionFinding,
    scaling::ScalingFindings,
    surroundings::ProgramSurroundings,
    views::EventViews,
};
use machine::Profile;
use record::run::Run;

pub use self::{
    flame::{CallNode, CallTree},
    sources::{SourceFinder, SourceReading, SourceText},
};
use super::{
    Aggregate,
    frame::PageFrame,
    hierarchy::{self, Drawn, Nearness},
    markup::{Html, element, list, paragraph, section},
    tables::place,
};
use crate::{
    layout::age,
    layout::prose::{counted, dotted},
    layout::surroundings,
    terminal::run::{
        limits::{sentence, stream_sentence},
        loads,
        objects::flagged_sentence,
        seconds,
        subject::{ending, shown},
    },
};

/// All that a page of a run is made from.
#[derive(Clone, Copy, Debug)]
pub struct RunPage<'a> {
    /// What the run says.
    pub findings: &'a Findings,
    /// What it says about data, if that was asked.
    pub objects: Option<&'a Objects>,
    /// The machine's profile, if there is one.
    pub profile: Option<&'a Profile>,
    /// All instructions of the functions worth reading.
    pub functions: &'a [AnnotatedFunction],
    /// Source of those functions, where it was found.
    pub sources: &'a [SourceText],
    /// What there is to say about source that was not.
    pub source_remark: Option<&'a str>,
    /// What went on around it, if that was probed.
    pub surroundings: Option<&'a ProgramSurroundings>,
    /// Where it was imported from, if it was.
    pub import: Option<&'a ImportFindings>,
    /// The run over time; without it no range can be selected.
    pub aggregate: Option<&'a Aggregate>,
    /// Call chains, if they were recorded.
    pub calls: Option<&'a CallTree>,
    /// Regions that the program marked.
    pub regions: &'a [RegionFinding],
    /// Runs with several numbers of threads, if there were.
    pub scaling: Option<&'a ScalingFindings>,
    /// Known diseases beside it.
    pub patterns: &'a [PatternFinding],
    /// What was sampled, by symbol and by region.
    pub views: Option<&'a EventViews>,
    /// Code and data that wait for bandwidth, by events; none where nobody asked.
    pub hybrid: Option<&'a KnownLimits<HybridFindings>>,
}

const CONTENTS: [(&str, &str); 14] = [
    ("verdict", "Verdict"),
    ("time", "Time line"),
    ("bars", "Where"),
    ("patterns", "Patterns"),
    ("scaling", "Scaling"),
    ("regions", "Regions"),
    ("calls", "Calls"),
    ("code", "Code"),
    ("data-objects", "Data"),
    ("threads", "Threads"),
    ("events", "Events"),
    ("bandwidth", "Bandwidth"),
    ("machine", "Machine"),
    ("trust", "Trust"),
];

/// Functions shown instruction by instruction.
const FUNCTIONS: usize = 60;

/// The page of a recording that was read.
pub fn recording(
    run: &Run,
    reading: &Reading,
    profile: Option<&Profile>,
    source: &SourceReading<'_>,
) -> String {
    let functions = reading.listing(run, FUNCTIONS);
    let (texts, remark) = source.of(&functions);
    let count = reading.objects.objects.len();
    let calls = CallTree::of(run, reading);
    self::run(&RunPage {
        findings: &reading.findings,
        objects: Some(&reading.objects),
        profile,
        functions: &functions,
        sources: &texts,
        source_remark: remark.as_deref(),
        surroundings: Some(&reading.surroundings),
        import: reading.import.as_ref(),
        aggregate: Some(&Aggregate::collect(&reading.findings, count, reading.samples(run))),
        calls: calls.as_ref(),
        regions: &reading.regions,
        scaling: reading.scaling.as_ref(),
        patterns: &reading.patterns,
        views: Some(&reading.views),
        hybrid: reading.hybrid.as_ref(),
    })
}

/// The page of a run, as one file.
pub fn run(page: &RunPage<'_>) -> String {
    let findings = page.findings;
    // Too few samples give no tables; scripts find their places all the same.
    let of_samples = |part: Html| match findings.has_enough_samples() {
        true => part,
        false => element("div").set("hidden", "").with([part]).end(),
    };
    // Events may be sampled where time is not.
    let without_time =
        |(id, _): &(&str, &str)| ["verdict", "events", "bandwidth", "machine", "trust"].contains(id);
    let is_there = |(id, _): &(&str, &str)| match *id {
        "regions" => !page.regions.is_empty(),
        "scaling" => page.scaling.is_some(),
        "patterns" => !page.patterns.is_empty(),
        "events" => views::is_shown(page.views),
        "bandwidth" => page.hybrid.is_some(),
        _ => true,
    };
    let contents = CONTENTS
        .into_iter()
        .filter(|entry| findings.has_enough_samples() || without_time(entry))
        .filter(is_there);
    let body = Html::all([
        verdict::html(page),
        of_samples(section("time", "Time line", [place("timeline"), flagged(page)])),
        element("div").set("id", "detail").set("hidden", "").end(),
        element("div")
            .set("id", "overview")
            .with([
                of_samples(Html::all([
                    section("bars", "Where the user time went", [place("bar-views")]),
                    patterns::html(page.patterns),
                    scaling::html(page.scaling),
                    regions::html(page.regions),
                    section("calls", "Call chains", [calls(page)]),
                    section("code", "Code", code(page)),
                    section("data-objects", "Data", data(page)),
                    section("threads", "Threads", [place("threads-table")]),
                ])),
                views::html(page.views),
                hybrid::html(page.hybrid),
                section("machine", whose_machine(page), machine(page)),
                trust::html(page),
            ])
            .end(),
    ]);
    let page = PageFrame {
        title: shown(&findings.about.command),
        kind: "run",
        subtitle: vec![subtitle(findings)],
        contents: contents.collect(),
        body,
        data: payload::payload(page),
    };
    page.render()
}

fn subtitle(findings: &Findings) -> String {
    let about = &findings.about;
    let mut parts = vec![age::date(about.started_at)];
    parts.extend(about.elapsed_ns.value().map(|ns| seconds(*ns as f64)));
    parts.push(ending(about.ending));
    parts.extend(about.attached.map(|pid| format!("attached to process {pid}")));
    parts.extend((about.processes > 1).then(|| format!("{} processes", about.processes)));
    parts.push(counted(about.threads as usize, "thread"));
    parts.push(counted(about.samples as usize, "sample"));
    dotted(parts.iter().map(String::as_str))
}

/// What is named from the samples inside flagged intervals alone.
fn flagged(page: &RunPage<'_>) -> Html {
    let sentence = page.objects.and_then(|objects| flagged_sentence(page.findings, objects));
    sentence.map_or_else(Html::default, |sentence| paragraph("", &sentence))
}

fn calls(page: &RunPage<'_>) -> Html {
    match page.calls {
        Some(_) => place("flame"),
        None => paragraph(
            "quiet",
            "No call chains were recorded. 'memwall run --call-graph' takes them along, for programs built with frame \
             pointers (-fno-omit-frame-pointer); they are drawn here as a flame graph.",
        ),
    }
}

fn code(page: &RunPage<'_>) -> Vec<Html> {
    let remark = page.source_remark.map(|remark| paragraph("quiet", remark));
    [place("symbols-table"), place("instructions-table")].into_iter().chain(remark).collect()
}

fn data(page: &RunPage<'_>) -> Vec<Html> {
    /// Functions and objects whose loads are listed.
    const TOP: usize = 5;
    let loads = list("notes", loads::sentences(&page.findings.loads, TOP).iter());
    match page.objects {
        None => vec![paragraph("quiet", "This recording was not asked which data was waited for."), loads],
        Some(objects) => {
            let views = ["objects-table", "pairs-table", "lines-table"].map(place);
            views.into_iter().chain([loads, list("notes", objects.remarks.iter())]).collect()
        }
    }
}

/// The machine that was measured, as a heading.
fn whose_machine(page: &RunPage<'_>) -> &'static str {
    if page.import.is_some() { "Its machine" } else { "This machine" }
}

/// The machine's levels, as far as they are known.
fn drawn_levels(page: &RunPage<'_>) -> Vec<Drawn> {
    match (page.profile, &page.findings.limits.levels) {
        (Some(profile), _) => hierarchy::of_profile(profile),
        (None, KnownLimits::Value(levels)) => hierarchy::of_limits(levels),
        (None, KnownLimits::Missing(_)) => Vec::new(),
    }
}

fn machine(page: &RunPage<'_>) -> Vec<Html> {
    let limits = &page.findings.limits;
    let levels = drawn_levels(page);
    let mut sentences = vec![match &limits.streams {
        KnownLimits::Value(streams) => stream_sentence(streams),
        KnownLimits::Missing(reason) => sentence("Bandwidth of the program's streams", reason),
    }];
    if let (None, KnownLimits::Missing(reason)) = (page.profile, &limits.levels) {
        sentences.push(sentence(&format!("{}'s levels", whose_machine(page)), reason));
    }
    sentences.extend(page.surroundings.and_then(surroundings::difference));
    sentences.extend(page.profile.into_iter().flat_map(|profile| profile.remarks.iter().cloned()));
    let drawing = hierarchy::figure(&levels, &nearness(page));
    vec![
        element("div").set("class", "beside").with([drawing, list("notes", sentences)]).end(),
        place("levels-table"),
    ]
}

fn nearness(page: &RunPage<'_>) -> Nearness {
    const MOST_DATA: usize = 3;
    let limits = &page.findings.limits;
    let from_memory = |streams: &&StreamLimit| streams.level.is_none_or(|level| level == WaitLevel::Memory);
    let streams = limits.streams.value().filter(from_memory);
    let bandwidth = streams.and_then(|streams| {
        let limit = streams.limit_bytes_per_s.value()?;
        let together = machine::units::gb_per_s(streams.together_bytes_per_s);
        Some((
            streams.of_limit?,
            format!("program streams {together} of {}", machine::units::gb_per_s(*limit)),
        ))
    });
    let waited_for = page.objects.into_iter().flat_map(|objects| &objects.objects);
    let data = waited_for
        .filter(|object| object.load_waiting.value >= 0.05)
        .filter_map(|object| Some((object.name.clone(), *object.size_bytes.value()?)));
    Nearness {
        bandwidth,
        threads: limits
            .running_threads
            .value()
            .map(|threads| (*threads, page.profile.map(|profile| profile.cpus.len()))),
        data: data.take(MOST_DATA).collect(),
    }
}
