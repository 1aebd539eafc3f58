//! Random commands over few keys, for cases that no test lists.

use base::Rng;
use kv::Protocol;

use crate::redis::Server;
use crate::twin::{Compare, Twin};

/// The number of commands per protocol, which take a few seconds.
const COMMANDS: usize = 15_000;

/// Words for places where a word is expected, good and bad.
const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "5",
    "-7",
    "10",
    "100",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "01",
    "+1",
    " 1",
    "1.5",
    "",
    "x",
];
const FLOATS: &[&str] = &[
    "0",
    "1",
    "-1",
    "0.1",
    "0.2",
    "-0.3",
    "3.0e3",
    "1e-5",
    "1.5e20",
    "123456789.987654321",
    "1e17",
    "-1e18",
    "0.00000000000000001",
    "1e-18",
    "2.5e-17",
    "1e300",
    "-1e4000",
    "1e4930",
    "inf",
    "-inf",
    "nan",
    "0x1p-4",
    "0xff",
    "1.",
    ".5",
    "1e",
    "x",
    "",
    "-0.0",
    "1e-4940",
    "1e5000",
    "3.14159265358979323846264338327950288",
    "18446744073709551616",
    "0.1e1",
];
const INDICES: &[&str] = &["0", "1", "-1", "2", "-3", "5", "-100", "100", "7", "x"];
const OFFSETS: &[&str] = &["0", "1", "3", "10", "-1", "40", "x"];
/// Expiries far from now and from each other, so that a few milliseconds change no result.
const EXPIRES_AT_S: &[&str] = &["4000000000", "4000001000", "5000000000", "1", "0", "-5", "x"];
const EXPIRES_AT_MS: &[&str] =
    &["4000000000000", "4000000000001", "5000000000123", "1", "0", "-5", "9223372036854775807"];
const EXPIRES_S: &[&str] = &["1000", "100000", "0", "-1", "9223372036854775", "9223372036854776"];
const EXPIRES_MS: &[&str] = &["1000000", "100000000", "0", "-1", "9223372036854775807", "1e3"];
const PATTERNS: &[&str] = &["*", "k?", "k[0-2]", "[^a]*", "*1*", "k\\1", "", "k[2-0]", "k[", "**1"];

const BITS: &[&str] = &["0", "1", "7", "8", "13", "100", "#0", "#3", "77", "-1", "4294967296"];

/// Keys that only SET writes.
const SHORT: &[&str] = &["short0", "short1", "short2"];

struct Generator {
    rng: Rng,
}

impl Generator {
    fn pick(&mut self, words: &[&str]) -> Vec<u8> {
        words[self.rng.below(words.len() as u64) as usize].as_bytes().to_vec()
    }

    fn key(&mut self) -> Vec<u8> {
        self.pick(&["k0", "k1", "k2", "k3", "counter", ""])
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.below(5) {
            0 => self.pick(NUMBERS),
            1 => self.pick(FLOATS),
            2 => (0..self.rng.below(60)).map(|_| self.rng.next_u64() as u8).collect(),
            3 => (0..self.rng.below(12)).map(|_| b'a' + self.rng.below(3) as u8).collect(),
            _ => self.rng.below(1000).to_string().into_bytes(),
        }
    }

    fn push_if(&mut self, args: &mut Vec<Vec<u8>>, parts: u64, word: &[&str]) {
        if self.rng.chance(parts, 10) {
            let word = self.pick(word);
            args.push(word);
        }
    }

    fn push_expiry(&mut self, args: &mut Vec<Vec<u8>>) {
        let (unit, times) = match self.rng.below(8) {
            0 => ("EX", EXPIRES_S),
            1 => ("px", EXPIRES_MS),
            2 => ("ExAt", EXPIRES_AT_S),
            3 => ("PXAT", EXPIRES_AT_MS),
            4 => ("KEEPTTL", &[][..]),
            5 => ("PERSIST", &[][..]),
            _ => return,
        };
        args.push(unit.into());
        if !times.is_empty() {
            let time = self.pick(times);
            args.push(time);
        }
    }

