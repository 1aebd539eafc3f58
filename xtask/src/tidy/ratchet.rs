//! Numbers that may only fall, in `xtask/tidy.toml`: lengths of files that are too long, how often
//! `unsafe` stands where it may stand, how many files import each other in a circle, and how many
//! comments use each idiom that should go.
//!
//! A number that is too high is as wrong as one that is too low: it would let the next change climb
//! back. (Only idioms may be fewer than the file says: many hands write comments at once.)
//! `cargo xtask fix` lowers them; raising one is a change to the file that a reviewer sees.

use super::circles;
use super::idioms;
use super::source::has_word;
use super::trust::UNSAFE_CRATES;
use super::{Finding, Tree};
use anyhow::{Context, Result};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Lines of a Rust file that need no exception.
const LINES_MAX: usize = 600;

const FILE: &str = "xtask/tidy.toml";

/// Files that are longer than [`LINES_MAX`], with their lengths.
pub(crate) fn long_files(tree: &Tree) -> BTreeMap<String, usize> {
    let lengths = tree.rust().map(|(file, _)| (file.path.clone(), file.text.lines().count()));
    lengths.filter(|(_, lines)| *lines > LINES_MAX).collect()
}

/// The committed numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ratchet {
    /// Files that are longer than [`LINES_MAX`], and how long.
    #[serde(default)]
    lines: BTreeMap<String, usize>,
    /// Crates that contain `unsafe`, and how often.
    #[serde(default, rename = "unsafe")]
    unsafes: BTreeMap<String, usize>,
    /// Crates with circles of files, and how many files are in them.
    #[serde(default)]
    circles: BTreeMap<String, usize>,
    /// Idioms, and how many lines of comments and documents use them.
    #[serde(default)]
    idioms: BTreeMap<String, usize>,
}

impl Ratchet {
    pub(crate) fn read(root: &Path) -> Result<Ratchet> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}: restore it from git", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    /// Measures the present numbers.
    fn measure(tree: &Tree) -> Ratchet {
        let mut now = Ratchet { lines: long_files(tree), ..Ratchet::default() };
        for (file, source) in tree.rust() {
            let Some(dir) = file.crate_dir().filter(|dir| UNSAFE_CRATES.contains(dir)) else {
                continue;
            };
            let count = source.code.lines().filter(|line| has_word(line, "unsafe")).count();
            *now.unsafes.entry(dir.to_owned()).or_default() += count;
        }
        now.unsafes.retain(|_, count| *count > 0);
        now.circles = circles::find(tree).into_iter().map(|(dir, all)| (dir, all.len())).collect();
        now.circles.retain(|_, count| *count > 0);
        now.idioms = idioms::count(tree);
        now
    }

    pub(super) fn check(&self, tree: &Tree, findings: &mut Vec<Finding>) {
        let now = Ratchet::measure(tree);
        compare(&self.lines, &now.lines, findings, |now| {
            format!("{now} lines, at most {LINES_MAX} are allowed: split the file by concern")
        });
        compare(&self.unsafes, &now.unsafes, findings, |now| {
            format!(
                "{now} lines with `unsafe`, more than {FILE} allows: do without, or raise the \
                 number there and say why in the commit"
            )
        });
        compare(&self.circles, &now.circles, findings, |now| {
            format!(
                "{now} files import themselves by way of others, more than {FILE} allows: turn an \
                 arrow around, or move what both need to a file of its own"
            )
        });
        for (name, now) in &now.idioms {
            let allowed = self.idioms.get(name).copied().unwrap_or(0);
            if *now > allowed {
                let advice = idioms::advice(name);
                let what = format!("`{name}` in {now} lines, {allowed} are allowed: {advice}");
                findings.push(Finding::new(FILE, 0, what));
            }
        }
    }

    /// The text of the file with every number lowered to what it is now; none is raised or added.
    pub(crate) fn lowered(&self, tree: &Tree) -> Option<String> {
        let now = Ratchet::measure(tree);
        let lower = |old: &BTreeMap<String, usize>, now: &BTreeMap<String, usize>| {
            let kept = old
                .iter()
                .filter_map(|(key, old)| now.get(key).map(|now| (key.clone(), *now.min(old))));
            kept.collect::<BTreeMap<String, usize>>()
        };
        let lowered = Ratchet {
            lines: lower(&self.lines, &now.lines),
            unsafes: lower(&self.unsafes, &now.unsafes),
            circles: lower(&self.circles, &now.circles),
            idioms: lower(&self.idioms, &now.idioms),
        };
        (lowered != *self).then(|| lowered.to_text())
    }

    pub(crate) fn write(text: &str, root: &Path) -> Result<()> {
        let path = root.join(FILE);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    fn to_text(&self) -> String {
        let section = |numbers: &BTreeMap<String, usize>| -> String {
            numbers.iter().map(|(key, number)| format!("\"{key}\" = {number}\n")).collect()
        };
        format!(
            "# Numbers that may only fall; `cargo xtask fix` lowers them.\n\n\
             # Rust files of more than {LINES_MAX} lines.\n[lines]\n{}\n\
             # Lines with `unsafe`, by crate. Each new one needs a reason in its commit.\n\
             [unsafe]\n{}\n\
             # Files that import each other in a circle, by crate.\n[circles]\n{}\n\
             # Lines of comments and documents with each idiom of xtask/src/tidy/idioms.rs.\n\
             [idioms]\n{}",
            section(&self.lines),
            section(&self.unsafes),
            section(&self.circles),
            section(&self.idioms)
        )
    }
}

