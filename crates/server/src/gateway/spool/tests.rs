//! What a spool keeps, gives back, and refuses.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// A caller's body, frame by frame.
struct Caller(VecDeque<Move>);

enum Move {
    Data(Vec<u8>),
    Trailers(&'static str),
    Break,
    Stall,
}

impl Body for Caller {
    type Data = Bytes;
    type Error = &'static str;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
        Poll::Ready(match self.0.pop_front() {
            None => None,
            Some(Move::Data(bytes)) => Some(Ok(Frame::data(bytes.into()))),
            Some(Move::Trailers(value)) => {
                let mut map = HeaderMap::new();
                map.insert("x-sum", HeaderValue::from_static(value));
                Some(Ok(Frame::trailers(map)))
            }
            Some(Move::Break) => Some(Err("gone")),
            Some(Move::Stall) => {
                self.0.push_front(Move::Stall);
                return Poll::Pending;
            }
        })
    }
}

fn caller(moves: impl IntoIterator<Item = Move>) -> Caller {
    Caller(moves.into_iter().collect())
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 31 + n / 251) as u8).collect()
}

fn small() -> SpoolLimits {
    SpoolLimits {
        max_replay: 1 << 20,
        ..SpoolLimits::default()
    }
}

async fn read(body: Outgoing) -> (Vec<u8>, Option<HeaderMap>) {
    let collected = body.collect().await.unwrap();
    let trailers = collected.trailers().cloned();
    (collected.to_bytes().to_vec(), trailers)
}

#[tokio::test]
async fn a_body_comes_back_byte_for_byte_as_often_as_asked() {
    let budget = SpoolBudget::default();
    let moves = [
        Move::Data(bytes(3)),
        Move::Data(vec![]),
        Move::Data(bytes(70_000)),
    ];
    let spool = Spool::take(caller(moves), Framing::Length(70_003), &small(), &budget)
        .await
        .unwrap();
    let expected = [bytes(3), bytes(70_000)].concat();
    assert_eq!(spool.replay(), Replay::Whole);
    assert_eq!(spool.read(), 70_003);
    assert_eq!(spool.digest()[..], Sha256::digest(&expected)[..]);
    for _ in 0..3 {
        let body = spool.body().unwrap();
        assert_eq!(body.size_hint().exact(), Some(70_003));
        assert_eq!(read(body).await.0, expected);
    }
    assert_eq!(spool.contents(70_003).await.unwrap().unwrap(), expected);
    assert_eq!(spool.contents(70_002).await.unwrap(), None);
}

#[tokio::test]
async fn framing_survives_also_where_there_is_nothing_to_frame() {
    let budget = SpoolBudget::default();
    let take = |framing| {
        let budget = budget.clone();
        async move {
            Spool::take(caller([]), framing, &small(), &budget)
                .await
                .unwrap()
        }
    };
    let none = take(Framing::None).await.body().unwrap();
    assert!(none.is_end_stream());
    let zero = take(Framing::Length(0)).await.body().unwrap();
    assert!(zero.is_end_stream());
    let chunked = take(Framing::Chunked).await.body().unwrap();
    assert!(
        !chunked.is_end_stream(),
        "an empty chunked body still has its last chunk"
    );
    assert_eq!(chunked.size_hint().exact(), None);
    assert_eq!(read(chunked).await.0, b"");
}

#[tokio::test]
async fn trailers_follow_every_copy() {
    let moves = [Move::Data(bytes(5)), Move::Trailers("1")];
    let budget = SpoolBudget::default();
    let spool = Spool::take(caller(moves), Framing::Chunked, &small(), &budget)
        .await
        .unwrap();
    for _ in 0..2 {
        let (data, trailers) = read(spool.body().unwrap()).await;
        assert_eq!(data, bytes(5));
        assert_eq!(trailers.unwrap()["x-sum"], "1");
    }
}

