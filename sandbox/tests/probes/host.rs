//! A host to be protected: a home with secrets, a workspace, servers that count what reaches them, a victim.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

/// What stands in the secret file.
pub const SECRET: &str = "PRIVATE-KEY";

pub struct Host {
    top: TempDir,
    pub tcp: u16,
    pub abstract_name: String,
    reached: Arc<AtomicUsize>,
    victim: Child,
}

impl Host {
    /// Below /var/tmp: /tmp is not to be seen inside anyway, so nothing there would prove anything.
    pub fn new() -> Self {
        let place = fs::canonicalize("/var/tmp").unwrap();
        let top = tempfile::Builder::new().prefix("gatehouse-probe-").tempdir_in(place).unwrap();
        let at = |name: &str| top.path().join(name);
        for dir in ["home/.ssh", "home/dot/aws", "home/dot/keys", "ws", "sockets", "state"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        fs::write(at("home/.ssh/id_rsa"), SECRET).unwrap();
        fs::write(at("home/dot/aws/credentials"), SECRET).unwrap();
        fs::write(at("home/file"), "public").unwrap();
        fs::write(at("ws/file"), "public").unwrap();
        fs::hard_link(at("home/.ssh/id_rsa"), at("home/linked")).unwrap();
        std::os::unix::fs::symlink(".ssh/id_rsa", at("home/alias")).unwrap();
        std::os::unix::fs::symlink("dot/aws", at("home/.aws")).unwrap();
        let reached = Arc::new(AtomicUsize::new(0));
        let abstract_name = format!("gatehouse-probe-{}", top.path().file_name().unwrap().display());
        let tcp = serve(&at("sockets"), &abstract_name, &reached);
        let victim =
            Command::new("/bin/sleep").arg("1000").env("VICTIM_TOKEN", SECRET).stdin(Stdio::null()).spawn();
        Self { tcp, abstract_name, reached, victim: victim.unwrap(), top }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.top.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    pub fn home(&self) -> PathBuf {
        self.path("home")
    }

    pub fn victim(&self) -> String {
        self.victim.id().to_string()
    }

    /// How often something has reached one of the servers.
    pub fn reached(&self) -> usize {
        self.reached.load(Ordering::SeqCst)
    }

    /// What is hidden in the probes: the usual places of secrets.
    pub fn hidden(&self) -> Vec<PathBuf> {
        vec![self.path("home/.ssh"), self.path("home/.aws"), self.path("state")]
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.victim.kill().unwrap();
        self.victim.wait().unwrap();
    }
}

/// Starts one server of each kind; they end with the test's process.
fn serve(dir: &Path, abstract_name: &str, reached: &Arc<AtomicUsize>) -> u16 {
    let stream = UnixListener::bind(dir.join("stream")).unwrap();
    let datagram = UnixDatagram::bind(dir.join("datagram")).unwrap();
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = tcp.local_addr().unwrap().port();
    for listener in std::iter::once(stream).chain(by_name(abstract_name)) {
        count(reached, move || listener.accept().map(drop));
    }
    count(reached, move || datagram.recv(&mut [0; 16]).map(drop));
    count(reached, move || tcp.accept().map(|(mut stream, _)| drop(stream.read(&mut [0; 16]))));
    port
}

/// A server that has a name and no file.
#[cfg(target_os = "linux")]
fn by_name(name: &str) -> Option<UnixListener> {
    use std::os::linux::net::SocketAddrExt;
    let address = std::os::unix::net::SocketAddr::from_abstract_name(name).unwrap();
    Some(UnixListener::bind_addr(&address).unwrap())
}

/// A Mac has none.
#[cfg(not(target_os = "linux"))]
const fn by_name(_: &str) -> Option<UnixListener> {
    None
}

fn count(reached: &Arc<AtomicUsize>, next: impl Fn() -> std::io::Result<()> + Send + 'static) {
    let reached = Arc::clone(reached);
    std::thread::spawn(move || {
        while next().is_ok() {
            reached.fetch_add(1, Ordering::SeqCst);
        }
    });
}
