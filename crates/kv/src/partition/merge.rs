//! Commands of several partitions that each partition can execute for its own keys: the piece of
//! each partition, and the answer that the pieces make together.
//!
//! - G1 the pieces of a command together ask what the command asks, each key as often as it occurs
//!   there. Test `g1_pieces_ask_what_the_whole_asks`.
//! - G2 the whole answer does not depend on the order in which the pieces were answered. By
//!   construction: sums, and places.

use super::hash::Partitions;
use super::plan::{Map, Merge};
use crate::command::{Args, CommandSpec, keys_of};
use crate::reply::{Protocol, Reply};
use crate::text;

/// The indices of the keys of `partition` among `args`.
fn own_keys(map: &Map, spec: &CommandSpec, args: &[&[u8]], partition: usize) -> Vec<usize> {
    let Ok(keys) = keys_of(spec, args) else { return Vec::new() };
    keys.filter(|&at| map.partition_of(args[at]) == partition).collect()
}

/// The piece of the command that `partition` executes.
pub(super) fn piece<'a>(
    map: &Map,
    spec: &CommandSpec,
    args: &Args<'a>,
    partition: usize,
) -> Args<'a> {
    if spec.keys.first == 0 {
        // The command has no keys, or is a script, which is never cut.
        return args.clone();
    }
    let step = spec.keys.step as usize;
    let mut piece: Args<'a> = args[..1].into();
    for at in own_keys(map, spec, args, partition) {
        piece.extend_from_slice(&args[at..at + step]);
    }
    piece
}

/// The answers of the pieces, until the last one is there.
#[derive(Clone, Debug)]
pub(super) struct Merging {
    how: Merge,
    left: Partitions,
    sum: i64,
    /// The answer that counts instead of all others: an error, or for [`Merge::First`] any answer.
    only: Option<Vec<u8>>,
    /// The encoded elements and their places.
    elements: Vec<(usize, Vec<u8>)>,
    /// The least integers so far, for [`Merge::Least`].
    least: Vec<i64>,
}

impl Merging {
    pub(super) fn new(how: Merge, all: Partitions) -> Merging {
        Merging { how, left: all, sum: 0, only: None, elements: Vec::new(), least: Vec::new() }
    }

