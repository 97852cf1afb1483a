//! Gzip as real providers use it: whole bodies in one go, streams piece by
//! piece with a flush after each, so that every event can be read as it comes.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use rategov_core::time::Span;

use super::message::{Body, Piece, Reply};

/// Codes the body of `reply` and says so in its fields.
pub(super) fn gzip(mut reply: Reply) -> Reply {
    let coded = match &reply.body {
        Body::Whole(bytes) if bytes.is_empty() => return reply,
        Body::Whole(bytes) => one(bytes).map(Body::Whole),
        Body::Pieces(pieces) => each(pieces).map(Body::Pieces),
    };
    // Writing into memory does not fail; if it did, the plain body is right too.
    if let Ok(body) = coded {
        reply.body = body;
        reply.fields.set("content-encoding", "gzip");
        reply.fields.set("vary", "accept-encoding");
    }
    reply
}

/// Joins a stream and cuts it into three pieces, the first cut in the middle of
/// its first character that has more than one byte.
pub(super) fn recut(mut reply: Reply) -> Reply {
    let Body::Pieces(pieces) = &reply.body else {
        return reply;
    };
    let lasts = pieces.iter().fold(Span::ZERO, |sum, p| sum + p.after);
    let bytes = reply.body.bytes();
    let wide = bytes
        .iter()
        .position(|b| *b >= 0xc0)
        .map_or(bytes.len() / 3, |at| at + 1);
    let second = wide + (bytes.len() - wide) / 2;
    let pause = lasts.scale(1, 2);
    reply.body = Body::Pieces(vec![
        Piece {
            after: Span::ZERO,
            bytes: bytes.slice(..wide),
        },
        Piece {
            after: pause,
            bytes: bytes.slice(wide..second),
        },
        Piece {
            after: pause,
            bytes: bytes.slice(second..),
        },
    ]);
    reply
}

fn one(bytes: &[u8]) -> io::Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes)?;
    encoder.finish().map(Bytes::from)
}

fn each(pieces: &[Piece]) -> io::Result<Vec<Piece>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut coded = Vec::with_capacity(pieces.len() + 1);
    for piece in pieces {
        encoder.write_all(&piece.bytes)?;
        encoder.flush()?;
        let bytes = std::mem::take(encoder.get_mut()).into();
        coded.push(Piece {
            after: piece.after,
            bytes,
        });
    }
    coded.push(Piece {
        after: Span::ZERO,
        bytes: encoder.finish()?.into(),
    });
    Ok(coded)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::MultiGzDecoder;

    use super::*;

    fn decoded(bytes: &[u8]) -> String {
        let mut text = String::new();
        MultiGzDecoder::new(bytes)
            .read_to_string(&mut text)
            .expect("it is gzip and UTF-8");
        text
    }

    #[test]
    fn a_coded_stream_decodes_to_the_same_text_and_each_piece_can_be_read_at_once() {
        let events = vec!["data: café\n\n".to_owned(), "data: two\n\n".to_owned()];
        let coded = gzip(Reply::events(events, Span::from_millis(5)));
        assert_eq!(coded.fields.get("content-encoding"), Some("gzip"));
        assert_eq!(decoded(&coded.body.bytes()), "data: café\n\ndata: two\n\n");
        let Body::Pieces(pieces) = &coded.body else {
            panic!("a stream stays a stream")
        };
        let mut first = vec![0; 64];
        let read = MultiGzDecoder::new(&pieces[0].bytes[..])
            .read(&mut first)
            .expect("a piece");
        assert_eq!(&first[..read], "data: café\n\n".as_bytes());
    }

    #[test]
    fn a_recut_stream_is_split_inside_a_character() {
        let events = vec!["data: é\n\n".to_owned(), "data: two\n\n".to_owned()];
        let reply = Reply::events(events, Span::from_millis(6));
        let whole = reply.body.bytes();
        let Body::Pieces(pieces) = recut(reply).body else {
            panic!("a stream stays a stream")
        };
        assert_eq!(pieces.len(), 3);
        assert!(std::str::from_utf8(&pieces[0].bytes).is_err());
        assert_eq!(Body::Pieces(pieces.clone()).bytes(), whole);
        assert_eq!(pieces[1].after, Span::from_millis(3));
    }
}
