//! The configuration: as written, as meant, and everything wrong with it at once.
//!
//! | step | where | what |
//! |---|---|---|
//! | 1 | `tree` | YAML to a bounded tree that knows its lines |
//! | 2 | `decode` | the tree to [`options`], all unknown keys and wrong types in one pass |
//! | 3 | `check` | options to [`settings`], all contradictions in the same pass |
//! | 4 | [`notices`] | keys that don't act yet, named |
//! | 5 | [`secret`] | the secrets, opened when the server starts |
//!
//! Nothing is used of a file with a mistake: [`read`] gives settings or mistakes,
//! never a part of either, so a bad reload leaves the running policy alone.
//!
//! ```text
//! rategov.yaml:12:5: unknown key `max_attemps`
//!   hint: did you mean `max_attempts`?
//! ```

#[cfg(test)]
mod tests;

mod check;
mod decode;
pub mod facts;
pub mod mistake;
pub mod named;
pub mod notices;
pub mod options;
pub(crate) mod place;
pub mod presets;
pub mod secret;
pub mod settings;
pub mod speech;
mod statuses;
pub(crate) mod tree;
pub mod units;
pub mod words;

use std::io::Read as _;
use std::path::Path;

use mistake::{Collector, Mark, Mistake, Mistakes};
use options::{Options, ProviderOptions};
use place::Place;
use presets::Presets;
use settings::Settings;

/// Most entries of one map.
pub(crate) const ENTRIES_MAX: usize = 10_000;

/// Longest key, in bytes.
pub(crate) const KEY_BYTES_MAX: usize = 512;

/// A configuration without a mistake.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What it means.
    pub settings: Settings,
    /// What is worth knowing: keys that don't act yet.
    pub notices: Vec<Mistake>,
}

/// Reads and checks a configuration file; its secrets stay closed.
///
/// # Errors
/// Every mistake, in the order of the file. A file that can't be read is one.
pub fn load(path: &Path) -> Result<Loaded, Mistakes> {
    read(&path.display().to_string(), &text_of(path)?)
}

/// The text of a configuration file, for whoever needs to know what exactly was read.
///
/// # Errors
/// A file that can't be read, as a mistake of it.
pub fn text_of(path: &Path) -> Result<String, Mistakes> {
    let file = path.display().to_string();
    let wrong = |cause: String| {
        let mut mistakes = Collector::new(&file);
        mistakes.add(Mark::default(), cause);
        Mistakes(mistakes.finish())
    };
    let opened = std::fs::File::open(path).map_err(|error| {
        let hint = match error.kind() {
            std::io::ErrorKind::NotFound => {
                "\nhint: `rategov serve` runs without a configuration, too"
            }
            _ => "",
        };
        wrong(format!("can't be opened: {error}{hint}"))
    })?;
    let mut bytes = Vec::new();
    opened
        .take(tree::FILE_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(format!("can't be read: {error}")))?;
    String::from_utf8(bytes).map_err(|_| wrong("is not UTF-8 text".to_owned()))
}

/// Reads and checks the text of a configuration; `file` is its name in messages.
///
/// # Errors
/// Every mistake, in the order of the file.
pub fn read(file: &str, text: &str) -> Result<Loaded, Mistakes> {
    let mut mistakes = Collector::new(file);
    let node = match tree::parse(text) {
        Ok(node) => node,
        Err((mark, cause)) => {
            mistakes.add(mark, cause);
            return Err(Mistakes(mistakes.finish()));
        }
    };
    let place = Place::root(&node);
    let options: Options = decode::decode(&node, &mut mistakes);
    let settings = check::settings(&options, place, Presets::built_in(), &mut mistakes);
    let mistakes = mistakes.finish();
    if !mistakes.is_empty() {
        return Err(Mistakes(mistakes));
    }
    let mut notices = Collector::new(file);
    notices::not_acting(place, &mut notices);
    Ok(Loaded {
        settings,
        notices: notices.finish(),
    })
}

/// The providers as a configuration writes them, for whoever explains it.
///
/// # Errors
/// As [`load`].
pub fn written_providers(path: &Path) -> Result<Vec<(String, ProviderOptions)>, Mistakes> {
    load(path)?;
    let text = text_of(path)?;
    let mut mistakes = Collector::new(&path.display().to_string());
    let options: Options = match tree::parse(&text) {
        Ok(node) => decode::decode(&node, &mut mistakes),
        Err(_) => Options::default(),
    };
    let providers = options.providers.unwrap_or_default();
    Ok(providers.0)
}

impl Default for Settings {
    /// No configuration at all: every built-in preset with the callers' own
    /// credentials, and nothing stricter than the providers.
    fn default() -> Settings {
        let mut mistakes = Collector::new("built-in");
        check::settings(
            &Options::default(),
            Place::nowhere(),
            Presets::built_in(),
            &mut mistakes,
        )
    }
}

/// The JSON schema of the configuration file, for editors.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Options).to_value()
}
