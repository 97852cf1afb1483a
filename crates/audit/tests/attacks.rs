//! What somebody with write access to a log might do, and how it is named.
//!
//! The names T01, T02, … are those of the attack list that the format was
//! designed against; attacks on signed heads, keys and retention come with them.

#![allow(clippy::unwrap_used)]

mod common;

use common::{RECORDS, anchored, head, log, walk};
use proptest::prelude::*;
use rategov_audit::chain::{Chain, Content};
use rategov_audit::clear::Origin;
use rategov_audit::export;
use rategov_audit::finding::Code;
use rategov_audit::hash::{ContentHash, LeafHash};
use rategov_audit::leaf::{FIXED_BYTES, Seq, UnixMs};
use rategov_audit::report::{Head, Verdict};
use rategov_audit::verify::{Expect, Record, Start, verify};

/// Verifies a changed log and compares the code and the place of the finding.
fn check(change: impl FnOnce(&mut Vec<Record>), code: Code, position: u64) {
    let mut log = log("node-a");
    change(&mut log);
    let report = walk(&log, &Expect::default());
    let finding = report.finding.as_ref().expect("the change goes unnoticed");
    assert_eq!(
        (finding.code, finding.position),
        (code, position),
        "{finding}"
    );
    assert_eq!(report.records, position);
}

#[test]
fn t01_a_flipped_bit_in_a_content_is_named_at_its_record() {
    check(
        |log| log[3].content.as_mut().unwrap()[0] ^= 1,
        Code::ContentHash,
        3,
    );
    check(
        |log| log[11].content.as_mut().unwrap()[2] ^= 0x80,
        Code::ContentHash,
        11,
    );
    check(
        |log| log[3].content.as_mut().unwrap().push(b' '),
        Code::ContentLength,
        3,
    );
}

proptest! {
    #[test]
    fn t02_any_flipped_bit_in_any_leaf_is_caught(record in 0..RECORDS, bit in 0usize..40_000) {
        let mut log = log("node-a");
        // Only a remembered head can vouch for the header of the last record.
        let expect = anchored(&[head(&log)]);
        let leaf = &mut log[record].leaf;
        let bit = bit % (leaf.len() * 8);
        leaf[bit / 8] ^= 1 << (bit % 8);
        let report = walk(&log, &expect);
        let finding = report.finding.expect("the flipped bit goes unnoticed");
        let there = finding.position == record as u64 || finding.position == record as u64 + 1;
        prop_assert!(there, "record {}, bit {}: {}", record, bit, finding);
    }

    #[test]
    fn t32_a_file_cut_anywhere_never_panics_and_never_looks_changed(cut in 0usize..10_000) {
        let log = log("node-a");
        let mut file = Vec::new();
        for record in &log {
            export::write(&mut file, &record.leaf, record.content.as_deref()).unwrap();
        }
        let cut = cut % file.len();
        let report = verify(export::Records::new(&file[..cut]), &Expect::default());
        match report.finding {
            None => prop_assert!(file[cut - 1] == b'\n' || file[cut] == b'\n'),
            Some(finding) if cut == 0 => prop_assert_eq!(finding.code, Code::Empty),
            Some(finding) => prop_assert_eq!(finding.code, Code::CrashTail),
        }
        // With the head remembered, the cut is what it is.
        let report = verify(export::Records::new(&file[..cut]), &anchored(&[head(&log)]));
        if cut < file.len() - 1 {
            prop_assert_eq!(report.finding.map(|finding| finding.code), Some(Code::Rollback));
        }
    }

    #[test]
    fn t35_no_bytes_make_the_verifier_panic(
        leaves in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..5),
        after in any::<Option<u64>>(),
    ) {
        let start = match after {
            None => Start::Genesis,
            Some(size) => Start::After {
                head: Head { size, hash: LeafHash::ZERO },
                log_id: Origin::new("x").unwrap().log_id(),
            },
        };
        let log: Vec<Record> =
            leaves.into_iter().map(|leaf| Record { leaf, content: Some(Vec::new()) }).collect();
        let report = walk(&log, &Expect { start, ..Expect::default() });
        prop_assert!(report.finding.is_some());
    }
}

