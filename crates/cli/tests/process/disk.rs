//! A disk that takes nothing more: nothing is sent unrecorded, whoever asks is
//! told so, and service goes on by itself when there is space again.
//!
//! Two disks are filled. One is a bound on the size of files, set from outside
//! while the governor runs: every write fails, as under a quota of the file
//! system. The other is a small file system of its own that really is full; it
//! needs the right to mount and is left out where that is missing.

use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command as Program;

use crate::support::caller::{Call, Heard};
use crate::support::governor::{BINARY, Governor};
use crate::support::home::Home;
use crate::support::wait::Wait;
use crate::world::{World, Write, rests};

/// A disk that can be filled and freed while a governor works on it.
pub(crate) trait Disk {
    /// Nothing more can be written.
    fn fill(&self, governor: &Governor);
    /// It can again.
    fn free(&self, governor: &Governor);
    /// How a governor is started on it.
    fn program(&self) -> Program;
}

/// The bound on the size of files.
pub(crate) struct Bound;

impl Bound {
    fn set(governor: &Governor, bytes: Option<u64>) {
        let limit = Rlimit {
            current: bytes,
            maximum: None,
        };
        prlimit(Some(governor.process()), Resource::Fsize, limit).expect("our own child");
    }
}

impl Disk for Bound {
    fn fill(&self, governor: &Governor) {
        Bound::set(governor, Some(1));
    }

    fn free(&self, governor: &Governor) {
        Bound::set(governor, None);
    }

    fn program(&self) -> Program {
        // Beyond the bound the system sends a signal, which a shell can have
        // ignored for those that it runs; then the write fails, which is meant.
        let mut shell = Program::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", BINARY]);
        shell
    }
}

/// A small file system of its own.
struct Mounted {
    folder: TempDir,
}

impl Mounted {
    /// `None` where this test may not mount one.
    fn new() -> Option<Mounted> {
        let folder = TempDir::with_prefix("rategov-disk-").expect("a temporary folder");
        let mut mount = Command::new("mount");
        mount
            .args(["-t", "tmpfs", "-o", "size=8m,mode=0700", "tmpfs"])
            .arg(folder.path());
        let done = mount.output().is_ok_and(|output| output.status.success());
        done.then_some(Mounted { folder })
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }
}

impl Disk for Mounted {
    fn fill(&self, _: &Governor) {
        let mut bytes = 8 << 20;
        let mut all = Vec::new();
        // Whole pieces first, then what is left of the space.
        while bytes >= 1 {
            all.resize(all.len() + bytes, 0_u8);
            if std::fs::write(self.ballast(), &all).is_err() {
                all.truncate(all.len() - bytes);
                bytes /= 2;
            }
        }
    }

    fn free(&self, _: &Governor) {
        std::fs::remove_file(self.ballast()).expect("it was filled");
    }

    fn program(&self) -> Program {
        Program::new(BINARY)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .output();
    }
}

fn assert_unrecorded(heard: &Heard, governor: &Governor) {
    let problem = heard.json();
    let told = (
        heard.status,
        problem["code"].as_str(),
        heard.header("rategov-source"),
    );
    let log = governor.log();
    assert_eq!(
        told,
        (503, Some("audit_unavailable"), Some("governor")),
        "{problem}\n{log}"
    );
}

/// Whether it says that it admits calls.
///
/// Two requests can't be answered at one instant: the metric is only held
/// against what was said the same before and after it.
async fn is_ready(governor: &Governor) -> bool {
    let wait = Wait::begin();
    loop {
        let before = governor.ask("/readyz").await.unwrap().status;
        let metrics = governor.ask("/metrics").await.unwrap();
        let after = governor.ask("/readyz").await.unwrap().status;
        if before == after {
            let up = metrics.text().contains("\nrategov_journal_up 1\n");
            assert_eq!(up, after == 200, "the metric says the same");
            return after == 200;
        }
        assert!(wait.pause().await, "it never settled:\n{}", governor.log());
    }
}

