//! The file without a name that holds what memory doesn't.
//!
//! It is unlinked from its birth: a crash leaves nothing behind. Each reader
//! has its own position in the shared file, so two sends of one body don't
//! disturb each other. All file calls run on the blocking threads.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinHandle, spawn_blocking};

use super::SpoolError;
use super::budget::{Gauge, Lease};

/// Bytes that are gathered before they are written, and read at once.
const CHUNK: usize = 128 << 10;

/// A spill file being written.
pub(super) struct SpillWriter {
    file: Arc<File>,
    lease: Lease,
    gathered: BytesMut,
    written: u64,
}

/// A written spill file, with the budget it takes.
pub(super) struct Spilled {
    file: Arc<File>,
    len: u64,
    _lease: Lease,
}

/// Reads a spill file from its beginning.
pub(in crate::gateway) struct SpillReader {
    file: Arc<File>,
    at: u64,
    len: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl SpillWriter {
    pub(super) async fn create(
        directory: &Path,
        disk: &Arc<Gauge>,
    ) -> Result<SpillWriter, SpoolError> {
        let directory = directory.to_owned();
        let file = on_disk(move || tempfile::tempfile_in(directory)).await?;
        Ok(SpillWriter {
            file: Arc::new(file),
            lease: Lease::none(disk),
            gathered: BytesMut::new(),
            written: 0,
        })
    }

    pub(super) async fn write(&mut self, data: &[u8]) -> Result<(), SpoolError> {
        if !self.lease.grow(data.len() as u64) {
            return Err(SpoolError::Full);
        }
        self.gathered.extend_from_slice(data);
        if self.gathered.len() >= CHUNK {
            self.flush().await
        } else {
            Ok(())
        }
    }

    async fn flush(&mut self) -> Result<(), SpoolError> {
        let bytes = self.gathered.split().freeze();
        let at = self.written;
        self.written += bytes.len() as u64;
        let file = Arc::clone(&self.file);
        on_disk(move || file.write_all_at(&bytes, at)).await
    }

    pub(super) async fn finish(mut self) -> Result<Spilled, SpoolError> {
        self.flush().await?;
        Ok(Spilled {
            file: self.file,
            len: self.written,
            _lease: self.lease,
        })
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SpoolError> {
    let result = spawn_blocking(work)
        .await
        .unwrap_or_else(|e| Err(io::Error::other(e)));
    result.map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SpoolError::Full,
        kind => SpoolError::Disk(kind),
    })
}

impl Spilled {
    pub(super) fn reader(&self) -> SpillReader {
        SpillReader {
            file: Arc::clone(&self.file),
            at: 0,
            len: self.len,
            reading: None,
        }
    }
}

impl SpillReader {
    pub(in crate::gateway) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Bytes>>> {
        let (file, at, left) = (&self.file, self.at, self.len - self.at);
        if left == 0 && self.reading.is_none() {
            return Poll::Ready(None);
        }
        let reading = self.reading.get_or_insert_with(|| {
            let file = Arc::clone(file);
            spawn_blocking(move || {
                let mut buffer = vec![0; left.min(CHUNK as u64) as usize];
                file.read_exact_at(&mut buffer, at)?;
                Ok(Bytes::from(buffer))
            })
        });
        match Pin::new(reading).poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(joined) => {
                self.reading = None;
                let result = joined.unwrap_or_else(|e| Err(io::Error::other(e)));
                match &result {
                    Ok(bytes) => self.at += bytes.len() as u64,
                    // A failed read ends the body; it must not be tried for ever.
                    Err(_) => self.at = self.len,
                }
                Poll::Ready(Some(result))
            }
        }
    }
}