#[test]
fn t02_each_header_field_is_covered() {
    // The first byte of every field, in a record with one after it.
    for offset in [0, 4, 20, 28, 36, 40, 44, 45, 77, 81, 113, 145, FIXED_BYTES] {
        let mut log = log("node-a");
        log[4].leaf[offset] ^= 1;
        assert!(
            walk(&log, &Expect::default()).finding.is_some(),
            "offset {offset}"
        );
    }
}

#[test]
fn t03_a_content_exchanged_with_its_hash_breaks_the_next_link() {
    check(
        |log| {
            log[3].content = Some(b"RECORD 3".to_vec());
            let hash = ContentHash::of(b"RECORD 3");
            log[3].leaf[81..113].copy_from_slice(&hash.0);
        },
        Code::ChainBreak,
        4,
    );
}

#[test]
fn t04_a_rewritten_end_needs_a_remembered_head_to_be_seen() {
    let original = log("node-a");
    let mut rewritten = original[..8].to_vec();
    let mut chain = Chain::resume(&rewritten[7].leaf).unwrap();
    for n in 8..12 {
        let leaf = chain
            .append(UnixMs(2_000 + n), Content::in_clear(b"forged"))
            .unwrap()
            .leaf;
        rewritten.push(Record {
            leaf,
            content: Some(b"forged".to_vec()),
        });
    }
    let blind = walk(&rewritten, &Expect::default());
    assert_eq!(
        (blind.verdict(), blind.anchored_to),
        (Verdict::Intact, None)
    );
    let report = walk(
        &rewritten,
        &anchored(&[head(&original[..5]), head(&original[..10])]),
    );
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::Fork, 9))
    );
    assert_eq!(report.anchored_to, Some(5));
}

#[test]
fn t05_a_deleted_record_is_a_gap_and_renumbering_breaks_the_link() {
    check(|log| drop(log.remove(5)), Code::SeqOrder, 5);
    check(
        |log| {
            log.remove(5);
            for (n, record) in log.iter_mut().enumerate() {
                record.leaf[20..28].copy_from_slice(&(n as u64).to_be_bytes());
            }
        },
        Code::ChainBreak,
        5,
    );
}

#[test]
fn t06_a_log_begins_with_its_own_first_record() {
    check(|log| drop(log.remove(0)), Code::GenesisMismatch, 0);
    // A genesis whose origin is not the one that the log's id was made of.
    check(
        |log| *log[0].leaf.last_mut().unwrap() = b'b',
        Code::GenesisMismatch,
        0,
    );
    // A whole log of another origin, where this one was expected.
    let expect = Expect {
        log_id: Some(Origin::new("node-a").unwrap().log_id()),
        ..Expect::default()
    };
    let report = walk(&log("node-b"), &expect);
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::GenesisMismatch, 0))
    );
}

#[test]
fn t07_t08_t09_a_log_that_ends_before_a_remembered_head_was_rolled_back() {
    let whole = log("node-a");
    let report = walk(&whole[..8], &Expect::default());
    assert_eq!(
        (report.verdict(), report.anchored_to),
        (Verdict::Intact, None)
    );
    let report = walk(&whole[..8], &anchored(&[head(&whole), head(&whole[..4])]));
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::Rollback, 8))
    );
    assert_eq!(report.anchored_to, Some(4));
}

#[test]
fn t10_an_older_copy_that_went_on_is_a_fork() {
    let whole = log("node-a");
    let mut older = whole[..8].to_vec();
    let mut chain = Chain::resume(&older[7].leaf).unwrap();
    for n in 0..6 {
        let leaf = chain
            .append(UnixMs(5_000 + n), Content::in_clear(b"new"))
            .unwrap()
            .leaf;
        older.push(Record {
            leaf,
            content: Some(b"new".to_vec()),
        });
    }
    let report = walk(&older, &anchored(&[head(&whole)]));
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::Fork, 11))
    );
}

#[test]
fn t11_swapped_records_are_out_of_order() {
    check(|log| log.swap(5, 6), Code::SeqOrder, 5);
    check(|log| log[1..].reverse(), Code::SeqOrder, 1);
}

#[test]
fn t12_a_record_played_again_is_a_reuse() {
    check(|log| log.insert(6, log[5].clone()), Code::SeqReuse, 6);
    check(|log| log.push(log[2].clone()), Code::SeqReuse, 12);
    check(|log| log.push(log[0].clone()), Code::SeqReuse, 12);
}

