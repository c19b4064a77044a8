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
    found.expect("tunnel_profile", "warning", "gatehouse tunnel-profile TUNNEL_ID");
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

fn installed() -> Patient {
    let patient = Patient::new().with("PATH", "/usr/bin:/bin");
    let installed = patient.run(&["install", "--as-root", "--no-start"]);
    assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
    patient.doctor(&[]).expect("service_environment", "ok", "");
    patient
}

#[test]
fn directories_of_path_in_another_order_are_told() {
    let patient = installed();
    let found = patient.with("PATH", "/bin:/usr/bin").doctor(&[]);
    found.expect("service_environment", "warning", "PATH has another order");
    // A directory that is missing counts more than the order.
    let patient = installed();
    let found = patient.with("PATH", "/opt/tools:/bin:/usr/bin").doctor(&[]);
    found.expect("service_environment", "warning", "PATH lacks /opt/tools");
}

#[cfg(target_os = "linux")]
#[test]
fn a_secret_that_somebody_gave_the_services_is_found_in_each_place_where_it_can_be() {
    let folder = "h/.config/systemd/user";
    let unit = format!("{folder}/gatehouse-executor.service");
    // What `systemctl --user edit` makes; a file with variables that it names; the unit itself.
    let patient = installed();
    put(&patient, &format!("{unit}.d/override.conf"), "[Service]\nEnvironment=\"MY_API_KEY=sk-x\"\n", 0o644);
    let found = patient.doctor(&[]);
    found.expect("service_environment", "failed", "MY_API_KEY");
    assert!(!found.said.to_string().contains("sk-x"), "no key is ever shown");

    let patient = installed();
    put(&patient, "h/variables", "# mine\nGITHUB_TOKEN=sk-x\nEDITOR=vi\n", 0o600);
    let text = format!("[Service]\nEnvironmentFile={}\n", patient.at("h/variables").display());
    put(&patient, &format!("{folder}/gatehouse-front.service.d/keys.conf"), &text, 0o644);
    let found = patient.doctor(&[]);
    found.expect("service_environment", "failed", "GITHUB_TOKEN");
    assert!(!found.line("service_environment").1.contains("EDITOR"));

    let patient = installed();
    let text = fs::read_to_string(patient.at(&unit)).unwrap();
    let text = text.replace("[Service]\n", "[Service]\nEnvironment=CONTROL_PLANE_API_KEY=sk-x\n");
    put(&patient, &unit, &text, 0o644);
    patient.doctor(&[]).expect("service_environment", "failed", "CONTROL_PLANE_API_KEY");
}

#[test]
fn a_record_of_the_services_that_cannot_be_read_is_told() {
    let patient = installed();
    put(&patient, "s/services.json", "{", 0o600);
    let found = patient.doctor(&[]);
    found.expect("services", "failed", "services.json");
    found.expect("services", "failed", "gatehouse install --force");
    assert_eq!(found.verdict("service_environment"), "-");
    // What the line says mends it.
    fs::rename(patient.at("s/services.json"), patient.at("s/services.json.old")).unwrap();
    let again = patient.run(&["install", "--as-root", "--no-start", "--force"]);
    assert!(again.status.success(), "{}", String::from_utf8_lossy(&again.stderr));
    patient.doctor(&[]).expect("services", "ok", "installed by version");
}
