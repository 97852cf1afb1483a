//! Calls to the operators' interface of a running governor.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, anyhow};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use crate::args::Place;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// Longest time for one call.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// The governor can't be reached.
#[derive(Debug, thiserror::Error)]
#[error(
    "no governor answers at {address}: {cause}\nhint: start it with `rategov serve`, or name its address with --operators"
)]
pub(crate) struct Unreachable {
    address: String,
    cause: std::io::Error,
}

/// An operator's client.
pub(crate) struct Client {
    address: String,
    token: String,
}

impl Client {
    /// A client with the token of the data folder, or of `RATEGOV_OPERATOR_TOKEN`.
    pub(crate) fn new(place: &Place) -> anyhow::Result<Client> {
        let token = match std::env::var("RATEGOV_OPERATOR_TOKEN") {
            Ok(token) => token,
            Err(_) => read_token(&place.data_folder())?,
        };
        Ok(Client {
            address: place.operators.clone(),
            token: token.trim().to_owned(),
        })
    }

    pub(crate) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.call(http::Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        self.call(http::Method::POST, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.call(http::Method::DELETE, path, None).await
    }

    async fn call(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        tokio::time::timeout(CALL_TIME_MAX, self.exchange(method, path, body))
            .await
            .map_err(|_| anyhow!("the governor did not answer within {CALL_TIME_MAX:?}"))?
    }

    async fn exchange(
        &self,
        method: http::Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let stream = TcpStream::connect(&self.address)
            .await
            .map_err(|cause| Unreachable {
                address: self.address.clone(),
                cause,
            })?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        let driving = tokio::spawn(connection);
        let bytes = body
            .map(|body| Bytes::from(body.to_string()))
            .unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::HOST, &self.address)
            .header(
                http::header::AUTHORIZATION,
                format!("Bearer {}", self.token),
            )
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(Full::new(bytes))?;
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let bytes = Limited::new(answer.into_body(), ANSWER_BYTES_MAX)
            .collect()
            .await
            .map_err(|cause| anyhow!("the answer broke off: {cause}"))?
            .to_bytes();
        drop(sender);
        driving.abort();
        let value: Value = if bytes.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&bytes).context("the answer is not JSON")?
        };
        if status.is_success() {
            return Ok(value);
        }
        let word = value["code"].as_str().unwrap_or("unknown").to_owned();
        let detail = value["detail"].as_str().unwrap_or("no detail").to_owned();
        Err(anyhow!("{detail} ({word}, status {status})"))
    }
}

fn read_token(folder: &Path) -> anyhow::Result<String> {
    let file = folder.join("operator-token");
    std::fs::read_to_string(&file).map_err(|cause| {
        anyhow!(
            "the operator's token can't be read from {}: {cause}\nhint: name the data folder with --data, or set RATEGOV_OPERATOR_TOKEN",
            file.display()
        )
    })
}
