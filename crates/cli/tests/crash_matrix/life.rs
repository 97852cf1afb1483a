//! One write from the first start of its governor to the last: what was done,
//! what was seen.

use std::fmt;
use std::net::SocketAddr;

use serde_json::Value;

use super::check::Facts;
use super::fault::{self, Fault};
use super::matrix::{Case, Matrix, Story};
use super::plan::{Kind, Plan, certain, plans};
use super::support::caller::{Call, Heard, Unheard};
use super::support::governor::{Ended, Governor, Starting};
use super::support::home::Home;
use super::support::wait::Wait;

/// Beside the essential cases, the sample has one in so many. It has no divisor
/// in common with the numbers of faults, 13 and 14, so that every fault and
/// every plan has its turn.
const STRIDE: usize = 25;

/// A write, its provider, and when its governor dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    /// The write.
    pub(crate) kind: Kind,
    /// What its provider does to it.
    pub(crate) fault: Fault,
    plan: Plan,
}

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} × {:?} × {}", self.kind, self.fault, self.plan)
    }
}

/// Every life of a kind of write.
pub(crate) fn cases(kind: Kind) -> Matrix<Life> {
    let faults = Fault::of(kind);
    let of_plan = |plan| {
        let life = move |fault: &Fault| Life {
            kind,
            fault: *fault,
            plan,
        };
        faults.iter().map(life).collect::<Vec<_>>()
    };
    Matrix {
        cases: plans(kind).into_iter().flat_map(of_plan).collect(),
        stride: STRIDE,
    }
}

/// Where an action is when nothing more happens to it by itself.
pub(crate) enum Settled {
    /// It is final, or with a person.
    As(Value),
    /// The governor does not know it.
    Unknown,
    /// The governor died first.
    Dead,
    /// Neither in time.
    Never(Value),
}

/// An operation: its names, and how it is asked for.
#[derive(Clone)]
pub(crate) struct Operation {
    /// What kind of write it is.
    pub(crate) kind: Kind,
    /// Its key.
    pub(crate) key: String,
    body: String,
}

impl Operation {
    /// The only one of a case.
    pub(crate) fn new(kind: Kind) -> Operation {
        Operation::numbered(kind, 1)
    }

    /// One of several. Its provider knows it by its key, too.
    pub(crate) fn numbered(kind: Kind, n: usize) -> Operation {
        let key = format!("operation-{n}");
        let body = serde_json::json!({ "external_ref": key, "amount": 7 }).to_string();
        Operation { kind, key, body }
    }

    /// What its provider is asked for, by which it is told from others in the
    /// ledger, with a key or without.
    pub(crate) fn target(&self) -> String {
        format!("{}?as={}", self.kind.path(), self.key)
    }

    /// Asks for it once.
    pub(crate) async fn ask(&self, governor: &Governor) -> Result<Heard, Unheard> {
        self.ask_at(governor.agents).await
    }

    /// The same, knowing only where.
    pub(crate) async fn ask_at(&self, agents: SocketAddr) -> Result<Heard, Unheard> {
        self.ask_with(agents, &self.body).await
    }

    /// Asks under its key, with any payload.
    async fn ask_with(&self, agents: SocketAddr, body: &str) -> Result<Heard, Unheard> {
        let call = Call {
            method: "POST",
            target: &format!("/fake{}", self.target()),
            fields: &[(self.kind.key_header(), &self.key)],
            body,
        };
        call.to(agents).await
    }
}

impl Case for Life {
    fn armed(&self) -> Vec<&'static str> {
        vec![self.plan.first.point.name, self.plan.second.point.name]
    }

    fn is_essential(&self) -> bool {
        certain(self.plan) == Some(self.fault)
    }

    async fn live(self) -> Story {
        let provider = fault::provider(self.fault).await;
        let home = Home::new(provider.addr);
        let operation = Operation::new(self.kind);
        let mut story = Story::default();

        // First run: the call comes in.
        let mut heard = Err(Unheard::Cut);
        let armed = home.governor().armed(Some(&self.plan.first.to_string()));
        let ended = match armed.start().await {
            Ok(mut governor) => {
                fault::shut_the_door(self.fault, &provider.handle);
                heard = operation.ask(&governor).await;
                settled(&mut governor, &operation.key).await;
                story.end_run(governor, self.plan.first.point.name).await
            }
            Err(ended) => story.note(self.plan.first.point.name, ended),
        };
        story.must(ended.was_killed(), || {
            format!("the first run ended with {}", ended.status)
        });
        let hangs = matches!(heard, Err(Unheard::Silence));
        story.must(!hangs, || "the first call hangs".to_owned());

        // Second run: from the disk, and perhaps into death again.
        let armed = home.governor().armed(Some(&self.plan.second.to_string()));
        let ended = restarted(
            armed,
            &operation.key,
            self.plan.second.point.name,
            &mut story,
        )
        .await;
        story.must(ended.was_killed(), || {
            format!("the second run ended with {}", ended.status)
        });

        // Third run: nothing is armed.
        match home.governor().start().await {
            Ok(governor) => {
                let facts = Facts::new(&provider.handle, self.kind, &operation.key);
                last(governor, facts, &operation, heard, &mut story).await;
            }
            Err(ended) => {
                let what = format!(
                    "the last run did not start: {}\n{}",
                    ended.status, ended.log
                );
                story.findings.push(what);
            }
        }
        story.verify(&home).await;
        story
    }
}

