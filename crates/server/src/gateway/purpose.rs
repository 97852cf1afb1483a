//! What a call is for, as far as the transport minds.

use rategov_core::word::Class;

/// What a loss would mean, and so how fresh a connection has to be and whether an
/// answer may be seen before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read or a generation: a loss is repeated, an answer streams on as soon as it
    /// is judged.
    Read,
    /// A write: a loss has to be looked up, the result is stored before anybody sees it.
    Write,
}

impl Purpose {
    /// What a call of this class is for.
    pub fn of(class: Class) -> Purpose {
        if class.is_write() {
            Purpose::Write
        } else {
            Purpose::Read
        }
    }
}
