//! The programs that are replicated, and what their clients say.

use crate::group::Error;
use crate::kv::load::{self, VALUE_BYTES};
use crate::pipeline::Pipeline;
use crate::process::Running;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// redis-server: one thread, its replies are known.
    Redis,
    /// memcached with four threads.
    Memcached,
}

/// The order in which copies see the input of different connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The next connection's input when the program is at rest.
    Serial,
    /// The rest of a value of the log with each turn of the program's loop, which ends when all its
    /// threads wait.
    Loop,
    /// The same, of turns that end when every request has its reply.
    LoopByReplies,
}

impl Order {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Order::Serial => "serial",
            Order::Loop => "loop",
            Order::LoopByReplies => "loop by replies",
        }
    }

    /// `--program-order`.
    pub(super) const fn flag(self) -> &'static str {
        match self {
            Order::Serial => "serial",
            Order::Loop | Order::LoopByReplies => "loop",
        }
    }
}

impl Program {
    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Program::Redis => "redis",
            Program::Memcached => "memcached",
        }
    }

    /// Whether copies of it agree under the order: several loops have no turns to share.
    pub(super) fn takes(self, order: Order) -> bool {
        order == Order::Serial || self == Program::Redis
    }

    /// `--program-rest`, where it is not the usual one.
    pub(super) fn rest(self, order: Order) -> Option<&'static str> {
        (order == Order::LoopByReplies).then(|| self.protocol())
    }

    /// The command line to replicate.
    pub(super) const fn command(self) -> &'static str {
        match self {
            Program::Redis => {
                "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' --timeout 0"
            }
            Program::Memcached => "memcached -s {socket} -U 0 -t 4 -u root",
        }
    }

    /// Writes of one key by so many clients, one under way at each.
    pub(super) fn load(self, clients: usize) -> Pipeline {
        match self {
            Program::Redis => load::sets(clients, 1),
            Program::Memcached => {
                let value = "x".repeat(VALUE_BYTES);
                let mut all = Pipeline::new(clients);
                let request = format!("set bench:k 0 0 {VALUE_BYTES}\r\n{value}\r\n");
                all.push(&request, "STORED\r\n");
                all
            }
        }
    }

    /// Reads of that key, once it was written.
    pub(super) fn reads(self, clients: usize) -> Pipeline {
        match self {
            Program::Redis => load::gets(clients),
            Program::Memcached => {
                let value = "x".repeat(VALUE_BYTES);
                let mut all = Pipeline::new(clients);
                let reply = format!("VALUE bench:k 0 {VALUE_BYTES}\r\n{value}\r\nEND\r\n");
                all.push("get bench:k\r\n", &reply);
                all
            }
        }
    }

    /// Its protocol, as `--program-reads` and `--program-rest` name it.
    pub(super) const fn protocol(self) -> &'static str {
        match self {
            Program::Redis => "resp",
            Program::Memcached => "memcached",
        }
    }

    /// Sets a number to zero; the answer is one line.
    pub(super) const fn zero(self) -> &'static str {
        match self {
            Program::Redis => "SET n 0\r\n",
            Program::Memcached => "set n 0 0 1\r\n0\r\n",
        }
    }

    /// Adds one to it; the answer is a line with the sum.
    pub(super) const fn increment(self) -> &'static str {
        match self {
            Program::Redis => "INCR n\r\n",
            Program::Memcached => "incr n 1\r\n",
        }
    }

    /// Starts it at a TCP port, alone, with its files in `directory`.
    ///
    /// # Errors
    /// It is not installed, or does not listen.
    pub(super) fn start_at_port(self, port: u16, directory: &Path) -> Result<Running, Error> {
        let port_text = port.to_string();
        let mut command = Command::new(self.file());
        match self {
            Program::Redis => {
                command.args(["--port", &port_text, "--bind", "127.0.0.1", "--save", "", "--dir"]);
                command.arg(directory);
            }
            Program::Memcached => {
                command.args(["-p", &port_text, "-l", "127.0.0.1", "-U", "0", "-t", "4"]);
                command.args(["-u", "root"]);
            }
        }
        let mut running = Running::start(&mut command)?;
        running.wait_for_port(port, PATIENCE)?;
        Ok(running)
    }

    /// Starts it at a Unix socket, as a copy is started.
    ///
    /// # Errors
    /// It is not installed, or does not listen.
    pub(super) fn start_at_socket(self, socket: &Path, directory: &Path) -> Result<Running, Error> {
        let mut command = Command::new(self.file());
        match self {
            Program::Redis => {
                command.args(["--port", "0", "--save", "", "--unixsocket"]).arg(socket);
                command.arg("--dir").arg(directory);
            }
            Program::Memcached => {
                command.arg("-s").arg(socket).args(["-U", "0", "-t", "4", "-u", "root"]);
            }
        }
        let mut running = Running::start(&mut command)?;
        running.wait_for_socket(socket, PATIENCE)?;
        Ok(running)
    }

    const fn file(self) -> &'static str {
        match self {
            Program::Redis => "redis-server",
            Program::Memcached => "memcached",
        }
    }
}
