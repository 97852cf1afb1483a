//! Endpoints: what a call is, and what is promised about its repeats.

use std::sync::Arc;

use http::HeaderName;
use rategov_core::cost::{Cost, Dimension};
use rategov_core::id::Endpoint;
use rategov_core::policy::{Idempotency, Lookup, Profile, Stores};
use rategov_core::time::Span;
use rategov_core::word::Class;

use super::{above_zero, provider};
use crate::config::mistake::Collector;
use crate::config::options::{EndpointOptions, IdempotencyOptions, ReconcileOptions, StoresWord};
use crate::config::place::Place;
use crate::config::units::SpanText;
use crate::route::json_path::JsonPath;
use crate::route::lookup::{ReconcilePlan, RequestTemplate, Value};
use crate::route::template::Template;
use crate::route::{EndpointRule, RULES_MAX, Rule, fallback};

pub(super) fn endpoints(
    written: &[EndpointOptions],
    place: Place<'_>,
    unmatched: &Profile,
    out: &mut Collector,
) -> Vec<EndpointRule> {
    if written.len() > RULES_MAX {
        out.add(
            place.mark(),
            format!("a provider has at most {RULES_MAX} endpoints"),
        );
    }
    let mut rules: Vec<EndpointRule> = Vec::new();
    for (index, options) in written.iter().take(RULES_MAX).enumerate() {
        let at = place.part(index);
        let Some(rule) = endpoint(options, at, unmatched, out) else {
            continue;
        };
        if rules
            .iter()
            .any(|other| other.template.same_calls(&rule.template))
        {
            out.add(
                at.key("match").mark(),
                format!(
                    "`{}` is described twice\nhint: keep one of them",
                    rule.template
                ),
            );
            continue;
        }
        rules.push(rule);
    }
    rules
}

fn endpoint(
    options: &EndpointOptions,
    place: Place<'_>,
    unmatched: &Profile,
    out: &mut Collector,
) -> Option<EndpointRule> {
    let template = match &options.matches {
        Some(text) => Template::parse(text)
            .map_err(|cause| out.add(place.key("match").mark(), cause))
            .ok(),
        None => {
            if !place.has("match") {
                out.add(
                    place.mark(),
                    "an endpoint needs `match`\nhint: write `match: GET /records/{id}`",
                );
            }
            None
        }
    };
    let class = class(options, template.as_ref(), place, out);
    let path = |text: &Option<String>, key: &str, out: &mut Collector| {
        let text = text.as_deref()?;
        JsonPath::parse(text)
            .map_err(|cause| out.add(place.key(key).mark(), cause))
            .ok()
    };
    let operation_id = path(&options.operation_id, "operation_id", out);
    let external_ref = path(&options.external_ref, "external_ref", out);
    let (idempotency_header, idempotency) =
        idempotency(options.idempotency.as_ref(), place.key("idempotency"), out);
    let (reconcile, lookup) = reconcile(options, template.as_ref(), place.key("reconcile"), out);
    let refusals_unprocessed = match &options.refusals_unprocessed {
        Some(statuses) => provider::refusals(Some(statuses), place, out),
        None => unmatched.refusals_unprocessed.clone(),
    };
    if let Some(class) = class {
        contradictions(options, class, template.as_ref(), place, out);
    }
    let template = template?;
    let rule = Rule {
        class: class?,
        profile: Arc::new(Profile {
            idempotency,
            lookup,
            refusals_unprocessed,
            absent_is_success: options.absent_is_success.unwrap_or(false),
            hold_after_uncertain: positive(options.hold_after_uncertain).unwrap_or(Span::ZERO),
        }),
        idempotency_header,
        operation_id,
        external_ref,
        reconcile,
        cost: cost(options, place, out),
        coalesce: positive(options.coalesce),
    };
    if template.as_str().len() > fallback::ENDPOINT_BYTES_MAX {
        let most = fallback::ENDPOINT_BYTES_MAX;
        out.add(
            place.key("match").mark(),
            format!(
                "an endpoint has at most {most} bytes\nhint: a last `*` matches all that follows"
            ),
        );
        return None;
    }
    match Endpoint::new(template.as_str()) {
        Ok(endpoint) => Some(EndpointRule {
            template,
            endpoint,
            rule: Arc::new(rule),
        }),
        Err(error) => {
            out.add(place.key("match").mark(), error.to_string());
            None
        }
    }
}

