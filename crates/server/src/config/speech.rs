//! How the answers of a provider are understood, configured or not.
//!
//! The gateway takes this from the settings of a provider; a person who asks about
//! an answer may ask about a provider that nobody has configured, of which nobody
//! knows where it is, or which nobody has heard of.

use rategov_core::observe::{Dialect, ErrorRule};

use super::check::dialect;
use super::mistake::Collector;
use super::options::ProviderOptions;
use super::place::Place;
use super::presets::Presets;
use super::settings::Settings;

/// How the answers of a provider are understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Speech {
    /// The preset behind it.
    pub preset: &'static str,
    /// In words, whose its limits are.
    pub whose: Option<String>,
    /// What the fields of its answers say.
    pub dialect: Dialect,
    /// What its errors mean, in the order in which rules are tried.
    pub errors: Vec<ErrorRule>,
}

impl Speech {
    /// How a provider's answers are understood: as configured, else by the preset
    /// of its name, else by what the standards say.
    pub fn of(provider: &str, settings: Option<&Settings>) -> Speech {
        let presets = Presets::built_in();
        let configured = settings.and_then(|settings| {
            let mut providers = settings.providers.iter();
            let found = providers.find(|(name, _)| name.as_str() == provider);
            found.map(|(_, provider)| provider)
        });
        let wanted = match configured {
            Some(configured) => configured.preset.as_deref().unwrap_or(Presets::GENERIC),
            None => provider,
        };
        let mut names = presets.names();
        let name = names
            .find(|name| *name == wanted)
            .unwrap_or(Presets::GENERIC);
        if let Some(configured) = configured {
            return Speech {
                preset: name,
                whose: configured.whose.clone(),
                dialect: configured.dialect.clone(),
                errors: configured.errors.clone(),
            };
        }
        let (nothing, nowhere) = (ProviderOptions::default(), Place::nowhere());
        // A preset has no mistake: a test reads all of them.
        let mut out = Collector::new(name);
        let preset = presets.get(name);
        let named = preset.map(|preset| (name, preset));
        Speech {
            preset: name,
            whose: preset.and_then(|preset| preset.whose.clone()),
            dialect: dialect::dialect(&nothing, preset, nowhere, &mut out),
            errors: dialect::errors(&nothing, named, presets, nowhere, &mut out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_that_nobody_knows_is_understood_by_the_standards() {
        let unknown = Speech::of("nobody", None);
        assert_eq!(unknown, Speech::of(Presets::GENERIC, None));
        assert_eq!(unknown.dialect.rules("x-ratelimit-remaining").0.len(), 1);
        assert_eq!(Speech::of("openai", None).preset, "openai");
    }

    #[test]
    fn a_configured_provider_is_understood_as_it_is_configured() {
        let text = "
providers:
  mine:
    preset: openai
    base_url: https://x.example
    whose: my team
    fields: [{ header: x-left, what: remaining, dimension: requests }]
";
        let loaded = crate::config::read("rategov.yaml", text).unwrap();
        let mine = Speech::of("mine", Some(&loaded.settings));
        assert_eq!(
            (mine.preset, mine.whose.as_deref()),
            ("openai", Some("my team"))
        );
        assert_eq!(mine.dialect.rules("x-left").0.len(), 1);
        assert_eq!(mine.dialect.rules("retry-after-ms").0.len(), 1);
        assert_eq!(
            Speech::of("anthropic", Some(&loaded.settings)).preset,
            "anthropic"
        );
    }
}
