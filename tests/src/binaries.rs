//! Where the binaries under test are, and Claude Code.

use std::io::Write;
use std::path::{Path, PathBuf};

/// The folder that cargo puts the binaries into: above the test executable's `deps`.
#[must_use]
pub fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("the system names the running executable");
    let deps = test.parent().expect("a file has a folder");
    if deps.ends_with("deps") {
        deps.parent().expect("deps lies in the profile's folder").to_owned()
    } else {
        deps.to_owned()
    }
}

/// A binary of the workspace.
///
/// # Panics
/// When it has not been built.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    let path = folder().join(name);
    assert!(path.is_file(), "{} is missing; build it first: cargo build --workspace --bins", path.display());
    path
}

/// The repository.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace")
}

/// Claude Code's executable: `CLAUDE_BIN`, else the copy that `make` brings into the build folder. `None` only when
/// `GATEHOUSE_SKIP=claude` says so; the calling test is then counted as skipped.
///
/// # Panics
/// When there is none, and when it would have to be skipped although `CI_REQUIRE` is set.
#[must_use]
pub fn claude() -> Option<PathBuf> {
    let named = std::env::var_os("CLAUDE_BIN").map(PathBuf::from);
    let found = named.unwrap_or_else(|| installed_claude(&folder()));
    if found.is_file() {
        return Some(found.canonicalize().expect("an existing file has a real path"));
    }
    if skip("claude") {
        return None;
    }
    panic!(
        "Claude Code is not at {}; `make claude` brings it, CLAUDE_BIN names another copy, GATEHOUSE_SKIP=claude leaves these tests out",
        found.display()
    );
}

/// `target/claude-code/…`, also when the test was built below `target/<triple>/`.
fn installed_claude(folder: &Path) -> PathBuf {
    let packages = Path::new("claude-code/node_modules/@anthropic-ai");
    let system = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
    let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "x64" };
    let musl = if cfg!(target_env = "musl") { "-musl" } else { "" };
    let file = packages.join(format!("claude-code-{system}-{machine}{musl}/claude"));
    let tops = folder.ancestors().skip(1).take(2);
    tops.map(|top| top.join(&file))
        .find(|path| path.is_file())
        .unwrap_or_else(|| folder.join("..").join(&file))
}

/// Whether the calling test is to be left out for want of `what`. It is then noted in `skipped.txt` of the build
/// folder, which `make` prints as its summary.
///
/// # Panics
/// When `CI_REQUIRE` forbids to leave anything out.
#[must_use]
pub fn skip(what: &str) -> bool {
    let allowed = std::env::var("GATEHOUSE_SKIP").unwrap_or_default();
    if !allowed.split(',').any(|item| item.trim() == what) {
        return false;
    }
    let required = std::env::var("CI_REQUIRE").unwrap_or_default();
    assert!(required.is_empty(), "GATEHOUSE_SKIP={allowed} and CI_REQUIRE={required} contradict each other");
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let path = folder().join("../skipped.txt");
    let mut notes =
        std::fs::File::options().create(true).append(true).open(&path).expect("the build folder is writable");
    writeln!(notes, "{what}: {test}").expect("the build folder is writable");
    true
}
