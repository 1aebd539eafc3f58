//! Lua's patterns, matched within a bound of steps.
//!
//! The C library's matcher recurses as deep as a pattern is long and backtracks without a bound; no
//! hook can stop it. This matcher follows the Lua 5.1 manual (5.4.1), counts each step, and gives
//! up when no step is left.

/// The most captures of one pattern, as in Lua.
const CAPTURES_MAX: usize = 32;

/// The deepest recursion: about the number of items of the longest pattern.
const DEPTH_MAX: usize = 200;

/// The bytes of a set that cost a step when it is searched.
const SET_BYTES_PER_STEP: usize = 4;

/// The reason why a match was not completed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternError {
    /// The pattern is malformed; this is Lua's text.
    Malformed(&'static str),
    /// No steps are left.
    Spent,
}

use PatternError::{Malformed, Spent};

/// The value of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Capture {
    /// Bytes of the subject.
    Bytes(usize, usize),
    /// A position, from 0.
    Position(usize),
    /// A capture that is begun and not ended.
    Open(usize),
}

/// One match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Match {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) captures: Vec<Capture>,
}

/// Finds the first match of `pattern` in `subject` that begins at or after `from`; each step is
/// taken from `steps`. A pattern that begins with `^` is tried at `from` alone, if `anchors`.
pub(super) fn find(
    subject: &[u8],
    pattern: &[u8],
    from: usize,
    anchors: bool,
    steps: &mut u64,
) -> Result<Option<Match>, PatternError> {
    let (pattern, is_anchored) = match pattern {
        [b'^', rest @ ..] if anchors => (rest, true),
        whole => (whole, false),
    };
    let mut matcher = Matcher { subject, pattern, captures: Vec::new(), steps, depth: 0 };
    for start in from..=subject.len() {
        matcher.captures.clear();
        if let Some(end) = matcher.run(start, 0)? {
            if matcher.captures.iter().any(|capture| matches!(capture, Capture::Open(_))) {
                return Err(Malformed("unfinished capture"));
            }
            return Ok(Some(Match { start, end, captures: matcher.captures }));
        }
        if is_anchored {
            break;
        }
    }
    Ok(None)
}

struct Matcher<'a> {
    subject: &'a [u8],
    pattern: &'a [u8],
    captures: Vec<Capture>,
    steps: &'a mut u64,
    depth: usize,
}

