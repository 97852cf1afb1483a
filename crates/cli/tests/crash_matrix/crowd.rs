//! Many writes at once, of all kinds: a batch of the journal has records of
//! several, and their governor dies with some queued, some granted, some on the
//! wire and some answered.
//!
//! Worked example: `record_before_queue:40` of 24 writes. Each is requested and
//! granted with two records, so about twenty are on their way when it dies, and
//! the provider has carried out some of these. The next start finds what was
//! committed, and settles each by its own contract.

use std::fmt;

use rategov_server::fail;
use rategov_sim::fake_provider::Handle;
use rategov_store::fail::{
    AFTER_ACK, AFTER_COMMIT_BEFORE_SYNC, AFTER_SYNC_BEFORE_ACK, BEFORE_COMMIT, Point,
};
use tokio::task::JoinSet;

use super::fault;
use super::life::{Operation, Settled, settled};
use super::matrix::{Case, Matrix, Story};
use super::plan::{Kill, Kind};
use super::support::caller::{Heard, Unheard};
use super::support::home::Home;

/// Writes in a case.
const WRITES: usize = 24;
/// The sample has one case in so many.
const STRIDE: usize = 3;

/// The points that every crowd passes often, and the passes that kill.
const DEATHS: [(Point, &[u32]); 9] = [
    (fail::SUBMITTED_BEFORE_RUNNER, &[2, 12, 23]),
    (fail::RECORD_BEFORE_QUEUE, &[5, 20, 40, 60]),
    (BEFORE_COMMIT, &[2, 3, 5, 8]),
    (AFTER_COMMIT_BEFORE_SYNC, &[2, 3, 5, 8]),
    (AFTER_SYNC_BEFORE_ACK, &[2, 3, 5]),
    (AFTER_ACK, &[2, 3, 4]),
    (fail::GRANT_BEFORE_DIAL, &[1, 8, 20]),
    (fail::FIRST_BYTE_WRITTEN, &[1, 8, 20]),
    (fail::REPORTED_BEFORE_COMMIT, &[1, 8, 16]),
];

/// When their governor dies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crowd {
    kill: Kill,
}

impl fmt::Display for Crowd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{WRITES} writes × {}", self.kill)
    }
}

/// Every death.
pub(crate) fn cases() -> Matrix<Crowd> {
    let deaths = DEATHS.into_iter();
    let passes = deaths.flat_map(|(point, passes)| passes.iter().map(move |pass| (point, *pass)));
    Matrix {
        cases: passes
            .map(|(point, pass)| Crowd {
                kill: Kill::at(point, pass),
            })
            .collect(),
        stride: STRIDE,
    }
}

impl Case for Crowd {
    fn armed(&self) -> Vec<&'static str> {
        vec![self.kill.point.name]
    }

    fn is_essential(&self) -> bool {
        false
    }

    async fn live(self) -> Story {
        let provider = fault::crowded().await;
        let home = Home::new(provider.addr);
        let kinds = Kind::ALL.into_iter().cycle().take(WRITES);
        let writes: Vec<Operation> = kinds
            .enumerate()
            .map(|(n, kind)| Operation::numbered(kind, n))
            .collect();
        let mut story = Story::default();

        let armed = home.governor().armed(Some(&self.kill.to_string()));
        let mut governor = armed.up().await;
        let heard = all_at_once(&writes, governor.agents).await;
        for write in &writes {
            settled(&mut governor, &write.key).await;
        }
        story.end_run(governor, self.kill.point.name).await;

        let mut governor = home.governor().up().await;
        for (write, heard) in writes.iter().zip(&heard) {
            let settled = settled(&mut governor, &write.key).await;
            check(
                write,
                heard.as_ref().ok(),
                &settled,
                &provider.handle,
                &mut story,
            );
        }
        story.stop(governor).await;
        story.verify(&home).await;
        story
    }
}

/// What each caller heard, in the order of the writes.
async fn all_at_once(
    writes: &[Operation],
    agents: std::net::SocketAddr,
) -> Vec<Result<Heard, Unheard>> {
    let mut calls = JoinSet::new();
    for (n, write) in writes.iter().enumerate() {
        let write = write.clone();
        calls.spawn(async move { (n, write.ask_at(agents).await) });
    }
    let mut heard = calls.join_all().await;
    heard.sort_by_key(|(n, _)| *n);
    heard.into_iter().map(|(_, heard)| heard).collect()
}

/// One of them, when nothing more moves.
fn check(
    write: &Operation,
    heard: Option<&Heard>,
    settled: &Settled,
    provider: &Handle,
    story: &mut Story,
) {
    let (key, kind) = (&write.key, write.kind);
    let ledger = provider.ledger();
    let effects = ledger.effects_of_operation(key);
    let sent = ledger
        .arrivals()
        .filter(|arrival| arrival.method == "POST" && arrival.target == write.target())
        .count() as u64;
    story.must(effects <= 1, || format!("{key}: {effects} effects"));
    let Settled::As(action) = settled else {
        let unheard = heard
            .and_then(|heard| heard.header("rategov-action"))
            .is_none();
        let unknown = matches!(settled, Settled::Unknown);
        story.must(unknown && unheard && sent == 0, || {
            format!("{key}: sent {sent} times, and lost")
        });
        return;
    };
    let state = action["state"].as_str().unwrap_or_default();
    let told = heard.is_some_and(|heard| heard.status < 300);
    story.must(!told || state == "succeeded", || {
        format!("{key}: its caller got a success, it is {state}")
    });
    let attempts = action["attempts"].as_u64().unwrap_or(0);
    story.must(sent <= attempts, || {
        format!("{key}: {sent} arrived, {attempts} are recorded")
    });
    let true_state = match state {
        "succeeded" => effects == 1,
        "failed_definite" | "cancelled_not_sent" => effects == 0,
        "escalated" => kind != Kind::LookedUp,
        _ => false,
    };
    story.must(true_state, || {
        format!("{key}, {kind:?}: {state} with {effects} effects")
    });
}
