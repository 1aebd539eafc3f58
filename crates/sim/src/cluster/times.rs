//! Requests for the time, which each copy of a program draws for itself: in half of the runs in
//! which no copy goes its own way, where requests are known. (What is the copy's own is not
//! compared, so a copy that answers otherwise beside it would not be found.)
//!
//! - T1 a client accepts any answer that has the form of a time. What it sees of other keys is
//!   judged as ever, and a copy that is put down for its time did nothing wrong (`supervisor`).
//! - T2 a client asks for the time when it waits for nothing, and asks for nothing else until it
//!   was answered: what is held from it beside the time is all compared (`compared`, S1).
//! - T3 between the two parts of a transaction the client waits, so that others speak there, and
//!   points lie there.
//! - T4 what is drawn here changes nothing that is drawn elsewhere. By [`Times::draw`], with a
//!   generator of its own.

use super::resp::{self, Value, may_pass};
use base::Rng;

/// A time up to the part that a copy draws, as a program answers it.
const BEFORE: &[u8] = b"*2\r\n$10\r\n1700000000\r\n$6\r\n";

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// The time alone.
    Alone,
    /// The same, in a transaction that is sent at once.
    Bundle,
    /// The transaction, up to its end.
    Begin,
    /// Its end.
    End,
}

/// The requests of all clients for the time.
#[derive(Debug)]
pub(super) struct Times {
    rng: Rng,
    is_on: bool,
}

impl Times {
    /// T4. `can_be`: whether the time can be asked for.
    pub(super) fn draw(seed: u64, can_be: bool) -> Times {
        let mut rng = Rng::new(seed ^ 0x0074_696d_6573_0000);
        let is_on = can_be && rng.chance(1, 2);
        Times { rng, is_on }
    }

    /// The next request, if there is one.
    pub(super) fn think(&mut self) -> Option<Act> {
        if !self.is_on || !self.rng.chance(1, 6) {
            return None;
        }
        Some([Act::Alone, Act::Bundle, Act::Begin, Act::Begin][self.rng.below(4) as usize])
    }
}

impl Act {
    /// Appends its bytes. Returns the number of words that come before its own answer.
    pub(super) fn put(self, out: &mut Vec<u8>) -> usize {
        let words: &[&[u8]] = match self {
            Act::Alone => &[b"TIME"],
            Act::Bundle => &[b"MULTI", b"TIME", b"EXEC"],
            Act::Begin => &[b"MULTI", b"TIME"],
            Act::End => &[b"EXEC"],
        };
        words.iter().for_each(|word| resp::request(&[word], out));
        match self {
            Act::Alone | Act::End => 0,
            Act::Bundle | Act::Begin => 2,
        }
    }

    /// Whether it has an answer of its own.
    pub(super) fn is_answered(self) -> bool {
        self != Act::Begin
    }

    /// T1. False if it was refused.
    ///
    /// # Errors
    /// An answer that is no time.
    pub(super) fn settle(self, value: Value) -> Result<bool, String> {
        let is_number = |word: &Value| {
            matches!(word, Value::Bytes(Some(word))
                if !word.is_empty() && word.iter().all(u8::is_ascii_digit))
        };
        let is_time = |value: &Value| {
            matches!(value, Value::List(Some(words))
                if words.len() == 2 && words.iter().all(is_number))
        };
        match (self, value) {
            (_, Value::Error(why)) if may_pass(&why) => Ok(false),
            (Act::Alone, value) if is_time(&value) => Ok(true),
            (Act::Bundle | Act::End, Value::List(Some(list)))
                if list.len() == 1 && is_time(&list[0]) =>
            {
                Ok(true)
            }
            (act, value) => Err(format!("{value:?} is no answer to {act:?} of the time")),
        }
    }
}

/// Answers with the time that a copy draws: one of two, so that some copies agree by chance, and
/// those that do not are a minority. Returns where in the reply the copy's own part is.
pub(super) fn answer(rng: &mut Rng, reply: &mut Vec<u8>) -> core::ops::Range<usize> {
    reply.extend_from_slice(BEFORE);
    let from = reply.len();
    reply.extend_from_slice(if rng.chance(1, 2) { b"111111" } else { b"222222" });
    let own = from..reply.len();
    reply.extend_from_slice(b"\r\n");
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_any_time_is_taken_and_nothing_else() {
        let (mut reply, mut rng) = (Vec::new(), Rng::new(1));
        let own = answer(&mut rng, &mut reply);
        let time = || resp::reply(&reply).unwrap().unwrap().0;
        assert!(reply[own].iter().all(u8::is_ascii_digit));
        let list = |value| Value::List(Some(vec![value]));
        assert_eq!(Act::Alone.settle(time()), Ok(true));
        assert_eq!(Act::End.settle(list(time())), Ok(true));
        assert!(Act::Alone.settle(list(time())).is_err());
        assert!(Act::Bundle.settle(time()).is_err());
        assert!(Act::End.settle(list(Value::Number(7))).is_err());
        assert!(Act::End.settle(Value::List(None)).is_err(), "no key is watched");
        assert_eq!(Act::End.settle(Value::Error("TRYAGAIN later".to_owned())), Ok(false));
    }

    #[test]
    fn t3_a_transaction_in_two_parts_is_that_which_is_sent_at_once() {
        let put = |acts: &[Act]| {
            let mut out = Vec::new();
            let n: usize = acts.iter().map(|act| act.put(&mut out)).sum();
            (out, n)
        };
        assert_eq!(put(&[Act::Begin, Act::End]), put(&[Act::Bundle]));
    }
}
