//! Every key of the configuration file. `docs/configuration.md` has a row for each; a test compares.

/// One key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key {
    /// Its table; empty for the top level.
    pub section: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its default, as it would stand in the file.
    pub default: &'static str,
}

const fn key(section: &'static str, name: &'static str, default: &'static str) -> Key {
    Key { section, name, default }
}

/// All of them.
pub const KEYS: &[Key] = &[
    key("", "state_dir", "\"$XDG_STATE_HOME/gatehouse\""),
    key("", "runtime_dir", "\"$XDG_RUNTIME_DIR/gatehouse\""),
    key("claude", "binary", "found by itself"),
    key("claude", "allow_unverified_version", "false"),
    key("claude", "launch_timeout_seconds", "60"),
    key("claude", "ping_seconds", "10"),
    key("claude", "stream_idle_timeout_seconds", "86400"),
    key("claude", "helper_dir", "beside executor-svc"),
    key("limits", "lease_seconds", "1800"),
    key("limits", "live_sessions", "16"),
    key("limits", "max_wait_seconds", "50"),
    key("limits", "reply_wait_seconds", "25"),
    key("limits", "short_result_bytes", "4096"),
    key("files", "read_roots", "[\"/\"]"),
    key("files", "protected", "[]"),
    key("files", "hard_links", "\"strict\""),
    key("files", "network_file_systems", "\"root_only\""),
    key("files", "whole_hash_limit_bytes", "268435456"),
    key("commands", "path", "[]"),
    key("commands", "private_loopback", "false"),
    key("commands", "scratch_bytes", "4294967296"),
    key("commands", "processes", "1024"),
    key("writing", "max_file_bytes", "67108864"),
    key("writing", "without_exchange", "\"rename\""),
    key("writing", "content_bytes", "10737418240"),
    key("writing", "worktree_dir", "\"STATE_DIR-worktrees\""),
    key("skills", "allow", "[]"),
    key("skills", "folders", "{}"),
    key("front", "listen", "\"127.0.0.1:8848\""),
    key("front", "key_file", "\"STATE_DIR/front.key\""),
    key("front", "protocol", "\"all\""),
    key("front", "max_waits", "64"),
    key("front", "text_mirror", "\"summary\""),
    key("log", "format", "\"auto\""),
    key("deepseek", "credential_file", "none: switched off"),
    key("deepseek", "endpoint", "\"https://api.deepseek.com/anthropic\""),
    key("deepseek", "proxy", "none"),
    key("deepseek", "flash_model", "\"deepseek-flash\""),
    key("deepseek", "flash_answers", "[\"deepseek-flash\", \"deepseek-v4-flash\"]"),
    key("deepseek", "pro_model", "\"deepseek-v4-pro\""),
    key("deepseek", "pro_answers", "[\"deepseek-v4-pro\"]"),
    key("deepseek", "executable", "the same Claude Code"),
    key("deepseek", "seconds", "1800"),
    key("deepseek", "turns", "100"),
    key("deepseek", "output_tokens", "200000"),
    key("deepseek", "answer_tokens", "32000"),
    key("deepseek", "answer_bytes", "4194304"),
    key("deepseek", "request_bytes", "4194304"),
    key("deepseek", "request_timeout_seconds", "600"),
    key("deepseek", "stream", "true"),
];

/// The key nearest to a mistyped one, if any is near.
pub(super) fn nearest(path: &str) -> Option<String> {
    KEYS.iter()
        .map(Key::path)
        .map(|known| (strsim::jaro_winkler(path, &known), known))
        .filter(|(likeness, _)| *likeness > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

impl Key {
    /// `section.name`, or the name alone.
    #[must_use]
    pub fn path(&self) -> String {
        if self.section.is_empty() { self.name.to_owned() } else { format!("{}.{}", self.section, self.name) }
    }
}
