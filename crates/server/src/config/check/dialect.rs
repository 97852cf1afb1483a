//! What a provider's answers say: header fields and errors.

use rategov_core::observe::dialect::{Dialect, FieldRule, MessageClock, Unit, What};
use rategov_core::observe::{ErrorRule, Reach};

use crate::config::mistake::Collector;
use crate::config::options::{ErrorOptions, FieldOptions, ProviderOptions};
use crate::config::place::Place;
use crate::config::presets::Presets;

/// Most error rules of one provider.
const ERRORS_MAX: usize = 500;

/// Longest code or message of an error rule, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// The header fields: the user's over the preset's, field by field.
pub(super) fn dialect(
    written: &ProviderOptions,
    preset: Option<&ProviderOptions>,
    place: Place<'_>,
    out: &mut Collector,
) -> Dialect {
    let at = place.key("fields");
    let own = written.fields.as_deref().unwrap_or_default();
    let own = own.iter().enumerate();
    let mut fields: Vec<FieldRule> = own
        .filter_map(|(index, options)| field(options, at.part(index), out))
        .collect();
    let known = preset
        .and_then(|preset| preset.fields.as_deref())
        .unwrap_or_default();
    for options in known {
        let rule = field(options, Place::nowhere(), out);
        fields.extend(rule.filter(|rule| fields.iter().all(|it| it.header != rule.header)));
    }
    let clock = written.message_clock.or_else(|| preset?.message_clock);
    let clock = clock.map_or(MessageClock::Unknown, |word| word.0);
    Dialect::new(fields, clock).unwrap_or_else(|error| {
        out.add(
            at.mark(),
            error.to_string().replace("\n  hint: ", "\nhint: "),
        );
        Dialect::new(Vec::new(), clock).expect("no fields break no rule of a dialect")
    })
}

fn field(options: &FieldOptions, place: Place<'_>, out: &mut Collector) -> Option<FieldRule> {
    let missing = |key: &str, hint: &str, out: &mut Collector| {
        if !place.has(key) {
            out.add(
                place.mark(),
                format!("a header field needs `{key}`\nhint: {hint}"),
            );
        }
    };
    if options.header.is_none() {
        missing("header", "write `header: x-ratelimit-remaining`", out);
    }
    if options.what.is_none() {
        missing("what", "write `what: remaining`", out);
    }
    let what = options.what?.0;
    match (&options.dimension, what) {
        (Some(_), What::Retry) => {
            out.add(
                place.key("dimension").mark(),
                "a wait has no dimension\nhint: leave it out",
            );
        }
        (None, What::Retry) | (Some(_), _) => {}
        (None, _) => missing("dimension", "write `dimension: requests`", out),
    }
    Some(FieldRule {
        header: options.header.as_ref()?.to_ascii_lowercase(),
        dimension: match what {
            What::Retry => String::new(),
            _ => options.dimension.clone()?,
        },
        what,
        unit: options.unit.map_or(Unit::Auto, |word| word.0),
        reach: options.scope.map_or(Reach::Account, |word| word.0),
        window: options
            .window
            .map(|window| window.0)
            .filter(|window| !window.is_zero()),
    })
}

/// The error rules in the order in which they are tried: the user's, the
/// preset's, then those that mean the same everywhere.
pub(super) fn errors(
    written: &ProviderOptions,
    preset: Option<(&str, &ProviderOptions)>,
    presets: &Presets,
    place: Place<'_>,
    out: &mut Collector,
) -> Vec<ErrorRule> {
    let at = place.key("errors");
    let own = written.errors.as_deref().unwrap_or_default();
    if own.len() > ERRORS_MAX {
        out.add(
            at.mark(),
            format!("a provider has at most {ERRORS_MAX} error rules"),
        );
    }
    let mut rules: Vec<ErrorRule> = Vec::new();
    for (index, options) in own.iter().take(ERRORS_MAX).enumerate() {
        rules.extend(rule(options, at.part(index), out));
    }
    let generic = presets
        .get(Presets::GENERIC)
        .filter(|_| preset.is_none_or(|(name, _)| name != Presets::GENERIC));
    for known in preset.map(|(_, preset)| preset).into_iter().chain(generic) {
        let known = known.errors.as_deref().unwrap_or_default();
        rules.extend(
            known
                .iter()
                .filter_map(|options| rule(options, Place::nowhere(), out)),
        );
    }
    rules
}

fn rule(options: &ErrorOptions, place: Place<'_>, out: &mut Collector) -> Option<ErrorRule> {
    if options.meaning.is_none() && !place.has("meaning") {
        out.add(
            place.mark(),
            "an error rule needs its `meaning`\nhint: write `meaning: rate_limited`",
        );
    }
    for (key, text) in [("code", &options.code), ("message", &options.message)] {
        if text
            .as_ref()
            .is_some_and(|text| text.is_empty() || text.len() > TEXT_BYTES_MAX)
        {
            out.add(
                place.key(key).mark(),
                format!("this is from 1 to {TEXT_BYTES_MAX} bytes long"),
            );
        }
    }
    if options
        .status
        .is_some_and(|status| !(200..=599).contains(&status))
    {
        out.add(
            place.key("status").mark(),
            "this is not the status of an answer",
        );
    }
    let rule = ErrorRule {
        status: options.status,
        code: options.code.clone(),
        message: options.message.clone(),
        meaning: options.meaning?.0,
        reach: options.scope.map(|word| word.0),
        wait: options.wait.map(|wait| wait.0),
    };
    if !rule.asks()
        && !["status", "code", "message"]
            .iter()
            .any(|key| place.has(key))
    {
        out.add(place.mark(), "an error rule asks for a `status`, a `code` or a `message`: this one would match nothing");
    }
    Some(rule)
}
