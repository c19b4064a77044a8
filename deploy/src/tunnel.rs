//! The profile with which OpenAI's `tunnel-client` reaches this gateway. The templates are in `deploy/tunnel/`.

use std::path::Path;

use crate::failure::Failure;
use crate::settings::Settings;

const TCP: &str = include_str!("../tunnel/tcp.yaml");
const UNIX: &str = include_str!("../tunnel/unix.yaml");
const STDIO: &str = include_str!("../tunnel/stdio.yaml");

/// So many calls more than may wait in the front are let through at a time, so that none that does not wait is held up.
const ROOM: u32 = 32;

/// How tunnel-client reaches the front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way<'a> {
    /// Over HTTP, where the running front listens: TCP or a Unix socket.
    Http,
    /// It starts this `mcp-front` itself.
    Stdio(&'a Path),
}

/// What the operator's account at OpenAI has to do with it.
#[derive(Debug, Clone)]
pub struct Account {
    /// The tunnel's id.
    pub tunnel_id: TunnelId,
    /// Where tunnel-client finds the runtime key: `env:NAME` or `file:PATH`.
    pub api_key: String,
}

/// The id of a tunnel: `tunnel_` and 32 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelId(String);

impl std::str::FromStr for TunnelId {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("tunnel_").unwrap_or_default();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match digits.len() == 32 && digits.bytes().all(is_digit) {
            true => Ok(Self(text.to_owned())),
            false => {
                Err("a tunnel's id is `tunnel_` and 32 hexadecimal digits, as the Tunnels page shows it")
            }
        }
    }
}

/// The profile for a gateway with these settings.
///
/// # Errors
/// When a path cannot be written into such a file.
pub fn profile(settings: &Settings, account: &Account, way: Way<'_>) -> Result<String, Failure> {
    let front = &settings.front;
    let mut values = vec![
        ("TUNNEL_ID", account.tunnel_id.0.clone()),
        ("API_KEY", account.api_key.clone()),
        ("HEALTH_URL_FILE", text(&settings.runtime_dir.join("tunnel-health.url"))?),
        ("MAX_WAITS", front.max_waits.to_string()),
        ("CONCURRENT", front.max_waits.saturating_add(ROOM).to_string()),
    ];
    let template = match (way, front.listen.strip_prefix("unix:")) {
        (Way::Stdio(program), _) => {
            values.push(("COMMAND", command(settings, program)?));
            STDIO
        }
        (Way::Http, Some(socket)) => {
            if socket.contains(',') {
                return Err(Failure::failed(format!(
                    "tunnel-client cannot dial {socket}: the path has a comma"
                ))
                .hint("Set front.listen to a socket without one."));
            }
            values.push(("SOCKET", socket.to_owned()));
            UNIX
        }
        (Way::Http, None) => {
            values.push(("URL", format!("http://{}/mcp", front.listen)));
            values.push(("KEY_REFERENCE", format!("file:{}", text(&front.key_file)?)));
            TCP
        }
    };
    Ok(fill(template, &values))
}

/// The front's command as tunnel-client reads it: words, quoted as in a shell, without a shell.
fn command(settings: &Settings, program: &Path) -> Result<String, Failure> {
    let words = [
        text(program)?,
        "stdio".to_owned(),
        "--runtime-dir".to_owned(),
        text(&settings.runtime_dir)?,
        "--protocol".to_owned(),
        settings.front.protocol.clone(),
        "--text-mirror".to_owned(),
        settings.front.text_mirror.clone(),
    ];
    Ok(words.map(|word| quoted(&word)).join(" "))
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ':');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

fn text(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        Failure::failed(format!("{} cannot be written into a profile", path.display()))
            .hint("Choose a directory whose name is plain text.")
    })
}

/// Puts the values into the template, as a double-quoted YAML string wants them, which is as JSON does.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('@') {
        filled.push_str(before);
        let found = values
            .iter()
            .find_map(|(name, value)| Some((value, after.strip_prefix(name)?.strip_prefix('@')?)));
        match found {
            Some((value, behind)) => {
                let json = serde_json::Value::from(value.as_str()).to_string();
                filled.push_str(json.trim_start_matches('"').strip_suffix('"').unwrap_or_default());
                rest = behind;
            }
            None => {
                filled.push('@');
                rest = after;
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{ClaudeSettings, FrontSettings};

    fn settings(listen: &str) -> Settings {
        Settings {
            state_dir: "/s".into(),
            runtime_dir: "/r u".into(),
            config_file: None,
            claude: ClaudeSettings {
                binary: None,
                candidates: Vec::new(),
                allow_unverified_version: false,
                verified_version: "2.1.247".to_owned(),
                helper_dir: None,
            },
            content_bytes: 0,
            log_format: "auto".to_owned(),
            front: FrontSettings {
                listen: listen.to_owned(),
                key_file: "/s/a \"b\"/front.key".into(),
                protocol: "all".to_owned(),
                max_waits: 64,
                text_mirror: "summary".to_owned(),
            },
        }
    }

    fn account() -> Account {
        let tunnel_id = format!("tunnel_{}", "0a".repeat(16)).parse().unwrap();
        Account { tunnel_id, api_key: "env:CONTROL_PLANE_API_KEY".to_owned() }
    }

    #[test]
    fn the_way_to_the_front_is_the_one_that_it_listens_on() {
        let tcp = profile(&settings("127.0.0.1:8848"), &account(), Way::Http).unwrap();
        assert!(tcp.contains(r#"url: "http://127.0.0.1:8848/mcp""#), "{tcp}");
        assert!(tcp.contains(r#"X-Gatehouse-Key: "file:/s/a \"b\"/front.key""#), "{tcp}");
        assert!(tcp.contains("max_concurrent_requests: 96\n"), "{tcp}");
        let unix = profile(&settings("unix:/r/mcp.sock"), &account(), Way::Http).unwrap();
        assert!(unix.contains(r#"unix_socket: "/r/mcp.sock""#) && !unix.contains("Gatehouse-Key"), "{unix}");
        let stdio =
            profile(&settings("127.0.0.1:1"), &account(), Way::Stdio("/bin/mcp-front".as_ref())).unwrap();
        assert!(
            stdio.contains(r#"command: "/bin/mcp-front stdio --runtime-dir '/r u' --protocol all"#),
            "{stdio}"
        );
        for filled in [tcp, unix, stdio] {
            let left = filled.lines().find(|line| line.contains('@'));
            assert_eq!(left, None, "a place that was not filled in");
        }
    }

    #[test]
    fn a_path_that_tunnel_client_could_not_read_back_is_refused() {
        assert!(profile(&settings("unix:/r/a,b"), &account(), Way::Http).is_err());
        let mut odd = settings("127.0.0.1:1");
        odd.front.key_file = "/s/a\nb".into();
        assert!(profile(&odd, &account(), Way::Http).is_err());
        assert_eq!(quoted("it's"), r#"'it'"'"'s'"#);
    }

    #[test]
    fn an_id_is_checked_before_anything_is_written() {
        for bad in ["", "tunnel_", "tunnel_XYZ", "0a0a", &format!("tunnel_{}", "A".repeat(32))] {
            assert!(bad.parse::<TunnelId>().is_err(), "{bad}");
        }
    }
}
