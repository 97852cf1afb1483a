//! Streams and stored heads: cut into whatever pieces, they mean the same.

use rategov_server::doors;
use rategov_server::gateway::error_body::Look;
use rategov_server::gateway::sse_opening::{Opening, first_error, opening, opening_at_end};

use crate::Target;
use crate::input::{Input, pieces};
use crate::words::{SECRET, shows_secret, speech_of, streams, with_secret};

/// The first event of a stream.
pub(super) const STREAM_OPENING: Target = Target {
    name: "stream_opening",
    holds: "however a stream arrives, its first event decides the same, and a stream that ended is decided",
    check: check_opening,
    seeds: streams,
};

fn check_opening(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let speech = speech_of(input.byte());
    let cuts = input.number();
    let Some(stream) = with_secret(input.rest()) else {
        return;
    };
    let stream = &stream[..stream.len().min(4 << 10)];
    let look = Look {
        dialect: &speech.dialect,
        hidden: &[SECRET],
    };
    let whole = opening(stream, look);
    let mut seen = 0;
    let mut decided = Opening::Undecided;
    for piece in pieces(stream, cuts) {
        seen += piece.len();
        decided = opening(&stream[..seen], look);
        if decided != Opening::Undecided {
            break;
        }
    }
    assert_eq!(decided, whole, "the pieces decide otherwise than the whole");
    let ended = opening_at_end(stream, look);
    assert_ne!(ended, Opening::Undecided);
    if whole != Opening::Undecided {
        assert_eq!(ended, whole, "an end takes nothing back");
    }
    if let Opening::Failed(said) = &ended {
        let error = first_error(stream, look);
        assert!(
            error.is_some(),
            "an error at the beginning is an error of the stream"
        );
        let texts = said
            .error
            .iter()
            .flat_map(|it| [&it.code, &it.kind, &it.message]);
        assert!(!texts.flatten().any(|text| shows_secret(text)));
    }
}

/// An error event further on in a stream.
pub(super) const STREAM_WATCH: Target = Target {
    name: "stream_watch",
    holds: "an error event is seen however the stream is cut, and only in what is an event stream",
    check: check_watch,
    seeds: streams,
};

fn check_watch(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let _ = input.byte();
    let cuts = input.number();
    let stream = input.rest();
    let saw = |kind: &str, pieces: &[&[u8]]| doors::saw_error_event(kind, pieces);
    let whole = saw("text/event-stream", &[stream]);
    assert_eq!(
        saw("text/event-stream; charset=utf-8", &pieces(stream, cuts)),
        whole
    );
    assert!(!saw("text/plain", &[stream]));
    let mut more = b"event: message\ndata: {}\n\n".to_vec();
    more.extend_from_slice(stream);
    assert_eq!(
        saw("text/event-stream", &[&more]),
        whole,
        "what came before doesn't matter"
    );
    more.extend_from_slice(b"\n\ndata: {\"error\": null}\n\n");
    assert_eq!(
        saw("text/event-stream", &[&more]),
        whole,
        "`null` is no error"
    );
    more.extend_from_slice(b"event: error");
    assert!(
        saw("text/event-stream", &[&more]),
        "an error at the end is missed"
    );
}

/// The head of a request as a restart finds it.
pub(super) const STORED_HEAD: Target = Target {
    name: "stored_head",
    holds: "a damaged head is none, and a whole one is stored as it was read",
    check: check_stored_head,
    seeds: || {
        [
            r#"{"method":"POST","target":"/v1/x?y=1","headers":[["content-type",[97,47,98]]],"chunked":false,"has_body":true,"withheld":false}"#,
            r#"{"method":"P\n","target":"http://a@b/","headers":[["",[10]]],"chunked":true,"has_body":false,"withheld":true}"#,
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    },
};

fn check_stored_head(bytes: &[u8]) {
    let bytes = Input::new(bytes).rest();
    if let Some(stored) = doors::stored_head(bytes) {
        assert_eq!(
            doors::stored_head(&stored),
            Some(stored.clone()),
            "stored twice, it differs"
        );
    }
}
