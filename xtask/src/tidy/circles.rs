//! Circles of files that import each other.
//!
//! Two files in a circle can only be understood together, and moved together. A file imports
//! another by a path that begins with `crate`, `super` or `self`; that a module names its own
//! children does not count, since they are its parts. Tests are not looked at.

use super::Tree;
use std::collections::{BTreeMap, BTreeSet};

/// A module of a crate, from its root.
type Module = Vec<String>;

/// The files of each crate that import themselves by way of others.
pub(super) fn find(tree: &Tree) -> BTreeMap<String, Vec<String>> {
    let in_circles = |arrows: &Arrows<'_>| {
        let files = circles(arrows).into_iter().flatten();
        files.map(str::to_owned).collect::<BTreeSet<String>>().into_iter().collect()
    };
    crates(tree).into_iter().map(|(dir, arrows)| (dir, in_circles(&arrows))).collect()
}

/// The circles whose files lie in more than one folder, each as its files. (A file `x.rs` beside a
/// folder `x` belongs to that folder.)
pub(crate) fn between_folders(tree: &Tree) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for arrows in crates(tree).values() {
        for circle in circles(arrows) {
            let folders: BTreeSet<&str> =
                circle.iter().map(|path| folder_of(path, arrows)).collect();
            if folders.len() > 1 {
                found.push(circle.into_iter().map(str::to_owned).collect());
            }
        }
    }
    found
}

/// The files that each file of a crate imports.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn crates(tree: &Tree) -> BTreeMap<String, Arrows<'_>> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, (&str, &str)>> = BTreeMap::new();
    for (file, source) in tree.rust() {
        let Some(dir) = file.crate_dir() else { continue };
        let inside = file.path.strip_prefix(dir).and_then(|rest| rest.strip_prefix("/src/"));
        let Some(module) = inside.and_then(module_of) else { continue };
        crates.entry(dir).or_default().insert(module, (&file.path, without_tests(&source.code)));
    }
    crates.into_iter().map(|(dir, modules)| (dir.to_owned(), arrows(&modules))).collect()
}

fn folder_of<'a>(path: &'a str, arrows: &Arrows<'_>) -> &'a str {
    let stem = path.strip_suffix(".rs").unwrap_or(path);
    let is_above = |other: &&str| other.strip_prefix(stem).is_some_and(|o| o.starts_with('/'));
    let is_folder = arrows.keys().any(is_above);
    if is_folder { stem } else { path.rsplit_once('/').map_or("", |(folder, _)| folder) }
}

/// The strongly connected parts of more than one file, by Tarjan's algorithm.
fn circles<'a>(arrows: &Arrows<'a>) -> Vec<Vec<&'a str>> {
    let mut search = Search { arrows, order: BTreeMap::new(), open: Vec::new(), found: Vec::new() };
    for file in arrows.keys() {
        if !search.order.contains_key(file) {
            search.visit(file);
        }
    }
    search.found.sort();
    search.found
}

