//! What a call is for, as far as the transport minds.

use rategov_core::word::Class;

/// What a loss would mean, and so how fresh a connection has to be and whether an
/// answer may be seen before it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A read or a generation: a loss is repeated, an answer streams on as soon as it
    /// is judged.
    Read,
    /// A write, or a call whose result is fetched later: the result is stored before
    /// anybody sees it.
    Write,
}

impl Purpose {
    /// What a call of this class is for. One that goes on without its caller is
    /// treated like a write: its result has to be kept until it is fetched.
    pub fn of(class: Class, detached: bool) -> Purpose {
        if class.is_write() || detached {
            Purpose::Write
        } else {
            Purpose::Read
        }
    }
}
