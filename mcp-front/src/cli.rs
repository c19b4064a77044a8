//! The command line.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// What `mcp-front` was asked to do.
#[derive(Debug, Parser)]
#[command(name = "mcp-front", version, about = "Gatehouse's MCP front: six session tools over HTTP or stdio")]
pub struct Arguments {
    /// The transport.
    #[command(subcommand)]
    pub transport: Transport,
}

/// How clients reach the front.
#[derive(Debug, Subcommand)]
pub enum Transport {
    /// Serve streamable HTTP on loopback TCP or a Unix socket.
    Http(HttpOptions),
    /// Serve one client on standard input and output; ends when the input ends.
    Stdio(CommonOptions),
}

/// Options of both transports.
#[derive(Debug, Args)]
pub struct CommonOptions {
    /// The executor's runtime directory [default: $XDG_RUNTIME_DIR/gatehouse, or a per-user directory below the
    /// temporary folder].
    #[arg(long, value_name = "DIR")]
    pub runtime_dir: Option<PathBuf>,
    /// Which protocol revisions are offered: `legacy` leaves 2026-07-28 out.
    #[arg(long, value_enum, default_value_t = Protocol::All)]
    pub protocol: Protocol,
    /// How many calls may wait for a change at the same time; a call beyond that is answered at once.
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub max_waits: u32,
    /// What the text beside each structured result holds.
    #[arg(long, value_enum, default_value_t = TextMirror::Summary)]
    pub text_mirror: TextMirror,
    /// How log lines look: `auto` is text on a terminal and JSON elsewhere.
    #[arg(long, value_enum, default_value_t = LogFormat::Auto)]
    pub log_format: LogFormat,
}

/// Options of `mcp-front http`.
#[derive(Debug, Args)]
pub struct HttpOptions {
    /// A loopback address with a port (0: any free one), or `unix:PATH`.
    #[arg(long, default_value = "127.0.0.1:8848")]
    pub listen: Listen,
    /// The file (0600, at least 32 characters) with the key that every TCP request must show.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// The rest.
    #[command(flatten)]
    pub common: CommonOptions,
}

/// Which protocol revisions are offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// 2025-06-18, 2025-11-25 and 2026-07-28.
    All,
    /// 2025-06-18 and 2025-11-25.
    Legacy,
}

/// What the text beside each structured result holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextMirror {
    /// The ids, the status, the turn and what to do next.
    Summary,
    /// The whole structured result, as JSON.
    Full,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    Auto,
    /// Text for people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Arguments {
    /// The options that both transports have.
    #[must_use]
    pub const fn common(&self) -> &CommonOptions {
        match &self.transport {
            Transport::Http(options) => &options.common,
            Transport::Stdio(options) => options,
        }
    }
}

/// Where HTTP is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// On loopback; every request needs the key.
    Tcp(SocketAddr),
    /// On a socket that only this user can open; no key.
    Unix(PathBuf),
}

/// Why a `--listen` value is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenError {
    /// Neither form.
    #[error("`{0}` is neither a loopback address with a port, such as 127.0.0.1:8848, nor unix:PATH")]
    Malformed(String),
    /// An address that other machines reach.
    #[error("`{0}` is not a loopback address; the front is never reachable from another machine")]
    NotLoopback(SocketAddr),
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let malformed = || ListenError::Malformed(text.to_owned());
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(malformed()) } else { Ok(Self::Unix(PathBuf::from(path))) };
        }
        let address = match text.strip_prefix("localhost:") {
            Some(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port.parse().map_err(|_| malformed())?)),
            None => text.parse().map_err(|_| malformed())?,
        };
        if address.ip().is_loopback() {
            Ok(Self::Tcp(address))
        } else {
            Err(ListenError::NotLoopback(address))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_and_unix_sockets_can_be_listened_on() {
        assert_eq!("unix:/run/m.sock".parse(), Ok(Listen::Unix("/run/m.sock".into())));
        assert_eq!("localhost:0".parse(), Ok(Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))));
        assert!(matches!("[::1]:80".parse(), Ok(Listen::Tcp(_))));
        assert!(matches!("0.0.0.0:80".parse::<Listen>(), Err(ListenError::NotLoopback(_))));
        assert!(matches!("192.168.1.4:80".parse::<Listen>(), Err(ListenError::NotLoopback(_))));
        for malformed in ["", "unix:", "127.0.0.1", "example.com:80", "8848"] {
            assert!(matches!(malformed.parse::<Listen>(), Err(ListenError::Malformed(_))), "{malformed}");
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
