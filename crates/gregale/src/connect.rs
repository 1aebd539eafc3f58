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
    let mut stream = TcpStream::connect_timeout(&address, within)?;
    stream.set_read_timeout(Some(within))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n");
    let head = head.ok_or_else(|| io::Error::other("the answer is not HTTP"))?;
    answer.drain(..head + 4);
    Ok(answer)
}
