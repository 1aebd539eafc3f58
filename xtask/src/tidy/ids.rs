//! Invariants have ids, and an id leads somewhere.
//!
//! A line `- I1 ...` in a module's documentation promises something. Somewhere at or below the
//! module's folder, or in the crate's tests, another line must cite the id: an assert's message, a
//! test's name (`i1_...`), a comment that argues; or the promise itself says how the code cannot
//! but keep it ("by construction", "by type"). And an id that is cited must be promised by some
//! module of the crate, or of any crate for the promises that cross crates (T, W).

use super::source::Source;
use super::{File, Finding, Tree};
use std::collections::BTreeSet;

/// Families that other crates rely on: the fabric's promises and those of shared words.
const CROSSING: [char; 2] = ['T', 'W'];
/// Families whose citations must lead somewhere. Others (P1, L1) are also words of the trade.
const CHECKED: [char; 4] = ['I', 'G', 'T', 'W'];

/// The promises of `proto` are checked here, globally and under faults: these crates keep its
/// promises and cite them.
const WATCHES: (&str, [&str; 2]) = ("crates/proto", ["crates/sim", "crates/model"]);

/// The tests of these rules are made of ids that lead nowhere.
const EXEMPT: &str = "xtask/";

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    let mut promised: BTreeSet<(String, String)> = BTreeSet::new();
    let mut everywhere: BTreeSet<String> = BTreeSet::new();
    let rust = || tree.rust().filter(|(file, _)| !file.path.starts_with(EXEMPT));
    for (file, _) in rust() {
        let Some(dir) = file.crate_dir() else { continue };
        for (line, id) in promises(file) {
            if !is_kept_by_itself(file, line) && !is_cited(tree, file, &id) {
                let what = format!(
                    "{id} is promised, but nothing at or below this folder cites it: name it in an \
                     assert, a test (`{}_...`) or a comment that argues for it, or say how it \
                     holds by construction",
                    id.to_lowercase()
                );
                findings.push(Finding::new(&file.path, line, what));
            }
            everywhere.insert(id.clone());
            promised.insert((dir.to_owned(), id));
        }
    }
    for (file, source) in rust() {
        let Some(dir) = file.crate_dir() else { continue };
        for (line, id) in citations(file, source) {
            let family = id.chars().next().unwrap_or(' ');
            let is_promised = promised.contains(&(dir.to_owned(), id.clone()))
                || CROSSING.contains(&family) && everywhere.contains(&id)
                || WATCHES.1.contains(&dir)
                    && promised.contains(&(WATCHES.0.to_owned(), id.clone()));
            if CHECKED.contains(&family) && !is_promised {
                let what = format!(
                    "{id} is cited, but no module of {dir} promises it: add a line `- {id} ...` to \
                     a module's documentation, or cite the id that is meant"
                );
                findings.push(Finding::new(&file.path, line, what));
            }
        }
    }
}

/// Lines `//! - I1 text` at the top of a file.
fn promises(file: &File) -> Vec<(usize, String)> {
    let lines = file.text.lines().enumerate().take_while(|(_, line)| line.starts_with("//!"));
    lines.filter_map(|(n, line)| Some((n + 1, promise(line)?.to_owned()))).collect()
}

/// Whether the promise in line `line` says that it holds by construction or by type.
fn is_kept_by_itself(file: &File, line: usize) -> bool {
    let item = file.text.lines().skip(line - 1).enumerate();
    let item = item.take_while(|(n, line)| line.starts_with("//!") && (*n == 0 || !is_item(line)));
    let text: String = item.map(|(_, line)| format!("{} ", &line[3..].trim())).collect();
    let text = text.to_lowercase();
    ["by construction", "by type", "by `match`"].iter().any(|how| text.contains(how))
}

/// Whether a new item or paragraph begins there.
fn is_item(line: &str) -> bool {
    let text = line[3..].trim_start();
    text.is_empty() || text.starts_with("- ") || text.starts_with("* ")
}

fn promise(line: &str) -> Option<&str> {
    let item = line.strip_prefix("//!")?.trim_start();
    let item = item.strip_prefix(['-', '*'])?.trim_start().trim_start_matches('*');
    let (word, _) = item.split_once(' ')?;
    let word = word.trim_end_matches('*');
    is_id(word).then_some(word)
}

fn is_id(word: &str) -> bool {
    let mut chars = word.chars();
    chars.next().is_some_and(|c| c.is_ascii_uppercase())
        && matches!(word.len(), 2 | 3)
        && chars.all(|c| c.is_ascii_digit())
}

