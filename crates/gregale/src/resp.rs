//! A client connection to a member, for the commands of this program that need one.

use console::{Failure, Outcome};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// The longest string that is accepted.
const STRING_BYTES_MAX: usize = 64 << 20;
/// The longest line, and the longest list.
const LINE_BYTES_MAX: u64 = 64 << 10;
const LIST_LEN_MAX: usize = 1024;

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    /// A simple string, `+`.
    Simple(String),
    /// An error, `-`, without that character.
    Error(String),
    /// An integer, `:`.
    Integer(i64),
    /// A string, `$`.
    Bulk(Vec<u8>),
    /// Null.
    Nil,
    /// A list, `*`.
    Array(Vec<Value>),
}

/// The connection to a member; see the module's text.
#[derive(Debug)]
pub(crate) struct Connection {
    reader: BufReader<TcpStream>,
    address: SocketAddr,
    within: Duration,
}

impl Connection {
    /// Connects, and sends the password if there is one. `within` bounds each wait.
    pub(crate) fn open(
        address: SocketAddr,
        password: Option<&str>,
        within: Duration,
    ) -> Outcome<Connection> {
        let stream = Connection::stream(address, within)
            .map_err(|error| unanswered(address, &none_within(within, error)))?;
        let mut connection = Connection { reader: BufReader::new(stream), address, within };
        if let Some(password) = password {
            connection.ask(&[b"AUTH", password.as_bytes()])?;
        }
        Ok(connection)
    }

    fn stream(address: SocketAddr, within: Duration) -> io::Result<TcpStream> {
        let stream = TcpStream::connect_timeout(&address, within)?;
        stream.set_read_timeout(Some(within))?;
        stream.set_write_timeout(Some(within))?;
        stream.set_nodelay(true)?;
        Ok(stream)
    }

    /// Sends a command, and returns its reply, which must not be an error.
    pub(crate) fn ask(&mut self, words: &[&[u8]]) -> Outcome<Value> {
        match self.call(words).map_err(|error| unanswered(self.address, &error))? {
            Value::Error(line) => Err(refused(self.address, &line)),
            value => Ok(value),
        }
    }

    /// Sends a command, and returns its reply; an error of the member is a value.
    pub(crate) fn call(&mut self, words: &[&[u8]]) -> io::Result<Value> {
        let mut request = Vec::new();
        encode(words, &mut request);
        self.send(&request)?;
        self.receive()
    }

    /// Sends bytes made by [`encode`].
    pub(crate) fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let within = self.within;
        self.reader.get_mut().write_all(request).map_err(|error| none_within(within, error))
    }

    /// Reads the next reply.
    pub(crate) fn receive(&mut self) -> io::Result<Value> {
        self.value(true).map_err(|error| none_within(self.within, error))
    }

    /// Lists of lists are not expected, and refused.
    fn value(&mut self, may_be_a_list: bool) -> io::Result<Value> {
        let line = self.line()?;
        let wrong = || strange(&line);
        let (kind, rest) = line.split_at_checked(1).ok_or_else(wrong)?;
        let counted = |max: usize| match rest.parse::<i64>() {
            Ok(-1) => Ok(None),
            Ok(n) if (0..=max as i64).contains(&n) => Ok(Some(n as usize)),
            _ => Err(wrong()),
        };
        Ok(match kind {
            "+" => Value::Simple(rest.to_owned()),
            "-" => Value::Error(rest.to_owned()),
            ":" => Value::Integer(rest.parse().map_err(|_| wrong())?),
            "$" => match counted(STRING_BYTES_MAX)? {
                None => Value::Nil,
                Some(n) => {
                    let mut bytes = vec![0; n + 2];
                    self.reader.read_exact(&mut bytes)?;
                    bytes.truncate(n);
                    Value::Bulk(bytes)
                }
            },
            "*" if may_be_a_list => match counted(LIST_LEN_MAX)? {
                None => Value::Nil,
                Some(n) => {
                    let items: io::Result<Vec<Value>> = (0..n).map(|_| self.value(false)).collect();
                    Value::Array(items?)
                }
            },
            _ => return Err(wrong()),
        })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut line)?;
        match line.strip_suffix("\r\n") {
            Some(line) => Ok(line.to_owned()),
            None if line.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            None => Err(strange(&line)),
        }
    }
}

