//! The test binary, started again as a node: its arguments, and its output.

use multicast::System;
use std::fmt::Display;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

/// A process that runs the test `child`, with its input and the lines that it prints.
pub(crate) struct Started {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) lines: Receiver<String>,
}

/// Starts one; it finds `words` and then the addresses of `system` in the variable `role`.
pub(crate) fn start(role: &str, words: &[&dyn Display], system: &System) -> Started {
    let words = words.iter().map(ToString::to_string);
    let addresses = system.addresses.iter().map(ToString::to_string);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture", "--test-threads=1"])
        .env(role, words.chain(addresses).collect::<Vec<_>>().join(" "))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (to, lines) = channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if to.send(line).is_err() {
                break;
            }
        }
    });
    let input = child.stdin.take().unwrap();
    Started { child, input, lines }
}
