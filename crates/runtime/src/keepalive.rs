//! Probes of connections whose client says nothing.

use rustix::net::sockopt;
use std::net::TcpStream;
use std::time::Duration;

/// The silence after which the kernel probes a connection's client; as in Redis.
const KEEPALIVE: Duration = Duration::from_secs(300);

/// Lets the kernel find out that a client has vanished silently, which would count for ever. Where
/// it refuses the option only this is lost.
pub fn probe_client(stream: &TcpStream) {
    let _ = sockopt::set_socket_keepalive(stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(stream, KEEPALIVE))
        .and_then(|()| sockopt::set_tcp_keepintvl(stream, KEEPALIVE / 3));
}