fn compare(
    allowed: &BTreeMap<String, usize>,
    now: &BTreeMap<String, usize>,
    findings: &mut Vec<Finding>,
    too_high: impl Fn(usize) -> String,
) {
    for (path, now) in now {
        if *now > allowed.get(path).copied().unwrap_or(0) {
            findings.push(Finding::new(path, 0, too_high(*now)));
        }
    }
    for (path, allowed) in allowed {
        let now = now.get(path).copied().unwrap_or(0);
        if now < *allowed {
            let what = format!("{path}: {allowed} is more than needed now: run `cargo xtask fix`");
            findings.push(Finding::new(FILE, 0, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ratchet: &str, path: &str, text: &str) -> Vec<String> {
        let ratchet: Ratchet = toml::from_str(ratchet).expect("valid");
        let mut findings = Vec::new();
        ratchet.check(&Tree::made_up(&[(path, text)]), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    const LONG: &str = "crates/kv/src/long.rs";

    #[test]
    fn canary_a_file_that_is_too_long_is_found() {
        assert_eq!(found("", LONG, &"//\n".repeat(600)), Vec::<String>::new());
        assert!(found("", LONG, &"//\n".repeat(601))[0].contains("601 lines"));
        let exception = format!("[lines]\n\"{LONG}\" = 650\n");
        assert!(found(&exception, LONG, &"//\n".repeat(651))[0].contains("651 lines"));
        assert_eq!(found(&exception, LONG, &"//\n".repeat(650)), Vec::<String>::new());
    }

    #[test]
    fn canary_an_exception_that_is_not_needed_any_more_is_found() {
        let exception = format!("[lines]\n\"{LONG}\" = 650\n");
        for lines in [649, 10] {
            let found = found(&exception, LONG, &"//\n".repeat(lines));
            assert!(found.len() == 1 && found[0].contains("cargo xtask fix"), "{found:?}");
        }
    }

    #[test]
    fn canary_more_unsafe_than_committed_is_found() {
        let text = "//! A.\n// unsafe in words\nunsafe { a() }\nunsafe { b() }\n";
        let path = "crates/region/src/x.rs";
        assert!(found("[unsafe]\n\"crates/region\" = 1\n", path, text)[0].contains("2 lines"));
        let enough = "[unsafe]\n\"crates/region\" = 2\n";
        assert_eq!(found(enough, path, text), Vec::<String>::new());
        assert_eq!(found("[unsafe]\n\"crates/region\" = 3\n", path, text).len(), 1);
    }

    #[test]
    fn canary_a_file_that_imports_itself_is_found() {
        let path = "crates/kv/src/x/mod.rs";
        let tree = Tree::made_up(&[
            (path, "use crate::y::Y;"),
            ("crates/kv/src/y.rs", "use super::x::X;"),
        ]);
        let found = |text: &str| {
            let ratchet: Ratchet = toml::from_str(text).expect("valid");
            let mut findings = Vec::new();
            ratchet.check(&tree, &mut findings);
            findings.len()
        };
        assert_eq!(found("[circles]\n\"crates/kv\" = 2\n"), 0);
        assert_eq!(found("[circles]\n\"crates/kv\" = 1\n"), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn canary_one_idiom_more_than_committed_is_found() {
        let (path, text) = ("crates/kv/src/x.rs", "// It begins anew.\n// Anew, then.\n");
        let found_by = |ratchet: &str| found(ratchet, path, text);
        assert!(found_by("[idioms]\nanew = 1\n")[0].contains("`anew` in 2 lines, 1 are allowed"));
        assert!(found_by("[idioms]\nanew = 1\n")[0].contains("again, from the start"));
        assert_eq!(found_by("[idioms]\nanew = 2\n"), Vec::<String>::new());
        assert_eq!(found_by("[idioms]\nanew = 9\n"), Vec::<String>::new());
    }

    #[test]
    fn lowering_never_raises_and_drops_what_is_not_needed() {
        let ratchet: Ratchet =
            toml::from_str(&format!("[lines]\n\"{LONG}\" = 700\n\"gone.rs\" = 800\n[unsafe]\n"))
                .expect("valid");
        let shorter = Tree::made_up(&[(LONG, &"//\n".repeat(650))]);
        let text = ratchet.lowered(&shorter).expect("lower");
        let lowered: Ratchet = toml::from_str(&text).expect("own text");
        assert_eq!(lowered.lines, BTreeMap::from([(LONG.to_owned(), 650)]));
        let longer = Tree::made_up(&[(LONG, &"//\n".repeat(900))]);
        assert_eq!(lowered.lowered(&longer), None);
    }
}
