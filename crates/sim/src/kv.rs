//! The small state machine that the simulated nodes replicate: registers and sessions.
//!
//! - I1 A command is executed once, however often it is in the log: a session remembers its last
//!   sequence number and the answer to it. Older ones are ignored: their client has abandoned them.
//! - I2 Applying is a function of the state and the command only; the digest takes in every batch
//!   and its place, so equal digests at equal prefixes mean equal histories.

use base::Slot;

/// The number of registers.
pub(crate) const N_KEYS: usize = 6;
/// The number of clients that can have a session.
pub(crate) const N_CLIENTS: usize = 12;
/// The number of pieces of a state: the digest, each register, all sessions.
pub(crate) const N_PIECES: usize = N_KEYS + 2;
/// The smallest size of a piece.
pub(crate) const PIECE_BYTES_MIN: usize = 16 * N_CLIENTS;
/// The bytes of a command in a batch.
const COMMAND_BYTES: usize = 24;
/// The bytes in front of the commands of a batch: its number.
const HEAD_BYTES: usize = 8;

/// A client's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// The register's value.
    Read,
    /// To set it.
    Write(u64),
    /// To add to it, and answer the sum: a second execution shows.
    Add(u64),
    /// To set it if it has the expected value, and answer whether.
    Cas { expected: u64, desired: u64 },
}

/// A request, with its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) client: u8,
    pub(crate) sequence: u32,
    pub(crate) key: u8,
    pub(crate) ask: Ask,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Session {
    last: u32,
    answer: u64,
}

/// The result of a command of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// Executed now.
    Now(u64),
    /// It had been executed: the answer from then.
    Before(u64),
    /// Its client has begun later ones.
    Abandoned,
}

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kv {
    registers: [u64; N_KEYS],
    sessions: [Session; N_CLIENTS],
    digest: u64,
}

impl Kv {
    pub(crate) fn read(&self, key: u8) -> u64 {
        self.registers[key as usize]
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// Piece `n` of the state, of `n_bytes`, most of them zeros.
    pub(crate) fn piece(&self, n: usize, n_bytes: usize) -> Vec<u8> {
        assert!(n_bytes >= PIECE_BYTES_MIN);
        let mut piece = Vec::with_capacity(n_bytes);
        match n {
            0 => piece.extend_from_slice(&self.digest.to_le_bytes()),
            1..=N_KEYS => piece.extend_from_slice(&self.registers[n - 1].to_le_bytes()),
            _ => {
                for session in self.sessions {
                    piece.extend_from_slice(&u64::from(session.last).to_le_bytes());
                    piece.extend_from_slice(&session.answer.to_le_bytes());
                }
            }
        }
        piece.resize(n_bytes, 0);
        piece
    }

    /// The state of these pieces in sequence.
    pub(crate) fn of_pieces(bytes: &[u8]) -> Kv {
        let piece = |n: usize| &bytes[n * (bytes.len() / N_PIECES)..];
        let session = |at: usize| Session {
            last: word(piece(N_KEYS + 1), 16 * at) as u32,
            answer: word(piece(N_KEYS + 1), 16 * at + 8),
        };
        Kv {
            registers: std::array::from_fn(|key| word(piece(key + 1), 0)),
            sessions: std::array::from_fn(session),
            digest: word(piece(0), 0),
        }
    }

    /// A planted bug: commands that are repeated afterwards are executed again.
    pub(crate) fn forget_sessions(&mut self) {
        self.sessions = Default::default();
    }

    /// Notes that the batch `value` is at `slot`.
    pub(crate) fn begin(&mut self, slot: Slot, value: &[u8]) {
        self.digest = mix(mix(self.digest, slot.0), hash(value));
    }

    pub(crate) fn apply(&mut self, command: Command) -> Applied {
        let session = &mut self.sessions[command.client as usize];
        if command.sequence < session.last {
            return Applied::Abandoned;
        }
        if command.sequence == session.last {
            return Applied::Before(session.answer);
        }
        let answer = execute(&mut self.registers[command.key as usize], command.ask);
        *session = Session { last: command.sequence, answer };
        self.digest = mix(self.digest, answer);
        Applied::Now(answer)
    }
}

/// Executes `ask` on a register and returns its answer: the whole specification.
pub(crate) fn execute(register: &mut u64, ask: Ask) -> u64 {
    match ask {
        Ask::Read => *register,
        Ask::Write(value) => {
            *register = value;
            value
        }
        Ask::Add(amount) => {
            *register = register.wrapping_add(amount);
            *register
        }
        Ask::Cas { expected, desired } => {
            let hit = *register == expected;
            if hit {
                *register = desired;
            }
            u64::from(hit)
        }
    }
}

/// The number of commands that fit into a value of `n_bytes`.
pub(crate) fn commands_max(n_bytes: usize) -> usize {
    (n_bytes - HEAD_BYTES) / COMMAND_BYTES
}

/// The bytes of batch `number`.
pub(crate) fn encode(number: u64, commands: &[Command], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&number.to_le_bytes());
    for command in commands {
        let (kind, a, b) = match command.ask {
            Ask::Read => (0, 0, 0),
            Ask::Write(value) => (1, value, 0),
            Ask::Add(amount) => (2, amount, 0),
            Ask::Cas { expected, desired } => (3, expected, desired),
        };
        out.extend_from_slice(&[command.client, command.key, kind, 0]);
        out.extend_from_slice(&command.sequence.to_le_bytes());
        out.extend_from_slice(&a.to_le_bytes());
        out.extend_from_slice(&b.to_le_bytes());
    }
}

