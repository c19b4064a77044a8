//! Finding Claude Code: the native program, not the script or stub that an npm installation puts before it.
//!
//! Claude Code is started without PATH, so a script with an interpreter line would not run. An npm package installed
//! without its post-install script has only a stub at `bin/claude.exe`; the native program lies in the package of the
//! platform, beside it or nested below it.

use std::io::Read;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

/// The first candidate that leads to a native program.
#[must_use]
pub fn claude_binary(candidates: &[PathBuf]) -> Option<PathBuf> {
    candidates.iter().find_map(|candidate| native(&candidate.canonicalize().ok()?))
}

fn native(path: &Path) -> Option<PathBuf> {
    if is_native(path) {
        return Some(path.to_owned());
    }
    // …/@anthropic-ai/claude-code/bin/claude.exe -> …/@anthropic-ai/claude-code
    let package = path.ancestors().find(|dir| dir.ends_with("@anthropic-ai/claude-code"))?;
    let scope = package.parent()?;
    let places = [scope.to_owned(), package.join("node_modules/@anthropic-ai")];
    let found =
        places.iter().flat_map(|place| platform_packages().map(|name| place.join(name).join("claude")));
    found.into_iter().find(|path| is_native(path))
}

/// The npm names of the platform packages that can run here, likeliest first.
fn platform_packages() -> impl Iterator<Item = String> + Clone {
    let os = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let arch = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    ["", "-musl"].into_iter().map(move |libc| format!("claude-code-{os}-{arch}{libc}"))
}

/// An executable ELF or Mach-O file.
fn is_native(path: &Path) -> bool {
    const ELF: [u8; 4] = *b"\x7fELF";
    const MACH_O: [[u8; 4]; 2] = [[0xcf, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
    let mut magic = [0; 4];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && (magic == ELF || MACH_O.contains(&magic)) && access(path, AccessFlags::X_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn put(path: &Path, content: &[u8], mode: u32) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    /// An installation without its post-install script, as npm leaves it.
    fn npm(top: &Path, nested: bool) -> PathBuf {
        let scope = top.join("node_modules/@anthropic-ai");
        put(&scope.join("claude-code/bin/claude.exe"), b"echo stub >&2\n", 0o755);
        let place = if nested { scope.join("claude-code/node_modules/@anthropic-ai") } else { scope };
        let name = platform_packages().next().unwrap();
        put(&place.join(&name).join("claude"), b"\x7fELF...", 0o755);
        let bin = top.join("node_modules/.bin/claude");
        std::fs::create_dir_all(bin.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("../@anthropic-ai/claude-code/bin/claude.exe", &bin).unwrap();
        bin
    }

    #[test]
    fn a_stub_leads_to_the_native_program_beside_or_below_it() {
        for nested in [false, true] {
            let top = tempfile::tempdir().unwrap();
            let found = claude_binary(&[npm(top.path(), nested)]).unwrap();
            assert!(found.ends_with(format!("{}/claude", platform_packages().next().unwrap())));
        }
    }

    #[test]
    fn what_cannot_be_started_without_path_is_passed_over() {
        let top = tempfile::tempdir().unwrap();
        let (script, plain, good) =
            (top.path().join("script"), top.path().join("plain"), top.path().join("good"));
        put(&script, b"#!/usr/bin/env node\n", 0o755);
        put(&plain, b"\x7fELF", 0o644);
        put(&good, b"\x7fELF", 0o755);
        let missing = top.path().join("missing");
        assert_eq!(
            claude_binary(&[missing.clone(), script.clone(), good.clone()]),
            Some(good.canonicalize().unwrap())
        );
        assert_eq!(claude_binary(&[missing, script]), None);
    }
}
