//! The sizes of things: structs of many fields, lines of each crate.

use super::items::Item;
use crate::tidy::Tree;
use std::collections::BTreeMap;

/// Fields of a struct that need no exception.
pub(super) const FIELDS_MAX: usize = 20;

/// Structs of more fields, the largest first.
pub(super) fn structs(items: &[Item<'_>]) -> Vec<String> {
    let structs = items.iter().filter(|item| item.keyword == "struct" && !item.is_test);
    let mut found: Vec<(usize, String)> = structs
        .map(|item| (n_fields(&item.code), item.place()))
        .filter(|(fields, _)| *fields > FIELDS_MAX)
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(fields, place)| format!("{fields} fields: {place}")).collect()
}

/// Lines at the outermost depth of the body that begin with a name and a colon.
fn n_fields(code: &[&str]) -> usize {
    let (mut depth, mut fields) = (0_usize, 0);
    for line in code {
        let text = line.trim_start();
        let text = match text.strip_prefix("pub") {
            Some(rest) => rest.trim_start_matches(|c| c != ' ').trim_start(),
            None => text,
        };
        let name = text.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
        let is_field = name.len() < text.len() && name.starts_with(':') && !name.starts_with("::");
        fields += usize::from(depth == 1 && is_field);
        for c in line.chars() {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
    }
    fields
}

/// Lines of Rust by crate; what lies outside of crates by its first folder.
pub(super) fn lines(tree: &Tree) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for (file, _) in tree.rust() {
        let dir = file.crate_dir().or_else(|| file.path.split('/').next()).unwrap_or("");
        let name = dir.strip_prefix("crates/").unwrap_or(dir);
        *lines.entry(name.to_owned()).or_default() += file.text.lines().count();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::super::items;
    use super::*;

    #[test]
    fn canary_a_struct_of_many_fields_is_found() {
        let of = |n: usize| {
            let fields: String =
                (0..n).map(|n| format!("    /// Is: x.\n    pub(crate) f{n}: u8,\n")).collect();
            let text =
                format!("//! A.\npub struct Large<T>\nwhere\n    T: Clone,\n{{\n{fields}}}\n");
            let tree = Tree::made_up(&[("crates/a/src/x.rs", &text)]);
            structs(&items::all(&tree))
        };
        assert_eq!(of(20), Vec::<String>::new());
        assert_eq!(of(21), ["21 fields: a::x::Large (crates/a/src/x.rs:2)"]);
    }

    #[test]
    fn lines_are_counted_by_crate() {
        let tree = Tree::made_up(&[
            ("crates/a/src/x.rs", "//\n//\n"),
            ("crates/a/tests/x.rs", "//\n"),
            ("fuzz/x.rs", "//\n"),
        ]);
        assert_eq!(lines(&tree), BTreeMap::from([("a".to_owned(), 3), ("fuzz".to_owned(), 1)]));
    }
}
