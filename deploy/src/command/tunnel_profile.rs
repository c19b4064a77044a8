//! `gatehouse tunnel-profile`.

use std::fs::DirBuilder;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::cli::TunnelProfile;
use crate::failure::Failure;
use crate::screen::{Screen, Style};
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
            write(file, &text, options.force)?;
            screen.line(format!("Written: {}", file.display()))?;
            if let Some(key) = options.api_key_file.as_deref().filter(|key| !key.is_file()) {
                let missed = format!(
                    "The runtime key is not there yet: put it into {}, with mode 0600.",
                    absolute(key)?.display()
                );
                let missed = screen.paint(Style::Attention, &missed);
                screen.line(missed)?;
            }
            screen.line(format!("Next: tunnel-client run --profile-file {}", absolute(file)?.display()))?;
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(path).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}

/// The file appears when it is complete, with mode 0600.
fn write(file: &Path, text: &str, overwrite: bool) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", file.display()))
            .hint("An existing file is overwritten with --force only.")
    };
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    // Nobody else's business: beside profiles lie keys.
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(cannot)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    draft.write_all(text.as_bytes()).map_err(cannot)?;
    let placed = if overwrite { draft.persist(file) } else { draft.persist_noclobber(file) };
    placed.map(drop).map_err(|error| cannot(error.error))
}
