//! Walking a log that nobody touched, whole or from a trusted head on.

#![allow(clippy::unwrap_used)]

mod common;

use common::{anchored, head, log, walk};
use rategov_audit::clear::Origin;
use rategov_audit::export;
use rategov_audit::finding::Code;
use rategov_audit::leaf::{Leaf, UnixMs};
use rategov_audit::report::Verdict;
use rategov_audit::verify::{Expect, Record, Start, Verifier};

#[test]
fn an_untouched_log_is_intact_and_not_anchored() {
    let log = log("node-a");
    let report = walk(&log, &Expect::default());
    assert_eq!(report.verdict(), Verdict::Intact);
    assert_eq!((report.records, report.in_clear, report.pruned), (12, 8, 0));
    assert_eq!(report.head, Some(head(&log)));
    assert_eq!(report.period, Some((UnixMs(1_000), UnixMs(1_110))));
    assert_eq!(report.anchored_to, None);
    assert!(report.to_string().contains("not anchored"));
}

#[test]
fn an_empty_input_is_no_clean_verdict() {
    let report = walk(&[], &Expect::default());
    assert_eq!(report.verdict(), Verdict::Unverifiable);
    assert_eq!(report.verdict().exit_code(), 3);
}

#[test]
fn a_walk_can_begin_after_a_trusted_head() {
    let log = log("node-a");
    let log_id = Origin::new("node-a").unwrap().log_id();
    let start = Start::After {
        head: head(&log[..6]),
        log_id,
    };
    let expect = Expect {
        start,
        ..anchored(&[head(&log)])
    };
    let report = walk(&log[6..], &expect);
    assert_eq!((report.verdict(), report.records), (Verdict::Intact, 6));
    assert_eq!(
        (report.head, report.anchored_to),
        (Some(head(&log)), Some(12))
    );
    let report = walk(&log[7..], &expect);
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::SeqOrder, 0))
    );
}

#[test]
fn what_follows_the_first_bad_record_is_not_looked_at() {
    let log = log("node-a");
    let mut verifier = Verifier::new(&Expect::default());
    assert!(verifier.push(&log[0].leaf, Some(b"")));
    assert!(!verifier.push(&log[2].leaf, None));
    assert!(!verifier.push(&log[1].leaf, None));
    let report = verifier.finish();
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::SeqOrder, 1))
    );
}

#[test]
fn a_leaf_reads_back_from_an_export_as_it_was_stored() {
    let log = log("node-a");
    let mut file = Vec::new();
    for record in &log {
        export::write(&mut file, &record.leaf, record.content.as_deref()).unwrap();
    }
    let back: Vec<Record> = export::Records::new(&file[..])
        .map(|record| record.unwrap())
        .collect();
    assert_eq!(back, log);
    assert!(back.iter().all(|record| Leaf::decode(&record.leaf).is_ok()));
}
