//! `figures DOCUMENT`: puts what the benches have measured into the document's tables.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use gatehouse_figures::{Place, Table, document, folder, machine};

fn main() -> ExitCode {
    match std::env::args_os()
        .nth(1)
        .ok_or_else(|| "usage: figures DOCUMENT".into())
        .and_then(|path| run(path.as_ref()))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "figures: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let folder = folder();
    let mut tables = Vec::new();
    for place in Place::ALL {
        let table = Table::load(&folder, place)
            .map_err(|error| format!("{} in {}: {error}", place.as_str(), folder.display()))?;
        tables.extend(table.map(|table| (place, table.markdown())));
    }
    let of = |wanted| tables.iter().find(|(place, _)| *place == wanted).map(|(_, text)| text.clone());
    let new = document::rewrite(&text, &machine(), of)?;
    std::fs::write(path, new).map_err(|error| format!("{}: {error}", path.display()))?;
    writeln!(std::io::stdout(), "{}: {} tables", path.display(), tables.len())?;
    Ok(())
}
