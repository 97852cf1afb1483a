//! What is known of a provider, fact by fact, each with where it comes from.
//!
//! A preset is data for the program; this is the same data for people. What
//! nobody documents stays unknown and says so.

use super::options::{
    AskedWord, ChargeOptions, ChargingWord, CountingWord, EndpointOptions, ErrorOptions,
    FieldOptions, IdempotencyOptions, ProviderOptions, SizingOptions, SourceOptions, ToldWord,
    UsageOptions,
};
use super::units::SpanText;

/// One thing that is known of a provider, or known to be unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fact {
    /// `provider`, `endpoint`, `field`, `error`, `request`, `usage` or `charge`.
    pub topic: &'static str,
    /// What it is about: `base_url`, `POST /v1/messages`, a header, what an error asks for.
    pub about: String,
    /// What is known; `None`: nothing.
    pub value: Option<String>,
    /// Where it was read.
    pub source: Option<Source>,
}

/// Where a fact was read, and when last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The address.
    pub url: String,
    /// The day, `2026-11-29`.
    pub verified_on: String,
}

/// Every fact of a provider's options. Cost: linear in them.
pub fn facts(options: &ProviderOptions) -> Vec<Fact> {
    let sources = Sources(options);
    let mut facts = single(options, sources);
    let endpoints = options.endpoints.iter().flatten();
    facts.extend(endpoints.map(|it| endpoint(it, sources)));
    facts.extend(options.fields.iter().flatten().map(|it| field(it, sources)));
    facts.extend(options.errors.iter().flatten().map(|it| error(it, sources)));
    let sizing = options.sizing.iter().flatten();
    facts.extend(sizing.map(|it| asked(it, sources)));
    facts.extend(options.usage.iter().flatten().map(|it| told(it, sources)));
    facts.extend(options.charge.iter().flat_map(|it| charged(it, sources)));
    facts
}

/// The sources of a provider's facts, by their names.
#[derive(Clone, Copy)]
struct Sources<'o>(&'o ProviderOptions);

impl Sources<'_> {
    fn named(self, name: Option<&str>) -> Option<Source> {
        let known = self.0.sources.as_ref()?.get(name?)?;
        let SourceOptions { url, verified_on } = known;
        Some(Source {
            url: url.clone()?,
            verified_on: verified_on.clone()?,
        })
    }

    /// The source of a single-valued key.
    fn of_key(self, key: &str) -> Option<Source> {
        let name = self.0.facts.as_ref()?.get(key)?;
        self.named(Some(name))
    }
}

fn single(options: &ProviderOptions, sources: Sources<'_>) -> Vec<Fact> {
    let list = |values: &Option<Vec<String>>| values.as_ref().map(|values| values.join(", "));
    let statuses = options.refusals_unprocessed.as_ref().map(|statuses| {
        let statuses: Vec<String> = statuses.iter().map(u16::to_string).collect();
        statuses.join(", ")
    });
    let scheme = options.credential_scheme.as_ref();
    let scheme = scheme.map(|word| match word.as_str() {
        "" => "none".to_owned(),
        word => word.to_owned(),
    });
    let rows = [
        ("base_url", options.base_url.clone()),
        ("path_prefix", options.path_prefix.clone()),
        ("credential_header", options.credential_header.clone()),
        ("credential_scheme", scheme),
        ("identity_headers", list(&options.identity_headers)),
        ("refusals_unprocessed", statuses),
        ("whose", options.whose.clone()),
    ];
    let mut facts: Vec<Fact> = rows
        .into_iter()
        .map(|(key, value)| Fact {
            topic: "provider",
            about: key.to_owned(),
            value,
            source: sources.of_key(key),
        })
        .collect();
    let sdk = options.sdk.iter();
    let variables = sdk.flat_map(|sdk| sdk.base_url.iter().flatten());
    facts.extend(variables.map(|it| Fact {
        topic: "provider",
        about: "sdk variable".to_owned(),
        value: it.variable.clone(),
        source: sources.named(it.source.as_deref()),
    }));
    facts
}

fn endpoint(options: &EndpointOptions, sources: Sources<'_>) -> Fact {
    let mut value = Parts::default();
    value.add("", options.class.map(|class| class.0.word()));
    if let Some(IdempotencyOptions {
        header, lifetime, ..
    }) = &options.idempotency
    {
        value.add("key in ", header.as_deref());
        value.add("remembered ", lifetime.map(span).as_deref());
    }
    value.add("operation id ", options.operation_id.as_deref());
    let look_up = options.reconcile.as_ref();
    value.add("look-up ", look_up.and_then(|it| it.request.as_deref()));
    Fact {
        topic: "endpoint",
        about: options.matches.clone().unwrap_or_default(),
        value: value.text(),
        source: sources.named(options.source.as_deref()),
    }
}

fn field(options: &FieldOptions, sources: Sources<'_>) -> Fact {
    let mut about = options.header.clone().or_else(|| options.body.clone());
    if let (Some(about), Some(key)) = (&mut about, &options.key) {
        about.push_str(&format!(" ({key}=)"));
    }
    let mut value = Parts::default();
    value.add("", options.what.map(|what| what.0.word()));
    value.add("of ", options.dimension.as_deref());
    value.add("called ", options.name.as_deref());
    value.add("as ", options.unit.map(|unit| unit.0.word()));
    value.add("of the ", options.scope.map(|scope| scope.0.word()));
    value.add("in ", options.window.map(span).as_deref());
    value.add(
        "",
        (options.enforced == Some(false)).then_some("not enforced"),
    );
    Fact {
        topic: "field",
        about: about.unwrap_or_default(),
        value: value.text(),
        source: sources.named(options.source.as_deref()),
    }
}

