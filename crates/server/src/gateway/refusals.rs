//! What a call is told that never becomes an action.

use rategov_core::action::problem::Code;
use rategov_core::tasks::TaskRefusal;

use super::headers::HeadRefusal;
use super::policy::Policy;
use super::problem::{Problem, RequestCode};
use super::spool::SpoolError;

/// When to come back to a governor that stops: another is started, as a rule.
pub(super) const STOPPED_SECONDS: u64 = 5;

pub(super) fn unknown_provider(policy: &Policy) -> Problem {
    let names: Vec<&str> = policy.routes.providers().map(|it| it.as_str()).collect();
    let detail = "the path names no provider that is configured; it is /{provider}/…";
    Problem::of_request(RequestCode::UnknownProvider, detail).with("providers", names)
}

pub(super) fn head_refusal(refusal: HeadRefusal) -> Problem {
    let code = match refusal {
        HeadRefusal::Target(_) => RequestCode::BadTarget,
        HeadRefusal::Framing(_) => RequestCode::BadFraming,
        HeadRefusal::Websocket => RequestCode::UpgradeRefused,
        HeadRefusal::Connect | HeadRefusal::Trace => RequestCode::MethodNotAllowed,
        HeadRefusal::TooManyFields => RequestCode::HeadTooLarge,
    };
    Problem::of_request(code, refusal.to_string())
}

pub(super) fn spool_refusal(refusal: SpoolError) -> Problem {
    let code = match refusal {
        SpoolError::Full | SpoolError::Disk(_) => RequestCode::SpoolFull,
        SpoolError::Caller | SpoolError::Stalled => RequestCode::BodyCut,
    };
    Problem::of_request(code, refusal.to_string())
}

/// The governor ends before the whole call has come.
pub(super) fn stopping() -> Problem {
    Problem::of_action(Code::ShuttingDown)
        .retry_after(Some(STOPPED_SECONDS))
        .with("sent", false)
}

pub(super) fn task_refusal(refusal: &TaskRefusal) -> Problem {
    match refusal {
        TaskRefusal::Cancelled => Problem::of_action(Code::Cancelled),
        TaskRefusal::DeadlineExceeded => Problem::of_action(Code::DeadlinePassed),
        TaskRefusal::BreakerTripped(constraint) => {
            Problem::of_action(Code::BreakerTripped).because(&constraint.to_string())
        }
        TaskRefusal::AuditUnavailable => {
            Problem::of_action(Code::AuditUnavailable).retry_after(Some(1))
        }
        TaskRefusal::TooMany => Problem::of_action(Code::AgentQueueFull)
            .because("too many tasks are open")
            .retry_after(Some(60)),
    }
}
