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
            serde_json::from_slice(&bytes).with_context(|| {
                format!(
                    "the answer of {} is not JSON\n{OTHER_ADDRESS}",
                    self.address
                )
            })?
        };
        if status.is_success() {
            return Ok(value);
        }
        Err(anyhow!(refused(&value, status)))
    }
}

const OTHER_ADDRESS: &str = "hint: this is not the operators' address of a governor; name it with --operators, as `rategov serve` prints it (by default 127.0.0.1:7879)";

/// What a refusal says. The agents' interface takes the first part of a path for a
/// provider's name: who hears of one has called at the wrong address.
fn refused(problem: &Value, status: http::StatusCode) -> String {
    let word = problem["code"].as_str().unwrap_or("unknown");
    let detail = problem["detail"].as_str().unwrap_or("no detail");
    let hint = match word {
        "unknown_provider" | "unknown" => format!("\n{OTHER_ADDRESS}"),
        _ => String::new(),
    };
    format!("{detail} ({word}, status {status}){hint}")
}

fn read_token(folder: &Path) -> anyhow::Result<String> {
    if folder.is_file() {
        return Err(anyhow!(
            "{} is a file\nhint: --data names the data folder, in which the operator's token is; by default rategov-data",
            folder.display()
        ));
    }
    let file = folder.join("operator-token");
    std::fs::read_to_string(&file).map_err(|cause| {
        anyhow!(
            "the operator's token can't be read from {}: {cause}\nhint: name the data folder with --data, or set RATEGOV_OPERATOR_TOKEN",
            file.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn who_calls_at_the_agents_address_is_told_of_the_operators() {
        let refusal = |code: &str| {
            let problem = json!({ "code": code, "detail": "the cause" });
            refused(&problem, http::StatusCode::NOT_FOUND)
        };
        let said = refusal("unknown_provider");
        assert!(said.starts_with("the cause (unknown_provider, status 404"));
        assert!(said.contains("--operators"), "{said}");
        assert!(!refusal("not_found").contains("hint"));
        let other = refused(&Value::Null, http::StatusCode::NOT_FOUND);
        assert!(other.contains("--operators"), "{other}");
    }

    #[test]
    fn a_file_in_place_of_the_data_folder_is_called_one() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let said = read_token(&file).unwrap_err().to_string();
        assert!(said.contains("is a file\nhint: --data names"), "{said}");
    }
}
