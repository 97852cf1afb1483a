//! The key that an agent gives its action.

use http::{HeaderMap, HeaderName, HeaderValue};

use super::HeaderProblem;

/// Longest key of an action, in bytes.
pub const KEY_BYTES_MAX: usize = 255;

/// The key of an action: the same key is the same operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActionKey(String);

impl ActionKey {
    /// The key as it was sent, quotes included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that an agent sent, in `Rategov-Action`, in `Idempotency-Key` or in
    /// the header of the endpoint.
    ///
    /// # Errors
    /// If it can't be a key, or two headers hold different keys.
    pub fn read(
        headers: &HeaderMap,
        endpoint_header: Option<&HeaderName>,
    ) -> Result<Option<ActionKey>, HeaderProblem> {
        let usual = ["rategov-action", "idempotency-key"];
        let names = usual
            .into_iter()
            .chain(endpoint_header.map(HeaderName::as_str));
        let mut found: Option<&HeaderValue> = None;
        for name in names {
            for value in headers.get_all(name) {
                let length = value.len();
                let printable = value.as_bytes().iter().all(|b| (b' '..=b'~').contains(b));
                if length == 0 || length > KEY_BYTES_MAX || !printable {
                    return Err(HeaderProblem {
                        header: name.to_owned(),
                        cause: "is no key of an action",
                        hint: "send 1 to 255 printable ASCII characters, a UUID for example",
                    });
                }
                if found.is_some_and(|other| other != value) {
                    return Err(HeaderProblem {
                        header: name.to_owned(),
                        cause: "holds another key than a second header of this request",
                        hint: "`Rategov-Action` and `Idempotency-Key` name the same operation; send one of them",
                    });
                }
                found = Some(value);
            }
        }
        Ok(found
            .and_then(|value| value.to_str().ok())
            .map(|key| ActionKey(key.to_owned())))
    }
}
