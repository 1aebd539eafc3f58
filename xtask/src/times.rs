//! The times of steps, in a table.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// A file that tables are also written to, one behind the other: `.ci/run` shows them together.
const FILE: &str = "XTASK_TIMES";

/// The steps of a chore.
pub(crate) struct Times {
    chore: &'static str,
    began: Instant,
    rows: Vec<(String, Duration)>,
}

impl Times {
    pub(crate) fn new(chore: &'static str) -> Times {
        Times { chore, began: Instant::now(), rows: Vec::new() }
    }

    /// Does `what`, and remembers how long it took.
    pub(crate) fn step<T>(&mut self, name: &str, what: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = what();
        self.add(name, began.elapsed());
        done
    }

    pub(crate) fn add(&mut self, name: &str, took: Duration) {
        self.rows.push((name.to_owned(), took));
    }

    /// Adds the slowest parts first, and all others in one line.
    pub(crate) fn add_slowest(&mut self, parts: &[(String, Duration)], n: usize) {
        let mut parts: Vec<_> = parts.iter().collect();
        parts.sort_by_key(|(_, took)| std::cmp::Reverse(*took));
        let (slowest, others) = parts.split_at(n.min(parts.len()));
        for (name, took) in slowest {
            self.add(&format!("  {name}"), *took);
        }
        if !others.is_empty() {
            let took = others.iter().map(|(_, took)| *took).sum();
            self.add(&format!("  {} others", others.len()), took);
        }
    }

    fn table(&self, whole: Duration) -> String {
        let mut text = format!("--- {}: seconds\n", self.chore);
        for (name, took) in &self.rows {
            let _ = writeln!(text, "{name:<44} {:>8.1}", took.as_secs_f64());
        }
        let _ = writeln!(text, "{:<44} {:>8.1}", "all", whole.as_secs_f64());
        text
    }

    /// Prints the table.
    pub(crate) fn tell(&self) {
        let text = self.table(self.began.elapsed());
        print!("{text}");
        let Some(path) = std::env::var_os(FILE) else { return };
        let file = OpenOptions::new().create(true).append(true).open(&path);
        if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
            eprintln!("cannot write {}: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_come_first_and_the_others_are_summed_up() {
        let mut times = Times::new("chore");
        times.step("build", || ());
        times.rows[0].1 = Duration::from_millis(1_500);
        let parts = [("a", 1), ("b", 30), ("c", 2), ("d", 4)]
            .map(|(name, seconds)| (name.to_owned(), Duration::from_secs(seconds)));
        times.add_slowest(&parts, 2);
        let table = times.table(Duration::from_secs(40));
        let words: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        let expected: [&[&str]; 6] = [
            &["---", "chore:", "seconds"],
            &["build", "1.5"],
            &["b", "30.0"],
            &["d", "4.0"],
            &["2", "others", "3.0"],
            &["all", "40.0"],
        ];
        assert_eq!(words, expected);
    }
}