#[tokio::test]
async fn memory_that_is_full_spills_to_a_file_without_a_name() {
    let directory = tempfile::tempdir().unwrap();
    let limits = SpoolLimits {
        directory: directory.path().to_owned(),
        ..small()
    };
    let budget = SpoolBudget::new(100_000, 1 << 20);
    let moves = (0..50).map(|_| Move::Data(bytes(10_000)));
    let spool = Spool::take(caller(moves), Framing::Chunked, &limits, &budget)
        .await
        .unwrap();
    assert!(budget.memory_used() <= 100_000);
    assert_eq!(budget.disk_used(), 500_000 - (64 << 10));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    let expected: Vec<u8> = (0..50).flat_map(|_| bytes(10_000)).collect();
    // Two readers at once don't disturb each other.
    let (one, two) = tokio::join!(read(spool.body().unwrap()), read(spool.body().unwrap()));
    assert!(one.0 == expected && two.0 == expected);
    assert!(spool.contents(1 << 20).await.unwrap().unwrap() == expected);
    let body = spool.body().unwrap();
    drop(spool);
    assert!(budget.disk_used() > 0, "a body on its way keeps its budget");
    drop(body);
    assert_eq!((budget.memory_used(), budget.disk_used()), (0, 0));
}

#[tokio::test]
async fn one_large_body_leaves_memory_to_the_small_ones() {
    let budget = SpoolBudget::default();
    let moves = (0..8).map(|_| Move::Data(bytes(1 << 20)));
    let limits = SpoolLimits {
        max_replay: 8 << 20,
        ..SpoolLimits::default()
    };
    let spool = Spool::take(caller(moves), Framing::Length(8 << 20), &limits, &budget);
    let spool = spool.await.unwrap();
    assert_eq!(spool.replay(), Replay::Whole);
    assert_eq!(
        (budget.memory_used(), budget.disk_used()),
        (4 << 20, 4 << 20)
    );
}

#[tokio::test]
async fn a_full_budget_is_a_refusal_and_takes_nothing() {
    let budget = SpoolBudget::new(100, 200);
    let take = |len: usize| {
        let budget = budget.clone();
        async move {
            let framing = Framing::Length(len as u64);
            Spool::take(caller([Move::Data(bytes(len))]), framing, &small(), &budget).await
        }
    };
    let held = take(60).await.unwrap();
    assert_eq!(budget.memory_used(), 60);
    let on_disk = take(150).await.unwrap();
    assert_eq!(budget.disk_used(), 150);
    assert_eq!(take(51).await.map(drop), Err(SpoolError::Full));
    assert_eq!((budget.memory_used(), budget.disk_used()), (60, 150));
    drop((held, on_disk));
    assert_eq!((budget.memory_used(), budget.disk_used()), (0, 0));
    assert!(take(100).await.is_ok());
}

#[tokio::test]
async fn a_body_above_the_bound_streams_once() {
    let budget = SpoolBudget::default();
    let limits = SpoolLimits {
        max_replay: 100_000,
        ..SpoolLimits::default()
    };
    let all: Vec<u8> = (0..20).flat_map(|_| bytes(30_000)).collect();
    for (framing, read_ahead) in [
        (Framing::Chunked, 120_000),
        (Framing::Length(600_000), 90_000),
    ] {
        let moves = (0..20).map(|_| Move::Data(bytes(30_000)));
        let spool = Spool::take(caller(moves), framing, &limits, &budget)
            .await
            .unwrap();
        assert_eq!(spool.replay(), Replay::Streaming);
        assert_eq!(spool.read(), read_ahead, "{framing:?}");
        assert_eq!(spool.digest()[..], Sha256::digest(&all[..64 << 10])[..]);
        assert_eq!(spool.contents(u64::MAX).await.unwrap(), None);
        let body = spool.body().unwrap();
        assert!(spool.body().is_none());
        let uploaded = body.uploaded();
        assert!(!uploaded.is_whole());
        assert_eq!(read(body).await.0, all, "{framing:?}");
        assert!(uploaded.is_whole());
    }
}

