//! Wiring: settings, ledger, rooms, sockets, signals.

#![forbid(unsafe_code)]

mod offline;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use executor_svc::action::Actions;
use executor_svc::clock::SystemClock;
use executor_svc::commands::Commands;
use executor_svc::config::{HardLinks, LogFormat, NetworkFileSystems, Overrides, Settings, WithoutExchange};
use executor_svc::content::ContentStore;
use executor_svc::engine::{Engine, Parts, RecoverySecret, private_file};
use executor_svc::fail_point;
use executor_svc::files::replace::{self, ReplaceOptions, Replacer};
use executor_svc::files::{self, FilePolicy, FilePolicyConfig};
use executor_svc::ledger::{self, LedgerError};
use executor_svc::rpc::{self, Services, Sockets};
use executor_svc::runner::{Runners, claude_binary};
use executor_svc::skill::Skills;
use executor_svc::state_lock::{LockError, StateLock};
use executor_svc::subagent::Broker;
use executor_svc::worktree::{WorktreeSettings, Worktrees};
use gatehouse_proto::socket::make_private_dir;
use nix::sys::stat::Mode;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

/// Gatehouse's privileged daemon: ledger, files, launches. It listens on Unix sockets only.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// The configuration file.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the ledger and the sessions' private folders lie.
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Where the sockets lie; a short path.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Print the resolved settings as one JSON line and end.
    #[arg(long)]
    check_config: bool,
    /// Verify the ledger and the kept contents without changing anything, print the findings as JSON lines, and end.
    #[arg(long, conflicts_with = "check_config")]
    verify: bool,
}

/// How many files may be open, if the system lets us.
const MANY_FILES: u64 = 8192;
/// How long work on the blocking pool is waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(1);

type Failure = Box<dyn std::error::Error>;

/// The ledger needs a person: starting again leads nowhere (`EX_DATAERR`).
const DAMAGED: u8 = 65;
/// Another executor works there (`EX_TEMPFAIL`).
const TAKEN: u8 = 75;

fn main() -> ExitCode {
    match run(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "executor-svc: {error}");
            exit_code(error.as_ref())
        }
    }
}

fn exit_code(error: &(dyn std::error::Error + 'static)) -> ExitCode {
    if let Some(LockError::Taken { .. }) = error.downcast_ref() {
        return TAKEN.into();
    }
    match error.downcast_ref() {
        Some(
            LedgerError::Corrupt { .. }
            | LedgerError::Damaged { .. }
            | LedgerError::Foreign { .. }
            | LedgerError::Lost { .. }
            | LedgerError::Missing { .. }
            | LedgerError::Newer { .. },
        ) => DAMAGED.into(),
        _ => ExitCode::FAILURE,
    }
}

fn run(arguments: Arguments) -> Result<(), Failure> {
    let overrides = Overrides {
        config: arguments.config,
        state_dir: arguments.state_dir,
        runtime_dir: arguments.runtime_dir,
        environment: std::env::vars_os().collect(),
    };
    let settings = Settings::load(&overrides)?;
    if arguments.check_config {
        let mut summary = settings.summary();
        summary["claude"]["binary"] = serde_json::json!(claude_binary(&settings.claude.candidates));
        summary["skills"] = Skills::new(&settings.skills).allowlist().summary();
        writeln!(std::io::stdout(), "{summary}")?;
        return Ok(());
    }
    start_logging(settings.log_format);
    if arguments.verify {
        return offline::verify(&settings.state_dir, settings.writing.content_bytes);
    }
    fail_point::arm_from_environment();
    let umask = harden()?;
    allow_many_files();
    make_private_dir(&settings.state_dir)?;
    let _lock = StateLock::take(&settings.state_dir)?;
    private_file(&settings.front.key_file)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let served = runtime.block_on(serve(settings, umask));
    // A search, or a file system that does not answer, holds a thread; the end does not wait for those.
    runtime.shutdown_timeout(LAST_WORDS);
    served
}

/// Libraries below us log what passes through them. Never here, whatever GATEHOUSE_LOG says.
const QUIET: [&str; 4] = ["h2=warn", "hyper=warn", "tonic=warn", "tower=warn"];

fn start_logging(format: LogFormat) {
    use std::io::IsTerminal;
    let asked =
        tracing_subscriber::EnvFilter::try_from_env("GATEHOUSE_LOG").unwrap_or_else(|_| "info".into());
    let filter = QUIET
        .iter()
        .filter_map(|directive| directive.parse().ok())
        .fold(asked, tracing_subscriber::EnvFilter::add_directive);
    let logging = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .log_internal_errors(false);
    match format {
        LogFormat::Text => logging.with_ansi(false).init(),
        LogFormat::Auto if std::io::stderr().is_terminal() => logging.init(),
        LogFormat::Auto | LogFormat::Json => logging.json().init(),
    }
}

/// Nobody else may look into this process, and nothing it makes for itself is open to others. Gives the user's own umask,
/// which holds for what sessions make.
fn harden() -> Result<Mode, Failure> {
    use nix::sys::resource::{Resource, setrlimit};
    let users = nix::sys::stat::umask(Mode::from_bits_truncate(0o077));
    setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_dumpable(false)?;
    Ok(users)
}

/// A connection and a pidfd per runner, a descriptor per file of a search: the default of some systems (256) is few.
fn allow_many_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    // macOS refuses "unlimited" here.
    let wanted = hard.min(MANY_FILES).max(soft);
    if let Err(errno) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        tracing::warn!(%errno, soft, "the limit of open files could not be raised");
    }
}

