//! A real redis-server for the duration of a test, and a client that speaks raw RESP to it.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest time to a local server's reply, unless something is broken.
const DEADLINE: Duration = Duration::from_secs(20);

/// A server on a Unix socket in a directory of its own; dropping it removes both.
pub(crate) struct Server {
    process: Child,
    directory: tempfile::TempDir,
}

impl Server {
    pub(crate) fn start() -> Server {
        let directory = tempfile::tempdir().unwrap();
        let started = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(directory.path())
            .arg("--unixsocket")
            .arg(directory.path().join("redis.sock"))
            .stdout(Stdio::null())
            .spawn();
        let process = match started {
            Ok(process) => process,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                panic!("redis-server is not installed: apt-get install -y redis-server")
            }
            Err(error) => panic!("redis-server does not start: {error}"),
        };
        Server { process, directory }
    }

    pub(crate) fn connect(&self) -> Client {
        let socket = self.directory.path().join("redis.sock");
        let deadline = Instant::now() + DEADLINE;
        loop {
            match UnixStream::connect(&socket) {
                Ok(stream) => return Client::new(stream),
                Err(error) => assert!(Instant::now() < deadline, "redis-server: {error}"),
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already; then there is nothing to stop.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

pub(crate) struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    fn new(stream: UnixStream) -> Client {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Client { stream: BufReader::new(stream) }
    }

    /// Sends a command and returns the bytes of its reply.
    pub(crate) fn call(&mut self, args: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", args.len()).into_bytes();
        for arg in args {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.stream.get_mut().write_all(&request).unwrap();
        let mut reply = Vec::new();
        self.read_reply(&mut reply);
        reply
    }

    /// Sends bytes, ends the sending direction, and returns all that comes back.
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Vec<u8> {
        let stream = self.stream.get_mut();
        // The server may close before it has read everything; only its answers count.
        drop(stream.write_all(bytes));
        drop(stream.shutdown(std::net::Shutdown::Write));
        let mut output = Vec::new();
        match self.stream.read_to_end(&mut output) {
            Ok(_) => {}
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
        }
        output
    }

    fn read_reply(&mut self, reply: &mut Vec<u8>) {
        let start = reply.len();
        self.stream.read_until(b'\n', reply).unwrap();
        let line = &reply[start..];
        assert!(line.ends_with(b"\r\n"), "redis-server closed the connection");
        let count = || std::str::from_utf8(&line[1..line.len() - 2]).unwrap().parse::<i64>();
        match line[0] {
            b'$' | b'=' => {
                if let Ok(bytes @ 0..) = count() {
                    let from = reply.len();
                    reply.resize(from + bytes as usize + 2, 0);
                    self.stream.read_exact(&mut reply[from..]).unwrap();
                }
            }
            b'*' | b'~' | b'>' => (0..count().unwrap()).for_each(|_| self.read_reply(reply)),
            b'%' => (0..2 * count().unwrap()).for_each(|_| self.read_reply(reply)),
            _ => {}
        }
    }
}
