//! `gatehouse export`.

use std::io::Write;
use std::path::Path;

use gatehouse_proto::v1::{ExportPart, ExportSessionRequest};
use tokio_stream::StreamExt;
use tonic::Streaming;

use crate::cli::Export;
use crate::failure::Failure;
use crate::operator::Operator;
use crate::report::Report;
use crate::screen::Screen;

pub(super) async fn run(mut operator: Operator, options: Export, screen: &mut Screen) -> Result<(), Failure> {
    let ask = ExportSessionRequest { native_session_id: options.session };
    let parts = operator.export_session(ask).await?.into_inner();
    match &options.output {
        None => write(parts, |text| screen.line(text.trim_end_matches('\n'))).await,
        Some(file) => {
            to_file(parts, file).await?;
            Ok(screen.line(format!("Written: {}", file.display()))?)
        }
    }
}

/// The file appears when it is complete, with mode 0600.
async fn to_file(parts: Streaming<ExportPart>, file: &Path) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        Failure::failed(format!("cannot write {}: {error}", file.display()))
            .hint("An existing file is not overwritten: name another, or move it away.")
    };
    if file.symlink_metadata().is_ok() {
        return Err(cannot(std::io::Error::new(std::io::ErrorKind::AlreadyExists, "it is there already")));
    }
    let folder =
        file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut draft = tempfile::NamedTempFile::new_in(folder).map_err(cannot)?;
    write(parts, |text| draft.write_all(text.as_bytes())).await?;
    draft.persist_noclobber(file).map_err(|error| cannot(error.error))?;
    Ok(())
}

async fn write(
    mut parts: Streaming<ExportPart>,
    mut put: impl FnMut(&str) -> std::io::Result<()>,
) -> Result<(), Failure> {
    let mut report = Report::default();
    while let Some(part) = parts.next().await {
        // A newer executor may send what this program does not know.
        let Some(part) = part?.part else { continue };
        put(&report.part(part))?;
    }
    put(&report.finish())?;
    Ok(())
}