impl Story {
    /// Notes what must hold.
    pub(crate) fn must(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.findings.push(what());
        }
    }

    /// Keeps what a governor said, and whether its point killed it.
    fn note(&mut self, armed: &'static str, ended: Ended) -> Ended {
        if ended.was_killed() {
            self.killed.push(armed);
        }
        self.log.push_str(&ended.log);
        self.log.push_str("----\n");
        ended
    }

    /// Ends a run whose action rests, if its point has not done so.
    pub(crate) async fn end_run(&mut self, mut governor: Governor, armed: &'static str) -> Ended {
        if governor.is_gone() {
            return self.note(armed, governor.ended().await);
        }
        let ended = governor.killed().await;
        self.log.push_str(&ended.log);
        self.log.push_str("----\n");
        ended
    }

    /// Ends the last run in order.
    pub(crate) async fn stop(&mut self, mut governor: Governor) {
        if !governor.is_gone() {
            governor.signal(rustix::process::Signal::TERM);
        }
        let ended = governor.ended().await;
        self.log.push_str(&ended.log);
        self.must(ended.status.success(), || {
            format!("the last run ended with {}", ended.status)
        });
    }

    /// Walks the chain.
    pub(crate) async fn verify(&mut self, home: &Home) {
        if let Err(cause) = home.verify().await {
            self.findings
                .push(format!("the chain does not verify: {cause}"));
        }
    }
}

/// A run that is only to take up what is there.
async fn restarted(
    starting: Starting<'_>,
    key: &str,
    armed: &'static str,
    story: &mut Story,
) -> Ended {
    match starting.start().await {
        Ok(mut governor) => {
            settled(&mut governor, key).await;
            story.end_run(governor, armed).await
        }
        Err(ended) => story.note(armed, ended),
    }
}

/// The last run: what came of it all, and what its caller and a person get.
async fn last(
    mut governor: Governor,
    mut facts: Facts<'_>,
    operation: &Operation,
    heard: Result<Heard, Unheard>,
    story: &mut Story,
) {
    let before = settled(&mut governor, &operation.key).await;
    facts.after_settling(&before, heard.as_ref().ok());
    facts.listed(&governor).await;

    // The caller comes back with the same key, as an SDK would.
    let again = operation.ask(&governor).await;
    let after = settled(&mut governor, &operation.key).await;
    facts.after_repeat(&before, again.as_ref(), &after);
    // And by mistake with another payload under it.
    if let Settled::As(_) = &after {
        let other = operation
            .ask_with(governor.agents, r#"{"external_ref":"order-78"}"#)
            .await;
        facts.after_reuse(other.as_ref());
    }
    // A person who has looked at the provider says what is true.
    let mut last = after;
    if let Settled::As(action) = &last
        && let Some(escalation) = action["escalation"].as_str()
    {
        let truth = if facts.effects() == 1 {
            "it_happened"
        } else {
            "it_did_not"
        };
        let decided = governor.decide(escalation, truth).await;
        last = settled(&mut governor, &operation.key).await;
        facts.after_decision(decided.as_ref().ok(), &last);
    }
    facts.at_the_end(&last);
    facts.nothing_left(&governor, &last).await;
    story.findings.append(&mut facts.findings);
    story.stop(governor).await;
}

/// Waits until an action is final or with a person, or its governor is dead.
pub(crate) async fn settled(governor: &mut Governor, key: &str) -> Settled {
    let wait = Wait::begin();
    let mut last = Value::Null;
    loop {
        match governor.action(key).await {
            Err(Unheard::Cut) if governor.is_gone() => return Settled::Dead,
            Err(_) => {}
            Ok(None) => return Settled::Unknown,
            Ok(Some(action)) => {
                if action["final"] == true || action["state"] == "escalated" {
                    return Settled::As(action);
                }
                last = action;
            }
        }
        if !wait.pause().await {
            return Settled::Never(last);
        }
    }
}
