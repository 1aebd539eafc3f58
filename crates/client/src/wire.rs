//! One connection: requests out, replies in, every wait bounded.
//!
//! - W1 no wait ends after its deadline: each system call is given what is left. By `left`.
//! - W2 a reply takes no more memory than has arrived of it: lengths that a server claims reserve
//!   nothing, and [`REPLY_BYTES_MAX`] bounds the whole.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use crate::Value;

/// The longest reply; a server's values are far shorter.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Replies in replies. A script answers some hundred levels at most, and a transaction adds one.
const DEPTH_MAX: usize = 128;

/// See the module's text.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    input: Vec<u8>,
    /// Input before this has been used.
    at: usize,
}

/// W1
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("the server sent no RESP: {what}"))
}

/// Appends a request.
pub(crate) fn put_request<A: AsRef<[u8]>>(args: &[A], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        let arg = arg.as_ref();
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// What `connect` makes of the first of the meanings of a name that answers. One that is silent
/// leaves the others their part of the time.
fn first_of<T>(
    mut meanings: Vec<SocketAddr>,
    round: usize,
    until: Instant,
    mut connect: impl FnMut(&SocketAddr, Duration) -> io::Result<T>,
) -> io::Result<T> {
    let n = meanings.len();
    meanings.rotate_left(round.checked_rem(n).unwrap_or(0));
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for (at, meaning) in meanings.iter().enumerate() {
        match connect(meaning, left(until)? / (n - at) as u32) {
            Ok(made) => return Ok(made),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Wire {
    /// Connects to the first of an address's meanings that answers, another one first in each
    /// `round`.
    pub(crate) fn connect(address: &str, round: usize, until: Instant) -> io::Result<Wire> {
        let meanings = address.to_socket_addrs()?.collect();
        let stream = first_of(meanings, round, until, TcpStream::connect_timeout)?;
        stream.set_nodelay(true)?;
        Ok(Wire { stream, input: Vec::new(), at: 0 })
    }

    /// Sends all of it. After an error, any part of it may have arrived.
    pub(crate) fn send(&mut self, mut bytes: &[u8], until: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => bytes = &bytes[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The next reply.
    pub(crate) fn receive(&mut self, until: Instant) -> io::Result<Value> {
        self.input.drain(..self.at);
        self.at = 0;
        self.value(DEPTH_MAX, until)
    }

    fn value(&mut self, depth: usize, until: Instant) -> io::Result<Value> {
        let line = self.line(until)?;
        let (kind, text) = line.split_at_checked(1).ok_or_else(|| malformed("an empty line"))?;
        let number = || text.parse::<i64>().map_err(|_| malformed("no number"));
        match kind {
            "+" => Ok(Value::Simple(text.to_owned())),
            "-" => Ok(Value::Error(text.to_owned())),
            ":" => number().map(Value::Integer),
            "$" => match usize::try_from(number()?) {
                Err(_) => Ok(Value::Nil),
                Ok(len) => self.bulk(len, until).map(Value::Bulk),
            },
            "*" if depth == 0 => Err(malformed("too deep a reply")),
            "*" => match usize::try_from(number()?) {
                Err(_) => Ok(Value::Nil),
                Ok(len) => {
                    let mut values = Vec::new();
                    for _ in 0..len {
                        values.push(self.value(depth - 1, until)?);
                    }
                    Ok(Value::Array(values))
                }
            },
            _ => Err(malformed("an unknown type")),
        }
    }

    fn line(&mut self, until: Instant) -> io::Result<String> {
        let mut seen = self.at;
        loop {
            if let Some(len) = self.input[seen..].windows(2).position(|pair| pair == b"\r\n") {
                let end = seen + len;
                let line = String::from_utf8_lossy(&self.input[self.at..end]).into_owned();
                self.at = end + 2;
                return Ok(line);
            }
            seen = self.input.len().saturating_sub(1).max(self.at);
            self.fill(until)?;
        }
    }

    fn bulk(&mut self, len: usize, until: Instant) -> io::Result<Vec<u8>> {
        if len > REPLY_BYTES_MAX {
            return Err(malformed("too long a reply"));
        }
        while self.input.len() < self.at + len + 2 {
            self.fill(until)?;
        }
        let bytes = self.input[self.at..self.at + len].to_vec();
        self.at += len + 2;
        Ok(bytes)
    }

    /// Reads what has arrived, or waits for something.
    fn fill(&mut self, until: Instant) -> io::Result<()> {
        // W2
        if self.input.len() > 2 * REPLY_BYTES_MAX {
            return Err(malformed("too long a reply"));
        }
        let mut piece = [0; 16 << 10];
        loop {
            self.stream.set_read_timeout(Some(left(until)?))?;
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    self.input.extend_from_slice(&piece[..n]);
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const PATIENCE: Duration = Duration::from_secs(30);

    /// A wire, and the server's end of it.
    fn pair() -> (Wire, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let wire = Wire::connect(&address, 0, Instant::now() + PATIENCE).unwrap();
        (wire, listener.accept().unwrap().0)
    }

    #[test]
    fn replies_are_read_however_they_are_cut() {
        let bytes = b"+OK\r\n*3\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n*0\r\n-ERR no\r\n";
        let (mut wire, mut server) = pair();
        let sender = std::thread::spawn(move || {
            server.set_nodelay(true).unwrap();
            for byte in bytes {
                server.write_all(&[*byte]).unwrap();
            }
            server
        });
        let until = Instant::now() + PATIENCE;
        let mut heard = || wire.receive(until).unwrap();
        assert_eq!(heard(), Value::Simple("OK".into()));
        let inner = vec![Value::Integer(-7), Value::Bulk(b"\r\n".to_vec()), Value::Nil];
        assert_eq!(heard(), Value::Array(inner));
        assert_eq!(heard(), Value::Nil);
        assert_eq!(heard(), Value::Array(Vec::new()));
        assert_eq!(heard(), Value::Error("ERR no".into()));
        drop(sender.join().unwrap());
        assert_eq!(wire.receive(until).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    }

    /// A script answers tables in tables, and a transaction holds its answer.
    #[test]
    fn the_deepest_reply_of_a_server_is_read() {
        let (mut wire, mut server) = pair();
        server.write_all(&[&b"*1\r\n".repeat(101)[..], b":7\r\n"].concat()).unwrap();
        let mut value = wire.receive(Instant::now() + PATIENCE).unwrap();
        for _ in 0..101 {
            let Value::Array(mut values) = value else { panic!("{value:?} in place of an array") };
            value = values.pop().unwrap();
        }
        assert_eq!(value, Value::Integer(7));
    }

    #[test]
    fn w2_what_is_no_reply_is_refused() {
        for bytes in
            [&b"?\r\n"[..], b":x\r\n", b"$99999999999\r\n", b"\r\n", &b"*1\r\n".repeat(200)]
        {
            let (mut wire, mut server) = pair();
            server.write_all(bytes).unwrap();
            let error = wire.receive(Instant::now() + PATIENCE).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidData, "{}", bytes.escape_ascii());
        }
    }

    /// The time was all the first one's, and the next attempt began with it again.
    #[test]
    fn each_meaning_of_a_name_is_tried() {
        let meanings: Vec<SocketAddr> =
            ["127.0.0.1:1", "127.0.0.2:1", "127.0.0.3:1"].map(|text| text.parse().unwrap()).into();
        for (round, first) in [(0, 0), (1, 1), (2, 2), (3, 0)] {
            let mut tried = Vec::new();
            let until = Instant::now() + PATIENCE;
            let found = first_of(meanings.clone(), round, until, |meaning, time| {
                tried.push((*meaning, time));
                if tried.len() < 3 { Err(ErrorKind::TimedOut.into()) } else { Ok(tried.len()) }
            });
            assert_eq!(found.unwrap(), 3);
            let order = [first, (first + 1) % 3, (first + 2) % 3].map(|at| meanings[at]);
            assert_eq!(tried.iter().map(|(meaning, _)| *meaning).collect::<Vec<_>>(), order);
            assert!(tried[0].1 <= PATIENCE / 3 && tried[1].1 <= PATIENCE / 2, "{tried:?}");
        }
        let nothing = first_of(Vec::new(), 1, Instant::now() + PATIENCE, |_, _| Ok(()));
        assert_eq!(nothing.unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn w1_a_wait_ends_with_its_deadline() {
        let (mut wire, _server) = pair();
        let error = wire.receive(Instant::now() + Duration::from_millis(20)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
    }
}
