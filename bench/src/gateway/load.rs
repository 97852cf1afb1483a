//! The load: plain HTTP/1.1 over connections that are kept, as cheap as it gets.
//!
//! *Closed*: each connection sends the next request when the last is answered;
//! this finds what a proxy can do. *Open*: requests leave on a schedule; this
//! finds how long one takes. A slow answer must not delay the next request
//! there, so several senders take turns, and the times count from the schedule.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::upstream::BODY_BYTES;
use crate::sample::Sample;

/// Senders that take turns in the open loop. With 100 requests a second each has
/// 160 ms for its answer before it is late itself.
const SENDERS: u32 = 16;
/// Longest wait for an answer; beyond it a request counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// Where requests go.
#[derive(Clone, Debug)]
pub struct Target {
    /// The proxy.
    pub address: SocketAddr,
    /// The path there.
    pub path: String,
}

impl Target {
    fn request(&self) -> Vec<u8> {
        format!(
            "GET {} HTTP/1.1\r\nhost: {}\r\nuser-agent: rategov-bench\r\n\
             accept: application/json\r\naccept-encoding: identity\r\n\
             authorization: Bearer sk-bench-0123456789abcdef\r\n\r\n",
            self.path, self.address
        )
        .into_bytes()
    }
}

/// What came of a load.
#[derive(Clone, Debug, Default)]
pub struct Load {
    /// Right answers.
    pub answers: u64,
    /// Wrong ones, or none.
    pub failed: u64,
    /// How long the load lasted.
    pub wall: Duration,
    /// How long each answer took; only the open loop measures it.
    pub times: Sample,
}

/// One request, to see that all is well.
///
/// # Errors
/// If the answer is not the upstream's.
pub fn once(target: &Target) -> anyhow::Result<()> {
    let mut sender = Sender::new(target);
    sender.call()?;
    Ok(())
}

/// As many requests as `connections` can send one after the other.
///
/// # Errors
/// If nobody listens.
pub fn closed(target: &Target, connections: usize, time: Duration) -> anyhow::Result<Load> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (answers, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let stop = Arc::new(AtomicBool::new(false));
    let begun = Instant::now();
    runtime.block_on(async {
        for _ in 0..connections {
            let stream = tokio::net::TcpStream::connect(target.address).await?;
            stream.set_nodelay(true)?;
            let (answers, failed) = (Arc::clone(&answers), Arc::clone(&failed));
            let (stop, request) = (Arc::clone(&stop), target.request());
            tokio::spawn(async move {
                match call_until(stream, &request, &stop, &answers).await {
                    Ok(()) => {}
                    Err(_) => {
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        tokio::time::sleep(time).await;
        stop.store(true, Ordering::Relaxed);
        io::Result::Ok(())
    })?;
    Ok(Load {
        answers: answers.load(Ordering::Relaxed),
        failed: failed.load(Ordering::Relaxed),
        wall: begun.elapsed(),
        times: Sample::default(),
    })
}

async fn call_until(
    mut stream: tokio::net::TcpStream,
    request: &[u8],
    stop: &AtomicBool,
    answers: &AtomicU64,
) -> anyhow::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(request).await?;
        let mut filled = 0;
        while !is_whole(&buffer[..filled])? {
            match stream.read(&mut buffer[filled..]).await? {
                0 => bail!("the connection ended"),
                read => filled += read,
            }
        }
        answers.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Requests on a schedule.
pub fn open(target: &Target, per_second: u32, time: Duration) -> Load {
    let every = Duration::from_secs(1) / per_second;
    let count = (time.as_secs_f64() * f64::from(per_second)) as u32;
    // Far enough ahead that every sender is there when its first turn comes.
    let begin = Instant::now() + Duration::from_millis(20);
    let senders: Vec<_> = (0..SENDERS)
        .map(|first| {
            let target = target.clone();
            std::thread::spawn(move || {
                let mut sender = Sender::new(&target);
                let mut load = Load::default();
                for turn in (first..count).step_by(SENDERS as usize) {
                    let due = begin + every * turn;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    match sender.call() {
                        Ok(()) => {
                            load.answers += 1;
                            load.times.add(due.elapsed());
                        }
                        Err(_) => load.failed += 1,
                    }
                }
                load
            })
        })
        .collect();
    let mut sum = Load::default();
    for sender in senders {
        match sender.join() {
            Ok(load) => {
                sum.answers += load.answers;
                sum.failed += load.failed;
                sum.times.extend(&load.times);
            }
            Err(_) => sum.failed += 1,
        }
    }
    sum.wall = begin.elapsed();
    sum
}

/// One connection that is kept, and made anew after a failure.
struct Sender {
    address: SocketAddr,
    request: Vec<u8>,
    stream: Option<TcpStream>,
    buffer: Vec<u8>,
}

impl Sender {
    fn new(target: &Target) -> Sender {
        let request = target.request();
        Sender {
            address: target.address,
            request,
            stream: None,
            buffer: vec![0; 16 << 10],
        }
    }

    fn call(&mut self) -> anyhow::Result<()> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect_timeout(&self.address, PATIENCE)?;
                stream.set_nodelay(true)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream
            }
        };
        stream.write_all(&self.request)?;
        let mut filled = 0;
        while !is_whole(&self.buffer[..filled])? {
            match stream.read(&mut self.buffer[filled..])? {
                0 => bail!("the connection ended"),
                read => filled += read,
            }
        }
        self.stream = Some(stream);
        Ok(())
    }
}

/// Whether this is all of the upstream's answer.
///
/// # Errors
/// If it is another answer.
fn is_whole(bytes: &[u8]) -> anyhow::Result<bool> {
    const START: &[u8] = b"HTTP/1.1 200 ";
    let seen = bytes.len().min(START.len());
    if bytes[..seen] != START[..seen] {
        bail!(
            "another answer: {}",
            String::from_utf8_lossy(&bytes[..bytes.len().min(400)])
        );
    }
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(false);
    };
    Ok(end + 4 + BODY_BYTES <= bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::upstream;

    fn target() -> Target {
        Target {
            address: upstream::start().unwrap(),
            path: "/records/17".to_owned(),
        }
    }

    #[test]
    fn a_closed_load_counts_right_answers_only() {
        let load = closed(&target(), 3, Duration::from_millis(50)).unwrap();
        assert!(load.answers > 0);
        assert_eq!(load.failed, 0);
    }

    #[test]
    fn an_open_load_sends_what_its_schedule_says() {
        let load = open(&target(), 400, Duration::from_millis(100));
        assert_eq!((load.answers, load.failed), (40, 0));
        assert_eq!(load.times.len(), 40);
    }

    #[test]
    fn another_answer_is_an_error_and_a_part_is_not_whole() {
        assert!(is_whole(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").is_err());
        assert!(!is_whole(b"HTTP/1.1 20").unwrap());
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\n\r\nshort").unwrap());
    }
}
