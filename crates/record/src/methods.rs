//! Which method answers which question on a machine: what it allows, what earned trust, what would unlock a better one.

use serde::{Deserialize, Serialize};
use trust::{Basis, Standing};

/// Name and version of the form in which it is written as JSON.
pub const SCHEMA: &str = "memwall.methods/1";

/// The result of `memwall methods`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodsAnswer {
    /// [`SCHEMA`].
    pub schema: String,
    /// What the answers are for.
    pub purpose: MethodPurpose,
    /// One for each question.
    pub questions: Vec<MethodQuestion>,
    /// Where trust comes from.
    pub validation: Basis,
}

/// What a measurement is for (helm2019 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodPurpose {
    /// The exact value.
    Exact,
    /// Whether it holds a program back, and where.
    Diagnose,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MethodTopic {
    /// How much memory moves, and whether that is too much.
    Bandwidth,
    /// How long loads wait.
    Latency,
    /// Which code waits.
    Code,
    /// For which data.
    Data,
}

/// A question with all methods that could answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodQuestion {
    /// What is asked.
    pub topic: MethodTopic,
    /// In words.
    pub words: String,
    /// The method to use here, by its key; none if none can be used.
    pub chosen: Option<String>,
    /// Why that one, in a sentence.
    pub because: String,
    /// All there are, best first for this purpose.
    pub methods: Vec<MethodStanding>,
    /// Commands that would allow a better one than the chosen, each with its method's name.
    pub unlocks: Vec<(String, String)>,
}

/// A method on a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MethodStanding {
    /// Stable key for machines, such as `controllers`.
    pub key: String,
    /// For people.
    pub name: String,
    /// Whether it can be used here.
    pub state: MethodState,
    /// What its indicator earned here; none if nobody tried.
    pub trust: Option<Standing>,
    /// What it sees, and what it does not.
    pub sees: String,
    /// What it costs the program, and what it asks of the machine.
    pub cost: String,
    /// What to type.
    pub command: String,
    /// The group that counts it, if events do.
    pub group: Option<String>,
}

/// Whether a method can be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "is")]
pub enum MethodState {
    /// It can.
    Allowed,
    /// A permission or setting keeps it out.
    Blocked {
        /// What is in the way.
        why: String,
        /// The command that would change it, if there is one.
        unlock_with: Option<String>,
    },
    /// The machine does not have what it takes.
    Missing {
        /// What is not there.
        why: String,
    },
}

impl MethodQuestion {
    /// The method to use here.
    pub fn choice(&self) -> Option<&MethodStanding> {
        let chosen = self.chosen.as_ref()?;
        self.methods.iter().find(|method| method.key == *chosen)
    }
}

impl MethodTopic {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [Self::Bandwidth, Self::Latency, Self::Code, Self::Data];
}
