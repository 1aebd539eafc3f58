//! The picture of the crates in ARCHITECTURE.md shows what the manifests say.
//!
//! A row of the picture is `crate -> other, other` inside a fenced block, or `crate -> nothing`.
//! Every crate has one row. Drawn are the arrows that no chain of other arrows implies, and they
//! point down: to rows that stand below.

use super::{Finding, Tree, arrows};
use std::collections::{BTreeMap, BTreeSet};

const FILE: &str = "ARCHITECTURE.md";
const NOTHING: &str = "nothing";

type Graph<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(file) = tree.files.iter().find(|file| file.path == FILE) else { return };
    let manifests = manifests(tree);
    let graph: Graph<'_> = manifests
        .iter()
        .map(|(name, to)| {
            let ours = to.iter().filter(|to| manifests.contains_key(*to) && *to != name);
            (name.as_str(), ours.map(String::as_str).collect())
        })
        .collect();
    let rows = rows(&file.text);
    for (name, to) in &graph {
        let drawn = reduced(to, &graph);
        let expected = row(name, &drawn);
        let Some((at, (line, _, shown))) =
            rows.iter().enumerate().find(|(_, (_, row, _))| row == name)
        else {
            let what = format!("the picture lacks a crate: add the row `{expected}`");
            findings.push(Finding::new(FILE, 0, what));
            continue;
        };
        let shown: BTreeSet<&str> = shown.iter().copied().collect();
        if shown != drawn {
            let what = format!("the manifests say `{expected}`: draw that");
            findings.push(Finding::new(FILE, *line, what));
        }
        for above in rows[..=at].iter().filter(|(_, row, _)| shown.contains(row)) {
            let what = format!("`{name}` stands below `{}`, to which it points: move it", above.1);
            findings.push(Finding::new(FILE, *line, what));
        }
    }
    let mut seen = BTreeSet::new();
    for (line, name, _) in &rows {
        if !graph.contains_key(name) || !seen.insert(name) {
            let what = format!("`{name}` is no crate, or stands here twice");
            findings.push(Finding::new(FILE, *line, what));
        }
    }
}

fn row(name: &str, to: &BTreeSet<&str>) -> String {
    let to: Vec<&str> = to.iter().copied().collect();
    format!("{name} -> {}", if to.is_empty() { NOTHING.to_owned() } else { to.join(", ") })
}

/// (line, crate, where its arrows point to), from above.
fn rows(text: &str) -> Vec<(usize, &str, Vec<&str>)> {
    let (mut rows, mut is_fenced) = (Vec::new(), false);
    for (n, line) in text.lines().enumerate() {
        is_fenced ^= line.trim_start().starts_with("```");
        let Some((name, to)) = line.split_once("->").filter(|_| is_fenced) else { continue };
        let to = to.split("  ").find(|part| !part.trim().is_empty()).unwrap_or("");
        let to = to.split(',').map(str::trim).filter(|to| *to != NOTHING && !to.is_empty());
        rows.push((n + 1, name.trim(), to.collect()));
    }
    rows
}

/// The crates of this workspace and what they depend on, tests apart.
fn manifests(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for file in &tree.files {
        let Some(dir) = file.crate_dir() else { continue };
        if file.path != format!("{dir}/Cargo.toml") {
            continue;
        }
        // What is no TOML is found by `arrows`.
        let Ok(manifest) = toml::from_str::<toml::Table>(&file.text) else { continue };
        let shipped = arrows::dependencies(&manifest).into_iter().filter(|(_, tests)| !tests);
        let name = dir.strip_prefix("crates/").unwrap_or(dir);
        found.insert(name.to_owned(), shipped.map(|(name, _)| name).collect());
    }
    found
}

/// `to` without what is reached by way of another of them.
fn reduced<'a>(to: &BTreeSet<&'a str>, graph: &Graph<'a>) -> BTreeSet<&'a str> {
    let is_implied = |target: &&str| to.iter().any(|by| by != target && reaches(by, target, graph));
    to.iter().copied().filter(|target| !is_implied(target)).collect()
}

/// Cargo refuses cycles, so this ends.
fn reaches(from: &str, to: &str, graph: &Graph<'_>) -> bool {
    graph.get(from).is_some_and(|next| next.iter().any(|n| *n == to || reaches(n, to, graph)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(rows: &str) -> Vec<String> {
        let text = format!("# A\n\na -> b is prose\n```text\n{rows}```\n");
        let manifest = |of: &[&str]| {
            let of: String = of.iter().map(|n| format!("{n} = {{ workspace = true }}\n")).collect();
            format!(
                "[dependencies]\n{of}libc = \"0.2\"\n[dev-dependencies]\ntop.workspace = true\n"
            )
        };
        let tree = Tree::made_up(&[
            (FILE, &text),
            ("crates/low/Cargo.toml", &manifest(&[])),
            ("crates/mid/Cargo.toml", &manifest(&["low"])),
            ("crates/top/Cargo.toml", &manifest(&["low", "mid"])),
        ]);
        let mut findings = Vec::new();
        check(&tree, &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn the_picture_shows_arrows_that_no_others_imply() {
        let rows = "top -> mid         the product\nmid -> low\n\nlow -> nothing\n";
        assert_eq!(found(rows), Vec::<String>::new());
    }

    #[test]
    fn canary_a_crate_that_is_not_drawn_is_found() {
        let found = found("top -> mid\nlow -> nothing\n");
        assert!(found.len() == 1 && found[0].contains("`mid -> low`"), "{found:?}");
    }

    #[test]
    fn canary_an_arrow_that_is_wrong_or_implied_is_found() {
        for row in ["top -> low", "top -> low, mid", "top -> nothing", "top -> mid, other"] {
            let found = found(&format!("{row}\nmid -> low\nlow -> nothing\n"));
            assert!(found.len() == 1 && found[0].contains("`top -> mid`"), "{row}: {found:?}");
        }
    }

    #[test]
    fn canary_an_arrow_that_points_up_and_a_row_of_no_crate_are_found() {
        let up = found("mid -> low\ntop -> mid\nlow -> nothing\n");
        assert!(up.len() == 1 && up[0].contains("`top` stands below `mid`"), "{up:?}");
        let gone = found("top -> mid\nmid -> low\nlow -> nothing\ngone -> nothing\n");
        assert!(gone.len() == 1 && gone[0].contains("`gone` is no crate"), "{gone:?}");
        assert_eq!(found("top -> mid\nmid -> low\nlow -> nothing\nlow -> nothing\n").len(), 1);
    }
}
