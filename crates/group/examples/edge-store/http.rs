//! As much of HTTP/1.1 as the store needs: requests with a length, one after the other.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// The longest head of a request, and the longest body.
const HEAD_BYTES_MAX: u64 = 8 << 10;
pub(crate) const BODY_BYTES_MAX: usize = 512;
/// The longest wait for a request or for room for its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    /// The path without the slash before it.
    pub(crate) path: String,
    /// What follows the question mark.
    pub(crate) query: String,
    pub(crate) body: String,
    /// Whether the client wants no answer behind this one.
    is_last: bool,
}

/// An answer: the status, and a text.
#[derive(Debug)]
pub(crate) struct Answer(pub(crate) u16, pub(crate) String);

/// Answers the requests of one connection, until its end.
pub(crate) fn serve(stream: &TcpStream, answer: impl Fn(&Request) -> Answer) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let mut input = BufReader::new(stream);
    loop {
        let (is_last, is_head, Answer(status, text)) = match read(&mut input) {
            Ok(Some(mut request)) => {
                let is_head = request.method == "HEAD";
                if is_head {
                    "GET".clone_into(&mut request.method);
                }
                (request.is_last, is_head, answer(&request))
            }
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                (true, false, Answer(400, error.to_string()))
            }
            Err(error) => return Err(error),
        };
        let head =
            format!("HTTP/1.1 {status} {}\r\nContent-Length: {}", reason(status), text.len());
        let close = if is_last { "\r\nConnection: close" } else { "" };
        // HEAD asks for the length alone.
        let text = if is_head { "" } else { &text };
        let mut output = stream;
        output.write_all(format!("{head}{close}\r\n\r\n{text}").as_bytes())?;
        if is_last {
            return Ok(());
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        409 => "Conflict",
        410 => "Gone",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Unknown",
    }
}

/// The next request; `None` at the end of the connection.
fn read(input: &mut BufReader<&TcpStream>) -> io::Result<Option<Request>> {
    let mut head = String::new();
    let (mut length, mut closes) = (None, false);
    let mut lines = input.by_ref().take(HEAD_BYTES_MAX);
    if lines.read_line(&mut head)? == 0 {
        return Ok(None);
    }
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        match line.trim_end().split_once(':') {
            Some((name, _)) if name.contains(|c: char| c.is_ascii_whitespace()) => {
                return Err(wrong("a blank in, or before, a field's name or its colon"));
            }
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                let n_bytes = number(value.trim())?;
                if length.is_some_and(|other| other != n_bytes) {
                    return Err(wrong("two lengths that differ"));
                }
                length = Some(n_bytes);
            }
            Some((name, value)) if name.eq_ignore_ascii_case("connection") => {
                closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
            }
            Some((name, _)) if name.eq_ignore_ascii_case("transfer-encoding") => {
                return Err(wrong("give the body's Content-Length"));
            }
            Some(_) => {}
            None if line == "\r\n" || line == "\n" => break,
            None => return Err(wrong("this is no HTTP request, or its head is too long")),
        }
    }
    let n_bytes = length.unwrap_or(0);
    if n_bytes > BODY_BYTES_MAX {
        return Err(wrong("the body is too long"));
    }
    let mut body = vec![0; n_bytes];
    input.read_exact(&mut body)?;
    let body = String::from_utf8(body).map_err(|_| wrong("the body is no text"))?;
    let mut words = head.split_ascii_whitespace();
    let (Some(method), Some(target), Some(version @ ("HTTP/1.1" | "HTTP/1.0"))) =
        (words.next(), words.next(), words.next())
    else {
        return Err(wrong("this is no HTTP request"));
    };
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = path.trim_start_matches('/');
    if path.contains('%') {
        return Err(wrong("keys have letters, digits and -._~ alone"));
    }
    Ok(Some(Request {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        body,
        is_last: closes || version == "HTTP/1.0",
    }))
}

/// A length: digits alone, without a sign.
fn number(text: &str) -> io::Result<usize> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| wrong("a length that is no number"))
}

fn wrong(text: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}
