//! One run from first contact to the last word.

use std::io;
use std::path::Path;
use std::time::Duration;

use gatehouse_proto::v1;
use gatehouse_proto::v1::end_run_request::Outcome;
use gatehouse_sandbox::launch::Launcher;
use tokio::sync::{mpsc, watch};

use crate::binding::Binding;
use crate::claude::{self, Claude, Line, Listeners, StartFailure};
use crate::clean::Cleaner;
use crate::gate::Carrier;
use crate::link::{Link, Parting};
use crate::messages::{self, Bridge, Setup};
use crate::plan::Plan;
use crate::ports::{self, Ports};
use crate::process::{self, StopSignals};
use crate::tools;

/// How long Claude Code has until its init line. It takes about a second; on a busy machine, longer.
const INIT_LIMIT: Duration = Duration::from_secs(120);

/// What ends a run before Claude Code does.
#[derive(Debug)]
pub enum Order {
    /// Its turn was closed without a reply.
    Closed(String),
    /// Claude Code, or the executor, did what was not agreed.
    Protocol(String),
    /// A signal.
    Stop,
    /// The executor, or its absence.
    Parted(Parting),
}

/// Where an order is given. The first one counts.
#[derive(Debug, Clone)]
pub struct Orders(mpsc::Sender<Order>);

impl Orders {
    fn new() -> (Self, mpsc::Receiver<Order>) {
        let (orders, inbox) = mpsc::channel(1);
        (Self(orders), inbox)
    }

    /// Gives it, unless the run is being ended already.
    pub fn give(&self, order: Order) {
        let _ = self.0.try_send(order);
    }
}

/// What is left to be told when the run is over.
enum Ending {
    Told(Outcome),
    /// Nobody wants to hear it.
    Untold,
}

impl Ending {
    fn failed(code: &str, message: String) -> Self {
        Self::Told(Outcome::Failed(v1::RunFailed { code: code.to_owned(), message }))
    }
}

/// The whole run. Comes back when Claude Code is gone, and the executor knows or does not want to.
pub async fn to_the_end(link: Link, socket: &Path, mut signals: StopSignals) {
    let plan = tokio::select! {
        plan = link.first_attach() => plan,
        () = signals.received() => return,
    };
    let Ok(plan) = plan.inspect_err(|parting| tracing::warn!(?parting, "no run to serve")) else {
        return;
    };
    let (orders, inbox) = Orders::new();
    watch_for_orders(&link, &orders, signals);
    let ending = match Plan::try_from(plan) {
        Ok(plan) => Run { link: link.clone(), plan, orders, inbox }.serve(socket).await,
        Err(bad) => Ending::failed("claude_not_started", bad.to_string()),
    };
    if let Ending::Told(outcome) = ending {
        link.end_run(outcome).await;
    }
}

fn watch_for_orders(link: &Link, orders: &Orders, mut signals: StopSignals) {
    let (link, parted) = (link.clone(), orders.clone());
    tokio::spawn(async move { parted.give(Order::Parted(link.heartbeats().await)) });
    let stopped = orders.clone();
    tokio::spawn(async move {
        signals.received().await;
        stopped.give(Order::Stop);
    });
}

struct Run {
    link: Link,
    plan: Plan,
    orders: Orders,
    inbox: mpsc::Receiver<Order>,
}

impl Run {
    async fn serve(mut self, socket: &Path) -> Ending {
        let mut cleaner = Cleaner::default();
        internal_paths(&mut cleaner, &self.plan, socket);
        let ports = match Ports::mint() {
            Ok(ports) => ports,
            Err(error) => return Ending::failed("claude_not_started", format!("no ports: {error}")),
        };
        for (port, secret) in [&ports.messages, &ports.tools] {
            cleaner.number((*port).into());
            cleaner.secret(secret.reveal());
        }
        let started = tokio::select! {
            started = start(&self.plan, &ports, socket) => started,
            order = self.inbox.recv() => return ordered(order, &cleaner),
        };
        let (setup, checked) = watch::channel(Setup::Unchecked);
        let failure = match started {
            Ok((claude, listeners)) => {
                self.link.report_layers(claude.enforced_by.clone());
                match self.open(listeners, &ports, checked) {
                    Ok(()) => return self.watch(claude, &setup, cleaner).await,
                    Err(source) => StartFailure::Prepare { what: "a port", source },
                }
            }
            Err(failure) => failure,
        };
        Ending::failed(failure.code(), cleaner.clean(&failure.to_string()))
    }

