//! Who may talk to the two loopback ports: Claude Code of this run, and nobody else on the machine.
//!
//! They lie in a network that only Claude Code is in. That is one lock; this is another, for it must hold also where a port of
//! a loopback address is open to every process of every user: every request, on every path and with every method, must
//! name the loopback address as its host (a browser that was led here names another) and carry the run's own secret
//! for that port.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, StatusCode};
use subtle::ConstantTimeEq;

use crate::messages::api_error;

/// A secret of one port of one run: 32 random bytes as hexadecimal text.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// A fresh one.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub fn mint() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(hex::encode(bytes).into()))
    }

    /// The text, for Claude Code only.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Where a port's secret is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// `x-api-key`, as the Messages API has it.
    ApiKey,
    /// `authorization: Bearer`.
    Bearer,
}

/// The rule of one port.
#[derive(Debug, Clone)]
pub struct Gate {
    /// What must be shown.
    pub secret: Secret,
    /// Where.
    pub carrier: Carrier,
    /// The port, which a host may name.
    pub port: u16,
}

impl Gate {
    fn admits(&self, headers: &HeaderMap) -> bool {
        self.host_is_ours(headers) && self.secret_is_shown(headers)
    }

    fn host_is_ours(&self, headers: &HeaderMap) -> bool {
        let mut hosts = headers.get_all(HOST).iter();
        let (Some(host), None) = (hosts.next(), hosts.next()) else {
            return false;
        };
        host.as_bytes() == b"127.0.0.1" || host.as_bytes() == format!("127.0.0.1:{}", self.port).as_bytes()
    }

    fn secret_is_shown(&self, headers: &HeaderMap) -> bool {
        let shown = match self.carrier {
            Carrier::ApiKey => headers.get("x-api-key").map(http::HeaderValue::as_bytes),
            Carrier::Bearer => {
                headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "))
            }
        };
        shown.is_some_and(|shown| shown.ct_eq(self.secret.reveal().as_bytes()).into())
    }
}

/// The layer that stands before every route of a port.
pub async fn check(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    if gate.admits(request.headers()) {
        next.run(request).await
    } else {
        api_error(StatusCode::UNAUTHORIZED, "authentication_error", "not for you")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gate(carrier: Carrier) -> Gate {
        Gate { secret: Secret("s3cret".into()), carrier, port: 4711 }
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, http::HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn only_the_own_secret_in_its_own_place_with_a_loopback_host_is_admitted() {
        let key = gate(Carrier::ApiKey);
        assert!(key.admits(&headers(&[("host", "127.0.0.1:4711"), ("x-api-key", "s3cret")])));
        assert!(key.admits(&headers(&[("host", "127.0.0.1"), ("x-api-key", "s3cret")])));
        let bearer = gate(Carrier::Bearer);
        assert!(bearer.admits(&headers(&[("host", "127.0.0.1:4711"), ("authorization", "Bearer s3cret")])));

        let refused: &[&[(&str, &str)]] = &[
            &[("x-api-key", "s3cret")],
            &[("host", "127.0.0.1:4711")],
            &[("host", "127.0.0.1:4711"), ("x-api-key", "s3cre")],
            &[("host", "127.0.0.1:4711"), ("x-api-key", "s3cretx")],
            &[("host", "127.0.0.1:4711"), ("x-api-key", "")],
            &[("host", "127.0.0.1:4711"), ("authorization", "Bearer s3cret")],
            &[("host", "127.0.0.1:1"), ("x-api-key", "s3cret")],
            &[("host", "localhost:4711"), ("x-api-key", "s3cret")],
            &[("host", "127.0.0.1.evil.example"), ("x-api-key", "s3cret")],
            &[("host", "127.0.0.1:4711"), ("host", "evil.example"), ("x-api-key", "s3cret")],
        ];
        for pairs in refused {
            assert!(!key.admits(&headers(pairs)), "{pairs:?}");
        }
        assert!(!bearer.admits(&headers(&[("host", "127.0.0.1"), ("authorization", "s3cret")])));
        assert!(!bearer.admits(&headers(&[("host", "127.0.0.1"), ("x-api-key", "s3cret")])));
    }

    #[test]
    fn secrets_differ_and_never_show_in_debug_output() {
        let (a, b) = (Secret::mint().unwrap(), Secret::mint().unwrap());
        assert_eq!(a.reveal().len(), 64);
        assert_ne!(a.reveal(), b.reveal());
        assert!(!format!("{a:?}").contains(a.reveal()));
    }
}
