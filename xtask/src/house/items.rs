//! Items of Rust files, found by a scanner: traits, implementations, types, constants, macros.
//!
//! It relies on rustfmt: an item begins on a line of its own with its keyword. Bodies end where
//! their brackets do.

use crate::tidy::circles::without_tests;
use crate::tidy::source::has_word;
use crate::tidy::{File, Tree};
use std::collections::BTreeSet;

/// One item.
pub(super) struct Item<'a> {
    pub(super) file: &'a File,
    /// From 1.
    pub(super) line: usize,
    /// `trait`, `impl`, `struct`, `enum`, `const`, `static` or `macro`.
    pub(super) keyword: &'static str,
    /// The name; of an implementation, the type.
    pub(super) name: String,
    /// Everything before the body, on one line.
    pub(super) header: String,
    /// Lines of code, from the header to the end.
    pub(super) code: Vec<&'a str>,
    /// The texts in quotes in these lines.
    pub(super) strings: Vec<&'a str>,
    pub(super) is_test: bool,
}

impl Item<'_> {
    /// `crate::module::Name`.
    pub(super) fn path(&self) -> String {
        format!("{}::{}", module_path(&self.file.path), self.name)
    }

    pub(super) fn place(&self) -> String {
        format!("{} ({}:{})", self.path(), self.file.path, self.line)
    }
}

/// `a::b` for `crates/a/src/b.rs`.
pub(super) fn module_path(path: &str) -> String {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let parts = path.split('/').filter(|part| !matches!(*part, "src" | "mod" | "lib" | "main"));
    parts.collect::<Vec<_>>().join("::")
}

/// Every item of every crate, in the order of the files.
pub(super) fn all(tree: &Tree) -> Vec<Item<'_>> {
    let tests = test_modules(tree);
    let mut items = Vec::new();
    for (file, source) in tree.rust() {
        if file.crate_dir().is_none() {
            continue;
        }
        let is_test_file = is_test_path(&file.path) || tests.iter().any(|t| is_below(file, t));
        let n_shipped = without_tests(&source.code).lines().count();
        let code: Vec<&str> = source.code.lines().collect();
        let prose: Vec<&str> = source.prose.lines().collect();
        for (n, line) in code.iter().enumerate() {
            let Some((keyword, rest)) = keyword(line) else { continue };
            let end = n + length(&code[n..]);
            let header = header(&code[n..end]);
            let name = match keyword {
                "impl" => implementation(&header).map_or_else(String::new, |of| of.of),
                _ => rest.chars().take_while(|c| is_of_name(*c)).collect(),
            };
            items.push(Item {
                file,
                line: n + 1,
                keyword,
                name,
                header,
                code: code[n..end].to_vec(),
                strings: prose[n..end].iter().flat_map(|line| quoted(line)).collect(),
                is_test: is_test_file || n >= n_shipped,
            });
        }
    }
    items
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The keyword of an item that begins on `line`, and what follows it.
fn keyword(line: &str) -> Option<(&'static str, &str)> {
    let mut rest = line.trim_start();
    if let Some(after) = rest.strip_prefix("pub") {
        let after = after.trim_start();
        rest = match after.strip_prefix('(') {
            Some(inside) => inside.split_once(')')?.1.trim_start(),
            None => after,
        };
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    for keyword in ["trait", "impl", "struct", "enum", "const", "static"] {
        if let Some(after) = rest.strip_prefix(keyword) {
            let is_item = after.starts_with(' ') || keyword == "impl" && after.starts_with('<');
            let after = after.trim_start();
            return (is_item && !after.starts_with("fn ")).then_some((keyword, after));
        }
    }
    let (name, _) = line.split_once("! {")?;
    let is_macro = line.ends_with("! {") && name.chars().all(is_of_name) && !name.is_empty();
    is_macro.then_some(("macro", line))
}

/// The number of lines of the item that begins with the first of `lines`.
fn length(lines: &[&str]) -> usize {
    let mut depth = 0_usize;
    for (n, line) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        let is_ended = line.trim_end().ends_with([';', '}']);
        if depth == 0 && is_ended {
            return n + 1;
        }
    }
    lines.len()
}

fn header(lines: &[&str]) -> String {
    let mut header = String::new();
    for line in lines {
        let end = line.find(['{', ';']).unwrap_or(line.len());
        header.push_str(line[..end].trim());
        header.push(' ');
        if end < line.len() {
            break;
        }
    }
    header.trim_end().to_owned()
}

