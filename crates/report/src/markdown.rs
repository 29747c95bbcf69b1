//! For a pull request: Markdown as GitHub and GitLab show it.

mod compare;

pub use compare::compare;
