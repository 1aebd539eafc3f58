//! Idioms that read like a translation, each with what to write instead.
//!
//! They are counted in comments and documents. `xtask/tidy.toml` holds how often each stands there
//! now; that may only fall.

use super::source::has_word;
use super::{File, Tree};
use std::collections::BTreeMap;

/// (name, the forms that are counted, what to write instead).
pub(super) const IDIOMS: [(&str, &[&str], &str); 14] = [
    ("anew", &["anew"], "again, from the start"),
    ("any-more", &["any more"], "no longer"),
    ("anybody", &["anybody", "everybody"], "any member, every process, all clients"),
    ("go-on", &["goes on", "go on", "went on", "going on"], "continues, resumes"),
    ("is-none", &["is none", "are none"], "there is no ..., no ... exists"),
    ("lacks", &["has not the", "has not a", "have not the"], "does not have, misses"),
    ("lets-go", &["lets go", "let go"], "releases, frees, drops"),
    ("manieth", &["manieth"], "ordinal of ..., from 1"),
    ("nobody", &["nobody"], "no member, no process, no client"),
    ("shall", &["shall"], "must, or the present tense"),
    ("somebody", &["somebody"], "a member, another process, a client"),
    ("to-be-had", &["to be had", "be had"], "available; no ... has it"),
    ("who", &["who", "whoever"], "the member that, a process that, whichever"),
    ("whom", &["whom"], "the member to which, the peer that"),
];

/// The file that lists the idioms, and the record of what was.
const EXEMPT: [&str; 2] = ["xtask/src/tidy/idioms.rs", "CHANGELOG.md"];

/// How often each idiom stands in comments and documents.
pub(super) fn count(tree: &Tree) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    for file in tree.files.iter().filter(|file| !EXEMPT.contains(&file.path.as_str())) {
        for line in prose(file) {
            let line = line.to_lowercase();
            for (name, forms, _) in IDIOMS {
                if forms.iter().any(|form| has_word(&line, form)) {
                    *found.entry(name.to_owned()).or_default() += 1;
                }
            }
        }
    }
    found
}

/// What to write instead of `name`, and how to find it.
pub(super) fn advice(name: &str) -> String {
    let Some((_, forms, instead)) = IDIOMS.iter().find(|(known, _, _)| *known == name) else {
        return "no such idiom is counted: remove it".to_owned();
    };
    let forms: Vec<String> = forms.iter().map(|form| format!("-e '{form}'")).collect();
    format!("write `{instead}` (`grep -rniw {} crates docs *.md`)", forms.join(" "))
}

/// Lines of comments, or of a document.
fn prose(file: &File) -> Vec<&str> {
    if file.path.ends_with(".md") {
        return file.text.lines().collect();
    }
    let prose = file.source.iter().flat_map(|source| source.prose.lines());
    prose.filter_map(|line| line.find("//").map(|at| &line[at..])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str, text: &str) -> Vec<(String, usize)> {
        count(&Tree::made_up(&[(path, text)])).into_iter().collect()
    }

    #[test]
    fn canary_every_idiom_is_counted_in_comments_and_documents() {
        for (name, forms, instead) in IDIOMS {
            for form in forms {
                let expected = vec![(name.to_owned(), 1)];
                assert_eq!(of("crates/a/src/x.rs", &format!("f(); // It {form} so.\n")), expected);
                assert_eq!(of("docs/x.md", &format!("It {form} so.\n")), expected);
                assert!(advice(name).contains(instead) && advice(name).contains(form));
            }
        }
    }

    #[test]
    fn code_strings_and_parts_of_words_are_not_counted() {
        let text = "fn who() { f(\"who goes on\") }\n// The whole renewal.\n";
        assert_eq!(of("crates/a/src/x.rs", text), Vec::new());
    }
}
