//! A decoded copy of a body, as it passes: gzip, deflate, br and zstd.
//!
//! What is passed on stays as the provider sent it. Whoever must look into it reads
//! through a [`Decoder`], which is told each piece and hands the plain bytes to its
//! sink at once, so nothing is collected here.
//!
//! A compressed body can claim to be a thousand times its size, or a million. The
//! copy ends, and the body counts as one that can't be read, when
//!
//! | bound | because |
//! |---|---|
//! | more than [`Limits::plain_max`] came out | nobody looks at more |
//! | beyond 1 MiB more than 200 times what went in | JSON and event streams shrink to a twentieth at most, zeros to a thousandth |
//! | no [`Room`] for its window | a window is up to 16 MiB for each open body |
//! | the bytes are none of the coding | |
//!
//! The bytes that pass are the same in all of these cases. `deflate` is read with
//! its zlib header or without, as servers disagree; several codings in a row are
//! not read.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};

/// What may come out before its proportion to what went in is asked.
const PLAIN_FREE: u64 = 1 << 20;
/// Most bytes out for one byte in, beyond that.
const RATIO_MAX: u64 = 200;
/// Windows of zstd up to 8 MiB, which is what RFC 9659 allows in HTTP.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;
/// Bytes that are decoded between two looks at the bounds.
const STEP_BYTES: usize = 32 << 10;

/// How a body is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// Not at all.
    Plain,
    /// RFC 1952.
    Gzip,
    /// RFC 1950, or RFC 1951 where its header is missing.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
    /// In a way that is not read.
    Unknown,
}

impl Coding {
    /// What the head of a message says.
    pub fn of(headers: &HeaderMap) -> Coding {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let (value, more) = (values.next(), values.next());
        let word = match (value.map(|value| value.to_str()), more) {
            (None, _) => return Coding::Plain,
            (Some(Ok(word)), None) => word.trim().to_ascii_lowercase(),
            (Some(_), _) => return Coding::Unknown,
        };
        match word.as_str() {
            "" | "identity" => Coding::Plain,
            "gzip" | "x-gzip" => Coding::Gzip,
            "deflate" => Coding::Deflate,
            "br" => Coding::Brotli,
            "zstd" => Coding::Zstd,
            _ => Coding::Unknown,
        }
    }

    /// The most memory that reading it takes.
    fn window(self) -> u64 {
        match self {
            Coding::Plain | Coding::Unknown => 0,
            Coding::Gzip | Coding::Deflate => 128 << 10,
            Coding::Brotli => 18 << 20,
            Coding::Zstd => 10 << 20,
        }
    }
}

/// Bounds of one copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that come out.
    pub plain_max: u64,
}

/// Memory that all open copies together may take.
#[derive(Clone, Debug)]
pub struct Room(Arc<AtomicU64>);

impl Default for Room {
    /// 256 MiB: fourteen brotli streams, twenty-five of zstd, two thousand of gzip.
    fn default() -> Room {
        Room::of(256 << 20)
    }
}

impl Room {
    /// Room for so many bytes.
    pub fn of(bytes: u64) -> Room {
        Room(Arc::new(AtomicU64::new(bytes)))
    }

    fn take(&self, bytes: u64) -> Option<Taken> {
        let take = |free: u64| free.checked_sub(bytes);
        let taken = self
            .0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take);
        taken.is_ok().then(|| Taken {
            room: self.clone(),
            bytes,
        })
    }
}

/// Room that returns when it is dropped.
#[derive(Debug)]
struct Taken {
    room: Room,
    bytes: u64,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.0.fetch_add(self.bytes, Ordering::AcqRel);
    }
}

/// Who is handed the plain bytes.
pub trait Sink {
    /// A piece of them.
    fn take(&mut self, plain: &[u8]);
}

impl Sink for Vec<u8> {
    fn take(&mut self, plain: &[u8]) {
        self.extend_from_slice(plain);
    }
}

/// A decoded copy that is being made. See the module.
pub struct Decoder<S: Sink> {
    inner: Inner<S>,
    is_over: bool,
    _taken: Option<Taken>,
}

enum Inner<S: Sink> {
    Plain(Guard<S>),
    Gzip(Box<MultiGzDecoder<Guard<S>>>),
    Zlib(Box<ZlibDecoder<Guard<S>>>),
    Bare(Box<DeflateDecoder<Guard<S>>>),
    /// Deflate, of which no byte has come.
    Undecided(Option<Guard<S>>),
    Brotli(Box<DecompressorWriter<Guard<S>>>),
    Zstd(Box<zstd::stream::write::Decoder<'static, Guard<S>>>),
}

impl<S: Sink> Decoder<S> {
    /// A copy of a body with this coding.
    pub fn new(coding: Coding, sink: S, limits: Limits, room: &Room) -> Decoder<S> {
        let guard = Guard {
            sink,
            limits,
            came: 0,
            out: 0,
        };
        let taken = room.take(coding.window());
        let can_read = coding != Coding::Unknown && taken.is_some();
        let (inner, is_over) = match (coding, can_read) {
            (_, false) | (Coding::Plain | Coding::Unknown, true) => {
                (Inner::Plain(guard), !can_read)
            }
            (Coding::Gzip, true) => (Inner::Gzip(Box::new(MultiGzDecoder::new(guard))), false),
            (Coding::Deflate, true) => (Inner::Undecided(Some(guard)), false),
            (Coding::Brotli, true) => {
                let decoder = DecompressorWriter::new(guard, 4 << 10);
                (Inner::Brotli(Box::new(decoder)), false)
            }
            (Coding::Zstd, true) => zstd_of(guard),
        };
        Decoder {
            inner,
            is_over,
            _taken: taken,
        }
    }

