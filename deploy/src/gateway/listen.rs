//! Where the front listens, and how it is started there.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use crate::chatgpt::Endpoint;
use crate::failure::Failure;
use crate::settings::Settings;

/// The arguments of a front with these settings.
#[must_use]
pub fn front_arguments(settings: &Settings, listen: &Listen) -> Vec<OsString> {
    let front = &settings.front;
    let mut arguments: Vec<OsString> = vec!["http".into(), "--listen".into(), listen.argument().into()];
    arguments.extend(["--runtime-dir".into(), settings.runtime_dir.clone().into_os_string()]);
    arguments.extend(["--key-file".into(), front.key_file.clone().into_os_string()]);
    arguments.extend(["--protocol".into(), front.protocol.clone().into()]);
    arguments.extend(["--max-waits".into(), front.max_waits.to_string().into()]);
    arguments.extend(["--text-mirror".into(), front.text_mirror.clone().into()]);
    arguments.extend(["--log-format".into(), settings.log_format.clone().into()]);
    arguments
}

/// Where the front is to listen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// On loopback.
    Tcp(SocketAddr),
    /// On a socket of this user.
    Unix(PathBuf),
}

impl Listen {
    /// `ADDRESS:PORT` or `unix:PATH`. Port 0 is settled here and now, so that a front that is started again comes back
    /// where its clients look for it.
    ///
    /// # Errors
    /// When it is neither, or there is no free port.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Self::Unix(PathBuf::from(path)));
        }
        let text = text.replacen("localhost:", "127.0.0.1:", 1);
        let address: SocketAddr = text
            .parse()
            .map_err(|_| Failure::usage(format!("{text:?} is neither ADDRESS:PORT nor unix:PATH")))?;
        if address.port() != 0 {
            return Ok(Self::Tcp(address));
        }
        Ok(Self::Tcp(TcpListener::bind(address)?.local_addr()?))
    }

    /// As the front's `--listen` takes it.
    #[must_use]
    pub fn argument(&self) -> String {
        match self {
            Self::Tcp(address) => address.to_string(),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// How it is asked.
    #[must_use]
    pub fn endpoint(&self, key: Option<String>) -> Endpoint {
        match self {
            Self::Tcp(address) => Endpoint::Tcp { address: *address, key },
            Self::Unix(socket) => Endpoint::Unix { socket: socket.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_0_becomes_a_real_port_and_nonsense_is_wrong_usage() {
        let Ok(Listen::Tcp(address)) = Listen::parse("127.0.0.1:0") else { panic!("not TCP") };
        assert_ne!(address.port(), 0);
        assert_eq!(Listen::parse("unix:/r/s").unwrap().argument(), "unix:/r/s");
        assert_eq!(Listen::parse("8848").unwrap_err().exit, crate::failure::Exit::Usage);
    }
}
