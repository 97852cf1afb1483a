//! What is assumed of a call that no rule matches (R-IDEM-1).
//!
//! | call | class |
//! |---|---|
//! | GET, HEAD, OPTIONS | `read` |
//! | POST to a path that only model inference has | `generation` |
//! | everything else | `uncertain_write` |
//!
//! The list of inference paths is short on purpose. Taking a write for a
//! generation would allow a repeat with an effect, so a path that another kind of
//! API could have isn't on it: `/v1/messages` may send a message, `/completions`
//! may complete a task. Presets name those for the providers where they are known.
//!
//! An unmatched call still needs an endpoint's name, for the breaker, the
//! journal and the metrics. It is the path with what looks like an identifier
//! folded: `GET /users/184467/posts/3f2a…` → `GET /users/{id}/posts/{id}`.

use rategov_core::id::{Endpoint, NAME_BYTES_MAX};
use rategov_core::word::Class;

/// Last segments of paths that only model inference has.
const INFERENCE_ENDS: [&str; 3] = ["/chat/completions", "/embeddings", "/rerank"];

/// Custom methods of Google's model APIs, after the last `:`.
const INFERENCE_VERBS: [&str; 6] = [
    "generateContent",
    "streamGenerateContent",
    "embedContent",
    "batchEmbedContents",
    "countTokens",
    "predict",
];

/// Longest name of an endpoint: its scope, `endpoint:NAME`, is a name as well.
pub const ENDPOINT_BYTES_MAX: usize = NAME_BYTES_MAX - "endpoint:".len();

/// Most segments of a folded name; a longer path is cut there.
const SEGMENTS_MAX: usize = 8;

/// The class of a call that no rule matches.
pub fn class(method: &str, path: &str) -> Class {
    match method {
        "GET" | "HEAD" | "OPTIONS" => Class::Read,
        "POST" if is_inference(path) => Class::Generation,
        _ => Class::UncertainWrite,
    }
}

fn is_inference(path: &str) -> bool {
    let verb = path.rsplit_once(':').map(|(_, verb)| verb);
    INFERENCE_ENDS.iter().any(|end| path.ends_with(end))
        || verb.is_some_and(|verb| INFERENCE_VERBS.contains(&verb))
}

/// The name of a call's endpoint that no rule gives.
pub fn endpoint(method: &str, path: &str) -> Endpoint {
    let mut name = String::from(method);
    name.push(' ');
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/');
    for segment in segments.by_ref().take(SEGMENTS_MAX) {
        name.push('/');
        name.push_str(if is_identifier(segment) {
            "{id}"
        } else {
            segment
        });
    }
    if segments.next().is_some() {
        name.push_str("/*");
    }
    if name.len() > ENDPOINT_BYTES_MAX {
        name = format!("{method} *");
    }
    Endpoint::new(&name)
        .or_else(|_| Endpoint::new("* *"))
        .expect("`* *` is three printable characters, which is what a name needs")
}

/// Whether a segment names one thing among many rather than a kind of thing: a
/// number, a UUID, a long hexadecimal text, anything with an encoded or unusual
/// character, or a long text with digits in it (`r_893k20dk2`).
fn is_identifier(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    let plain = segment
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-_.:".contains(&b));
    let hex = segment.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    // `v1`, `2024-06`, `oauth2` and `chat-gpt4` are kinds; `r_893` and `cus_4fk2` are things.
    let version = segment
        .strip_prefix('v')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()) && rest.len() <= 7);
    let tagged = segment
        .split_once('_')
        .is_some_and(|(_, rest)| rest.bytes().any(|b| b.is_ascii_digit()));
    !segment.is_empty()
        && !version
        && (!plain
            || digits == segment.len()
            || (hex && segment.len() >= 8)
            || tagged
            || (digits >= 3 && segment.len() >= 10)
            || segment.len() > 40)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_path_that_nothing_else_has_is_inference() {
        for (call, expected) in [
            ("GET /anything", Class::Read),
            ("HEAD /anything", Class::Read),
            ("OPTIONS /chat/completions", Class::Read),
            ("POST /v1/chat/completions", Class::Generation),
            ("POST /v1/embeddings", Class::Generation),
            (
                "POST /v1beta/models/gemini-pro:streamGenerateContent",
                Class::Generation,
            ),
            ("POST /v1/messages", Class::UncertainWrite),
            ("POST /tasks/5/completions", Class::UncertainWrite),
            ("PUT /v1/chat/completions", Class::UncertainWrite),
            ("DELETE /records/1", Class::UncertainWrite),
            ("PROPFIND /files", Class::UncertainWrite),
        ] {
            let (method, path) = call.split_once(' ').unwrap();
            assert_eq!(class(method, path), expected, "{call}");
        }
    }

    #[test]
    fn identifiers_fold_so_that_one_endpoint_has_one_name() {
        for (path, expected) in [
            ("/users/184467/posts", "GET /users/{id}/posts"),
            ("/records/r_893", "GET /records/{id}"),
            ("/o/3f2a9c1e-77aa-4b0e-9c1e-0123456789ab", "GET /o/{id}"),
            ("/v1/models/gpt-4o", "GET /v1/models/gpt-4o"),
            ("/v1beta/feed", "GET /v1beta/feed"),
            ("/files/a%20b", "GET /files/{id}"),
            ("", "GET /"),
            (
                "/1/2/3/4/5/6/7/8/9",
                "GET /{id}/{id}/{id}/{id}/{id}/{id}/{id}/{id}/*",
            ),
        ] {
            assert_eq!(endpoint("GET", path).as_str(), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn every_call_has_a_name(method in ".{0,12}", path in ".{0,400}") {
            prop_assert!(!endpoint(&method, &path).as_str().is_empty());
        }
    }
}
