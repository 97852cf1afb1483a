//! The schema of a record, version 1: every event, field by field.
//!
//! The fields of each map stand in the order in which deterministic CBOR (RFC
//! 8949, section 4.2.1) sorts their names: shorter names first, then by
//! letters. A test checks it. The mirrors take the core's types apart without
//! `..`, so a field added there does not compile until it has its place here.

use std::sync::Arc;

use rategov_core::action::budget::Used;
use rategov_core::action::outcome::Certainty;
use rategov_core::cost::{Cost, Dimension};
use rategov_core::event::{CancelledBy, Decider, Event, Found, Requested, ScopeChange};
use rategov_core::id::{
    Account, ActionId, Agent, Credential, Endpoint, EscalationId, Fingerprint, Operator, Provider,
    Scope, Task,
};
use rategov_core::record::{ScopeRow, ToldRow};
use rategov_core::time::{Moment, Span};
use rategov_core::word::{Cause, Choice, Class, Mode, Outcome, Priority, State, Trigger};
use serde::{Deserialize, Serialize};

use super::CodecError;
use super::wire::{Wire, mirror_enum, mirror_struct};
use crate::entry::Source;

mirror_enum! { Source as SourceForm {
    Account(account: Account),
    Tasks,
    Governor,
} }

mirror_struct! { ToldRow as ToldRowForm {
    left: Option<u64>,
    name: String,
    burst: Option<u64>,
    limit: u64,
    named: bool,
    window: Span,
    reset_at: Option<Moment>,
    dimension: Dimension,
} }

mirror_struct! { Used as UsedForm {
    waited: Span,
    attempts: u16,
} }

mirror_struct! { Requested as RequestedForm {
    key: Option<String>,
    goal: Option<String>,
    path: String,
    task: Option<Task>,
    agent: Agent,
    class: Class,
    model: Option<String>,
    action: ActionId,
    method: String,
    parent: Option<ActionId>,
    account: Account,
    earlier: Option<Used>,
    deadline: Moment,
    detached: bool,
    endpoint: Endpoint,
    priority: Priority,
    provider: Provider,
    credential: Credential,
    replayable: bool,
    #[serde(default)]
    task_stops: u32,
    fingerprint: Fingerprint,
    authorised_by: String,
    payload_bytes: u64,
    payload_digest: [u8; 32],
} }

mirror_enum! { CancelledBy as CancelledByForm {
    Task,
    Agent(agent: Agent),
    Caller,
    Operator(operator: Operator),
} }

mirror_enum! { Decider as DeciderForm {
    Operator(operator: Operator),
    Expiry,
} }

mirror_struct! { ScopeRow as ScopeRowForm {
    mode: Mode,
    #[serde(default)]
    told: Vec<ToldRow>,
    epoch: u64,
    limit: Option<u64>,
    scope: Scope,
    source: String,
    window: Option<Span>,
    spacing: Option<Span>,
    reset_at: Option<Moment>,
    #[serde(default)]
    exhausted: bool,
    remaining: Option<u64>,
    hold_level: u32,
    misdeclared: bool,
    max_concurrent: Option<u32>,
    next_allowed_at: Option<Moment>,
} }

mirror_struct! { ScopeChange as ScopeChangeForm {
    to: Mode,
    why: String,
    from: Mode,
    saved: ScopeRow,
    scope: Scope,
    status: Option<u16>,
} }

mirror_enum! { Event as EventForm {
    ActionRequested(requested: Arc<Requested>),
    ActionSent {
        cost: Cost,
        cause: Cause,
        action: ActionId,
        scopes: Vec<Scope>,
        waited: Span,
        attempt: u16,
        key_safe_until: Option<Moment>,
    },
    LookupSent {
        cost: Cost,
        action: ActionId,
        lookup: u16,
        scopes: Vec<Scope>,
    },
    ActionResult {
        scope: Option<Scope>,
        action: ActionId,
        status: Option<u16>,
        attempt: u16,
        outcome: Outcome,
        sent_at: Option<Moment>,
        certainty: Certainty,
        error_code: Option<String>,
        retry_after: Option<Span>,
        operation_id: Option<String>,
        bytes_written: u64,
    },
    Settled {
        cost: Cost,
        action: ActionId,
        attempt: u16,
        estimated: bool,
    },
    RetryScheduled {
        due: Moment,
        why: String,
        action: ActionId,
        waited: Span,
        attempt: u16,
    },
    ReconciliationRequired {
        why: String,
        action: ActionId,
        not_before: Moment,
    },
    LookedUp {
        next: Option<Moment>,
        found: Found,
        action: ActionId,
        lookup: u16,
        status: Option<u16>,
        operation_id: Option<String>,
    },
    Reconciled {
        by: String,
        action: ActionId,
        applied: bool,
        operation_id: Option<String>,
    },
    Escalated {
        why: String,
        scope: Scope,
        action: Option<ActionId>,
        choices: Vec<Choice>,
        expires: Moment,
        trigger: Trigger,
        version: u32,
        escalation: EscalationId,
    },
    Decided {
        by: Decider,
        note: Option<String>,
        action: Option<ActionId>,
        choice: Choice,
        escalation: EscalationId,
    },
    Joined {
        by: String,
        action: ActionId,
    },
    Cancelled {
        by: CancelledBy,
        action: ActionId,
    },
    Terminal {
        code: String,
        state: State,
        action: ActionId,
        waited: Span,
        attempts: u16,
    },
    TurnedAway {
        code: String,
        agent: Agent,
        scope: Scope,
        retry_at: Option<Moment>,
    },
    #[serde(rename = "scope_changed")]
    Scope(change: Box<ScopeChange>),
    Resumed {
        by: Operator,
        scope: Scope,
    },
    TaskOpened {
        goal: Option<String>,
        task: Task,
        agent: Agent,
        #[serde(default)]
        stops: u32,
        deadline: Moment,
    },
    TaskCharged {
        task: Task,
        agent: Agent,
        waited: Span,
        retries: u32,
    },
    TaskCancelled {
        by: CancelledBy,
        task: Task,
        agent: Agent,
    },
    Started {
        version: String,
        policy_digest: [u8; 32],
    },
    PolicyChanged {
        policy_digest: [u8; 32],
    },
} }
