//! Git in the sandbox: found, checked, asked.
//!
//! No network, nothing writable but what a question names, an environment of our own (see `environment`), bounded time and
//! output. Everything of it is gone when an answer is there; where nobody waits for the answer any more, soon after (`run`).

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gatehouse_sandbox::launch::{
    Confinement, Exit, LaunchError, LaunchRequest, Launcher, Limits, Network, Policy, ProcessGroup, Scratch,
    Stage, Streams, TimeLimit,
};
use gatehouse_sandbox::policy::SurveyBounds;
use tokio::sync::OnceCell;

use super::environment::{self, Names};
use super::fault::GitFault;
use super::run::{Runs, Said, Start};
use crate::files::FilePolicy;

/// The oldest git that knows all that is asked of it: a reason for the lock of a new worktree.
const OLDEST: (u32, u32) = (2, 34);
/// How much of an answer is kept where it is kept, in bytes.
const USUAL_ANSWER: usize = 1 << 20;
/// Open descriptors of each process.
const OPEN_FILES: u64 = 4096;
/// Processes and threads: git reads an index with many.
const PROCESSES: u64 = 512;

/// The git of this machine. One for the whole executor.
#[derive(Debug)]
pub(super) struct Git {
    launcher: Option<Launcher>,
    path: Vec<PathBuf>,
    excludes: Option<PathBuf>,
    policy: Arc<FilePolicy>,
    /// Found and of the right version.
    program: OnceCell<PathBuf>,
    runs: Runs,
}

impl Git {
    pub(super) fn new(
        launcher: Option<PathBuf>,
        path: Vec<PathBuf>,
        excludes: Option<PathBuf>,
        policy: Arc<FilePolicy>,
    ) -> Self {
        let launcher = launcher.map(Launcher::at);
        Self { launcher, path, excludes, policy, program: OnceCell::new(), runs: Runs::default() }
    }

    /// Waits until no git writes any more whose asker has gone away.
    pub(super) async fn orphans_gone(&self) {
        self.runs.orphans_gone().await;
    }

    /// Prepares questions about one repository, which have so much time together. `places` stay in view although they may
    /// lie below a directory that is covered for every launch.
    pub(super) async fn begin(&self, places: &[&Path], time: Duration) -> Result<Job<'_>, GitFault> {
        let policy = self.policy.clone();
        let survey = tokio::task::spawn_blocking(move || {
            // No root: what lies in the repository is git's own business, and nobody else gets to see it.
            policy.protected().survey(Path::new("/dev/null"), SurveyBounds::default()).hidden
        });
        let mut hidden = survey.await.unwrap_or_default();
        // A protected link may lead to where the repository is; that cannot be hidden from a git that is to read it.
        hidden.retain(|path| !places.iter().any(|place| place.starts_with(path)));
        let mut job = Job {
            git: self,
            program: PathBuf::new(),
            hidden,
            readable: places.iter().map(|place| (*place).to_owned()).collect(),
            names: Names::default(),
            until: Instant::now() + time,
            time,
        };
        job.program = self.program.get_or_try_init(|| self.find(&job)).await?.clone();
        Ok(job)
    }

    async fn find(&self, job: &Job<'_>) -> Result<PathBuf, GitFault> {
        let program = self.path.iter().map(|dir| dir.join("git")).find(|file| is_program(file));
        let program = program.ok_or_else(|| GitFault::NoGit { looked_in: self.path.clone() })?;
        let job = Job { program: program.clone(), ..job.clone() };
        let said = job.text(Question::new(Path::new("/"), &["version"])).await?;
        let version = version(&said).unwrap_or_default();
        if version < OLDEST {
            let needed = format!("{}.{}", OLDEST.0, OLDEST.1);
            return Err(GitFault::TooOld {
                found: said.trim_start_matches("git version ").to_owned(),
                needed,
            });
        }
        Ok(program)
    }
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// The version in what `git version` says: `git version 2.39.5 (Apple Git-154)`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("git version ")?.split(['.', ' ', '\n', '-']);
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Several questions about one repository.
#[derive(Debug, Clone)]
pub(super) struct Job<'a> {
    git: &'a Git,
    program: PathBuf,
    hidden: Vec<PathBuf>,
    readable: Vec<PathBuf>,
    names: Names,
    until: Instant,
    time: Duration,
}

/// One git command.
#[derive(Debug, Default)]
pub(super) struct Question {
    directory: PathBuf,
    words: Vec<OsString>,
    /// What may be written; nothing else of the host can.
    pub writable: Vec<PathBuf>,
    pub scratch: Scratch,
    pub stdin: Option<Vec<u8>>,
    pub variables: Vec<(&'static str, OsString)>,
    /// How much of the answer is kept, in bytes; more is a fault.
    pub most: Option<usize>,
}

impl Question {
    pub(super) fn new<T: AsRef<std::ffi::OsStr>>(directory: &Path, words: &[T]) -> Self {
        let words = words.iter().map(|word| word.as_ref().to_owned()).collect();
        Self { directory: directory.to_owned(), words, ..Self::default() }
    }

    /// The command's name, for messages.
    fn doing(&self) -> String {
        self.words.iter().take(1).map(|word| word.to_string_lossy().into_owned()).collect()
    }
}

type Sink<'s> = &'s mut (dyn FnMut(&[u8]) -> ControlFlow<()> + Send);

impl Job<'_> {
    /// Learns the names of the settings that hold in a directory, so that what they switch on is switched off from now on.
    pub(super) async fn learn_settings(&mut self, directory: &Path) -> Result<&Names, GitFault> {
        let mut list = Question::new(directory, &["config", "--list", "--name-only", "-z"]);
        // Without our own among them. To list settings, git starts nothing.
        list.variables = vec![("GIT_CONFIG_COUNT", "0".into())];
        self.names = Names::parse(&self.bytes(list).await?);
        if self.names.is_exact() { Ok(&self.names) } else { Err(GitFault::StrangeSettings) }
    }

