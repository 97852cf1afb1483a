//! An upstream that answers every request at once with the same kilobyte.
//!
//! It reads heads only as far as their end, so its own cost is small and the
//! same for everybody. Requests have no bodies here.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of the answer's body: a small JSON document.
pub const BODY_BYTES: usize = 1_024;

/// Starts it on a thread of its own, which ends with the program.
///
/// # Errors
/// If no address is free.
pub fn start() -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    std::thread::Builder::new()
        .name("upstream".to_owned())
        .spawn(move || {
            runtime.block_on(async move {
                let Ok(listener) = TcpListener::from_std(listener) else {
                    return;
                };
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer_all(stream));
                }
            });
        })?;
    Ok(address)
}

async fn answer_all(mut stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let answer = answer();
    let mut heads = Heads::default();
    let mut buffer = [0; 16 << 10];
    loop {
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => {
                for _ in 0..heads.ends_in(&buffer[..read]) {
                    if stream.write_all(&answer).await.is_err() {
                        return;
                    }
                }
            }
        }
    }
}

fn answer() -> Vec<u8> {
    let filler = "x".repeat(BODY_BYTES - "{\"id\":17,\"text\":\"\"}".len());
    let body = format!("{{\"id\":17,\"text\":\"{filler}\"}}");
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
         date: Tue, 01 Dec 2026 12:00:00 GMT\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Counts the ends of heads in a stream that arrives in pieces.
#[derive(Debug, Default)]
struct Heads {
    /// How much of `\r\n\r\n` was seen last.
    seen: usize,
}

impl Heads {
    fn ends_in(&mut self, piece: &[u8]) -> usize {
        const END: &[u8; 4] = b"\r\n\r\n";
        let mut ends = 0;
        for byte in piece {
            self.seen = match *byte {
                byte if byte == END[self.seen] => self.seen + 1,
                b'\r' => 1,
                _ => 0,
            };
            if self.seen == END.len() {
                ends += 1;
                self.seen = 0;
            }
        }
        ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_that_arrives_in_pieces_is_counted_once() {
        let mut heads = Heads::default();
        assert_eq!(heads.ends_in(b"GET / HTTP/1.1\r\nhost: a\r"), 0);
        assert_eq!(heads.ends_in(b"\n\r"), 0);
        assert_eq!(heads.ends_in(b"\nGET / HTTP/1.1\r\n\r\nGET"), 2);
    }

    #[test]
    fn the_answer_is_as_long_as_it_says() {
        let answer = String::from_utf8(answer()).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert_eq!(body.len(), BODY_BYTES);
        assert!(head.contains(&format!("content-length: {BODY_BYTES}")));
        assert!(serde_json::from_str::<serde_json::Value>(body).is_ok());
    }
}
