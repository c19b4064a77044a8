//! Turns the policies that are data into what a launch needs of them: system call filters, and the list of what is always
//! covered. Broken data fails the build, and a launch neither parses nor compiles anything.

#[path = "src/linux/seccomp/compile.rs"]
mod compile;
#[path = "src/linux/seccomp/data.rs"]
mod data;

use std::error::Error;
use std::fmt::Write;
use std::path::Path;

use compile::{Target, compile};
use data::{BASE, List, NETWORK_LOOPBACK, NETWORK_NONE, NETWORK_PORTS, Rules, SELF};
use serde::Deserialize;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=policy");
    println!("cargo::rerun-if-changed=src/linux/seccomp");
    if std::env::var("CARGO_CFG_TARGET_OS")? != "linux" {
        return Ok(());
    }
    let architecture = std::env::var("CARGO_CFG_TARGET_ARCH")?;
    let target = Target::named(&architecture).ok_or("there are no filters for this architecture")?;
    let mut text = String::new();
    for (name, list) in [
        ("NETWORK_NONE", &NETWORK_NONE),
        ("NETWORK_LOOPBACK", &NETWORK_LOOPBACK),
        ("NETWORK_PORTS", &NETWORK_PORTS),
        ("SELF", &SELF),
    ] {
        filter(&mut text, name, list, target)?;
    }
    let out = std::env::var("OUT_DIR")?;
    std::fs::write(Path::new(&out).join("filters.rs"), text)?;
    std::fs::write(Path::new(&out).join("covered.rs"), covered()?)?;
    Ok(())
}

fn filter(text: &mut String, name: &str, list: &List, target: Target) -> Result<(), Box<dyn Error>> {
    let program = compile(&Rules::read(&[&BASE, list])?, target)?;
    writeln!(text, "/// `seccomp-base.toml` and `seccomp-{}.toml`.", list.name)?;
    writeln!(text, "pub(super) static {name}: [sock_filter; {}] = [", program.len())?;
    for (code, jt, jf, k) in program {
        writeln!(text, "    sock_filter {{ code: {code:#x}, jt: {jt}, jf: {jf}, k: {k:#x} }},")?;
    }
    writeln!(text, "];")?;
    Ok(())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Covered {
    covered: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    path: String,
    reason: String,
    /// Why it stays although something else refuses the same.
    #[serde(default)]
    kept: Option<String>,
}

fn covered() -> Result<String, Box<dyn Error>> {
    let file: Covered = toml::from_str(include_str!("policy/covered-linux.toml"))?;
    let mut text =
        "/// What is hidden from every program.\npub(super) const COVERED: &[&str] = &[\n".to_owned();
    for line in file.covered {
        if !line.path.starts_with('/')
            || line.reason.is_empty()
            || line.kept.is_some_and(|why| why.is_empty())
        {
            return Err(format!("covered-linux.toml: {}", line.path).into());
        }
        writeln!(text, "    {:?},", line.path)?;
    }
    text.push_str("];\n");
    Ok(text)
}