    /// A piece of the body.
    pub fn feed(&mut self, piece: &[u8]) {
        for step in piece.chunks(STEP_BYTES) {
            if self.is_over {
                return;
            }
            self.guard(|guard| guard.came += step.len() as u64);
            self.is_over = self.write(step).is_err();
        }
    }

    /// Whether it is read: neither a bound was reached nor is the coding another's.
    pub fn is_read(&self) -> bool {
        !self.is_over
    }

    /// The sink, with what was read until now.
    pub fn sink(&self) -> Option<&S> {
        let guard = match &self.inner {
            Inner::Plain(guard) => guard,
            Inner::Gzip(decoder) => decoder.get_ref(),
            Inner::Zlib(decoder) => decoder.get_ref(),
            Inner::Bare(decoder) => decoder.get_ref(),
            Inner::Undecided(guard) => guard.as_ref()?,
            Inner::Brotli(decoder) => decoder.get_ref(),
            Inner::Zstd(decoder) => decoder.get_ref(),
        };
        Some(&guard.sink)
    }

    fn guard(&mut self, tell: impl FnOnce(&mut Guard<S>)) {
        let guard = match &mut self.inner {
            Inner::Plain(guard) => guard,
            Inner::Gzip(decoder) => decoder.get_mut(),
            Inner::Zlib(decoder) => decoder.get_mut(),
            Inner::Bare(decoder) => decoder.get_mut(),
            Inner::Undecided(Some(guard)) => guard,
            Inner::Undecided(None) => return,
            Inner::Brotli(decoder) => decoder.get_mut(),
            Inner::Zstd(decoder) => decoder.get_mut(),
        };
        tell(guard);
    }

    /// Decodes a piece, and hands on all that is known by it.
    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if let (Inner::Undecided(guard), Some(first)) = (&mut self.inner, piece.first())
            && let Some(guard) = guard.take()
        {
            // A zlib header names the method 8 and a window of at most 7.
            self.inner = match first & 0x0f == 8 && first >> 4 <= 7 {
                true => Inner::Zlib(Box::new(ZlibDecoder::new(guard))),
                false => Inner::Bare(Box::new(DeflateDecoder::new(guard))),
            };
        }
        let writer: &mut dyn Write = match &mut self.inner {
            Inner::Plain(guard) => guard,
            Inner::Gzip(decoder) => decoder,
            Inner::Zlib(decoder) => decoder,
            Inner::Bare(decoder) => decoder,
            Inner::Undecided(_) => return Ok(()),
            Inner::Brotli(decoder) => decoder,
            Inner::Zstd(decoder) => decoder,
        };
        writer.write_all(piece)?;
        writer.flush()
    }
}

/// A reader of zstd, or the guard as it was, with nothing read.
fn zstd_of<S: Sink>(guard: Guard<S>) -> (Inner<S>, bool) {
    let made = zstd::stream::raw::Decoder::new().and_then(|mut decoder| {
        let window = zstd::stream::raw::DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX);
        decoder.set_parameter(window)?;
        Ok(decoder)
    });
    match made {
        Ok(decoder) => {
            let decoder = zstd::stream::write::Decoder::with_decoder(guard, decoder);
            (Inner::Zstd(Box::new(decoder)), false)
        }
        Err(_) => (Inner::Plain(guard), true),
    }
}

/// A sink behind the bounds.
struct Guard<S> {
    sink: S,
    limits: Limits,
    came: u64,
    out: u64,
}

impl<S: Sink> Write for Guard<S> {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let out = self.out + plain.len() as u64;
        let by_ratio = PLAIN_FREE + self.came.saturating_mul(RATIO_MAX);
        if out > by_ratio.min(self.limits.plain_max) {
            self.out = u64::MAX / 2;
            return Err(io::Error::other("the copy is larger than anybody looks at"));
        }
        self.out = out;
        self.sink.take(plain);
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What can be read of a body that was collected; also of the first part of one.
/// `None` if it is coded in a way that isn't read.
pub fn whole<'b>(headers: &HeaderMap, bytes: &'b [u8], plain_max: u64) -> Option<Cow<'b, [u8]>> {
    let coding = Coding::of(headers);
    if coding == Coding::Plain {
        return Some(Cow::Borrowed(bytes));
    }
    let room = Room::of(coding.window());
    let mut decoder = Decoder::new(coding, Vec::new(), Limits { plain_max }, &room);
    decoder.feed(bytes);
    let plain = decoder.sink().cloned();
    plain.filter(|_| coding != Coding::Unknown).map(Cow::Owned)
}

#[cfg(test)]
mod tests;
