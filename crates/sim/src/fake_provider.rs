//! The provider model behind real sockets: an HTTP/1.1 server written by hand,
//! because it must also cut, reset and garble what it writes, byte by byte.
//!
//! [`serve`] starts it: one listener for calls, one for control. Every call goes
//! through [`crate::provider::Provider::arrive`] under one short lock, and the
//! plan that comes back is played on the socket. Nothing is decided here, so a
//! run in virtual time and a run on sockets meet the same provider.
//!
//! Bounds: heads of 64 KiB and 128 fields, bodies of [`Options::body_max`],
//! [`Options::connections_max`] connections (further ones wait in the backlog).

mod connection;
mod control;
mod handle;
mod listener;
mod options;
mod play;
mod read;
mod socket;
mod tls;

pub use handle::Handle;
pub use options::{Clock, OptionError, Options, TlsOptions};

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use tokio::task::JoinHandle;

/// Why the fake provider can't start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {addr}: {cause}\nhint: choose another port, or 0 for a free one")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// The certificate can't be made or written.
    #[error("can't make a certificate: {cause}\nhint: check that {path} can be written")]
    Certificate {
        /// What went wrong.
        cause: String,
        /// Where it was to be written.
        path: String,
    },
}

/// A fake provider that runs until it is shut down or dropped.
#[derive(Debug)]
pub struct Running {
    /// Where calls go.
    pub addr: SocketAddr,
    /// Where the control API is, if there is one.
    pub control_addr: Option<SocketAddr>,
    /// The certificate that callers must trust, if TLS is on.
    pub certificate: Option<PathBuf>,
    /// The provider itself.
    pub handle: Handle,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    /// `http://127.0.0.1:PORT` or `https://…`, without a path.
    pub fn base_url(&self) -> String {
        let scheme = if self.certificate.is_some() {
            "https"
        } else {
            "http"
        };
        format!("{scheme}://{}", self.addr)
    }

    /// Stops listening and drops every connection; open calls end as they are.
    /// The ledger stays readable through a clone of the handle.
    pub async fn shutdown(mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
            // A task that was aborted ends with a join error, which is what is wanted.
            let _ = task.await;
        }
    }

    /// Waits until the server ends by itself, which it does only if its address
    /// is lost.
    pub async fn ended(&mut self) {
        if let Some(task) = self.tasks.first_mut() {
            let _ = task.await;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts a fake provider.
///
/// # Errors
/// If an address can't be listened on, or the certificate can't be written.
pub async fn serve(options: Options) -> Result<Running, StartError> {
    let acceptor = options.tls.as_ref().map(tls::acceptor).transpose()?;
    let bound = listener::bind(options.listen)?;
    let control = options.control.map(listener::bind).transpose()?;
    let (addr, control_addr) = (bound.addr, control.as_ref().map(|c| c.addr));
    let certificate = options.tls.as_ref().map(|t| t.certificate.clone());
    let handle = Handle::new(&options);
    let mut tasks = vec![tokio::spawn(listener::run(
        bound,
        handle.clone(),
        options,
        acceptor,
    ))];
    if let Some(control) = control {
        tasks.push(tokio::spawn(control::run(control, handle.clone())));
    }
    Ok(Running {
        addr,
        control_addr,
        certificate,
        handle,
        tasks,
    })
}
