//! Listeners, store, and limits that contradict each other.

use super::check;

#[test]
fn an_address_has_a_port() {
    insta::assert_snapshot!(check("listen: { agents: localhost }"), @r"
    rategov.yaml:1:19: `localhost` is not an address
      hint: write `127.0.0.1:7878` or `[::1]:7878`
    ");
}

#[test]
fn agents_and_operators_are_kept_apart() {
    insta::assert_snapshot!(check("
listen: { agents: 127.0.0.1:7000, operators: 127.0.0.1:7000 }
"), @r"
    rategov.yaml:1:46: agents and operators can't share a listener: an agent must not reach the operators' API
      hint: use two ports
    ");
}

#[test]
fn a_host_is_a_name() {
    insta::assert_snapshot!(check("listen: { operator_hosts: [https://governor.example.com/] }"), @r"
    rategov.yaml:1:28: `https://governor.example.com/` is not a host name
      hint: write `governor.example.com`, without scheme or path
    ");
}

#[test]
fn a_store_of_a_later_version() {
    insta::assert_snapshot!(check("store: postgres://user:canary@host/db"), @r"
    rategov.yaml:1:8: a PostgreSQL store is not available in this version
      hint: use `sqlite:rategov-data`
    ");
}

#[test]
fn a_store_that_does_not_exist() {
    insta::assert_snapshot!(check("store: mysql://user:canary@host/db"), @r"
    rategov.yaml:1:8: this is no store
      hint: write `sqlite:FOLDER`
    ");
}

#[test]
fn a_spool_holds_at_least_one_body() {
    insta::assert_snapshot!(check("
spool: { memory: 1MB, disk: 1MB }
max_replay_body: 4MB
"), @r"
    rategov.yaml:2:18: `max_replay_body` is more than the whole spool holds
      hint: raise `spool.disk`, or lower `max_replay_body`
    ");
}

#[test]
fn the_first_step_is_not_beyond_the_longest() {
    insta::assert_snapshot!(check("backoff: { base: 2m, cap: 60s }"), @r"
    rategov.yaml:1:18: `base` (120s) is longer than `cap` (60s)
      hint: `base` is the first step, `cap` the longest
    ");
}

#[test]
fn the_smallest_delay_is_not_beyond_the_longest() {
    insta::assert_snapshot!(check("backoff: { cap: 2s, minimum: 3s }"), @r"rategov.yaml:1:30: `minimum` (3s) is longer than `cap` (2s)");
}

#[test]
fn no_call_without_an_attempt() {
    insta::assert_snapshot!(check("request_classes: { read: { max_attempts: 0 } }"), @r"
    rategov.yaml:1:42: the first send is an attempt
      hint: `max_attempts: 1` sends once and never again
    ");
}

#[test]
fn an_uncertain_write_is_repeated_after_definite_refusals_only() {
    insta::assert_snapshot!(check("
request_classes:
  uncertain_write: { max_attempts: 2, max_wait_seconds: 30, retry_statuses: [429, 502] }
"), @r"
    rategov.yaml:2:83: a write that nothing makes repeatable is never repeated after 502
      hint: only 429 and 503 can be definite refusals; for more give the endpoint a key or a look-up
    ");
}

#[test]
fn statuses_that_no_attempt_can_use() {
    insta::assert_snapshot!(check("
request_classes:
  uncertain_write: { max_attempts: 1, retry_statuses: [429] }
"), @r"
    rategov.yaml:2:55: these can't be used: `max_attempts: 1` allows no repeat
      hint: raise `max_attempts`, or write `retry_statuses: []`
    ");
}

#[test]
fn attempts_that_no_wait_allows() {
    insta::assert_snapshot!(check("
request_classes: { read: { max_attempts: 3, max_wait_seconds: 0 } }
"), @r"
    rategov.yaml:1:63: 3 attempts can't be used: a repeat waits at least 250ms
      hint: raise `max_wait_seconds`, or write `max_attempts: 1`
    ");
}

#[test]
fn success_is_no_reason_to_repeat() {
    insta::assert_snapshot!(check("
request_classes: { read: { retry_statuses: [200, 429] } }
"), @r"
    rategov.yaml:1:45: 200 is not the status of a failure
      hint: 400 to 599
    ");
}

#[test]
fn only_generations_may_be_billed_twice() {
    insta::assert_snapshot!(check("
request_classes: { idempotent_write: { ambiguous_retry: true } }
"), @r"
    rategov.yaml:1:57: only generations may be repeated when nobody knows whether they ran
      hint: reads are repeated anyway; writes need a key or a look-up
    ");
}

#[test]
fn floors_share_one_quota() {
    insta::assert_snapshot!(check("
priorities: { normal: { floor: 60% }, background: { floor: 50% } }
"), @r"
    rategov.yaml:1:1: the floors add up to 110%, which is more than there is
      hint: a few percent each keep a rank from starving
    ");
}

#[test]
fn slots_are_kept_only_where_there_are_slots() {
    insta::assert_snapshot!(check("
shared_scope: { reserve_interactive: 1 }
"), @r"
    rategov.yaml:1:38: slots can be kept only where their number is known
      hint: set `max_concurrent_requests` beside it
    ");
}

#[test]
fn a_reserve_leaves_slots_for_the_rest() {
    insta::assert_snapshot!(check("
shared_scope: { max_concurrent_requests: 2, reserve_interactive: 2 }
"), @r"
    rategov.yaml:1:66: 2 of 2 slots for interactive work leave none for the rest
      hint: keep at least one, or lower `reserve_interactive`
    ");
}

#[test]
fn a_headroom_leaves_a_quota() {
    insta::assert_snapshot!(check("shared_scope: { headroom: 100% }"), @r"
    rategov.yaml:1:27: nothing of the quota would be left
      hint: a few percent is plenty; the margin for jitter comes on top
    ");
}

#[test]
fn a_ratio_is_a_part() {
    insta::assert_snapshot!(check("shared_scope: { retry_budget: { ratio: 10 } }"), @r"
    rategov.yaml:1:40: the ratio of repeats to first attempts is from 0 to 1
      hint: `0.1` allows one repeat for ten first attempts
    ");
}

#[test]
fn one_agent_waits_within_the_account() {
    insta::assert_snapshot!(check("
shared_scope: { max_delayed_requests: 10, max_delayed_requests_per_agent: 20 }
"), @r"rategov.yaml:1:75: one agent can't have more calls waiting than the account (10)");
}

#[test]
fn a_breaker_needs_a_failure() {
    insta::assert_snapshot!(check("breaker: { failures: 0 }"), @r"
    rategov.yaml:1:22: a path can't stop before its first failure
      hint: at least 1; a large number switches the breaker off
    ");
}

#[test]
fn a_threshold_is_a_part_of_the_quota() {
    insta::assert_snapshot!(check("predict: { threshold: 120% }"), @r"rategov.yaml:1:23: the threshold is a share of the quota, above 0% and up to 100%");
}
