//! What lies on disk for Claude Code: its directories, and the file that leads it to the MCP server.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use gatehouse_proto::socket::make_private_dir;
use serde_json::json;

use super::StartFailure;
use crate::plan::{Plan, SERVER_NAME};
use crate::ports::Ports;

/// The MCP configuration file; removed with this at the latest.
#[derive(Debug)]
pub struct McpConfig(PathBuf);

impl McpConfig {
    /// Makes the directories and writes the file, readable by us alone.
    ///
    /// # Errors
    /// When something is in the way.
    pub fn prepare(plan: &Plan, ports: &Ports) -> Result<Self, StartFailure> {
        let failed = |what| move |source| StartFailure::Prepare { what, source };
        for directory in plan.directories.all() {
            make_private_dir(directory).map_err(failed("a directory of the run"))?;
        }
        let mut entries =
            std::fs::read_dir(&plan.directories.cwd).map_err(failed("the working directory"))?;
        if entries.next().is_some() {
            return Err(StartFailure::WorkingDirectory);
        }
        let path = plan.directories.run.join("mcp.json");
        write_private(&path, content(ports).as_bytes()).map_err(failed("the MCP configuration"))?;
        Ok(Self(path))
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// What is to be kept as long as Claude Code runs.
    ///
    /// On Linux the name goes now that Claude Code's view holds the file itself: we cannot take it away later, when we have
    /// no files any more, and nobody else is to read it. Some file systems keep a file without a name only for whoever has
    /// it open. Elsewhere Claude Code finds the file by its name, which stays.
    ///
    /// # Errors
    /// When it is not there any more, or cannot be removed.
    pub(super) fn seen(self) -> io::Result<Kept> {
        let file = File::open(&self.0)?;
        if cfg!(target_os = "linux") {
            std::fs::remove_file(&self.0)?;
            return Ok(Kept { _file: file, _named: None });
        }
        Ok(Kept { _file: file, _named: Some(self) })
    }
}

/// The file as it is kept while Claude Code runs.
#[derive(Debug)]
pub(super) struct Kept {
    _file: File,
    _named: Option<McpConfig>,
}

impl Drop for McpConfig {
    fn drop(&mut self) {
        // It is not there any more where Claude Code has a view of its own. A later run of this directory would replace it.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn content(ports: &Ports) -> String {
    let (port, secret) = &ports.tools;
    let server = json!({
        "type": "http",
        "url": format!("http://127.0.0.1:{port}/mcp"),
        "headers": { "Authorization": format!("Bearer {}", secret.reveal()) },
    });
    json!({ "mcpServers": { SERVER_NAME: server } }).to_string()
}

fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::gate::Secret;
    use crate::plan::tests::plan;

    fn setting() -> (tempfile::TempDir, Plan, Ports) {
        let top = tempfile::tempdir().unwrap();
        let mut plan = plan();
        let at = |name: &str| top.path().join(name);
        let dirs = &mut plan.directories;
        (dirs.home, dirs.config, dirs.run, dirs.cwd, dirs.tmp) =
            (at("home"), at("config"), at("run"), at("cwd"), at("tmp"));
        let ports = Ports { messages: (1, Secret::mint().unwrap()), tools: (2, Secret::mint().unwrap()) };
        (top, plan, ports)
    }

    #[test]
    fn the_file_is_private_holds_the_tools_secret_and_goes_with_the_run() {
        let (_top, plan, ports) = setting();
        let config = McpConfig::prepare(&plan, &ports).unwrap();
        let path = config.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(ports.tools.1.reveal()) && !text.contains(ports.messages.1.reveal()));
        for directory in plan.directories.all() {
            assert_eq!(directory.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
        drop(McpConfig::prepare(&plan, &ports).unwrap());
        assert!(!path.exists());
        drop(config);
    }

    #[test]
    fn the_file_can_be_read_on_without_its_name_where_it_loses_that() {
        use std::io::Read;
        let (_top, plan, ports) = setting();
        let config = McpConfig::prepare(&plan, &ports).unwrap();
        let path = config.path().to_owned();
        let mut kept = config.seen().unwrap();
        assert_eq!(path.exists(), cfg!(not(target_os = "linux")));
        let mut text = String::new();
        kept._file.read_to_string(&mut text).unwrap();
        assert!(text.contains(ports.tools.1.reveal()));
        drop(kept);
        assert!(!path.exists());
    }

    #[test]
    fn a_working_directory_with_anything_in_it_is_refused() {
        let (_top, plan, ports) = setting();
        std::fs::create_dir_all(plan.directories.cwd.join(".git")).unwrap();
        assert!(matches!(McpConfig::prepare(&plan, &ports), Err(StartFailure::WorkingDirectory)));
    }
}