/// Sends until the journal takes records again.
async fn sent_at_last(write: &Write<'_>, governor: &Governor) -> Heard {
    let wait = Wait::begin();
    loop {
        let heard = write.send(governor).await.expect("an answer");
        if heard.status != 503 {
            return heard;
        }
        assert_unrecorded(&heard, governor);
        assert!(
            wait.pause().await,
            "service never resumed:\n{}",
            governor.log()
        );
    }
}

/// Calls come in while the disk is full.
async fn check_refused(disk: &dyn Disk, data: Option<&Path>) {
    let mut world = World::new().await;
    world.home = placed(world.home, data);
    let governor = world.home.governor_by(disk.program()).up().await;
    let before = Write {
        path: "/records",
        operation: "before",
    };
    assert_eq!(before.send(&governor).await.unwrap().status, 201);
    assert!(is_ready(&governor).await);

    disk.fill(&governor);
    let arrived = world.arrived();
    for path in ["/records", "/orders", "/invites"] {
        let write = Write {
            path,
            operation: "refused",
        };
        assert_unrecorded(&write.send(&governor).await.unwrap(), &governor);
    }
    let read = Call::get("/fake/records")
        .to(governor.agents)
        .await
        .unwrap();
    assert_unrecorded(&read, &governor);
    assert_eq!(world.arrived(), arrived, "nothing is sent unrecorded");
    assert!(!is_ready(&governor).await, "who balances load is told so");
    let seen = governor.action("before").await.unwrap();
    assert_eq!(seen.expect("it is still there")["state"], "succeeded");

    disk.free(&governor);
    let wait = Wait::begin();
    while !is_ready(&governor).await {
        assert!(wait.pause().await, "never ready:\n{}", governor.log());
    }
    for path in ["/records", "/orders", "/invites"] {
        let operation = &format!("after {path}").replace('/', "");
        let heard = sent_at_last(&Write { path, operation }, &governor).await;
        assert!(heard.status < 300, "{} {}", heard.status, heard.json());
        assert_eq!(world.effects_of(operation), 1);
    }
    // What was refused may be sent now, under the same key.
    let write = Write {
        path: "/records",
        operation: "refused",
    };
    assert_eq!(write.send(&governor).await.unwrap().status, 201);
    assert_eq!(world.effects_of("refused"), 1);
    ends_well(&world, governor).await;
}

/// The disk fills while a call is at its provider.
async fn check_on_the_wire(disk: &dyn Disk, data: Option<&Path>, path: &str, state: &str) {
    let mut world = World::new().await;
    world.home = placed(world.home, data);
    let governor = world.home.governor_by(disk.program()).up().await;
    world.script(json!({ "calls": "POST *", "hold": true }));
    let write = Write {
        path,
        operation: "on-the-wire",
    };
    let open = write.start(&governor).await.unwrap();
    world.provider.handle.arrivals(1).await;
    disk.fill(&governor);
    world.let_go();
    let heard = open.hear().await.unwrap();
    // The answer can't be recorded, so what the caller hears is that nobody knows.
    assert_eq!(
        (heard.status, heard.json()["code"].as_str()),
        (424, Some("outcome_unknown"))
    );
    // And it can't send again by mistake.
    let again = write.send(&governor).await.unwrap();
    assert!(
        again.status == 424 || again.status == 503,
        "{} {}",
        again.status,
        again.json()
    );

    disk.free(&governor);
    let action = rests(&governor, "on-the-wire").await;
    assert_eq!(action["state"], state, "{action}\n{}", governor.log());
    assert_eq!(world.effects_of("on-the-wire"), 1);
    ends_well(&world, governor).await;
}

fn placed(home: Home, data: Option<&Path>) -> Home {
    match data {
        Some(data) => home.with_data(&data.join("data")),
        None => home,
    }
}

async fn ends_well(world: &World, governor: Governor) {
    governor.signal(rustix::process::Signal::TERM);
    let ended = governor.ended().await;
    assert!(ended.status.success(), "{}\n{}", ended.status, ended.log);
    world.home.verify().await.unwrap();
}

#[tokio::test]
async fn nothing_is_sent_while_writing_fails_and_service_resumes() {
    check_refused(&Bound, None).await;
}

