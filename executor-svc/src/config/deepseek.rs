//! The DeepSeek subagent's settings: off unless a credential file is named.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;

use super::ConfigError;
use super::file::Deepseek as File;
use super::paths::{bounded, invalid, must_be_absolute, narrow, seconds};

/// Where a subagent goes. Each has its model, and none stands in for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// For everyday work.
    Flash,
    /// For hard work.
    Pro,
}

/// The model of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteModel {
    /// The name that is asked for.
    pub name: String,
    /// The names that may answer.
    pub answers: Vec<String>,
}

/// How the provider is asked, and what a subagent may take.
#[derive(Debug, Clone)]
pub struct DeepseekSettings {
    /// The file that holds the credential.
    pub credential_file: PathBuf,
    /// Where requests go; `/v1/messages` comes after its path.
    pub endpoint: Uri,
    /// An HTTP proxy that leads there. `None`: directly, whatever the environment says.
    pub proxy: Option<Uri>,
    /// The model of [`Route::Flash`].
    pub flash: RouteModel,
    /// The model of [`Route::Pro`].
    pub pro: RouteModel,
    /// What is started as the sub-session; `None`: the same Claude Code as for the main one.
    pub executable: Option<PathBuf>,
    /// How long a subagent may take.
    pub time: Duration,
    /// How many model requests it may make.
    pub turns: u32,
    /// How many tokens it may be answered with in all.
    pub output_tokens: u64,
    /// How many tokens one answer may have.
    pub answer_tokens: u32,
    /// How many bytes one answer may have on the wire.
    pub answer_bytes: usize,
    /// How many bytes one request may have.
    pub request_bytes: usize,
    /// How long one request may take until it is answered whole.
    pub request_timeout: Duration,
    /// Whether answers are asked for as streams. They are held back until they are whole either way.
    pub stream: bool,
}

impl DeepseekSettings {
    /// The model of a route.
    #[must_use]
    pub const fn model(&self, route: Route) -> &RouteModel {
        match route {
            Route::Flash => &self.flash,
            Route::Pro => &self.pro,
        }
    }
}

const ENDPOINT: &str = "https://api.deepseek.com/anthropic";

/// The settings; `None` without a credential file, whatever else is set.
pub(super) fn resolve(file: File) -> Result<Option<DeepseekSettings>, ConfigError> {
    let endpoint = endpoint(file.endpoint.as_deref().unwrap_or(ENDPOINT))?;
    let proxy = file.proxy.as_deref().map(proxy).transpose()?;
    let flash = model(
        "flash",
        file.flash_model,
        "deepseek-flash",
        file.flash_answers,
        &["deepseek-flash", "deepseek-v4-flash"],
    )?;
    let pro = model("pro", file.pro_model, "deepseek-v4-pro", file.pro_answers, &["deepseek-v4-pro"])?;
    let answer_bytes = bounded("deepseek.answer_bytes", file.answer_bytes, 4 << 20, 1 << 16..=6 << 20)?;
    let request_bytes = bounded("deepseek.request_bytes", file.request_bytes, 4 << 20, 1 << 16..=32 << 20)?;
    let answer_tokens = bounded("deepseek.answer_tokens", file.answer_tokens, 32_000, 256..=384_000)?;
    let settings = DeepseekSettings {
        credential_file: PathBuf::new(),
        endpoint,
        proxy,
        flash,
        pro,
        executable: file.executable.map(|path| must_be_absolute("deepseek.executable", path)).transpose()?,
        time: seconds("deepseek.seconds", file.seconds, 1800, 10..=86_400)?,
        turns: narrow(bounded("deepseek.turns", file.turns, 100, 1..=1000)?),
        output_tokens: bounded("deepseek.output_tokens", file.output_tokens, 200_000, 1..=100_000_000)?,
        answer_tokens: narrow(answer_tokens),
        answer_bytes: narrow(answer_bytes) as usize,
        request_bytes: narrow(request_bytes) as usize,
        request_timeout: seconds(
            "deepseek.request_timeout_seconds",
            file.request_timeout_seconds,
            600,
            1..=3600,
        )?,
        stream: file.stream.unwrap_or(true),
    };
    let Some(credential_file) = file.credential_file else { return Ok(None) };
    let credential_file = must_be_absolute("deepseek.credential_file", credential_file)?;
    Ok(Some(DeepseekSettings { credential_file, ..settings }))
}

/// The credential travels there, so nobody on the way may read along: https, or this very machine.
fn endpoint(text: &str) -> Result<Uri, ConfigError> {
    let uri = address("deepseek.endpoint", text)?;
    let host = uri.host().unwrap_or_default();
    let is_here = matches!(host, "127.0.0.1" | "[::1]" | "localhost");
    if uri.scheme() != Some(&Scheme::HTTPS) && !is_here {
        return Err(invalid("deepseek.endpoint", "must be https; http is for a loopback address only"));
    }
    Ok(uri)
}

fn proxy(text: &str) -> Result<Uri, ConfigError> {
    let uri = address("deepseek.proxy", text)?;
    if uri.scheme() == Some(&Scheme::HTTP) && uri.path() == "/" && uri.port().is_some() {
        Ok(uri)
    } else {
        Err(invalid("deepseek.proxy", "must have the form http://HOST:PORT"))
    }
}

fn address(name: &str, text: &str) -> Result<Uri, ConfigError> {
    let uri: Uri = text.parse().map_err(|error| invalid(name, format!("is no URL: {error}")))?;
    let is_http = matches!(uri.scheme_str(), Some("https" | "http"));
    if !is_http || uri.host().is_none_or(str::is_empty) {
        return Err(invalid(name, "must be a whole URL that begins with https:// or http://"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) || uri.query().is_some() {
        return Err(invalid(name, "must not hold a user, a password or a query"));
    }
    Ok(uri)
}

/// A name that begins with `claude` would be mapped by the provider to whatever it likes.
fn model(
    route: &str,
    name: Option<String>,
    default: &str,
    answers: Option<Vec<String>>,
    default_answers: &[&str],
) -> Result<RouteModel, ConfigError> {
    let key = |what: &str| format!("deepseek.{route}_{what}");
    let name = name.unwrap_or_else(|| default.to_owned());
    let answers =
        answers.unwrap_or_else(|| default_answers.iter().map(|&answer| answer.to_owned()).collect());
    for (text, what) in std::iter::once((&name, "model")).chain(answers.iter().map(|a| (a, "answers"))) {
        let plain = (1..=100).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        if !plain || text.to_ascii_lowercase().starts_with("claude") {
            return Err(invalid(
                &key(what),
                format!(
                    "`{text}` is no name of a DeepSeek model; names that begin with claude are never sent"
                ),
            ));
        }
    }
    if answers.is_empty() {
        return Err(invalid(&key("answers"), "must name at least one model"));
    }
    Ok(RouteModel { name, answers })
}
