//! Questions to a person: listed, shown with what is needed to decide, answered.

use rategov_core::action::problem::Code;
use rategov_core::engine::{Decision, DecisionError};
use rategov_core::id::{Account, EscalationId};
use rategov_core::record::{ActionRow, EscalationRow};
use rategov_core::word::Choice;
use rategov_store::{ActionQuery, Asked, JournalQuery, Page, Stamped};
use serde_json::{Value, json};

use super::Given;
use super::api::{Answer, Call, invalid, journal_row, not_found, ok};
use crate::agents::{Whose, blocking, described, durable, find_action};
use crate::driver::NotDecided;
use crate::gateway::problem::{Problem, RequestCode};
use crate::wire;

/// Newest actions that are searched for the one at which a question arose.
const STOPPED_SEARCH_MAX: u32 = 200;
/// Records about an action that its dossier shows, the first of them.
const RECORDS_MAX: u32 = 200;

impl Call<'_> {
    pub(super) async fn escalations(&self) -> Answer {
        let all = self.parameter("all").is_some_and(|value| value == "true");
        let limit = self.limit()?;
        let reader = self.gateway.0.driver.store().reader_of_all();
        let rows = blocking(move || {
            let mut rows = reader.escalations(Asked::Open, limit)?;
            if all {
                rows.extend(reader.escalations(Asked::Decided, limit)?);
            }
            Ok(rows)
        });
        let rows = rows.await?;
        let rows: Vec<Value> = rows
            .iter()
            .map(|(account, it)| wire::escalation(self.times(), account.as_ref(), &it.row))
            .collect();
        ok(json!({ "escalations": rows }))
    }

    pub(super) async fn escalation(&self, id: &str) -> Answer {
        let id = EscalationId::parse(id).ok_or_else(|| not_found("escalation"))?;
        let reader = self.gateway.0.driver.store().reader_of_all();
        let found = blocking(move || reader.escalation(id)).await?;
        let (account, it) = found.ok_or_else(|| not_found("escalation"))?;
        let mut value = wire::escalation(self.times(), account.as_ref(), &it.row);
        let stopped = match (it.row.action, account) {
            (Some(action), _) => {
                find_action(self.gateway, &action.to_string(), Whose::Everybody).await?
            }
            (None, Some(account)) => self.stopped_action(account, &it).await?,
            (None, None) => None,
        };
        if let Some(row) = stopped {
            if it.row.action.is_some() {
                // What is shown is the action as it is now, and so is its version.
                value["version"] = json!(row.version);
            }
            value["dossier"] = self.dossier(&row).await?;
        }
        ok(value)
    }

    /// The action at which a question about a scope arose: the newest one that was
    /// refused when it was asked.
    async fn stopped_action(
        &self,
        account: Account,
        asked: &Stamped<EscalationRow>,
    ) -> Given<Option<ActionRow>> {
        let query = ActionQuery {
            account: Some(account),
            limit: STOPPED_SEARCH_MAX,
            ..ActionQuery::default()
        };
        let opened = asked.row.opened_at;
        let reader = self.gateway.0.driver.store().reader_of_all();
        let rows = blocking(move || reader.actions(&query)).await?;
        Ok(rows
            .into_iter()
            .map(|it| it.row)
            .find(|row| row.requested_at <= opened && row.last_status == Some(429)))
    }

    pub(super) async fn decide(&self, id: &str) -> Answer {
        let id = EscalationId::parse(id).ok_or_else(|| not_found("escalation"))?;
        let word = self.body["choice"].as_str().unwrap_or_default();
        let choice = Choice::parse(word).ok_or_else(|| {
            let words: Vec<&str> = Choice::ALL.iter().map(|choice| choice.word()).collect();
            invalid(format!("`choice` is one of {}", words.join(", ")))
        })?;
        let version = match &self.body["version"] {
            Value::Null => None,
            version => Some(
                version
                    .as_u64()
                    .and_then(|version| version.try_into().ok())
                    .ok_or_else(|| invalid("`version` is a whole number, as it was shown"))?,
            ),
        };
        let decision = Decision {
            choice,
            by: self.operator.clone(),
            note: self.body["note"]
                .as_str()
                .map(|note| note.chars().take(500).collect()),
            typed: self.body["confirm"].as_str().map(str::to_owned),
            version,
        };
        match self.gateway.0.driver.decide(id, decision) {
            Ok((account, receipt)) => {
                durable(receipt).await?;
                ok(json!({
                    "escalation": id.to_string(),
                    "account": account.as_str(),
                    "choice": choice.word(),
                    "decided_by": self.operator.as_str(),
                }))
            }
            Err(NotDecided::Unseen) => Err(invalid(
                "`version` is missing: the version of the action that was shown to whoever decides",
            )),
            Err(NotDecided::Refused(refused)) => Err(Box::new(refusal(&refused))),
        }
    }

    /// What a person needs to decide (R-ESC-2): the action, where it went, its
    /// attempts, and what the journal says of it. No body, only its digest.
    async fn dossier(&self, row: &ActionRow) -> Given<Value> {
        let mut dossier = described(self.gateway, row).await?;
        dossier["attempts"] = dossier["attempts_made"].take();
        if let Some(object) = dossier.as_object_mut() {
            object.remove("attempts_made");
        }
        let policy = self.gateway.policy();
        let provider = policy.settings.providers.get(&row.requested.provider);
        dossier["upstream"] = json!(provider.map(|provider| provider.base.url()));
        let query = JournalQuery {
            action: Some(row.requested.action),
            page: Page::Forward(None),
            limit: RECORDS_MAX,
            ..JournalQuery::default()
        };
        let reader = self.gateway.0.driver.store().reader_of_all();
        let rows = blocking(move || reader.journal(&query)).await?;
        dossier["records"] = rows.iter().map(journal_row).collect();
        Ok(dossier)
    }
}

fn refusal(refused: &DecisionError) -> Problem {
    match refused {
        DecisionError::NotOpen => {
            let why = "there is no such open question: it was answered, or ran out";
            Problem::of_request(RequestCode::Conflict, why)
        }
        DecisionError::NotOffered { offered } => {
            let words: Vec<&str> = offered.iter().map(|choice| choice.word()).collect();
            let why = format!("this can't be chosen; offered are {}", words.join(", "));
            Problem::of_request(RequestCode::Conflict, why).with("offered", words)
        }
        DecisionError::Changed { version } => {
            let why = "the action has changed since it was shown; look at it again";
            Problem::of_request(RequestCode::Conflict, why).with("version", *version)
        }
        DecisionError::Unconfirmed { text } => {
            let why = format!("this must be confirmed: `confirm` is the text {text:?}");
            Problem::of_request(RequestCode::InvalidRequest, why).with("confirm", *text)
        }
        DecisionError::AuditUnavailable => Problem::of_action(Code::AuditUnavailable),
    }
}
