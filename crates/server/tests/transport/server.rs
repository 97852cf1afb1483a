//! The scripted server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rategov_server::gateway::destination::{Destination, PlainHttp};
use rategov_server::gateway::pool::PoolLimits;
use rategov_server::gateway::tls::TlsOptions;
use rategov_server::gateway::upstream::Upstream;
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// What a script does next on its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Reads a head and a body of its `content-length` (or to its last chunk).
    ReadRequest,
    /// Reads a head only.
    ReadHead,
    /// Writes.
    Say(&'static str),
    /// Writes this many header bytes without an end.
    SayHugeHead(usize),
    /// Writes this many bytes of a body.
    SayBody(usize),
    /// Reports that everything before it was done.
    Tell,
    /// Waits until the test calls [`Server::proceed`].
    Wait,
    /// Never does anything again.
    Hang,
    /// Closes with a reset.
    Reset,
    /// Closes properly: TLS goodbye, FIN.
    Fin,
    /// Closes the TCP connection without TLS's goodbye.
    Vanish,
}

pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// With TLS or without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    Plain,
    Tls,
}

pub(crate) const BOTH: [Layer; 2] = [Layer::Plain, Layer::Tls];

/// What the server reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    Accepted(usize),
    /// A request, or the head that was asked for, has been read.
    Requested(usize),
    /// [`Step::Tell`] was reached.
    Told(usize),
    /// The script is over and its connection closed.
    Done(usize),
}

#[derive(Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicUsize,
    pub(crate) requests: AtomicUsize,
}

pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) seen: Arc<Seen>,
    /// The requests as they came.
    pub(crate) raw: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
    layer: Layer,
    go: Arc<Notify>,
    reports: mpsc::UnboundedReceiver<Report>,
    ca: Option<tempfile::NamedTempFile>,
}

/// A certificate for `names`, its key, and the file that makes it trusted.
pub(crate) struct Identity {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) ca: tempfile::NamedTempFile,
}

impl Identity {
    /// Self-signed under its first name.
    pub(crate) fn new(names: &[&str], not_after_year: i32) -> Identity {
        let mut params =
            rcgen::CertificateParams::new(names.iter().map(|n| n.to_string()).collect::<Vec<_>>())
                .unwrap();
        params
            .distinguished_name
            .push(rcgen::DnType::CommonName, names[0]);
        params.not_after = rcgen::date_time_ymd(not_after_year, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let ca = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(ca.path(), certificate.pem()).unwrap();
        let der: CertificateDer<'static> = certificate.der().clone();
        let secret = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der], secret)
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Identity {
            config: Arc::new(config),
            ca,
        }
    }

    pub(crate) fn local() -> Identity {
        Identity::new(&["127.0.0.1", "localhost"], 2099)
    }
}

impl Server {
    /// Serves one script for each connection, in the order of their arrival.
    pub(crate) async fn start(layer: Layer, scripts: Vec<Vec<Step>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Seen::default());
        let raw = Arc::new(std::sync::Mutex::new(Vec::new()));
        let go = Arc::new(Notify::new());
        let (report, reports) = mpsc::unbounded_channel();
        let identity = (layer == Layer::Tls).then(Identity::local);
        let acceptor = identity
            .as_ref()
            .map(|i| TlsAcceptor::from(Arc::clone(&i.config)));
        let (s, r, g) = (Arc::clone(&seen), Arc::clone(&raw), Arc::clone(&go));
        tokio::spawn(async move {
            let mut scripts = scripts.into_iter();
            while let Ok((socket, _)) = listener.accept().await {
                // Or a small answer waits for an acknowledgement and dies with a reset.
                socket.set_nodelay(true).unwrap();
                let n = s.connections.fetch_add(1, Ordering::SeqCst);
                let script = scripts.next().unwrap_or_default();
                let (seen, raw, go, report, acceptor) = (
                    Arc::clone(&s),
                    Arc::clone(&r),
                    Arc::clone(&g),
                    report.clone(),
                    acceptor.clone(),
                );
                tokio::spawn(async move {
                    let peer = match acceptor {
                        None => Peer::Plain(socket),
                        Some(tls) => match tls.accept(socket).await {
                            Ok(stream) => Peer::Tls(Box::new(stream)),
                            Err(_) => return,
                        },
                    };
                    let _ = report.send(Report::Accepted(n));
                    Script {
                        peer,
                        n,
                        seen,
                        raw,
                        go,
                        report: report.clone(),
                    }
                    .run(script)
                    .await;
                    let _ = report.send(Report::Done(n));
                });
            }
        });
        Server {
            port,
            seen,
            raw,
            layer,
            go,
            reports,
            ca: identity.map(|i| i.ca),
        }
    }

    pub(crate) fn destination(&self) -> Destination {
        let scheme = match self.layer {
            Layer::Plain => "http",
            Layer::Tls => "https",
        };
        let url = format!("{scheme}://127.0.0.1:{}", self.port);
        Destination::parse(&url, PlainHttp::LoopbackOnly).unwrap()
    }

    pub(crate) fn upstream(&self, limits: PoolLimits) -> Upstream {
        let extra_ca = self.ca.as_ref().map(|file| file.path().to_owned());
        Upstream::new(limits, &TlsOptions { extra_ca }).unwrap()
    }

    /// Lets one waiting script go on.
    pub(crate) fn proceed(&self) {
        self.go.notify_one();
    }

    /// Waits for a report.
    pub(crate) async fn until(&mut self, wanted: Report) {
        let wait = async {
            while let Some(report) = self.reports.recv().await {
                if report == wanted {
                    return;
                }
            }
            panic!("the server ended before {wanted:?}");
        };
        tokio::time::timeout(Duration::from_secs(20), wait)
            .await
            .unwrap_or_else(|_| panic!("no {wanted:?} within 20 s"));
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::SeqCst)
    }

    pub(crate) fn requests(&self) -> usize {
        self.seen.requests.load(Ordering::SeqCst)
    }

    pub(crate) fn raw(&self, n: usize) -> String {
        String::from_utf8_lossy(&self.raw.lock().unwrap()[n]).into_owned()
    }
}

