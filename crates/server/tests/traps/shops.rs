//! Shopify, by GraphQL and by REST.

use rategov_core::cost::{Cost, Dimension};
use rategov_core::observe::{Kind, Meaning};
use rategov_core::time::Span;

use super::account::{Account, at, settings};
use super::{facts, limits, secs};

const QUERY: (&str, &str) = ("POST /admin/api/*/graphql.json", "");

fn throttled(asked: u64, left: u64) -> String {
    format!(
        r#"{{"errors":[{{"message":"Throttled","extensions":{{"code":"THROTTLED"}}}}],
        "extensions":{{"cost":{{"requestedQueryCost":{asked},"actualQueryCost":null,"throttleStatus":{{
        "maximumAvailable":1000.0,"currentlyAvailable":{left}.0,"restoreRate":50.0}}}}}}}}"#
    )
}

/// A refusal comes under a 200, names no wait, and tells all that is needed for one.
#[test]
fn shopify_graphql_refuses_under_a_200() {
    let refused = facts("shopify-graphql", 200, &[], &throttled(202, 118));
    assert_eq!(
        (refused.meaning, refused.retry_after),
        (Meaning::RateLimited, Some(Span::from_millis(1_680)))
    );
    assert_eq!(
        facts("shopify-graphql", 429, &[], "{}").kind,
        Kind::RateLimited
    );
}

/// A query takes what it could cost when it arrives, and gets back what it did not cost.
#[test]
fn shopify_graphql_reserves_what_a_query_could_cost() {
    let charge = settings("shopify-graphql", "").undeclared.policy.charge;
    assert_eq!(
        charge.points,
        rategov_core::estimate::Charging::MostThenRefund
    );
    let quota = "{ dimension: points, limit: 1000, window: 20s, kind: token_bucket, burst: 1000 }";
    let mut account = Account::with_quotas("shopify-graphql", quota);
    let cost = Cost::ONE.with(Dimension::Points, 600);
    let first = account.send_costing(at(100), QUERY, cost);
    assert!(account.blocked(at(100), QUERY, cost).is_some());
    let used = Cost::ONE.with(Dimension::Points, 10);
    account.ledger.used(at(100), first, &used);
    account.answer(at(100), first, (200, &[], "{}"));
    assert_eq!(account.blocked(at(100), QUERY, cost), None, "590 came back");
}

/// The one value tells what is *used* of the limit, not what is left.
#[test]
fn shopify_rest_tells_what_is_used_of_the_limit() {
    let near = facts(
        "shopify-rest",
        200,
        &[("x-shopify-shop-api-call-limit", "32/40")],
        "{}",
    );
    assert_eq!(
        (near.kind, limits(&near)),
        (Kind::NearLimit, vec!["bucket 8/40 -".to_owned()])
    );
}

/// `Retry-After` has a fraction: 2.0 is two seconds and no two milliseconds.
#[test]
fn shopify_rest_a_wait_has_a_fraction() {
    let fields = [
        ("retry-after", "2.0"),
        ("x-shopify-shop-api-call-limit", "40/40"),
    ];
    let body = r#"{"errors":"Exceeded 2 calls per second for api client."}"#;
    let refused = facts("shopify-rest", 429, &fields, body);
    assert_eq!(
        (refused.kind, refused.retry_after),
        (Kind::RateLimited, secs(2))
    );
}
