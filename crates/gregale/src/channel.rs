//! The channel between a supervisor and one of its replicas: a Unix socket on the replica's
//! standard input.
//!
//! The supervisor passes the listening sockets over it, so that they outlive the replica and a dead
//! member's port answers again as soon as its successor runs. The replica reports over it; its end
//! tells each side that the other has ended.
//!
//! ```text
//! supervisor -> replica: one byte, with the descriptors client, control [, fabric]; later STOP
//! replica -> supervisor: lines of text, see Report
//! ```

use console::{Failure, Outcome};
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;

/// The most descriptors that are passed.
const FDS_MAX: usize = 3;
const SOCKETS: u8 = b's';
/// The order to stop the whole cluster: finish open requests and exit, without an election.
const STOP: u8 = b'q';
/// The longest line of a report.
const LINE_BYTES_MAX: usize = 4096;

/// The listening sockets of one member.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// The socket for clients.
    pub(crate) client: TcpListener,
    /// The socket for HTTP.
    pub(crate) control: TcpListener,
    /// The socket for peers (tcp).
    pub(crate) fabric: Option<TcpListener>,
}

/// A message of a replica to its supervisor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// The replica answers clients.
    Serving,
    /// The replica lost its memory: it runs, but counts in no quorum.
    Learner(String),
    /// The replica cannot run.
    Refused(String),
    /// An operator has requested a new incarnation of this member.
    Renew(u16),
    /// This process is a new incarnation, and votes from now on.
    Votes(u64),
    /// Another incarnation has the replica's seat.
    Replaced(String),
    /// The replica is no longer a member, and its seat is empty.
    Removed(String),
    /// The leader reports that this member's seat is empty, with the last incarnation that had it.
    Vacant(u16, u64),
}

impl Report {
    fn line(&self) -> String {
        match self {
            Report::Serving => "serving\n".into(),
            Report::Learner(why) => format!("learner {}\n", why.replace('\n', " ")),
            Report::Refused(why) => format!("refused {}\n", why.replace('\n', " ")),
            Report::Renew(member) => format!("renew {member}\n"),
            Report::Votes(incarnation) => format!("votes {incarnation}\n"),
            Report::Replaced(why) => format!("replaced {}\n", why.replace('\n', " ")),
            Report::Removed(why) => format!("removed {}\n", why.replace('\n', " ")),
            Report::Vacant(member, last) => format!("vacant {member} {last}\n"),
        }
    }

    fn parse(line: &str) -> Option<Report> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("serving", _) => Some(Report::Serving),
            ("learner", why) => Some(Report::Learner(why.into())),
            ("refused", why) => Some(Report::Refused(why.into())),
            ("renew", member) => member.parse().ok().map(Report::Renew),
            ("votes", incarnation) => incarnation.parse().ok().map(Report::Votes),
            ("replaced", why) => Some(Report::Replaced(why.into())),
            ("removed", why) => Some(Report::Removed(why.into())),
            ("vacant", rest) => {
                let (member, last) = rest.split_once(' ')?;
                Some(Report::Vacant(member.parse().ok()?, last.parse().ok()?))
            }
            _ => None,
        }
    }
}

/// The supervisor's end.
#[derive(Debug)]
pub(crate) struct SupervisorEnd {
    socket: UnixStream,
    partial: Vec<u8>,
}

impl SupervisorEnd {
    /// The end of `socket`, whose other end is a replica's standard input.
    pub(crate) fn new(socket: UnixStream) -> Outcome<SupervisorEnd> {
        socket
            .set_nonblocking(true)
            .map_err(|error| Failure::os("set a socket non-blocking", error))?;
        Ok(SupervisorEnd { socket, partial: Vec::new() })
    }

    /// Passes the listening sockets.
    pub(crate) fn pass(&self, sockets: &Sockets) -> Outcome<()> {
        let mut fds = vec![sockets.client.as_fd(), sockets.control.as_fd()];
        fds.extend(sockets.fabric.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)), "room for {FDS_MAX}");
        let body = [IoSlice::new(&[SOCKETS])];
        sendmsg(&self.socket, &body, &mut ancillary, SendFlags::NOSIGNAL)
            .map_err(|error| Failure::os("pass sockets to a replica", error))?;
        Ok(())
    }

    /// Asks the replica to stop. It may have ended already.
    pub(crate) fn stop(&self) {
        let _ = (&self.socket).write(&[STOP]);
    }

    /// The replica's reports since the last call; `None` once it closed its end.
    pub(crate) fn reports(&mut self) -> Option<Vec<Report>> {
        let mut bytes = [0; LINE_BYTES_MAX];
        let mut open = true;
        loop {
            match (&self.socket).read(&mut bytes) {
                Ok(0) => {
                    open = false;
                    break;
                }
                Ok(n) => self.partial.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(_) => {
                    open = false;
                    break;
                }
            }
        }
        let mut reports = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.partial.drain(..=end).collect();
            reports.extend(Report::parse(String::from_utf8_lossy(&line[..end]).as_ref()));
        }
        (open || !reports.is_empty()).then_some(reports)
    }

    /// The descriptor to poll for reading.
    pub(crate) fn as_fd(&self) -> impl AsFd + '_ {
        self.socket.as_fd()
    }
}

