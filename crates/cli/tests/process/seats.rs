//! No seat is lost: a send that nobody makes, or whose runner is let go, is over
//! for its engine too, and whoever waits behind it gets its turn.

use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpSocket};

use crate::disk::{Bound, Disk};
use crate::support::caller::{Call, Heard};
use crate::support::governor::Governor;
use crate::support::wait::Wait;
use crate::world::{World, Write, rests};

/// An address at which a connection is neither made nor refused: its listener
/// takes none, and its queue is full.
struct Deaf {
    address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Deaf {
    fn new() -> Deaf {
        let socket = TcpSocket::new_v4().expect("a socket");
        let any = "127.0.0.1:0".parse().expect("an address");
        socket.bind(any).expect("a free port");
        let listener = socket.listen(0).expect("it listens");
        let address = listener.local_addr().expect("it is bound");
        let soon = std::time::Duration::from_millis(50);
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, soon) {
            queued.push(stream);
        }
        Deaf {
            address,
            _listener: listener,
            _queued: queued,
        }
    }
}

/// A world with a second provider that is never reached, and little patience for it.
async fn with_a_deaf_provider() -> (World, Deaf) {
    let (world, deaf) = (World::new().await, Deaf::new());
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    let provider = format!(
        "providers:\n  deaf:\n    base_url: http://{}\n    connect_timeout: 5s\n    \
         accounts:\n      ops: {{ credential: env:FAKE_KEY }}\n",
        deaf.address
    );
    world
        .home
        .configure(&text.replace("providers:\n", &provider));
    (world, deaf)
}

async fn gauge(governor: &Governor, name: &str) -> Option<u64> {
    let metrics = governor.ask("/metrics").await.unwrap();
    let text = String::from_utf8_lossy(&metrics.body).into_owned();
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit_once(' ')?.1.parse().ok()
}

/// Waits until so many sends of an account are out.
async fn out(governor: &Governor, account: &str, want: u64) {
    let name = format!("rategov_on_the_wire{{account=\"{account}\"}}");
    let wait = Wait::begin();
    while gauge(governor, &name).await != Some(want) {
        assert!(
            wait.pause().await,
            "never {want} out at {account}\n{}",
            governor.log()
        );
    }
}

fn code(heard: &Heard) -> (u16, Value) {
    (heard.status, heard.json()["code"].clone())
}

#[tokio::test]
async fn a_read_that_dials_when_writing_fails_is_answered() {
    let (world, _deaf) = with_a_deaf_provider().await;
    let governor = world.home.governor_by(Bound.program()).up().await;
    let dials = Call::get("/deaf/records")
        .start(governor.agents)
        .await
        .unwrap();
    out(&governor, "deaf/ops", 1).await;
    Bound.fill(&governor);
    // Another call of the account finds out that nothing can be written.
    let other = Call::get("/deaf/others").to(governor.agents).await.unwrap();
    assert_eq!(code(&other), (503, json!("audit_unavailable")));
    let heard = dials.hear().await.expect("an answer");
    // Whether its own record was kept before the disk was full is not seen from here.
    let lost = [
        (424, json!("interrupted")),
        (503, json!("audit_unavailable")),
    ];
    assert!(lost.contains(&code(&heard)), "{}", heard.json());
    assert_eq!(heard.json()["sent"], false);
    Bound.free(&governor);
    out(&governor, "deaf/ops", 0).await;
}

#[tokio::test]
async fn a_write_that_dials_ends_at_once_when_it_is_cancelled() {
    let (world, _deaf) = with_a_deaf_provider().await;
    let governor = world.home.governor().up().await;
    let write = Call {
        method: "POST",
        fields: &[("idempotency-key", "stopped")],
        ..Call::get("/deaf/records")
    };
    let dials = write.start(governor.agents).await.unwrap();
    out(&governor, "deaf/ops", 1).await;
    let cancel = Call {
        method: "DELETE",
        ..Call::get("/governor/v1/actions/stopped")
    };
    let cancelled = cancel.to(governor.agents).await.unwrap();
    assert_eq!(cancelled.status, 202, "{}", cancelled.json());
    let heard = dials.hear().await.expect("an answer");
    assert_eq!(code(&heard), (410, json!("cancelled")), "{}", heard.json());
    let action = rests(&governor, "stopped").await;
    assert_eq!(action["state"], "cancelled_not_sent", "{action}");
    out(&governor, "deaf/ops", 0).await;
}

/// A write is at its provider when its governor dies, and what it kept of it
/// can't be read by the next one.
async fn check_without_work_key(path: &str, state: &str) {
    let world = World::new().await;
    let text = std::fs::read_to_string(world.home.configuration()).unwrap();
    let one = "\nshared_scope: { max_concurrent_requests: 1 }\n";
    world.home.configure(&(text + one));
    let governor = world.home.governor().up().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let write = Write {
        path,
        operation: "kept",
    };
    let open = write.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    governor.killed().await;
    drop(open);
    world.let_go();
    std::fs::remove_file(world.home.data().join("work.key")).unwrap();

    let governor = world.home.governor().up().await;
    let action = rests(&governor, "kept").await;
    assert_eq!(action["state"], state, "{action}\n{}", governor.log());
    assert_eq!(world.effects_of("kept"), 1);
    let other = Write {
        path,
        operation: "other",
    };
    let heard = other.send(&governor).await.unwrap();
    assert!(heard.status < 300, "{}", heard.json());
    out(&governor, "fake/ops", 0).await;
}

#[tokio::test]
async fn without_its_work_key_a_write_that_would_be_repeated_is_put_to_a_person() {
    check_without_work_key("/orders", "escalated").await;
}

#[tokio::test]
async fn without_its_work_key_a_write_that_can_be_looked_up_is() {
    check_without_work_key("/records", "succeeded").await;
}
