//! The tables that a restart reads, one file a table.
//!
//! Each has the same functions: `read` takes a row apart, `load` finds one by its
//! key, `save` puts it there or over what is there; where a row changes with every
//! call, `insert` puts a new one there and `update` writes what can change. What a row means
//! and how events change it is the core's ([`rategov_core::record`]).

pub(crate) mod action;
pub(crate) mod attempt;
pub(crate) mod escalation;
pub(crate) mod scope;
pub(crate) mod task;

use rategov_core::id::Scope;

use crate::error::Error;

/// Scopes in one column: names hold no control characters, so a line break
/// stands between them.
fn join_scopes(scopes: &[Scope]) -> String {
    scopes
        .iter()
        .map(Scope::as_str)
        .collect::<Vec<_>>()
        .join("\n")
}

fn split_scopes(text: &str) -> Result<Vec<Scope>, Error> {
    text.lines()
        .map(|name| Scope::new(name).map_err(|_| Error::Corrupt("scopes".to_owned())))
        .collect()
}