    /// Serves both ports, each behind its gate.
    fn open(&self, listeners: Listeners, ports: &Ports, setup: watch::Receiver<Setup>) -> io::Result<()> {
        let binding = Binding::default();
        let bridge = Bridge {
            link: self.link.clone(),
            binding: binding.clone(),
            ordinal: self.plan.ordinal,
            model: self.plan.model.as_str().into(),
            ping: self.plan.ping,
            setup,
            orders: self.orders.clone(),
        };
        ports::serve(listeners.messages, &ports.messages, Carrier::ApiKey, |gate| {
            messages::router(bridge, gate)
        })?;
        ports::serve(listeners.tools, &ports.tools, Carrier::Bearer, |gate| {
            tools::router(self.link.clone(), binding, &self.plan.tools, gate)
        })
    }

    /// Watches Claude Code until it ends or is to be ended.
    async fn watch(
        &mut self,
        mut claude: Claude,
        setup: &watch::Sender<Setup>,
        mut cleaner: Cleaner,
    ) -> Ending {
        [claude.keeper(), Some(std::process::id())].into_iter().flatten().for_each(|pid| cleaner.number(pid));
        let began = tokio::time::Instant::now();
        let init_limit = tokio::time::sleep(INIT_LIMIT);
        tokio::pin!(init_limit);
        let mut result = None;
        let mismatch = loop {
            let line = tokio::select! {
                line = claude.next_line() => line,
                order = self.inbox.recv() => {
                    claude.terminate().await;
                    return ordered(order, &cleaner);
                }
                () = &mut init_limit, if *setup.borrow() == Setup::Unchecked => break "it did not say how it is set up".to_owned(),
            };
            match line {
                Some(Line::Init(init)) => match init.check(&self.plan) {
                    Ok(()) => drop(setup.send_replace(Setup::Good(began.elapsed()))),
                    Err(wrong) => break wrong,
                },
                Some(Line::Result(line)) => result = Some(line),
                None => return self.ended(claude, result, &cleaner).await,
            }
        };
        let ended = claude.terminate().await;
        Ending::failed(
            "claude_init_mismatch",
            cleaner.clean(&format!("Claude Code's set-up is {mismatch}\n{}", ended.stderr)),
        )
    }

    async fn ended(&self, claude: Claude, result: Option<claude::ResultLine>, cleaner: &Cleaner) -> Ending {
        let ended = claude.ended().await;
        match result {
            Some(result) => {
                let mut finished = claude::finished(result, ended.exit_code);
                if finished.is_error {
                    // A Claude Code that could not even begin says why on its standard error alone.
                    if finished.result_text.trim().is_empty() {
                        finished.result_text = ended.stderr;
                    }
                    finished.result_text = cleaner.clean(&finished.result_text);
                }
                Ending::Told(Outcome::Finished(finished))
            }
            None => {
                let message = format!(
                    "Claude Code ended, with code {}, without a result\n{}",
                    ended.exit_code, ended.stderr
                );
                Ending::failed("claude_exited", cleaner.clean(&message))
            }
        }
    }
}

fn ordered(order: Option<Order>, cleaner: &Cleaner) -> Ending {
    match order {
        Some(Order::Closed(reason)) => Ending::failed("run_closed", cleaner.clean(&reason)),
        Some(Order::Protocol(reason)) => Ending::failed("claude_protocol", cleaner.clean(&reason)),
        Some(Order::Stop | Order::Parted(Parting::Ordered)) | None => {
            Ending::failed("run_stopped", "ended on request".to_owned())
        }
        Some(Order::Parted(Parting::Refused | Parting::Alone)) => Ending::Untold,
    }
}

/// Starts Claude Code, and gives up all that this process does not need from then on.
async fn start(plan: &Plan, ports: &Ports, socket: &Path) -> Result<(Claude, Listeners), StartFailure> {
    let launcher = Launcher::beside_own_executable()
        .map_err(|source| StartFailure::Prepare { what: "the launcher", source })?;
    let started = claude::start(&launcher, plan, ports).await?;
    // Where this fails, Claude Code ends with what is dropped here.
    process::confine(socket).map_err(StartFailure::Confine)?;
    Ok(started)
}

fn internal_paths(cleaner: &mut Cleaner, plan: &Plan, socket: &Path) {
    let dirs = &plan.directories;
    let named = [
        (&dirs.home, "<home>"),
        (&dirs.config, "<config>"),
        (&dirs.run, "<run>"),
        (&dirs.cwd, "<cwd>"),
        (&dirs.tmp, "<tmp>"),
        (&plan.binary, "<claude>"),
    ];
    for (path, name) in named {
        cleaner.path(path, name);
        // What lies beside them is as internal. A top directory is no secret, and would hit everything.
        if let Some(parent) = path.parent().filter(|parent| parent.components().count() > 2) {
            cleaner.path(parent, "<internal>");
        }
    }
    for path in socket.ancestors().take(3).filter(|path| path.components().count() > 2) {
        cleaner.path(path, "<runtime>");
    }
    if let Some(own) = std::env::current_exe().ok().as_deref().and_then(Path::parent) {
        cleaner.path(own, "<gatehouse>");
    }
}
