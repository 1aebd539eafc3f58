//! `cargo xtask house`: what stands how often in this workspace, and how often it should.
//!
//! Each figure has a target, and a ratchet in `xtask/house.toml`: a figure that is above its
//! ratchet fails `cargo test` and `cargo xtask verify`, and so does one below, until
//! `cargo xtask house --update` lowers the ratchet. None is raised by a command: that is a change
//! to the file which a reviewer sees.
//!
//! - `contracts`: what a contract, an engine and a world are, and how they are found.
//! - `lists`: what lists protocols.
//! - `sizes`: structs, lines. Circles of imports and long files are found by `tidy`.
//! - `items`: items of Rust files, which all of these look at.

mod contracts;
mod items;
mod lists;
mod sizes;

use crate::tidy::source::has_word;
use crate::tidy::{self, Finding, Tree, circles};
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE: &str = "xtask/house.toml";

/// Lines of Rust before the house had one engine (commit e8a2c20), by crate.
const BEFORE: [(&str, usize); 19] = [
    ("base", 829),
    ("bench", 6554),
    ("check", 3094),
    ("client", 979),
    ("fabric", 9583),
    ("fuzz", 179),
    ("gregale", 16134),
    ("kv", 17327),
    ("model", 1683),
    ("multicast", 6237),
    ("powercut", 1167),
    ("proto", 22621),
    ("region", 2255),
    ("report", 1549),
    ("runtime", 7652),
    ("sim", 14312),
    ("storage", 5468),
    ("workbench", 0),
    ("xtask", 1635),
];

/// One figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Figure {
    name: &'static str,
    /// The thing that is counted.
    what: &'static str,
    /// The largest number; `None` where only the ratchet counts.
    target: Option<usize>,
    found: Vec<String>,
}

impl Figure {
    fn misses_target(&self) -> bool {
        self.target.is_some_and(|target| self.found.len() > target)
    }
}

/// The options of `cargo xtask house`.
pub(crate) struct Manner {
    /// JSON instead of tables.
    pub(crate) json: bool,
    /// Fail if a target is missed.
    pub(crate) strict: bool,
    /// Lower the ratchet to what is measured.
    pub(crate) update: bool,
}

pub(crate) fn house(manner: &Manner) -> Result<()> {
    let root = crate::root();
    let tree = Tree::read(&root)?;
    let figures = measure(&tree);
    if manner.update {
        let ratchet = Ratchet::read(&root)?.lowered(&figures);
        let path = root.join(FILE);
        fs::write(&path, ratchet.to_text())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    let ratchet = Ratchet::read(&root)?;
    let lines = sizes::lines(&tree);
    match manner.json {
        true => println!("{}", to_json(&figures, &ratchet, &lines)?),
        false => print!("{}", to_text(&figures, &ratchet, &lines)),
    }
    let findings = ratchet.findings(&figures);
    findings.iter().for_each(|finding| eprintln!("{finding}"));
    if !findings.is_empty() {
        bail!("{} figures are not what {FILE} says", findings.len());
    }
    let missed = figures.iter().filter(|figure| figure.misses_target());
    let missed: Vec<&str> = missed.map(|figure| figure.name).collect();
    if manner.strict && !missed.is_empty() {
        bail!("above the target: {}", missed.join(", "));
    }
    Ok(())
}

/// The numbers that are worse, or better, than those of `xtask/house.toml`.
pub(crate) fn check(tree: &Tree, root: &Path) -> Result<Vec<Finding>> {
    Ok(Ratchet::read(root)?.findings(&measure(tree)))
}

fn measure(tree: &Tree) -> Vec<Figure> {
    let items = items::all(tree);
    let protocols = contracts::protocols(&items);
    let (worlds, worlds_of_tests) = contracts::worlds(&items);
    let circles = circles::between_folders(tree).iter().map(|files| files.join(", ")).collect();
    let long = tidy::long_files(tree);
    let long = long.iter().map(|(path, lines)| format!("{lines} lines: {path}")).collect();
    let figure = |name, what, target, found| Figure { name, what, target, found };
    vec![
        figure(
            "contracts",
            "traits of proto that machines implement",
            Some(1),
            contracts::contracts(&items),
        ),
        figure(
            "engines",
            "hosts of machines outside of proto and of tests: each is a loop of its own",
            Some(1),
            contracts::engines(&items),
        ),
        figure("worlds", "folders with a type that stands for a network", Some(1), worlds),
        figure("worlds_of_tests", "the same, in tests", None, worlds_of_tests),
        figure(
            "lists_of_protocols",
            "enums, constants and macros that name two protocols or more",
            Some(1),
            lists::lists(&items, &protocols),
        ),
        figure(
            "matches_on_protocols",
            "matches whose arms name two protocols or more",
            None,
            lists::matches(tree, &protocols),
        ),
        figure("import_circles", "circles of files of more than one folder", Some(0), circles),
        figure("long_files", "files of more than 600 lines", Some(0), long),
        figure("large_structs", "structs of more than 20 fields", None, sizes::structs(&items)),
    ]
}

/// The committed figures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ratchet {
    figures: BTreeMap<String, usize>,
}

