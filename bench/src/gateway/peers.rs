//! The proxies: each on the first core, each doing one thing, passing requests on.
//!
//! | proxy | set up as |
//! |---|---|
//! | nginx | one worker, kept connections to the upstream, no access log |
//! | Envoy | one worker, one route, no access log |
//! | rategov | as shipped: journal on disk, log at its default level |
//!
//! A program that is not there is left out and said so; the direct calls are
//! always first.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::process::{self, Usage};

/// The core of the proxies; load and upstream are pinned to another one by
/// whoever starts this program.
const CORE: &str = "0";
/// How long a proxy may take to listen.
const START_MAX: Duration = Duration::from_secs(30);

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The governor.
    pub rategov: PathBuf,
    /// nginx, if it is to be measured.
    pub nginx: Option<PathBuf>,
    /// Envoy, if it is to be measured.
    pub envoy: Option<PathBuf>,
}

/// One proxy, running; or nobody, for direct calls.
pub struct Peer {
    /// Its name.
    pub name: String,
    /// What it says of its version.
    pub version: String,
    /// Where it listens.
    pub address: SocketAddr,
    /// The path that reaches the upstream.
    pub path: String,
    child: Option<Child>,
}

impl Peer {
    /// Starts all that are there.
    ///
    /// # Errors
    /// If one of them does not come up.
    pub fn start_all(
        programs: &Programs,
        upstream: SocketAddr,
        scratch: &Path,
    ) -> anyhow::Result<Vec<Peer>> {
        let mut peers = vec![Peer {
            name: super::DIRECT.to_owned(),
            version: String::new(),
            address: upstream,
            path: "/records/17".to_owned(),
            child: None,
        }];
        match &programs.nginx {
            Some(program) => peers.push(nginx(program, upstream, scratch)?),
            None => eprintln!("nginx is not there and not measured"),
        }
        match &programs.envoy {
            Some(program) => peers.push(envoy(program, upstream, scratch)?),
            None => eprintln!("Envoy is not there and not measured"),
        }
        peers.push(rategov(&programs.rategov, upstream, scratch)?);
        Ok(peers)
    }