#[tokio::test]
async fn a_body_of_exactly_the_bound_is_kept() {
    let budget = SpoolBudget::default();
    let limits = SpoolLimits {
        max_replay: 100,
        ..SpoolLimits::default()
    };
    for (len, expected) in [(100, Replay::Whole), (101, Replay::Streaming)] {
        let body = caller([Move::Data(bytes(len))]);
        let spool = Spool::take(body, Framing::Chunked, &limits, &budget)
            .await
            .unwrap();
        assert_eq!(spool.replay(), expected, "{len}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_leaves_or_stalls_is_told_apart() {
    let budget = SpoolBudget::default();
    let take = |last| {
        let budget = budget.clone();
        async move {
            let body = caller([Move::Data(bytes(10)), last]);
            Spool::take(body, Framing::Length(20), &small(), &budget)
                .await
                .map(drop)
        }
    };
    assert_eq!(take(Move::Break).await, Err(SpoolError::Caller));
    assert_eq!(
        take(Move::Data(bytes(9))).await,
        Err(SpoolError::Caller),
        "one byte is missing"
    );
    assert_eq!(take(Move::Data(bytes(10))).await, Ok(()));
    assert_eq!(take(Move::Stall).await, Err(SpoolError::Stalled));
    assert_eq!(budget.memory_used(), 0);
}

#[tokio::test]
async fn a_directory_that_cannot_be_written_is_named() {
    let budget = SpoolBudget::new(0, 1 << 20);
    let limits = SpoolLimits {
        directory: "/nowhere".into(),
        ..small()
    };
    let body = caller([Move::Data(bytes(10))]);
    let got = Spool::take(body, Framing::Length(10), &limits, &budget).await;
    assert_eq!(
        got.map(drop),
        Err(SpoolError::Disk(io::ErrorKind::NotFound))
    );
}

#[tokio::test]
async fn debug_texts_never_show_the_body() {
    let body = caller([Move::Data(b"canary-4711".to_vec())]);
    let budget = SpoolBudget::default();
    let spool = Spool::take(body, Framing::Length(11), &small(), &budget)
        .await
        .unwrap();
    let shown = format!("{spool:?} {:?}", spool.body());
    assert!(!shown.contains("canary"), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn however_a_body_is_cut_into_frames_every_copy_is_the_same(
        frames in prop::collection::vec(0_usize..30_000, 0..12),
        memory in 0_u64..200_000,
        max_replay in 0_u64..250_000,
        is_declared in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let all: Vec<u8> = frames.iter().flat_map(|n| bytes(*n)).collect();
            let body = caller(frames.into_iter().map(|n| Move::Data(bytes(n))));
            let limits = SpoolLimits { max_replay, ..SpoolLimits::default() };
            let budget = SpoolBudget::new(memory, 1 << 30);
            let framing = match is_declared {
                true => Framing::Length(all.len() as u64),
                false => Framing::Chunked,
            };
            let spool = Spool::take(body, framing, &limits, &budget).await.unwrap();
            assert!(budget.memory_used() <= memory);
            assert_eq!(spool.replay() == Replay::Whole, all.len() as u64 <= max_replay);
            assert!(read(spool.body().unwrap()).await.0 == all);
            let ahead = if is_declared { 64 << 10 } else { max_replay.min(64 << 10) };
            let digested = match spool.replay() {
                Replay::Whole => &all[..],
                Replay::Streaming => &all[..all.len().min(ahead as usize)],
            };
            assert_eq!(spool.digest()[..], Sha256::digest(digested)[..]);
            if let Some(again) = spool.body() {
                assert!(read(again).await.0 == all);
            }
            drop(spool);
            assert_eq!((budget.memory_used(), budget.disk_used()), (0, 0));
        });
    }
}
