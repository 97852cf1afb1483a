//! The targets, one a reader, in files by the room that the reader is in.

mod answers;
mod audit;
mod bodies;
mod canonical;
mod config;
mod fields;
mod heads;
mod meter;
mod names;
mod paths;
mod queue;
mod record;
mod times;

use crate::Target;

/// Every target.
pub const TARGETS: &[Target] = &[
    times::RETRY_AFTER,
    times::UNITS,
    fields::RATELIMIT,
    fields::DIALECTS,
    answers::ANSWER,
    answers::ERROR_BODY,
    bodies::STREAM_OPENING,
    bodies::STREAM_WATCH,
    bodies::STORED_HEAD,
    meter::DECODE,
    meter::SIZER,
    meter::TAP,
    canonical::CANONICAL,
    canonical::FINGERPRINT,
    paths::BODY_PATHS,
    paths::TEMPLATES,
    paths::LOOKUP,
    paths::DESTINATION,
    paths::TARGET,
    heads::TO_PROVIDER,
    heads::TO_CALLER,
    heads::RAW_HEAD,
    heads::ASKED,
    heads::DOORS,
    config::CONFIG,
    config::PRESET,
    config::UNITS,
    names::NAMES,
    record::RECORD,
    audit::LEAF,
    audit::EXPORT,
    audit::VERIFY,
    queue::QUEUE,
];
