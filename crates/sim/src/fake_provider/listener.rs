//! Listening, and not listening for a while: a provider that refuses
//! connections has no listener at all, so that the kernel itself says no.
//!
//! The port is held meanwhile by a socket that is bound and never listens;
//! nobody else can be given it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rategov_core::time::Moment;
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Duration;
use tokio_rustls::TlsAcceptor;

use super::handle::Handle;
use super::{Options, StartError, connection};

/// Connections that wait to be accepted.
const BACKLOG: u32 = 1_024;
/// Pause after an error of `accept`, which means that the machine is short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// An address that is ours, and a listener on it.
pub(super) struct Bound {
    /// The address with its real port.
    pub(super) addr: SocketAddr,
    /// Listens.
    pub(super) listener: TcpListener,
    /// Holds the port while nobody listens.
    _held: TcpSocket,
}

/// Binds and listens.
pub(super) fn bind(addr: SocketAddr) -> Result<Bound, StartError> {
    let error = |cause| StartError::Listen { addr, cause };
    let held = socket(addr).map_err(error)?;
    let addr = held.local_addr().map_err(error)?;
    let listener = listen(addr).map_err(error)?;
    Ok(Bound {
        addr,
        listener,
        _held: held,
    })
}

fn socket(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

fn listen(addr: SocketAddr) -> io::Result<TcpListener> {
    socket(addr)?.listen(BACKLOG)
}

fn closed_until(handle: &Handle) -> Option<Moment> {
    let now = handle.now();
    handle.read(|provider| provider.closed_until(now))
}

/// Accepts connections until it is aborted; its connections end with it.
pub(super) async fn run(
    bound: Bound,
    handle: Handle,
    options: Options,
    acceptor: Option<TlsAcceptor>,
) {
    let Bound {
        addr,
        listener,
        _held,
    } = bound;
    let mut listener = Some(listener);
    let mut doors = handle.doors();
    let mut connections = JoinSet::new();
    let places = Arc::new(Semaphore::new(options.connections_max.max(1)));
    loop {
        doors.mark_unchanged();
        let closed = closed_until(&handle);
        if closed.is_some() {
            listener = None;
        }
        let Some(open) = &listener else {
            tokio::select! {
                () = handle.sleep_until(closed) => {}
                _ = doors.changed() => {}
            }
            if closed_until(&handle).is_none() {
                match listen(addr) {
                    Ok(again) => listener = Some(again),
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
            continue;
        };
        let accepted = async {
            let place = places.clone().acquire_owned().await;
            (open.accept().await, place)
        };
        tokio::select! {
            (accepted, place) = accepted => match accepted {
                Ok((tcp, _)) => {
                    let (handle, acceptor) = (handle.clone(), acceptor.clone());
                    let body_max = options.body_max;
                    connections.spawn(async move {
                        connection::serve(handle, tcp, acceptor, body_max).await;
                        drop(place);
                    });
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            _ = doors.changed() => {}
            Some(_) = connections.join_next() => {}
        }
    }
}
