//! From the command line to a serving front, and to its end.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use gatehouse_proto::socket::{self, Role};
use gatehouse_sandbox::launch::LaunchError;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::cli::{Arguments, CommonOptions, HttpOptions, Listen, LogFormat, Transport};
use crate::confine::{self, Needs};
use crate::contact::Contact;
use crate::executor::Executor;
use crate::key::{Key, KeyError};
use crate::metrics::Metrics;
use crate::surface::{Registry, native};
use crate::transport::http::{Access, HttpFront};
use crate::transport::listen::{BindError, Bound};
use crate::transport::{Serving, stdio};
use crate::waits::{LONGEST, LONGEST_ON_STDIO, Waits};

/// How long calls that change something may still take, once the front ends.
const SETTLE: Duration = Duration::from_secs(2);
/// Libraries below us log what callers send. Never here, whatever GATEHOUSE_LOG says.
const QUIET: [&str; 5] = ["rmcp=warn", "h2=warn", "hyper=warn", "tonic=warn", "tower=warn"];

/// Why the front does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// TCP without a key.
    #[error(
        "serving on TCP needs --key-file FILE: the key that clients show. `gatehouse up` and the executor make one"
    )]
    NoKeyFile,
    /// The key cannot be used.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The process cannot be confined.
    #[error("the front does not serve unconfined: {0}")]
    Confine(#[from] LaunchError),
    /// Something of the system failed.
    #[error("{doing}: {source}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

fn doing(doing: &'static str) -> impl FnOnce(io::Error) -> ServiceError {
    move |source| ServiceError::System { doing, source }
}

/// Logs go to standard error, filtered by GATEHOUSE_LOG (default `info`).
pub fn log_to_stderr(format: LogFormat) {
    let mut filter = EnvFilter::try_from_env("GATEHOUSE_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    for directive in QUIET {
        if let Ok(directive) = directive.parse() {
            filter = filter.add_directive(directive);
        }
    }
    // Whoever read our standard error may be gone; that must not end us.
    let logging =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    match format {
        LogFormat::Text => logging.with_ansi(false).init(),
        LogFormat::Auto if io::stderr().is_terminal() => logging.init(),
        LogFormat::Auto | LogFormat::Json => logging.json().init(),
    }
}

/// Serves until the input ends, a signal comes, or something fails.
///
/// In this order: what takes authority, then confinement, then threads, then clients.
///
/// # Errors
/// When the front cannot begin to serve, or its listener breaks.
pub fn run(arguments: &Arguments) -> Result<(), ServiceError> {
    confine::harden().map_err(doing("keeping other processes out of this one"))?;
    match &arguments.transport {
        Transport::Http(options) => http(options),
        Transport::Stdio(options) => over_stdio(options),
    }
}

fn http(options: &HttpOptions) -> Result<(), ServiceError> {
    let access = match (&options.listen, &options.key_file) {
        (Listen::Unix(_), _) => Access::Unix,
        (Listen::Tcp(_), Some(path)) => Access::Tcp(Key::read(path)?),
        (Listen::Tcp(_), None) => return Err(ServiceError::NoKeyFile),
    };
    let bound = Bound::bind(&options.listen)?;
    let endpoint = bound.endpoint(native::PATH).map_err(doing("asking for the bound address"))?;
    let socket = give_up_authority(&options.common)?;
    in_runtime(async {
        let serving = prepare(&options.common, &socket, LONGEST)?;
        announce(&endpoint).map_err(doing("writing the endpoint to standard output"))?;
        let served = HttpFront::new(access, &serving).serve(bound).await;
        serving.executor.settle(SETTLE).await;
        served.map_err(doing("serving HTTP"))
    })
}

fn over_stdio(options: &CommonOptions) -> Result<(), ServiceError> {
    let socket = give_up_authority(options)?;
    in_runtime(async {
        let serving = prepare(options, &socket, LONGEST_ON_STDIO)?;
        let input = tokio::io::BufReader::new(tokio::io::stdin());
        let served = stdio::serve(input, tokio::io::stdout(), &serving).await;
        serving.executor.settle(SETTLE).await;
        served.map_err(doing("serving stdio"))
    })
}

/// Confines this process to the directory of the executor's `front` socket; gives the socket's path. The directory is
/// made where there is none yet: an executor that starts later binds its socket in it, and is found.
fn give_up_authority(options: &CommonOptions) -> Result<PathBuf, ServiceError> {
    let runtime_dir = options.runtime_dir.clone().unwrap_or_else(socket::default_runtime_dir);
    let runtime_dir = socket::steady(&runtime_dir).map_err(doing("finding the runtime directory"))?;
    let front_directory = Role::Front.directory(&runtime_dir);
    for directory in [&runtime_dir, &front_directory] {
        socket::make_private_dir(directory).map_err(doing("making the runtime directory"))?;
    }
    let confinement = confine::confine(Needs { front_directory: &front_directory })?;
    tracing::info!(%confinement, protocol = ?options.protocol, max_waits = options.max_waits, "serving");
    Ok(Role::Front.socket(&runtime_dir))
}

/// The threads come after confinement: it is for a process with one, and they inherit it.
fn in_runtime(serve: impl Future<Output = Result<(), ServiceError>>) -> Result<(), ServiceError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(doing("starting the runtime"))?;
    let ended = runtime.block_on(serve);
    // Standard input may be read by a thread that nothing can interrupt.
    runtime.shutdown_background();
    ended
}

/// Everything that is there before the first request.
fn prepare(options: &CommonOptions, socket: &Path, longest_wait: Duration) -> Result<Serving, ServiceError> {
    let metrics = Arc::new(Metrics::default());
    let executor = Executor::at(socket, Arc::clone(&metrics))
        .map_err(doing("preparing the connection to the executor"))?;
    let waits = Waits::new(options.max_waits, longest_wait);
    let surface = native::surface(executor.clone(), waits.clone(), options.text_mirror);
    let closing = CancellationToken::new();
    close_on_signals(&closing).map_err(doing("listening for signals"))?;
    let contact = Contact::default();
    tokio::spawn(contact.clone().tell(executor.clone(), closing.clone()));
    Ok(Serving {
        surfaces: Registry::of(surface),
        executor,
        waits,
        contact,
        metrics,
        protocol: options.protocol,
        closing,
    })
}

fn close_on_signals(closing: &CancellationToken) -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let closing = closing.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        closing.cancel();
        tracing::info!("ending");
    });
    Ok(())
}

/// The one line on standard output, for whoever started us.
fn announce(endpoint: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::json!({ "endpoint": endpoint }))?;
    out.flush()
}
