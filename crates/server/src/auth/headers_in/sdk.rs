//! What SDKs say about themselves without being asked.

use http::HeaderMap;
use rategov_core::time::Span;

use super::seconds;

/// What SDKs say about themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SdkMarks {
    /// How long it will wait for an answer.
    pub timeout: Option<Span>,
    /// Which send of its own this is: 0 for the first, unknown where it doesn't say.
    pub retry: Option<u32>,
    /// What all sends of one call have in common (`amz-sdk-invocation-id`), at most
    /// 100 printable bytes.
    pub invocation: Option<String>,
}

impl SdkMarks {
    pub(super) fn read(headers: &HeaderMap) -> SdkMarks {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let amz = text("amz-sdk-request").and_then(|text| {
            let attempt = text
                .split(';')
                .find_map(|part| part.trim().strip_prefix("attempt="))?;
            attempt.parse::<u32>().ok()?.checked_sub(1)
        });
        SdkMarks {
            timeout: text("x-stainless-timeout").and_then(|text| seconds(text.trim())),
            retry: text("x-stainless-retry-count")
                .and_then(|text| text.trim().parse().ok())
                .or(amz),
            invocation: text("amz-sdk-invocation-id")
                .filter(|id| {
                    (1..=100).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
                })
                .map(str::to_owned),
        }
    }
}
