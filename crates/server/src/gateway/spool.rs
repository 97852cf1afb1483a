//! Keeps a request's body so that it can be sent again, byte for byte.
//!
//! A repeat needs the whole body, and the caller sends it once. So it is read
//! before the first send: into memory, then, where the memory's budget or
//! `MEMORY_PER_BODY` ends, into a file that has no name (nothing to clean up
//! after a crash, nothing for others to open). A body above
//! [`SpoolLimits::max_replay`] is not kept: the first send streams what was
//! read and then the rest, and there is no second.
//!
//! ```text
//! declared or found length      what happens
//! ≤ max_replay                  read whole, replayable
//! > max_replay, declared        64 KiB are read ahead, the rest streams
//! > max_replay, found (chunked) max_replay and one frame are read, the rest streams
//! ```
//!
//! Both budgets are shared by all calls. A full one is a named refusal
//! (`spool_full`) before anything was sent, never a wait: the caller holds the
//! bytes and can come back. Budgets are counted in allocated bytes and return
//! when the last user of a body is gone, also when its task was cancelled.
//!
//! The digest (SHA-256) covers the whole body of a replayable one, and the first
//! 64 KiB of a streaming one (of a chunked one at most `max_replay`), whatever the
//! frames were that it came in: equal bytes have equal digests.

mod budget;
mod spill;

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use sha2::{Digest, Sha256};
use tokio::time::timeout;

pub use self::budget::SpoolBudget;
use self::budget::{Gauge, Lease};
pub(super) use self::spill::SpillReader;
use self::spill::SpillWriter;
use super::framing::Framing;
use super::outgoing::{BodyError, Outgoing, Parts, Rest};

/// Most memory that one body takes, so that a few large uploads don't push
/// everybody's small ones to disk.
const MEMORY_PER_BODY: u64 = 4 << 20;
/// What is read ahead of a body that is known to be too large to keep, and is
/// what its digest covers.
const READ_AHEAD: u64 = 64 << 10;
/// Bodies are copied into blocks of this size. A slice of the connection's own
/// buffer would keep the whole buffer alive, uncounted.
const BLOCK: usize = 64 << 10;

/// Bounds of one body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolLimits {
    /// Largest body that is kept for a repeat, in bytes.
    pub max_replay: u64,
    /// Longest time without a byte from the caller.
    pub stall: Duration,
    /// Where spill files live.
    pub directory: PathBuf,
}

impl Default for SpoolLimits {
    fn default() -> SpoolLimits {
        SpoolLimits {
            max_replay: 32 << 20,
            stall: Duration::from_secs(60),
            directory: std::env::temp_dir(),
        }
    }
}

/// Why a body was not taken. Nothing was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpoolError {
    /// Neither memory nor disk has room within the budgets, or the disk is full.
    #[error("spool_full: no room to keep the request's body; hint: come back, or raise `spool`")]
    Full,
    /// The caller's body ended early.
    #[error("the request's body ended early")]
    Caller,
    /// The caller sent nothing for too long.
    #[error("the request's body stalled")]
    Stalled,
    /// The disk failed.
    #[error("the request's body can't be written to disk: {0}")]
    Disk(io::ErrorKind),
}

/// Whether a body can be sent more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// As often as needed.
    Whole,
    /// Once.
    Streaming,
}

/// A body, read as far as it is kept.
pub struct Spool {
    framing: Framing,
    kept: Arc<Kept>,
    digest: [u8; 32],
    read: u64,
    replay: Replay,
    /// What follows of a streaming body, if anything does; taken by its only send.
    rest: Mutex<Option<Option<Rest>>>,
}

/// What is kept of a body, and the budgets it takes.
pub(super) struct Kept {
    blocks: Vec<Bytes>,
    spill: Option<spill::Spilled>,
    trailers: Option<HeaderMap>,
    _memory: Lease,
}

