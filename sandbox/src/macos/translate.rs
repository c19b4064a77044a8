//! A request as it is meant on a Mac, where nothing is mounted at [`SCRATCH`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::launch::{Confinement, LaunchRequest, SCRATCH, Scratch};

/// The request with the scratch named where it is: as the directory to start in, and in the environment (whole values and
/// the parts of lists that colons separate). Arguments stay as they are. Files become no larger than the scratch.
pub(super) fn for_this_system(
    request: &LaunchRequest,
    confinement: &Confinement,
    scratch: Option<&Path>,
) -> LaunchRequest {
    let mut request = request.clone();
    if let Some(scratch) = scratch {
        request.cwd = named(&request.cwd, scratch);
        for value in request.env.values_mut() {
            let parts = value.as_bytes().split(|&byte| byte == b':');
            let parts: Vec<Vec<u8>> =
                parts.map(|part| named(OsStr::from_bytes(part), scratch).into_vec()).collect();
            *value = OsString::from_vec(parts.join(&b':'));
        }
    }
    if let Scratch::Directory { bytes, .. } | Scratch::Memory { bytes } = confinement.scratch
        && confinement.writable.is_empty()
    {
        let asked = request.limits.file_bytes;
        request.limits.file_bytes = Some(asked.map_or(bytes, |asked| asked.min(bytes)));
    }
    request
}

/// By bytes: `//tmp`, as in an address, is not the scratch.
fn named(text: &OsStr, scratch: &Path) -> OsString {
    match text.as_bytes().strip_prefix(SCRATCH.as_bytes()) {
        Some(rest) if rest.is_empty() || rest.starts_with(b"/") => {
            OsString::from_vec([scratch.as_os_str().as_bytes(), rest].concat())
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::launch::Policy;

    use super::super::tests::request;
    use super::*;

    #[test]
    fn the_scratch_is_named_where_it_is() {
        let mut asked = request(Policy::Command, "/tmp/build");
        asked.argv.push("/tmp/argument".into());
        for (name, value) in [
            ("HOME", "/tmp/home"),
            ("TMPDIR", "/tmp"),
            ("PATH", "/usr/bin:/tmp/bin:/bin"),
            ("OTHER", "/tmpfile"),
            ("URL", "http://tmp/x"),
        ] {
            asked.env.insert(name.into(), value.into());
        }
        let scratch = Scratch::Directory { path: "/s".into(), bytes: 7 };
        let confinement = Confinement { scratch, ..Confinement::default() };
        let told = for_this_system(&asked, &confinement, Some(Path::new("/s")));
        assert_eq!((told.cwd, told.argv), ("/s/build".into(), asked.argv.clone()));
        assert_eq!(told.limits.file_bytes, Some(7));
        let values: Vec<_> = told.env.values().map(|value| value.to_str().unwrap()).collect();
        assert_eq!(values, ["/s/home", "/tmpfile", "/usr/bin:/s/bin:/bin", "/s", "http://tmp/x"]);
        assert_eq!(for_this_system(&asked, &Confinement::default(), None), asked);
    }
}
