//! Connections to the program.

use super::super::place::Address;
use super::Copy;
use replicate::program::Connected;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::time::Instant;

/// Whether other files have the descriptors: that is no word of the program's.
fn is_of_descriptors(error: Errno) -> bool {
    matches!(error, Errno::MFILE | Errno::NFILE)
}

/// The same, of a program that `may_listen`: it starts, or has many to accept.
fn refused(error: Errno, may_listen: bool) -> Connected {
    match error {
        error if is_of_descriptors(error) => Connected::Later,
        Errno::CONNREFUSED | Errno::NOENT | Errno::AGAIN if may_listen => Connected::Later,
        _ => Connected::Refused,
    }
}

impl Copy {
    /// A stream that the program has, or accepts next. (A non-blocking connection to a port begins
    /// with `INPROGRESS` even if no process listens: a leg that failed later would be lost in this
    /// copy alone.)
    pub(super) fn connected(&mut self) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match &self.place.address {
            Address::Socket(_) | Address::Directory(_) => {
                let path = self.place.socket().ok_or(Errno::NOENT)?;
                let fd =
                    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
                rustix::net::connect(&fd, &SocketAddrUnix::new(&path)?)?;
                Ok(fd)
            }
            Address::Udp(address) => {
                if !self.start.is_seen {
                    return Err(Errno::CONNREFUSED);
                }
                let (family, kind) = (AddressFamily::INET, SocketType::DGRAM);
                let fd = rustix::net::socket_with(family, kind, flags, None)?;
                rustix::net::connect(&fd, address)?;
                Ok(fd)
            }
            Address::Port(address) => {
                let fd = if let Some(fd) = self.connecting.take() {
                    fd
                } else {
                    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
                    let fd = rustix::net::socket_with(family, kind, flags, None)?;
                    sockopt::set_tcp_nodelay(&fd, true)?;
                    match rustix::net::connect(&fd, address) {
                        Ok(()) => return Ok(fd),
                        Err(Errno::INPROGRESS) => fd,
                        Err(error) => return Err(error),
                    }
                };
                sockopt::socket_error(&fd)??;
                match rustix::net::getpeername(&fd) {
                    Ok(_) => Ok(fd),
                    Err(Errno::NOTCONN) => {
                        self.connecting = Some(fd);
                        Err(Errno::AGAIN)
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    /// What becomes of a connection that was refused so.
    pub(super) fn refuse(&mut self, error: Errno) -> Connected {
        let is_starved = is_of_descriptors(error);
        if is_starved && !std::mem::replace(&mut self.is_starved, true) {
            runtime::complain(format_args!(
                "no descriptor is left for a client of the copy, which waits: raise the limit of \
                 open files (ulimit -n)"
            ));
        }
        let may_listen = self.start.has_listened || Instant::now() < self.start.ends_by;
        refused(error, may_listen)
    }

    /// The process that listens at the other end of a leg, where the kernel tells.
    pub(super) fn listening_process(&self, leg: &OwnedFd) -> Option<u32> {
        match &self.place.address {
            Address::Socket(_) | Address::Directory(_) => {
                let of = sockopt::socket_peercred(leg).ok()?;
                Some(of.pid.as_raw_nonzero().get() as u32)
            }
            Address::Port(_) | Address::Udp(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_waits_where_descriptors_have_run_out() {
        for error in [Errno::MFILE, Errno::NFILE] {
            assert_eq!(refused(error, false), Connected::Later, "other legs have them");
        }
        assert_eq!(refused(Errno::CONNREFUSED, true), Connected::Later, "it starts");
        assert_eq!(refused(Errno::CONNREFUSED, false), Connected::Refused);
        assert_eq!(refused(Errno::ACCESS, true), Connected::Refused);
    }
}
