//! The log: its leaves, its export, and that no change of it goes unseen.

use std::sync::LazyLock;

use rategov_audit::base64;
use rategov_audit::chain::{Chain, Content};
use rategov_audit::clear::{Clear, Origin};
use rategov_audit::export::{self, Records};
use rategov_audit::hash::{ContentHash, KeyCommit, LeafHash};
use rategov_audit::leaf::{CLEAR_BYTES_MAX, CONTENT_BYTES_MAX, Leaf, UnixMs};
use rategov_audit::report::{Head, Verdict};
use rategov_audit::verify::{Expect, Record, Unreadable, verify};

use crate::Target;
use crate::input::Input;

/// A log with a record of each shape.
fn log() -> &'static [Record] {
    static LOG: LazyLock<Vec<Record>> = LazyLock::new(|| {
        let origin = Origin::new("rate-governor.local/fuzz/1").expect("an origin");
        let (mut chain, genesis) = Chain::begin(&origin, UnixMs(1_000)).expect("a log begins");
        let mut log = vec![Record {
            leaf: genesis.leaf,
            content: Some(Vec::new()),
        }];
        for n in 1..6_u8 {
            let now = UnixMs(1_000 + u64::from(n));
            let content = vec![n; usize::from(n)];
            let recovery = Clear::Recovery {
                cut_len: 4,
                cut_hash: ContentHash::of(b"torn"),
            };
            let (made, content) = match n {
                2 => (
                    chain.append_clear(now, &Clear::ClockAnomaly { read: UnixMs(3) }),
                    Vec::new(),
                ),
                3 => (chain.append_clear(now, &recovery), Vec::new()),
                4 => (
                    chain.append(now, Content::sealed(&content, KeyCommit([9; 32]))),
                    content,
                ),
                _ => (chain.append(now, Content::in_clear(&content)), content),
            };
            log.push(Record {
                leaf: made.expect("there is room").leaf,
                content: Some(content),
            });
        }
        log
    });
    &LOG
}

fn exported(log: &[Record]) -> Vec<u8> {
    let mut out = Vec::new();
    for record in log {
        export::write(&mut out, &record.leaf, record.content.as_deref()).expect("memory takes it");
    }
    out
}

/// The log's end, as somebody remembers it.
fn head() -> Head {
    let last = log().last().expect("it has a beginning");
    Head {
        size: log().len() as u64,
        hash: LeafHash::of(&last.leaf),
    }
}

/// One leaf.
pub(super) const LEAF: Target = Target {
    name: "leaf",
    holds: "bytes that are a leaf are the only bytes of it, and no length in them is believed beyond its bound",
    check: check_leaf,
    seeds: || log().iter().map(|record| record.leaf.clone()).collect(),
};

fn check_leaf(bytes: &[u8]) {
    let bytes = Input::new(bytes).rest();
    if let Ok(leaf) = Leaf::decode(bytes) {
        assert!(leaf.encode() == bytes, "a second spelling of {leaf:?}");
        assert!(leaf.ct_len as usize <= CONTENT_BYTES_MAX);
        assert!(leaf.clear.as_bytes().len() <= CLEAR_BYTES_MAX);
        if let Some(clear) = Clear::decode(leaf.kind, &leaf.clear) {
            assert_eq!(clear.encode(), leaf.clear, "a second spelling of {clear:?}");
            assert_eq!(clear.kind(), leaf.kind);
        }
        let goes_on = Chain::resume(bytes).is_ok();
        assert!(goes_on, "a log can't go on after {leaf:?}");
    }
    let mut text = String::new();
    base64::encode_into(bytes, &mut text);
    assert_eq!(base64::decode(text.as_bytes()).as_deref(), Ok(bytes));
    if let Ok(plain) = base64::decode(bytes) {
        let mut text = String::new();
        base64::encode_into(&plain, &mut text);
        assert!(text.as_bytes() == bytes, "a second spelling in base64");
    }
}

