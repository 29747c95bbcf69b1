//! Who is who in a recording: rows of its tables, each with a type of its own. Names, numbers of threads and paths of
//! files may stand for several; these never do.

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// Of the row at an index of its table.
            pub fn of(index: usize) -> Self {
                // A recording numbers its rows with 32 bits.
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            /// Where in its table.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                u32::column_result(value).map(Self)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }
    };
}

id! {
    /// A process among [`Run::processes`](crate::run::Run::processes). Another one may have had the same number before.
    ProcessId
}
id! {
    /// A thread among [`Run::threads`](crate::run::Run::threads). Another one may have had the same number before.
    ThreadId
}
id! {
    /// A module among [`Run::modules`](crate::run::Run::modules). A file that was built anew is another module.
    ModuleId
}
id! {
    /// A function among [`Run::functions`](crate::run::Run::functions). Others may have the same name.
    FunctionId
}
id! {
    /// A place among [`Run::places`](crate::run::Run::places).
    PlaceId
}
