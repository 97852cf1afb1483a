//! Named points at which a test can kill the process.
//!
//! `RATEGOV_FAIL_POINT=NAME` kills it at the first pass of that point,
//! `RATEGOV_FAIL_POINT=NAME:N` at the N-th. It is a kill -9, sent to itself: no
//! destructor runs, nothing is flushed, and no memory is dumped to a file. What
//! is on the disk then is what any sudden end at that line would leave.
//!
//! A crate declares its points with [`fail_points!`](crate::fail_points), each
//! with a sentence on what has happened when it is passed and what has not; the
//! store's are below. A name that is in no such table must refuse the start
//! ([`check`]): a test that arms a point which does not exist proves nothing.
//!
//! Without the variable, which is read once, a pass costs one comparison.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The variable that names the point.
pub const VARIABLE: &str = "RATEGOV_FAIL_POINT";

/// One point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name, as the variable gives it.
    pub name: &'static str,
    /// What has happened when it is passed, and what has not.
    pub says: &'static str,
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Declares points and the table that lists them in the same order.
#[macro_export]
macro_rules! fail_points {
    (
        $(#[$about:meta])*
        $table:ident {
            $($point:ident = $name:literal : $says:literal;)*
        }
    ) => {
        $(
            #[doc = $says]
            pub const $point: $crate::fail::Point =
                $crate::fail::Point { name: $name, says: $says };
        )*
        $(#[$about])*
        pub const $table: &[$crate::fail::Point] = &[$($point),*];
    };
}

fail_points! {
    /// The points of the journal's writer, in the order in which a batch passes them.
    WRITER_POINTS {
        BEFORE_COMMIT = "before_commit":
            "A batch is written but not committed.";
        AFTER_COMMIT_BEFORE_SYNC = "after_commit_before_sync":
            "A batch is committed; it survives the process but not a loss of power.";
        AFTER_SYNC_BEFORE_ACK = "after_sync_before_ack":
            "A batch is synced; nobody who asked for that was told yet.";
        AFTER_ACK = "after_ack":
            "Everybody who waited for the sync was told.";
    }
}

/// The variable arms no point that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    text: String,
    known: Vec<&'static str>,
}

impl fmt::Display for Unknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{VARIABLE} is {:?}, which arms no fail point\n\
             hint: unset it, or write NAME or NAME:N with N from 1; the names are {}",
            self.text,
            self.known.join(", ")
        )
    }
}

impl std::error::Error for Unknown {}

/// Whether the variable, if it is set, arms a point of one of these tables.
///
/// # Errors
/// [`Unknown`], which lists the names.
pub fn check(tables: &[&[Point]]) -> Result<(), Unknown> {
    let Some(text) = std::env::var_os(VARIABLE) else {
        return Ok(());
    };
    let text = text.to_string_lossy().into_owned();
    let known: Vec<&'static str> = tables
        .iter()
        .flat_map(|table| table.iter().map(|point| point.name))
        .collect();
    match Armed::parse(&text) {
        Some(armed) if known.contains(&armed.name.as_str()) => Ok(()),
        _ => Err(Unknown { text, known }),
    }
}

/// Passes a point; does not return if it is the one that was armed.
pub fn point(point: Point) {
    if is_due(point) {
        die();
    }
}

/// Counts a pass of a point, and says whether it is the armed one: for a place
/// that must first do half of something and then [`die`].
pub fn is_due(point: Point) -> bool {
    static ARMED: OnceLock<Option<Armed>> = OnceLock::new();
    let armed = ARMED.get_or_init(|| Armed::parse(&std::env::var(VARIABLE).ok()?));
    armed.as_ref().is_some_and(|armed| armed.counts_down(point))
}

/// Kills the process.
pub fn die() -> ! {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    // The signal is on its way to every thread; this one does nothing more.
    loop {
        std::thread::park();
    }
}

struct Armed {
    name: String,
    passes_left: AtomicU32,
}

impl Armed {
    /// `NAME` or `NAME:N`.
    fn parse(text: &str) -> Option<Armed> {
        let (name, passes) = match text.split_once(':') {
            Some((name, passes)) => (name, passes.parse().ok().filter(|passes| *passes > 0)?),
            None => (text, 1),
        };
        Some(Armed {
            name: name.to_owned(),
            passes_left: AtomicU32::new(passes),
        })
    }

    /// Whether this pass is the one.
    fn counts_down(&self, point: Point) -> bool {
        self.name == point.name && self.passes_left.fetch_sub(1, Ordering::SeqCst) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of five passes of `before_commit` kills.
    fn check_passes(text: &str, expected: Option<usize>) {
        let armed = Armed::parse(text);
        let due = (1..=5).find(|_| {
            armed
                .as_ref()
                .is_some_and(|armed| armed.counts_down(BEFORE_COMMIT))
        });
        assert_eq!(due, expected, "{text:?}");
    }

    #[test]
    fn the_variable_names_a_point_and_a_pass() {
        check_passes("before_commit", Some(1));
        check_passes("before_commit:3", Some(3));
        check_passes("before_commit:9", None);
        check_passes("after_ack:1", None);
    }

    #[test]
    fn what_is_no_point_and_no_pass_arms_nothing() {
        for text in [
            "before_commit:0",
            "before_commit:",
            "before_commit:x",
            ":1",
            "",
        ] {
            check_passes(text, None);
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_exist() {
        let unknown = Unknown {
            text: "befor_commit".to_owned(),
            known: WRITER_POINTS.iter().map(|point| point.name).collect(),
        };
        let text = unknown.to_string();
        assert!(
            text.starts_with("RATEGOV_FAIL_POINT is \"befor_commit\""),
            "{text}"
        );
        assert!(text.ends_with(
            "before_commit, after_commit_before_sync, after_sync_before_ack, after_ack"
        ));
    }
}
