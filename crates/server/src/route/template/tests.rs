//! What a template matches, and which of several wins.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(template: &str, call: &str, expected: Option<&[(&str, &str)]>) {
    let (method, path) = call.split_once(' ').unwrap();
    let found = Template::parse(template).unwrap().matches(method, path);
    let expected = expected.map(|pairs| {
        pairs
            .iter()
            .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
            .collect::<Vec<_>>()
    });
    assert_eq!(found, expected, "{template} against {call}");
}

#[test]
fn a_name_is_one_segment_and_keeps_its_encoding() {
    check(
        "GET /records/{id}",
        "GET /records/r_1",
        Some(&[("id", "r_1")]),
    );
    check(
        "GET /records/{id}",
        "GET /records/a%2Fb",
        Some(&[("id", "a%2Fb")]),
    );
    check("GET /records/{id}", "GET /records/a/b", None);
    check("GET /records/{id}", "GET /records/", None);
    check("GET /records/{id}", "POST /records/r_1", None);
    check("GET /records", "GET /records/", None);
}

#[test]
fn a_name_may_be_the_middle_of_a_segment() {
    let template = "POST /v1beta/models/{model}:generateContent";
    check(
        template,
        "POST /v1beta/models/gemini:generateContent",
        Some(&[("model", "gemini")]),
    );
    check(template, "POST /v1beta/models/:generateContent", None);
    check(template, "POST /v1beta/models/gemini:countTokens", None);
}

#[test]
fn a_star_is_one_segment_and_a_last_star_the_rest() {
    check("GET /a/*/c", "GET /a/b/c", Some(&[]));
    check("GET /a/*", "GET /a/b/c", Some(&[]));
    check("GET /a/*", "GET /a", None);
    check("* *", "DELETE /", Some(&[]));
    check("* *", "PATCH ", Some(&[]));
}

#[test]
fn another_spelling_of_a_path_does_not_dodge_a_rule() {
    check("POST /invites", "POST /%69nvites", Some(&[]));
    check("POST /invites", "POST /invites%2F", None);
    check("POST /invites", "POST /invite%", None);
    check("POST /a/b", "POST /a%2Fb", None);
    check("GET /a%20b", "GET /a%20b", Some(&[]));
}

#[test]
fn a_part_of_a_segment_is_found_in_any_spelling() {
    let template = "POST /models/{model}:generateContent";
    let found = Some(&[("model", "g%2F1")][..]);
    check(template, "POST /models/g%2F1:generateContent", found);
    check(template, "POST /models/g%2F1%3Agenerate%43ontent", found);
    check(template, "POST /models/%3AgenerateContent", None);
    check(template, "POST /models/g%3AgenerateContent%", None);
    check("GET /x-{id}", "GET /%78-\u{e9}", Some(&[("id", "\u{e9}")]));
}

#[test]
fn the_more_specific_template_ranks_first() {
    let ordered = [
        "GET /records/latest",
        "* /records/latest",
        "GET /records/x-{id}",
        "GET /records/{id}",
        "GET /records/*",
        "GET *",
        "* *",
    ];
    for pair in ordered.windows(2) {
        let rank = |text: &str| Template::parse(text).unwrap().specificity();
        assert!(
            rank(pair[0]) < rank(pair[1]),
            "{} before {}",
            pair[0],
            pair[1]
        );
    }
}

#[test]
fn templates_that_cannot_be_meant_are_refused() {
    for text in [
        "",
        "GET",
        "/records",
        "get /records",
        "GET records",
        "GET /a?b=c",
        "GET /a/../b",
        "GET /{}",
        "GET /{a}{b}",
        "GET /{a",
        "GET /a}",
        "GET /a b",
        "GET /{x}/{x}",
        "GET /a*",
        "G3T /a",
        "GET /é",
    ] {
        assert!(Template::parse(text).is_err(), "{text}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_a_template_panic(text in ".{0,80}", path in ".{0,80}") {
        if let Ok(template) = Template::parse(&text) {
            let _ = template.matches("GET", &path);
            prop_assert_eq!(Template::parse(template.as_str()), Ok(template));
        }
    }

    #[test]
    fn a_literal_template_matches_itself_however_encoded(
        word in "[a-z0-9_.~-]{1,12}", mask in any::<u16>(),
    ) {
        prop_assume!(word != "." && word != "..");
        let encoded: String = word.bytes().enumerate().map(|(index, byte)| {
            if mask >> (index % 16) & 1 == 1 { format!("%{byte:02X}") } else { char::from(byte).to_string() }
        }).collect();
        let template = Template::parse(&format!("GET /{word}")).unwrap();
        let path = format!("/{encoded}");
        prop_assert!(template.matches("GET", &path).is_some());
    }
}
