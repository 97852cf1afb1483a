//! From a destination to a connected, counted stream: name, address, TCP, TLS.
//!
//! Everything here happens before a byte of a request can be written, so every
//! failure is "not sent". One deadline covers all of it.
//!
//! A name is resolved once; each address is judged and a judged one is dialled
//! (see [`super::address`]). Several addresses are tried in the resolver's
//! order, the next one after `STAGGER` or as soon as one fails, and the
//! first connection wins (RFC 8305 §5): a dead IPv6 route costs a quarter of a
//! second, not the deadline.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rategov_core::action::outcome::NotSent;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, lookup_host};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_rustls::client::TlsStream;

use super::address;
use super::counting::{Counting, Socket, Wire};
use super::destination::{Destination, Host, Scheme};
use super::detail::Detail;
use super::evidence::{self, Verdict};
use super::tls::{self, Tls};

/// How long one address is tried before the next one is tried beside it (RFC 8305 §5).
const STAGGER: Duration = Duration::from_millis(250);
/// Most addresses of a name that are tried.
const ADDRESSES_MAX: usize = 8;
/// A model can think for minutes without a byte; the probes keep middle boxes
/// from forgetting the connection, as the providers' own SDKs do.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// What lies under the counter.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// Connects to a destination.
///
/// # Errors
/// Always a "not sent", with its detail.
pub(crate) async fn dial(
    destination: &Destination,
    tls: &Tls,
    within: Duration,
) -> Result<(Counting<Stream>, Arc<Wire>), Verdict> {
    let deadline = Instant::now() + within;
    let addresses = resolve(destination, deadline).await?;
    let stream = connect(addresses, deadline).await?;
    let (socket, wire) = Wire::new(stream);
    let stream = match destination.origin().scheme {
        Scheme::Http => Stream::Plain(socket),
        Scheme::Https => Stream::Tls(Box::new(secure(destination, tls, socket, deadline).await?)),
    };
    Ok((Counting::new(stream, Arc::clone(&wire)), wire))
}

async fn resolve(destination: &Destination, deadline: Instant) -> Result<Vec<SocketAddr>, Verdict> {
    let port = destination.origin().port;
    let found: Vec<SocketAddr> = match &destination.origin().host {
        Host::Address(ip) => vec![SocketAddr::new(*ip, port)],
        Host::Name(name) => timeout_at(deadline, lookup_host((&**name, port)))
            .await
            .map_err(|_| Verdict::NotSent(NotSent::Dns, Detail::NameTimedOut))?
            .map_err(|error| evidence::of_name(&error))?
            .collect(),
    };
    let mut refused = Verdict::NotSent(NotSent::Dns, Detail::NameNotFound);
    let mut allowed = Vec::with_capacity(found.len().min(ADDRESSES_MAX));
    for address in found {
        match address::check(address.ip(), destination.reach()) {
            Ok(()) if allowed.len() < ADDRESSES_MAX => allowed.push(address),
            Ok(()) => break,
            Err(refusal) => refused = evidence::of_address(refusal),
        }
    }
    if allowed.is_empty() {
        Err(refused)
    } else {
        Ok(allowed)
    }
}

async fn connect(addresses: Vec<SocketAddr>, deadline: Instant) -> Result<TcpStream, Verdict> {
    let stream = timeout_at(deadline, race(addresses))
        .await
        .map_err(|_| Verdict::NotSent(NotSent::Connect, Detail::ConnectTimedOut))?
        .map_err(|error| evidence::of_connect(&error))?;
    // Small heads must not wait for a full segment. Both options only tune; a
    // socket that refuses them still carries the request.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEPALIVE));
    Ok(stream)
}

/// The first of several addresses that accepts, or the first one's error: the
/// resolver put the best address first, so its failure is the one to report.
async fn race(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut first_error = None;
    // Dropping the set ends the attempts that lost.
    let mut tries = JoinSet::new();
    if let Some(address) = waiting.next() {
        tries.spawn(TcpStream::connect(address));
    }
    loop {
        let result = tokio::select! {
            biased;
            Some(joined) = tries.join_next() => joined.unwrap_or_else(|e| Err(io::Error::other(e))),
            () = sleep(STAGGER), if waiting.len() > 0 => {
                tries.extend(waiting.next().map(TcpStream::connect));
                continue;
            }
            else => break,
        };
        match result {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                first_error.get_or_insert(error);
                tries.extend(waiting.next().map(TcpStream::connect));
            }
        }
    }
    Err(first_error.unwrap_or_else(|| io::ErrorKind::AddrNotAvailable.into()))
}

async fn secure(
    destination: &Destination,
    tls: &Tls,
    socket: Socket,
    deadline: Instant,
) -> Result<TlsStream<Socket>, Verdict> {
    let name = tls::server_name(&destination.origin().host).ok_or(Verdict::NotSent(
        NotSent::Certificate,
        Detail::CertificateForOtherName,
    ))?;
    let connector = tls
        .connector()
        .await
        .map_err(|_| Verdict::NotSent(NotSent::Certificate, Detail::NoTrustedRoots))?;
    timeout_at(deadline, connector.connect(name, socket))
        .await
        .map_err(|_| Verdict::NotSent(NotSent::Tls, Detail::TlsTimedOut))?
        .map_err(|error| evidence::of_tls(&error))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_read(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write(cx, buf),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, bufs),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Plain(socket) => socket.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
