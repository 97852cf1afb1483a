//! Changes of scopes, for whoever listens and for the log.

use rategov_core::id::Account;
use rategov_core::ledger::Change;

/// A change that everybody may hear of.
#[derive(Clone, Debug)]
pub struct Notice {
    /// Whose.
    pub account: Account,
    /// What changed.
    pub change: Change,
}

impl Notice {
    /// Writes to the log what an operator would look for there. The ledger tells of
    /// a header that can't be read once per scope and field (R-LEDGER-4), so this
    /// is one line, however many answers follow.
    pub(super) fn log(&self) {
        let account = &self.account;
        if let Change::Malformed { scope, field } = &self.change {
            tracing::warn!(
                %account,
                %scope,
                header = field.as_str(),
                "a header of the provider's answers can't be read and is ignored"
            );
        }
    }
}
