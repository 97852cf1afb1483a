//! Each fault, and what a caller sees of it and when.

use serde_json::json;

use super::*;
use crate::provider::fault::Effect;
use crate::provider::ledger::ArrivalNo;

fn delivery(fault: Option<&Fault>) -> Delivery<'_> {
    Delivery {
        wait: Span::from_millis(300),
        held: false,
        lasts: None,
        fault,
        head_only: false,
    }
}

fn ticket() -> Ticket {
    Ticket {
        no: ArrivalNo(1),
        epoch: 0,
    }
}

fn stream() -> Reply {
    let events = ["a\n\n", "b\n\n", "c\n\n"].map(str::to_owned).to_vec();
    Reply::events(events, Span::from_millis(10))
}

fn plan(reply: Reply, fault: Option<&Fault>) -> Plan {
    Plan::new(ticket(), reply, &delivery(fault))
}

/// What a caller sees: status or 0, body, whether it is whole, the ending.
fn check(reply: Reply, fault: Fault, status: u16, body: &str, whole: bool, after: After) {
    let seen = plan(reply, Some(&fault)).seen();
    let word = fault.word();
    assert_eq!(seen.head.map_or(0, |h| h.status), status, "{word}");
    assert_eq!(seen.body, body.as_bytes(), "{word}");
    assert_eq!((seen.whole, seen.after), (whole, after), "{word}");
}

#[test]
fn each_fault_shows_what_its_name_says() {
    use Ending::{Fin, Rst, Silence};
    let json = || Reply::json(200, &json!({"a": 1}));
    let effect = Effect::Applied;
    for ending in [Fin, Rst, Silence] {
        let end = After::End(ending);
        check(
            json(),
            Fault::NoAnswer { effect, ending },
            0,
            "",
            false,
            end,
        );
        check(
            json(),
            Fault::InterimOnly { effect, ending },
            0,
            "",
            false,
            end,
        );
        for framing in [Framing::Length, Framing::Chunked, Framing::UntilClose] {
            check(
                json(),
                Fault::HalfBody { framing, ending },
                200,
                "{\"a",
                false,
                end,
            );
        }
        let cut = Fault::StreamCut { after: 2, ending };
        check(stream(), cut, 200, "a\n\nb\n\n", false, end);
    }
    check(
        json(),
        Fault::Malformed { effect },
        0,
        "",
        false,
        After::End(Fin),
    );
    check(
        json(),
        Fault::CloseAfter,
        200,
        "{\"a\":1}",
        true,
        After::End(Fin),
    );
    let pause = Span::from_millis(5);
    check(
        json(),
        Fault::SlowBody { pieces: 3, pause },
        200,
        "{\"a\":1}",
        true,
        After::Keep,
    );
    let error = Fault::ErrorEvent {
        after: 1,
        kind: "x".to_owned(),
    };
    let broken = broken_off(stream(), 1, "event: error\n\n".to_owned());
    check(
        broken,
        error,
        200,
        "a\n\nevent: error\n\n",
        true,
        After::Keep,
    );
}

#[test]
fn the_moments_of_an_answer_follow_from_its_waits() {
    let seen = plan(stream(), None).seen();
    assert_eq!(
        (seen.first, seen.last),
        (Span::from_millis(300), Span::from_millis(320))
    );
    let slow = Fault::SlowBody {
        pieces: 3,
        pause: Span::from_millis(5),
    };
    let seen = plan(Reply::json(200, &json!([1, 2])), Some(&slow)).seen();
    assert_eq!(seen.last, Span::from_millis(315));
    let lasting = Delivery {
        lasts: Some(Span::from_secs(3)),
        ..delivery(None)
    };
    let seen = Plan::new(ticket(), stream(), &lasting).seen();
    assert_eq!(seen.last, Span::from_millis(3_300));
}

#[test]
fn the_answer_to_a_head_announces_a_length_and_writes_no_body() {
    let reply = Reply::json(200, &json!({"a": 1}));
    let plan = Plan::new(
        ticket(),
        reply,
        &Delivery {
            head_only: true,
            ..delivery(None)
        },
    );
    let seen = plan.seen();
    assert_eq!(seen.head.map(|h| h.marked), Some(Marked::Length(7)));
    assert!(seen.whole && seen.body.is_empty());
}