/// An exported file.
pub(super) const EXPORT: Target = Target {
    name: "export",
    holds: "a line that is read is the only line of its record, however the file is buffered, and what is no line is named",
    check: check_export,
    seeds: || {
        let whole = exported(log());
        let cut = whole[..whole.len() - 9].to_vec();
        let bare = b"{\"leaf\":\"AAAA\"}\n {\"leaf\":\"AAAA\"}\n{\"leaf\":\"AAAA\"} \r\n{\"leaf\":\"\",\"body\":\"\"}\n{}\n\n".to_vec();
        vec![
            [&[0][..], &whole].concat(),
            [&[9][..], &cut].concat(),
            [&[1][..], &bare].concat(),
        ]
    },
};

fn check_export(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let room = usize::from(input.byte()).max(1);
    let file = input.rest();
    let read = |room: usize| -> Vec<Result<Record, Unreadable>> {
        Records::new(std::io::BufReader::with_capacity(room, file)).collect()
    };
    let records = read(64 << 10);
    assert_eq!(
        read(room),
        records,
        "small pieces of a file are another file"
    );
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    assert_eq!(records.len(), lines.len());
    for (record, line) in records.iter().zip(lines) {
        let Ok(record) = record else {
            continue;
        };
        let again = exported(std::slice::from_ref(record));
        let whole = again.strip_suffix(b"\n").unwrap_or(&again);
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        assert!(whole == line, "a second spelling of a record");
    }
    let report = verify(records, &Expect::default());
    assert!(report.records <= file.len() as u64 / 10);
}

/// The verifier, against a log that somebody has changed.
pub(super) const VERIFY: Target = Target {
    name: "verify",
    holds: "a log that was edited, cut, reordered or lengthened is never called intact beside a remembered head",
    check: check_verify,
    seeds: || {
        let edits: [&[u8]; 6] = [
            &[0, 2, 50, 1],
            &[1, 3],
            &[2, 1, 4],
            &[3, 2],
            &[4, 5],
            &[5, 0, 1, 5, 1, 9],
        ];
        edits.iter().map(|edit| edit.to_vec()).collect()
    },
};

fn check_verify(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut changed = log().to_vec();
    for _ in 0..8 {
        if input.rest().is_empty() || changed.is_empty() {
            break;
        }
        let kind = input.byte();
        let at = usize::from(input.byte()) % changed.len();
        match kind % 7 {
            0 => {
                let leaf = &mut changed[at].leaf;
                let place = usize::from(input.byte()) % leaf.len().max(1);
                let mask = input.byte();
                if let Some(byte) = leaf.get_mut(place) {
                    *byte ^= mask;
                }
            }
            1 => drop(changed.remove(at)),
            2 => {
                let other = usize::from(input.byte()) % changed.len();
                changed.swap(at, other);
            }
            3 => changed.insert(at, changed[at].clone()),
            4 => changed.truncate(at),
            5 => {
                let (mask, content) = (input.byte(), &mut changed[at].content);
                if let Some(byte) = content.as_mut().and_then(|it| it.first_mut()) {
                    *byte ^= mask;
                }
            }
            // The log goes on, honestly, after what is its end now.
            _ => {
                let last = changed.last().map(|it| it.leaf.clone()).unwrap_or_default();
                if let Ok(mut chain) = Chain::resume(&last) {
                    let content = [kind; 3];
                    let made = chain.append(UnixMs(9_000), Content::in_clear(&content));
                    changed.extend(made.ok().map(|made| Record {
                        leaf: made.leaf,
                        content: Some(content.to_vec()),
                    }));
                }
            }
        }
    }
    let remembered = Expect {
        anchors: vec![head()],
        ..Expect::default()
    };
    let report = verify(changed.iter().cloned().map(Ok), &remembered);
    // What is behind a remembered head is new, and not a change.
    let is_whole = changed.get(..log().len()) == Some(log());
    if report.verdict() == Verdict::Intact {
        assert!(is_whole, "a changed log is called intact: {report:?}");
        assert_eq!(report.anchored_to, Some(head().size));
    }
    if changed == log() {
        assert_eq!(report.verdict(), Verdict::Intact, "{report:?}");
    }
    // The export says the same of it.
    let file = exported(&changed);
    let from_file = verify(Records::new(&file[..]), &remembered);
    assert_eq!(from_file, report, "the file and the folder differ");
}
