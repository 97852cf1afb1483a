//! The real binary, started, killed and asked.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::caller::{Call, Heard, Unheard};
use super::home::{Home, SECRET};
use super::wait::PATIENCE;

/// The binary under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_rategov");

/// A running governor. Killed when it is dropped.
pub(crate) struct Governor {
    /// Where agents call.
    pub(crate) agents: SocketAddr,
    operators: SocketAddr,
    token: String,
    child: Child,
    log: Log,
}

/// How a governor ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its status.
    pub(crate) status: ExitStatus,
    /// What it said.
    pub(crate) log: String,
}

impl Ended {
    /// Whether it was killed by a signal, its own or another's.
    pub(crate) fn was_killed(&self) -> bool {
        self.status.signal() == Some(Signal::KILL.as_raw())
    }
}

/// Lines as they come.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn add(&self, line: &str) {
        let mut text = self.0.lock().expect("nobody panics while adding a line");
        text.push_str(line);
        text.push('\n');
    }

    fn text(&self) -> String {
        self.0
            .lock()
            .expect("nobody panics while adding a line")
            .clone()
    }
}

/// A start that is being prepared.
pub(crate) struct Starting<'h> {
    home: &'h Home,
    command: Command,
}

impl Home {
    /// The binary with arguments, on this folder's data, with nothing of the
    /// tests' own environment that it would listen to.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_of(Command::new(BINARY), arguments)
    }

    fn command_of(&self, mut command: Command, arguments: &[&str]) -> Command {
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("RATEGOV_") {
                command.env_remove(name);
            }
        }
        command.env("NO_COLOR", "1").env("FAKE_KEY", SECRET);
        command.arg("--data").arg(self.data()).args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command.kill_on_drop(true);
        command
    }

    /// Prepares a governor.
    pub(crate) fn governor(&self) -> Starting<'_> {
        self.governor_by(Command::new(BINARY))
    }

    /// The same, run by another program.
    pub(crate) fn governor_by(&self, command: Command) -> Starting<'_> {
        let any = "127.0.0.1:0";
        let arguments = [
            "serve",
            "--agents",
            any,
            "--operators-listen",
            any,
            "--config",
        ];
        let mut command = self.command_of(command, &arguments);
        command.arg(self.configuration());
        Starting {
            home: self,
            command,
        }
    }

    /// Walks the chain with the binary's own verifier.
    pub(crate) async fn verify(&self) -> Result<(), String> {
        let mut command = self.command(&["audit", "verify"]);
        command.stdout(Stdio::piped());
        let output = command.output().await.expect("the binary can be run");
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stdout).into_owned()),
        }
    }
}

impl Starting<'_> {
    /// Arms a fail point.
    pub(crate) fn armed(mut self, point: Option<&str>) -> Self {
        if let Some(point) = point {
            self.command.env(rategov_server::fail::VARIABLE, point);
        }
        self
    }

    /// Starts it and waits until it listens.
    ///
    /// # Errors
    /// How it ended, if it ends before.
    pub(crate) async fn start(mut self) -> Result<Governor, Ended> {
        let mut child = self.command.spawn().expect("the binary can be run");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let log = Log::default();
        let mut addresses = Vec::new();
        let mut token = String::new();
        loop {
            let line = timeout(PATIENCE, lines.next_line()).await;
            let line = line.unwrap_or_else(|_| panic!("no start in time:\n{}", log.text()));
            let Ok(Some(line)) = line else {
                let status = child.wait().await.expect("a child can be waited for");
                return Err(Ended {
                    status,
                    log: log.text(),
                });
            };
            log.add(&line);
            if let Some((_, rest)) = line.split_once("http://") {
                let (address, path) = rest.split_once('/').expect("an address has a path");
                addresses.push(address.parse().expect("an address"));
                if let Some((_, secret)) = path.split_once("#token=") {
                    secret.clone_into(&mut token);
                }
            }
            if line.starts_with("the token is in") {
                break;
            }
        }
        let further = log.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                further.add(&line);
            }
        });
        let [agents, operators] = addresses[..] else {
            panic!("two addresses in {:?}: {}", self.home.data(), log.text());
        };
        Ok(Governor {
            agents,
            operators,
            token,
            child,
            log,
        })
    }

    /// The same, where it must come up.
    pub(crate) async fn up(self) -> Governor {
        match self.start().await {
            Ok(governor) => governor,
            Err(ended) => panic!("it ended with {}:\n{}", ended.status, ended.log),
        }
    }
}

impl Governor {
    /// What it has said so far.
    pub(crate) fn log(&self) -> String {
        self.log.text()
    }

    /// Whether its process has ended.
    pub(crate) fn is_gone(&mut self) -> bool {
        self.child
            .try_wait()
            .expect("a child can be asked")
            .is_some()
    }

    /// Its process.
    pub(crate) fn process(&self) -> Pid {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        id.and_then(Pid::from_raw).expect("it runs")
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).expect("it runs");
    }

    /// Waits for its end.
    pub(crate) async fn ended(mut self) -> Ended {
        let status = timeout(PATIENCE, self.child.wait()).await;
        let status = status.unwrap_or_else(|_| panic!("no end in time:\n{}", self.log()));
        Ended {
            status: status.expect("a child can be waited for"),
            log: self.log.text(),
        }
    }

    /// Kills it, if it is not gone already.
    pub(crate) async fn killed(mut self) -> Ended {
        self.child.start_kill().ok();
        self.ended().await
    }

    /// An action by its key, as its agent sees it; `None` if there is none.
    pub(crate) async fn action(&self, key: &str) -> Result<Option<Value>, Unheard> {
        let heard = Call::get(&format!("/governor/v1/actions/{key}"))
            .to(self.agents)
            .await?;
        match heard.status {
            200 => Ok(Some(heard.json())),
            404 => Ok(None),
            status => panic!("{status} {}\n{}", heard.json(), self.log()),
        }
    }

    /// Asks as an operator.
    pub(crate) async fn ask(&self, target: &str) -> Result<Heard, Unheard> {
        self.operate("GET", target, "").await
    }

    /// Tells it something as an operator.
    pub(crate) async fn tell(&self, target: &str, body: &Value) -> Result<Heard, Unheard> {
        self.operate("POST", target, &body.to_string()).await
    }

    async fn operate(&self, method: &str, target: &str, body: &str) -> Result<Heard, Unheard> {
        let bearer = format!("Bearer {}", self.token);
        let fields = [("authorization", bearer.as_str())];
        let call = Call {
            method,
            target,
            fields: &fields,
            body,
        };
        call.to(self.operators).await
    }

    /// Answers a question as an operator who has just looked at it.
    pub(crate) async fn decide(&self, escalation: &str, choice: &str) -> Result<Heard, Unheard> {
        let target = format!("/api/v1/escalations/{escalation}");
        let shown = self.ask(&target).await?.json();
        let confirm = rategov_core::action::choices::CONFIRM_SECOND_EFFECT;
        let body = serde_json::json!({
            "choice": choice, "confirm": confirm, "version": shown["version"],
        });
        self.tell(&format!("{target}/decide"), &body).await
    }
}
