//! The agents' HTTP client: one call, one connection, no retry.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;

/// What the agents look at.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
}

/// A read of an item.
pub(super) async fn get(
    target: SocketAddr,
    path: &str,
    agent: &str,
    priority: &str,
) -> anyhow::Result<Answer> {
    let stream = tokio::net::TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::spawn(connection);
    let request = http::Request::get(path)
        .header(http::header::HOST, target.to_string())
        .header("rategov-agent", agent)
        .header("rategov-priority", priority)
        .body(Empty::<Bytes>::new())?;
    let answer = sender.send_request(request).await?;
    let status = answer.status().as_u16();
    let retry_after = answer
        .headers()
        .get(http::header::RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse::<f64>().ok())
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .map(Duration::from_secs_f64);
    answer.into_body().collect().await?;
    drop(sender);
    driving.abort();
    Ok(Answer {
        status,
        retry_after,
    })
}
