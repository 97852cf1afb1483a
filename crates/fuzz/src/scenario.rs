//! What a hostile provider says, one answer after the other, to calls that share an
//! account.
//!
//! ```text
//! scenario = preset:byte rules:byte  answer *( "\n%%\n" answer )
//! answer   = how:byte status:2 bytes  *( name ": " value LF ) LF body
//! ```
//!
//! A fuzzer writes the bytes, a property test the values; both are played by
//! [`crate::world`].

use rategov_core::cost::Dimension;
use rategov_core::id::Scope;
use rategov_core::observe::Facts;
use rategov_core::policy::{AccountPolicy, Quota, ScopeLimits, WindowKind};
use rategov_core::time::Span;
use rategov_server::config::speech::Speech;
use rategov_server::gateway::reading::Tongue;
use rategov_server::gateway::understand::understand;

use crate::input::{Input, NOON, head_and_body};
use crate::words::{HOSTILE, fields_of, speech_of};

/// Most answers of one scenario.
pub const ANSWERS_MAX: usize = 24;

/// A run of answers.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Which preset's dialect they are read in.
    pub preset: u8,
    /// Which rules the account has; see [`Scenario::policy`].
    pub rules: u8,
    /// What is said, in order.
    pub answers: Vec<Said>,
}

/// What comes back to one send.
#[derive(Clone, Debug)]
pub struct Said {
    /// Whether anything does, and how.
    pub how: How,
    /// The status of the answer.
    pub status: u16,
    /// Its fields.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Its body.
    pub body: Vec<u8>,
}

/// How a send ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// With an answer, complete.
    Answered,
    /// With an answer whose body streams on for a second.
    Streamed,
    /// With an answer a minute later.
    Late,
    /// The connection is lost after the request has left.
    Lost,
    /// There is no connection.
    NotSent,
}

impl How {
    /// All of them, answers more often.
    pub const ALL: [How; 8] = [
        How::Answered,
        How::Answered,
        How::Answered,
        How::Answered,
        How::Streamed,
        How::Late,
        How::Lost,
        How::NotSent,
    ];
}

impl Scenario {
    /// Reads the form at the top of this file.
    pub fn of(bytes: &[u8]) -> Scenario {
        let mut input = Input::new(bytes);
        let (preset, rules) = (input.byte(), input.byte());
        let mut answers = Vec::new();
        while !input.rest().is_empty() && answers.len() < ANSWERS_MAX {
            let mut part = Input::new(input.part());
            let how = part.one_of(&How::ALL);
            let status = u16::from(part.byte()) << 8 | u16::from(part.byte());
            let (fields, body) = head_and_body(part.rest());
            let fields = fields.into_iter();
            answers.push(Said {
                how,
                status: 100 + status % 500,
                fields: fields
                    .map(|(name, value)| (name.to_owned(), value.to_vec()))
                    .collect(),
                body: body.to_vec(),
            });
        }
        Scenario {
            preset,
            rules,
            answers,
        }
    }

    /// How its provider's answers are understood.
    pub fn speech(&self) -> &'static Speech {
        speech_of(self.preset)
    }

    /// The fields that its provider is known to send.
    pub fn fields(&self) -> Vec<String> {
        fields_of(self.speech())
    }

    /// The rules of the account: nothing declared, or one of several limits.
    pub fn policy(&self, account: &Scope) -> AccountPolicy {
        let quota = |dimension, limit, kind| Quota {
            dimension,
            limit,
            window: Span::from_secs(60),
            kind,
        };
        let requests = |limit, kind| vec![quota(Dimension::Requests, limit, kind)];
        let (quotas, max_concurrent) = match self.rules % 8 {
            1 => (requests(60, WindowKind::Sliding), None),
            2 => (requests(60, WindowKind::TokenBucket { burst: 10 }), None),
            3 => (requests(1, WindowKind::Fixed), None),
            4 => (requests(60, WindowKind::SlidingCounter), Some(2)),
            5 => (
                vec![quota(Dimension::Tokens, 1_000, WindowKind::Unknown)],
                None,
            ),
            6 => (Vec::new(), Some(1)),
            7 => (requests(60, WindowKind::Unknown), Some(4)),
            _ => (Vec::new(), None),
        };
        let limits = ScopeLimits {
            quotas,
            max_concurrent,
        };
        AccountPolicy {
            scopes: match self.rules % 8 {
                0 => Vec::new(),
                _ => vec![(account.clone(), limits)],
            },
            reserve_interactive: u32::from(self.rules / 8 % 2),
            ..AccountPolicy::default()
        }
    }
}

impl Said {
    /// The answer as the gateway understands it.
    pub fn facts(&self, speech: &Speech) -> Facts {
        let fields = self.fields.iter();
        let fields: Vec<(&str, &[u8])> = fields.map(|(name, value)| (&**name, &**value)).collect();
        let tongue = Tongue {
            dialect: &speech.dialect,
            rules: &speech.errors,
            hidden: &[],
            arrived: NOON,
        };
        understand(self.status, &fields, &self.body, tongue)
    }
}

/// For each preset a run of answers with its own fields and hostile values.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let seed = |number: usize| {
        let fields = fields_of(speech_of(number as u8));
        let mut seed = vec![number as u8, number as u8 % 16];
        for answer in 0..6_usize {
            let status: u16 = [429, 200, 503, 200, 403, 529][answer];
            seed.push((answer + number) as u8);
            seed.extend_from_slice(&(status - 100).to_be_bytes());
            for at in 0..4 {
                let name = &fields[(at * 7 + answer * 3 + number) % fields.len()];
                let value = HOSTILE[(at * 5 + answer * 11 + number) % HOSTILE.len()];
                seed.extend_from_slice(format!("{name}: {value}\n").as_bytes());
            }
            seed.extend_from_slice(b"\n{\"error\":{\"message\":\"try again in 9s\"}}\n%%\n");
        }
        seed
    };
    (0..40).map(seed).collect()
}
