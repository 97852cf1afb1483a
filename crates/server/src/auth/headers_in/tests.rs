//! What agents ask for, and what they are told when it can't be meant.

use super::*;
use http::{HeaderName, HeaderValue};
use proptest::prelude::*;

fn headers(pairs: &[(&str, &[u8])]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    map
}

fn asked(pairs: &[(&str, &[u8])]) -> Result<Asked, HeaderProblem> {
    Asked::read(&headers(pairs))
}

#[test]
fn everything_that_can_be_asked_is_understood() {
    let found = asked(&[
        ("rategov-agent", b"sync-bot"),
        ("rategov-task", b"sync-482"),
        ("rategov-goal", "Kunden übertragen".as_bytes()),
        ("rategov-priority", b"background"),
        ("rategov-deadline", b"2.5"),
        ("rategov-class", b"uncertain_write"),
        ("prefer", b"return=minimal, Wait=30; x=1"),
        ("prefer", b"respond-async, wait=99"),
        ("x-stainless-timeout", b"600"),
        ("x-stainless-retry-count", b"2"),
        ("amz-sdk-invocation-id", b"3f2a-1"),
    ])
    .unwrap();
    assert_eq!(
        found,
        Asked {
            agent: Agent::new("sync-bot").ok(),
            task: Task::new("sync-482").ok(),
            goal: Some("Kunden übertragen".to_owned()),
            priority: Some(Priority::Background),
            deadline: Some(Span::from_millis(2_500)),
            class: Some(Class::UncertainWrite),
            wait: Some(Span::from_secs(30)),
            answer: AnswerMode::Async,
            sdk: SdkMarks {
                timeout: Some(Span::from_secs(600)),
                retry: Some(2),
                invocation: Some("3f2a-1".to_owned())
            },
        }
    );
    assert_eq!(asked(&[]), Ok(Asked::default()));
}

#[test]
fn a_value_that_cannot_be_meant_is_refused_by_name() {
    for (name, value) in [
        ("Rategov-Agent", &b"\xc3\xa9"[..]),
        ("Rategov-Task", b""),
        ("Rategov-Priority", b"urgent"),
        ("Rategov-Deadline", b"-1"),
        ("Rategov-Deadline", b"1e3"),
        ("Rategov-Deadline", b"9999999"),
        ("Rategov-Deadline", b"1.1234567"),
        ("Rategov-Class", b"safe"),
        ("Rategov-Goal", b"\xff\xfe"),
        ("Prefer", b"wait=soon"),
        ("Prefer", b"wait"),
    ] {
        let problem = asked(&[(name, value)]).unwrap_err();
        assert_eq!(problem.header, name);
    }
    let twice = asked(&[
        ("rategov-priority", b"normal"),
        ("rategov-priority", b"normal"),
    ]);
    assert_eq!(twice.unwrap_err().cause, "is there twice");
}

#[test]
fn what_belongs_to_others_is_never_refused() {
    let found = asked(&[
        ("prefer", b"\xff, wait=1"),
        ("prefer", b"return=representation; wait"),
        ("x-stainless-timeout", b"NaN"),
        ("x-stainless-retry-count", b"-3"),
        ("amz-sdk-request", b"ttl=x; attempt=2; max=3"),
    ])
    .unwrap();
    assert_eq!(
        found.sdk,
        SdkMarks {
            timeout: None,
            retry: Some(1),
            invocation: None
        }
    );
    assert_eq!(found.wait, None);
}

#[test]
fn a_caller_is_held_for_the_least_of_what_everybody_allows() {
    let hold = Span::from_secs(60);
    let held = |pairs: &[(&str, &[u8])]| asked(pairs).unwrap().held(hold);
    assert_eq!(held(&[]), hold);
    assert_eq!(
        held(&[("prefer", b"wait=90"), ("x-stainless-timeout", b"45")]),
        Span::from_secs(40)
    );
    assert_eq!(held(&[("rategov-deadline", b"7")]), Span::from_secs(7));
    assert_eq!(held(&[("x-stainless-timeout", b"3")]), Span::ZERO);
}

#[test]
fn two_headers_with_one_key_are_one_key() {
    let read = |pairs: &[(&str, &[u8])]| {
        let own = HeaderName::from_static("x-request-key");
        ActionKey::read(&headers(pairs), Some(&own))
            .map(|key| key.map(|key| key.as_str().to_owned()))
    };
    let key = Ok(Some("rec-91f2".to_owned()));
    assert_eq!(read(&[]), Ok(None));
    assert_eq!(read(&[("idempotency-key", b"rec-91f2")]), key);
    assert_eq!(
        read(&[
            ("rategov-action", b"rec-91f2"),
            ("x-request-key", b"rec-91f2")
        ]),
        key
    );
    assert!(read(&[("rategov-action", b"a"), ("idempotency-key", b"b")]).is_err());
    assert!(read(&[("idempotency-key", b"")]).is_err());
    assert!(read(&[("idempotency-key", &[b'x'; 256])]).is_err());
    assert!(read(&[("idempotency-key", b"\xff")]).is_err());
}

proptest! {
    #[test]
    fn no_value_panics_and_no_problem_shows_it(value in prop::collection::vec(any::<u8>(), 0..60)) {
        let Ok(value) = HeaderValue::from_bytes(&value) else { return Ok(()) };
        for name in ["rategov-task", "rategov-goal", "rategov-deadline", "prefer", "amz-sdk-request", "x-stainless-timeout"] {
            let mut map = HeaderMap::new();
            map.insert(name, value.clone());
            let _ = (Asked::read(&map), ActionKey::read(&map, None));
        }
    }
}
