//! What the provider does with one arrival, as data: when it waits, which head
//! and which bytes it writes, and how the connection ends.
//!
//! A plan is made when the call arrives and never changes, so the simulated
//! world can play it in virtual time and the socket server in real time, and
//! both see the same provider. [`Plan::seen`] is what a caller would see.
//!
//! Worked example: an ordinary 8-byte answer after 300 ms of service is
//! `Wait(300 ms), Head(200, length 8), Body(8 bytes), EndBody`, then the
//! connection is kept; under `half_body` it is `Wait(300 ms), Head(200, length
//! 8), Body(4 bytes)`, then FIN.

use bytes::Bytes;
use rategov_core::time::Span;

use super::Ticket;
use super::fault::{Ending, Fault, Framing};
use super::ledger::Finish;
use super::message::{Body, Fields, Piece, Reply};

/// Bytes that no HTTP parser takes for a status line.
const NOT_HTTP: &[u8] = b"\x15\x03\x01 this is not HTTP\r\n\r\n";
/// Pieces into which a whole body is cut if it must last.
const PIECES: u32 = 8;

/// How the end of a body is found, with its length where it is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marked {
    /// `content-length`.
    Length(u64),
    /// A last chunk.
    Chunked,
    /// The end of the connection.
    ByClose,
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status.
    pub status: u16,
    /// The fields, framing apart.
    pub fields: Fields,
    /// How the body's end is found.
    pub marked: Marked,
}

/// One thing that the provider does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Nothing, for a span.
    Wait(Span),
    /// Nothing, until the script's holder releases the answer.
    Hold,
    /// An interim head.
    Interim(u16),
    /// The head.
    Head(Head),
    /// Bytes of the body, to be framed as the head said.
    Body(Bytes),
    /// The proper end of the body.
    EndBody,
    /// Bytes as they are.
    Raw(Bytes),
}

/// What becomes of the connection after the last act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// It serves the next request.
    Keep,
    /// It ends.
    End(Ending),
}

/// What the provider does with one arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Names the arrival to [`super::Provider::finish`].
    pub ticket: Ticket,
    /// What it does, in order.
    pub acts: Vec<Act>,
    /// What becomes of the connection.
    pub after: After,
}

/// What a caller that stays sees of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// From the arrival to the first byte of the head, or to the end if there is none.
    pub first: Span,
    /// From the arrival to the end.
    pub last: Span,
    /// The head, if one was written.
    pub head: Option<Head>,
    /// All bytes of the body that were written.
    pub body: Bytes,
    /// Whether the body ended properly, or only the connection did.
    pub whole: bool,
    /// What became of the connection.
    pub after: After,
    /// Whether the answer was held; the spans count a hold as nothing.
    pub held: bool,
}

/// How an answer is to be delivered.
#[derive(Clone, Debug)]
pub struct Delivery<'a> {
    /// Until the first byte of the answer.
    pub wait: Span,
    /// Whether it is held besides.
    pub held: bool,
    /// From the first piece of the body to the last, if said.
    pub lasts: Option<Span>,
    /// How it is spoiled.
    pub fault: Option<&'a Fault>,
    /// Whether the request was a HEAD, whose answer has no body.
    pub head_only: bool,
}

impl Plan {
    /// The plan to deliver `reply`.
    pub fn new(ticket: Ticket, reply: Reply, delivery: &Delivery<'_>) -> Plan {
        let reply = match delivery.lasts {
            Some(lasts) => stretched(reply, lasts),
            None => reply,
        };
        let mut acts = Vec::new();
        if !delivery.wait.is_zero() {
            acts.push(Act::Wait(delivery.wait));
        }
        if delivery.held {
            acts.push(Act::Hold);
        }
        let after = match delivery.fault {
            _ if delivery.head_only => {
                acts.push(head(&reply, None));
                After::Keep
            }
            None => whole(&mut acts, &reply),
            Some(fault) => spoiled(&mut acts, reply, fault),
        };
        Plan {
            ticket,
            acts,
            after,
        }
    }

    /// How the answer ends if the caller stays.
    pub fn finish(&self) -> Finish {
        let complete = self.acts.iter().any(|a| matches!(a, Act::EndBody));
        let head_only = self.acts.last().is_some_and(|a| matches!(a, Act::Head(_)));
        match self.after {
            After::Keep if complete || head_only => Finish::Answered,
            After::End(_) if complete => Finish::Answered,
            _ => Finish::Cut,
        }
    }

    /// From the arrival to the head of the answer, and to its end, for a caller
    /// that stays.
    pub fn spans(&self) -> (Span, Span) {
        let (mut now, mut first) = (Span::ZERO, None);
        for act in &self.acts {
            match act {
                Act::Wait(span) => now += *span,
                Act::Head(_) => first = Some(now),
                _ => {}
            }
        }
        (first.unwrap_or(now), now)
    }