impl Spool {
    /// Reads a body under `framing` (from [`super::headers::for_provider`]).
    ///
    /// # Errors
    /// See [`SpoolError`]. Cost: one copy and one hash of what is kept.
    pub async fn take<B>(
        body: B,
        framing: Framing,
        limits: &SpoolLimits,
        budget: &SpoolBudget,
    ) -> Result<Spool, SpoolError>
    where
        B: Body<Data = Bytes> + Send + 'static,
    {
        let declared = match framing {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        };
        let mut body = Box::pin(body);
        let mut keeper = Keeper::new(framing, limits, budget);
        let mut is_whole = declared == Some(0);
        while !is_whole && !keeper.has_enough(declared) {
            let frame = timeout(limits.stall, body.frame()).await;
            match frame.map_err(|_| SpoolError::Stalled)? {
                None => is_whole = true,
                Some(Err(_)) => return Err(SpoolError::Caller),
                Some(Ok(frame)) => keeper.keep(frame).await?,
            }
        }
        // The listener counts as well; this is what a repeat relies on.
        if is_whole && declared.is_some_and(|length| keeper.read != length) {
            return Err(SpoolError::Caller);
        }
        if keeper.is_kept(declared) {
            return keeper.finish(Replay::Whole, None).await;
        }
        let rest = match is_whole {
            true => None,
            false => Some(body.map_err(|_| BodyError::Caller).boxed_unsync()),
        };
        keeper.finish(Replay::Streaming, rest).await
    }

    /// A body for one send. `None` for the second send of a streaming one.
    pub fn body(&self) -> Option<Outgoing> {
        let rest = match self.replay {
            Replay::Whole => None,
            Replay::Streaming => self
                .rest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()?,
        };
        let parts = Parts {
            memory: self.kept.blocks.iter().cloned().collect::<VecDeque<_>>(),
            spill: self.kept.spill.as_ref().map(spill::Spilled::reader),
            rest,
            trailers: self.kept.trailers.clone(),
            kept: Some(Arc::clone(&self.kept)),
        };
        Some(Outgoing::new(self.framing, parts))
    }

    /// Whether the body can be sent again.
    pub fn replay(&self) -> Replay {
        self.replay
    }

    /// How the body is delimited.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// SHA-256 of the whole body, or of the beginning of a streaming one.
    pub fn digest(&self) -> &[u8; 32] {
        &self.digest
    }

    /// How long the body is; `None` while a chunked one streams.
    pub fn length(&self) -> Option<u64> {
        match (self.replay, self.framing) {
            (Replay::Whole, _) => Some(self.read),
            (Replay::Streaming, Framing::Length(length)) => Some(length),
            (Replay::Streaming, Framing::None | Framing::Chunked) => None,
        }
    }

    /// Bytes read: all of a replayable body.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// The whole body in one piece, for whoever must look into it or store it.
    /// `None` if it streams or is longer than `at_most`.
    ///
    /// # Errors
    /// The spill file's. Cost: a copy, unless it is one block in memory.
    pub async fn contents(&self, at_most: u64) -> io::Result<Option<Bytes>> {
        if self.replay == Replay::Streaming || self.read > at_most {
            return Ok(None);
        }
        if let ([block], None) = (&self.kept.blocks[..], &self.kept.spill) {
            return Ok(Some(block.clone()));
        }
        let mut whole = BytesMut::with_capacity(self.read as usize);
        self.look(|piece| whole.put_slice(piece)).await?;
        Ok(Some(whole.freeze()))
    }

