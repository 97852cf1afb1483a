//! What is served on the two addresses, and how HTTP is spoken there.
//!
//! Both speak HTTP/1.1 with bounds on connections, heads and the time for a head.
//! On the agents' address names keep their case and nothing is added, so that an
//! answer is what the provider sent.

use std::future::{Future as _, poll_fn};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::departure::{Departure, Socket};
use crate::gateway::serve::Gateway;
use crate::listen::{Mended, accept};
use crate::operators::Operators;

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
            let socket = Socket::new(stream);
            let mended = Mended::new(socket.clone());
            let answering = mended.answering();
            let departure = Departure::new(socket, answering.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let gateway = gateway.clone();
                let fault = answering.begin(request.version());
                async move {
                    match fault {
                        None => gateway.serve(request).await,
                        Some(fault) => Ok(Gateway::refuse_head(fault)),
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
                // Whether its caller has left is not the library's to say.
                .half_close(true)
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIME_MAX);
            let connection = builder.serve_connection(TokioIo::new(mended), service);
            run_connection(connection, Some(departure), stop).await;
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
            run_connection(connection, None, stop).await;
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

/// Serves a connection to its end, or until its caller has left; when the governor
/// stops, only what is open on it goes on.
async fn run_connection<C>(connection: C, departure: Option<Departure>, stop: CancellationToken)
where
    C: hyper_util::server::graceful::GracefulConnection,
{
    let mut connection = pin!(connection);
    let mut departure = departure;
    let mut stopped = pin!(stop.cancelled());
    let mut stops = false;
    poll_fn(|context| {
        if !stops && stopped.as_mut().poll(context).is_ready() {
            stops = true;
            connection.as_mut().graceful_shutdown();
        }
        let Some(departure) = &mut departure else {
            // How a connection ends is told to the actions on it, not here.
            return connection.as_mut().poll(context).map(drop);
        };
        if departure.poll(context).is_ready() || connection.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        departure.poll_after(context)
    })
    .await;
}