#[tokio::test]
async fn a_write_on_the_wire_when_writing_fails_is_looked_up_later() {
    check_on_the_wire(&Bound, None, "/records", "succeeded").await;
}

#[tokio::test]
async fn an_uncertain_write_on_the_wire_when_writing_fails_is_put_to_a_person() {
    check_on_the_wire(&Bound, None, "/invites", "escalated").await;
}

#[tokio::test]
async fn a_read_on_the_wire_when_writing_fails_is_passed_on() {
    let world = World::new().await;
    let governor = world.home.governor_by(Bound.program()).up().await;
    world.script(json!({ "calls": "GET *", "hold": true }));
    let open = Call::get("/fake/records")
        .start(governor.agents)
        .await
        .unwrap();
    world.provider.handle.arrivals(1).await;
    Bound.fill(&governor);
    // Another call finds out that nothing can be written; this one needs nothing more.
    let write = Write {
        path: "/records",
        operation: "refused",
    };
    assert_unrecorded(&write.send(&governor).await.unwrap(), &governor);
    world.let_go();
    let heard = open.hear().await.unwrap();
    assert_eq!(
        (heard.status, heard.json()["items"].as_array().map(Vec::len)),
        (200, Some(0))
    );
    Bound.free(&governor);
    assert_eq!(sent_at_last(&write, &governor).await.status, 201);
    ends_well(&world, governor).await;
}

#[tokio::test]
async fn the_same_holds_on_a_disk_that_is_full() {
    let Some(disk) = Mounted::new() else {
        eprintln!("left out: this test may not mount a file system here");
        return;
    };
    let folder = disk.folder.path().to_owned();
    check_refused(&disk, Some(&folder.join("a"))).await;
    check_on_the_wire(&disk, Some(&folder.join("b")), "/records", "succeeded").await;
}

#[tokio::test]
async fn nothing_is_sent_once_the_data_folder_is_gone() {
    let world = World::new().await;
    let governor = world.home.governor().up().await;
    let write = |operation| Write {
        path: "/invites",
        operation,
    };
    assert_eq!(write("before").send(&governor).await.unwrap().status, 201);
    assert_eq!(governor.ask("/readyz").await.unwrap().status, 200);
    let data = world.home.data();
    let moved = data.with_extension("moved");
    std::fs::rename(data, &moved).unwrap();

    // In the moment before it is noticed a call is refused by its own record.
    for operation in ["first", "again"] {
        assert_unrecorded(&write(operation).send(&governor).await.unwrap(), &governor);
    }
    assert_eq!(governor.ask("/readyz").await.unwrap().status, 503);
    let log = governor.log();
    assert!(
        log.contains("journal.db") && log.contains("put the data folder back"),
        "{log}"
    );
    assert_eq!(world.arrived(), 1);
    governor.killed().await;

    // A folder with keys and no journal is not begun anew.
    std::fs::create_dir(data).unwrap();
    std::fs::copy(moved.join("work.key"), data.join("work.key")).unwrap();
    let ended = world.home.governor().start().await.err();
    let log = ended.expect("it must not start").log;
    assert!(log.contains("the journal was lost"), "{log}");
    assert!(log.contains("hint: put "), "{log}");

    std::fs::remove_dir_all(data).unwrap();
    std::fs::rename(&moved, data).unwrap();
    let governor = world.home.governor().up().await;
    assert_eq!(write("before").send(&governor).await.unwrap().status, 201);
    assert_eq!(world.effects_of("before"), 1, "its result is stored");
    ends_well(&world, governor).await;
}

#[tokio::test]
async fn a_folder_that_cannot_be_made_refuses_the_start() {
    let world = World::new().await;
    let file = world.home.configuration();
    let home = world.home.with_data(&file.join("data"));
    let ended = home
        .governor()
        .start()
        .await
        .err()
        .expect("it must not start");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.log);
    assert!(
        ended.log.contains("can't create the data folder"),
        "{}",
        ended.log
    );
    assert!(ended.log.contains("hint: "), "{}", ended.log);
}