/// The number of a batch, or `None` if these bytes are not one.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    let whole =
        value.len() >= HEAD_BYTES && (value.len() - HEAD_BYTES).is_multiple_of(COMMAND_BYTES);
    whole.then(|| word(value, 0))
}

/// The commands of a batch. (Only for batches that are known to be proposed: others may panic.)
pub(crate) fn commands(value: &[u8]) -> impl Iterator<Item = Command> + '_ {
    value[HEAD_BYTES..].chunks_exact(COMMAND_BYTES).map(|bytes| {
        let (a, b) = (word(bytes, 8), word(bytes, 16));
        Command {
            client: bytes[0],
            key: bytes[1],
            sequence: (word(bytes, 0) >> 32) as u32,
            ask: match bytes[2] {
                0 => Ask::Read,
                1 => Ask::Write(a),
                2 => Ask::Add(a),
                _ => Ask::Cas { expected: a, desired: b },
            },
        }
    })
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(27) ^ (word >> 7)
}

/// A hash of bytes; the same everywhere.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum =
        words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(client: u8, sequence: u32, ask: Ask) -> Command {
        Command { client, sequence, key: 1, ask }
    }

    #[test]
    fn i1_a_command_is_executed_once() {
        let mut kv = Kv::default();
        let add = command(2, 1, Ask::Add(5));
        assert_eq!(kv.apply(add), Applied::Now(5));
        assert_eq!(kv.apply(add), Applied::Before(5));
        assert_eq!(kv.apply(command(2, 3, Ask::Add(1))), Applied::Now(6));
        assert_eq!(kv.apply(command(2, 2, Ask::Add(9))), Applied::Abandoned);
        assert_eq!(kv.read(1), 6);
    }

    #[test]
    fn a_state_survives_being_cut_to_pieces() {
        let mut kv = Kv::default();
        for key in 0..N_KEYS as u8 {
            kv.begin(Slot(key.into()), b"12345678");
            kv.apply(Command { client: 2 * key, sequence: 7, key, ask: Ask::Add(key.into()) });
        }
        for n_bytes in [PIECE_BYTES_MIN, 1000] {
            let pieces: Vec<u8> = (0..N_PIECES).flat_map(|n| kv.piece(n, n_bytes)).collect();
            assert_eq!(Kv::of_pieces(&pieces), kv);
        }
    }

    #[test]
    fn i2_digests_tell_histories_apart() {
        let (mut a, mut b) = (Kv::default(), Kv::default());
        a.begin(Slot(0), b"12345678");
        b.begin(Slot(1), b"12345678");
        assert_ne!(a.digest(), b.digest());
        assert_ne!(hash(b"12345678a"), hash(b"12345678b"));
    }

    #[test]
    fn batches_survive_encoding() {
        let batch = [
            command(0, 7, Ask::Write(3)),
            command(1, 1 << 31, Ask::Cas { expected: 1, desired: 2 }),
            command(11, 1, Ask::Add(u64::MAX)),
        ];
        let mut bytes = Vec::new();
        encode(99, &batch, &mut bytes);
        assert_eq!(number(&bytes), Some(99));
        assert!(commands(&bytes).eq(batch));
        assert_eq!(commands_max(bytes.len()), batch.len());
        assert_eq!(number(&bytes[1..]), None);
        assert_eq!(number(b""), None);
    }
}