/// The replica's end.
#[derive(Debug)]
pub(crate) struct ReplicaEnd {
    socket: UnixStream,
}

impl ReplicaEnd {
    /// The end on standard input, with the sockets that the supervisor passes first.
    pub(crate) fn take() -> Outcome<(ReplicaEnd, Sockets)> {
        let stdin = std::io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Failure::os("use standard input", error))?;
        let socket = UnixStream::from(stdin);
        let sockets = receive(&socket)?;
        socket
            .set_nonblocking(true)
            .map_err(|error| Failure::os("set a socket non-blocking", error))?;
        Ok((ReplicaEnd { socket }, sockets))
    }

    /// Reports to the supervisor. Does nothing without one.
    pub(crate) fn report(&self, report: &Report) {
        let _ = (&self.socket).write_all(report.line().as_bytes());
    }

    /// Whether the supervisor asked to stop, or has ended.
    pub(crate) fn asks_to_stop(&self) -> bool {
        let mut bytes = [0; 16];
        match (&self.socket).read(&mut bytes) {
            Ok(n) => n == 0 || bytes[..n].contains(&STOP),
            Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
        }
    }

    /// The descriptor to poll for reading.
    pub(crate) fn as_fd(&self) -> impl AsFd + '_ {
        self.socket.as_fd()
    }
}

fn receive(socket: &UnixStream) -> Outcome<Sockets> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let mut body = [IoSliceMut::new(&mut byte)];
    recvmsg(socket, &mut body, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| Failure::os("take sockets from the supervisor", error))?;
    let mut fds: Vec<OwnedFd> = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    let mut fds = fds.into_iter().map(TcpListener::from);
    match (byte[0], fds.next(), fds.next(), fds.next()) {
        (SOCKETS, Some(client), Some(control), fabric) => Ok(Sockets { client, control, fabric }),
        _ => Err(Failure::new(
            "standard input is not a supervisor's socket: leave --supervised to `gregale up`",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_pass_and_still_listen() {
        let (near, far) = UnixStream::pair().unwrap();
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets { client: listen(), control: listen(), fabric: Some(listen()) };
        let end = SupervisorEnd::new(near).unwrap();
        end.pass(&sockets).unwrap();
        let taken = receive(&far).unwrap();
        assert_eq!(taken.client.local_addr().unwrap(), sockets.client.local_addr().unwrap());
        let fabric = |sockets: &Sockets| sockets.fabric.as_ref().unwrap().local_addr().unwrap();
        assert_eq!(fabric(&taken), fabric(&sockets));
        let address = sockets.client.local_addr().unwrap();
        drop(sockets);
        std::net::TcpStream::connect(address).expect("the passed copy keeps it open");
    }

    #[test]
    fn reports_arrive_in_order_and_then_the_end() {
        let (near, far) = UnixStream::pair().unwrap();
        let mut end = SupervisorEnd::new(near).unwrap();
        far.set_nonblocking(true).unwrap();
        let replica = ReplicaEnd { socket: far };
        assert_eq!(end.reports(), Some(vec![]));
        let all = [
            Report::Learner("its region is gone".into()),
            Report::Refused("a b".into()),
            Report::Renew(2),
            Report::Votes(1 << 40),
            Report::Replaced("by another".into()),
            Report::Removed("by an operator".into()),
            Report::Vacant(3, 1 << 40),
            Report::Serving,
        ];
        all.iter().for_each(|report| replica.report(report));
        assert_eq!(end.reports(), Some(all.to_vec()));
        assert!(!replica.asks_to_stop());
        end.stop();
        assert!(replica.asks_to_stop());
        drop(replica);
        assert_eq!(end.reports(), None);
    }

    #[test]
    fn something_else_on_standard_input_is_refused() {
        let (near, far) = UnixStream::pair().unwrap();
        (&near).write_all(b"hello").unwrap();
        assert!(receive(&far).unwrap_err().to_string().contains("--supervised"));
    }
}
