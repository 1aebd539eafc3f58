//! The cluster to which a command connects.

use crate::config;
use clap::Args;
use console::Failure;
use runtime::By;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest answer of a control port.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// The address of a cluster, and its password.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Any live member's client address.
    #[arg(
        long = "connect",
        value_name = "CONNECT",
        env = "GREGALE_CONNECT",
        default_value = "127.0.0.1:7000"
    )]
    pub(crate) address: SocketAddr,
    /// The password, if the cluster wants one.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) password: Option<String>,
}

impl ConnectArgs {
    /// The password, if there is one.
    pub(crate) fn password(&self) -> Option<&str> {
        config::password(self.password.as_deref())
    }
}

/// The body that the control port at `address` answers with.
///
/// # Errors
/// The port does not answer in time, or with something else.
pub(crate) fn fetch(address: SocketAddr, path: &str, within: Duration) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&address, within)?;
    let (_, body) = exchange(stream, &format!("GET {path} HTTP/1.0\r\n\r\n"), within)?;
    Ok(body)
}

/// The failure of a control port that did not answer.
pub(crate) fn unanswered(address: SocketAddr, error: &io::Error, within: Duration) -> Failure {
    let cause = match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("nothing for {} s", within.as_secs())
        }
        _ => error.to_string(),
    };
    Failure::new(format_args!(
        "no answer from {address}: {cause}; is it a control port, and not a client port? `gregale \
         up` prints them: --control ADDRESS:PORT"
    ))
}

/// Sends a request over a connection to a control port. Returns the answer's first line and its
/// body.
///
/// # Errors
/// The port does not answer in time, or with something else.
pub(crate) fn exchange(
    stream: TcpStream,
    request: &str,
    within: Duration,
) -> io::Result<(String, Vec<u8>)> {
    let until = Instant::now() + within;
    (&stream).write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    By { stream: &stream, until }.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
    let head = head.ok_or_else(|| io::Error::other("the answer is not HTTP"))?;
    let line = String::from_utf8_lossy(&answer[..head]).lines().next().unwrap_or_default().into();
    answer.drain(..head + 4);
    Ok((line, answer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_answer_that_comes_a_byte_at_a_time_is_not_waited_for_longer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut drips, _) = listener.accept().unwrap();
        let dripping = std::thread::spawn(move || {
            while drips.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5)); // slower than any bound of bytes
            }
        });
        let within = Duration::from_millis(100);
        let refused = exchange(stream, "GET /card HTTP/1.0\r\n\r\n", within).unwrap_err();
        let is_late =
            [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&refused.kind());
        assert!(is_late, "{refused}");
        dripping.join().unwrap();
    }

    #[test]
    fn a_port_that_says_nothing_is_named_with_the_mend() {
        let address = SocketAddr::from(([127, 0, 0, 1], 7000));
        let silent = io::ErrorKind::WouldBlock.into();
        let said = unanswered(address, &silent, Duration::from_secs(3)).to_string();
        assert!(said.contains("nothing for 3 s; is it a control port"), "{said}");
    }
}
