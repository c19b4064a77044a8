//! Who may speak over HTTP: the Host and Origin headers (a browser that was led here shows by them), and the key.

use http::header::{AUTHORIZATION, HOST, HeaderMap, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{StatusCode, Uri};

use super::jsonrpc::Rejection;
use crate::key::Key;

/// The header that carries the key.
pub(super) const KEY_HEADER: &str = "x-gatehouse-key";
const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The rules of one listener.
#[derive(Debug, Clone)]
pub enum Access {
    /// TCP: the Host must be a loopback name, and the key must be shown.
    Tcp(Key),
    /// A Unix socket: only this user can open it, and its clients name any Host.
    Unix,
}

impl Access {
    /// Whether a request may be looked at: it was not sent by a page that a browser shows from elsewhere.
    ///
    /// # Errors
    /// 403.
    pub(super) fn check_provenance(&self, parts: &Parts) -> Result<(), Rejection> {
        if matches!(self, Self::Tcp(_)) && !host_is_loopback(parts) {
            return Err(Rejection::http(
                StatusCode::FORBIDDEN,
                "Host must be localhost, 127.0.0.1 or [::1].",
            ));
        }
        let mut origins = parts.headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(origin_is_loopback) => Ok(()),
            _ => {
                Err(Rejection::http(StatusCode::FORBIDDEN, "Origin is not one that may call this endpoint."))
            }
        }
    }

    /// Whether the caller showed the key.
    ///
    /// # Errors
    /// 401, without a challenge: a challenge would make clients look for a way to log in.
    pub(super) fn check_key(&self, headers: &HeaderMap) -> Result<(), Rejection> {
        let Self::Tcp(key) = self else { return Ok(()) };
        match shown_key(headers) {
            Some(shown) if key.matches(shown) => Ok(()),
            _ => Err(Rejection::http(
                StatusCode::UNAUTHORIZED,
                "The key is missing or wrong: send X-Gatehouse-Key or Authorization: Bearer with the content of the \
                 front's key file.",
            )),
        }
    }
}

/// The key's own header decides, if it is there: an Authorization header may come from further away.
fn shown_key(headers: &HeaderMap) -> Option<&[u8]> {
    if headers.contains_key(KEY_HEADER) {
        return only(headers, KEY_HEADER);
    }
    let shown = only(headers, AUTHORIZATION.as_str())?;
    let (scheme, key) = shown.split_at_checked(b"bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

/// Both the Host header and, if the request line has one, its authority.
fn host_is_loopback(parts: &Parts) -> bool {
    let named = only(&parts.headers, HOST.as_str()).and_then(|host| Authority::try_from(host).ok());
    let Some(named) = named else { return false };
    is_loopback(&named) && parts.uri.authority().is_none_or(is_loopback)
}

fn is_loopback(authority: &Authority) -> bool {
    let plain = !authority.as_str().contains('@');
    plain && LOOPBACK_NAMES.iter().any(|name| authority.host().eq_ignore_ascii_case(name))
}

/// Pages that a server on this machine shows; `null` and everything else is foreign.
fn origin_is_loopback(origin: &str) -> bool {
    let Ok(uri) = origin.parse::<Uri>() else { return false };
    uri.scheme_str() == Some("http")
        && uri.path() == "/"
        && uri.query().is_none()
        && uri.authority().is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef0123456789abcdef";

    fn access() -> Access {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, KEY).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        Access::Tcp(Key::read(&path).unwrap())
    }

    fn parts(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_loopback_names_are_hosts() {
        let access = access();
        for good in ["localhost", "LOCALHOST:1", "127.0.0.1:8848", "[::1]:9"] {
            assert_eq!(access.check_provenance(&parts("/mcp", &[("host", good)])), Ok(()), "{good}");
        }
        for bad in [
            "example.com",
            "127.0.0.1.example.com",
            "localhost.",
            "127.1",
            "u@localhost",
            "::1",
            "",
            "0.0.0.0",
        ] {
            let refused = access.check_provenance(&parts("/mcp", &[("host", bad)])).unwrap_err();
            assert_eq!(refused.status, StatusCode::FORBIDDEN, "{bad}");
        }
        assert!(access.check_provenance(&parts("/mcp", &[])).is_err());
        assert!(
            access.check_provenance(&parts("/mcp", &[("host", "localhost"), ("host", "localhost")])).is_err()
        );
        assert!(access.check_provenance(&parts("http://example.com/mcp", &[("host", "localhost")])).is_err());
    }

    #[test]
    fn over_a_unix_socket_any_host_will_do_and_no_key_is_asked_for() {
        let request = parts("/mcp", &[("host", "anything.example")]);
        assert_eq!(Access::Unix.check_provenance(&request), Ok(()));
        assert_eq!(Access::Unix.check_key(&request.headers), Ok(()));
    }

    #[test]
    fn only_pages_of_this_machine_may_call() {
        for access in [access(), Access::Unix] {
            for good in ["http://127.0.0.1:5173", "http://localhost", "http://[::1]:80"] {
                assert_eq!(
                    access.check_provenance(&parts("/", &[("host", "localhost"), ("origin", good)])),
                    Ok(())
                );
            }
            for bad in [
                "null",
                "https://example.com",
                "http://localhost.example.com",
                "http://localhost/x",
                "",
                "file://",
                "localhost",
            ] {
                assert!(
                    access.check_provenance(&parts("/", &[("host", "localhost"), ("origin", bad)])).is_err(),
                    "{bad}"
                );
            }
        }
    }

    #[test]
    fn the_key_is_taken_from_either_header_and_its_own_decides() {
        let access = access();
        let bearer = format!("Bearer {KEY}");
        let lower = format!("bearer {KEY}");
        let good: [&[(&str, &str)]; 4] = [
            &[("x-gatehouse-key", KEY)],
            &[("authorization", &bearer)],
            &[("authorization", &lower)],
            &[("x-gatehouse-key", KEY), ("authorization", "Bearer of-somebody-else")],
        ];
        for headers in good {
            assert_eq!(access.check_key(&parts("/", headers).headers), Ok(()), "{headers:?}");
        }
        let wrong = format!("{KEY}x");
        let basic = format!("Basic {KEY}");
        let bad: [&[(&str, &str)]; 6] = [
            &[],
            &[("x-gatehouse-key", &wrong)],
            &[("x-gatehouse-key", ""), ("authorization", &bearer)],
            &[("x-gatehouse-key", KEY), ("x-gatehouse-key", KEY)],
            &[("authorization", &basic)],
            &[("authorization", KEY)],
        ];
        for headers in bad {
            let refused = access.check_key(&parts("/", headers).headers).unwrap_err();
            assert_eq!((refused.status, refused.code), (StatusCode::UNAUTHORIZED, -32001), "{headers:?}");
            assert!(!refused.message.contains(KEY));
        }
    }
}