struct Search<'a, 'b> {
    arrows: &'b Arrows<'a>,
    /// The order in which a file was first seen, and the earliest open file that it reaches; the
    /// second is meaningless once its circle is closed.
    order: BTreeMap<&'a str, (usize, usize)>,
    /// Seen, and not yet known to be in a closed circle.
    open: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'a, '_> {
    fn visit(&mut self, file: &'a str) -> usize {
        let first = self.order.len();
        self.order.insert(file, (first, first));
        let depth = self.open.len();
        self.open.push(file);
        let mut low = first;
        for next in &self.arrows[file] {
            match self.order.get(next) {
                None => low = low.min(self.visit(next)),
                Some((seen, _)) if self.open.contains(next) => low = low.min(*seen),
                Some(_) => {}
            }
        }
        self.order.insert(file, (first, low));
        if low == first {
            let mut circle = self.open.split_off(depth);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
        low
    }
}

/// The code above the tests that stand in the same file.
pub(crate) fn without_tests(code: &str) -> &str {
    const TESTS: &str = "#[cfg(test)]\nmod ";
    let stands_here = |at: &usize| {
        let rest = &code[at + TESTS.len()..];
        rest.trim_start_matches(is_of_name).trim_start().starts_with('{')
    };
    let at = code.match_indices(TESTS).map(|(at, _)| at).find(stands_here);
    &code[..at.unwrap_or(code.len())]
}

/// The module that a file below `src` is; none for tests.
fn module_of(path: &str) -> Option<Module> {
    let mut module: Module = path.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.iter().any(|part| part == "tests") {
        return None;
    }
    if module.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        module.pop();
    }
    Some(module)
}

fn arrows<'a>(modules: &BTreeMap<Module, (&'a str, &'a str)>) -> Arrows<'a> {
    let arrows = modules.iter().map(|(module, (path, code))| {
        let imported = imports(code).into_iter().filter_map(|path| {
            let at = absolute(module, &path)?;
            // The root names everything.
            (1..=at.len()).rev().find_map(|n| modules.get_key_value(&at[..n]))
        });
        let others = imported.filter(|(to, _)| !to.starts_with(module));
        (*path, others.map(|(_, (path, _))| *path).collect())
    });
    arrows.collect()
}

/// The path from the crate's root.
fn absolute(module: &Module, path: &[&str]) -> Option<Module> {
    let n_up = path.iter().take_while(|part| **part == "super").count();
    let base = match *path.first()? {
        "crate" => &[][..],
        "super" => module.get(..module.len().checked_sub(n_up)?)?,
        _ => module,
    };
    let rest = path.iter().skip(n_up.max(1)).map(|part| (*part).to_owned());
    Some(base.iter().cloned().chain(rest).collect())
}

/// Every path in `code` that begins with `crate`, `super` or `self`.
fn imports(code: &str) -> Vec<Vec<&str>> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find(is_of_name) {
        let is_continued = rest[..at].trim_end().ends_with("::");
        rest = &rest[at..];
        let name = name(rest);
        if name == "pub" {
            // The visibility of an item is not an import.
            rest = rest[name.len()..].trim_start_matches(|c| c != ')' && c != ' ');
        } else if !is_continued && matches!(name, "crate" | "super" | "self") {
            rest = tree(rest, &mut Vec::new(), &mut found);
        } else {
            rest = &rest[name.len()..];
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name(text: &str) -> &str {
    &text[..text.find(|c| !is_of_name(c)).unwrap_or(text.len())]
}

/// Reads a path, or the tree of a `use`, behind `prefix`; returns what follows it.
fn tree<'a>(text: &'a str, prefix: &mut Vec<&'a str>, found: &mut Vec<Vec<&'a str>>) -> &'a str {
    let n = prefix.len();
    let mut rest = text;
    loop {
        if let Some(mut inside) = rest.strip_prefix('{') {
            loop {
                inside = tree(inside.trim_start(), prefix, found).trim_start();
                // What is renamed with `as` ends before its new name.
                inside = inside.find([',', '}']).map_or("", |at| &inside[at..]);
                match inside.strip_prefix(',') {
                    Some(next) => inside = next,
                    None => break,
                }
            }
            prefix.truncate(n);
            return inside.strip_prefix('}').unwrap_or(inside);
        }
        let part = name(rest);
        rest = &rest[part.len()..];
        if !part.is_empty() {
            prefix.push(part);
        }
        match rest.trim_start().strip_prefix("::") {
            Some(next) if !part.is_empty() => rest = next.trim_start(),
            _ => break,
        }
    }
    found.push(prefix.clone());
    prefix.truncate(n);
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<String> {
        find(&Tree::made_up(files)).remove("crates/a").unwrap_or_default()
    }

    #[test]
    fn paths_are_found_where_they_are_written() {
        let code = "use crate::{a::{B, self}, c};\nfn f() { super::d::e(); x::crate_(); }";
        let found = imports(code);
        let expected: [&[&str]; 4] =
            [&["crate", "a", "B"], &["crate", "a", "self"], &["crate", "c"], &["super", "d", "e"]];
        assert_eq!(found, expected);
    }

    #[test]
    fn canary_files_that_import_each_other_are_found() {
        let found = circles(&[
            ("crates/a/src/lib.rs", "mod one; mod two; mod three;"),
            ("crates/a/src/one.rs", "use crate::two::{Two as Second, Other};"),
            ("crates/a/src/two/mod.rs", "mod part; fn f() { super::three::g() }"),
            ("crates/a/src/two/part.rs", "use super::Two;"),
            ("crates/a/src/three.rs", "use crate::one::One;"),
            ("crates/a/src/four.rs", "use crate::one::One; // crate::four"),
        ]);
        let expected = ["crates/a/src/one.rs", "crates/a/src/three.rs", "crates/a/src/two/mod.rs"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_that_only_its_tests_lead_back_to_is_in_no_circle() {
        let found = circles(&[
            ("crates/a/src/one.rs", "use crate::two::Two;"),
            ("crates/a/src/two.rs", "\n#[cfg(test)]\nmod tests {\n    use crate::one::One;\n}\n"),
            ("crates/a/src/two/tests/more.rs", "use crate::one::One;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn canary_what_a_file_imports_below_the_declaration_of_its_tests_counts() {
        let found = circles(&[
            ("crates/a/src/one.rs", "mod part;\n#[cfg(test)]\nmod tests;\n\nuse crate::two::Two;"),
            ("crates/a/src/two.rs", "use crate::one::One;"),
        ]);
        assert_eq!(found, ["crates/a/src/one.rs", "crates/a/src/two.rs"]);
    }

    #[test]
    fn canary_circles_between_folders_are_told_apart() {
        let tree = Tree::made_up(&[
            ("crates/a/src/one/mod.rs", "mod part; mod other;"),
            ("crates/a/src/one/part.rs", "use super::other::Other; use crate::two::Two;"),
            ("crates/a/src/one/other.rs", "use super::part::Part;"),
            ("crates/a/src/two.rs", "use crate::three::Three;"),
            ("crates/a/src/two/more.rs", "use super::Two;"),
            ("crates/a/src/three.rs", "use crate::two::Two;"),
            ("crates/a/src/four.rs", "use crate::five::Five;"),
            ("crates/a/src/five.rs", "use crate::four::Four;"),
        ]);
        // `one` is a circle within one folder, `four` and `five` another; `two.rs` heads a folder.
        let found = between_folders(&tree);
        assert_eq!(found, [["crates/a/src/three.rs", "crates/a/src/two.rs"]]);
    }

    #[test]
    fn a_child_that_imports_nothing_is_in_no_circle() {
        let found = circles(&[
            ("crates/a/src/one/mod.rs", "mod part;\npub use self::part::Part;"),
            ("crates/a/src/one/part.rs", "pub struct Part { pub(super) inside: u8 }"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }
}
