//! What is found, what only looks like it, and what it costs.

use proptest::prelude::*;

use super::super::places::{Leaf, Place};
use super::*;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Heard {
    numbers: Vec<(u16, u64)>,
    text: u64,
}

impl Listener for Heard {
    fn number(&mut self, id: u16, amount: Amount) {
        self.numbers.push((id, amount.whole()));
    }

    fn text(&mut self, bytes: u64) {
        self.text += bytes;
    }
}

fn places() -> Places {
    let mut places = Places::default();
    for (id, text) in ["$.usage.in", "$.list[*].n", "$[*].usage.in"]
        .iter()
        .enumerate()
    {
        places.add(&Place::parse(text).unwrap(), Leaf::Number(id as u16));
    }
    for text in ["$.list[*].text", "$.args"] {
        places.add(&Place::parse(text).unwrap(), Leaf::Text);
    }
    places
}

fn heard(pieces: &[&[u8]]) -> Heard {
    let (mut scan, mut heard) = (Scan::default(), Heard::default());
    let places = places();
    pieces
        .iter()
        .for_each(|piece| scan.feed(&places, piece, &mut heard));
    heard
}

fn check(text: &str, numbers: &[(u16, u64)], bytes: u64) {
    let expected = Heard {
        numbers: numbers.to_vec(),
        text: bytes,
    };
    let text = text.as_bytes();
    for cut in 0..=text.len() {
        let (first, second) = text.split_at(cut);
        assert_eq!(heard(&[first, second]), expected, "cut at {cut}");
    }
    let single: Vec<&[u8]> = text.chunks(1).collect();
    assert_eq!(heard(&single), expected);
}

#[test]
fn values_are_found_at_their_places_however_a_text_is_cut() {
    check(r#"{"usage":{"in":12,"out":3}}"#, &[(0, 12)], 0);
    check(
        r#" { "x" : [ {"in":1} ], "usage" : { "o" : {"in":9}, "in" : 12.0 } } "#,
        &[(0, 12)],
        0,
    );
    check(
        r#"{"list":[{"n":1,"text":"ab"},{"n":2,"text":"c\n\u00e9d"}],"usage":{"in":5}}"#,
        &[(1, 1), (1, 2), (0, 5)],
        2 + 1 + 1 + 3 + 1,
    );
    check(
        r#"[{"usage":{"in":1}},{"usage":{"in":4}}]"#,
        &[(2, 1), (2, 4)],
        0,
    );
    check(
        "{\"usage\":{\"in\":1}}\n{\"usage\":{\"in\":4}}\n",
        &[(0, 1), (0, 4)],
        0,
    );
}

#[test]
fn what_only_looks_like_a_place_is_none() {
    check(r#"{"text":"{\"usage\":{\"in\":12}}"}"#, &[], 0);
    check(r#"{"deep":{"usage":{"in":12}}}"#, &[], 0);
    check(r#"{"usage":[{"in":12}]}"#, &[], 0);
    check(r#"{"usage":{"in":"12"}}"#, &[], 0);
    check(r#"{"us\u0061ge":{"in":12}}"#, &[], 0);
    check(r#"{"usage":{"in":-12}}"#, &[], 0);
}

#[test]
fn all_of_an_object_counts_that_is_text() {
    // All but its opening brace and the closing quotation marks: `"a:[1,"b]}`.
    check(r#"{"args":{"a": [1, "b"]},"x":"y"}"#, &[], 10);
}

#[test]
fn a_number_that_was_cut_off_does_not_count() {
    assert_eq!(heard(&[br#"{"usage":{"in":12"#]), Heard::default());
}

#[test]
fn depth_and_length_cost_nothing_that_grows() {
    let places = places();
    let (mut scan, mut heard) = (Scan::default(), Heard::default());
    for _ in 0..100 {
        scan.feed(&places, &b"[{\"a\":".repeat(10_000), &mut heard);
    }
    scan.feed(&places, b"\"", &mut heard);
    scan.feed(&places, &[b'x'; 100_000], &mut heard);
    assert!(scan.levels.len() <= STEPS_MAX + 1 && scan.token.capacity() < 1_000);
    scan.restart();
    scan.feed(&places, br#"{"usage":{"in":7},"#, &mut heard);
    scan.feed(&places, &[b'9'; 100_000], &mut heard);
    assert_eq!(heard.numbers, [(0, 7)]);
}

proptest! {
    #[test]
    fn any_bytes_in_any_pieces_are_read_the_same(
        pieces in prop::collection::vec(prop_oneof![
            "[\\[\\]{},:\" 0-9a\\\\]{0,8}".prop_map(String::into_bytes),
            Just(br#"{"usage":{"in":1}}"#.to_vec()),
            prop::collection::vec(any::<u8>(), 0..8),
        ], 0..12),
    ) {
        let whole: Vec<u8> = pieces.concat();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        prop_assert_eq!(heard(&pieces), heard(&[&whole]));
    }
}