#[test]
fn t13_a_record_of_another_log_is_named() {
    check(
        |log_a| log_a[5] = log("node-b")[5].clone(),
        Code::LogIdMismatch,
        5,
    );
    check(
        |log_a| log_a.insert(5, log("node-b")[5].clone()),
        Code::LogIdMismatch,
        5,
    );
}

#[test]
fn t14_two_records_that_continue_the_same_one_are_a_fork() {
    let twin = |log: &[Record], n: usize| {
        let mut chain = Chain::resume(&log[n - 1].leaf).unwrap();
        let content = Some(b"twin".to_vec());
        let leaf = chain
            .append(UnixMs(9_000), Content::in_clear(b"twin"))
            .unwrap()
            .leaf;
        Record { leaf, content }
    };
    check(|log| log.insert(6, twin(log, 5)), Code::Fork, 6);
    check(|log| log.push(twin(log, 8)), Code::Fork, 12);
}

#[test]
fn an_inserted_record_breaks_the_chain_whatever_number_it_carries() {
    let mut forged = log("node-a")[5].clone();
    forged.leaf[45..77].fill(7);
    check(|log| log.insert(5, forged.clone()), Code::ChainBreak, 5);
    forged.leaf[20..28].copy_from_slice(&6u64.to_be_bytes());
    check(|log| log.insert(6, forged), Code::ChainBreak, 6);
}

#[test]
fn t23_a_pruned_content_is_reported_and_the_chain_still_verifies() {
    let mut log = log("node-a");
    for n in [2, 3, 4, 8] {
        log[n].content = None;
    }
    let report = walk(&log, &Expect::default());
    assert_eq!(report.verdict(), Verdict::Intact);
    assert_eq!(report.pruned, 4);
    assert_eq!(report.pruned_ranges, [(Seq(2), Seq(4)), (Seq(8), Seq(8))]);
}

#[test]
fn t24_a_content_under_another_record_is_not_the_recorded_one() {
    check(
        |log| {
            let other = log[5].content.clone();
            log[6].content = other;
        },
        Code::ContentHash,
        6,
    );
}

#[test]
fn t31_a_time_that_goes_back_is_named() {
    let mut log = log("node-a");
    let earlier = log[10].leaf[28..36].to_vec();
    let mut chain = Chain::resume(&log[11].leaf).unwrap();
    let mut leaf = chain
        .append(UnixMs(9_000), Content::in_clear(b"x"))
        .unwrap()
        .leaf;
    leaf[28..36].copy_from_slice(&earlier);
    log.push(Record {
        leaf,
        content: Some(b"x".to_vec()),
    });
    let report = walk(&log, &Expect::default());
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::TimeOrder, 12))
    );
}

#[test]
fn a_unit_of_retention_never_comes_back() {
    let mut log = log("node-a");
    let mut chain = Chain::resume(&log[11].leaf).unwrap();
    let mut leaf = chain
        .append(UnixMs(9_000), Content::in_clear(b"x"))
        .unwrap()
        .leaf;
    leaf[39] = 2;
    let mut back = Chain::resume(&leaf).unwrap();
    log.push(Record {
        leaf,
        content: None,
    });
    let mut leaf = back
        .append(UnixMs(9_001), Content::in_clear(b"x"))
        .unwrap()
        .leaf;
    leaf[39] = 1;
    log.push(Record {
        leaf,
        content: None,
    });
    let report = walk(&log, &Expect::default());
    assert_eq!(
        report.finding.map(|f| (f.code, f.position)),
        Some((Code::EpochMismatch, 13))
    );
}

#[test]
fn t38_another_version_or_kind_is_never_skipped() {
    check(|log| log[5].leaf[3] = b'0', Code::UnknownVersion, 5);
    check(|log| log[11].leaf[3] = b'2', Code::UnknownVersion, 11);
    check(|log| log[5].leaf[44] = 99, Code::UnknownVersion, 5);
}

#[test]
fn a_leaf_that_is_not_whole_is_a_crash_only_at_the_very_end() {
    for cut in 0..FIXED_BYTES {
        check(|log| log[11].leaf.truncate(cut), Code::CrashTail, 11);
        check(|log| log[5].leaf.truncate(cut), Code::Malformed, 5);
    }
    check(|log| log[11].leaf.push(0), Code::Malformed, 11);
}