    /// Adds the answer of `partition` to its piece. For [`Merge::Scatter`], `places` are the places
    /// of its elements.
    pub(super) fn add(&mut self, partition: usize, answer: &[u8], places: &[usize]) {
        assert!(self.left.contains(partition), "a partition answers its piece once");
        self.left = self.left.without(partition);
        if answer.first() == Some(&b'-') || self.how == Merge::First {
            self.only.get_or_insert_with(|| answer.to_vec());
            return;
        }
        match self.how {
            Merge::Sum => self.sum += integer(answer),
            Merge::Concatenate => {
                let each = elements(answer).into_iter();
                self.elements.extend(each.map(|element| (partition, element.to_vec())));
            }
            Merge::Scatter => {
                let each = elements(answer);
                assert_eq!(each.len(), places.len(), "an answer to each key");
                let each = places.iter().zip(each);
                self.elements.extend(each.map(|(&place, element)| (place, element.to_vec())));
            }
            Merge::Least => {
                let each = elements(answer).into_iter().map(integer).enumerate();
                for (place, number) in each {
                    match self.least.get_mut(place) {
                        Some(least) => *least = number.min(*least),
                        None => self.least.push(number),
                    }
                }
            }
            Merge::First => {}
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.left.is_empty()
    }

    /// Appends the whole answer.
    pub(super) fn put(mut self, reply: &mut Reply) {
        assert!(self.is_complete(), "all have answered");
        match (self.only, self.how) {
            (Some(only), _) => reply.raw(&only),
            (None, Merge::Sum) => reply.integer(self.sum),
            (None, Merge::Least) => {
                reply.array(self.least.len());
                self.least.iter().for_each(|number| reply.integer(*number));
            }
            (None, Merge::First | Merge::Concatenate | Merge::Scatter) => {
                self.elements.sort_by_key(|(place, _)| *place); // stable: G2
                reply.array(self.elements.len());
                self.elements.iter().for_each(|(_, element)| reply.raw(element));
            }
        }
    }
}

/// The places of the elements of a partition's answer in the whole answer.
pub(super) fn places(
    map: &Map,
    spec: &CommandSpec,
    args: &[&[u8]],
    partition: usize,
) -> Vec<usize> {
    own_keys(map, spec, args, partition)
}

/// The same places, for the versions of watched keys.
pub(super) fn places_of_keys(map: &Map, keys: &[&[u8]], partition: usize) -> Vec<usize> {
    let own = keys.iter().enumerate().filter(|(_, key)| map.partition_of(key) == partition);
    own.map(|(at, _)| at).collect()
}

/// Executes `run` with a reply of its own, and returns the bytes.
pub(super) fn answer_of(protocol: Protocol, run: impl FnOnce(&mut Reply)) -> Vec<u8> {
    let mut reply = Reply::new(protocol);
    reply.bounded(text::ANSWER_TOO_LONG, run);
    reply.take()
}

fn integer(answer: &[u8]) -> i64 {
    let text = answer.strip_prefix(b":").and_then(|text| text.strip_suffix(b"\r\n"));
    let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    number.expect("our own commands that are summed answer an integer or an error")
}

/// The encoded elements of an array of strings, nulls and integers.
fn elements(answer: &[u8]) -> Vec<&[u8]> {
    const WHOLE: &str = "our own reply is whole";
    let end_of_line = |bytes: &[u8]| {
        bytes.windows(2).position(|two| two == b"\r\n").map(|at| at + 2).expect(WHOLE)
    };
    let mut rest = &answer[end_of_line(answer)..];
    let mut elements = Vec::new();
    while !rest.is_empty() {
        let line = end_of_line(rest);
        let text = std::str::from_utf8(&rest[1..line - 2]).expect(WHOLE);
        let body = match (rest[0], text.parse::<usize>()) {
            (b'$', Ok(len)) => len + 2,
            _ => 0, // an integer, or a null in either protocol
        };
        let (element, tail) = rest.split_at(line + body);
        elements.push(element);
        rest = tail;
    }
    elements
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::lookup;

    const MAP: Map = Map { n: 3, is_limited: false };

    #[test]
    fn g1_pieces_ask_what_the_whole_asks() {
        for text in ["mset a 1 b 2 c 3 a 4", "mget a b c d e a", "del x y z x"] {
            let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
            let args: Args<'_> = words[..].into();
            let spec = lookup(words[0]).unwrap();
            let step = spec.keys.step as usize;
            let mut asked: Vec<Vec<&[u8]>> = Vec::new();
            for partition in 0..MAP.n {
                let piece = piece(&MAP, spec, &args, partition);
                assert_eq!(piece[0], words[0]);
                asked.extend(piece[1..].chunks(step).map(<[_]>::to_vec));
            }
            let mut whole: Vec<Vec<&[u8]>> = words[1..].chunks(step).map(<[_]>::to_vec).collect();
            whole.sort();
            asked.sort();
            assert_eq!(asked, whole, "{text}");
        }
    }

    #[test]
    fn g2_answers_are_put_together_in_any_order() {
        let all = Partitions::first(2);
        let whole = |how, pieces: [(&str, &[usize]); 2]| {
            let texts = [[0, 1], [1, 0]].map(|order| {
                let mut merging = Merging::new(how, all);
                for at in order {
                    merging.add(at, pieces[at].0.as_bytes(), pieces[at].1);
                }
                let mut reply = Reply::default();
                merging.put(&mut reply);
                String::from_utf8(reply.take()).unwrap()
            });
            assert_eq!(texts[0], texts[1]);
            texts[0].clone()
        };
        let none: &[usize] = &[];
        assert_eq!(whole(Merge::Sum, [(":2\r\n", none), (":-3\r\n", none)]), ":-1\r\n");
        assert_eq!(whole(Merge::First, [("+OK\r\n", none), ("+OK\r\n", none)]), "+OK\r\n");
        let keys = [("*1\r\n$1\r\na\r\n", none), ("*2\r\n$0\r\n\r\n$4\r\n\r\nb:\r\n", none)];
        let text = whole(Merge::Concatenate, keys);
        assert_eq!(text, "*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\n\r\nb:\r\n");
        let values: [(&str, &[usize]); 2] =
            [("*2\r\n$-1\r\n:7\r\n", &[1, 4]), ("*2\r\n_\r\n$1\r\nx\r\n", &[2, 3])];
        let text = whole(Merge::Scatter, values);
        assert_eq!(text, "*4\r\n$-1\r\n_\r\n$1\r\nx\r\n:7\r\n");
        let bits = [("*2\r\n:1\r\n:0\r\n", none), ("*2\r\n:1\r\n:1\r\n", none)];
        assert_eq!(whole(Merge::Least, bits), "*2\r\n:1\r\n:0\r\n");
        assert_eq!(whole(Merge::Sum, [(":2\r\n", none), ("-ERR x\r\n", none)]), "-ERR x\r\n");
    }
}
