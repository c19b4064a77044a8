//! Writing what a plan says, and taking exactly that away again.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use gatehouse_proto::digest::sha256_hex;
use gatehouse_proto::socket::make_private_dir;

use super::record::{MadeFile, RECORD, Record};
use super::{Plan, PlannedFile};
use crate::failure::Failure;

/// Where files are written: the system itself, or below a directory that stands for it.
#[derive(Debug, Clone)]
pub struct Disk {
    root: Option<PathBuf>,
    state_dir: PathBuf,
}

/// What became of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Made(PathBuf),
    /// It was there, as an earlier installation had made it, and is another now.
    Updated(PathBuf),
    /// It was as it should be.
    Unchanged(PathBuf),
    /// It is gone.
    Removed(PathBuf),
    /// It was gone already.
    Absent(PathBuf),
    /// Somebody changed it since, so it stays.
    Kept(PathBuf),
}

/// Whether files that somebody changed are overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// They are a reason to stop.
    Refuse,
    /// They are.
    Overwrite,
}

impl Disk {
    /// The disk with the record in `state_dir`.
    #[must_use]
    pub const fn new(root: Option<PathBuf>, state_dir: PathBuf) -> Self {
        Self { root, state_dir }
    }

    fn at(&self, path: &Path) -> PathBuf {
        match &self.root {
            Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    fn record_path(&self) -> PathBuf {
        self.at(&self.state_dir).join(RECORD)
    }

    /// What was installed, if anything was.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn record(&self) -> Result<Option<Record>, Failure> {
        let path = self.record_path();
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| Failure::failed(format!("{}: {error}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(&path, &error)),
        }
    }

    /// Whether a file is what a plan says.
    #[must_use]
    pub fn is_as_planned(&self, file: &PlannedFile) -> bool {
        fs::read(self.at(&file.path)).is_ok_and(|found| found == file.content.as_bytes())
    }

    /// Makes the files of a plan. Nothing is written if one of them is there and is not ours.
    ///
    /// # Errors
    /// When a file is somebody else's, or cannot be written.
    pub fn install(&self, plan: &Plan, overwrite: bool) -> Result<Vec<Change>, Failure> {
        let foreign = if overwrite { Foreign::Overwrite } else { Foreign::Refuse };
        let before = self.record()?;
        let standing = plan
            .files
            .iter()
            .map(|file| self.standing(file, before.as_ref(), foreign))
            .collect::<Result<Vec<_>, _>>()?;
        self.make_state_dir()?;
        let mut record = Record {
            manager: plan.manager,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            files: plan.files.iter().zip(&standing).map(|(file, found)| made(file, found)).collect(),
            directories: before.map(|before| before.directories).unwrap_or_default(),
            listen: Some(plan.listen.clone()),
            environment: plan.environment.clone(),
        };
        self.note_directories(plan, &mut record);
        // First the record: what a crash leaves half-made can then be removed too.
        self.write_record(&record)?;
        for directory in &record.directories {
            make_dir(&self.at(directory))?;
        }
        let mut changes = Vec::new();
        for (file, found) in plan.files.iter().zip(standing) {
            changes.push(self.put(file, found.as_deref())?);
        }
        for (file, made) in plan.files.iter().zip(&mut record.files) {
            made.sha256 = vec![sha256_hex(file.content.as_bytes())];
        }
        self.write_record(&record)?;
        Ok(changes)
    }

    /// What is in a file's place.
    fn standing(
        &self,
        file: &PlannedFile,
        before: Option<&Record>,
        foreign: Foreign,
    ) -> Result<Option<Vec<u8>>, Failure> {
        let path = self.at(&file.path);
        let found = match fs::read(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(&path, &error)),
        };
        let recorded = before.and_then(|before| before.files.iter().find(|made| made.path == file.path));
        let ours = recorded.is_some_and(|made| made.sha256.contains(&sha256_hex(&found)))
            || found == file.content.as_bytes();
        if ours || foreign == Foreign::Overwrite {
            return Ok(Some(found));
        }
        Err(Failure::failed(format!("{} is there and is not what `gatehouse install` made", path.display()))
            .hint("Look at it and move it away, or have it overwritten with --force."))
    }

    fn put(&self, file: &PlannedFile, found: Option<&[u8]>) -> Result<Change, Failure> {
        let path = self.at(&file.path);
        if found == Some(file.content.as_bytes()) {
            return Ok(Change::Unchanged(path));
        }
        write_whole(&path, file.content.as_bytes(), 0o644)?;
        Ok(if found.is_some() { Change::Updated(path) } else { Change::Made(path) })
    }

    /// Adds the directories that are not there yet, outermost first.
    fn note_directories(&self, plan: &Plan, record: &mut Record) {
        let parents = plan.files.iter().filter_map(|file| file.path.parent());
        for wanted in parents.chain(plan.directories.iter().map(PathBuf::as_path)) {
            let missing: Vec<_> =
                wanted.ancestors().take_while(|dir| !self.at(dir).is_dir()).map(Path::to_owned).collect();
            for directory in missing.into_iter().rev() {
                if !record.directories.contains(&directory) {
                    record.directories.push(directory);
                }
            }
        }
    }

    fn make_state_dir(&self) -> Result<(), Failure> {
        let state_dir = self.at(&self.state_dir);
        if let Some(parent) = state_dir.parent() {
            make_dir(parent)?;
        }
        make_private_dir(&state_dir).map_err(|error| failed(&state_dir, &error))
    }

    fn write_record(&self, record: &Record) -> Result<(), Failure> {
        let text = serde_json::to_vec_pretty(record).map_err(|error| Failure::failed(error.to_string()))?;
        write_whole(&self.record_path(), &text, 0o600)
    }

    /// Removes what the record names, as far as nobody changed it since, and the directories made for it that are empty.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn uninstall(&self, record: &Record) -> Result<Vec<Change>, Failure> {
        let mut changes = Vec::new();
        for made in &record.files {
            changes.push(self.take(made)?);
        }
        for directory in record.directories.iter().rev() {
            // One that holds something else stays, and so does one that was gone.
            let _ = fs::remove_dir(self.at(directory));
        }
        if !changes.iter().any(|change| matches!(change, Change::Kept(_))) {
            let path = self.record_path();
            fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
        }
        Ok(changes)
    }

    fn take(&self, made: &MadeFile) -> Result<Change, Failure> {
        let path = self.at(&made.path);
        match fs::read(&path) {
            Ok(found) if made.sha256.contains(&sha256_hex(&found)) => {
                fs::remove_file(&path).map_err(|error| failed(&path, &error))?;
                Ok(Change::Removed(path))
            }
            Ok(_) => Ok(Change::Kept(path)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Change::Absent(path)),
            Err(error) => Err(failed(&path, &error)),
        }
    }
}

fn made(file: &PlannedFile, found: &Option<Vec<u8>>) -> MadeFile {
    let new = sha256_hex(file.content.as_bytes());
    let old = found.as_ref().map(|found| sha256_hex(found)).filter(|old| *old != new);
    MadeFile { path: file.path.clone(), sha256: std::iter::once(new).chain(old).collect() }
}

fn make_dir(path: &Path) -> Result<(), Failure> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(path).map_err(|error| failed(path, &error))
}

/// Under another name until it is whole.
fn write_whole(path: &Path, content: &[u8], mode: u32) -> Result<(), Failure> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = (|| {
        let mut out = fs::File::options().write(true).create(true).truncate(true).mode(mode).open(&new)?;
        out.write_all(content)?;
        out.sync_all()?;
        fs::rename(&new, path)
    })();
    written.map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
