//! The execution of the commands of client sessions.

use crate::client_sessions::{CallNumber, ClientSessions, IDLE_MS, Judged, Standing};
use crate::entry::SessionCommand;
use crate::reply::Reply;
use crate::text;

/// The first words of the errors that say what became of a call (docs/sessions.md lists them), and
/// of those with which a member refuses a request. No called command's own error begins with one.
const RESERVED: [&[u8]; 13] = [
    b"GAP",
    b"WINDOW",
    b"NOTCALLED",
    b"EXECABORT",
    b"MAXSESSIONS",
    b"TRYAGAIN",
    b"LOADING",
    b"UNKNOWN",
    b"NOSESSION",
    b"ACKED",
    b"TOOLONG",
    b"NOAUTH",
    b"WRONGPASS",
];

/// The context in which a command of a session is executed.
pub(crate) struct Place {
    /// State time.
    pub(crate) now_ms: u64,
    /// The divisor of session ids: a session that is opened here gets an id that is `residue`
    /// modulo this, so that each of several partitions has ids of its own.
    pub(crate) modulus: u64,
    pub(crate) residue: u64,
}

/// Executes a command of a session and appends exactly one reply. `run` executes the called
/// command.
pub(crate) fn execute(
    place: Place,
    clients: &mut ClientSessions,
    command: SessionCommand<'_>,
    reply: &mut Reply,
    run: impl FnOnce(&[u8], &mut Reply),
) {
    let now_ms = place.now_ms;
    match command {
        SessionCommand::Open => match clients.open_as(now_ms, place.modulus, place.residue) {
            Some(standing) => tell(standing, reply),
            None => reply.error(text::TOO_MANY_SESSIONS),
        },
        SessionCommand::Resume(id) => match clients.resume(id, now_ms) {
            Some(standing) => tell(standing, reply),
            None => reply.error(text::NO_SESSION),
        },
        SessionCommand::End(id) => {
            if clients.end(id) {
                reply.ok();
            } else {
                reply.error(text::NO_SESSION);
            }
        }
        SessionCommand::Call { id, number, acknowledged, command } => {
            match clients.judge(id, number, acknowledged, now_ms) {
                Judged::Fresh => {
                    reply.bounded(text::EXECUTED_TOO_LONG, |reply| {
                        let start = reply.len();
                        run(command, reply);
                        mark_own_error(start, reply);
                    });
                    clients.record(id, number, reply.as_bytes());
                }
                Judged::Answered(kept) => reply.raw(kept),
                Judged::TooLong => reply.error(text::REPLY_TOO_LONG),
                Judged::Acknowledged => reply.error(text::ACKNOWLEDGED),
                Judged::Gap(next) => gap(next, reply),
                Judged::WindowFull => reply.error(text::WINDOW_FULL),
                Judged::NoSession => reply.error(text::NO_SESSION),
            }
        }
        // A read has no place in the log.
        SessionCommand::Read { .. } => reply.error(text::MALFORMED),
    }
}

/// Sees to it that the called command's reply, from `start` on, is not taken for the fate of the
/// call: a script can answer an error of any text.
fn mark_own_error(start: usize, reply: &mut Reply) {
    let Some(line) = reply.as_bytes()[start..].strip_prefix(b"-") else { return };
    let line = line.strip_suffix(b"\r\n").unwrap_or(line);
    let code = line.split(|&byte| byte == b' ').next().unwrap_or_default();
    let own = if line == text::OUT_OF_MEMORY_IN_EXEC.as_bytes() {
        // EXECABORT uses no number up, and this does.
        text::OUT_OF_MEMORY.as_bytes().to_vec()
    } else if RESERVED.contains(&code) || line.starts_with(b"ERR data lost") {
        [b"ERR ", line].concat()
    } else {
        return;
    };
    reply.truncate(start);
    reply.error(own);
}

/// Appends a session's status: its id, its last executed call, and how long it may be idle.
fn tell(standing: Standing, reply: &mut Reply) {
    reply.array(3);
    reply.integer(standing.id.0 as i64);
    reply.integer(standing.executed.0 as i64);
    reply.integer(IDLE_MS as i64);
}

pub(crate) fn gap(next: CallNumber, reply: &mut Reply) {
    reply.error_fmt(format_args!(
        "GAP not executed: calls before it are missing, the session's next one is {}",
        next.0
    ));
}
