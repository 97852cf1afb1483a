//! What a provider's answers say: header fields and errors.

use rategov_core::observe::dialect::{
    self, Dialect, FieldRule, MessageClock, Place as FieldPlace, Standing, Unit,
};
use rategov_core::observe::{ErrorRule, Reach};

use crate::config::mistake::Collector;
use crate::config::options::{ErrorOptions, FieldOptions, ProviderOptions};
use crate::config::place::Place;
use crate::config::presets::Presets;
use crate::gateway::body_path::BodyPath;

/// Most error rules of one provider.
const ERRORS_MAX: usize = 500;

/// Longest code or message of an error rule, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// The fields: the user's over the preset's, field by field. Whoever writes a row
/// for a header says all about that header.
pub(crate) fn dialect(
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
    let written_over: Vec<FieldPlace> = fields.iter().map(|it| it.place.clone()).collect();
    let known = known
        .iter()
        .filter_map(|options| field(options, Place::nowhere(), out));
    fields.extend(known.filter(|rule| !written_over.contains(&rule.place)));
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
            out.add(place.mark(), format!("a field needs `{key}`\nhint: {hint}"));
        }
    };
    if options.what.is_none() {
        missing("what", "write `what: remaining`", out);
    }
    let at = field_place(options, place, out);
    let what = options.what?.0;
    match (&options.dimension, what.is_of_a_limit()) {
        (Some(_), false) => {
            let cause = format!("`{}` has no dimension\nhint: leave it out", what.word());
            out.add(place.key("dimension").mark(), cause);
        }
        (None, false) | (Some(_), true) => {}
        (None, true) => missing("dimension", "write `dimension: requests`", out),
    }
    if let Some(name) = &options.name
        && !dialect::is_template(name)
    {
        let hint = "hint: write `requests_day`, or `bucket:{x-ratelimit-bucket}`";
        let cause = format!("a limit can't be called so\n{hint}");
        out.add(place.key("name").mark(), cause);
        return None;
    }
    let beside = options.beside.iter().flat_map(|beside| beside.iter());
    Some(FieldRule {
        beside: beside
            .map(|(key, piece)| (key.to_owned(), piece.clone()))
            .collect(),
        key: options.key.clone(),
        dimension: match what.is_of_a_limit() {
            true => options.dimension.clone()?,
            false => String::new(),
        },
        name: options.name.clone(),
        unit: options.unit.map_or(Unit::Auto, |word| word.0),
        reach: options.scope.map_or(Reach::Account, |word| word.0),
        window: options
            .window
            .map(|window| window.0)
            .filter(|window| !window.is_zero()),
        standing: match options.enforced {
            Some(false) => Standing::Announced,
            _ => Standing::Enforced,
        },
        ..FieldRule::new(at?, what)
    })
}

/// Where the value stands: in a header or in the body.
fn field_place(
    options: &FieldOptions,
    place: Place<'_>,
    out: &mut Collector,
) -> Option<FieldPlace> {
    match (&options.header, &options.body) {
        (Some(_), Some(_)) => {
            let cause = "a field is in a `header` or in the `body`, not in both";
            out.add(place.key("body").mark(), cause);
            None
        }
        (Some(header), None) => Some(FieldPlace::header(header)),
        (None, Some(body)) if BodyPath::parse(body).is_none() => {
            let hint = "hint: write `$.error.code` or `$.items[*].status`";
            let cause = format!("this is not a path into a JSON text\n{hint}");
            out.add(place.key("body").mark(), cause);
            None
        }
        (None, Some(body)) => Some(FieldPlace::Body(body.clone())),
        (None, None) => {
            if !place.has("header") && !place.has("body") {
                let hint = "hint: write `header: x-ratelimit-remaining`";
                out.add(
                    place.mark(),
                    format!("a field needs `header` or `body`\n{hint}"),
                );
            }
            None
        }
    }
}

/// The error rules in the order in which they are tried: the user's, the
/// preset's, then those that mean the same everywhere.
pub(crate) fn errors(
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
        rules.extend(rows(options, at.part(index), out));
    }
    let generic = presets
        .get(Presets::GENERIC)
        .filter(|_| preset.is_none_or(|(name, _)| name != Presets::GENERIC));
    for known in preset.map(|(_, preset)| preset).into_iter().chain(generic) {
        let known = known.errors.as_deref().unwrap_or_default();
        rules.extend(
            known
                .iter()
                .flat_map(|options| rows(options, Place::nowhere(), out)),
        );
    }
    rules
}

/// The rules of one row: one for each of its statuses.
fn rows(options: &ErrorOptions, place: Place<'_>, out: &mut Collector) -> Vec<ErrorRule> {
    let Some(rule) = rule(options, place, out) else {
        return Vec::new();
    };
    let with = |status: &u16| ErrorRule {
        status: Some(*status),
        ..rule.clone()
    };
    match &options.status {
        Some(statuses) => statuses.0.iter().map(with).collect(),
        None => vec![rule],
    }
}

fn rule(options: &ErrorOptions, place: Place<'_>, out: &mut Collector) -> Option<ErrorRule> {
    const CONDITIONS: [&str; 8] = [
        "status",
        "code",
        "message",
        "reason",
        "exhausted",
        "limit",
        "wait_from",
        "part",
    ];
    if options.meaning.is_none() && !place.has("meaning") {
        out.add(
            place.mark(),
            "an error rule needs its `meaning`\nhint: write `meaning: rate_limited`",
        );
    }
    for (key, text) in [
        ("code", &options.code),
        ("message", &options.message),
        ("reason", &options.reason),
        ("exhausted", &options.exhausted),
    ] {
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
    let rule = ErrorRule {
        status: None,
        code: options.code.clone(),
        message: options.message.clone(),
        reason: options.reason.clone(),
        exhausted: options.exhausted.clone(),
        limit: options.limit,
        wait_from: options.wait_from.map(|least| least.0),
        part: options.part,
        kind: options.meaning?.0,
        reach: options.scope.map(|word| word.0),
        whose: options.whose.clone(),
        wait: options.wait.map(|wait| wait.0),
        advice: options.advice.map(|word| word.0),
    };
    let asks = rule.asks() || options.status.is_some();
    if !asks && !CONDITIONS.iter().any(|key| place.has(key)) {
        out.add(place.mark(), "an error rule asks for a `status`, a `code`, a `message` or the like: this one would match nothing");
    }
    Some(rule)
}
