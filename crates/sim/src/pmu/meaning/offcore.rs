//! Off-core response: a filter over requests and what came back.

use super::file;
use crate::{
    pmu::{recipe::Term, tape::TapeMoment},
    signal::{Number, OffcoreAnswer, OffcoreRequest},
};

/// How the filter's bits are read.
#[derive(Clone, Debug)]
pub(super) struct Offcore {
    codes: Vec<u64>,
    any: u32,
    requests: Vec<(u32, Option<OffcoreRequest>)>,
    answers: Vec<(OffcoreAnswer, u64, u64)>,
}

impl Offcore {
    pub fn new(file: &file::OffcoreEntry) -> Result<Self, String> {
        let mut offcore =
            Self { codes: file.codes.clone(), any: file.any, requests: Vec::new(), answers: Vec::new() };
        for request in &file.requests {
            let named = match &request.is {
                Some(name) => Some(
                    OffcoreRequest::NAMES
                        .iter()
                        .find(|(_, known)| known == name)
                        .map(|(request, _)| *request)
                        .ok_or_else(|| format!("no off-core request '{name}'"))?,
                ),
                None => None,
            };
            offcore.requests.push((request.bit, named));
        }
        for answer in &file.answers {
            let (named, _) = OffcoreAnswer::NAMES
                .iter()
                .find(|(_, known)| *known == answer.is)
                .ok_or_else(|| format!("no off-core answer '{}'", answer.is))?;
            let bits =
                |list: &[u32]| list.iter().fold(0u64, |bits, bit| bits | 1u64.checked_shl(*bit).unwrap_or(0));
            offcore.answers.push((*named, bits(&answer.supplier), bits(&answer.snoop)));
        }
        Ok(offcore)
    }

    /// Whether an event uses the filter.
    pub fn is(&self, code: u64, umask: u64) -> bool {
        self.codes.contains(&code) && umask == 1
    }

    /// What a filter lets through.
    pub fn terms(&self, filter: u64) -> Result<Vec<Term<Number>>, String> {
        let set = |bit: u32| filter.checked_shr(bit).unwrap_or(0) & 1 == 1;
        let any = set(self.any);
        let answers: Vec<OffcoreAnswer> = match any {
            true => OffcoreAnswer::NAMES.iter().map(|(answer, _)| *answer).collect(),
            false => {
                let fits = |(_, supplier, snoop): &&(OffcoreAnswer, u64, u64)| {
                    filter & supplier != 0 && filter & snoop != 0
                };
                self.answers.iter().filter(fits).map(|(answer, ..)| *answer).collect()
            }
        };
        let mut terms = Vec::new();
        let mut unanswered = false;
        for &(_, request) in self.requests.iter().filter(|(bit, _)| set(*bit)) {
            let Some(request) = request else { continue };
            if matches!(request, OffcoreRequest::PrefetchL3 | OffcoreRequest::WriteBack) && !any {
                // No data comes back to the core, so no supplier is ever told.
                unanswered = true;
                continue;
            }
            terms.extend(answers.iter().map(|&answer| Term {
                signal: Number::offcore(request, answer),
                when: TapeMoment::Value,
                weight: 1,
            }));
        }
        match (terms.is_empty(), unanswered, answers.is_empty()) {
            (false, ..) => Ok(terms),
            (_, true, _) => {
                Err("what is asked for brings no data back to the core, so who supplied it is never told; \
                                 ask for any response"
                    .into())
            }
            (_, _, true) => Err(format!("no answer of the simulated machine passes the filter {filter:#x}")),
            _ => Err(format!("the simulated core makes none of the requests in the filter {filter:#x}")),
        }
    }
}
