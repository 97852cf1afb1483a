//! What a blocked call is told of the hold in its way.

use super::{answer, in_the_way, refused, secs, send, undeclared};
use crate::ledger::{Ledger, Reason};
use crate::observe::{Facts, Meaning};
use crate::time::Span;

#[test]
fn a_hold_says_why_it_stands() {
    let reason = |ledger: &Ledger, at| in_the_way(ledger, at).map(|(reason, _)| reason);
    let used_up = Facts {
        retry_after: Some(Span::from_secs(60)),
        ..Facts::bare(429, Meaning::QuotaExhausted)
    };
    let overloaded = |wait| Facts {
        retry_after: Some(Span::from_secs(wait)),
        ..Facts::bare(503, Meaning::Overloaded)
    };
    let mut ledger = undeclared();
    let permits = [(); 3].map(|()| send(&mut ledger, secs(10)));
    answer(&mut ledger, secs(10), permits[0], &used_up);
    assert_eq!(reason(&ledger, secs(11)), Some(Reason::Exhausted));
    answer(&mut ledger, secs(11), permits[1], &overloaded(30));
    assert_eq!(
        reason(&ledger, secs(11)),
        Some(Reason::Exhausted),
        "it stands longer"
    );
    answer(&mut ledger, secs(11), permits[2], &overloaded(600));
    assert_eq!(reason(&ledger, secs(11)), Some(Reason::Closed));

    let rate = refused(Span::from_secs(5));
    let mut ledger = undeclared();
    let permit = send(&mut ledger, secs(10));
    answer(&mut ledger, secs(10), permit, &rate);
    assert_eq!(reason(&ledger, secs(11)), Some(Reason::Closed));
}
