//! The ways of starting `/bin/true` and waiting for its end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Launcher, Limits, Policy, ProcessGroup, Scratch, Streams,
};
use tokio::process::Command;

/// What ours and bubblewrap hide.
const HIDDEN: &str = "/var/log";
const BUBBLEWRAP: &str = "/usr/bin/bwrap";
/// Which folder Codex looks for its configuration in. Not below /tmp: there it refuses to work.
const CODEX_HOME: &str = "codex-home";

/// One way.
pub enum Way {
    /// Fork and exec.
    Plain,
    /// By our launcher, set apart and not confined.
    Unconfined(Launcher),
    /// In our sandbox, until the kernel has cleared everything away: the launcher is gone, and with it the last mount.
    Ours(Launcher),
    /// In our sandbox, until its end is told: every process inside is gone.
    OursToTheEnd(Launcher),
    /// By another program, with these arguments and environment variables.
    Other(PathBuf, Vec<String>, Vec<(&'static str, PathBuf)>),
}

impl Way {
    /// Bubblewrap, as near to ours as it goes: no system call filter, no Landlock.
    pub fn bubblewrap() -> Option<Self> {
        let arguments = format!(
            "--ro-bind / / --unshare-all --dev /dev --proc /proc --tmpfs {HIDDEN} --tmpfs /tmp --new-session \
             --die-with-parent --cap-drop ALL -- /bin/true"
        );
        let program = Some(PathBuf::from(BUBBLEWRAP)).filter(|program| program.exists())?;
        Some(Self::Other(program, arguments.split_whitespace().map(str::to_owned).collect(), Vec::new()))
    }

    /// Anthropic's sandbox-runtime, with its defaults.
    pub fn sandbox_runtime(peers: &Path) -> Option<Self> {
        let program = Some(peers.join("node_modules/.bin/srt")).filter(|program| program.exists())?;
        let settings = peers.join("srt-settings.json");
        let nothing = r#"{"network":{"allowedDomains":[],"deniedDomains":[]},"filesystem":{"denyRead":["/var/log"],"allowWrite":[],"denyWrite":[]}}"#;
        std::fs::write(&settings, nothing).ok()?;
        let arguments = ["-s", settings.to_str()?, "/bin/true"].map(str::to_owned).to_vec();
        Some(Self::Other(program, arguments, Vec::new()))
    }

    /// OpenAI's Codex: its native program, without the Node program around it.
    pub fn codex(peers: &Path) -> Option<Self> {
        let machine = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
        let short = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
        let package = peers.join(format!("node_modules/@openai/codex-linux-{short}"));
        let program = Some(package.join("vendor").join(machine).join("bin/codex"))
            .filter(|program| program.exists())?;
        let home = peers.join(CODEX_HOME);
        std::fs::create_dir_all(&home).ok()?;
        let arguments = ["sandbox", "/bin/true"].map(str::to_owned).to_vec();
        Some(Self::Other(program, arguments, vec![("CODEX_HOME", home)]))
    }

    /// One launch; how long it took from before it was asked for until its end was known.
    ///
    /// # Errors
    /// When the program's exit was not 0, with what was said about it.
    pub async fn once(&self) -> Result<Duration, String> {
        let started = Instant::now();
        match self {
            Self::Plain => other(&mut Command::new("/bin/true")).await?,
            Self::Unconfined(launcher) => {
                let mut launched = launcher.start(&request(), nowhere()).await.map_err(|e| e.to_string())?;
                succeeded(launched.child.wait().await.unwrap())?;
            }
            Self::Ours(launcher) => {
                ours(launcher).await?;
            }
            Self::OursToTheEnd(launcher) => return Ok(ours(launcher).await? - started),
            Self::Other(program, arguments, env) => {
                let mut command = Command::new(program);
                other(command.args(arguments).envs(env.iter().map(|(name, value)| (name, value)))).await?;
            }
        }
        Ok(started.elapsed())
    }
}

/// Gives the moment at which the end was told.
async fn ours(launcher: &Launcher) -> Result<Instant, String> {
    let confinement = Confinement {
        hidden: vec![HIDDEN.into()],
        scratch: Scratch::Memory { bytes: 64 << 20 },
        ..Confinement::default()
    };
    let started = launcher.start_confined(&request(), &confinement, nowhere()).await;
    let mut confined = started.map_err(|error| error.to_string())?;
    confined.hold.ended().await.unwrap();
    let told = Instant::now();
    succeeded(confined.child.wait().await.unwrap())?;
    Ok(told)
}

async fn other(command: &mut Command) -> Result<(), String> {
    succeeded(
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().await.unwrap(),
    )
}

fn succeeded(status: std::process::ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(status.to_string()) }
}

fn request() -> LaunchRequest {
    LaunchRequest {
        argv: vec!["/bin/true".into()],
        cwd: "/".into(),
        env: std::collections::BTreeMap::new(),
        group: ProcessGroup::OwnSession,
        limits: Limits::default(),
        policy: Policy::Command,
    }
}

fn nowhere() -> Streams {
    Streams { stdin: Stdio::null(), stdout: Stdio::null(), stderr: Stdio::null() }
}
