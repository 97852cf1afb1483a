//! kill -9 at every named point of a write × every fault of its provider.
//!
//! One case: a governor with one point armed takes one POST from a caller that
//! sends it once, and a provider with one fault in its script answers, or does
//! not. The governor dies at its point, if it comes there. It is started again
//! from its data folder with a point armed, may die again, and is started a last
//! time without. Then the provider's own ledger and the governor's interface must
//! tell the same story: at most one effect, one key on every attempt, nothing
//! sent that is not recorded, nothing recorded that is lost, a chain that
//! verifies. `check` has the list. `person` does the same to a person's decision,
//! `crowd` to many writes that share the journal's batches.
//!
//! `cargo xtask test` runs a sample that has every point and every fault;
//! `cargo xtask test --full` runs all cases.

#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

#[path = "../support/mod.rs"]
mod support;

mod check;
mod crowd;
mod fault;
mod life;
mod matrix;
mod person;
mod plan;

use std::collections::BTreeSet;

use fault::Fault;
use matrix::{Case, run};
use plan::Kind;
use rategov_server::fail;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_a_look_up_is_settled_by_itself() {
    run(life::cases(Kind::LookedUp)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_with_a_key_has_one_effect() {
    run(life::cases(Kind::Keyed)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_decides_once() {
    run(person::cases()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_uncertain_write_is_sent_once() {
    run(life::cases(Kind::Uncertain)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_writes_at_once_none_is_lost_and_none_done_twice() {
    run(crowd::cases()).await;
}

#[test]
fn a_sample_has_every_point_and_every_fault() {
    let mut points = BTreeSet::new();
    for kind in Kind::ALL {
        let sample = life::cases(kind).sample();
        for fault in Fault::of(kind) {
            let has = sample.iter().any(|life| life.fault == fault);
            assert!(has, "{kind:?} never meets {fault:?}");
        }
        points.extend(sample.iter().flat_map(Case::armed));
    }
    points.extend(person::cases().sample().iter().flat_map(Case::armed));
    for point in fail::TABLES.iter().copied().flatten() {
        assert!(points.contains(point.name), "{point} is never armed");
    }
}