impl Matcher<'_> {
    fn step(&mut self) -> Result<(), PatternError> {
        self.pay(1)
    }

    fn pay(&mut self, steps: usize) -> Result<(), PatternError> {
        *self.steps = self.steps.checked_sub(steps as u64).ok_or(Spent)?;
        Ok(())
    }

    /// Matches the pattern from `p` on at `s`; returns where the match ends.
    fn run(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        if self.depth == DEPTH_MAX {
            return Err(Malformed("pattern too complex"));
        }
        self.depth += 1;
        let end = self.items(s, p);
        self.depth -= 1;
        end
    }

    fn items(&mut self, mut s: usize, mut p: usize) -> Result<Option<usize>, PatternError> {
        loop {
            self.step()?;
            let Some(&item) = self.pattern.get(p) else { return Ok(Some(s)) };
            match (item, self.pattern.get(p + 1)) {
                (b'(', Some(b')')) => return self.open(s, p + 2, Capture::Position(s)),
                (b'(', _) => return self.open(s, p + 1, Capture::Open(s)),
                (b')', _) => return self.close(s, p + 1),
                (b'$', None) => return Ok((s == self.subject.len()).then_some(s)),
                (b'%', Some(b'b')) => match self.balanced(s, p + 2)? {
                    Some(next) => (s, p) = (next, p + 4),
                    None => return Ok(None),
                },
                (b'%', Some(b'f')) => {
                    p += 2;
                    if self.pattern.get(p) != Some(&b'[') {
                        return Err(Malformed("missing '[' after '%f' in pattern"));
                    }
                    let end = self.class_end(p)?;
                    let before = if s == 0 { 0 } else { self.subject[s - 1] };
                    let here = self.subject.get(s).copied().unwrap_or(0);
                    if self.in_set(before, p, end - 1) || !self.in_set(here, p, end - 1) {
                        return Ok(None);
                    }
                    p = end;
                }
                (b'%', Some(digit)) if digit.is_ascii_digit() => {
                    match self.back_reference(s, *digit)? {
                        Some(next) => (s, p) = (next, p + 2),
                        None => return Ok(None),
                    }
                }
                _ => {
                    let end = self.class_end(p)?;
                    match self.pattern.get(end) {
                        Some(b'?') => {
                            if self.single(s, p, end)?
                                && let Some(found) = self.run(s + 1, end + 1)?
                            {
                                return Ok(Some(found));
                            }
                            p = end + 1;
                        }
                        Some(b'*') => return self.most(s, p, end, 0),
                        Some(b'+') => return self.most(s, p, end, 1),
                        Some(b'-') => return self.least(s, p, end),
                        _ if self.single(s, p, end)? => (s, p) = (s + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    fn most(
        &mut self,
        s: usize,
        p: usize,
        end: usize,
        least: usize,
    ) -> Result<Option<usize>, PatternError> {
        let mut n = 0;
        while self.single(s + n, p, end)? {
            self.step()?;
            n += 1;
        }
        while n >= least {
            if let Some(found) = self.run(s + n, end + 1)? {
                return Ok(Some(found));
            }
            let Some(fewer) = n.checked_sub(1) else { break };
            n = fewer;
        }
        Ok(None)
    }

    fn least(&mut self, mut s: usize, p: usize, end: usize) -> Result<Option<usize>, PatternError> {
        loop {
            if let Some(found) = self.run(s, end + 1)? {
                return Ok(Some(found));
            }
            if !self.single(s, p, end)? {
                return Ok(None);
            }
            s += 1;
        }
    }

    fn open(
        &mut self,
        s: usize,
        p: usize,
        capture: Capture,
    ) -> Result<Option<usize>, PatternError> {
        if self.captures.len() == CAPTURES_MAX {
            return Err(Malformed("too many captures"));
        }
        let n = self.captures.len();
        self.captures.push(capture);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures.truncate(n);
        }
        Ok(found)
    }

    fn close(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        let open = self.captures.iter().rposition(|one| matches!(one, Capture::Open(_)));
        let at = open.ok_or(Malformed("invalid pattern capture"))?;
        let Capture::Open(start) = self.captures[at] else { return Ok(None) };
        self.captures[at] = Capture::Bytes(start, s);
        let found = self.run(s, p)?;
        if found.is_none() {
            self.captures[at] = Capture::Open(start);
        }
        Ok(found)
    }

    fn balanced(&mut self, s: usize, p: usize) -> Result<Option<usize>, PatternError> {
        let (Some(&open), Some(&close)) = (self.pattern.get(p), self.pattern.get(p + 1)) else {
            return Err(Malformed("unbalanced pattern"));
        };
        if self.subject.get(s) != Some(&open) {
            return Ok(None);
        }
        let mut depth = 1;
        for at in s + 1..self.subject.len() {
            self.step()?;
            let byte = self.subject[at];
            if byte == close {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(at + 1));
                }
            } else if byte == open {
                depth += 1;
            }
        }
        Ok(None)
    }

    fn back_reference(&mut self, s: usize, digit: u8) -> Result<Option<usize>, PatternError> {
        let at = usize::from(digit).checked_sub(usize::from(b'1'));
        let Some(Capture::Bytes(start, end)) = at.and_then(|at| self.captures.get(at)) else {
            return Err(Malformed("invalid capture index"));
        };
        let earlier = &self.subject[*start..*end];
        let len = earlier.len();
        *self.steps = self.steps.checked_sub(len as u64 / 8).ok_or(Spent)?;
        Ok(self.subject[s..].starts_with(earlier).then_some(s + len))
    }

    /// The end of the single-character class that begins at `p`. Finding it reads the whole set,
    /// which is read again for each byte that is compared with it.
    fn class_end(&mut self, p: usize) -> Result<usize, PatternError> {
        let end = self.find_class_end(p);
        self.pay(end.as_ref().map_or(self.pattern.len(), |end| *end - p) / SET_BYTES_PER_STEP)?;
        end
    }

    fn find_class_end(&self, p: usize) -> Result<usize, PatternError> {
        match self.pattern[p] {
            b'%' if p + 1 == self.pattern.len() => {
                Err(Malformed("malformed pattern (ends with '%')"))
            }
            b'%' => Ok(p + 2),
            b'[' => {
                let mut at = p + 1;
                at += usize::from(self.pattern.get(at) == Some(&b'^'));
                let first = at;
                loop {
                    match self.pattern.get(at) {
                        None => return Err(Malformed("malformed pattern (missing ']')")),
                        Some(b']') if at > first => return Ok(at + 1),
                        Some(b'%') if at + 1 < self.pattern.len() => at += 2,
                        Some(_) => at += 1,
                    }
                }
            }
            _ => Ok(p + 1),
        }
    }

    fn single(&mut self, s: usize, p: usize, end: usize) -> Result<bool, PatternError> {
        let Some(&byte) = self.subject.get(s) else { return Ok(false) };
        self.pay((end - p) / SET_BYTES_PER_STEP)?;
        Ok(match self.pattern[p] {
            b'.' => true,
            b'%' => in_class(byte, self.pattern[p + 1]),
            b'[' => self.in_set(byte, p, end - 1),
            exact => byte == exact,
        })
    }

    /// Whether the set between `p`, a `[`, and `end`, its `]`, contains `byte`.
    fn in_set(&self, byte: u8, p: usize, end: usize) -> bool {
        let mut at = p + 1;
        let is_complement = self.pattern[at] == b'^';
        at += usize::from(is_complement);
        while at < end {
            let item = self.pattern[at];
            if item == b'%' && at + 1 < end {
                if in_class(byte, self.pattern[at + 1]) {
                    return !is_complement;
                }
                at += 2;
            } else if at + 2 < end && self.pattern[at + 1] == b'-' {
                if (item..=self.pattern[at + 2]).contains(&byte) {
                    return !is_complement;
                }
                at += 3;
            } else {
                if item == byte {
                    return !is_complement;
                }
                at += 1;
            }
        }
        is_complement
    }
}

fn in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        // C's white space has the vertical tab, too.
        b's' => byte.is_ascii_whitespace() || byte == 0x0b,
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(subject: &str, pattern: &str) -> Option<String> {
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, true, &mut 100_000).unwrap()?;
        Some(subject[found.start..found.end].to_owned())
    }

    #[test]
    fn the_manual_s_items_match() {
        let cases = [
            ("hello world", "o w", "o w"),
            ("key = value", "(%w+)%s*=%s*(%w+)", "key = value"),
            ("f(a(b)c)d", "%b()", "(a(b)c)"),
            ("THE (quick) fox", "%f[%a]%a+%f[%A]", "THE"),
            ("aaab", "a-b", "aaab"),
            ("x-y]z", "[]%-]", "-"),
            ("5 = x", "[a-c%dx]$", "x"),
            ("\"it's\"", "([\"']).-%1", "\"it's\""),
            ("abc123", "%d+$", "123"),
            ("abc", "", ""),
            ("color colour", "colou?r$", "colour"),
        ];
        for (subject, pattern, expected) in cases {
            assert_eq!(whole(subject, pattern).as_deref(), Some(expected), "{pattern}");
        }
        assert_eq!(whole("abc", "^b"), None);
        assert_eq!(whole("abc", "[^%a]"), None);
    }

    #[test]
    fn a_pattern_that_backtracks_for_ever_is_given_up() {
        let subject = "a".repeat(5_000);
        let pattern = ".-".repeat(40) + "b";
        let mut steps = 1_000_000;
        let found = find(subject.as_bytes(), pattern.as_bytes(), 0, true, &mut steps);
        assert_eq!((found, steps), (Err(Spent), 0));
        let deep = "a?".repeat(10_000);
        let found = find(subject.as_bytes(), deep.as_bytes(), 0, true, &mut 1_000_000);
        assert_eq!(found, Err(Malformed("pattern too complex")));
    }
}
