//! A process of our own under measurement: lines of JSON to it and from it, and the directory that
//! it shares with the other processes.

use crate::group::{Error, Launcher};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A process that sends `Said`. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Child<Said> {
    /// The process's number in errors, from 1.
    number: usize,
    process: std::process::Child,
    input: ChildStdin,
    said: Receiver<Said>,
}

impl<Said: DeserializeOwned + Send + 'static> Child<Said> {
    /// Starts the process and sends it the first line.
    pub(crate) fn start(
        launcher: &Launcher,
        number: usize,
        first: &impl Serialize,
    ) -> Result<Child<Said>, Error> {
        let mut process = Command::new(&launcher.program)
            .args(&launcher.arguments)
            .envs(launcher.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|source| Error::os(format!("start {}", launcher.program.display()), source))?;
        let input = process.stdin.take().expect("it was piped");
        let output = BufReader::new(process.stdout.take().expect("it was piped"));
        let (to, said) = channel();
        std::thread::spawn(move || {
            // Lines in another format come from a test harness.
            let lines = output.lines().map_while(Result::ok);
            for what in lines.filter_map(|line| serde_json::from_str(&line).ok()) {
                if to.send(what).is_err() {
                    break;
                }
            }
        });
        let mut child = Child { number, process, input, said };
        child.tell(first)?;
        Ok(child)
    }

    /// Sends it a line.
    pub(crate) fn tell(&mut self, what: &impl Serialize) -> Result<(), Error> {
        write_line(&mut self.input, what)
            .map_err(|source| Error::os(format!("talk to member {}", self.number), source))
    }

    /// The next message; `None` after `patience` without one.
    pub(crate) fn hear(&self, patience: Duration) -> Result<Option<Said>, Error> {
        match self.said.recv_timeout(patience) {
            Ok(said) => Ok(Some(said)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.failed("it has ended")),
        }
    }

    /// The error for a process that has not said in time what was due.
    pub(crate) fn late(&self, patience: Duration) -> Error {
        Error::late(format!("member {} said nothing", self.number), patience)
    }

    /// The error for a process that reports a failure, or sends an unexpected message.
    pub(crate) fn failed(&self, cause: impl Into<String>) -> Error {
        Error::Worker { member: self.number, cause: cause.into() }
    }

    pub(crate) fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.process)
    }
}

impl<Said> Drop for Child<Said> {
    fn drop(&mut self) {
        // The process may be dead already, which is fine.
        let _dead = self.process.kill();
        let _reaped = self.process.wait();
    }
}

/// Says it to the parent of this process.
pub(crate) fn say(what: &impl Serialize) {
    // If the parent is gone, no process reads this, and the input's end stops this one.
    let _gone = write_line(&mut std::io::stdout().lock(), what);
}

fn write_line(out: &mut impl Write, what: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_string(what).expect("it is plain data");
    line.push('\n');
    out.write_all(line.as_bytes())?;
    out.flush()
}

/// A directory in memory for the files of one cluster, removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn make(cluster: &str) -> Result<Directory, Error> {
        let path = Path::new("/dev/shm").join(format!("gregale-{cluster}"));
        match std::fs::create_dir(&path) {
            Ok(()) => Ok(Directory(path)),
            Err(source) => Err(Error::os(format!("make the directory {}", path.display()), source)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // The directory contains only files of this process; if it cannot be removed, the next
        // sweep removes it.
        let _swept = std::fs::remove_dir_all(&self.0);
    }
}
