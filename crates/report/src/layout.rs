//! What the forms share: how numbers, ages and sentences are written, and how tables and curves are laid out.

pub mod age;
pub mod change;
pub mod conditions;
pub mod figures;
pub mod held;
pub mod hybrid;
pub mod plot;
pub mod prose;
pub mod series;
pub mod signature;
pub mod style;
pub mod surroundings;
pub mod table;
pub mod views;
