//! A person who has just cloned the repository: an empty home, and a shell in which the lines of the documents are typed.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gatehouse::chatgpt::{Client, Endpoint};
use gatehouse_tests::binaries::{binary, folder};
use gatehouse_tests::places::free_port;
use gatehouse_tests::processes;
use gatehouse_tests::tunnel::Control;
use gatehouse_tests::waiting::until;
use nix::sys::signal::Signal;

use super::written::{GATEHOUSE, Written};

/// The tunnel that the guide has for an example.
const TUNNEL: &str = "tunnel_0123456789abcdef0123456789abcdef";
/// What is pasted where the guide asks for a key.
const API_KEY: &str = "sk-of-a-newcomer";

/// `gatehouse up` as a person starts it, without a flag, and a tunnel at the provider's.
pub struct Newcomer {
    home: tempfile::TempDir,
    up: Child,
    tunnel_client: Option<Child>,
    pub endpoint: Endpoint,
    pub tunnel: Control,
}

impl Newcomer {
    pub async fn start(claude: &Path) -> Self {
        let home = tempfile::Builder::new().prefix("gh").tempdir_in("/tmp").unwrap();
        let free = SocketAddr::from(([127, 0, 0, 1], free_port()));
        furnish(home.path(), &format!("[front]\nlisten = \"{free}\"\n"));
        let mut command = shell(home.path(), "exec target/debug/gatehouse up --json");
        let up = command.env("CLAUDE_BIN", claude).stdout(Stdio::piped()).spawn().unwrap();
        let endpoint = Endpoint::Tcp { address: free, key: None };
        let tunnel = Control::start(TUNNEL, API_KEY).await;
        let mut newcomer = Self { home, up, tunnel_client: None, endpoint, tunnel };
        newcomer.endpoint = newcomer.ready().await;
        newcomer
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    async fn ready(&self) -> Endpoint {
        let Endpoint::Tcp { address, .. } = self.endpoint else { unreachable!("it listens on TCP") };
        let key_file = self.home().join(".local/state/gatehouse/front.key");
        until("the gateway is up", async || {
            let key = std::fs::read_to_string(&key_file).ok()?.trim().to_owned();
            let endpoint = Endpoint::Tcp { address, key: Some(key) };
            Client::http(endpoint.clone(), None).initialize().await.ok().map(|_| endpoint)
        })
        .await
    }

    /// A line as a person types it, in the repository.
    pub fn types(&self, line: &str) -> Command {
        let mut command = shell(self.home(), line);
        command.env("CONTROL_PLANE_BASE_URL", format!("http://{}", self.tunnel.address));
        command
    }

    /// Types a line of a document, and expects that it does well.
    pub async fn runs(&mut self, line: &Written, command: &str) {
        if command.starts_with("tunnel-client run") {
            assert!(self.tunnel_client.is_none(), "{}: one is enough", line.document);
            self.tunnel_client = Some(self.types(&format!("exec {command}")).spawn().unwrap());
            return self.tunnel_is_ready().await;
        }
        let endless = command.starts_with(&format!("{GATEHOUSE}watch"));
        let typed = if endless { format!("timeout --signal=INT 2 {command}") } else { command.to_owned() };
        let mut running = self.types(&typed);
        running.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut running = running.spawn().unwrap();
        let mut keyboard = running.stdin.take().unwrap();
        if command.contains("api-key)") {
            writeln!(keyboard, "{API_KEY}").unwrap();
        }
        drop(keyboard);
        let output = running.wait_with_output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        // 124: it went on until it was stopped.
        let wanted = if endless { 124 } else { 0 };
        assert_eq!(output.status.code(), Some(wanted), "{}: {command}\n{out}\n{err}", line.document);
    }

    /// The page whose address the profile has written down says so.
    async fn tunnel_is_ready(&self) {
        let file = self.home().join("run/gatehouse/tunnel-health.url");
        until("tunnel-client is ready", async || {
            let base = std::fs::read_to_string(&file).ok()?;
            let address = base.trim().strip_prefix("http://")?.parse().ok()?;
            let page = Endpoint::Tcp { address, key: None };
            let request = page.request(http::Method::GET, "/readyz").body(http_body_util::Full::default());
            let reply = gatehouse::chatgpt::http::send(&page, request.ok()?).await.ok()?;
            assert!(reply.status.is_success(), "{}", String::from_utf8_lossy(&reply.body));
            Some(())
        })
        .await;
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        for child in self.tunnel_client.iter_mut().chain([&mut self.up]) {
            if let Ok(None) = child.try_wait() {
                processes::signal(child.id(), Signal::SIGTERM);
                let _ = child.wait();
            }
        }
    }
}

/// What lies in the home before anything is typed.
fn furnish(home: &Path, config: &str) {
    std::fs::create_dir_all(home.join(".config/gatehouse")).unwrap();
    std::fs::write(home.join(".config/gatehouse/config.toml"), config).unwrap();
    std::fs::create_dir_all(home.join("repository/target")).unwrap();
    std::os::unix::fs::symlink(folder(), home.join("repository/target/debug")).unwrap();
    std::fs::create_dir(home.join("run")).unwrap();
    std::fs::create_dir(home.join("bin")).unwrap();
    std::os::unix::fs::symlink(binary("tunnel-client-stand-in"), home.join("bin/tunnel-client")).unwrap();
    let skill = home.join(".claude/skills/review");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "# Review\n\nBe careful.\n").unwrap();
}

fn shell(home: &Path, line: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", line]).current_dir(home.join("repository")).env_clear();
    command
        .env("HOME", home)
        .env("XDG_RUNTIME_DIR", home.join("run"))
        .env("PATH", format!("{}/bin:/usr/local/bin:/usr/bin:/bin", home.display()));
    command
}
