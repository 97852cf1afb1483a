//! `audit show`, `verify` and `export`: the journal, read without the governor.

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use rategov_audit::export::Records;
use rategov_audit::report::{Report, Verdict};
use rategov_audit::verify::{Expect, verify};
use rategov_core::event::Event;
use rategov_core::id::{Account, ActionId, Agent, Task};
use rategov_server::audit_text;
use rategov_store::{Error, JournalQuery, JournalRow, Page, Reader};
use serde_json::json;

use crate::args::{Audit, AuditShow, Place};
use crate::output;

pub(crate) fn run(place: &Place, audit: Audit, as_json: bool) -> anyhow::Result<ExitCode> {
    match audit {
        Audit::Show(show) => self::show(place, &show, as_json),
        Audit::Verify { file } => {
            let report = match file {
                Some(file) => {
                    let opened = match std::fs::File::open(&file) {
                        Ok(opened) => opened,
                        Err(cause) => {
                            let why = format!("can't open {}: {cause}", file.display());
                            return Ok(nothing_to_verify(&anyhow!(why)));
                        }
                    };
                    let mut records = Records::new(BufReader::new(opened));
                    let report = verify(&mut records, &Expect::default());
                    if let Some(error) = records.io_error() {
                        return Err(anyhow!(
                            "{} can't be read to its end: {error}",
                            file.display()
                        ));
                    }
                    report
                }
                None => match Reader::open(&place.data_folder()) {
                    Ok(reader) => reader.verify(&Expect::default())?,
                    Err(cause @ Error::File { .. }) => {
                        let hint = "name the governor's folder with --data";
                        return Ok(nothing_to_verify(&anyhow!("{cause}; hint: {hint}")));
                    }
                    Err(cause) => return Err(cause.into()),
                },
            };
            Ok(say(&report, as_json))
        }
        Audit::Export => {
            let reader = Reader::open(&place.data_folder())?;
            let mut out = std::io::stdout().lock();
            let records = reader.export(&mut out)?;
            out.flush()?;
            output::note(&format!("{records} records"));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// What can't be opened proves nothing, and is not called changed.
fn nothing_to_verify(why: &anyhow::Error) -> ExitCode {
    output::complain(why);
    ExitCode::from(Verdict::Unverifiable.exit_code())
}

fn say(report: &Report, as_json: bool) -> ExitCode {
    let verdict = report.verdict();
    let head = report.head.map(|head| head.hash.to_string());
    let finding = report.finding.as_ref().map(ToString::to_string);
    if as_json {
        output::json(&json!({
            "verdict": verdict.word(),
            "records": report.records,
            "head": head,
            "anchored_to": report.anchored_to,
            "finding": finding,
        }));
    } else {
        output::line(&format!("{}: {} records", verdict.word(), report.records));
        if let Some(head) = head {
            output::line(&format!("head {head}"));
        }
        match report.anchored_to {
            Some(size) => output::line(&format!("anchored to record {size}")),
            None => output::line("not anchored: a cut tail or an older copy can't be noticed"),
        }
        if let Some(finding) = finding {
            output::line(&format!(
                "first bad record: {}",
                output::printable(&finding)
            ));
        }
    }
    ExitCode::from(verdict.exit_code())
}

fn show(place: &Place, show: &AuditShow, as_json: bool) -> anyhow::Result<ExitCode> {
    let reader = Reader::open(&place.data_folder())?;
    let account = show
        .account
        .as_deref()
        .map(Account::new)
        .transpose()
        .context("--account")?;
    let action = match &show.action {
        None => None,
        Some(name) => Some(find(&reader, name, account.as_ref())?),
    };
    let query = JournalQuery {
        action,
        task: show
            .task
            .as_deref()
            .map(Task::new)
            .transpose()
            .context("--task")?,
        agent: show
            .agent
            .as_deref()
            .map(Agent::new)
            .transpose()
            .context("--agent")?,
        account,
        page: Page::Backward(None),
        limit: u32::try_from(show.limit).unwrap_or(u32::MAX),
        ..JournalQuery::default()
    };
    let mut rows = reader.journal(&query)?;
    rows.reverse();
    let mut keys: BTreeMap<ActionId, Option<String>> = BTreeMap::new();
    for row in &rows {
        let Some(fact) = &row.fact else {
            if as_json {
                output::line(&record(row, None).to_string());
            } else {
                output::line(&format!("{} content removed", row.event));
            }
            continue;
        };
        if let Event::ActionRequested(requested) = &fact.event {
            keys.insert(requested.action, requested.key.clone());
        }
        let key = match row.action {
            None => None,
            Some(id) => match keys.get(&id) {
                Some(key) => key.clone(),
                None => {
                    let key = reader
                        .action(id)?
                        .and_then(|it| it.row.requested.key.clone());
                    keys.insert(id, key.clone());
                    key
                }
            },
        };
        let text = output::printable(&audit_text::line_with_key(fact, key.as_deref()));
        if as_json {
            output::line(&record(row, Some(&text)).to_string());
        } else {
            output::line(&text);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A record as JSON; `text` is null if its content was removed.
fn record(row: &JournalRow, text: Option<&str>) -> serde_json::Value {
    json!({
        "seq": row.seq.0,
        "event": row.event,
        "account": row.account,
        "action": row.action.map(|id| id.to_string()),
        "agent": row.agent,
        "task": row.task,
        "text": text,
    })
}

fn find(reader: &Reader, name: &str, account: Option<&Account>) -> anyhow::Result<ActionId> {
    if let Some(it) = reader.actions_named(name, account)?.into_iter().next() {
        return Ok(it.row.requested.action);
    }
    // The journal outlives the row of an action.
    ActionId::parse(name).ok_or_else(|| {
        anyhow!(
            "no action has the id or key {name:?}\nhint: `rategov audit show` lists all of them"
        )
    })
}