    fn push_range(&mut self, args: &mut Vec<Vec<u8>>) {
        if self.rng.chance(7, 10) {
            args.push(self.pick(INDICES));
            if self.rng.chance(9, 10) {
                args.push(self.pick(INDICES));
                self.push_if(args, 5, &["BIT", "byte", "bit", "bogus"]);
            }
        }
    }

    /// An operation of BITFIELD.
    fn push_field(&mut self, args: &mut Vec<Vec<u8>>) {
        let name = self.pick(&["GET", "SET", "INCRBY", "set", "incrby", "OVERFLOW", "bogus"]);
        if name == b"OVERFLOW" {
            args.extend([name, self.pick(&["WRAP", "sat", "FAIL", "SAT", "fail", "bogus"])]);
            return;
        }
        let has_number = name != b"GET";
        let kind = self.pick(&["i", "u", "u", "i", "x"]);
        let bits = self.pick(&["1", "3", "5", "8", "16", "31", "63", "64", "65", "0"]);
        args.extend([name, [kind, bits].concat(), self.pick(BITS)]);
        if has_number {
            args.push(self.pick(NUMBERS));
        }
    }

    fn command(&mut self) -> (Vec<Vec<u8>>, Compare) {
        let mut args: Vec<Vec<u8>> = Vec::new();
        let mut compare = Compare::Bytes;
        macro_rules! command {
            ($name:expr $(, $arg:expr)*) => {{
                args.push($name.as_bytes().to_vec());
                $({ let arg = $arg; args.push(arg); })*
            }};
        }
        match self.rng.below(61) {
            0..4 => {
                command!("SET", self.key(), self.value());
                self.push_if(&mut args, 3, &["NX", "XX", "GET", "nx", "bogus"]);
                self.push_expiry(&mut args);
                self.push_if(&mut args, 3, &["NX", "XX", "GET", "xx", "get"]);
                self.push_if(&mut args, 1, &["EX", "KEEPTTL", "PXAT"]);
            }
            4..7 => command!("GET", self.key()),
            7 => command!("SETNX", self.key(), self.value()),
            8 if self.rng.chance(1, 2) => command!("SET", self.pick(SHORT), self.value()),
            8 => command!("GETSET", self.key(), self.value()),
            9 => command!("GETDEL", self.key()),
            10 | 11 => {
                command!("GETEX", self.key());
                self.push_expiry(&mut args);
                self.push_if(&mut args, 1, &["PERSIST", "EX", "NX"]);
            }
            12 => command!("MGET", self.key(), self.key(), self.key()),
            13 => {
                command!("MSET", self.key(), self.value(), self.key(), self.value());
                self.push_if(&mut args, 1, &["k1"]);
            }
            14 => command!("MSETNX", self.key(), self.value(), self.key(), self.value()),
            15 | 16 => command!("APPEND", self.key(), self.value()),
            17 => command!("STRLEN", self.key()),
            18 | 19 => command!("GETRANGE", self.key(), self.pick(INDICES), self.pick(INDICES)),
            20 => command!("SUBSTR", self.key(), self.pick(INDICES), self.pick(INDICES)),
            21 => command!("SETRANGE", self.key(), self.pick(OFFSETS), self.value()),
            22 => command!("INCR", self.key()),
            23 => command!("DECR", self.key()),
            24 => command!("INCRBY", self.key(), self.pick(NUMBERS)),
            25 => command!("DECRBY", self.key(), self.pick(NUMBERS)),
            26..29 => command!("INCRBYFLOAT", self.key(), self.pick(FLOATS)),
            29 | 30 => {
                // LCS takes short values: Redis compares longer ones than we do.
                command!("LCS", self.pick(SHORT), self.pick(SHORT));
                self.push_if(&mut args, 5, &["IDX", "LEN", "idx"]);
                self.push_if(&mut args, 3, &["WITHMATCHLEN", "LEN", "bogus"]);
                if self.rng.chance(3, 10) {
                    command!("MINMATCHLEN", self.pick(NUMBERS));
                }
            }
            31 => command!(self.pick_name(&["DEL", "UNLINK"]), self.key(), self.key()),
            32 => command!(self.pick_name(&["EXISTS", "TOUCH"]), self.key(), self.key()),
            33 => command!("TYPE", self.key()),
            34 => command!(self.pick_name(&["RENAME", "RENAMENX"]), self.key(), self.key()),
            35 => {
                command!("COPY", self.key(), self.key());
                self.push_if(&mut args, 4, &["REPLACE", "DB", "bogus"]);
                self.push_if(&mut args, 6, &["0", "1", "1", "15", "x", "16", "99999999999"]);
                self.push_if(&mut args, 2, &["REPLACE"]);
            }
            36 => {
                command!("KEYS", self.pick(PATTERNS));
                compare = Compare::Sorted;
            }
            37 | 38 => {
                command!("PEXPIREAT", self.key(), self.pick(EXPIRES_AT_MS));
                self.push_if(&mut args, 5, &["NX", "XX", "GT", "LT", "bogus"]);
                self.push_if(&mut args, 2, &["NX", "XX", "GT", "LT"]);
            }
            39 => {
                command!("EXPIREAT", self.key(), self.pick(EXPIRES_AT_S));
                self.push_if(&mut args, 5, &["nx", "xx", "gt", "lt"]);
            }
            40 => command!("EXPIRE", self.key(), self.pick(EXPIRES_S)),
            41 => command!("PEXPIRE", self.key(), self.pick(EXPIRES_MS)),
            42 => command!("PERSIST", self.key()),
            43 => {
                command!(self.pick_name(&["TTL", "EXPIRETIME"]), self.key());
                compare = Compare::Within(2);
            }
            44 => {
                command!(self.pick_name(&["PTTL", "PEXPIRETIME"]), self.key());
                compare = Compare::Within(2000);
            }
            45 | 46 => {
                command!("SETBIT", self.key(), self.pick(BITS), self.pick(&["0", "1", "1", "2"]))
            }
            47 => command!("GETBIT", self.key(), self.pick(BITS)),
            48 => {
                command!("BITCOUNT", self.key());
                self.push_range(&mut args);
            }
            49 | 50 => {
                command!("BITPOS", self.key(), self.pick(&["0", "1", "1", "x"]));
                self.push_range(&mut args);
            }
            51 => {
                command!("BITOP", self.pick(&["AND", "or", "XOR", "NOT", "bogus"]), self.key());
                (0..=self.rng.below(3)).for_each(|_| args.push(self.key()));
            }
            52..55 => {
                command!(self.pick_name(&["BITFIELD", "BITFIELD", "BITFIELD_RO"]), self.key());
                (0..self.rng.below(5)).for_each(|_| self.push_field(&mut args));
            }
            55 | 56 => command!("SELECT", self.pick(&["0", "1", "1", "15", "16"])),
            57 | 58 => command!(
                "MOVE",
                self.key(),
                self.pick(&["0", "1", "1", "15", "16", "x", "99999999999"])
            ),
            59 if self.rng.chance(1, 4) => {
                command!(self.pick_name(&["FLUSHDB", "FLUSHDB", "FLUSHDB", "FLUSHALL"]));
            }
            59 => {
                command!("SWAPDB", self.pick(&["0", "1"]), self.pick(&["0", "1", "15", "16", "x"]))
            }
            _ => {
                command!(self.pick_name(&["SETEX", "PSETEX"]), self.key());
                args.push(self.pick(EXPIRES_S));
                args.push(self.value());
            }
        }
        if self.rng.chance(1, 200) {
            args.pop();
        }
        if self.rng.chance(1, 200) {
            args.push(self.value());
        }
        (args, compare)
    }

    fn pick_name(&mut self, names: &[&'static str]) -> &'static str {
        names[self.rng.below(names.len() as u64) as usize]
    }
}

#[test]
fn random_commands_are_answered_as_redis_does() {
    let server = Server::start();
    for (seed, protocol) in [(1, Protocol::Resp2), (2, Protocol::Resp3)] {
        let mut twin = Twin::new(&server, protocol);
        let mut generator = Generator { rng: Rng::new(seed) };
        for step in 0..COMMANDS {
            let (args, compare) = generator.command();
            let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
            // A request of no words is no request.
            if !args.is_empty() {
                twin.check(&args, compare);
            }
            if step % 500 == 0 {
                twin.check_content();
            }
        }
        twin.check_content();
    }
}
