//! Which files a program is made of: itself, its loader, its libraries.
//!
//! Read from the program's own headers, without running anything. Only what is needed for that is understood: 64-bit,
//! little-endian. Names of libraries are looked for where the loader looks when it has no cache to ask.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Why the files of a program cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum ElfError {
    /// It cannot be read.
    #[error("{} cannot be read", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a program of this machine (a script, perhaps), or is damaged.
    #[error("{} is not a 64-bit ELF program", path.display())]
    NotElf {
        /// Which file.
        path: PathBuf,
    },
    /// A library that it needs is nowhere to be found.
    #[error("the library {} that {} needs was not found", name.display(), path.display())]
    Library {
        /// Which file.
        path: PathBuf,
        /// The library's name.
        name: PathBuf,
    },
}

/// Where loaders look without a cache and without being told, in their order.
const LIBRARY_DIRECTORIES: [&str; 8] = [
    #[cfg(target_arch = "aarch64")]
    "/lib/aarch64-linux-gnu",
    #[cfg(target_arch = "aarch64")]
    "/usr/lib/aarch64-linux-gnu",
    #[cfg(not(target_arch = "aarch64"))]
    "/lib/x86_64-linux-gnu",
    #[cfg(not(target_arch = "aarch64"))]
    "/usr/lib/x86_64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
    "/usr/local/lib64",
    "/usr/local/lib",
];

/// No header or table of a sound program is longer.
const MOST_ENTRIES: u16 = 4096;
const LONGEST_TEXT: usize = 4096;

/// The program itself, its loader, and every library that these need, each under the path by which it is looked for.
///
/// # Errors
/// When one of them cannot be read or found.
pub fn program_files(program: &Path) -> Result<Vec<PathBuf>, ElfError> {
    let mut found = BTreeSet::from([program.to_owned()]);
    let mut waiting = vec![program.to_owned()];
    while let Some(path) = waiting.pop() {
        let parts = read(&path)?;
        let loader = parts.loader.clone();
        for name in &parts.libraries {
            let not_found = || ElfError::Library { path: path.clone(), name: name.clone() };
            waiting.extend(
                Some(parts.locate(name, &path).ok_or_else(not_found)?).filter(|p| found.insert(p.clone())),
            );
        }
        waiting.extend(loader.filter(|path| found.insert(path.clone())));
    }
    Ok(found.into_iter().collect())
}

/// What a file says about others.
#[derive(Debug, Default)]
struct Parts {
    loader: Option<PathBuf>,
    libraries: Vec<PathBuf>,
    /// Directories that the file itself names, `$ORIGIN` for its own.
    search: Vec<PathBuf>,
}

impl Parts {
    fn locate(&self, name: &Path, of: &Path) -> Option<PathBuf> {
        if name.components().count() > 1 {
            return Some(name.to_owned());
        }
        let origin = of.parent().unwrap_or_else(|| Path::new("/"));
        let named = self.search.iter().map(|dir| {
            let rest = dir.strip_prefix("$ORIGIN").or_else(|_| dir.strip_prefix("${ORIGIN}"));
            rest.map_or_else(|_| dir.clone(), |rest| origin.join(rest))
        });
        let usual = LIBRARY_DIRECTORIES.iter().map(PathBuf::from);
        named.chain(usual).map(|dir| dir.join(name)).find(|path| path.is_file())
    }
}

fn read(path: &Path) -> Result<Parts, ElfError> {
    let file = File::open(path).map_err(|source| ElfError::Read { path: path.to_owned(), source })?;
    match parts(&file) {
        Ok(Some(parts)) => Ok(parts),
        Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
            Err(ElfError::Read { path: path.to_owned(), source: error })
        }
        Ok(None) | Err(_) => Err(ElfError::NotElf { path: path.to_owned() }),
    }
}

/// A segment of the file.
#[derive(Debug, Clone, Copy)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

const LOADED: u32 = 1;
const DYNAMIC: u32 = 2;
const LOADER: u32 = 3;

/// Nothing when it is not what we understand.
fn parts(file: &impl FileExt) -> io::Result<Option<Parts>> {
    let mut header = [0; 64];
    file.read_exact_at(&mut header, 0)?;
    // Magic, 64 bits, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(None);
    }
    let (Some(start), Some(size), Some(count)) =
        (u64_at(&header, 32), u16_at(&header, 54), u16_at(&header, 56))
    else {
        return Ok(None);
    };
    if size != 56 || count > MOST_ENTRIES {
        return Ok(None);
    }
    let mut segments = Vec::new();
    for index in 0..u64::from(count) {
        let mut entry = [0; 56];
        file.read_exact_at(&mut entry, start.saturating_add(index * 56))?;
        segments.extend(segment(&entry));
    }
    let mut parts = Parts::default();
    if let Some(loader) = segments.iter().find(|segment| segment.kind == LOADER) {
        parts.loader = Some(text_at(file, loader.offset)?);
    }
    if let Some(dynamic) = segments.iter().find(|segment| segment.kind == DYNAMIC) {
        read_dynamic(file, *dynamic, &segments, &mut parts)?;
    }
    Ok(Some(parts))
}

