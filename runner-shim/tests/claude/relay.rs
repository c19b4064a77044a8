//! What stands between a shim and the launcher where a test has to change or to see what goes through there.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::proxy::Proxy;
use crate::shim::beside;

/// A directory with the shim, and with the relay in the launcher's place.
pub struct Relay {
    place: PathBuf,
    /// Arguments for Claude Code on top of the shim's.
    pub append: Vec<String>,
    /// Environment for it on top of the shim's.
    pub environment: BTreeMap<String, String>,
    /// What is started in its place.
    pub instead: Vec<String>,
    proxy: Option<u16>,
}

impl Relay {
    pub fn new(top: &Path) -> Self {
        let place = top.join("bin");
        let (append, environment, instead) = Default::default();
        Self { place, append, environment, instead, proxy: None }
    }

    /// Leads Claude Code's model requests through a proxy.
    pub fn through(&mut self, proxy: &Proxy) {
        proxy.stands_before(&self.ports_file());
        self.proxy = Some(proxy.port());
    }

    /// Puts a shell script in Claude Code's place.
    pub fn script(&mut self, body: &str) {
        self.instead = ["/bin/sh", "-c", body, "claude"].map(str::to_owned).to_vec();
    }

    /// Makes it ready; gives the shim that uses it.
    pub fn set_up(&self) -> PathBuf {
        let shim = Path::new(env!("CARGO_BIN_EXE_runner-shim"));
        std::fs::create_dir_all(&self.place).unwrap();
        for (program, name) in [(shim, "runner-shim"), (&beside(shim, "sandbox-relay"), "sandbox-launch")] {
            let copy = self.place.join(name);
            if !copy.exists() {
                // On another file system, or of another user: a copy does as well.
                std::fs::hard_link(program, &copy)
                    .or_else(|_| std::fs::copy(program, &copy).map(drop))
                    .unwrap();
            }
        }
        let instructions = json!({
            "launcher": beside(shim, "sandbox-launch"),
            "append": self.append,
            "environment": self.environment,
            "instead": self.instead,
            "proxy": self.proxy,
        });
        std::fs::write(self.place.join("relay.json"), instructions.to_string()).unwrap();
        self.place.join("runner-shim")
    }

    fn ports_file(&self) -> PathBuf {
        self.place.join("ports.json")
    }

    /// The two ports through which the shim can be reached: Messages API, MCP server.
    pub fn ports(&self) -> [u16; 2] {
        serde_json::from_slice(&std::fs::read(self.ports_file()).unwrap()).unwrap()
    }

    /// The order that the shim gave for Claude Code, changes included.
    pub fn order(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.place.join("order.json")).unwrap()).unwrap()
    }
}
