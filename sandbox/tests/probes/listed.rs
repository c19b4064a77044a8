//! The attempts of the list, made for real under their policies: inside, where each must fail for one of the reasons that
//! the list gives, or work, and outside, where it must succeed.

use gatehouse_sandbox::launch::{Confinement, Policy as LaunchPolicy};

use crate::host::Host;
use crate::list::{Control, Policy, Probe, probes};
use crate::probe::{Cause, PORTS, PROBE, claude, command, inside_of, is_root, outside, scratch_inside};

/// What counts as the right answer on this system.
fn expected(probe: &Probe) -> &[String] {
    if cfg!(target_os = "linux") { &probe.linux } else { &probe.macos }
}

fn filled_in(probe: &Probe, host: &Host) -> Vec<String> {
    let places = [
        ("{home}", host.text("home")),
        ("{ws}", host.text("ws")),
        ("{state}", host.text("state")),
        ("{sockets}", host.text("sockets")),
        ("{scratch}", scratch_inside(host)),
        ("{tcp}", host.tcp.to_string()),
        ("{victim}", host.victim()),
        ("{own}", std::process::id().to_string()),
        ("{abstract}", host.abstract_name.clone()),
        ("{ports}", PORTS[0].to_string()),
    ];
    let fill =
        |word: &String| places.iter().fold(word.clone(), |word, (name, place)| word.replace(name, place));
    probe.attempt.iter().map(fill).collect()
}

async fn made_inside(probe: &Probe, host: &Host, attempt: &[String]) -> Cause {
    match probe.policy {
        Policy::Command => inside_of(LaunchPolicy::Command, &command(host), attempt).await,
        Policy::Git => inside_of(LaunchPolicy::Git, &command(host), attempt).await,
        Policy::Claude => inside_of(LaunchPolicy::Claude, &claude(PROBE.as_ref(), host), attempt).await,
        Policy::Itself => confined_itself(host, attempt).await,
    }
}

/// On Linux the probe confines itself; on a Mac it is started confined.
async fn confined_itself(host: &Host, attempt: &[String]) -> Cause {
    if cfg!(target_os = "linux") {
        return outside(&[&["confined".to_owned(), host.text("sockets")], attempt].concat());
    }
    let confinement = Confinement {
        programs: vec![PROBE.into()],
        readable: vec![host.path("sockets")],
        ..Confinement::default()
    };
    inside_of(LaunchPolicy::SelfConfinement, &confinement, attempt).await
}

fn fits(cause: &Cause, expected: &[String]) -> bool {
    let said = match cause {
        Cause::Ok(got) => format!("ok {got}"),
        Cause::Errno(name) => name.clone(),
        Cause::Signal(number) => format!("signal {number}"),
        Cause::Other(text) => text.clone(),
    };
    expected.iter().any(|one| *one == said || (one == "ok" && cause.is_ok()))
}

fn proves_something(probe: &Probe) -> bool {
    probe.no_control.is_none() && (probe.control == Control::Anybody || is_root())
}

#[tokio::test]
async fn each_attempt_of_the_list_ends_inside_as_the_list_says_and_succeeds_outside() {
    let mut wrong = Vec::new();
    let listed = probes();
    let made: Vec<&Probe> =
        listed.iter().filter(|probe| !probe.attempt.is_empty() && !expected(probe).is_empty()).collect();
    assert!(made.len() > 60, "{}", made.len());
    for probe in made {
        // A host for each: what the control of one leaves behind must not help another.
        let host = Host::new();
        let attempt = filled_in(probe, &host);
        let cause = made_inside(probe, &host, &attempt).await;
        if !fits(&cause, expected(probe)) {
            wrong.push(format!("{} {}: {attempt:?}: {cause:?}", probe.line, probe.what));
        }
        if proves_something(probe) {
            let control = outside(&attempt);
            if !control.is_ok() {
                wrong.push(format!("{} {}: control of {attempt:?}: {control:?}", probe.line, probe.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