    /// Shows what is kept of the body, piece by piece: all of a replayable one.
    ///
    /// # Errors
    /// The spill file's. Cost: no copy.
    pub async fn look(&self, mut see: impl FnMut(&[u8])) -> io::Result<()> {
        self.kept.blocks.iter().for_each(|block| see(block));
        if let Some(spilled) = &self.kept.spill {
            let mut reader = spilled.reader();
            while let Some(bytes) = std::future::poll_fn(|cx| reader.poll_next(cx)).await {
                see(&bytes?);
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Spool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never the content: it is the agent's.
        f.debug_struct("Spool")
            .field("framing", &self.framing)
            .field("read", &self.read)
            .field("replay", &self.replay)
            .finish_non_exhaustive()
    }
}

/// A body while it is being read.
struct Keeper<'a> {
    framing: Framing,
    limits: &'a SpoolLimits,
    disk: Arc<Gauge>,
    memory: Lease,
    blocks: Vec<Bytes>,
    block: BytesMut,
    spill: Option<SpillWriter>,
    trailers: Option<HeaderMap>,
    hash: Sha256,
    /// How much of it counts as its beginning.
    ahead: u64,
    /// The digest of that, once it is there.
    beginning: Option<[u8; 32]>,
    read: u64,
}

impl<'a> Keeper<'a> {
    fn new(framing: Framing, limits: &'a SpoolLimits, budget: &SpoolBudget) -> Keeper<'a> {
        let ahead = match framing {
            Framing::None | Framing::Length(_) => READ_AHEAD,
            Framing::Chunked => READ_AHEAD.min(limits.max_replay),
        };
        Keeper {
            framing,
            ahead,
            limits,
            disk: Arc::clone(&budget.disk),
            memory: Lease::none(&budget.memory),
            blocks: Vec::new(),
            block: BytesMut::new(),
            spill: None,
            trailers: None,
            hash: Sha256::new(),
            beginning: None,
            read: 0,
        }
    }

    /// Whether a body of this length, as far as either is known, is kept.
    fn is_kept(&self, declared: Option<u64>) -> bool {
        declared.unwrap_or(0).max(self.read) <= self.limits.max_replay
    }

    /// Whether no more need be read before the first send.
    fn has_enough(&self, declared: Option<u64>) -> bool {
        !self.is_kept(declared) && self.ahead <= self.read
    }

    fn digest(&mut self, data: &[u8]) {
        let ahead = self.ahead.saturating_sub(self.read);
        let (first, second) = data.split_at(data.len().min(ahead as usize));
        self.hash.update(first);
        self.read += first.len() as u64;
        if self.ahead <= self.read && self.beginning.is_none() {
            self.beginning = Some(self.hash.clone().finalize().into());
        }
        self.hash.update(second);
        self.read += second.len() as u64;
    }

    async fn keep(&mut self, frame: Frame<Bytes>) -> Result<(), SpoolError> {
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                // The listener bounds their size as it bounds a head's.
                self.trailers = frame.into_trailers().ok();
                return Ok(());
            }
        };
        self.digest(&data);
        let mut data = &data[..];
        while !data.is_empty() && self.spill.is_none() {
            if self.block.capacity() == self.block.len() && !self.new_block() {
                self.spill = Some(SpillWriter::create(&self.limits.directory, &self.disk).await?);
                break;
            }
            let n = data.len().min(self.block.capacity() - self.block.len());
            self.block.put_slice(&data[..n]);
            data = &data[n..];
        }
        match &mut self.spill {
            Some(spill) => spill.write(data).await,
            None => Ok(()),
        }
    }

    /// Makes room for more bytes in memory, if the budget has it.
    fn new_block(&mut self) -> bool {
        let done = std::mem::take(&mut self.block);
        if !done.is_empty() {
            self.blocks.push(done.freeze());
        }
        let declared = match self.framing {
            Framing::Length(length) => {
                length.saturating_sub(self.blocks.iter().map(|b| b.len() as u64).sum())
            }
            Framing::None | Framing::Chunked => BLOCK as u64,
        };
        let size = declared.clamp(1, BLOCK as u64);
        if self.memory.bytes() + size > MEMORY_PER_BODY || !self.memory.grow(size) {
            return false;
        }
        self.block = BytesMut::with_capacity(size as usize);
        true
    }

    async fn finish(mut self, replay: Replay, rest: Option<Rest>) -> Result<Spool, SpoolError> {
        if !self.block.is_empty() {
            self.blocks.push(self.block.freeze());
        }
        let spill = match self.spill.take() {
            Some(writer) => Some(writer.finish().await?),
            None => None,
        };
        let kept = Kept {
            blocks: self.blocks,
            spill,
            trailers: self.trailers,
            _memory: self.memory,
        };
        let digest = match (replay, self.beginning) {
            (Replay::Streaming, Some(beginning)) => beginning,
            _ => self.hash.finalize().into(),
        };
        Ok(Spool {
            framing: self.framing,
            kept: Arc::new(kept),
            digest,
            read: self.read,
            replay,
            rest: Mutex::new(Some(rest)),
        })
    }
}

#[cfg(test)]
mod tests;
