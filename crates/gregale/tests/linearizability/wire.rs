//! One connection to one member: requests out, replies in, each wait bounded.

use redis::{Cmd, Parser, Value};
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// The time for a member to accept a connection. The supervisor holds the listening sockets, so
/// even a dead member's port accepts at once.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// The outcome of a command.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A reply that is not an error.
    Reply(Value),
    /// A report of the service that nothing was changed, which must be true.
    Refused,
    /// A report of the service that the outcome is unknown.
    Unknown,
    /// No reply in time, or a lost connection.
    Lost,
}

/// The connection; see the module's text.
pub(crate) struct Wire {
    stream: TcpStream,
    parser: Parser,
}

impl Wire {
    /// A connection on which each reply is waited for at most `patience`.
    pub(crate) fn connect(port: u16, patience: Duration) -> io::Result<Wire> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let stream = TcpStream::connect_timeout(&address, CONNECT_WITHIN)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Wire { stream, parser: Parser::new() })
    }

    /// Sends commands in one write. An error does not tell how much of them has arrived.
    pub(crate) fn send(&mut self, commands: &[Cmd]) -> io::Result<()> {
        let bytes: Vec<u8> = commands.iter().flat_map(Cmd::get_packed_command).collect();
        self.stream.write_all(&bytes)
    }

    /// The next reply.
    ///
    /// # Panics
    /// At an error that no command of these tests may get: it is a finding, and must not pass for
    /// an unknown outcome.
    pub(crate) fn receive(&mut self) -> Heard {
        match self.parser.parse_value(&mut self.stream) {
            Ok(Value::ServerError(error)) => match error.code() {
                "TRYAGAIN" | "LOADING" | "EXECABORT" => Heard::Refused,
                "UNKNOWN" => Heard::Unknown,
                _ => panic!("an answer that nothing here deserves: {error}"),
            },
            Ok(value) => Heard::Reply(value),
            Err(error) if error.is_io_error() => Heard::Lost,
            Err(error) => panic!("bytes that are no reply: {error}"),
        }
    }

    /// Sends commands and returns the outcome of the last one.
    pub(crate) fn ask(&mut self, commands: &[Cmd]) -> Heard {
        let mut heard = Heard::Lost;
        if self.send(commands).is_ok() {
            for _ in commands {
                heard = self.receive();
                if matches!(heard, Heard::Lost) {
                    break;
                }
            }
        }
        heard
    }
}
