//! Secrets: where they come from, what is said if they don't come, and that they stay.

use std::path::Path;

use secrecy::{ExposeSecret, SecretString};

use super::loaded;
use crate::config::read;
use crate::config::secret::{Environment, Keyring, ProcessEnvironment};

const TEXT: &str = "
providers:
  billing:
    base_url: https://x.example
    accounts:
      ops: { credential: env:BILLING_KEY }
      lab: { credential: file:lab.key }
agents:
  bot: { token: env:BOT_TOKEN }
  desk: { token: env:DESK_TOKEN }
";

/// An environment of pairs.
struct Given(Vec<(&'static str, &'static str)>);

impl Environment for Given {
    fn variable(&self, name: &str) -> Option<SecretString> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        found.map(|(_, value)| SecretString::from(*value))
    }
    fn file(&self, path: &Path) -> std::io::Result<SecretString> {
        self.variable(&path.display().to_string())
            .ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
    }
}

fn opened(pairs: &[(&'static str, &'static str)]) -> Result<Keyring, String> {
    let settings = loaded(TEXT).settings;
    match Keyring::open("rategov.yaml", &settings, &Given(pairs.to_vec())) {
        Ok(opened) => {
            assert!(opened.notices.is_empty(), "{:?}", opened.notices);
            Ok(opened.keyring)
        }
        Err(mistakes) => Err(mistakes.to_string()),
    }
}

const ALL: [(&str, &str); 4] = [
    ("BILLING_KEY", "sk-canary-1"),
    ("lab.key", "sk-canary-2\n"),
    ("BOT_TOKEN", "bot-canary-0123456789"),
    ("DESK_TOKEN", "desk-canary-0123456789"),
];

#[test]
fn every_secret_is_opened_and_none_is_shown() {
    let keyring = opened(&ALL).unwrap();
    let settings = loaded(TEXT).settings;
    let values: Vec<&str> = settings
        .providers
        .values()
        .flat_map(|provider| &provider.accounts)
        .flat_map(|account| &account.credentials)
        .map(|it| keyring.credential(&it.credential).unwrap().expose_secret())
        .collect();
    assert_eq!(
        values,
        ["sk-canary-1", "sk-canary-2"],
        "without the line break of the file"
    );
    assert_eq!(
        keyring.agent(b"bot-canary-0123456789").unwrap().as_str(),
        "bot"
    );
    assert_eq!(keyring.agent(b"desk-canary-012345678"), None);
    let shown = format!("{keyring:?} {settings:?}");
    assert!(!shown.contains("canary"), "{shown}");
    let slot = &settings.providers.values().next().unwrap().slot;
    let value = slot.value("sk-canary-1").unwrap();
    assert!(value.is_sensitive() && !format!("{value:?}").contains("canary"));
}

#[test]
fn what_is_missing_is_named_with_its_line() {
    insta::assert_snapshot!(opened(&[("BILLING_KEY", "line\nbreak"), ("BOT_TOKEN", "")]).unwrap_err(), @r"
    rategov.yaml:6:26: the value of `env:BILLING_KEY` can't travel in a header
      hint: it holds a line break or another control character
    rategov.yaml:7:26: `file:lab.key` can't be read: entity not found
    rategov.yaml:9:17: `env:BOT_TOKEN` is empty
    rategov.yaml:10:18: the environment variable `DESK_TOKEN` is not set
      hint: set it before `rategov serve`, or use `file:PATH`
    ");
}

#[test]
fn two_agents_with_one_token_are_refused() {
    let mut pairs = ALL;
    pairs[3].1 = pairs[2].1;
    let refusal = opened(&pairs).unwrap_err();
    assert!(
        refusal.contains("agents `bot` and `desk` have the same token"),
        "{refusal}"
    );
    assert!(!refusal.contains("canary"), "{refusal}");
}

#[test]
fn a_token_that_could_be_guessed_is_worth_a_word() {
    let settings = loaded("agents: { bot: { token: env:BOT_TOKEN } }").settings;
    let opened = Keyring::open(
        "rategov.yaml",
        &settings,
        &Given(vec![("BOT_TOKEN", "secret")]),
    );
    insta::assert_snapshot!(opened.unwrap().notices[0], @r"
    rategov.yaml:1:25: the token of agent `bot` is short enough to be guessed
      hint: `openssl rand -hex 32` makes a good one
    ");
}

#[test]
fn a_file_is_read_beside_the_configuration() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lab.key"), "sk-canary\r\n").unwrap();
    std::fs::write(folder.path().join("large.key"), vec![b'x'; 70_000]).unwrap();
    let environment = ProcessEnvironment {
        folder: folder.path().to_owned(),
    };
    let read = |name: &str| environment.file(Path::new(name));
    assert_eq!(read("lab.key").unwrap().expose_secret(), "sk-canary\r\n");
    assert!(read("large.key").is_err());
    assert!(read("absent.key").is_err());
}

#[test]
fn a_pasted_secret_is_in_no_message_whatever_key_it_stands_at() {
    for key in [
        "credential",
        "credential_header",
        "credential_scheme",
        "quotas",
    ] {
        let text = format!(
            "providers: {{ b: {{ base_url: https://x.example, accounts: {{ ops: {{ {key}: 'sk canary/1' }} }} }} }}"
        );
        let shown = read("rategov.yaml", &text).unwrap_err().to_string();
        assert!(!shown.contains("canary"), "{shown}");
    }
    for text in [
        "store: 'sk canary'",
        "agents: 'sk canary'",
        "agents: { a: { token: ['sk canary'] } }",
    ] {
        let shown = read("rategov.yaml", text).unwrap_err().to_string();
        assert!(!shown.contains("canary"), "{shown}");
    }
}
