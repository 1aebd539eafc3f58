//! A Rust file, taken apart just enough: code here, comments and strings there.
//!
//! No parser: a scanner that knows comments, strings, raw strings and character literals. Lines
//! keep their numbers, so a finding names the right one.

/// One file in two layers of the same shape; what belongs to the other layer is blank.
pub(crate) struct Source {
    /// Code without comments and without what stands in quotes.
    pub(crate) code: String,
    /// Comments and what stands in quotes.
    pub(crate) prose: String,
}

impl Source {
    pub(crate) fn new(text: &str) -> Source {
        let mut source = Source { code: String::new(), prose: String::new() };
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let (length, is_prose) = match first {
                '/' if rest.starts_with("//") => (rest.find('\n').unwrap_or(rest.len()), true),
                '/' if rest.starts_with("/*") => (block_comment(rest), true),
                '"' => (quoted(rest), true),
                'r' | 'b' | 'c' if !source.ends_in_name() => match literal_with_prefix(rest) {
                    Some(length) => (length, true),
                    None => (1, false),
                },
                '\'' => match character(rest) {
                    Some(length) => (length, true),
                    None => (1, false),
                },
                other => (other.len_utf8(), false),
            };
            let (piece, after) = rest.split_at(length);
            source.push(piece, is_prose);
            rest = after;
        }
        source
    }

    fn push(&mut self, piece: &str, is_prose: bool) {
        let blank = |c: char| if c == '\n' { '\n' } else { ' ' };
        let (here, there) = match is_prose {
            true => (&mut self.prose, &mut self.code),
            false => (&mut self.code, &mut self.prose),
        };
        here.push_str(piece);
        there.extend(piece.chars().map(blank));
    }

    fn ends_in_name(&self) -> bool {
        self.code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
    }
}

/// Block comments nest.
fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

fn quoted(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// `r"..."`, `br#"..."#`, `b"..."`, `c"..."`, `b'.'`.
fn literal_with_prefix(text: &str) -> Option<usize> {
    let letters = text.chars().take_while(|c| matches!(c, 'r' | 'b' | 'c')).count();
    let rest = &text[letters..];
    let hashes = rest.chars().take_while(|c| *c == '#').count();
    if letters > 2 || !rest[hashes..].starts_with(['"', '\'']) {
        return None;
    }
    let is_raw = text[..letters].contains('r');
    if is_raw && rest[hashes..].starts_with('"') {
        let end = format!("\"{}", "#".repeat(hashes));
        let body = letters + hashes + 1;
        return Some(text[body..].find(&end).map_or(text.len(), |at| body + at + end.len()));
    }
    match (hashes, rest.starts_with('"')) {
        (0, true) => Some(letters + quoted(rest)),
        (0, false) => character(rest).map(|length| letters + length),
        _ => None,
    }
}

/// A character literal, or `None` for a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text.char_indices().skip(1);
    let (_, first) = chars.next()?;
    if first == '\\' {
        // The character after the backslash may itself be a quote.
        chars.next()?;
        return chars.find(|(_, c)| *c == '\'').map(|(at, _)| at + 1);
    }
    let (at, second) = chars.next()?;
    (second == '\'').then_some(at + 1)
}

/// Whether `word` stands in `line` as a word of its own.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_prose_and_the_rest_is_code() {
        let text =
            "let a = \"x // y\"; // z \"q\nlet b = '\"'; /* c /* d */ e */ f(r#\"g\"h\"#, 'i');\n";
        let source = Source::new(text);
        assert_eq!(source.code.lines().count(), 2);
        for word in ["x", "y", "z", "q", "c", "d", "e", "g", "h", "i"] {
            assert!(!has_word(&source.code, word), "{word} in {}", source.code);
            assert!(has_word(&source.prose, word), "{word} in {}", source.prose);
        }
        for word in ["let", "a", "b", "f"] {
            assert!(has_word(&source.code, word), "{word} in {}", source.code);
        }
    }

    #[test]
    fn lifetimes_and_escapes_do_not_swallow_code() {
        let source =
            Source::new(r"fn f<'a>(x: &'a u8) { g('\'', b'\\', b'x', '\u{1F600}'); after() }");
        assert!(has_word(&source.code, "after") && has_word(&source.code, "u8"), "{}", source.code);
        let source = Source::new("let r = br; let s = \"a\\\"b\"; after()");
        assert!(has_word(&source.code, "after"), "{}", source.code);
    }
}
