//! The tunnel's client, links to protected files, installed services.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use gatehouse_tests::processes::{self, Process};

use crate::Patient;

fn put(patient: &Patient, name: &str, content: &str, mode: u32) {
    let path = patient.at(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn profile(patient: &Patient, key: &str, mode: u32) {
    let text = format!("config_version: 1\ncontrol_plane:\n  api_key: {key}\n");
    put(patient, "h/.config/tunnel-client/main.yaml", &text, mode);
}

#[test]
fn a_tunnel_that_is_not_set_up_is_a_warning() {
    let found = Patient::new().with("PATH", "/nonexistent").doctor(&[]);
    found.expect("tunnel_client", "warning", "not in PATH");
    found.expect("tunnel_profile", "warning", "tunnel-client init");
}

#[test]
fn a_key_that_others_could_read_is_found_where_it_is() {
    let patient = Patient::new();
    put(&patient, "h/bin/tunnel-client", "#!/bin/sh\n", 0o755);
    let key = patient.at("h/key").display().to_string();
    profile(&patient, &format!("file:{key}"), 0o600);
    let found = patient.doctor(&[]);
    found.expect("tunnel_client", "ok", "h/bin/tunnel-client");
    found.expect("tunnel_profile", "ok", "main.yaml");
    found.expect("tunnel_key", "failed", "is not there");
    put(&patient, "h/key", "sk-x", 0o644);
    patient.doctor(&[]).expect("tunnel_key", "failed", "mode 0644");
    put(&patient, "h/key", "sk-x", 0o600);
    patient.doctor(&[]).expect("tunnel_key", "ok", "");
    profile(&patient, "env:CONTROL_PLANE_API_KEY", 0o600);
    patient.doctor(&[]).expect("tunnel_key", "warning", "from the environment");
    profile(&patient, "sk-literal", 0o644);
    patient.doctor(&[]).expect("tunnel_key", "failed", "holds the key");
    profile(&patient, &format!("file:{key}"), 0o600);
    let found = patient.with("OPENAI_API_KEY", "sk-x").doctor(&[]);
    found.expect("tunnel_key", "warning", "OPENAI_API_KEY");
    assert!(!found.said.to_string().contains("sk-"), "no key is ever shown");
}

/// Processes that are called like the tunnel's client.
struct Clients(Vec<Child>);

impl Clients {
    fn start(number: usize) -> Self {
        let sleep = || Command::new("/bin/sleep").arg0("/opt/tunnel-client").arg("600").spawn().unwrap();
        Self((0..number).map(|_| sleep()).collect())
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

#[test]
fn none_one_and_two_running_clients_are_told_apart() {
    let patient = Patient::new();
    // One that really runs on this machine is seen too.
    let named =
        |process: &Process| process.arguments.first().is_some_and(|name| name.ends_with("tunnel-client"));
    let undisturbed = !processes::all().iter().any(named);
    if undisturbed {
        patient.doctor(&[]).expect("tunnel_running", "warning", "no tunnel-client runs");
    }
    let one = Clients::start(1);
    if undisturbed {
        patient.doctor(&[]).expect("tunnel_running", "ok", "one");
    }
    let two = Clients::start(1);
    patient.doctor(&[]).expect("tunnel_running", "failed", "End all but one");
    drop((one, two));
}

#[test]
fn a_protected_file_with_a_second_name_is_a_warning() {
    let patient = Patient::new();
    put(&patient, "h/.ssh/id_ed25519", "x", 0o600);
    assert!(!patient.doctor(&[]).line("protected_links").1.contains("id_ed25519"));
    fs::hard_link(patient.at("h/.ssh/id_ed25519"), patient.at("h/notes")).unwrap();
    patient.doctor(&[]).expect("protected_links", "warning", ".ssh/id_ed25519");
}

#[test]
fn services_that_no_longer_fit_this_shell_or_these_settings_are_told() {
    let patient = Patient::new();
    patient.doctor(&[]).expect("services", "ok", "none are installed");
    let installed = patient.run(&["install", "--as-root", "--no-start"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    let found = patient.doctor(&[]);
    found.expect("services", "ok", "installed by version");
    found.expect("service_environment", "ok", "");
    if cfg!(target_os = "linux") {
        found.expect("linger", "warning", "loginctl enable-linger");
    }
    let patient = patient.with("NVM_DIR", "/a-value-to-keep").configured("[front]\nmax_waits = 5\n");
    let found = patient.doctor(&[]);
    found.expect("services", "warning", "gatehouse install");
    found.expect("service_environment", "warning", "NVM_DIR is set here alone");
    assert!(!found.said.to_string().contains("a-value-to-keep"));
}
