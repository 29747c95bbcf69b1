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

/// Events by where their names come from; those that cannot be counted say why, those that were judged how far they can
/// be believed.
pub fn text(instrument: &str, offers: &[Listed], basis: &Basis, columns: usize) -> String {
    let mut out = String::new();
    for (origin, heading) in [
        ("group", "Groups: 'memwall count -g NAME'"),
        ("catalogue", "Events of this microarchitecture"),
        ("sysfs", "Events that the kernel's PMU drivers list"),
        ("kernel", "Events of the kernel"),
    ] {
        let rows: Vec<&Listed> = offers.iter().filter(|(offer, _)| offer.origin == origin).collect();
        if !rows.is_empty() {
            out += &wrap_in(HEADING, "", heading, columns);
            out.extend(rows.iter().map(|listed| row(listed, columns)));
            out.push('\n');
        }
    }
    let others =
        offers.iter().filter(|(offer, _)| !["group", "catalogue", "sysfs", "kernel"].contains(&offer.origin));
    let others: Vec<&Listed> = others.collect();
    if !others.is_empty() {
        out += &wrap_in(HEADING, "", "Others", columns);
        out.extend(others.iter().map(|listed| row(listed, columns)));
        out.push('\n');
    }
    let events = offers.iter().filter(|(offer, _)| offer.origin != "group");
    let standings = events.map(|(_, standing)| standing.as_ref());
    out + &wrap_in(QUIET, "", &summary(instrument, offers), columns)
        + &wrap_in(QUIET, "", &trust::tally(standings, basis), columns)
}

fn row((offer, standing): &Listed, columns: usize) -> String {
    let mut out = format!("  {}\n", paint(HEADING, &visible(&offer.name)));
    if !offer.summary.is_empty() {
        out += &wrap("      ", &visible(&offer.summary), columns);
    }
    if let Some(words) = standing.as_ref().and_then(trust::line) {
        out += &wrap_in(QUIET, "      ", &words, columns);
    }
    if let Some(reason) = &offer.refused {
        out += &wrap_in(WARNING, "      ", &format!("not here: {reason}"), columns);
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