fn segment(entry: &[u8; 56]) -> Option<Segment> {
    Some(Segment {
        kind: u32_at(entry, 0)?,
        offset: u64_at(entry, 8)?,
        address: u64_at(entry, 16)?,
        size: u64_at(entry, 32)?,
    })
}

/// The table of what is needed: pairs of a tag and a value, most of them places in one table of texts.
fn read_dynamic(
    file: &impl FileExt,
    dynamic: Segment,
    segments: &[Segment],
    parts: &mut Parts,
) -> io::Result<()> {
    const END: u64 = 0;
    const NEEDED: u64 = 1;
    const TEXTS: u64 = 5;
    const RPATH: u64 = 15;
    const RUNPATH: u64 = 29;
    let mut pairs = Vec::new();
    for index in 0..(dynamic.size / 16).min(MOST_ENTRIES.into()) {
        let mut pair = [0; 16];
        file.read_exact_at(&mut pair, dynamic.offset.saturating_add(index * 16))?;
        match (u64_at(&pair, 0), u64_at(&pair, 8)) {
            (Some(END), _) | (None, _) | (_, None) => break,
            (Some(tag), Some(value)) => pairs.push((tag, value)),
        }
    }
    let texts = pairs.iter().find(|(tag, _)| *tag == TEXTS).and_then(|(_, at)| in_file(segments, *at));
    let Some(texts) = texts else { return Ok(()) };
    for (tag, value) in pairs {
        match tag {
            NEEDED => parts.libraries.push(text_at(file, texts.saturating_add(value))?),
            RPATH | RUNPATH => {
                let list = text_at(file, texts.saturating_add(value))?;
                let dirs = list.as_os_str().as_bytes().split(|&byte| byte == b':');
                parts.search.extend(dirs.map(|dir| PathBuf::from(OsStr::from_bytes(dir))));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Where in the file what is loaded at `address` stands.
fn in_file(segments: &[Segment], address: u64) -> Option<u64> {
    let holds = |segment: &&Segment| {
        segment.kind == LOADED && address >= segment.address && address - segment.address < segment.size
    };
    let segment = segments.iter().find(holds)?;
    segment.offset.checked_add(address - segment.address)
}

fn text_at(file: &impl FileExt, at: u64) -> io::Result<PathBuf> {
    let mut text = vec![0; LONGEST_TEXT];
    let mut filled = 0;
    while filled < text.len() {
        let rest = text.get_mut(filled..).unwrap_or_default();
        match file.read_at(rest, at.saturating_add(filled as u64))? {
            0 => break,
            count => filled += count,
        }
        if text.get(..filled).is_some_and(|so_far| so_far.contains(&0)) {
            break;
        }
    }
    let end = text.iter().position(|&byte| byte == 0).ok_or(io::ErrorKind::UnexpectedEof)?;
    text.truncate(end);
    Ok(PathBuf::from(OsStr::from_bytes(&text)))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_program_is_itself_its_loader_and_its_libraries() {
        let files = program_files(Path::new("/bin/sh")).unwrap();
        let names: Vec<&str> = files.iter().filter_map(|path| path.file_name()?.to_str()).collect();
        assert!(names.contains(&"sh"));
        assert!(names.iter().any(|name| name.starts_with("ld-")), "{names:?}");
        assert!(names.iter().any(|name| name.starts_with("libc")), "{names:?}");
        assert!(files.iter().all(|path| path.is_file()));
    }

    #[test]
    fn a_script_and_a_directory_are_told_apart_from_programs() {
        let script = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(script.path(), "#!/bin/sh\n".repeat(20)).unwrap();
        assert!(matches!(program_files(script.path()), Err(ElfError::NotElf { .. })));
        assert!(matches!(program_files(Path::new("/etc")), Err(ElfError::Read { .. })));
        assert!(matches!(program_files(Path::new("/nowhere")), Err(ElfError::Read { .. })));
    }

    proptest! {
        #[test]
        fn a_damaged_program_is_an_error_or_a_shorter_list_and_never_worse(at in 0_usize..4096, byte: u8, cut in 0_usize..8192) {
            let mut bytes = std::fs::read("/bin/sh").unwrap();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(file.path(), bytes).unwrap();
            let _ = program_files(file.path());
        }
    }
}
