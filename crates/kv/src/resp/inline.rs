//! Inline commands: a line of words, for people with telnet.

use std::ops::Range;

/// Splits a line into words as Redis does, unescapes them into `words` and appends their ranges to
/// `ranges`. `None` if a quote does not close, or closes inside a word.
pub(super) fn split(line: &[u8], words: &mut Vec<u8>, ranges: &mut Vec<Range<u32>>) -> Option<()> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|&byte| is_space(byte)) {
            at += 1;
        }
        if at == line.len() {
            return Some(());
        }
        let start = words.len() as u32;
        at = word(line, at, words)?;
        ranges.push(start..words.len() as u32);
    }
}

/// Unescapes the word that begins at `at`; returns where it ends.
fn word(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Option<usize> {
    loop {
        match line.get(at) {
            // Not every space ends a word: Redis skips \v and \f between words only.
            None | Some(b' ' | b'\n' | b'\r' | b'\t') => return Some(at),
            Some(b'"') => return double_quoted(line, at + 1, words),
            Some(b'\'') => return single_quoted(line, at + 1, words),
            Some(&byte) => {
                words.push(byte);
                at += 1;
            }
        }
    }
}

fn double_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Option<usize> {
    loop {
        match &line[at..] {
            [] => return None,
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    &other => other,
                });
                at += 2;
            }
            [b'"', rest @ ..] => return ends_word(rest).then_some(at + 1),
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Option<usize> {
    loop {
        match &line[at..] {
            [] => return None,
            [b'\\', b'\'', ..] => {
                words.push(b'\'');
                at += 2;
            }
            [b'\'', rest @ ..] => return ends_word(rest).then_some(at + 1),
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn ends_word(rest: &[u8]) -> bool {
    rest.first().is_none_or(|&byte| is_space(byte))
}

/// C's `isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        _ => (digit | 0x20) - b'a' + 10,
    }
}