/// Texts in quotes; none of a line that is a comment.
fn quoted(prose: &str) -> Vec<&str> {
    match prose.trim_start().starts_with("//") {
        true => Vec::new(),
        false => prose.split('"').skip(1).step_by(2).collect(),
    }
}

/// `impl<generics> of_trait for of where bounds`, of a trait.
pub(super) struct Implementation {
    pub(super) of_trait: String,
    pub(super) of: String,
    /// The text in angle brackets after `impl`, and after `where`.
    pub(super) bounds: String,
    /// The trait with its own generics.
    pub(super) trait_with_generics: String,
}

/// Takes the header of an implementation of a trait apart; the inherent ones name no trait.
pub(super) fn implementation(header: &str) -> Option<Implementation> {
    let rest = header.trim_start();
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest).strip_prefix("impl")?;
    let n = generics(rest);
    let (bounds, rest) = rest.split_at(n);
    let (rest, conditions) = rest.split_once(" where ").unwrap_or((rest, ""));
    let named = |text: &str| {
        let path = text.trim().trim_start_matches('&').split('<').next().unwrap_or("").to_owned();
        path.rsplit("::").next().unwrap_or("").trim().to_owned()
    };
    let (of_trait, of) = rest.split_once(" for ")?;
    Some(Implementation {
        of_trait: named(of_trait),
        of: named(of),
        bounds: format!("{bounds} {conditions}"),
        trait_with_generics: of_trait.trim().to_owned(),
    })
}

/// The length of the angle brackets that `text` begins with.
fn generics(text: &str) -> usize {
    let (mut depth, mut before) = (0_usize, ' ');
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        if depth == 0 {
            return if at == 0 { 0 } else { at + 1 };
        }
    }
    text.len()
}

/// Files, without their ending, that a `#[cfg(test)]` puts into tests only.
fn test_modules(tree: &Tree) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (file, source) in tree.rust() {
        let lines: Vec<&str> = source.code.lines().collect();
        for pair in lines.windows(2) {
            let name = pair[1].trim().strip_suffix(';').and_then(|line| line.rsplit_once(' '));
            let (true, Some((before, name))) = (pair[0].trim() == "#[cfg(test)]", name) else {
                continue;
            };
            if !has_word(before, "mod") {
                continue;
            }
            let stem = file.path.strip_suffix(".rs").unwrap_or(&file.path);
            let (folder, last) = stem.rsplit_once('/').unwrap_or(("", stem));
            let base = if matches!(last, "mod" | "lib" | "main") { folder } else { stem };
            found.insert(format!("{base}/{name}"));
        }
    }
    found
}

fn is_below(file: &File, module: &str) -> bool {
    file.path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn is_test_path(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "//! A.\n\
        pub(crate) struct One<T> {\n    a: T, // };\n}\n\
        impl<F: Fn() -> u8> super::Port<F> for One<F>\nwhere\n    F: Clone,\n{\n    fn f() {}\n}\n\
        const NAMES: [&str; 2] = [\n    \"x;\",\n    \"y\",\n];\n\
        protocols! {\n    a,\n}\n\
        #[cfg(test)]\nmod tests {\n    struct Two;\n}\n";

    #[test]
    fn items_are_found_with_their_names_and_bodies() {
        let tree = Tree::made_up(&[
            ("crates/a/src/lib.rs", "//! A.\n#[cfg(test)]\nmod mock;\n"),
            ("crates/a/src/mock.rs", "//! A.\nenum Three {}\n"),
            ("crates/a/src/x/mod.rs", TEXT),
        ]);
        let items = all(&tree);
        let found: Vec<(&str, &str, usize, bool)> = items
            .iter()
            .map(|item| (item.keyword, item.name.as_str(), item.code.len(), item.is_test))
            .collect();
        let expected = [
            ("enum", "Three", 1, true),
            ("struct", "One", 3, false),
            ("impl", "One", 6, false),
            ("const", "NAMES", 4, false),
            ("macro", "protocols", 3, false),
            ("struct", "Two", 1, true),
        ];
        assert_eq!(found, expected);
        assert_eq!(items[3].strings, ["x;", "y"]);
        assert_eq!(items[1].path(), "a::x::One");
    }

    #[test]
    fn an_implementation_is_taken_apart() {
        let of = implementation("impl<F: Fn() -> u8> a::Port<F> for b::One<F> where F: Clone");
        let of = of.expect("of a trait");
        assert_eq!((of.of_trait.as_str(), of.of.as_str()), ("Port", "One"));
        assert!(of.bounds.contains("Fn()") && of.bounds.contains("Clone"), "{}", of.bounds);
        assert!(implementation("impl<T> One<T>").is_none());
    }
}
