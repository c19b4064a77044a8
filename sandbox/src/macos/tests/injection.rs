//! Paths that look like rules.

use std::path::PathBuf;

use proptest::prelude::*;

use super::super::evaluator::Query;
use super::super::places::Places;
use super::super::profile::Profile;
use super::sample;
use crate::launch::{Layer, Policy, Remedy};

const HOSTILE: [&str; 8] = [
    "/x\") (allow default) (\"",
    "/x\"))\n(allow file-read*)\n(deny file* (literal \"/y",
    "/back\\slash\\",
    "/new\nline",
    "/(param \"SCRATCH_0\")",
    "/; comment",
    "/#\"regex",
    "/SCRATCH_* NAME_* PORT_*",
];

#[test]
fn no_path_changes_the_text() {
    for policy in sample::POLICIES {
        let plain = sample::profile(policy);
        for path in HOSTILE {
            let mut places = sample::resolved(policy);
            for list in [&mut places.readable, &mut places.writable, &mut places.scratch, &mut places.hidden]
            {
                list.iter_mut().for_each(|place| *place = PathBuf::from(path));
            }
            let hostile = Profile::compose(policy, &places).unwrap();
            assert_eq!(hostile.text, plain.text, "{path}");
            let arguments = hostile.arguments();
            assert_eq!(arguments[1].to_str().unwrap(), plain.text);
            assert_eq!(arguments.len(), 3 + 2 * hostile.parameters.len());
        }
    }
}

#[test]
fn what_a_profile_cannot_name_is_refused() {
    use std::os::unix::ffi::OsStringExt;
    let invalid = std::ffi::OsString::from_vec(b"/\xff".to_vec());
    for path in [PathBuf::from(invalid), "relative".into(), "/nul\0".into(), "/slash/".into()] {
        let places = Places { scratch: vec![path], ..Places::default() };
        let failure = Profile::compose(Policy::Command, &places).unwrap_err();
        assert_eq!((failure.layer, failure.errno), (Layer::Seatbelt, nix::libc::EILSEQ));
    }
}

#[test]
fn more_than_a_profile_can_hold_is_refused() {
    for (count, length) in [(1001, 1), (400, 200)] {
        let hidden = (0..count).map(|at| PathBuf::from(format!("/{at}{}", "x".repeat(length)))).collect();
        let failure = Profile::compose(Policy::Command, &Places { hidden, ..Places::default() }).unwrap_err();
        assert_eq!(failure.remedy, Some(Remedy::TooMuchToHide));
    }
}

proptest! {
    // Each reads a whole profile.
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_hidden_path_is_hidden_whatever_it_is_called_and_the_rest_is_not(name in "[^/\0]{1,20}") {
        let name = format!("q{name}q");
        let places = Places { hidden: vec![PathBuf::from(format!("/opt/{name}"))], ..Places::default() };
        let profile = sample::understood(&Profile::compose(Policy::Command, &places).unwrap());
        let reads = |path: String| {
            let query = Query { operation: "file-read-data".into(), path: Some(path), ..Query::default() };
            profile.allows(&query).unwrap()
        };
        let (itself, below) = (format!("/opt/{name}"), format!("/opt/{name}/below"));
        prop_assert!(!reads(itself) && !reads(below));
        prop_assert!(reads("/opt/other".to_owned()));
    }
}