fn error(options: &ErrorOptions, sources: Sources<'_>) -> Fact {
    let mut about = Parts::default();
    let statuses = options.status.iter().flat_map(|statuses| &statuses.0);
    let statuses: Vec<String> = statuses.map(u16::to_string).collect();
    about.add(
        "",
        Some(&*statuses.join(" or ")).filter(|it| !it.is_empty()),
    );
    about.add("code ", options.code.as_deref());
    about.add("reason ", options.reason.as_deref());
    about.add(
        "“",
        options
            .message
            .as_ref()
            .map(|it| format!("{it}”"))
            .as_deref(),
    );
    about.add("nothing left of ", options.exhausted.as_deref());
    about.add("limit ", options.limit.map(|it| it.to_string()).as_deref());
    about.add("a wait from ", options.wait_from.map(span).as_deref());
    about.add(
        "a member with ",
        options.part.map(|it| it.to_string()).as_deref(),
    );
    let mut value = Parts::default();
    value.add("", options.meaning.map(|kind| kind.0.word()));
    value.add("of the ", options.scope.map(|scope| scope.0.word()));
    value.add("whose: ", options.whose.as_deref());
    value.add("documented wait ", options.wait.map(span).as_deref());
    value.add("advice: ", options.advice.map(|advice| advice.0.word()));
    Fact {
        topic: "error",
        about: about.text().unwrap_or_default(),
        value: value.text(),
        source: sources.named(options.source.as_deref()),
    }
}

fn asked(options: &SizingOptions, sources: Sources<'_>) -> Fact {
    let what = options.what.map_or("", AskedWord::word);
    Fact {
        topic: "request",
        about: what.to_owned(),
        value: options.paths.as_ref().map(|paths| paths.join(", ")),
        source: sources.named(options.source.as_deref()),
    }
}

fn told(options: &UsageOptions, sources: Sources<'_>) -> Fact {
    let mut value = Parts::default();
    let paths = options.paths.as_ref().map(|paths| paths.join(", "));
    value.add("", paths.as_deref());
    let plus = options.plus.as_ref().map(|plus| plus.join(" and "));
    value.add("and beside it ", plus.as_deref());
    Fact {
        topic: "usage",
        about: options.what.map_or("", ToldWord::word).to_owned(),
        value: value.text(),
        source: sources.named(options.source.as_deref()),
    }
}

fn charged(options: &ChargeOptions, sources: Sources<'_>) -> Vec<Fact> {
    let rule = |rule: Option<ChargingWord>| rule.map(ChargingWord::word);
    let counts = |counts: Option<CountingWord>| counts.map(CountingWord::word);
    let most = options.most_undeclared.map(|most| most.to_string());
    let rows = [
        ("tokens", rule(options.tokens)),
        ("input_tokens", rule(options.input_tokens)),
        ("output_tokens", rule(options.output_tokens)),
        ("points", rule(options.points)),
        ("spend", rule(options.spend)),
        ("cached_input", counts(options.cached_input)),
        ("rejects", counts(options.rejects)),
        ("most_undeclared", most.as_deref()),
    ];
    let known = rows.into_iter().filter(|(_, value)| value.is_some());
    known
        .map(|(about, value)| Fact {
            topic: "charge",
            about: about.to_owned(),
            value: value.map(str::to_owned),
            source: sources.named(options.source.as_deref()),
        })
        .collect()
}

fn span(text: SpanText) -> String {
    text.0.to_string()
}

/// Parts of a sentence with commas between them.
#[derive(Default)]
struct Parts(Vec<String>);

impl Parts {
    fn add(&mut self, before: &str, part: Option<&str>) {
        self.0.extend(part.map(|part| format!("{before}{part}")));
    }

    fn text(self) -> Option<String> {
        (!self.0.is_empty()).then(|| self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::presets::Presets;

    fn line(fact: &Fact) -> String {
        let source = fact.source.as_ref();
        let source = source.map_or("no source", |source| source.verified_on.as_str());
        let value = fact.value.as_deref().unwrap_or("unknown");
        format!("{} | {} | {value} | {source}", fact.topic, fact.about)
    }

    #[test]
    fn a_preset_is_told_fact_by_fact_with_its_day_and_what_is_unknown_stays_so() {
        let lines: Vec<String> = facts(Presets::built_in().get("anthropic").unwrap())
            .iter()
            .map(line)
            .collect();
        for expected in [
            "provider | credential_scheme | none | 2026-11-29",
            "endpoint | POST /v1/messages | generation | 2026-11-29",
            "field | anthropic-ratelimit-requests-limit | limit, of requests, of the model, in 60s | 2026-11-29",
            "error | 400, “specified API usage limits” | billing, of the account, whose: organization or workspace | 2026-11-29",
            "charge | cached_input | excluded | 2026-11-30",
        ] {
            assert!(
                lines.iter().any(|line| line == expected),
                "{expected}\n{lines:#?}"
            );
        }
        let generic = facts(Presets::built_in().get("generic").unwrap());
        assert_eq!(
            line(&generic[0]),
            "provider | base_url | unknown | no source"
        );
    }
}
