//! Addresses of this machine for processes that are yet to be started.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The number of calls of this process that have hosts of their own.
const CALLS: u32 = 64;

/// `n` addresses that are free now, on a loopback host that no other caller has: a port of
/// 127.0.0.1 that is free now can be the source of another program's connection in a moment, or the
/// address of another group.
pub(crate) fn free(n: usize) -> io::Result<Vec<SocketAddr>> {
    static N_CALLS: AtomicU32 = AtomicU32::new(0);
    let call = N_CALLS.fetch_add(1, Ordering::Relaxed) % CALLS;
    // (All ones are no host.)
    let number = std::process::id().wrapping_mul(CALLS).wrapping_add(call) % 0x00ff_ffff;
    let host = Ipv4Addr::from_bits(127 << 24 | number);
    let listeners: Vec<TcpListener> =
        (0..n).map(|_| TcpListener::bind((host, 0))).collect::<io::Result<_>>()?;
    listeners.iter().map(TcpListener::local_addr).collect()
}
