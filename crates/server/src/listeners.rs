//! What is served on the two addresses, and how HTTP is spoken there.
//!
//! Both speak HTTP/1.1 with bounds on connections, heads and the time for a head.
//! On the agents' address names keep their case and nothing is added, so that an
//! answer is what the provider sent.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::gateway::serve::Gateway;
use crate::listen::{Mended, accept};
use crate::operators::Operators;
use crate::raw_head::Framed;

/// Connections of agents at a time.
const CONNECTIONS_MAX: usize = 20_000;
/// Connections of operators at a time.
const OPERATOR_CONNECTIONS_MAX: usize = 256;
/// Largest head that the HTTP library reads; a larger one is refused before.
const HEAD_BUFFER_BYTES: usize = 256 << 10;
/// Most fields of a head.
const HEAD_FIELDS_MAX: usize = 512;
/// How long a caller may take to send its head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(30);

/// Serves agents until the governor stops.
pub(crate) fn serve_agents(
    listener: TcpListener,
    gateway: Gateway,
    stop: &CancellationToken,
    connections: &TaskTracker,
) {
    let handle = move |stream: TcpStream, _: SocketAddr, stop: CancellationToken| {
        let gateway = gateway.clone();
        async move {
            let mended = Mended::new(stream);
            let answering = mended.answering();
            let service = service_fn(move |request| {
                let (gateway, answering) = (gateway.clone(), answering.clone());
                async move {
                    match answering.begin() {
                        Framed::Once => gateway.serve(request).await,
                        Framed::Ambiguously => Ok(Gateway::refuse_framing()),
                    }
                }
            });
            let mut builder = http1::Builder::new();
            builder
                // Names keep their case, and nothing is added, so that an answer
                // is what the provider sent.
                .preserve_header_case(true)
                .auto_date_header(false)
                .max_buf_size(HEAD_BUFFER_BYTES)
                .max_headers(HEAD_FIELDS_MAX)
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX);
            let connection = builder.serve_connection(TokioIo::new(mended), service);
            run_connection(connection, stop).await;
        }
    };
    accept(
        listener,
        Arc::new(Semaphore::new(CONNECTIONS_MAX)),
        stop,
        connections,
        handle,
    );
}

/// Serves operators until the governor stops.
pub(crate) fn serve_operators(
    listener: TcpListener,
    api: Operators,
    stop: &CancellationToken,
    connections: &TaskTracker,
) {
    let handle = move |stream: TcpStream, peer: SocketAddr, stop: CancellationToken| {
        let api = api.clone();
        async move {
            let service = service_fn(move |request| api.clone().serve(peer, request));
            let mut builder = http1::Builder::new();
            builder
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX);
            let connection = builder.serve_connection(TokioIo::new(stream), service);
            run_connection(connection, stop).await;
        }
    };
    accept(
        listener,
        Arc::new(Semaphore::new(OPERATOR_CONNECTIONS_MAX)),
        stop,
        connections,
        handle,
    );
}

/// Serves a connection to its end; when the governor stops, only what is open on
/// it goes on.
async fn run_connection<C>(connection: C, stop: CancellationToken)
where
    C: hyper_util::server::graceful::GracefulConnection,
{
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // How a connection ends is told to the actions on it, not here.
        _ = connection.as_mut() => {}
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
