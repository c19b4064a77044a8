//! `gatehouse install` and `gatehouse uninstall`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cli::{Install, Uninstall};
use crate::failure::Failure;
use crate::gateway::{Listen, executor_ready, front_arguments, front_ready, holder};
use crate::install::{self, Change, Disk, Home, Manager, Plan, Running, Service, as_text, kept};
use crate::operator;
use crate::screen::{Screen, Style};
use crate::settings::{Binaries, Place, Settings};

/// How long a service may take until it answers.
const READY: Duration = Duration::from_secs(60);

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

pub(super) async fn install(place: Place, options: Install, screen: &mut Screen) -> Result<(), Failure> {
    if !options.dry_run {
        refuse_root(options.as_root)?;
    }
    let manager = manager(options.manager, options.dry_run || options.root.is_some())?;
    let binaries = Binaries::beside_this()?;
    let settings = binaries.settings(&place).await?;
    let home = Home::find(variable)?;
    let listen = listen(options.listen.as_deref().unwrap_or(&settings.front.listen))?;
    let plan = install::plan(manager, &home, &services(&binaries, &settings, &listen)?, &listen.argument())?;
    if options.dry_run {
        return show_plan(&plan, screen);
    }
    let starts = options.root.is_none() && !options.no_start;
    let running = Running::new(manager, &home);
    if starts {
        running.reachable().await?;
        if holder(&settings.runtime_dir)?.is_some() {
            return Err(Failure::failed("`gatehouse up` is at work in the same place")
                .hint("End it with `gatehouse down`; the services take over its sessions' state."));
        }
    }
    let disk = Disk::new(options.root, settings.state_dir.clone());
    for change in disk.install(&plan, options.force)? {
        tell(&change, screen)?;
    }
    if settings.claude.binary.is_none() {
        let missed = screen.paint(Style::Attention, "No Claude Code was found, so no session will start.");
        screen.line(missed)?;
        screen.line("  → Set CLAUDE_BIN or claude.binary and install again; `gatehouse doctor` says where it was looked for.")?;
    }
    if !starts {
        screen.line("Nothing was started.")?;
        return Ok(());
    }
    start(&running, &settings, &listen).await?;
    finished(manager, &running, &listen, screen)
}

pub(super) async fn uninstall(place: Place, options: Uninstall, screen: &mut Screen) -> Result<(), Failure> {
    let settings = Binaries::beside_this()?.settings(&place).await?;
    let on_the_system = options.root.is_none();
    let disk = Disk::new(options.root, settings.state_dir.clone());
    let Some(record) = disk.record()? else {
        return Err(Failure::failed("no services are installed")
            .hint("With --state-dir or --config at `install`, name them here too."));
    };
    let running = Running::new(record.manager, &Home::find(variable)?);
    let asked = on_the_system && running.reachable().await.is_ok();
    if asked {
        end_sessions(&settings.runtime_dir).await;
        running.stop().await;
        // Units that somebody removed cannot be forgotten, and need not be.
        let _ = running.forget().await;
    }
    let changes = disk.uninstall(&record)?;
    for change in &changes {
        tell(change, screen)?;
    }
    if asked {
        running.reload().await;
    } else if on_the_system {
        screen.line("No service manager answers here, so nothing was stopped.")?;
    }
    if changes.iter().any(|change| matches!(change, Change::Kept(_))) {
        return Err(Failure::failed("some files were changed after they were installed, so they stay")
            .hint("Look at them and remove them yourself; then `gatehouse uninstall` again."));
    }
    screen.line(format!("The services are gone. State stays in {}.", settings.state_dir.display()))?;
    Ok(())
}

/// Runners end with the services that are taken away for good; sessions stay and can be continued.
async fn end_sessions(runtime_dir: &Path) {
    let Ok(mut operator) = operator::client(runtime_dir) else { return };
    // No executor, no runners to end through it.
    let _ = operator.shutdown(gatehouse_proto::v1::ShutdownRequest { stop_runners: true }).await;
}

/// Services of root would let whoever speaks to ChatGPT work as root.
fn refuse_root(as_root: bool) -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() || as_root {
        return Ok(());
    }
    Err(Failure::usage("this would install services that work as root")
        .hint("Run it as the user whose files ChatGPT shall work with, or say --as-root if root is meant."))
}

fn manager(asked: Option<Manager>, only_files: bool) -> Result<Manager, Failure> {
    let own = Manager::of_this_system();
    match asked {
        Some(other) if other != own && !only_files => {
            Err(Failure::usage("that service manager is another system's")
                .hint("Its files can be looked at with --dry-run or --root."))
        }
        asked => Ok(asked.unwrap_or(own)),
    }
}