impl Ratchet {
    fn read(root: &Path) -> Result<Ratchet> {
        let path = root.join(FILE);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}: restore it from git", path.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is damaged", path.display()))
    }

    fn of(&self, name: &str) -> usize {
        self.figures.get(name).copied().unwrap_or(0)
    }

    fn findings(&self, figures: &[Figure]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for figure in figures {
            let (now, allowed) = (figure.found.len(), self.of(figure.name));
            let what = if now > allowed {
                format!(
                    "{}: {now}, more than {allowed} ({}; `cargo xtask house` lists them): do \
                     without, or raise the number here and say why in the commit",
                    figure.name, figure.what
                )
            } else if now < allowed {
                format!(
                    "{}: {now}, better than {allowed}: run `cargo xtask house --update`",
                    figure.name
                )
            } else {
                continue;
            };
            findings.push(Finding::new(FILE, 0, what));
        }
        let is_known = |name: &&String| figures.iter().any(|figure| figure.name == name.as_str());
        for name in self.figures.keys().filter(|name| !is_known(name)) {
            findings.push(Finding::new(FILE, 0, format!("{name}: no such figure")));
        }
        findings
    }

    fn lowered(&self, figures: &[Figure]) -> Ratchet {
        let lower = |figure: &Figure| {
            (figure.name.to_owned(), figure.found.len().min(self.of(figure.name)))
        };
        Ratchet { figures: figures.iter().map(lower).collect() }
    }

    fn to_text(&self) -> String {
        let figures: String =
            self.figures.iter().map(|(name, number)| format!("{name} = {number}\n")).collect();
        format!(
            "# Figures of `cargo xtask house`, which may only fall; `--update` lowers them.\n\
             [figures]\n{figures}"
        )
    }
}

fn to_text(figures: &[Figure], ratchet: &Ratchet, lines: &BTreeMap<String, usize>) -> String {
    let mut text = format!("{:<22}{:>6}{:>9}{:>8}\n", "figure", "now", "ratchet", "target");
    for figure in figures {
        let (now, allowed) = (figure.found.len(), ratchet.of(figure.name));
        let mark = if figure.misses_target() { "  above the target" } else { "" };
        let target = figure.target.map_or_else(|| "-".to_owned(), |target| target.to_string());
        text += &format!("{:<22}{now:>6}{allowed:>9}{target:>8}{mark}\n", figure.name);
    }
    for figure in figures.iter().filter(|figure| !figure.found.is_empty()) {
        text += &format!("\n{}: {}\n", figure.name, figure.what);
        for found in &figure.found {
            text += &format!("  {found}\n");
        }
    }
    text += &format!("\n{:<22}{:>8}{:>9}{:>9}\n", "lines of Rust", "before", "now", "change");
    let row = |name: &str, before: usize, now: usize| {
        let change = now as i64 - before as i64;
        format!("{name:<22}{before:>8}{now:>9}{change:>+9}\n")
    };
    for (name, now) in lines {
        text += &row(name, before(name), *now);
    }
    let all_before = BEFORE.iter().map(|(_, lines)| lines).sum();
    text + &row("all", all_before, lines.values().sum())
}

