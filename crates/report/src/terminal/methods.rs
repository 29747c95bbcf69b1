//! Which method answers which question here, as people read it.

use record::methods::{MethodQuestion, MethodState, MethodsAnswer};

use crate::{
    layout::prose::{visible, wrap, wrap_in},
    layout::style::{HEADING, QUIET},
    layout::table::{Cell, Column, Table},
    terminal::trust,
};

/// All questions in at most `columns`.
pub fn text(answer: &MethodsAnswer, columns: usize) -> String {
    let parts: Vec<String> = answer.questions.iter().map(|question| one(question, columns)).collect();
    let source = format!("Trust: {}", trust::source(&answer.validation));
    parts.join("\n") + "\n" + &wrap_in(QUIET, "", &source, columns)
}

fn one(question: &MethodQuestion, columns: usize) -> String {
    let mut out = wrap_in(HEADING, "", &question.words, columns);
    let choice = match question.choice() {
        Some(method) => format!("{}: {}.", method.name, question.because),
        None => format!("No method: {}.", question.because),
    };
    out += &wrap("  ", &choice, columns);
    if let Some(method) = question.choice() {
        out += &wrap("  ", &format!("$ {}", method.command), columns);
        out +=
            &wrap_in(QUIET, "  ", &format!("It sees {}. It costs: {}.", method.sees, method.cost), columns);
    }
    for (name, command) in &question.unlocks {
        out += &wrap("  ", &format!("{name} would be better; it takes: {command}"), columns);
    }
    let mut table = Table::new(vec![
        Column::new("method").left(),
        Column::new("here").left(),
        Column::new("trust").left(),
        Column::new("sees").left().drop_rank(1),
    ]);
    for method in &question.methods {
        let here: Cell = match &method.state {
            MethodState::Allowed => "yes".into(),
            MethodState::Blocked { .. } => "blocked".into(),
            MethodState::Missing { .. } => "no".into(),
        };
        let mark = if Some(&method.key) == question.chosen.as_ref() { "› " } else { "  " };
        table.row(vec![
            format!("{mark}{}", method.name).into(),
            here,
            trust::cell(method.trust.as_ref()),
            method.sees.clone().into(),
        ]);
    }
    out += &table.render(columns).text;
    for method in &question.methods {
        if let MethodState::Blocked { why, .. } | MethodState::Missing { why } = &method.state {
            out += &wrap_in(QUIET, "  ", &format!("{}: {}", method.name, visible(why)), columns);
        }
    }
    out
}