/// A service has to be found where it was: port 0 would be another one each time.
fn listen(text: &str) -> Result<Listen, Failure> {
    let any_port = text.rsplit(':').next() == Some("0") && !text.starts_with("unix:");
    if any_port {
        return Err(Failure::usage("a service needs a port of its own; port 0 is another one each time"));
    }
    Listen::parse(text)
}

/// The two services of these settings.
pub(crate) fn services(
    binaries: &Binaries,
    settings: &Settings,
    listen: &Listen,
) -> Result<[Service; 2], Failure> {
    let environment = kept(variable);
    let flags = [
        ("--config", settings.config_file.as_ref()),
        ("--state-dir", Some(&settings.state_dir)),
        ("--runtime-dir", Some(&settings.runtime_dir)),
    ];
    let mut arguments = Vec::new();
    for (flag, path) in flags.into_iter().filter_map(|(flag, path)| Some((flag, path?))) {
        arguments.extend([flag.to_owned(), as_text(&std::path::absolute(path)?)?]);
    }
    let words = front_arguments(settings, listen);
    let front = words.iter().map(|word| as_text(&PathBuf::from(word))).collect::<Result<_, _>>()?;
    let of_front = environment.iter().filter(|(name, _)| *name == "GATEHOUSE_LOG");
    let front = Service {
        name: "front",
        program: binaries.path("mcp-front")?,
        arguments: front,
        environment: of_front.map(|(name, value)| (name.clone(), value.clone())).collect(),
    };
    let program = binaries.path("executor-svc")?;
    Ok([Service { name: "executor", program, arguments, environment }, front])
}

fn show_plan(plan: &Plan, screen: &mut Screen) -> Result<(), Failure> {
    for file in &plan.files {
        screen.heading(&format!("# {}", file.path.display()))?;
        for line in file.content.lines() {
            screen.line(line)?;
        }
        screen.line("")?;
    }
    Ok(())
}

fn tell(change: &Change, screen: &mut Screen) -> Result<(), Failure> {
    let (word, style, path) = match change {
        Change::Made(path) => ("made", Style::Good, path),
        Change::Updated(path) => ("updated", Style::Good, path),
        Change::Unchanged(path) => ("unchanged", Style::Dim, path),
        Change::Removed(path) => ("removed", Style::Good, path),
        Change::Absent(path) => ("was gone", Style::Dim, path),
        Change::Kept(path) => ("kept", Style::Attention, path),
    };
    let word = screen.paint(style, &format!("{word:9}"));
    screen.line(format!("{word}  {}", path.display()))?;
    Ok(())
}

/// The executor first: it makes the key that the front reads.
async fn start(running: &Running, settings: &Settings, listen: &Listen) -> Result<(), Failure> {
    let late = |what: &str| {
        Failure::failed(format!("the {what} was started and does not answer"))
            .hint(format!("Its own words: `{}`.", running.log_hint()))
    };
    running.start("executor").await?;
    let mut operator = operator::client(&settings.runtime_dir)?;
    tokio::time::timeout(READY, executor_ready(&mut operator)).await.map_err(|_| late("executor"))?;
    running.start("front").await?;
    let endpoint = listen.endpoint(None);
    tokio::time::timeout(READY, front_ready(&endpoint)).await.map_err(|_| late("front"))?
}

fn finished(
    manager: Manager,
    running: &Running,
    listen: &Listen,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let up = screen.paint(Style::Good, "Gatehouse runs as two services.");
    screen.line(up)?;
    screen
        .facts(&[("MCP endpoint", listen.endpoint(None).url()), ("logs", running.log_hint().to_owned())])?;
    let user = variable("USER").unwrap_or_default();
    if install::lingers(manager, Path::new(LINGER), &user) == Some(false) {
        let text = "They end when you log out. `loginctl enable-linger` keeps them, and starts them at boot.";
        let text = screen.paint(Style::Attention, text);
        screen.line(text)?;
    }
    screen.line("Next: `gatehouse doctor` shows whether everything is in its place.")?;
    Ok(())
}

/// Where systemd notes whose services go on without a log-in.
pub(crate) const LINGER: &str = "/var/lib/systemd/linger";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn a_service_has_a_port_and_the_manager_of_its_own_system() {
        assert_eq!(listen("127.0.0.1:0").unwrap_err().exit, Exit::Usage);
        assert_eq!(listen("127.0.0.1:8848").unwrap().argument(), "127.0.0.1:8848");
        assert_eq!(listen("unix:/r/x:0").unwrap().argument(), "unix:/r/x:0");
        let other = match Manager::of_this_system() {
            Manager::Systemd => Manager::Launchd,
            Manager::Launchd => Manager::Systemd,
        };
        assert_eq!(manager(Some(other), false).unwrap_err().exit, Exit::Usage);
        assert_eq!(manager(Some(other), true).unwrap(), other);
    }
}
