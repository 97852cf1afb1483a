//! Names, ids and words: what is read is what was written, and nothing that could
//! forge a line of a log is a name.

use rategov_audit::clear::Origin;
use rategov_audit::hash::{ContentHash, LeafHash};
use rategov_core::action::failure::{CODE_BYTES_MAX, ErrorCode};
use rategov_core::action::problem::Code;
use rategov_core::cost::Dimension;
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, EscalationId, NAME_BYTES_MAX, Operator,
    Provider, Scope, Task,
};
use rategov_core::observe::{Advice, Kind, Meaning, Reach};
use rategov_core::word::{Cause, Choice, Class, Mode, Outcome, Priority, State, Trigger};

use crate::Target;
use crate::input::Input;

/// All of them.
pub(super) const NAMES: Target = Target {
    name: "names",
    holds: "an id, a digest, a word, a name: each is printed as it is read, and a name holds nothing but printable ASCII",
    check: check_names,
    seeds: || {
        [
            "0192f3a4-5678-7abc-8def-0123456789ab",
            "+192f3a456787abc8def0123456789ab0",
            "account:ops",
            "endpoint:POST /records/{id}",
            "a\n14:11:02 decided by=ana",
            "sync-bot\u{1b}[31m",
            "uncertain_write",
            " Invalid_Model \u{130}",
            "0000000000000000000000000000000000000000000000000000000000000000",
        ]
        .map(|text| [&[6; 16], text.as_bytes()].concat())
        .to_vec()
    },
};

macro_rules! check_each_name {
    ($text:expr, $($kind:ident),*) => {$(
        if let Ok(name) = $kind::new($text) {
            assert_eq!(name.as_str(), $text);
            assert!((1..=NAME_BYTES_MAX).contains(&$text.len()));
            let is_plain = $text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            assert!(is_plain, "{:?} is a name", $text);
        }
    )*};
}

macro_rules! check_each_word {
    ($text:expr, $($kind:ident),*) => {$(
        if let Some(word) = $kind::parse($text) {
            assert_eq!(word.word(), $text);
        }
    )*};
}

fn check_names(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let id = u128::from(input.number()) << 64 | u128::from(input.number());
    let text = input.text();
    let text = text.as_str();
    assert_eq!(
        ActionId::parse(&ActionId(id).to_string()),
        Some(ActionId(id))
    );
    assert_eq!(
        EscalationId::parse(&format!("{id:032X}")),
        Some(EscalationId(id))
    );
    if let Some(id) = ActionId::parse(text) {
        let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
        assert_eq!(plain(&id.to_string()), plain(text), "{text:?}");
    }
    for digest in [
        LeafHash::parse(text).map(|it| it.to_string()),
        ContentHash::parse(text).map(|it| it.to_string()),
    ] {
        assert!(
            digest.is_none_or(|it| it == text.to_ascii_lowercase()),
            "{text:?}"
        );
    }
    check_each_name!(
        text, Provider, Account, Credential, Agent, Task, Endpoint, Scope, Operator
    );
    check_each_word!(
        text, Priority, Class, Mode, Outcome, Cause, State, Choice, Trigger
    );
    check_each_word!(text, Meaning, Reach, Kind, Advice, Dimension, Code);
    if let Some(origin) = Origin::new(text) {
        assert_eq!(origin.as_str(), text);
        assert!(
            text.bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'+')
        );
    }
    if let Some(code) = ErrorCode::normalised(text) {
        assert!((1..=CODE_BYTES_MAX).contains(&code.as_str().len()));
        let again = ErrorCode::normalised(code.as_str());
        assert_eq!(again, Some(code), "a code has a code of its own: {text:?}");
    }
}