    /// What it used up to now; nothing for direct calls.
    ///
    /// # Errors
    /// If it has ended.
    pub fn usage(&self) -> anyhow::Result<Usage> {
        match &self.child {
            Some(child) => process::usage(child.id()).with_context(|| self.name.clone()),
            None => Ok(Usage::default()),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        // A polite end first, so that a server takes its workers with it.
        let asked = Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status();
        let until = Instant::now() + Duration::from_secs(5);
        while asked.is_ok() && Instant::now() < until {
            match child.try_wait() {
                Ok(Some(_)) => return,
                Ok(None) => std::thread::sleep(Duration::from_millis(20)),
                Err(_) => break,
            }
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

fn nginx(program: &Path, upstream: SocketAddr, scratch: &Path) -> anyhow::Result<Peer> {
    let address = free_address()?;
    let folder = fresh(scratch, "nginx")?;
    let here = folder.display();
    let config = format!(
        "daemon off;\nworker_processes 1;\npid {here}/pid;\nerror_log {here}/error.log;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n  access_log off;\n  keepalive_requests 1000000000;\n\
         \x20 client_body_temp_path {here}/body;\n  proxy_temp_path {here}/proxy;\n\
         \x20 fastcgi_temp_path {here}/fastcgi;\n  uwsgi_temp_path {here}/uwsgi;\n\
         \x20 scgi_temp_path {here}/scgi;\n\
         \x20 upstream behind {{ server {upstream}; keepalive 128; keepalive_requests 1000000000; }}\n\
         \x20 server {{\n    listen {address};\n    location / {{\n\
         \x20     proxy_pass http://behind;\n      proxy_http_version 1.1;\n\
         \x20     proxy_set_header Connection \"\";\n    }}\n  }}\n}}\n"
    );
    let file = folder.join("nginx.conf");
    fs::write(&file, config)?;
    let mut command = pinned(program);
    command
        .arg("-e")
        .arg(folder.join("error.log"))
        .arg("-p")
        .arg(&folder)
        .arg("-c")
        .arg(&file);
    let version = says(program, "-v", "nginx/");
    Peer::start("nginx", version, address, "/records/17", command, &folder)
}

fn envoy(program: &Path, upstream: SocketAddr, scratch: &Path) -> anyhow::Result<Peer> {
    let address = free_address()?;
    let folder = fresh(scratch, "envoy")?;
    let config = serde_json::json!({
        "static_resources": {
            "listeners": [{
                "address": socket(address),
                "filter_chains": [{ "filters": [{
                    "name": "envoy.filters.network.http_connection_manager",
                    "typed_config": {
                        "@type": "type.googleapis.com/envoy.extensions.filters.network.\
                                  http_connection_manager.v3.HttpConnectionManager",
                        "stat_prefix": "bench",
                        "route_config": { "virtual_hosts": [{
                            "name": "all",
                            "domains": ["*"],
                            "routes": [{
                                "match": { "prefix": "/" },
                                "route": { "cluster": "behind" },
                            }],
                        }] },
                        "http_filters": [{
                            "name": "envoy.filters.http.router",
                            "typed_config": {
                                "@type": "type.googleapis.com/envoy.extensions.filters.http.\
                                          router.v3.Router",
                            },
                        }],
                    },
                }] }],
            }],
            "clusters": [{
                "name": "behind",
                "type": "STATIC",
                "load_assignment": {
                    "cluster_name": "behind",
                    "endpoints": [{ "lb_endpoints": [{
                        "endpoint": { "address": socket(upstream) },
                    }] }],
                },
            }],
        },
    });
    // Envoy reads JSON where YAML is expected.
    let file = folder.join("envoy.yaml");
    fs::write(&file, config.to_string())?;
    let mut command = pinned(program);
    command.args([
        "--concurrency",
        "1",
        "--use-dynamic-base-id",
        "--log-level",
        "warning",
    ]);
    command.arg("--config-path").arg(&file);
    let version = says(program, "--version", "/");
    Peer::start("Envoy", version, address, "/records/17", command, &folder)
}

fn rategov(program: &Path, upstream: SocketAddr, scratch: &Path) -> anyhow::Result<Peer> {
    let (address, operators) = (free_address()?, free_address()?);
    let folder = fresh(scratch, "rategov")?;
    let config = format!(
        "providers:\n  bench:\n    base_url: http://{upstream}\n    endpoints:\n\
         \x20     - match: GET /records/{{id}}\n        class: read\n"
    );
    let file = folder.join("rategov.yaml");
    fs::write(&file, config)?;
    let mut command = pinned(program);
    command
        .arg("serve")
        .arg("--config")
        .arg(&file)
        .arg("--data")
        .arg(folder.join("data"));
    command.args(["--agents", &address.to_string()]);
    command.args(["--operators-listen", &operators.to_string()]);
    let version = says(program, "--version", "rategov ");
    Peer::start(
        "rategov",
        version,
        address,
        "/bench/records/17",
        command,
        &folder,
    )
}

impl Peer {
    fn start(
        name: &str,
        version: String,
        address: SocketAddr,
        path: &str,
        mut command: Command,
        folder: &Path,
    ) -> anyhow::Result<Peer> {
        let log = folder.join("log");
        let said = fs::File::create(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let child = command
            .spawn()
            .with_context(|| format!("{name} can't be started"))?;
        let mut peer = Peer {
            name: name.to_owned(),
            version,
            address,
            path: path.to_owned(),
            child: Some(child),
        };
        let until = Instant::now() + START_MAX;
        while TcpStream::connect(address).is_err() {
            let ended = match &mut peer.child {
                Some(child) => child.try_wait()?,
                None => None,
            };
            if ended.is_some() || until < Instant::now() {
                let said = fs::read_to_string(&log).unwrap_or_default();
                bail!("{name} does not listen: {}", said.trim_end());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(peer)
    }
}

/// A command on the proxies' core. `taskset` becomes the program, so the child
/// is the proxy itself.
fn pinned(program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", CORE]).arg(program);
    command
}

/// An address that is free now. Another program could take it before the proxy
/// does; the proxy then does not come up, which is told.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn fresh(scratch: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let folder = scratch.join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("{} can't be cleared", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    Ok(folder.canonicalize()?)
}

fn socket(address: SocketAddr) -> serde_json::Value {
    serde_json::json!({
        "socket_address": { "address": address.ip().to_string(), "port_value": address.port() },
    })
}

/// The version that a program prints: what looks like one behind a mark.
fn says(program: &Path, flag: &str, mark: &str) -> String {
    let output = Command::new(program).arg(flag).output();
    let text = output
        .map(|output| [output.stdout, output.stderr].concat())
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default();
    version_in(&text, mark)
}

fn version_in(text: &str, mark: &str) -> String {
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    text.split(mark)
        .skip(1)
        .map(|rest| rest.chars().take_while(|c| is_part(*c)).collect::<String>())
        .find(|version| version.contains('.'))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_programs_print() {
        assert_eq!(
            version_in("nginx version: nginx/1.22.1\n", "nginx/"),
            "1.22.1"
        );
        let envoy = "envoy  version: 0d2f/1.40.0/Clean/RELEASE/BoringSSL\n";
        assert_eq!(version_in(envoy, "/"), "1.40.0");
        assert_eq!(version_in("rategov 0.1.0", "rategov "), "0.1.0");
        assert_eq!(version_in("", "/"), "");
    }
}
