//! Named points at which a test can kill the process.
//!
//! `RATEGOV_FAIL_POINT=NAME` aborts at the first pass of that point,
//! `RATEGOV_FAIL_POINT=NAME:N` at the N-th. Without the variable, read once, a
//! pass costs one comparison. Aborting runs no destructor and flushes nothing,
//! so what is on the disk is what a kill -9 at that line would leave.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that names the point.
pub const VARIABLE: &str = "RATEGOV_FAIL_POINT";

/// A batch is written but not committed.
pub const BEFORE_COMMIT: &str = "before_commit";
/// A batch is committed; it survives the process but not a loss of power.
pub const AFTER_COMMIT_BEFORE_SYNC: &str = "after_commit_before_sync";
/// A batch is synced; nobody who asked for that was told yet.
pub const AFTER_SYNC_BEFORE_ACK: &str = "after_sync_before_ack";
/// Everybody was told.
pub const AFTER_ACK: &str = "after_ack";

/// The points of the journal's writer, in the order in which a batch passes them.
pub const WRITER_POINTS: [&str; 4] = [
    BEFORE_COMMIT,
    AFTER_COMMIT_BEFORE_SYNC,
    AFTER_SYNC_BEFORE_ACK,
    AFTER_ACK,
];

struct Armed {
    name: String,
    passes_left: AtomicU32,
}

/// Passes a point; does not return if it is the one that was asked for.
pub fn point(name: &str) {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| parse(&text)));
    if let Some(armed) = armed
        && armed.name == name
        && armed.passes_left.fetch_sub(1, Ordering::SeqCst) == 1
    {
        std::process::abort();
    }
}

fn parse(text: &str) -> Armed {
    let (name, passes) = match text.rsplit_once(':') {
        Some((name, n)) => (name, n.parse().unwrap_or(1)),
        None => (text, 1),
    };
    Armed {
        name: name.to_owned(),
        passes_left: AtomicU32::new(passes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_names_a_point_and_a_pass() {
        let armed = parse("before_commit:3");
        assert_eq!(
            (armed.name.as_str(), armed.passes_left.into_inner()),
            ("before_commit", 3)
        );
        let armed = parse("after_ack");
        assert_eq!(
            (armed.name.as_str(), armed.passes_left.into_inner()),
            ("after_ack", 1)
        );
    }
}
