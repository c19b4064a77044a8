//! `gatehouse tunnel-profile`.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::cli::TunnelProfile;
use crate::failure::Failure;
use crate::screen::Screen;
use crate::settings::{Binaries, Place};
use crate::tunnel::{Account, Way, profile};

pub(super) async fn run(place: &Place, options: TunnelProfile, screen: &mut Screen) -> Result<(), Failure> {
    let binaries = Binaries::beside_this()?;
    let settings = binaries.settings(place).await?;
    let api_key = match &options.api_key_file {
        Some(file) => format!("file:{}", absolute(file)?.display()),
        None => "env:CONTROL_PLANE_API_KEY".to_owned(),
    };
    let account = Account { tunnel_id: options.tunnel_id, api_key };
    let front = binaries.path("mcp-front")?;
    let way = if options.stdio { Way::Stdio(&front) } else { Way::Http };
    let text = profile(&settings, &account, way)?;
    match &options.output {
        None => screen.line(text.trim_end())?,
        Some(file) => {
            write_new(file, &text)?;
            screen.line(format!("Written: {}", file.display()))?;
            screen.line(format!("Next: tunnel-client run --profile-file {}", absolute(file)?.display()))?;
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<std::path::PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

fn write_new(file: &Path, text: &str) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", file.display()))
            .hint("An existing file is not overwritten: name another, or move it away.")
    };
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(cannot)
}
