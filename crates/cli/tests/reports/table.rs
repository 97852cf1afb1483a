//! The table: each report's id, and how it is covered or why it is not yet.

mod bodies;
mod hints;
mod refusals;
mod seen;
mod sharing;
mod writes;

use crate::cover::Coverage;

/// One row.
pub(crate) type Row = (&'static str, fn() -> Coverage);

/// All rows.
fn rows() -> impl Iterator<Item = &'static Row> {
    [
        hints::ROWS,
        refusals::ROWS,
        writes::ROWS,
        sharing::ROWS,
        bodies::ROWS,
        seen::ROWS,
    ]
    .into_iter()
    .flatten()
}

/// The row of a report.
pub(crate) fn coverage(id: &str) -> Option<Coverage> {
    rows().find(|(own, _)| *own == id).map(|(_, row)| row())
}

/// The ids of all rows.
pub(crate) fn ids() -> Vec<&'static str> {
    rows().map(|(id, _)| *id).collect()
}
