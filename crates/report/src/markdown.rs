//! For a pull request: Markdown as GitHub and GitLab show it.

mod compare;
mod reproduce;

pub use compare::compare;
pub use reproduce::{matrix, reproduce};
