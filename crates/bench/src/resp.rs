//! A client that fills a server with keys and asks for their number.

use crate::group::Error;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::ops::Range;
use std::time::{Duration, Instant};

/// The longest time of one answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The connections that fill, each with this many SETs under way.
const CLIENTS: u64 = 8;
const PIPELINE: u64 = 64;

/// A key in the form of redis-benchmark's `-r`, so that its SETs overwrite these.
fn key(n: u64) -> String {
    format!("key:{n:012}")
}

/// The bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// SETs the keys from 0 to `n` to values of `value_bytes`.
///
/// # Errors
/// The server is not there, or answers with an error.
pub(crate) fn fill(port: u16, n: u64, value_bytes: usize) -> Result<(), Error> {
    let value = "x".repeat(value_bytes);
    std::thread::scope(|scope| {
        let part = |at: u64| (n * at / CLIENTS)..(n * (at + 1) / CLIENTS);
        let started: Vec<_> = (0..CLIENTS)
            .map(|at| {
                let value = &value;
                scope.spawn(move || fill_part(port, part(at), value))
            })
            .collect();
        started.into_iter().try_for_each(|thread| {
            let failed = |_| Error::Peer("a client of the benchmark panicked".to_owned());
            thread.join().map_err(failed)?
        })
    })
}

fn fill_part(port: u16, keys: Range<u64>, value: &str) -> Result<(), Error> {
    let failed = |source| Error::os(format!("fill the server at port {port}"), source);
    let mut client = Client::connect(port).map_err(failed)?;
    let mut request = String::new();
    for first in keys.clone().step_by(PIPELINE as usize) {
        let batch = first..(first + PIPELINE).min(keys.end);
        request.clear();
        for n in batch.clone() {
            request += &command(&["SET", &key(n), value]);
        }
        client.stream.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        for _ in batch {
            let line = client.line().map_err(failed)?;
            if line != "+OK" {
                return Err(Error::Peer(format!("port {port} answers SET with {line}")));
            }
        }
    }
    Ok(())
}

/// Waits until the server counts `n` keys.
///
/// # Errors
/// It does not in time; the error contains its last answer.
pub(crate) fn wait_for_keys(port: u16, n: u64, patience: Duration) -> Result<(), Error> {
    let until = Instant::now() + patience;
    loop {
        let said = count(port);
        match &said {
            Ok(line) if *line == format!(":{n}") => return Ok(()),
            _ if Instant::now() < until => std::thread::sleep(Duration::from_millis(1)),
            Ok(line) => {
                let text = format!("port {port} answers DBSIZE with {line}, not with {n} keys");
                return Err(Error::Peer(text));
            }
            Err(_) => return said.map(drop).map_err(|e| Error::os(format!("ask port {port}"), e)),
        }
    }
}

fn count(port: u16) -> std::io::Result<String> {
    let mut client = Client::connect(port)?;
    client.stream.get_mut().write_all(command(&["DBSIZE"]).as_bytes())?;
    client.line()
}

fn command(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        let _infallible = write!(text, "${}\r\n{word}\r\n", word.len());
    }
    text
}

struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    fn connect(port: u16) -> std::io::Result<Client> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream) })
    }

    fn line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    #[test]
    fn a_command_is_framed_as_resp_wants_it() {
        assert_eq!(command(&["SET", "k", "vv"]), "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvv\r\n");
        assert_eq!(key(7).len(), KEY_BYTES);
    }

    #[test]
    fn every_key_is_set_once_and_an_error_is_told() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let (n, frame) = (200u64, command(&["SET", &key(0), "xxx"]).len());
        let server = std::thread::spawn(move || {
            let serve = |stream: TcpStream, reply: &'static [u8]| {
                std::thread::spawn(move || {
                    let (mut stream, mut seen, mut bytes) = (stream, 0u64, vec![0; frame]);
                    while stream.read_exact(&mut bytes).is_ok() {
                        seen += 1;
                        if stream.write_all(reply).is_err() {
                            break;
                        }
                    }
                    seen
                })
            };
            let accept = |reply| serve(listener.accept().expect("a client").0, reply);
            let filled: Vec<_> = (0..CLIENTS).map(|_| accept(b"+OK\r\n")).collect();
            let filled: u64 = filled.into_iter().map(|thread| thread.join().expect("ends")).sum();
            let refused: Vec<_> = (0..CLIENTS).map(|_| accept(b"-ERR no\r\n")).collect();
            refused.into_iter().for_each(|thread| drop(thread.join()));
            filled
        });
        fill(port, n, 3).expect("all answers are good");
        let refused = fill(port, n, 3).expect_err("no answer is good");
        assert!(refused.to_string().contains("-ERR no"), "{refused}");
        assert_eq!(server.join().expect("ends"), n);
    }
}
