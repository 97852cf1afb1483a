//! One connection: requests in turn, each read whole, handed to the provider,
//! and answered as its plan says.

use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::handle::Handle;
use super::play::{play, refusal};
use super::read::{Opening, ReadError, Reader};
use super::socket::Socket;
use crate::provider::doors::Welcome;
use crate::provider::message::Request;

/// Serves a connection to its end.
pub(super) async fn serve(
    handle: Handle,
    tcp: TcpStream,
    acceptor: Option<TlsAcceptor>,
    body_max: u64,
) {
    match handle.with(|provider, _| provider.welcome()) {
        Welcome::Serve => {}
        Welcome::Reset => return Socket::Plain(tcp).reset(),
        Welcome::Close => return Socket::Plain(tcp).close().await,
    }
    // Small writes must leave at once: a test counts what arrives when.
    let _ = tcp.set_nodelay(true);
    let mut socket = match acceptor {
        None => Socket::Plain(tcp),
        Some(acceptor) => match acceptor.accept(tcp).await {
            Ok(tls) => Socket::Tls(Box::new(tls)),
            Err(_) => return,
        },
    };
    let mut reader = Reader::default();
    loop {
        match one(&handle, socket, &mut reader, body_max).await {
            Some(kept) => socket = kept,
            None => return,
        }
    }
}

/// Serves one request; gives the connection back if another may follow.
async fn one(
    handle: &Handle,
    mut socket: Socket,
    reader: &mut Reader,
    body_max: u64,
) -> Option<Socket> {
    if !idle(handle, &mut socket, reader).await {
        socket.close().await;
        return None;
    }
    let taken = take(handle, &mut socket, reader, body_max).await;
    let (opening, request) = match taken {
        Ok(taken) => taken,
        Err(ReadError::Gone) => return None,
        Err(ReadError::Refused(status, message)) => {
            // If the caller has gone, it misses nothing.
            let _ = socket.write(&refusal(status, message)).await;
            socket.close_gently().await;
            return None;
        }
    };
    // Worked out before the lock is taken: a large body takes a while.
    let _ = (request.sha256(), request.json());
    let plan = handle.with(|provider, now| provider.arrive(now, &request));
    // Dropped requests of 64 MiB should not live as long as a slow answer.
    drop(request);
    play(handle, (socket, reader), &opening, plan).await
}

/// Waits for a request; `false` if the connection is closed as idle.
async fn idle(handle: &Handle, socket: &mut Socket, reader: &mut Reader) -> bool {
    let since = handle.now();
    let mut doors = handle.doors();
    while !reader.has_bytes() {
        doors.mark_unchanged();
        let limit = handle.read(|provider| provider.idle_max());
        tokio::select! {
            first = reader.first_byte(socket) => return first.is_ok(),
            () = handle.sleep_until(limit.map(|span| since + span)) => return false,
            // The handle lives in this task, so its sender can't be closed.
            _ = doors.changed() => {}
        }
    }
    true
}

async fn take(
    handle: &Handle,
    socket: &mut Socket,
    reader: &mut Reader,
    body_max: u64,
) -> Result<(Opening, Request), ReadError> {
    let opening = reader.head(socket).await?;
    let now = handle.now();
    let cut = handle.read(|provider| provider.upload_cut(now, &opening.head));
    let cut = cut.map(|(after, _)| after);
    let body = reader.body(socket, &opening, (body_max, cut)).await?;
    let request = Request::new(opening.head.clone(), body);
    Ok((opening, request))
}
