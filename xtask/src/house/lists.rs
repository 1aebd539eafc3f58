//! Lists of protocols: items and matches that a new protocol would have to be added to.
//!
//! A list is an enum, a constant, a static or a macro call outside of tests that names two or more
//! protocols, as words or in quotes, whether alone or with a suffix (`"velos-members"`). A match
//! counts apart, if the patterns of its own arms name two or more.

use super::items::Item;
use crate::tidy::Tree;
use std::collections::BTreeSet;

pub(super) fn lists(items: &[Item<'_>], protocols: &BTreeSet<String>) -> Vec<String> {
    let kinds = ["enum", "const", "static", "macro"];
    let lists = items.iter().filter(|item| {
        let words = item.code.iter().flat_map(|line| words(line));
        let named = named(words.chain(item.strings.iter().copied()), protocols);
        !item.is_test && kinds.contains(&item.keyword) && named.len() > 1
    });
    lists.map(Item::place).collect()
}

/// Places of matches on protocols.
pub(super) fn matches(tree: &Tree, protocols: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    for (file, source) in tree.rust() {
        if file.crate_dir().is_none() || file.path.contains("/tests/") {
            continue;
        }
        let code = crate::tidy::circles::without_tests(&source.code);
        let code: Vec<&str> = code.lines().collect();
        let prose: Vec<&str> = source.prose.lines().collect();
        for n in 0..code.len() {
            let is_match = super::has_word(code[n], "match") && code[n].trim_end().ends_with('{');
            if is_match && names_more_than_one(&code[n..], &prose[n..], protocols) {
                found.push(format!("{}:{}", file.path, n + 1));
            }
        }
    }
    found
}

fn names_more_than_one(code: &[&str], prose: &[&str], protocols: &BTreeSet<String>) -> bool {
    let mut patterns: BTreeSet<&str> = BTreeSet::new();
    let mut depth = 1_usize;
    for (code, prose) in code.iter().zip(prose).skip(1) {
        if let Some(at) = code.find("=>").filter(|_| depth == 1) {
            let strings = prose.get(..at).unwrap_or("").split('"').skip(1).step_by(2);
            patterns.extend(named(words(&code[..at]).chain(strings), protocols));
        }
        for c in code.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        if depth == 0 {
            break;
        }
    }
    patterns.len() > 1
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// The protocols among `words`.
fn named<'a, 'b>(
    words: impl Iterator<Item = &'b str>,
    protocols: &'a BTreeSet<String>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    for word in words {
        let is_named = |name: &&String| {
            let word = word.split(['-', '_', ' ', '/']).next().unwrap_or("");
            word.eq_ignore_ascii_case(name)
        };
        found.extend(protocols.iter().find(is_named).map(String::as_str));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::*;

    fn protocols() -> BTreeSet<String> {
        ["velos", "mu", "abd"].map(str::to_owned).into()
    }

    #[test]
    fn canary_lists_in_enums_constants_and_macros_are_found() {
        for text in [
            "enum Kind {\n    Velos,\n    Mu,\n}\n",
            "const ALL: [&str; 2] = [\"velos-members\", \"mu\"];\n",
            "protocols! {\n    velos::Machine,\n    mu::Mu,\n}\n",
        ] {
            let tree = Tree::made_up(&[("crates/a/src/x.rs", text)]);
            assert_eq!(lists(&items::all(&tree), &protocols()).len(), 1, "{text}");
        }
    }

    #[test]
    fn one_protocol_or_its_name_within_a_word_is_no_list() {
        for text in [
            "enum Kind {\n    Velos,\n    Mutex,\n}\n",
            "const ALL: [&str; 2] = [\"velos\", \"velos-members\"];\n",
            "enum Kind {\n    /// As Mu does.\n    Velos,\n}\n",
        ] {
            let tree = Tree::made_up(&[("crates/a/src/x.rs", text)]);
            assert_eq!(lists(&items::all(&tree), &protocols()), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn canary_a_match_on_protocols_is_found_by_its_own_arms() {
        let of = |text: &str| {
            let tree = Tree::made_up(&[("crates/a/src/x.rs", text)]);
            matches(&tree, &protocols()).len()
        };
        assert_eq!(
            of(
                "fn f() {\n    match x {\n        \"velos\" => a(),\n        \"mu\" => b(),\n    }\n}\n"
            ),
            1
        );
        assert_eq!(
            of(
                "fn f() {\n    match x {\n        A::Velos => a(),\n        A::Mu => b(),\n    }\n}\n"
            ),
            1
        );
        let nested = "fn f() {\n    match y {\n        Y => {\n            match x {\n                A::Velos => 1,\n                A::Mu => 2,\n            }\n        }\n        Velos => 3,\n    }\n}\n";
        assert_eq!(of(nested), 1);
        assert_eq!(
            of("fn f() {\n    match x {\n        A => velos(),\n        B => mu(),\n    }\n}\n"),
            0
        );
    }
}
