//! The points at which a test can kill a governor: one table of all of them.
//!
//! They follow one write through the process, and each of them lies between two
//! things of which a crash may have done one and not the other. The crash matrix
//! kills a governor at each of them while the provider misbehaves in every way
//! there is, and counts effects in the provider's own ledger.

use rategov_store::fail::{Point, WRITER_POINTS};
pub use rategov_store::fail::{Unknown, VARIABLE, die, is_due, point};

rategov_store::fail_points! {
    /// The points of the server, in the order in which a write passes them.
    SERVER_POINTS {
        RESTART_BEFORE_TAKE_UP = "restart_before_take_up":
            "The store is open and the start is recorded; no engine has seen what was found.";
        RESTART_BEFORE_RECORDS = "restart_before_records":
            "An engine is restored and has decided; none of its records has left it.";
        RESTART_AFTER_TAKE_UP = "restart_after_take_up":
            "Every account is taken up; nobody listens yet.";
        SUBMIT_BEFORE_ENGINE = "submit_before_engine":
            "A call is routed and its body is kept; its engine has not heard of it.";
        SUBMITTED_BEFORE_RUNNER = "submitted_before_runner":
            "The engine knows the call, its records are queued; nobody runs it yet.";
        RECORD_BEFORE_QUEUE = "record_before_queue":
            "An engine has decided; this record of its decision has not entered the journal's queue.";
        GRANT_BEFORE_DIAL = "grant_before_dial":
            "An attempt is granted and durable; there is no connection for it.";
        DIALLED_BEFORE_FIRST_BYTE = "dialled_before_first_byte":
            "There is a connection; no byte of the request was written.";
        FIRST_BYTE_WRITTEN = "first_byte_written":
            "The system has taken bytes of the request; nobody knows how many arrive.";
        HEAD_RECEIVED_BEFORE_REPORT = "head_received_before_report":
            "The head of the answer is here; its body is not read.";
        ANSWER_READ_BEFORE_REPORT = "answer_read_before_report":
            "The whole answer is here; the engine has not heard of it.";
        REPORTED_BEFORE_COMMIT = "reported_before_commit":
            "The engine has judged the attempt; its records are on their way to the disk.";
        WAIT_OVER_BEFORE_ENGINE = "wait_over_before_engine":
            "Something that an engine waits for is due; the engine was not woken.";
        LOOKUP_BEFORE_SEND = "lookup_before_send":
            "A look-up is granted and durable; nothing of it was sent.";
        LOOKUP_ANSWER_BEFORE_REPORT = "lookup_answer_before_report":
            "The look-up is answered; the engine has not heard of it.";
        LOOKUP_REPORTED_BEFORE_COMMIT = "lookup_reported_before_commit":
            "The engine knows what the look-up found; its records are on their way to the disk.";
        DECISION_BEFORE_ENGINE = "decision_before_engine":
            "A person has decided; the engine has not heard of it.";
        DECIDED_BEFORE_COMMIT = "decided_before_commit":
            "The engine has carried the decision out; its records are on their way to the disk.";
        COMMITTED_BEFORE_REPLY = "committed_before_reply":
            "The last word is durable; its caller has not got it.";
        REPLY_HALF_WRITTEN = "reply_half_written":
            "Half of the answer is written to the caller.";
    }
}

/// Every point of the process.
pub const TABLES: [&[Point]; 2] = [SERVER_POINTS, WRITER_POINTS];

/// Refuses a start under a variable that arms nothing.
///
/// # Errors
/// [`Unknown`], which lists the names.
pub fn check() -> Result<(), Unknown> {
    rategov_store::fail::check(&TABLES)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_point_has_a_name_of_its_own_and_a_sentence() {
        let points: Vec<&Point> = TABLES.iter().copied().flatten().collect();
        let names: BTreeSet<&str> = points.iter().map(|point| point.name).collect();
        assert_eq!(names.len(), points.len());
        for point in points {
            let snake = point
                .name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(snake && point.says.ends_with('.'), "{point:?}");
        }
    }
}