fn positive(span: Option<SpanText>) -> Option<Span> {
    span.map(|span| span.0).filter(|span| !span.is_zero())
}

/// The class as written, else what follows from a key, else that of any unmatched call.
fn class(
    options: &EndpointOptions,
    template: Option<&Template>,
    place: Place<'_>,
    out: &mut Collector,
) -> Option<Class> {
    if let Some(word) = options.class {
        return Some(word.0);
    }
    if options.idempotency.is_some() {
        return Some(Class::IdempotentWrite);
    }
    let template = template?;
    match template.method() {
        Some(method) => {
            let path = template
                .as_str()
                .split_once(' ')
                .map_or("", |(_, path)| path);
            Some(fallback::class(method, path))
        }
        None => {
            if !place.has("class") {
                out.add(place.mark(), "an endpoint for every method needs its `class`\nhint: `uncertain_write` is safe for all");
            }
            None
        }
    }
}

/// What can't be meant together.
fn contradictions(
    options: &EndpointOptions,
    class: Class,
    template: Option<&Template>,
    place: Place<'_>,
    out: &mut Collector,
) {
    let method = template.and_then(Template::method);
    let keyless = options.idempotency.is_none() && !place.has("idempotency");
    if class == Class::IdempotentWrite && keyless && matches!(method, Some("POST" | "PATCH")) {
        out.add(
            place.key("class").mark(),
            "nothing makes this write repeatable: it has no `idempotency`\nhint: add `idempotency: { header: Idempotency-Key, lifetime: 24h }`, or write `class: uncertain_write`",
        );
    }
    if class != Class::IdempotentWrite && options.idempotency.is_some() {
        out.add(
            place.key("idempotency").mark(),
            format!("a call of class `{class}` has no key\nhint: write `class: idempotent_write`, or leave `idempotency` out"),
        );
    }
    if !class.is_write() {
        for (key, written) in [
            ("reconcile", options.reconcile.is_some()),
            (
                "hold_after_uncertain",
                positive(options.hold_after_uncertain).is_some(),
            ),
            ("absent_is_success", options.absent_is_success == Some(true)),
        ] {
            if written {
                out.add(
                    place.key(key).mark(),
                    format!("`{key}` is for writes, and this is of class `{class}`"),
                );
            }
        }
    }
    if class != Class::Read && positive(options.coalesce).is_some() {
        out.add(
            place.key("coalesce").mark(),
            format!("only reads can be shared, and this is of class `{class}`"),
        );
    }
    if options.absent_is_success == Some(true) && class.is_write() && method != Some("DELETE") {
        out.add(
            place.key("absent_is_success").mark(),
            "\"already absent\" is success only for DELETE",
        );
    }
}

fn idempotency(
    options: Option<&IdempotencyOptions>,
    place: Place<'_>,
    out: &mut Collector,
) -> (Option<HeaderName>, Option<Idempotency>) {
    let Some(options) = options else {
        return (None, None);
    };
    let text = options.header.as_deref().unwrap_or("Idempotency-Key");
    let header = HeaderName::from_bytes(text.as_bytes());
    if header.is_err() {
        out.add(
            place.key("header").mark(),
            "this is not the name of a header\nhint: write `Idempotency-Key`",
        );
    }
    if options.lifetime.is_none() && !place.has("lifetime") {
        out.add(place.mark(), "a key needs its `lifetime`, after which the provider forgets it\nhint: the provider's documentation says it, often `lifetime: 24h`");
    }
    for (key, status) in [
        ("in_progress", options.in_progress),
        ("mismatch", options.mismatch),
    ] {
        if status.is_some_and(|status| !(400..=499).contains(&status)) {
            out.add(
                place.key(key).mark(),
                "this is the status of a refusal, 400 to 499",
            );
        }
    }
    if options.in_progress.is_some() && options.in_progress == options.mismatch {
        out.add(place.key("mismatch").mark(), "one status can't mean both `in_progress` and `mismatch`\nhint: leave out the one that the provider doesn't document");
    }
    let default = Span::from_secs(24 * 3600);
    let idempotency = Idempotency {
        lifetime: above_zero(options.lifetime, default, place.key("lifetime"), out),
        // Where nobody says, a stored failure must be assumed: repeating would replay it.
        stores: match options.stores.unwrap_or(StoresWord::All) {
            StoresWord::All => Stores::All,
            StoresWord::Successes => Stores::Successes,
            StoresWord::Definite => Stores::Definite,
        },
        in_progress: options.in_progress,
        mismatch: options.mismatch,
    };
    (header.ok(), Some(idempotency))
}

