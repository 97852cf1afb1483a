//! Microsoft Graph and SharePoint.

use rategov_core::cost::{Cost, Dimension};
use rategov_core::estimate::Rejects;
use rategov_core::observe::{Kind, Meaning, Reach};
use rategov_core::time::Span;

use super::account::{Account, at, settings};
use super::{check, facts, limits, secs};

const READ: (&str, &str) = ("GET /*/users/{id}", "");

/// A member of a batch is refused under the 200 of the whole, with a wait of its own.
#[test]
fn graph_a_member_is_refused_inside_a_200() {
    let body = r#"{"responses":[{"id":"1","status":200,"body":{}},
        {"id":"2","status":429,"headers":{"retry-after":"13"},"body":{"error":{"code":"TooManyRequests"}}}]}"#;
    let batch = facts("microsoft-graph", 200, &[], body);
    assert_eq!(
        (batch.kind, batch.meaning, batch.retry_after),
        (Kind::PartlyLimited, Meaning::Ok, secs(13))
    );
    let fine = r#"{"responses":[{"id":"1","status":200},{"id":"2","status":404}]}"#;
    check("microsoft-graph", 200, &[], fine, Kind::Ok);
}

/// The refused member may stand behind hundreds of kilobytes of the others.
#[test]
fn graph_a_refused_member_stands_anywhere_in_a_large_batch() {
    let mail = "m".repeat(20 << 10);
    let fine = format!(r#"{{"id":"1","status":200,"body":{{"value":"{mail}"}}}},"#).repeat(19);
    let body = format!(
        r#"{{"responses":[{fine}{{"id":"20","status":429,"headers":{{"Retry-After":"7"}}}}]}}"#
    );
    assert!(300 << 10 < body.len());
    let batch = facts("microsoft-graph", 200, &[], &body);
    assert_eq!(
        (batch.kind, batch.retry_after),
        (Kind::PartlyLimited, secs(7))
    );
}

/// A call that was refused counts like any other, so that going on makes it longer.
#[test]
fn graph_a_refused_call_counts_as_well() {
    let charge = settings("microsoft-graph", "").undeclared.policy.charge;
    assert_eq!(charge.rejects, Rejects::Counted);
    let quota = "{ dimension: points, limit: 100, window: 60s, kind: sliding }";
    let left = |provider: &'static str| {
        let mut account = Account::with_quotas(provider, quota);
        let cost = Cost::ONE.with(Dimension::Points, 80);
        let permit = account.send_costing(at(100), READ, cost);
        account.answer(at(101), permit, (404, &[], "{}"));
        account.blocked(at(101), READ, cost).is_none()
    };
    assert!(
        !left("microsoft-graph"),
        "the 80 of a failed call are spent"
    );
    assert!(left("openai"), "where they are free they come back");
}

/// While it is refused a crowd makes hardly a call, for each would count.
#[test]
fn graph_a_crowd_does_not_go_on_while_refused() {
    let mut account = Account::of("microsoft-graph");
    let says = (429, &[("retry-after", "10")][..], "{}");
    let sent = account.reach_a_wall(at(1), Span::from_secs(600), READ, says);
    assert!((1..=60).contains(&sent), "{sent}");
}

/// Only the share of a limit is told, from 80 %, and it goes beyond the whole.
#[test]
fn graph_only_the_share_of_a_limit_is_told() {
    for (share, kind) in [
        ("0.79", Kind::Ok),
        ("0.85", Kind::NearLimit),
        ("1.8", Kind::NearLimit),
    ] {
        let told = facts(
            "microsoft-graph",
            200,
            &[("x-ms-throttle-limit-percentage", share)],
            "{}",
        );
        assert_eq!((told.kind, limits(&told)), (kind, vec![]), "{share}");
    }
}

/// A 503 is an overload that passes; nothing tells it from an app that was blocked, so
/// its wait is kept and nothing is learnt from it.
#[test]
fn sharepoint_a_503_is_an_overload_or_a_block() {
    let busy = facts("sharepoint", 503, &[("retry-after", "120")], "");
    assert_eq!((busy.kind, busy.retry_after), (Kind::Overloaded, secs(120)));
    let fields = [
        ("ratelimit-limit", "1200"),
        ("ratelimit-remaining", "120"),
        ("ratelimit-reset", "5"),
    ];
    let told = facts("sharepoint", 200, &fields, "");
    assert_eq!(
        limits(&told),
        ["resource_units 120/1200 5s"],
        "seconds from now"
    );
    assert_eq!(told.readings[0].reach, Reach::Account);
}
