//! What a payload and a result look like before they are sealed.
//!
//! ```text
//! payload = head_len u32 | head | body
//! result  = status u16 | count u16 | count * (name_len u16 | name | value_len u32 | value) | body
//! ```
//!
//! Lengths are big-endian and checked against what is there.

use rategov_core::id::ActionId;

use crate::entry::{Payload, StoredResult};

pub(crate) fn pack_payload(payload: &Payload) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(4 + payload.head.len() + payload.body.len() + 40);
    out.extend_from_slice(&u32::try_from(payload.head.len()).ok()?.to_be_bytes());
    out.extend_from_slice(&payload.head);
    out.extend_from_slice(&payload.body);
    Some(out)
}

pub(crate) fn unpack_payload(action: ActionId, bytes: &[u8]) -> Option<Payload> {
    let mut rest = bytes;
    let len = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
    let head = take(&mut rest, usize::try_from(len).ok()?)?.to_vec();
    Some(Payload {
        action,
        head,
        body: rest.to_vec(),
    })
}

pub(crate) fn pack_result(result: &StoredResult) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(result.body.len() + 1_024);
    out.extend_from_slice(&result.status.to_be_bytes());
    out.extend_from_slice(&u16::try_from(result.headers.len()).ok()?.to_be_bytes());
    for (name, value) in &result.headers {
        out.extend_from_slice(&u16::try_from(name.len()).ok()?.to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(&u32::try_from(value.len()).ok()?.to_be_bytes());
        out.extend_from_slice(value);
    }
    out.extend_from_slice(&result.body);
    Some(out)
}

pub(crate) fn unpack_result(action: ActionId, bytes: &[u8]) -> Option<StoredResult> {
    let mut rest = bytes;
    let status = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
    let count = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
    let mut headers = Vec::new();
    for _ in 0..count {
        let len = u16::from_be_bytes(take(&mut rest, 2)?.try_into().ok()?);
        let name = std::str::from_utf8(take(&mut rest, usize::from(len))?)
            .ok()?
            .to_owned();
        let len = u32::from_be_bytes(take(&mut rest, 4)?.try_into().ok()?);
        headers.push((name, take(&mut rest, usize::try_from(len).ok()?)?.to_vec()));
    }
    Some(StoredResult {
        action,
        status,
        headers,
        body: rest.to_vec(),
    })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(len)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ACTION: ActionId = ActionId(1);

    proptest! {
        #[test]
        fn a_payload_and_a_result_read_back(
            head in prop::collection::vec(any::<u8>(), 0..50),
            body in prop::collection::vec(any::<u8>(), 0..50),
            headers in prop::collection::vec(
                ("[a-z-]{0,9}", prop::collection::vec(any::<u8>(), 0..9)),
                0..5,
            ),
            status: u16,
        ) {
            let payload = Payload { action: ACTION, head, body: body.clone() };
            let bytes = pack_payload(&payload).unwrap();
            prop_assert!(unpack_payload(ACTION, &bytes) == Some(payload));
            let result = StoredResult { action: ACTION, status, headers, body };
            let bytes = pack_result(&result).unwrap();
            prop_assert!(unpack_result(ACTION, &bytes) == Some(result));
        }

        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = unpack_payload(ACTION, &bytes);
            let _ = unpack_result(ACTION, &bytes);
        }
    }

    #[test]
    fn a_length_beyond_what_is_there_is_refused() {
        assert!(unpack_payload(ACTION, &[0xff; 12]).is_none());
        assert!(unpack_result(ACTION, &[0, 200, 0xff, 0xff, 0, 0]).is_none());
    }
}
