//! The other dimension: what the provider does to the first POST that arrives.

use rategov_core::time::Span;
use rategov_sim::fake_provider::{self, Handle, Options, Running};
use rategov_sim::provider::config::{Config, ServiceTime};
use rategov_sim::provider::doors::WrittenDoors;
use rategov_sim::provider::fault::WrittenStep;
use serde_json::{Value, json};

use super::plan::Kind;

/// One way in which a provider misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not.
    Nothing,
    /// It refuses once, and says for how long.
    Refused429,
    /// It resets the connection and has done nothing.
    ResetBeforeEffect,
    /// It resets the connection after the effect.
    ResetAfterEffect,
    /// It closes the connection in order after the effect.
    CloseAfterEffect,
    /// It says nothing more after the effect.
    SilenceAfterEffect,
    /// It says nothing and does nothing.
    SilenceBeforeEffect,
    /// Its answer breaks off in the middle of the body.
    HalfBody,
    /// It fails and has done nothing.
    Error500,
    /// It fails after the effect.
    Error500AfterEffect,
    /// It is overloaded once.
    Busy503,
    /// Nobody listens for a moment.
    ConnectionRefused,
    /// It resets the connection after the effect, and then fails the first look-up.
    BlindLookUp,
    /// It closes the connection while the first look-up reads.
    LostTwice,
}

impl Fault {
    const ALL: [Fault; 14] = [
        Fault::Nothing,
        Fault::Refused429,
        Fault::ResetBeforeEffect,
        Fault::ResetAfterEffect,
        Fault::CloseAfterEffect,
        Fault::SilenceAfterEffect,
        Fault::SilenceBeforeEffect,
        Fault::HalfBody,
        Fault::Error500,
        Fault::Error500AfterEffect,
        Fault::Busy503,
        Fault::ConnectionRefused,
        Fault::BlindLookUp,
        Fault::LostTwice,
    ];

    /// The faults that a kind of write can meet.
    pub(crate) fn of(kind: Kind) -> Vec<Fault> {
        let meets = |fault: &Fault| kind == Kind::LookedUp || *fault != Fault::BlindLookUp;
        Fault::ALL.into_iter().filter(meets).collect()
    }

    fn script(self) -> Vec<Value> {
        let post = |fault: &str| json!({ "calls": "POST *", "fault": fault });
        match self {
            Fault::Nothing | Fault::ConnectionRefused => vec![],
            Fault::Refused429 => vec![json!({
                "calls": "POST *", "status": 429, "headers": { "retry-after-ms": "60" },
            })],
            Fault::ResetBeforeEffect => vec![post("reset_before_effect")],
            Fault::ResetAfterEffect => vec![post("reset_after_effect")],
            Fault::CloseAfterEffect => vec![post("close_after_effect")],
            Fault::SilenceAfterEffect => vec![post("silence_after_effect")],
            Fault::SilenceBeforeEffect => vec![post("silence_before_effect")],
            Fault::HalfBody => vec![post("half_body")],
            Fault::Error500 => vec![json!({ "calls": "POST *", "status": 500 })],
            Fault::Error500AfterEffect => {
                vec![json!({ "calls": "POST *", "status": 500, "effect": "applied" })]
            }
            Fault::Busy503 => vec![json!({ "calls": "POST *", "status": 503 })],
            Fault::BlindLookUp => vec![
                post("reset_after_effect"),
                json!({ "calls": "GET *", "status": 500 }),
            ],
            Fault::LostTwice => vec![
                post("reset_before_effect"),
                json!({ "calls": "POST *", "fault": "close_after_effect" }),
            ],
        }
    }
}

/// A provider with a fault in its script. Its work takes a moment, and a look-up
/// sees it a moment later still: a look-up that comes early finds nothing.
pub(crate) async fn provider(fault: Fault) -> Running {
    let config = Config {
        service: ServiceTime::constant(Span::from_millis(30)),
        lag: Span::from_millis(20),
        ..Config::default()
    };
    let options = Options {
        control: None,
        ..Options::new(config)
    };
    let running = fake_provider::serve(options).await.expect("a free port");
    for step in fault.script() {
        push(&running, step);
    }
    running
}

/// A provider to which many writes come at once, of which some meet a fault.
pub(crate) async fn crowded() -> Running {
    let running = provider(Fault::Nothing).await;
    for fault in [
        Fault::ResetAfterEffect,
        Fault::Error500AfterEffect,
        Fault::CloseAfterEffect,
        Fault::Busy503,
        Fault::ResetBeforeEffect,
        Fault::HalfBody,
        Fault::SilenceAfterEffect,
    ] {
        for mut step in fault.script() {
            // Two calls between two faults are served.
            step["skip"] = json!(2);
            push(&running, step);
        }
    }
    running
}

fn push(running: &Running, step: Value) {
    let written: WrittenStep = serde_json::from_value(step).expect("the keys are known");
    let step = written.step().unwrap_or_else(|cause| panic!("{cause}"));
    running
        .handle
        .push_steps(vec![step])
        .expect("a short script");
}

/// What happens to its doors just before the call comes in.
pub(crate) fn shut_the_door(fault: Fault, provider: &Handle) {
    if fault == Fault::ConnectionRefused {
        let refuse_ms = Some(250);
        provider.change_doors(WrittenDoors {
            refuse_ms,
            ..WrittenDoors::default()
        });
    }
}
