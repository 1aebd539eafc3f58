//! The frozen state from which a client fetches a backup, piece by piece.
//!
//! - I1 at most one exists at a time: it is a second copy of all keys and values.
//! - I2 it is dropped when it was fetched, or when no piece was asked for during [`IDLE_MAX`],
//!   since its client is gone. By [`Backups::sweep`], which the loop calls regularly.
//! - I3 a piece belongs to the backup that is named, or is refused: a member that did not freeze
//!   it answers so, and never freezes another under the same name once pieces of it were fetched.

use crate::backup::{Frozen, Request};
use crate::machine::Machine;
use crate::reply::Reply;
use crate::text;
use base::Instant;
use core::time::Duration;

/// The idle time of I2.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// The error for a client that names a backup which this member does not have.
pub const NO_SUCH_BACKUP: &str = "NOBACKUP this member has no such backup";

/// The backup of a member; see the module's text.
#[derive(Debug, Default)]
pub(super) struct Backups {
    current: Option<Current>,
}

#[derive(Debug)]
struct Current {
    token: Vec<u8>,
    frozen: Frozen,
    asked: Instant,
}

impl Backups {
    /// Answers the bytes of a request whose read check has passed.
    pub(super) fn answer(
        &mut self,
        request: &[u8],
        machine: &Machine,
        now: Instant,
        reply: &mut Reply,
    ) {
        self.sweep(now);
        match Request::decode(request) {
            None => reply.error(text::MALFORMED),
            Some(Request::Begin(token)) => self.begin(token, machine, now, reply),
            Some(Request::Piece(token, n)) => match self.named(token) {
                Some(current) => {
                    current.asked = now;
                    current.frozen.release_below(n);
                    match current.frozen.piece(n) {
                        Some(piece) => reply.bulk(piece),
                        None => reply.error("ERR no such piece, or it was given up already"),
                    }
                }
                None => reply.error(NO_SUCH_BACKUP),
            },
            Some(Request::End(token)) => {
                if self.named(token).is_some() {
                    self.current = None;
                }
                reply.ok();
            }
        }
    }

    fn begin(&mut self, token: &[u8], machine: &Machine, now: Instant, reply: &mut Reply) {
        match &mut self.current {
            // The client asks again, because the first answer was lost.
            Some(current) if current.token == token => current.asked = now,
            Some(_) => {
                reply.error_fmt(format_args!(
                    "ERR another backup is being fetched from this member: wait for it, or {} s \
                     after it was given up, or ask another member",
                    IDLE_MAX.as_secs()
                ));
                return;
            }
            None => {
                let frozen = Frozen::of(machine);
                self.current = Some(Current { token: token.to_vec(), frozen, asked: now });
            }
        }
        if let Some(Current { frozen, .. }) = &self.current {
            reply.array(2);
            reply.integer(frozen.n_pieces() as i64);
            reply.integer(frozen.n_entries() as i64);
        }
    }

    fn named(&mut self, token: &[u8]) -> Option<&mut Current> {
        self.current.as_mut().filter(|current| current.token == token)
    }

    /// Drops a backup that was idle for too long (I2).
    pub(super) fn sweep(&mut self, now: Instant) {
        if self.current.as_ref().is_some_and(|it| now.since(it.asked) > IDLE_MAX) {
            self.current = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(backups: &mut Backups, request: Request<'_>, now: Instant) -> String {
        let (mut bytes, mut reply) = (Vec::new(), Reply::default());
        request.put(&mut bytes);
        backups.answer(&bytes, &Machine::new(0), now, &mut reply);
        String::from_utf8_lossy(reply.as_bytes()).into_owned()
    }

    #[test]
    fn i1_one_at_a_time_and_asking_again_is_not_another() {
        let (mut backups, now) = (Backups::default(), Instant::ZERO);
        let begun = ask(&mut backups, Request::Begin(b"one"), now);
        assert!(begun.starts_with("*2\r\n:2\r\n:0"), "{begun}");
        assert_eq!(ask(&mut backups, Request::Begin(b"one"), now), begun);
        assert!(ask(&mut backups, Request::Begin(b"two"), now).contains("another backup"));
        assert_eq!(ask(&mut backups, Request::End(b"two"), now), "+OK\r\n");
        assert!(ask(&mut backups, Request::Piece(b"one", 0), now).starts_with('$'));
        assert_eq!(ask(&mut backups, Request::End(b"one"), now), "+OK\r\n");
        assert!(ask(&mut backups, Request::Begin(b"two"), now).starts_with('*'));
    }

    #[test]
    fn i2_who_stops_asking_frees_it() {
        let (mut backups, now) = (Backups::default(), Instant::ZERO);
        ask(&mut backups, Request::Begin(b"one"), now);
        backups.sweep(now.plus(IDLE_MAX));
        assert!(backups.current.is_some());
        backups.sweep(now.plus(IDLE_MAX + Duration::from_millis(1)));
        assert!(backups.current.is_none());
    }

    #[test]
    fn i3_a_piece_of_another_backup_is_refused() {
        let (mut backups, now) = (Backups::default(), Instant::ZERO);
        assert!(ask(&mut backups, Request::Piece(b"one", 0), now).contains("NOBACKUP"));
        ask(&mut backups, Request::Begin(b"one"), now);
        ask(&mut backups, Request::Piece(b"one", 1), now);
        assert!(
            ask(&mut backups, Request::Piece(b"one", 0), now).starts_with("-ERR no such piece")
        );
    }
}