fn file_policy(settings: &Settings) -> Result<FilePolicy, Failure> {
    let mut own_dirs =
        vec![settings.state_dir.clone(), settings.runtime_dir.clone(), settings.front.key_file.clone()];
    own_dirs.extend(settings.config_file.clone());
    own_dirs.extend(settings.deepseek.iter().map(|deepseek| deepseek.credential_file.clone()));
    let config = FilePolicyConfig {
        homes: std::env::var_os("HOME").map(PathBuf::from).into_iter().collect(),
        read_roots: settings.files.read_roots.clone(),
        extra_protected: settings.files.protected.clone(),
        own_dirs,
        hard_links: match settings.files.hard_links {
            HardLinks::Strict => files::HardLinks::Strict,
            HardLinks::ProtectedOnly => files::HardLinks::ProtectedOnly,
        },
        network_fs: match settings.files.network_file_systems {
            NetworkFileSystems::RootOnly => files::NetworkFs::RootOnly,
            NetworkFileSystems::Allowed => files::NetworkFs::Allowed,
        },
        whole_hash_limit: settings.files.whole_hash_limit,
    };
    Ok(FilePolicy::new(config)?)
}

/// The action room, with the launcher that is installed beside this executable (or where the settings say).
fn actions(engine: &Engine, umask: Mode) -> Result<Actions, Failure> {
    let settings = engine.settings();
    let launcher = settings.helper("sandbox-launch");
    let commands = Commands::new(settings.commands.clone(), engine.policy().clone(), launcher)?;
    let writing = &settings.writing;
    #[allow(clippy::useless_conversion, reason = "the type is narrower on macOS")]
    let umask = u32::from(umask.bits());
    let options = ReplaceOptions {
        max_bytes: writing.max_file_bytes,
        umask,
        without_exchange: match writing.without_exchange {
            WithoutExchange::Rename => replace::WithoutExchange::Rename,
            WithoutExchange::Refuse => replace::WithoutExchange::Refuse,
        },
    };
    let content = ContentStore::open(&settings.state_dir.join("content"), writing.content_bytes)?
        .with_ledger(engine.ledger_readers());
    Ok(Actions::new(engine.clone(), commands, Replacer::new(options), content))
}

/// The worktree room.
fn worktrees(engine: &Engine) -> Worktrees {
    let settings = engine.settings();
    let worktree_settings = WorktreeSettings {
        launcher: settings.helper("sandbox-launch"),
        path: settings.commands.path.clone(),
        excludes: settings.commands.git_excludes.clone(),
        scratch: settings.state_dir.join("git"),
    };
    Worktrees::new(worktree_settings, engine.policy().clone())
}

async fn serve(settings: Settings, umask: Mode) -> Result<(), Failure> {
    // Before anything is taken over or launched: an executor whose sockets are another's must do neither.
    let sockets = Sockets::bind(&settings.runtime_dir)?;
    let (orders, ordered) = mpsc::unbounded_channel();
    let parts = Parts {
        ledger: ledger::open(&settings.state_dir)?,
        policy: Arc::new(file_policy(&settings)?),
        secret: RecoverySecret::load(&settings.state_dir)?,
        settings,
        orders,
    };
    let engine = Engine::new(parts, Arc::new(SystemClock::start()));
    let actions = actions(&engine, umask)?;
    actions.reconcile().await?;
    let worktrees = Arc::new(worktrees(&engine));
    let runners = Runners::new(engine.clone(), worktrees.clone());
    runners.adopt_all().await?;
    tokio::spawn(runners.clone().serve(ordered, Broker::new(engine.clone())));
    let (shutdown, mut asked) = mpsc::channel(1);
    let (over, end) = watch::channel(false);
    let services = Services { actions, engine, runners, worktrees, shutdown };
    let serving = tokio::spawn(async move { rpc::serve(services, sockets, end).await });
    let (mut terminated, mut interrupted) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::pin!(serving);
    tokio::select! {
        served = &mut serving => return Ok(served??),
        // Runners stay for the next executor.
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
        // Asked over RPC: the answer has to get out first.
        _ = asked.recv() => tokio::time::sleep(Duration::from_millis(100)).await,
    }
    over.send_replace(true);
    Ok(serving.await??)
}
