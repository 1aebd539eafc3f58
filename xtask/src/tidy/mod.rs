//! The rules of this repository that the compiler does not check, each with a canary test that
//! fires.
//!
//! - `attacks`: the tests and planted bugs that docs/attacks.md names are there.
//! - `arrows`: the allowed dependencies between crates.
//! - `idioms`: turns of phrase that read like a translation, counted.
//! - `picture`: the picture in ARCHITECTURE.md shows every crate and every arrow, as it is.
//! - `circles`: files that import each other, counted.
//! - `ids`: an invariant that a module promises is asserted, tested or at least argued somewhere;
//!   and an id that the code cites is one that a module promises.
//! - `text`: module documentation, widths, blanks, lengths, words that must not be committed.
//! - `trust`: `unsafe` only where it is allowed and counted; no clock, no hash-map order in what
//!   must replay.
//!
//! Rules read a [`Tree`], a list of paths and texts, so that tests can make trees up. Numbers that
//! may only fall stand in `xtask/tidy.toml`.

mod arrows;
mod attacks;
pub(crate) mod circles;
mod idioms;
mod ids;
mod picture;
mod ratchet;
pub(crate) mod source;
mod text;
mod trust;
mod wrap;

pub(crate) use ratchet::{Ratchet, long_files};

use anyhow::{Context, Result};
use source::Source;
use std::fmt;
use std::fs;
use std::path::Path;

/// The finding of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    /// From 1; 0 for the file as a whole.
    line: usize,
    /// The fault, and its repair.
    what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// One file.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
    /// For Rust files.
    source: Option<Source>,
}

impl File {
    fn new(path: &str, text: &str) -> File {
        let source = path.ends_with(".rs").then(|| Source::new(text));
        File { path: path.to_owned(), text: text.to_owned(), source }
    }

    /// `crates/NAME`, `xtask`, or nothing for files outside of crates.
    pub(crate) fn crate_dir(&self) -> Option<&str> {
        if let Some(rest) = self.path.strip_prefix("crates/") {
            return rest.split_once('/').map(|(name, _)| &self.path[..7 + name.len()]);
        }
        self.path.starts_with("xtask/").then_some("xtask")
    }
}

/// The repository, as far as the rules look at it.
pub(crate) struct Tree {
    files: Vec<File>,
}

/// Folders that hold nothing of ours.
const SKIPPED: [&str; 4] = ["target", "out", "bench-out", ".git"];

impl Tree {
    /// Reads every text file under `root` that a rule may look at.
    pub(crate) fn read(root: &Path) -> Result<Tree> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot list {}", folder.display()))?;
            for entry in entries {
                let entry = entry?;
                let (name, path) = (entry.file_name(), entry.path());
                let name = name.to_string_lossy();
                let kind = entry.file_type()?;
                if kind.is_dir() && !SKIPPED.contains(&name.as_ref()) {
                    folders.push(path);
                } else if kind.is_file() && is_text(&name) {
                    // An editor may be at work: a file that has just gone is not a finding.
                    let Ok(text) = fs::read_to_string(&path) else { continue };
                    let path = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
                    files.push(File::new(&path, &text));
                }
            }
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Tree { files })
    }

    /// Rust files whose comments can be broken to fit, with their new text.
    pub(crate) fn wrapped(&self) -> Vec<(&str, String)> {
        self.rust()
            .map(|(file, _)| (file.path.as_str(), wrap::wrap(&file.text, text::WIDTH), &file.text))
            .filter(|(_, wrapped, text)| wrapped != *text && text.ends_with('\n'))
            .map(|(path, wrapped, _)| (path, wrapped))
            .collect()
    }

    #[cfg(test)]
    pub(crate) fn made_up(files: &[(&str, &str)]) -> Tree {
        Tree { files: files.iter().map(|(path, text)| File::new(path, text)).collect() }
    }

    pub(crate) fn rust(&self) -> impl Iterator<Item = (&File, &Source)> {
        self.files.iter().filter_map(|file| Some((file, file.source.as_ref()?)))
    }
}

fn is_text(name: &str) -> bool {
    [".rs", ".toml", ".md", ".go", ".sh", ".py", ".txt"].iter().any(|end| name.ends_with(end))
        || name == "run"
}

/// Every rule on `tree`; sorted.
pub(crate) fn check(tree: &Tree, ratchet: &Ratchet) -> Vec<Finding> {
    let mut findings = Vec::new();
    arrows::check(tree, &mut findings);
    attacks::check(tree, &mut findings);
    ids::check(tree, &mut findings);
    picture::check(tree, &mut findings);
    text::check(tree, &mut findings);
    trust::check(tree, &mut findings);
    ratchet.check(tree, &mut findings);
    findings.sort();
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` fails where `cargo xtask verify` would.
    #[test]
    fn this_repository_is_tidy() {
        let root = crate::root();
        let tree = Tree::read(&root).expect("readable");
        assert!(tree.files.len() > 20, "the tree was found: {}", tree.files.len());
        let ratchet = Ratchet::read(&root).expect("readable");
        let findings = check(&tree, &ratchet);
        let text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        assert!(findings.is_empty(), "\n{text}");
    }

    #[test]
    fn files_are_found_below_the_root_but_not_in_build_folders() {
        let dir = tempfile::tempdir().expect("a directory");
        fs::create_dir_all(dir.path().join("crates/a/src")).expect("a directory");
        fs::create_dir_all(dir.path().join("target/x")).expect("a directory");
        fs::write(dir.path().join("crates/a/src/lib.rs"), "//! A.\n").expect("a file");
        fs::write(dir.path().join("target/x/lib.rs"), "no").expect("a file");
        let tree = Tree::read(dir.path()).expect("readable");
        assert_eq!(tree.files.len(), 1);
        assert_eq!(tree.files[0].crate_dir(), Some("crates/a"));
    }
}
