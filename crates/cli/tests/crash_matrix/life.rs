//! One case from its first start to its last: what was done, what was seen.

use std::fmt;

use rategov_sim::fake_provider::Handle;
use serde_json::Value;

use super::check::Facts;
use super::fault::{self, Fault};
use super::plan::{Kind, Plan, certain};
use super::support::caller::{Call, Heard, Unheard};
use super::support::governor::Governor;
use super::support::home::Home;
use super::support::wait::Wait;

/// One cell of the matrix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    /// The write.
    pub(crate) kind: Kind,
    /// The provider.
    pub(crate) fault: Fault,
    /// The governor.
    pub(crate) plan: Plan,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} × {:?} × {}", self.kind, self.fault, self.plan)
    }
}

/// What a case showed.
#[derive(Debug, Default)]
pub(crate) struct Story {
    /// Whether the armed point of the first and of the second run killed.
    pub(crate) killed: [bool; 2],
    /// What is wrong.
    pub(crate) findings: Vec<String>,
    /// What the governors said.
    pub(crate) log: String,
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

/// The operation: its names, and how it is asked for.
pub(crate) struct Operation {
    kind: Kind,
    /// Its key.
    pub(crate) key: String,
    body: String,
}

impl Operation {
    fn new(kind: Kind) -> Operation {
        let key = "operation-1".to_owned();
        let body = serde_json::json!({ "external_ref": "order-77", "amount": 7 }).to_string();
        Operation { kind, key, body }
    }

    /// Asks for it once. `body` is its own, or another one under the same key.
    async fn ask(&self, governor: &Governor, body: Option<&str>) -> Result<Heard, Unheard> {
        let call = Call {
            method: "POST",
            target: &format!("/fake{}", self.kind.path()),
            fields: &[(self.kind.key_header(), &self.key)],
            body: body.unwrap_or(&self.body),
        };
        call.to(governor.agents).await
    }
}

impl Case {
    /// Whether its point is certain to be passed, so that it belongs to a sample.
    pub(crate) fn is_certain_to_kill(&self) -> bool {
        certain(self.plan) == Some(self.fault)
    }

    /// Runs the case.
    pub(crate) async fn live(self) -> Story {
        let provider = fault::provider(self.fault).await;
        let home = Home::new(provider.addr);
        let operation = Operation::new(self.kind);
        let mut story = Story::default();

        // First run: the call comes in.
        let first = home.governor().armed(Some(&self.plan.first.to_string()));
        let mut heard = Err(Unheard::Cut);
        let ended = match first.start().await {
            Ok(mut governor) => {
                fault::shut_the_door(self.fault, &provider.handle);
                heard = operation.ask(&governor, None).await;
                if heard.as_ref().is_err_and(|cause| *cause == Unheard::Silence) {
                    story.findings.push("the first call hangs".to_owned());
                }
                settled(&mut governor, &operation.key).await;
                story.killed[0] = governor.is_gone();
                governor.killed().await
            }
            Err(ended) => {
                story.killed[0] = true;
                ended
            }
        };
        if !ended.was_killed() {
            story.findings.push(format!("the first run ended with {}", ended.status));
        }
        story.log.push_str(&ended.log);

        // Second run: from the disk, and perhaps into death again.
        let second = home.governor().armed(Some(&self.plan.second.to_string()));
        let ended = match second.start().await {
            Ok(mut governor) => {
                settled(&mut governor, &operation.key).await;
                story.killed[1] = governor.is_gone();
                governor.killed().await
            }
            Err(ended) => {
                story.killed[1] = true;
                ended
            }
        };
        if !ended.was_killed() {
            story.findings.push(format!("the second run ended with {}", ended.status));
        }
        story.log.push_str("---- second run\n");
        story.log.push_str(&ended.log);

        // Third run: nothing is armed.
        match home.governor().start().await {
            Ok(governor) => {
                let facts = Facts::new(&provider.handle, self, &operation.key);
                self.last(governor, facts, &operation, heard, &mut story).await;
            }
            Err(ended) => {
                let what = format!("the last run did not start: {}\n{}", ended.status, ended.log);
                story.findings.push(what);
            }
        }
        if let Err(cause) = home.verify().await {
            story.findings.push(format!("the chain does not verify: {cause}"));
        }
        story
    }

    async fn last(
        self,
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
        let again = operation.ask(&governor, None).await;
        let after = settled(&mut governor, &operation.key).await;
        facts.after_repeat(&before, again.as_ref(), &after);
        // And by mistake with another payload under it.
        if let Settled::As(_) = &after {
            let other = operation.ask(&governor, Some(r#"{"external_ref":"order-78"}"#)).await;
            facts.after_reuse(other.as_ref());
        }
        // A person who has looked at the provider says what is true.
        let mut last = after;
        if let Settled::As(action) = &last
            && let Some(escalation) = action["escalation"].as_str()
        {
            let truth = if facts.effects() == 1 { "it_happened" } else { "it_did_not" };
            let decided = governor.decide(escalation, truth).await;
            last = settled(&mut governor, &operation.key).await;
            facts.after_decision(decided.as_ref().ok(), &last);
        }
        facts.at_the_end(&last);
        story.findings.append(&mut facts.findings);
        story.log.push_str("---- last run\n");
        let ended = match governor.is_gone() {
            true => governor.ended().await,
            false => {
                governor.signal(rustix::process::Signal::TERM);
                governor.ended().await
            }
        };
        story.log.push_str(&ended.log);
        if !ended.status.success() {
            story.findings.push(format!("the last run ended with {}", ended.status));
        }
    }
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

/// The provider, as far as a case looks at it.
pub(crate) fn posts(provider: &Handle) -> Vec<rategov_sim::provider::ledger::Arrival> {
    let ledger = provider.ledger();
    ledger.arrivals().filter(|arrival| arrival.method == "POST").cloned().collect()
}