fn reconcile(
    endpoint: &EndpointOptions,
    template: Option<&Template>,
    place: Place<'_>,
    out: &mut Collector,
) -> (Option<ReconcilePlan>, Option<Lookup>) {
    let Some(options): Option<&ReconcileOptions> = endpoint.reconcile.as_ref() else {
        return (None, None);
    };
    let names: Vec<&str> = template.map(|it| it.names().collect()).unwrap_or_default();
    let request = match &options.request {
        Some(text) => RequestTemplate::parse(text, &names)
            .map_err(|cause| out.add(place.key("request").mark(), cause))
            .ok(),
        None => {
            if !place.has("request") {
                out.add(place.mark(), "a look-up needs its `request`\nhint: write `request: GET /records?key={idempotency_key}`");
            }
            None
        }
    };
    let found = match &options.found {
        Some(text) => JsonPath::parse(text)
            .map_err(|cause| out.add(place.key("found").mark(), cause))
            .ok(),
        None => {
            if !place.has("found") {
                out.add(place.mark(), "a look-up needs `found`, where its answer shows the operation\nhint: write `found: $.items[0].id`");
            }
            None
        }
    };
    for value in request.iter().flat_map(RequestTemplate::values) {
        let missing = match value {
            Value::IdempotencyKey if endpoint.idempotency.is_none() => "idempotency",
            Value::OperationId if endpoint.operation_id.is_none() => "operation_id",
            Value::ExternalRef if endpoint.external_ref.is_none() => "external_ref",
            _ => continue,
        };
        out.add(
            place.key("request").mark(),
            format!("`{{{}}}` is never known here: the endpoint has no `{missing}`\nhint: add `{missing}`, or ask in another way", value.word()),
        );
    }
    let max_lookups = options.max_lookups.unwrap_or(10);
    if max_lookups == 0 {
        out.add(
            place.key("max_lookups").mark(),
            "a look-up that is never made finds nothing\nhint: leave `reconcile` out instead",
        );
    }
    let span = |value: Option<SpanText>, default: u64| {
        value.map_or_else(|| Span::from_secs(default), |span| span.0)
    };
    let lookup = Lookup {
        authoritative: options.authoritative.unwrap_or(false),
        // Where nobody says, "not found" must wait long enough to be worth something.
        settle: span(options.settle, 5),
        max_in_flight: span(options.max_in_flight, 60),
        max_lookups: max_lookups.max(1),
    };
    match (request, found) {
        (Some(request), Some(found)) => (Some(ReconcilePlan::new(request, found)), Some(lookup)),
        _ => (None, None),
    }
}

fn cost(options: &EndpointOptions, place: Place<'_>, out: &mut Collector) -> Cost {
    let at = place.key("cost");
    let Some(cost) = &options.cost else {
        return Cost::ONE;
    };
    if cost.requests == Some(0) {
        out.add(
            at.key("requests").mark(),
            "every call costs at least one request",
        );
    }
    if cost
        .spend
        .is_some_and(|spend| !(spend >= 0.0 && spend.is_finite()))
    {
        out.add(at.key("spend").mark(), "a cost is not negative");
    }
    // A float to an integer saturates, and what is no number was told already.
    let spend = (cost.spend.unwrap_or(0.0).max(0.0) * 1e6).round() as u64;
    Cost::requests(cost.requests.unwrap_or(1).max(1))
        .with(Dimension::Tokens, cost.tokens.unwrap_or(0))
        .with(Dimension::Points, cost.points.unwrap_or(0))
        .with(Dimension::Spend, spend)
}
