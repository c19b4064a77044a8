//! What Claude Code may reach: its own program, its own directories, two ports.

use std::path::{Path, PathBuf};

use gatehouse_sandbox::launch::{Confinement, Network};

use super::StartFailure;
use crate::plan::Plan;
use crate::ports::Ports;

/// What every launch of Claude Code gets: the program with its libraries, and its three directories. No network.
///
/// # Errors
/// When the executable is not there, or is no program of this system.
pub(super) fn own(plan: &Plan) -> Result<Confinement, StartFailure> {
    let dirs = &plan.directories;
    Ok(Confinement {
        programs: programs(&plan.binary)?,
        writable: vec![dirs.home.clone(), dirs.config.clone(), dirs.tmp.clone()],
        ..Confinement::default()
    })
}

/// What a run gets: the same, the MCP configuration, and the two ports.
pub(super) fn of_run(own: Confinement, mcp_config: &Path, ports: &Ports) -> Confinement {
    let ports = vec![ports.messages.0, ports.tools.0];
    Confinement { readable: vec![mcp_config.to_owned()], network: Network::Listeners { ports }, ..own }
}

#[cfg(target_os = "linux")]
fn programs(binary: &Path) -> Result<Vec<PathBuf>, StartFailure> {
    use gatehouse_sandbox::launch::{ElfError, program_files};
    program_files(binary).map_err(|error| match error {
        ElfError::Read { path, source }
            if path == binary && source.kind() == std::io::ErrorKind::NotFound =>
        {
            StartFailure::NotFound
        }
        other => StartFailure::Program(Box::new(other)),
    })
}

#[cfg(not(target_os = "linux"))]
fn programs(binary: &Path) -> Result<Vec<PathBuf>, StartFailure> {
    Ok(vec![binary.to_owned()])
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::plan::tests::plan;

    #[test]
    fn a_run_reaches_its_own_and_nothing_else() {
        let plan = Plan { binary: "/bin/sh".into(), ..plan() };
        let ports = Ports::mint().unwrap();
        let reach = of_run(own(&plan).unwrap(), Path::new("/s/run/mcp.json"), &ports);
        assert!(reach.programs.contains(&PathBuf::from("/bin/sh")));
        assert_eq!(reach.readable, [Path::new("/s/run/mcp.json")]);
        assert_eq!(reach.writable, ["/s/home", "/s/config", "/s/tmp"].map(PathBuf::from));
        assert_eq!(reach.network, Network::Listeners { ports: vec![ports.messages.0, ports.tools.0] });
        assert_eq!(own(&plan).unwrap().network, Network::None);
    }

    #[test]
    fn a_missing_executable_and_one_that_is_none_are_told_apart() {
        let at = |binary: &str| own(&Plan { binary: binary.into(), ..plan() });
        assert!(matches!(at("/nowhere/claude"), Err(StartFailure::NotFound)));
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n".repeat(20)).unwrap();
        let failed = at(script.path().to_str().unwrap()).unwrap_err();
        assert!(matches!(failed, StartFailure::Program(_)) && failed.to_string().contains("ELF"), "{failed}");
    }
}
