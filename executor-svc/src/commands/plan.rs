//! From a command line to a launch: looks, refuses, starts nothing.

use std::path::{Path, PathBuf};

use gatehouse_sandbox::launch::{
    Confinement, LaunchRequest, Limits, Network, Policy, ProcessGroup, SCRATCH, Scratch, TimeLimit,
};

use super::{CommandCall, CommandFault, Commands, HiddenCount, Plan, USUAL_SECONDS, environment, program};
use crate::files::SessionFiles;

/// Open descriptors of each process; what Linux services have as their hard limit by default would be more than some
/// programs cope with.
const OPEN_FILES: u64 = 8192;

/// What a session's commands need besides its root.
#[derive(Debug, Clone)]
pub struct Places {
    /// What they see as `/tmp`.
    pub scratch: PathBuf,
    /// Of a worktree: the directory that git keeps the repository in. It may lie where a command would not see it.
    pub repository: Option<PathBuf>,
}

impl Commands {
    /// Decides whether a command may run, and how. Blocks: it looks at the disk.
    ///
    /// # Errors
    /// Why it will not run.
    pub fn plan(
        &self,
        call: &CommandCall,
        files: &SessionFiles,
        places: Places,
    ) -> Result<Plan, CommandFault> {
        let root = &files.root().path;
        let cwd = self.directory(call, files)?;
        self.rules.judge(&call.argv, |name| program::names(name, &cwd, &self.settings.path))?;
        let program = self.program(call, &cwd)?;
        let survey = self.surveys.of(root, self.policy.protected());
        let mut argv = vec![program.into_os_string()];
        argv.extend(call.argv.iter().skip(1).map(Into::into));
        let seconds = call.timeout_seconds.unwrap_or(USUAL_SECONDS);
        Ok(Plan {
            request: LaunchRequest {
                argv,
                cwd: cwd.into_os_string(),
                env: environment::of(&self.settings, call.env.as_ref()),
                group: ProcessGroup::OwnSession,
                limits: self.limits(),
                policy: Policy::Command,
            },
            confinement: Confinement {
                readable: self.readable(root, places.repository),
                hidden: survey.hidden.clone(),
                scratch: Scratch::Directory { path: places.scratch, bytes: self.settings.scratch_bytes },
                network: if self.settings.private_loopback {
                    Network::PrivateLoopback
                } else {
                    Network::None
                },
                time: Some(TimeLimit::seconds(u32::try_from(seconds).unwrap_or(u32::MAX))),
                ..Confinement::default()
            },
            stdin: call.stdin.clone(),
            hidden: HiddenCount { below_root: survey.below_root, cut: survey.cut },
        })
    }

    /// The working directory: the session's root, or one below it that passes the same checks as a listed one.
    fn directory(&self, call: &CommandCall, files: &SessionFiles) -> Result<PathBuf, CommandFault> {
        let root = &files.root().path;
        let Some(asked) = &call.cwd else { return Ok(root.clone()) };
        let found = files.open_directory(Path::new(asked))?;
        if found.path.starts_with(root) { Ok(found.path) } else { Err(CommandFault::OutsideRoot(found.path)) }
    }

    /// What stays in view although it may lie below a place that is covered for every command: what the session works in, and
    /// the tool chains, for a home can be anywhere.
    fn readable(&self, root: &Path, repository: Option<PathBuf>) -> Vec<PathBuf> {
        let tools = self.settings.tools.values().chain(&self.settings.path);
        let shown = |place: &&PathBuf| {
            place.starts_with(SCRATCH) && place.is_dir() && self.policy.protected().rule_for(place).is_none()
        };
        let there = tools.filter(shown).cloned();
        [root.to_owned()].into_iter().chain(repository).chain(there).collect()
    }

    fn program(&self, call: &CommandCall, cwd: &Path) -> Result<PathBuf, CommandFault> {
        let name = call.argv.first().map(String::as_str).unwrap_or_default();
        program::find(name, cwd, &self.settings.path).ok_or_else(|| CommandFault::NoProgram {
            program: name.to_owned(),
            looked_in: if name.contains('/') { Vec::new() } else { self.settings.path.clone() },
        })
    }

    fn limits(&self) -> Limits {
        Limits {
            open_files: Some(OPEN_FILES),
            processes: Some(self.settings.processes),
            file_bytes: Some(self.settings.scratch_bytes),
            // Runtimes reserve far more address space than they use.
            address_space_bytes: None,
            // The time limit bounds it.
            cpu_seconds: None,
        }
    }
}