    pub(super) const fn names(&self) -> &Names {
        &self.names
    }

    /// The answer, which must be a success.
    pub(super) async fn bytes(&self, question: Question) -> Result<Vec<u8>, GitFault> {
        let doing = question.doing();
        let (answer, said) = self.ask(question).await?;
        match said.how {
            Exit::Code(0) => Ok(answer),
            _ => Err(failed(doing, &said)),
        }
    }

    /// The answer as one line of text.
    pub(super) async fn text(&self, question: Question) -> Result<String, GitFault> {
        let mut answer = self.bytes(question).await?;
        if answer.last() == Some(&b'\n') {
            answer.pop();
        }
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }

    /// The answer, whether a success or not.
    pub(super) async fn ask(&self, question: Question) -> Result<(Vec<u8>, Said), GitFault> {
        let most = question.most.unwrap_or(USUAL_ANSWER);
        let doing = question.doing();
        let mut answer = Vec::new();
        let mut keep = |bytes: &[u8]| {
            answer.extend_from_slice(bytes);
            if answer.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let said = self.stream(question, &mut keep).await?;
        if answer.len() > most { Err(GitFault::TooMuch { doing, limit: most }) } else { Ok((answer, said)) }
    }

    /// Goes through an answer of any length, which must be a success.
    pub(super) async fn each(&self, question: Question, sink: Sink<'_>) -> Result<(), GitFault> {
        let doing = question.doing();
        let said = self.stream(question, sink).await?;
        if said.how == Exit::Code(0) { Ok(()) } else { Err(failed(doing, &said)) }
    }

    /// Hands the answer over in pieces; ends git when the sink has enough.
    async fn stream(&self, question: Question, sink: Sink<'_>) -> Result<Said, GitFault> {
        let doing = question.doing();
        let late = || GitFault::TimedOut { doing: doing.clone(), seconds: self.time.as_secs() };
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(late());
        }
        let launcher = self.git.launcher.clone().ok_or_else(|| {
            GitFault::Sandbox("sandbox-launch is not installed beside executor-svc".to_owned())
        })?;
        let stdin = question.stdin.clone();
        let input = if stdin.is_some() { Stdio::piped() } else { Stdio::null() };
        let streams = Streams { stdin: input, stdout: Stdio::piped(), stderr: Stdio::piped() };
        let confinement = self.confinement(&question, left);
        let start = Start { launcher, request: self.request(question), confinement, streams, stdin };
        let mut run = self.git.runs.start(start);
        while let Some(piece) = run.piece().await {
            if sink(&piece).is_break() {
                break;
            }
        }
        let said = run.ended().await.map_err(|error| not_started(&error))?;
        if said.timed_out { Err(late()) } else { Ok(said) }
    }

    fn request(&self, question: Question) -> LaunchRequest {
        let mut argv: Vec<OsString> = vec![self.program.clone().into(), "--no-pager".into()];
        argv.extend(question.words);
        let mut env = environment::of(&self.names, self.git.excludes.as_deref());
        env.extend(question.variables.into_iter().map(|(name, value)| (name.to_owned(), value)));
        LaunchRequest {
            argv,
            cwd: question.directory.into(),
            env,
            group: ProcessGroup::OwnSession,
            limits: Limits { open_files: Some(OPEN_FILES), processes: Some(PROCESSES), ..Limits::default() },
            policy: Policy::Git,
        }
    }

    fn confinement(&self, question: &Question, left: Duration) -> Confinement {
        let run_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        // What is both would be attached twice, and the second time read-only.
        let only_read = |place: &&PathBuf| !question.writable.contains(place);
        Confinement {
            readable: self.readable.iter().filter(only_read).cloned().collect(),
            hidden: self.hidden.clone(),
            writable: question.writable.clone(),
            scratch: question.scratch.clone(),
            network: Network::None,
            time: Some(TimeLimit { run_ms, grace_ms: 1000 }),
            ..Confinement::default()
        }
    }
}

fn failed(doing: String, said: &Said) -> GitFault {
    let how = match said.how {
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("signal {signal}"),
        Exit::TornDown => "it was killed".to_owned(),
    };
    let said = if said.stderr.is_empty() { how } else { said.stderr.clone() };
    GitFault::Failed { doing, said }
}

fn not_started(error: &LaunchError) -> GitFault {
    tracing::warn!(%error, "git was not started");
    match error {
        LaunchError::Step { stage: Stage::Exec | Stage::Directory, .. } => {
            GitFault::Failed { doing: "start".to_owned(), said: error.to_string() }
        }
        LaunchError::Launcher { source, .. } => {
            GitFault::Sandbox(format!("the sandbox launcher cannot be started: {source}"))
        }
        other => GitFault::Sandbox(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_all_their_forms() {
        for (said, found) in [
            ("git version 2.47.3", Some((2, 47))),
            ("git version 2.39.5 (Apple Git-154)", Some((2, 39))),
            ("git version 2.50.0.rc1-12-gabc", Some((2, 50))),
            ("git version 3.0", Some((3, 0))),
            ("hub version 2.14", None),
            ("", None),
        ] {
            assert_eq!(version(said), found, "{said}");
        }
    }
}
