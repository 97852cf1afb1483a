//! kill -9 around a person's decision: it is taken once, and what it does is
//! done once, however often the governor dies over it.
//!
//! A write ends with a person in a first run. In the second, with a point armed,
//! the person decides; the governor dies before, within or behind it. In the
//! third the person looks again: whoever was told that it is decided finds it
//! so, and whoever was not may decide now if the question is still open.

use std::fmt;

use rategov_sim::provider::ledger::EffectKind;
use serde_json::Value;

use super::check::posts;
use super::fault::{self, Fault};
use super::life::{Operation, Settled, settled};
use super::matrix::{Case, Matrix, Story};
use super::plan::{Kill, Kind};
use super::support::governor::Governor;
use super::support::home::Home;

/// The sample has one case in so many.
const STRIDE: usize = 4;
/// Decisions until a case must have ended: what is sent again can be lost again.
const DECISIONS_MAX: usize = 4;

/// What a person decides about which write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    /// It failed, and is sent again under its key.
    RetrySameKey,
    /// It failed, and did nothing.
    ItDidNot,
    /// It was lost, and had its effect.
    ItHappened,
    /// It was lost, and is given up.
    Cancel,
    /// It was lost, and another one is sent in its place.
    SendNew,
}

impl Decision {
    const ALL: [Decision; 5] = [
        Decision::RetrySameKey,
        Decision::ItDidNot,
        Decision::ItHappened,
        Decision::Cancel,
        Decision::SendNew,
    ];

    fn word(self) -> &'static str {
        match self {
            Decision::RetrySameKey => "retry_same_key",
            Decision::ItDidNot => "it_did_not",
            Decision::ItHappened => "it_happened",
            Decision::Cancel => "cancel",
            Decision::SendNew => "send_new_operation",
        }
    }

    /// The write, and the fault that brings it to a person.
    fn about(self) -> (Kind, Fault) {
        match self {
            Decision::RetrySameKey | Decision::ItDidNot => (Kind::Keyed, Fault::Error500),
            Decision::ItHappened | Decision::Cancel | Decision::SendNew => {
                (Kind::Uncertain, Fault::ResetAfterEffect)
            }
        }
    }

    /// How the write ends, and how many effects there are then, at least and at most.
    fn end(self) -> (&'static str, u64, u64) {
        match self {
            Decision::RetrySameKey => ("succeeded", 1, 1),
            Decision::ItDidNot => ("failed_definite", 0, 0),
            Decision::ItHappened => ("succeeded", 1, 1),
            Decision::Cancel => ("abandoned_unknown", 1, 1),
            // The new one can be killed on its own way out, and is uncertain then.
            Decision::SendNew => ("superseded", 1, 2),
        }
    }
}

/// A decision, and where its governor dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deciding {
    decision: Decision,
    kill: Kill,
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} × {}", self.decision, self.kill)
    }
}

/// Every decision × every point around it.
pub(crate) fn cases() -> Matrix<Deciding> {
    let kills = Kill::around_a_decision();
    let of = |decision: Decision| {
        let case = move |kill: &Kill| Deciding {
            decision,
            kill: *kill,
        };
        kills.iter().map(case).collect::<Vec<_>>()
    };
    Matrix {
        cases: Decision::ALL.into_iter().flat_map(of).collect(),
        stride: STRIDE,
    }
}

impl Case for Deciding {
    fn armed(&self) -> Vec<&'static str> {
        vec![self.kill.point.name]
    }

    fn is_essential(&self) -> bool {
        // It passes every point, those of a send included.
        self.decision == Decision::RetrySameKey && self.kill.is_certain_around_a_decision()
    }

    async fn live(self) -> Story {
        let (kind, fault) = self.decision.about();
        let provider = fault::provider(fault).await;
        let home = Home::new(provider.addr);
        let operation = Operation::new(kind);
        let mut story = Story::default();

        let mut governor = home.governor().up().await;
        let heard = operation.ask(&governor).await;
        let status = heard.as_ref().map(|heard| heard.status);
        story.must(status == Ok(424), || format!("the call got {status:?}"));
        let question = question(&settled(&mut governor, &operation.key).await);
        story.must(question.is_some(), || "nobody is asked".to_owned());
        // A repeat is not kept waiting for a person; it is told who is asked.
        let again = operation.ask(&governor).await;
        let told = again.ok().map(|heard| heard.json()["escalation"].clone());
        story.must(told == question.clone().map(Value::String), || {
            format!("a repeat is told of {told:?}, not {question:?}")
        });
        governor.killed().await;
        let Some(question) = question else {
            return story;
        };

        let mut told = false;
        match home
            .governor()
            .armed(Some(&self.kill.to_string()))
            .start()
            .await
        {
            Ok(mut governor) => {
                let heard = governor.decide(&question, self.decision.word()).await;
                told = heard.is_ok_and(|heard| heard.status == 200);
                settled(&mut governor, &operation.key).await;
                story.end_run(governor, self.kill.point.name).await;
            }
            Err(ended) => story.log.push_str(&ended.log),
        }

        let mut governor = home.governor().up().await;
        let last = self
            .decided(&mut governor, &operation, &question, told, &mut story)
            .await;
        let (state, least, most) = self.decision.end();
        story.must(last["state"] == state, || {
            format!("it ends as {}, not {state}", last["state"])
        });
        let ledger = provider.handle.ledger();
        let effects = ledger
            .effects()
            .filter(|it| it.kind != EffectKind::Generated)
            .count() as u64;
        story.must((least..=most).contains(&effects), || {
            format!("{effects} effects")
        });
        let one_key = posts(&provider.handle).iter().all(|post| match kind {
            Kind::Uncertain => post.key.is_none(),
            _ => post.key.as_deref() == Some(operation.key.as_str()),
        });
        story.must(one_key, || "an attempt had another key".to_owned());
        let listed = governor.ask("/api/v1/actions").await;
        let actions = listed.ok().map_or(0, |heard| {
            heard.json()["actions"].as_array().map_or(0, Vec::len)
        });
        let expected = if self.decision == Decision::SendNew {
            2
        } else {
            1
        };
        story.must(actions == expected, || {
            format!("{actions} actions, not {expected}")
        });
        story.stop(governor).await;
        story.verify(&home).await;
        story
    }
}

impl Deciding {
    /// The third run: decides where the question is still open, and shows that
    /// nothing that was decided can be decided again.
    async fn decided(
        self,
        governor: &mut Governor,
        operation: &Operation,
        first: &str,
        told: bool,
        story: &mut Story,
    ) -> Value {
        let mut open = None;
        for n in 0..DECISIONS_MAX {
            let now = settled(governor, &operation.key).await;
            open = question(&now);
            let Some(question) = &open else {
                let late = governor.decide(first, self.decision.word()).await;
                let status = late.as_ref().map(|heard| heard.status);
                story.must(status == Ok(409), || {
                    format!("deciding again got {status:?}")
                });
                return match now {
                    Settled::As(action) => action,
                    _ => Value::Null,
                };
            };
            let forgotten = told && question == first;
            story.must(!forgotten, || {
                "a decision that was confirmed is forgotten".to_owned()
            });
            let heard = governor.decide(question, self.decision.word()).await;
            let status = heard.as_ref().map(|heard| heard.status);
            story.must(status == Ok(200), || format!("decision {n} got {status:?}"));
        }
        story.findings.push(format!("{open:?} is still asked"));
        Value::Null
    }
}

/// The open question about an action that is with a person.
fn question(settled: &Settled) -> Option<String> {
    match settled {
        Settled::As(action) if action["state"] == "escalated" => {
            action["escalation"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}