    /// What a caller that stays sees.
    pub fn seen(&self) -> Seen {
        let (mut now, mut first, mut written, mut body) = (Span::ZERO, None, None, Vec::new());
        for act in &self.acts {
            match act {
                Act::Wait(span) => now += *span,
                Act::Head(head) => {
                    first = Some(now);
                    written = Some(head.clone());
                }
                Act::Body(bytes) => body.extend_from_slice(bytes),
                Act::Hold | Act::Interim(_) | Act::EndBody | Act::Raw(_) => {}
            }
        }
        Seen {
            first: first.unwrap_or(now),
            last: now,
            head: written,
            body: body.into(),
            whole: self.finish() == Finish::Answered,
            after: self.after,
            held: self.acts.contains(&Act::Hold),
        }
    }
}

/// The fault table: what is written, and how the connection ends.
fn spoiled(acts: &mut Vec<Act>, reply: Reply, fault: &Fault) -> After {
    match fault {
        Fault::NoAnswer { ending, .. } | Fault::CutUpload { ending, .. } => After::End(*ending),
        Fault::InterimOnly { ending, .. } => {
            acts.push(Act::Interim(102));
            After::End(*ending)
        }
        Fault::Malformed { .. } => {
            acts.push(Act::Raw(Bytes::from_static(NOT_HTTP)));
            After::End(Ending::Fin)
        }
        Fault::HalfBody { framing, ending } => {
            acts.push(head(&reply, Some(*framing)));
            match reply.body {
                Body::Whole(bytes) => acts.push(Act::Body(bytes.slice(..bytes.len() / 2))),
                Body::Pieces(pieces) => {
                    let half = pieces.len() / 2;
                    some_pieces(acts, &pieces, half);
                }
            }
            After::End(*ending)
        }
        Fault::SlowBody { pieces, pause } => {
            acts.push(head(&reply, None));
            for piece in split(&reply.body.bytes(), *pieces) {
                acts.extend([Act::Wait(*pause), Act::Body(piece)]);
            }
            acts.push(Act::EndBody);
            After::Keep
        }
        // The events were put into the stream before it was coded: `broken_off`.
        Fault::ErrorEvent { .. } => whole(acts, &reply),
        Fault::StreamCut { after, ending } => {
            acts.push(head(&reply, Some(Framing::Chunked)));
            some_pieces(acts, &in_pieces(reply.body), *after as usize);
            After::End(*ending)
        }
        Fault::CloseAfter => {
            whole(acts, &reply);
            After::End(Ending::Fin)
        }
    }
}

/// The same stream, broken off after some of its pieces by an error event.
pub fn broken_off(mut reply: Reply, after: u32, error_event: String) -> Reply {
    let mut pieces = in_pieces(reply.body);
    pieces.truncate(after as usize);
    pieces.push(Piece {
        after: Span::ZERO,
        bytes: error_event.into(),
    });
    reply.body = Body::Pieces(pieces);
    reply
}

fn whole(acts: &mut Vec<Act>, reply: &Reply) -> After {
    acts.push(head(reply, None));
    match &reply.body {
        Body::Whole(bytes) => acts.push(Act::Body(bytes.clone())),
        Body::Pieces(pieces) => some_pieces(acts, pieces, pieces.len()),
    }
    acts.push(Act::EndBody);
    After::Keep
}

/// The head of `reply`, its end marked as said or as its body suggests.
fn head(reply: &Reply, framing: Option<Framing>) -> Act {
    let marked = match (framing, &reply.body) {
        (Some(Framing::Chunked), _) | (None, Body::Pieces(_)) => Marked::Chunked,
        (Some(Framing::UntilClose), _) => Marked::ByClose,
        (Some(Framing::Length) | None, body) => Marked::Length(body.bytes().len() as u64),
    };
    Act::Head(Head {
        status: reply.status,
        fields: reply.fields.clone(),
        marked,
    })
}

fn some_pieces(acts: &mut Vec<Act>, pieces: &[Piece], count: usize) {
    for piece in pieces.iter().take(count) {
        if !piece.after.is_zero() {
            acts.push(Act::Wait(piece.after));
        }
        acts.push(Act::Body(piece.bytes.clone()));
    }
}

fn in_pieces(body: Body) -> Vec<Piece> {
    match body {
        Body::Pieces(pieces) => pieces,
        Body::Whole(bytes) => split(&bytes, PIECES)
            .into_iter()
            .map(|bytes| Piece {
                after: Span::ZERO,
                bytes,
            })
            .collect(),
    }
}

/// The same body, its last piece `lasts` after its first.
fn stretched(mut reply: Reply, lasts: Span) -> Reply {
    let mut pieces = in_pieces(reply.body);
    if let [only] = pieces.as_slice() {
        // One piece alone has no first and last.
        pieces = in_pieces(Body::Whole(only.bytes.clone()));
    }
    let gaps = pieces.len().saturating_sub(1).max(1) as u64;
    for (n, piece) in pieces.iter_mut().enumerate() {
        piece.after = if n == 0 {
            Span::ZERO
        } else {
            lasts.scale(1, gaps)
        };
    }
    reply.body = Body::Pieces(pieces);
    reply
}

/// Cuts into at most `count` pieces of nearly equal length, none empty.
fn split(bytes: &Bytes, count: u32) -> Vec<Bytes> {
    let size = bytes.len().div_ceil(count.max(1) as usize).max(1);
    (0..bytes.len())
        .step_by(size)
        .map(|at| bytes.slice(at..bytes.len().min(at + size)))
        .collect()
}

#[cfg(test)]
mod tests;
