//! A log to attack, and how it is verified.

#![allow(dead_code, clippy::unwrap_used)]

use rategov_audit::chain::{Chain, Content};
use rategov_audit::clear::{Clear, Origin};
use rategov_audit::hash::{ContentHash, KeyCommit, LeafHash};
use rategov_audit::leaf::UnixMs;
use rategov_audit::report::{Head, Report};
use rategov_audit::verify::{Expect, Record, verify};

pub(crate) const RECORDS: usize = 12;

/// A log of twelve records, with a clock anomaly, a recovery and a sealed content.
pub(crate) fn log(origin: &str) -> Vec<Record> {
    let origin = Origin::new(origin).unwrap();
    let (mut chain, genesis) = Chain::begin(&origin, UnixMs(1_000)).unwrap();
    let mut log = vec![Record {
        leaf: genesis.leaf,
        content: Some(Vec::new()),
    }];
    for n in 1..RECORDS as u64 {
        let now = UnixMs(1_000 + 10 * n);
        let content = format!("record {n}").into_bytes();
        let appended = match n {
            4 => chain.append_clear(now, &Clear::ClockAnomaly { read: UnixMs(3) }),
            7 => {
                let cut_hash = ContentHash::of(b"torn");
                chain.append_clear(
                    now,
                    &Clear::Recovery {
                        cut_len: 4,
                        cut_hash,
                    },
                )
            }
            9 => chain.append(now, Content::sealed(&content, KeyCommit([9; 32]))),
            _ => chain.append(now, Content::in_clear(&content)),
        };
        let content = if n == 4 || n == 7 {
            Vec::new()
        } else {
            content
        };
        log.push(Record {
            leaf: appended.unwrap().leaf,
            content: Some(content),
        });
    }
    log
}

pub(crate) fn head(log: &[Record]) -> Head {
    Head {
        size: log.len() as u64,
        hash: LeafHash::of(&log.last().unwrap().leaf),
    }
}

pub(crate) fn anchored(heads: &[Head]) -> Expect {
    Expect {
        anchors: heads.to_vec(),
        ..Expect::default()
    }
}

pub(crate) fn walk(log: &[Record], expect: &Expect) -> Report {
    verify(log.iter().cloned().map(Ok), expect)
}
