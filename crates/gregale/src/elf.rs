//! What a program's file says about it, without running it.

use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64, PT_INTERP, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The most interpreters of interpreters of scripts.
const SCRIPTS_MAX: usize = 4;
/// The most libraries of a program that are read.
const LIBRARIES_MAX: usize = 200;
/// Where the loader looks, on Debian and its like.
const LIBRARY_PLACES: [&str; 6] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib",
];

/// A program's file, and the libraries that it loads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The file that runs: of a script, its interpreter.
    pub(crate) file: PathBuf,
    /// Whether the loader runs first.
    pub(crate) loads_libraries: bool,
    /// Whether Go's compiler made it.
    pub(crate) is_go: bool,
    /// The names that the file itself asks libraries for.
    pub(crate) own_names: BTreeSet<String>,
    /// Those of its libraries, the C library apart.
    pub(crate) library_names: BTreeSet<String>,
    /// The libraries, those of libraries among them.
    pub(crate) libraries: BTreeSet<String>,
}

/// What one file says.
#[derive(Debug, Default)]
struct Part {
    loads_libraries: bool,
    is_go: bool,
    names: BTreeSet<String>,
    needs: Vec<String>,
}

/// The file that runs when `path` is started: a script's interpreter, or the file itself.
fn runs(path: &Path) -> Option<(PathBuf, Vec<u8>)> {
    let mut path = path.to_path_buf();
    for _ in 0..SCRIPTS_MAX {
        let bytes = std::fs::read(&path).ok()?;
        let Some(line) = bytes.strip_prefix(b"#!") else { return Some((path, bytes)) };
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = std::str::from_utf8(line).ok()?.trim();
        path = line.split_ascii_whitespace().next()?.into();
    }
    None
}

fn part(bytes: &[u8]) -> Option<Part> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, bytes).ok()?;
    let mut part = Part {
        loads_libraries: segments.iter().any(|of| of.p_type(endian) == PT_INTERP),
        ..Part::default()
    };
    let Ok(sections) = header.sections(endian, bytes) else { return Some(part) };
    let named = |wanted: &[u8]| {
        sections.iter().any(|of| sections.section_name(endian, of).is_ok_and(|name| name == wanted))
    };
    part.is_go = named(b".go.buildinfo") || named(b".note.go.buildid");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Ok(symbols) = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM) {
        for symbol in symbols.iter().filter(|symbol| symbol.is_undefined(endian)) {
            if let Ok(name) = symbols.symbol_name(endian, symbol) {
                part.names.insert(text(name));
            }
        }
    }
    if let Ok(table) = sections.dynamic_table(endian, bytes) {
        let needed = table.iter().filter(|entry| entry.tag == DT_NEEDED);
        part.needs.extend(needed.filter_map(|entry| table.string(entry).ok()).map(text));
    }
    Some(part)
}

/// Whether the loader runs before the program, so that it can load libraries.
pub(crate) fn loads_libraries(path: &Path) -> bool {
    runs(path).and_then(|(_, bytes)| part(&bytes)).is_some_and(|part| part.loads_libraries)
}

/// The place in the file of a library of the function `name` that it offers.
pub(crate) fn place_of(path: &Path, name: &str) -> Option<Range<u64>> {
    let bytes = std::fs::read(path).ok()?;
    let bytes = &bytes[..];
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let symbols = sections.symbols(endian, bytes, object::elf::SHT_DYNSYM).ok()?;
    let is_it = |symbol: &&object::elf::Sym64<Endianness>| {
        symbols.symbol_name(endian, *symbol).is_ok_and(|of| of == name.as_bytes())
    };
    let symbol = symbols.iter().find(is_it)?;
    let (at, len) = (symbol.st_value(endian), symbol.st_size(endian));
    let mut segments = header.program_headers(endian, bytes).ok()?.iter();
    let begins = |of: &&object::elf::ProgramHeader64<Endianness>| {
        let from = of.p_vaddr(endian);
        of.p_type(endian) == PT_LOAD && (from..from + of.p_filesz(endian)).contains(&at)
    };
    let segment = segments.find(begins)?;
    let offset = at - segment.p_vaddr(endian) + segment.p_offset(endian);
    Some(offset..offset + len)
}

/// What the file of a program says, if it is a program for 64 bits.
pub(crate) fn facts(path: &Path) -> Option<Facts> {
    let (file, bytes) = runs(path)?;
    let Part { loads_libraries, is_go, names, mut needs } = part(&bytes)?;
    let mut facts = Facts { file, loads_libraries, is_go, own_names: names, ..Facts::default() };
    while let Some(name) = needs.pop() {
        if facts.libraries.len() == LIBRARIES_MAX || !facts.libraries.insert(name.clone()) {
            continue;
        }
        // What every program has tells nothing.
        let is_c_library = ["libc.so", "libm.so", "libpthread", "ld-linux", "libstdc++", "libgcc"]
            .iter()
            .any(|begins| name.starts_with(begins));
        let found = LIBRARY_PLACES.iter().map(|place| Path::new(place).join(&name));
        if let (false, Some(path)) = (is_c_library, found.into_iter().find(|path| path.is_file()))
            && let Some(of) = std::fs::read(path).ok().and_then(|bytes| part(&bytes))
        {
            facts.library_names.extend(of.names);
            needs.extend(of.needs);
        }
    }
    Some(facts)
}

impl Facts {
    /// Whether the program or one of its libraries asks for one of these names.
    pub(crate) fn asks_for(&self, names: &[&str]) -> bool {
        names
            .iter()
            .any(|name| self.own_names.contains(*name) || self.library_names.contains(*name))
    }

    /// Whether the program itself asks for one of these names.
    pub(crate) fn asks_itself_for(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.own_names.contains(*name))
    }

    /// Whether it loads a library whose name begins so.
    pub(crate) fn loads(&self, begins: &str) -> bool {
        self.libraries.iter().any(|name| name.starts_with(begins))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_what_its_interpreter_is() {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("script");
        std::fs::write(&script, "#! /bin/sh -e\ntrue\n").unwrap();
        assert!(loads_libraries(&script) && loads_libraries(Path::new("/bin/sh")));
        std::fs::write(&script, "no program\n").unwrap();
        assert!(!loads_libraries(&script) && !loads_libraries(Path::new("/no/such")));
    }

    #[test]
    fn the_names_that_a_program_asks_for_are_found() {
        let own = facts(&std::env::current_exe().unwrap()).unwrap();
        assert!(own.loads_libraries && !own.is_go && own.loads("libc.so"));
        assert!(own.asks_itself_for(&["mmap", "mmap64"]), "{:?}", own.own_names);
        assert!(!own.asks_for(&["no_such_name"]));
    }
}
