//! `providers`: what is known of them, and how their answers are understood.
//!
//! Everything is offline: presets are built in, a configuration is a file, and
//! answers that are tested were recorded by somebody.

mod meaning;
mod test;

use std::path::Path;
use std::process::ExitCode;

use rategov_server::config::facts::{Fact, facts};
use rategov_server::config::options::ProviderOptions;
use rategov_server::config::presets::Presets;
use rategov_server::config::{self, Loaded};
use serde_json::{Value, json};

use crate::args::Providers;
use crate::output;

/// Does what was typed.
pub(crate) fn run(providers: &Providers, as_json: bool) -> anyhow::Result<ExitCode> {
    match providers {
        Providers::List { config } => list(config.as_deref(), as_json),
        Providers::Show { name, config } => show(name, config.as_deref(), as_json),
        Providers::Test { file, config } => test::run(file, config.as_deref(), as_json),
    }
}

/// A configuration, where one is named.
fn configuration(file: Option<&Path>) -> anyhow::Result<Option<Loaded>> {
    Ok(file.map(config::load).transpose()?)
}

/// What a configuration says about its providers, by their names.
fn written(file: Option<&Path>) -> anyhow::Result<Vec<(String, ProviderOptions)>> {
    let written = file.map(config::written_providers).transpose()?;
    Ok(written.unwrap_or_default())
}

fn list(file: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let presets = Presets::built_in();
    let built_in = presets.names().filter_map(|name| {
        let preset = presets.get(name)?;
        Some(entry(name, "built in", preset))
    });
    let configured = written(file)?;
    let mut entries: Vec<Value> = built_in.collect();
    for (name, options) in &configured {
        entries.retain(|entry| entry["name"] != name.as_str());
        entries.push(entry(name, "configuration", options));
    }
    entries.sort_by_key(|entry| entry["name"].to_string());
    if as_json {
        output::json(&json!({ "providers": entries }));
        return Ok(ExitCode::SUCCESS);
    }
    let columns = ["name", "from", "base_url", "endpoints", "fields", "errors"];
    let rows = entries.iter().map(|entry| {
        let cell = |column: &&str| output::field(entry, column);
        columns.iter().map(cell).collect()
    });
    output::table(&columns, rows);
    Ok(ExitCode::SUCCESS)
}

fn entry(name: &str, from: &str, options: &ProviderOptions) -> Value {
    let count = |rows: Option<usize>| rows.unwrap_or(0);
    json!({
        "name": name,
        "from": from,
        "base_url": options.base_url,
        "endpoints": count(options.endpoints.as_ref().map(Vec::len)),
        "fields": count(options.fields.as_ref().map(Vec::len)),
        "errors": count(options.errors.as_ref().map(Vec::len)),
    })
}

fn show(name: &str, file: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let presets = Presets::built_in();
    let configured = written(file)?;
    let own = configured.iter().find(|(known, _)| known == name);
    let own = own.map(|(_, options)| options);
    let preset = own.and_then(|own| own.preset.as_deref()).unwrap_or(name);
    let preset = presets.get(preset);
    if own.is_none() && preset.is_none() {
        let names: Vec<&str> = presets.names().collect();
        anyhow::bail!(
            "nothing is known of this provider\n  hint: there are {}; its answers are read by `{}`",
            names.join(", "),
            Presets::GENERIC
        );
    }
    let from = |options: Option<&ProviderOptions>, from: &'static str| {
        let all = options.map(facts).unwrap_or_default();
        all.into_iter().map(move |fact| (from, fact))
    };
    // What the operator wrote stands over the preset; what neither says is said once.
    let own: Vec<_> = from(own, "configuration")
        .filter(|(_, fact)| fact.value.is_some())
        .collect();
    let is_written_over = |fact: &Fact| {
        let mut own = own.iter();
        own.any(|(_, own)| own.topic == fact.topic && own.about == fact.about)
    };
    let known = from(preset, "built in").filter(|(_, fact)| !is_written_over(fact));
    let rows: Vec<_> = own.iter().cloned().chain(known).collect();
    if as_json {
        let rows: Vec<Value> = rows.iter().map(|(from, fact)| row(from, fact)).collect();
        output::json(&json!({ "name": name, "facts": rows }));
        return Ok(ExitCode::SUCCESS);
    }
    let cells = |(from, fact): &(&str, Fact)| {
        let unknown = || "unknown".to_owned();
        let source = fact.source.as_ref();
        vec![
            fact.topic.to_owned(),
            fact.about.clone(),
            fact.value.clone().unwrap_or_else(unknown),
            source.map_or_else(|| from_whom(from), |source| source.url.clone()),
            source.map_or_else(|| "-".to_owned(), |source| source.verified_on.clone()),
        ]
    };
    let columns = ["topic", "about", "what is known", "source", "read on"];
    output::table(&columns, rows.iter().map(cells));
    Ok(ExitCode::SUCCESS)
}

/// What stands for a source that is no address.
fn from_whom(from: &str) -> String {
    match from {
        "configuration" => "configuration".to_owned(),
        _ => "-".to_owned(),
    }
}

fn row(from: &str, fact: &Fact) -> Value {
    let source = fact.source.as_ref();
    json!({
        "topic": fact.topic,
        "about": fact.about,
        "value": fact.value,
        "from": from,
        "source": source.map(|source| &source.url),
        "verified_on": source.map(|source| &source.verified_on),
    })
}
