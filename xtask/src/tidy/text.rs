//! Rules on how files look: module documentation, widths, blanks, words that must not stay.

use super::source::has_word;
use super::{File, Finding, Tree};

/// Columns. rustfmt keeps code within them; this keeps comments.
pub(super) const WIDTH: usize = 100;

/// Words that say that something is unfinished; split, so that this file does not contain them.
const BANNED: [(&str, &str); 4] = [("TO", "DO"), ("FIX", "ME"), ("XX", "X"), ("HA", "CK")];
/// Calls that must not be committed.
const BANNED_CALLS: [(&str, &str); 3] = [("dbg", "!"), ("todo", "!"), ("unimplemented", "!")];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in &tree.files {
        blanks(file, findings);
        unfinished(file, findings);
    }
    for (file, source) in tree.rust() {
        if !file.text.starts_with("//!") {
            let what = "the first line must be `//! ...`: what this module promises, in a sentence";
            findings.push(Finding::new(&file.path, 1, what));
        }
        for (n, (line, code)) in file.text.lines().zip(source.code.lines()).enumerate() {
            // A string or an address cannot be broken; code that is too wide is rustfmt's matter.
            let can_break = !line.contains('"') && !line.contains("http");
            if line.chars().count() > WIDTH && can_break {
                let what = format!("wider than {WIDTH} columns: break the line");
                findings.push(Finding::new(&file.path, n + 1, what));
            }
            for (head, tail) in BANNED_CALLS {
                if code.contains(&format!("{head}{tail}")) {
                    let what = format!("`{head}{tail}` must not be committed: finish it");
                    findings.push(Finding::new(&file.path, n + 1, what));
                }
            }
        }
    }
}

fn blanks(file: &File, findings: &mut Vec<Finding>) {
    if file.path.ends_with(".txt") {
        // Recorded input and output of tests: blanks in it mean something.
        return;
    }
    let uses_tabs = file.path.ends_with(".go");
    for (n, line) in file.text.split('\n').enumerate() {
        let mut find = |what: &str| findings.push(Finding::new(&file.path, n + 1, what));
        if line.contains('\t') && !uses_tabs {
            find("a tab: use spaces");
        }
        if line.ends_with('\r') {
            find("a carriage return: end lines with a line feed only");
        } else if line.ends_with([' ', '\t']) {
            find("blanks at the end of the line: remove them");
        }
    }
    let is_ended = file.text.is_empty() || file.text.ends_with('\n');
    if !is_ended || file.text.ends_with("\n\n") {
        findings.push(Finding::new(&file.path, 0, "must end with exactly one line feed"));
    }
}

fn unfinished(file: &File, findings: &mut Vec<Finding>) {
    for (n, line) in file.text.lines().enumerate() {
        for (head, tail) in BANNED {
            let word = format!("{head}{tail}");
            if has_word(line, &word) {
                let what =
                    format!("`{word}`: finish it, or describe the present behaviour and test it");
                findings.push(Finding::new(&file.path, n + 1, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::made_up(&[(path, text)]), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    fn finds(text: &str, what: &str) {
        let found = found("a.rs", text);
        assert!(found.len() == 1 && found[0].contains(what), "{text:?}: {found:?}");
    }

    #[test]
    fn canary_a_module_without_documentation_is_found() {
        finds("fn f() {}\n", "a.rs:1: the first line must be");
        finds("", "the first line must be");
    }

    #[test]
    fn canary_blanks_and_line_ends_are_found() {
        finds("//! A.\n\tf();\n", "a.rs:2: a tab");
        finds("//! A. \n", "a.rs:1: blanks at the end");
        finds("//! A.\r\n", "a.rs:1: a carriage return");
        finds("//! A.", "must end with exactly one");
        finds("//! A.\n\n", "must end with exactly one");
        assert_eq!(found("a.go", "\tf()\n"), Vec::<String>::new());
    }

    #[test]
    fn canary_a_comment_that_is_too_wide_is_found() {
        finds(&format!("//! A.\n// {}\n", "a ".repeat(50).trim_end()), "a.rs:2: wider than");
        let string = format!("//! A.\nconst A: &str = \"{}\";\n", "a".repeat(100));
        assert_eq!(found("a.rs", &string), Vec::<String>::new());
    }

    #[test]
    fn canary_unfinished_work_is_found() {
        for (head, tail) in BANNED {
            finds(&format!("//! A.\n// {head}{tail}: later\n"), "finish it");
            assert_eq!(found("a.md", &format!("{head}{tail}\n")).len(), 1);
            assert_eq!(found("a.md", &format!("{head}{tail}S\n")), Vec::<String>::new());
        }
        for (head, tail) in BANNED_CALLS {
            finds(&format!("//! A.\nfn f() {{ {head}{tail}() }}\n"), "must not be committed");
        }
    }
}
