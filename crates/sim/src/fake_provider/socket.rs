//! A connection, plain or under TLS, that can be ended in every way there is.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Duration, timeout};
use tokio_rustls::server::TlsStream;

/// What a refused caller may still be sending before it is cut off.
const DRAIN_BYTES_MAX: usize = 1 << 20;
/// How long it may take for it.
const DRAIN_TIME_MAX: Duration = Duration::from_secs(1);

/// A connection.
#[derive(Debug)]
pub(super) enum Socket {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Socket {
    /// Reads some bytes at the end of `buffer`; 0 at the end of the stream.
    pub(super) async fn read(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.stream().read_buf(buffer).await
    }

    /// Writes all of `bytes` and hands them to the network.
    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let stream = self.stream();
        stream.write_all(bytes).await?;
        stream.flush().await
    }

    /// Ends the connection in order (FIN). A caller that is still sending then
    /// gets a reset from the network, as from any server that has gone.
    pub(super) async fn close(mut self) {
        let _ = self.stream().shutdown().await;
    }

    /// Ends it in order, but first lets the caller finish a little of what it is
    /// sending, so that it can read an error before it is cut off.
    pub(super) async fn close_gently(mut self) {
        let _ = self.stream().shutdown().await;
        let drain = async {
            let (mut buffer, mut seen) = (Vec::with_capacity(8_192), 0);
            while seen < DRAIN_BYTES_MAX {
                buffer.clear();
                match self.read(&mut buffer).await {
                    Ok(0) | Err(_) => break,
                    Ok(n) => seen += n,
                }
            }
        };
        let _ = timeout(DRAIN_TIME_MAX, drain).await;
    }

    /// Resets it (RST): whatever was not read yet is lost, and the caller gets
    /// "connection reset".
    pub(super) fn reset(self) {
        let tcp = match &self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(tls) => tls.get_ref().0,
        };
        // A socket that is dead already can't be reset any more.
        let _ = tcp.set_zero_linger();
    }

    fn stream(&mut self) -> &mut (dyn Stream + '_) {
        match self {
            Socket::Plain(tcp) => tcp,
            Socket::Tls(tls) => tls.as_mut(),
        }
    }
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}
