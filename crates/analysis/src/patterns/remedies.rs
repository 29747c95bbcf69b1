//! What to try about single waits: sentences of the pattern files.

use super::file::{PatternRemedy, known};
use crate::findings::{Pattern, ThreadActivity};

/// How memory is walked through, as pattern files write it.
pub(crate) type AccessWord = Pattern;

fn remedies() -> impl Iterator<Item = &'static PatternRemedy> {
    known().iter().flat_map(|pattern| &pattern.remedies)
}

/// What to try about waiting of a kind; `place` begins with a blank, or is empty, `more` says how to get more samples.
pub(crate) fn remedy(
    activity: ThreadActivity,
    access: Option<AccessWord>,
    place: &str,
    more: &str,
) -> Option<String> {
    let fits = |wanted: Option<AccessWord>| {
        remedies().find(|remedy| remedy.waits_on == Some(activity) && remedy.access == wanted)
    };
    let found = access.and_then(|access| fits(Some(access))).or_else(|| fits(None))?;
    Some(found.sentence.replace("{more}", more).replace("{place}", place))
}

/// What to try about a line that threads share without need.
pub(crate) fn on_lines(line: u64, object: &str, functions: &str) -> Option<String> {
    let found = remedies().find(|remedy| remedy.waits_on.is_none())?;
    let sentence = found.sentence.replace("{line}", &format!("{line:#x}"));
    Some(sentence.replace("{object}", object).replace("{functions}", functions))
}