/// Ids in comments and strings other than the module's documentation, and in names of functions.
fn citations(file: &File, source: &Source) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let layers = source.prose.lines().zip(source.code.lines()).zip(file.text.lines());
    for (n, ((prose, code), whole)) in layers.enumerate() {
        if whole.starts_with("//!") {
            continue;
        }
        let ids = prose.split(|c: char| !c.is_alphanumeric() && c != '_');
        found.extend(ids.filter(|word| is_id(word)).map(|id| (n + 1, id.to_owned())));
        if let Some((_, name)) = code.split_once("fn ") {
            let word = name.split('_').next().unwrap_or("");
            let id = word.to_uppercase();
            if word.starts_with(|c: char| c.is_ascii_lowercase()) && is_id(&id) {
                found.push((n + 1, id));
            }
        }
    }
    found
}

fn is_cited(tree: &Tree, promising: &File, id: &str) -> bool {
    let folder = promising.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let dir = promising.crate_dir().unwrap_or("");
    let crosses = id.starts_with(CROSSING);
    let watches = |file: &File| {
        dir == WATCHES.0 && file.crate_dir().is_some_and(|dir| WATCHES.1.contains(&dir))
    };
    tree.rust().any(|(file, source)| {
        let is_near = crosses
            || watches(file)
            || file.path.starts_with(&format!("{folder}/"))
            || file.path.starts_with(&format!("{dir}/tests/"));
        is_near && citations(file, source).iter().any(|(_, cited)| cited == id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::made_up(files), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    const LIB: &str = "crates/a/src/lib.rs";

    #[test]
    fn canary_a_promise_that_nothing_keeps_is_found() {
        for promise in ["- I1 x is y.", "* I1 x", "- **I1** x", "- I1 **X** y"] {
            let found = found(&[(LIB, &format!("//! A.\n//! {promise}\n"))]);
            assert!(found.len() == 1 && found[0].contains("lib.rs:2: I1 is promised"), "{found:?}");
        }
    }

    #[test]
    fn canary_a_citation_that_leads_nowhere_is_found() {
        for line in ["// I2: so.", "assert!(x, \"I2 broke\");", "fn i2_holds() {}"] {
            let found = found(&[(LIB, &format!("//! A.\n{line}\n"))]);
            assert!(found.len() == 1 && found[0].contains("lib.rs:2: I2 is cited"), "{found:?}");
        }
    }

    #[test]
    fn an_assert_a_test_or_a_comment_keeps_a_promise() {
        for line in ["assert!(x, \"I1: {x}\");", "fn i1_holds() {}", "// By I1, never."] {
            let text = format!("//! A.\n//! - I1 x.\n{line}\n");
            assert_eq!(found(&[(LIB, &text)]), Vec::<String>::new());
            let far = [(LIB, "//! A.\n//! - I1 x.\n"), ("crates/a/tests/t.rs", line)];
            assert_eq!(found(&far), Vec::<String>::new());
        }
    }

    #[test]
    fn canary_only_the_promise_that_says_so_holds_by_construction() {
        let text = "//! A.\n//! - I1 x. By\n//!   construction: y.\n//! - I2 z.\n";
        let found = found(&[(LIB, text)]);
        assert!(found.len() == 1 && found[0].contains("lib.rs:4: I2 is promised"), "{found:?}");
    }

    #[test]
    fn canary_a_citation_in_another_folder_keeps_no_promise() {
        let files = [
            ("crates/a/src/x/mod.rs", "//! X.\n//! - I1 x.\n"),
            ("crates/a/src/y/mod.rs", "//! Y.\n//! - I1 y.\n// I1\n"),
        ];
        assert_eq!(found(&files).len(), 1);
    }

    #[test]
    fn promises_of_the_fabric_cross_crates_and_others_do_not() {
        let fabric = ("crates/f/src/lib.rs", "//! F.\n//! - T1 whole.\n//! - I1 x.\n// T1, I1\n");
        assert_eq!(
            found(&[fabric, (LIB, "//! A.\n// T1 makes it whole.\n")]),
            Vec::<String>::new()
        );
        assert_eq!(found(&[fabric, (LIB, "//! A.\n// I1 makes it whole.\n")]).len(), 1);
    }

    #[test]
    fn the_simulator_keeps_promises_of_protocols() {
        let proto = ("crates/proto/src/x.rs", "//! X.\n//! - G1 same.\n");
        let check = ("crates/sim/src/checks.rs", "//! C.\n// G1: the same everywhere.\n");
        assert_eq!(found(&[proto]).len(), 1);
        assert_eq!(found(&[proto, check]), Vec::<String>::new());
        assert_eq!(found(&[check]).len(), 1);
    }

    #[test]
    fn words_that_look_alike_are_no_ids() {
        let text = "//! A.\n//! - P1 is not checked... (L1 cache)\n// P1, L1, I, I123, AI1, u8\nfn i() {}\n";
        assert!(found(&[(LIB, text)]).iter().all(|finding| !finding.contains("is cited")));
    }
}
