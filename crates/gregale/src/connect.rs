//! The cluster to which a command connects.

use clap::Args;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

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

/// The body that the control port at `address` answers with.
///
/// # Errors
/// The port does not answer in time, or with something else.
pub(crate) fn fetch(address: SocketAddr, path: &str, within: Duration) -> io::Result<Vec<u8>> {
    let stream = TcpStream::connect_timeout(&address, within)?;
    let (_, body) = exchange(stream, &format!("GET {path} HTTP/1.0\r\n\r\n"), within)?;
    Ok(body)
}

/// Sends a request over a connection to a control port. Returns the answer's first line and its
/// body.
///
/// # Errors
/// The port does not answer in time, or with something else.
pub(crate) fn exchange(
    mut stream: TcpStream,
    request: &str,
    within: Duration,
) -> io::Result<(String, Vec<u8>)> {
    stream.set_read_timeout(Some(within))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
    let head = head.ok_or_else(|| io::Error::other("the answer is not HTTP"))?;
    let line = String::from_utf8_lossy(&answer[..head]).lines().next().unwrap_or_default().into();
    answer.drain(..head + 4);
    Ok((line, answer))
}