/// Appends a command.
pub(crate) fn encode(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn strange(line: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("it answers {line:?}, which is no reply"))
}

/// A time-out, for which the system has several names, depending on the call.
fn none_within(within: Duration, error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let seconds = within.as_secs_f64();
            io::Error::new(ErrorKind::TimedOut, format!("none within {seconds} s"))
        }
        _ => error,
    }
}

/// The other way to members, where the client ports are not theirs.
pub(crate) const OF_A_PROGRAM: &str = "the client ports of a replicated program are the program's: \
    there `status` and `member` take --control ADDRESS:PORT, which `gregale up` prints";

/// The failure of a member that did not answer.
pub(crate) fn unanswered(address: SocketAddr, error: &io::Error) -> Failure {
    Failure::new(format_args!(
        "no answer from {address}: {error}; is the cluster up? Any live member's client port will \
         do: --connect ADDRESS:PORT; {OF_A_PROGRAM}"
    ))
}

/// The failure of a command that the member refused with this line.
pub(crate) fn refused(address: SocketAddr, line: &str) -> Failure {
    let mend = if line.starts_with("NOAUTH") || line.starts_with("WRONGPASS") {
        "; give --password, or set GREGALE_REQUIREPASS".to_owned()
    } else if line.contains("unknown command") {
        format!("; is it another server's port? {OF_A_PROGRAM}")
    } else {
        String::new()
    };
    Failure::new(format_args!("{address} answers {line:?}{mend}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn answers(bytes: &'static [u8]) -> io::Result<Value> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            assert_eq!(&request, b"*1\r\n$4\r\nPING\r\n");
            stream.write_all(bytes).unwrap();
        });
        let answer =
            Connection::open(address, None, Duration::from_secs(10)).unwrap().call(&[b"PING"]);
        server.join().unwrap();
        answer
    }

    #[test]
    fn replies_are_read_as_they_were_meant() {
        assert_eq!(answers(b"$3\r\na\r\n\r\n").unwrap(), Value::Bulk(b"a\r\n".to_vec()));
        let list = Value::Array(vec![Value::Integer(-7), Value::Nil, Value::Simple("OK".into())]);
        assert_eq!(answers(b"*3\r\n:-7\r\n$-1\r\n+OK\r\n").unwrap(), list);
        assert_eq!(answers(b"*0\r\n").unwrap(), Value::Array(vec![]));
        assert_eq!(answers(b"-ERR no\r\n").unwrap(), Value::Error("ERR no".into()));
    }

    /// "Resource temporarily unavailable (os error 11)" would not explain the cause.
    #[test]
    fn a_member_that_says_nothing_is_named_with_the_time_it_had() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let within = Duration::from_millis(10);
        let mut silent = Connection::open(address, None, within).unwrap();
        let failure = silent.ask(&[b"PING"]).unwrap_err().to_string();
        assert!(failure.contains("none within 0.01 s; is the cluster up?"), "{failure}");
    }

    /// The client port of a replicated program is another server's.
    #[test]
    fn a_client_port_of_a_replicated_program_leads_to_its_control_ports() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7000));
        let strange = unanswered(address, &strange("ERROR\r\n")).to_string();
        let unknown = refused(address, "ERR unknown command 'GREGALE.BACKUP'").to_string();
        for failure in [strange, unknown] {
            assert!(failure.contains("`member` take --control ADDRESS:PORT, which"), "{failure}");
        }
        let other = refused(address, "ERR no").to_string();
        assert_eq!(other, "127.0.0.1:7000 answers \"ERR no\"");
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for wrong in
            [&b"$99999999999\r\n"[..], b"*9999\r\n", b"?\r\n", b"\r\n", b"+OK", b"$3\r\nab"]
        {
            assert!(answers(wrong).is_err(), "{wrong:?}");
        }
    }
}