enum Peer {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Peer {
    fn tcp(&self) -> &TcpStream {
        match self {
            Peer::Plain(socket) => socket,
            Peer::Tls(stream) => stream.get_ref().0,
        }
    }

    async fn read(&mut self, buffer: &mut [u8]) -> usize {
        match self {
            Peer::Plain(socket) => socket.read(buffer).await.unwrap_or(0),
            Peer::Tls(stream) => stream.read(buffer).await.unwrap_or(0),
        }
    }

    async fn write(&mut self, text: &[u8]) {
        // The caller may have left; what it then sees is the test's subject.
        let _ = match self {
            Peer::Plain(socket) => socket.write_all(text).await,
            Peer::Tls(stream) => stream.write_all(text).await,
        };
        let _ = match self {
            Peer::Plain(socket) => socket.flush().await,
            Peer::Tls(stream) => stream.flush().await,
        };
    }
}

struct Script {
    peer: Peer,
    n: usize,
    seen: Arc<Seen>,
    raw: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
    go: Arc<Notify>,
    report: mpsc::UnboundedSender<Report>,
}

impl Script {
    async fn run(mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::ReadRequest => {
                    if !self.read_request(true).await {
                        return;
                    }
                }
                Step::ReadHead => {
                    if !self.read_request(false).await {
                        return;
                    }
                }
                Step::Say(text) => self.peer.write(text.as_bytes()).await,
                Step::SayHugeHead(bytes) => {
                    self.peer.write(b"HTTP/1.1 200 OK\r\nx-huge: ").await;
                    self.peer.write(&vec![b'x'; bytes]).await;
                }
                Step::SayBody(bytes) => self.peer.write(&vec![b'x'; bytes]).await,
                Step::Tell => {
                    let _ = self.report.send(Report::Told(self.n));
                }
                Step::Wait => self.go.notified().await,
                Step::Hang => std::future::pending().await,
                Step::Reset => {
                    self.peer.tcp().set_zero_linger().unwrap();
                    return;
                }
                Step::Fin => {
                    let _ = match &mut self.peer {
                        Peer::Plain(socket) => socket.shutdown().await,
                        Peer::Tls(stream) => stream.shutdown().await,
                    };
                    return;
                }
                Step::Vanish => return,
            }
        }
    }

    /// Reads a request; `false` if the connection ended first.
    async fn read_request(&mut self, with_body: bool) -> bool {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            if find(&bytes, b"\r\n\r\n").is_some() && (!with_body || is_whole(&bytes)) {
                break;
            }
            let n = self.peer.read(&mut buffer).await;
            if n == 0 {
                return false;
            }
            bytes.extend_from_slice(&buffer[..n]);
        }
        self.seen.requests.fetch_add(1, Ordering::SeqCst);
        self.raw.lock().unwrap().push(bytes);
        let _ = self.report.send(Report::Requested(self.n));
        true
    }
}

/// Whether a message, request or answer, is there with all of its body.
pub(crate) fn is_whole(message: &[u8]) -> bool {
    let Some(end) = find(message, b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&message[..end]).to_ascii_lowercase();
    let body = &message[end + 4..];
    if head.contains("transfer-encoding: chunked") {
        return body.starts_with(b"0\r\n") && body.ends_with(b"\r\n\r\n")
            || find(body, b"\r\n0\r\n").is_some() && body.ends_with(b"\r\n\r\n");
    }
    let length = head
        .split("content-length: ")
        .nth(1)
        .and_then(|rest| rest.lines().next());
    body.len() >= length.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
