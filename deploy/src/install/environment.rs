//! What of the shell's environment a service is given.
//!
//! A service manager gives a service hardly any PATH and none of the variables of a shell. What decides where the executor
//! finds things is recorded; secrets and proxies are not: they have no business in a file that others can read.

use std::collections::BTreeMap;

/// The variables that are recorded.
pub const KEPT: [&str; 10] = [
    "PATH",
    "CLAUDE_BIN",
    "CLAUDE_TOOLS_NATIVE_SKILL_ALLOWLIST_JSON",
    "GATEHOUSE_LOG",
    "XDG_CONFIG_HOME",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOMODCACHE",
    "PYENV_ROOT",
    "NVM_DIR",
];

/// Those of them that are set. Of PATH, only absolute directories: the others depend on where one stands.
#[must_use]
pub fn kept(variable: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let set = KEPT.into_iter().filter_map(|name| Some((name.to_owned(), variable(name)?)));
    set.map(|(name, value)| match name.as_str() {
        "PATH" => (name, absolute_parts(&value)),
        _ => (name, value),
    })
    .filter(|(_, value)| !value.is_empty())
    .collect()
}

fn absolute_parts(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(':').filter(|part| part.starts_with('/')) {
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_programs_is_kept_and_secrets_and_proxies_are_not() {
        let shell = |name: &str| match name {
            "PATH" => Some("/a b:.:bin:/c:/a b:".to_owned()),
            "CLAUDE_BIN" => Some("/x/claude".to_owned()),
            "NVM_DIR" => Some(String::new()),
            "OPENAI_API_KEY" | "HTTPS_PROXY" | "CONTROL_PLANE_API_KEY" => Some("secret".to_owned()),
            _ => None,
        };
        let kept = kept(shell);
        assert_eq!(kept["PATH"], "/a b:/c");
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["CLAUDE_BIN", "PATH"]);
    }
}
