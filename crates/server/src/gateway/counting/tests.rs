//! What the counters prove, with a layer that can be told how to fail.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (ours, theirs) = tokio::join!(TcpStream::connect(address), listener.accept());
    (ours.unwrap(), theirs.unwrap().0)
}

fn no_hook() -> Hook {
    Box::new(|| ())
}

/// A layer like TLS: it may pass some bytes on before it fails, or keep all of them.
struct Layer {
    wire: Arc<Wire>,
    passes: u64,
    result: Result<usize, io::ErrorKind>,
}

impl AsyncRead for Layer {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        buf.put_slice(b"answer");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Layer {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.wire.below).sent += self.passes;
        Poll::Ready(self.result.map_err(io::Error::from))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        lock(&self.wire.below).sent += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// One write of ten bytes over a layer; what is proved about it.
async fn check(passes: u64, result: Result<usize, io::ErrorKind>, written: u64, left: Left) {
    let (ours, _theirs) = pair().await;
    let (_socket, wire) = Wire::new(ours);
    let mark = wire.mark();
    let layer = Layer {
        wire: Arc::clone(&wire),
        passes,
        result,
    };
    let mut counting = Counting::new(layer, Arc::clone(&wire));
    assert_eq!(
        counting.write(b"ten bytes.").await.unwrap(),
        result.unwrap_or(10)
    );
    let traffic = wire.stop(mark);
    assert_eq!(
        traffic,
        Traffic {
            written,
            read: 0,
            left
        },
        "{passes} {result:?}"
    );
    // TLS would hand over on a flush what it still held; the gate is shut.
    assert!(counting.flush().await.is_err());
    assert!(counting.write(b"more").await.is_err());
    assert_eq!(wire.stop(mark), traffic);
}

#[tokio::test]
async fn a_failed_write_proves_nothing_unless_the_kernel_took_nothing() {
    check(25, Ok(10), 10, Left::Something).await;
    check(0, Ok(10), 10, Left::Nothing).await;
    check(0, Err(io::ErrorKind::BrokenPipe), 0, Left::Nothing).await;
    check(
        16_406,
        Err(io::ErrorKind::ConnectionReset),
        0,
        Left::Something,
    )
    .await;
}

#[tokio::test]
async fn other_traffic_below_is_not_the_requests() {
    let (ours, _theirs) = pair().await;
    let (_socket, wire) = Wire::new(ours);
    let mark = wire.mark();
    // A TLS alert or key update, while nothing was written above.
    lock(&wire.below).sent += 24;
    assert_eq!(wire.stop(mark).left, Left::Nothing);
}

#[tokio::test]
async fn a_failed_write_leaves_the_answer_readable() {
    let (ours, _theirs) = pair().await;
    let (_socket, wire) = Wire::new(ours);
    let mark = wire.mark();
    let layer = Layer {
        wire: Arc::clone(&wire),
        passes: 0,
        result: Err(io::ErrorKind::BrokenPipe),
    };
    let mut counting = Counting::new(layer, Arc::clone(&wire));
    counting
        .write_all(b"an upload that nobody takes")
        .await
        .unwrap();
    assert!(wire.is_deaf());
    assert!(!wire.is_quiet());
    let mut answer = [0; 6];
    counting.read_exact(&mut answer).await.unwrap();
    assert_eq!((&answer, wire.stop(mark).read), (b"answer", 6));
}

#[tokio::test]
async fn the_hook_runs_before_the_first_write_only() {
    let (ours, mut theirs) = pair().await;
    let (socket, wire) = Wire::new(ours);
    let mut counting = Counting::new(socket, Arc::clone(&wire));
    let runs = Arc::new(AtomicUsize::new(0));
    let (counter, inner) = (Arc::clone(&runs), Arc::clone(&wire));
    let mark = wire.mark();
    wire.arm(Box::new(move || {
        counter.fetch_add(1, Ordering::SeqCst);
        assert_eq!(lock(&inner.flow).written, 0);
    }));
    counting.flush().await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0, "a flush writes nothing");
    counting.write_all(b"one").await.unwrap();
    counting.write_all(b"two").await.unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    let mut got = [0; 6];
    theirs.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"onetwo");
    let expected = Traffic {
        written: 6,
        read: 0,
        left: Left::Something,
    };
    assert_eq!(wire.stop(mark), expected);
}

#[tokio::test]
async fn a_connection_is_quiet_until_anything_waits_to_be_read() {
    let (ours, mut theirs) = pair().await;
    let (socket, wire) = Wire::new(ours);
    let mut counting = Counting::new(socket, Arc::clone(&wire));
    assert!(wire.is_quiet());
    theirs.write_all(b"x").await.unwrap();
    assert!(!wire.is_quiet());
    let mut byte = [0; 1];
    counting.read_exact(&mut byte).await.unwrap();
    assert!(wire.is_quiet());
    drop(theirs);
    assert!(!wire.is_quiet());
    let (ours, theirs) = pair().await;
    let (_socket, wire) = Wire::new(ours);
    theirs.set_zero_linger().unwrap();
    drop(theirs);
    assert!(!wire.is_quiet(), "a reset, too");
    let (ours, _theirs) = pair().await;
    let (_socket, wire) = Wire::new(ours);
    wire.close();
    assert!(!wire.is_quiet());
    wire.arm(no_hook());
}