fn before(name: &str) -> usize {
    BEFORE.iter().find(|(known, _)| *known == name).map_or(0, |(_, lines)| *lines)
}

fn to_json(
    figures: &[Figure],
    ratchet: &Ratchet,
    lines: &BTreeMap<String, usize>,
) -> Result<String> {
    #[derive(Serialize)]
    struct Row<'a> {
        now: usize,
        ratchet: usize,
        target: Option<usize>,
        what: &'a str,
        found: &'a [String],
    }
    #[derive(Serialize)]
    struct Lines {
        before: usize,
        now: usize,
    }
    #[derive(Serialize)]
    struct House<'a> {
        figures: BTreeMap<&'a str, Row<'a>>,
        lines: BTreeMap<&'a str, Lines>,
        lines_before: usize,
        lines_now: usize,
    }
    let house = House {
        figures: figures
            .iter()
            .map(|figure| {
                let row = Row {
                    now: figure.found.len(),
                    ratchet: ratchet.of(figure.name),
                    target: figure.target,
                    what: figure.what,
                    found: &figure.found,
                };
                (figure.name, row)
            })
            .collect(),
        lines: lines
            .iter()
            .map(|(name, now)| (name.as_str(), Lines { before: before(name), now: *now }))
            .collect(),
        lines_before: BEFORE.iter().map(|(_, lines)| lines).sum(),
        lines_now: lines.values().sum(),
    };
    serde_json::to_string_pretty(&house).context("a table of numbers and names is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cargo test` fails where `cargo xtask verify` would.
    #[test]
    fn this_house_is_what_its_ratchet_says() {
        let root = crate::root();
        let findings = check(&Tree::read(&root).expect("readable"), &root).expect("readable");
        let text: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        assert!(findings.is_empty(), "\n{text}");
    }

    #[test]
    fn the_baseline_adds_up() {
        assert_eq!(BEFORE.iter().map(|(_, lines)| lines).sum::<usize>(), 119_258);
    }

    fn figures(found: usize) -> Vec<Figure> {
        let found = vec!["x".to_owned(); found];
        vec![Figure { name: "engines", what: "loops", target: Some(1), found }]
    }

    fn ratchet(text: &str) -> Ratchet {
        toml::from_str(text).expect("valid")
    }

    #[test]
    fn canary_a_figure_above_or_below_its_ratchet_is_found() {
        let ratchet = ratchet("[figures]\nengines = 3\n");
        let found = |n: usize| {
            let findings = ratchet.findings(&figures(n));
            findings.iter().map(Finding::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(3), Vec::<String>::new());
        assert!(found(4)[0].contains("engines: 4, more than 3 (loops;"), "{:?}", found(4));
        assert!(found(2)[0].contains("cargo xtask house --update"), "{:?}", found(2));
    }

    #[test]
    fn updating_lowers_and_never_raises() {
        let ratchet = ratchet("[figures]\nengines = 3\ngone = 2\n");
        for (found, expected) in [(2, 2), (9, 3)] {
            let lowered = ratchet.lowered(&figures(found));
            assert_eq!(lowered.figures, BTreeMap::from([("engines".to_owned(), expected)]));
            assert_eq!(toml::from_str::<Ratchet>(&lowered.to_text()).expect("valid"), lowered);
        }
    }

    #[test]
    fn tables_and_json_say_the_same() {
        let lines = BTreeMap::from([("base".to_owned(), 900)]);
        let ratchet = ratchet("[figures]\nengines = 3\n");
        let text = to_text(&figures(2), &ratchet, &lines);
        assert!(
            text.contains("engines                    2        3       1  above the target"),
            "{text}"
        );
        assert!(text.contains("base                       829      900      +71"), "{text}");
        let json = to_json(&figures(2), &ratchet, &lines).expect("valid");
        let json: serde_json::Value = serde_json::from_str(&json).expect("valid");
        assert_eq!(json["figures"]["engines"]["now"], 2);
        assert_eq!(json["figures"]["engines"]["found"][1], "x");
        assert_eq!(json["lines"]["base"]["before"], 829);
    }
}
