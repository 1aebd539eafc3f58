//! What attacks found stays shown: docs/attacks.md names, row by row, the tests and planted bugs
//! that would fail if a defect came back, and each of them is there.
//!
//! In the last column a name of a crate in backticks stands before the names of its tests, which
//! have an underscore. Names in capitals are planted bugs, of any crate.

use super::{File, Finding, Tree};

/// The table.
const TABLE: &str = "docs/attacks.md";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let Some(table) = tree.files.iter().find(|file| file.path == TABLE) else { return };
    for (n, line) in table.text.lines().enumerate() {
        // The heading has a row of lines below it.
        let Some(shown) = last_cell(line).filter(|_| n > 0 && is_row(line)) else { continue };
        let mut find = |what: String| findings.push(Finding::new(TABLE, n + 1, what));
        let (mut of, mut n_found) = ("", 0);
        for word in shown.split('`').skip(1).step_by(2) {
            let is_there = match kind(word) {
                Kind::Crate => {
                    of = word;
                    continue;
                }
                Kind::Test => tree.rust().any(|(file, _)| is_of(file, of) && has_test(file, word)),
                Kind::Bug => tree.rust().any(|(file, _)| has_bug(file, word)),
                Kind::Other => continue,
            };
            n_found += 1;
            if !is_there {
                let what = match of {
                    "" => format!("`{word}` stands behind no crate"),
                    _ => format!("there is no `{word}` in {of}: name what shows it now"),
                };
                find(what);
            }
        }
        if n_found == 0 {
            find("no test and no planted bug shows this".to_owned());
        }
    }
}

/// The meaning of a word in backticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Crate,
    Test,
    Bug,
    Other,
}

fn kind(word: &str) -> Kind {
    let is_all = |of: fn(&char) -> bool| word.chars().all(|c| of(&c));
    if is_all(|c| c.is_ascii_lowercase() || *c == '-') && !word.is_empty() {
        return Kind::Crate;
    }
    match word.contains('_') {
        true if is_all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || *c == '_') => Kind::Test,
        true if is_all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_') => Kind::Bug,
        _ => Kind::Other,
    }
}

/// Whether the line is a row with a name such as A1 at its beginning.
fn is_row(line: &str) -> bool {
    let name = line.strip_prefix("| ").and_then(|rest| rest.split(' ').next()).unwrap_or("");
    name.starts_with(|c: char| c.is_ascii_uppercase()) && name[1..].parse::<u32>().is_ok()
}

fn last_cell(line: &str) -> Option<&str> {
    line.trim_end().strip_suffix('|')?.rsplit('|').next()
}

fn is_of(file: &File, name: &str) -> bool {
    let dir = file.crate_dir().unwrap_or("");
    !name.is_empty() && dir.strip_prefix("crates/").unwrap_or(dir) == name
}

/// Whether a test of this name stands there, or a claim that a macro makes a test of.
fn has_test(file: &File, name: &str) -> bool {
    let mut is_marked = false;
    file.text.lines().map(str::trim).any(|line| {
        if line.strip_prefix("fn ").is_some_and(|rest| rest.starts_with(&format!("{name}("))) {
            return is_marked || file.text.contains("over_both_fabrics! {");
        }
        is_marked = line == "#[test]" || is_marked && line.starts_with('#');
        false
    })
}

/// Whether a planted bug of this name is declared there.
fn has_bug(file: &File, name: &str) -> bool {
    file.path.ends_with("bugs.rs") && file.text.contains(&format!(" = {name}:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings in a table with one row.
    fn found(shown: &str) -> Vec<String> {
        let table =
            format!("# T\n\n| | what | shown by |\n| --- | --- | --- |\n| A1 | x | {shown} |\n");
        let files = [
            (TABLE, table.as_str()),
            ("crates/kv/src/a.rs", "#[test]\n#[ignore]\nfn a_claim() {}\nfn no_claim() {}\n"),
            ("crates/kv/src/bugs.rs", "    One = NOT_TWO: tests,\n"),
        ];
        let mut findings = Vec::new();
        check(&Tree::made_up(&files), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn what_is_there_is_not_found() {
        for shown in ["`kv` `a_claim`", "`NOT_TWO`, `xtask/x.txt`", "`sim` x; `kv` `a_claim`"] {
            assert_eq!(found(shown), Vec::<String>::new(), "{shown}");
        }
    }

    #[test]
    fn canary_a_row_that_names_nothing_or_what_is_not_there_is_found() {
        for (shown, what) in [
            ("seeds", "no test"),
            ("`kv` `another_claim`", "there is no `another_claim` in kv"),
            ("`kv` `no_claim`", "there is no `no_claim` in kv"),
            ("`sim` `a_claim`", "there is no `a_claim` in sim"),
            ("`a_claim`", "`a_claim` stands behind no crate"),
            ("`kv` `NOT_THREE`", "there is no `NOT_THREE`"),
        ] {
            let found = found(shown);
            assert!(found.len() == 1 && found[0].contains(what), "{shown}: {found:?}");
            assert!(found[0].starts_with("docs/attacks.md:5: "), "{found:?}");
        }
    }
}
