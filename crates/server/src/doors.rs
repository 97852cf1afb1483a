//! Private readers, opened for those who test what they do with hostile input.
//!
//! These readers stand at the edge of the process and are nobody's business inside
//! of it, so they stay private. The crate `rategov-fuzz` feeds them bytes through
//! the functions here, and nothing else may use them. Each hands over what it is
//! given and tells what became of it.

use std::net::SocketAddr;

use http::HeaderMap;

use crate::config::mistake::Mistake;
use crate::raw_head::RawHead;

/// What is wrong with a head that came in pieces: before the HTTP library has read
/// it, and what that let pass.
pub fn head_faults(pieces: &[&[u8]]) -> (Option<&'static str>, Option<&'static str>) {
    let mut head = RawHead::default();
    head.start();
    for piece in pieces {
        head.saw(piece);
    }
    let before = head.fault().map(crate::raw_head::Fault::says);
    (before, head.end().map(crate::raw_head::Fault::says))
}

/// Whether a body of this type, that came in pieces, held an error event.
pub fn saw_error_event(content_type: &str, pieces: &[&[u8]]) -> bool {
    crate::gateway::stream::saw_error_event(content_type, pieces)
}

/// A stored head, read and stored again; `None` if it is damaged.
pub fn stored_head(bytes: &[u8]) -> Option<Vec<u8>> {
    crate::gateway::resume::stored_again(bytes)
}

/// One percent-encoded segment of a path of the agents' interface.
pub fn path_segment(text: &str) -> String {
    crate::agents::decode(text)
}

/// Whether a request comes from a web page that has no business at a listener.
pub fn is_foreign_page(headers: &HeaderMap, listener: SocketAddr) -> bool {
    crate::auth::browser::is_foreign_page(headers, listener)
}

/// What is wrong with the text of a preset.
pub fn preset_mistakes(text: &str) -> Vec<Mistake> {
    crate::config::presets::mistakes_of("preset.yaml", text)
}
