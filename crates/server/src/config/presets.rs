//! Built-in knowledge of common providers.
//!
//! A preset is a file of `providers/`, compiled in, with the same keys as a
//! provider in a configuration; it is read and checked by the same code. What a
//! user writes stands over it, key by key.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::check::dialect;
use super::decode::decode;
use super::mistake::{Collector, Mistake};
use super::options::ProviderOptions;
use super::place::Place;
use super::tree;

/// Every name with the text of its file.
macro_rules! files {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../../../providers/", $name, ".yaml"))),)*]
    };
}

/// The files, by the name of their provider.
const FILES: &[(&str, &str)] = files![
    "adyen",
    "airtable",
    "anthropic",
    "aws-bedrock",
    "azure-openai",
    "cloudflare",
    "cohere",
    "deepseek",
    "discord",
    "fireworks",
    "gemini",
    "generic",
    "github",
    "github-graphql",
    "gitlab",
    "google-workspace",
    "groq",
    "hubspot",
    "jira",
    "linear",
    "microsoft-graph",
    "mistral",
    "notion",
    "openai",
    "openrouter",
    "paypal",
    "perplexity",
    "salesforce",
    "sendgrid",
    "sharepoint",
    "shopify-graphql",
    "shopify-rest",
    "slack",
    "square",
    "stripe",
    "together",
    "twilio",
    "vertex-ai",
    "xai",
    "zendesk",
];

/// All presets.
#[derive(Clone, Debug)]
pub struct Presets {
    known: BTreeMap<&'static str, ProviderOptions>,
}

impl Presets {
    /// The preset of a provider that has none of its own.
    pub const GENERIC: &'static str = "generic";

    /// The built-in presets; read once.
    pub fn built_in() -> &'static Presets {
        static BUILT_IN: OnceLock<Presets> = OnceLock::new();
        BUILT_IN.get_or_init(|| {
            let known = FILES.iter().map(|(name, text)| (*name, read(name, text)));
            Presets {
                known: known.collect(),
            }
        })
    }

    /// A preset by its name.
    pub fn get(&self, name: &str) -> Option<&ProviderOptions> {
        self.known.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.known.keys().copied()
    }

    /// The names of those that know where their provider is.
    pub fn callable(&self) -> impl Iterator<Item = &'static str> {
        let callable = self
            .known
            .iter()
            .filter(|(_, preset)| preset.base_url.is_some());
        callable.map(|(name, _)| *name)
    }

    /// The names, for a sentence.
    pub(crate) fn list(&self) -> String {
        self.names()
            .map(|name| format!("`{name}`"))
            .collect::<Vec<_>>()
            .join(", ")
    }
}

/// Reads a preset. The files are part of the program, and a test reads all of
/// them without a mistake, so what is wrong with one can't happen at run time.
fn read(name: &str, text: &str) -> ProviderOptions {
    let mut mistakes = Collector::new(name);
    match tree::parse(text) {
        Ok(node) => decode(&node, &mut mistakes),
        Err(_) => ProviderOptions::default(),
    }
}

/// What is wrong with the text of a preset; for tests of hostile input.
pub(crate) fn mistakes_of(name: &str, text: &str) -> Vec<Mistake> {
    let mut mistakes = Collector::new(name);
    match tree::parse(text) {
        Ok(node) => {
            let place = Place::root(&node);
            let options: ProviderOptions = decode(&node, &mut mistakes);
            dialect::dialect(&options, None, place, &mut mistakes);
            dialect::errors(&options, None, Presets::built_in(), place, &mut mistakes);
        }
        Err((mark, cause)) => mistakes.add(mark, cause),
    }
    mistakes.finish()
}

impl ProviderOptions {
    /// These options, and the preset's where these say nothing. Lists are not mixed
    /// here: of endpoints, fields and errors both count, accounts are the user's.
    pub(crate) fn over(&self, preset: &ProviderOptions) -> ProviderOptions {
        let own = self.clone();
        let known = preset.clone();
        // A header of one's own doesn't take the preset's scheme along.
        let credential_scheme = match own.credential_header {
            Some(_) => own.credential_scheme,
            None => own.credential_scheme.or(known.credential_scheme),
        };
        ProviderOptions {
            preset: own.preset,
            base_url: own.base_url.or(known.base_url),
            allow_plain_http: own.allow_plain_http.or(known.allow_plain_http),
            connect_timeout: own.connect_timeout.or(known.connect_timeout),
            response_timeout: own.response_timeout.or(known.response_timeout),
            idle_timeout: own.idle_timeout.or(known.idle_timeout),
            path_prefix: own.path_prefix.or(known.path_prefix),
            credential_header: own.credential_header.or(known.credential_header),
            credential_scheme,
            identity_headers: own.identity_headers.or(known.identity_headers),
            refusals_unprocessed: own.refusals_unprocessed.or(known.refusals_unprocessed),
            sdk: own.sdk.or(known.sdk),
            accounts: own.accounts,
            endpoints: own.endpoints,
            message_clock: own.message_clock.or(known.message_clock),
            whose: own.whose.or(known.whose),
            fields: own.fields,
            errors: own.errors,
            sizing: own.sizing,
            usage: own.usage,
            charge: own.charge,
            sources: None,
            facts: None,
        }
    }
}
