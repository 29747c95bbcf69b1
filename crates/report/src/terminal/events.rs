//! What can be counted, as people read it.

use ::trust::{Basis, Standing};
use events::Offer;

use crate::{
    layout::prose::{counted, visible, wrap, wrap_in},
    layout::style::{HEADING, QUIET, WARNING, paint},
    terminal::trust,
};

/// One that is offered, and how far it can be believed.
type Listed = (Offer, Option<Standing>);

/// Of events that cannot be counted for one reason, more than these are named only.
const FEW: usize = 8;

/// Where names come from, and how that is headed; others are last.
const ORIGINS: [(&str, &str); 4] = [
    ("group", "Groups: 'memwall count -g NAME'"),
    ("catalogue", "Events of this microarchitecture"),
    ("sysfs", "Events that the kernel's PMU drivers list"),
    ("kernel", "Events of the kernel"),
];

/// Events that can be counted by where their names come from, with how far they can be believed; then those that cannot,
/// each reason once.
pub fn text(instrument: &str, offers: &[Listed], basis: &Basis, columns: usize) -> String {
    let is_known = |origin: &str| ORIGINS.iter().any(|(known, _)| *known == origin);
    let heading = |offer: &Offer| match ORIGINS.iter().find(|(origin, _)| *origin == offer.origin) {
        Some((_, heading)) => *heading,
        None => "Others",
    };
    let mut out = String::new();
    // Groups are short and need events of their own: what is counted by name comes first.
    let kernel_first = ["kernel", "sysfs", "catalogue", "group"];
    let mut part = |is_wanted: &dyn Fn(&Offer) -> bool| {
        let rows: Vec<&Listed> =
            offers.iter().filter(|(offer, _)| offer.refused.is_none() && is_wanted(offer)).collect();
        if let Some((first, _)) = rows.first() {
            out += &wrap_in(HEADING, "", heading(first), columns);
            out.extend(rows.iter().map(|listed| row(listed, columns)));
            out.push('\n');
        }
    };
    kernel_first.iter().for_each(|origin| part(&|offer| offer.origin == *origin));
    part(&|offer| !is_known(offer.origin));
    out += &refused(offers, columns);
    let events = offers.iter().filter(|(offer, _)| offer.origin != "group");
    let standings = events.map(|(_, standing)| standing.as_ref());
    out + &wrap_in(QUIET, "", &summary(instrument, offers), columns)
        + &wrap_in(QUIET, "", &trust::tally(standings, basis), columns)
}

/// What cannot be counted, by reason, the one with most events first.
fn refused(offers: &[Listed], columns: usize) -> String {
    let mut reasons: Vec<(&str, Vec<&Listed>)> = Vec::new();
    for listed in offers {
        let Some(reason) = &listed.0.refused else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, events)) => events.push(listed),
            None => reasons.push((reason, vec![listed])),
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    reasons.sort_by_key(|(_, events)| std::cmp::Reverse(events.len()));
    let mut out = wrap_in(HEADING, "", "Cannot be counted here", columns);
    for (reason, events) in reasons {
        let line = format!("{}: {}", counted(events.len(), "event"), visible(reason));
        out += &wrap_in(WARNING, "  ", &line, columns);
        if events.len() <= FEW {
            out.extend(events.iter().map(|listed| row(listed, columns)));
        } else {
            let names: Vec<String> = events.iter().map(|(offer, _)| visible(&offer.name)).collect();
            out += &wrap("      ", &names.join(", "), columns);
        }
    }
    out.push('\n');
    out
}

fn row((offer, standing): &Listed, columns: usize) -> String {
    let mut out = format!("  {}\n", paint(HEADING, &visible(&offer.name)));
    if !offer.summary.is_empty() {
        out += &wrap("      ", &visible(&offer.summary), columns);
    }
    if let Some(words) = standing.as_ref().and_then(trust::line) {
        out += &wrap_in(QUIET, "      ", &words, columns);
    }
    out
}

fn summary(instrument: &str, offers: &[Listed]) -> String {
    let events = offers.iter().filter(|(offer, _)| offer.origin != "group");
    let refused = events.clone().filter(|(offer, _)| offer.refused.is_some()).count();
    let all = events.count();
    match refused {
        0 => format!("{instrument}: {}", counted(all, "event")),
        _ => format!("{instrument}: {}, of which {refused} cannot be counted here", counted(all, "event")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_counted_comes_first_and_a_reason_once() {
        let offer = |name: String, refused: Option<&str>| {
            let summary = format!("what {name} counts");
            (Offer { name, summary, origin: "catalogue", refused: refused.map(str::to_owned) }, None)
        };
        let mut offers: Vec<Listed> =
            (0..20).map(|index| offer(format!("EVENT_{index}"), Some("this machine has no PMU"))).collect();
        offers.push(offer("page-faults".to_owned(), None));
        let basis = Basis::Missing { reason: "nobody validated".to_owned() };
        let text = anstream::adapter::strip_str(&text("perf_event", &offers, &basis, 80)).to_string();
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
        assert!(at("page-faults") < at("EVENT_0"), "{text}");
        assert_eq!(text.matches("this machine has no PMU").count(), 1, "{text}");
        assert!(text.contains("20 events: this machine has no PMU") && text.contains("EVENT_19"), "{text}");
    }
}
