//! Breaks comments that are too wide, for `cargo xtask fix`: rustfmt leaves comments alone.
//!
//! The last words of a wide line move to the line after it, if that continues the same paragraph,
//! else to a new line. Tables, fenced blocks and what has no blank to break at stay as they are.

/// `text` with its comments within `width` columns where that is possible.
pub(crate) fn wrap(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let (mut at, mut is_fenced) = (0, false);
    while at < lines.len() {
        let Some((lead, body)) = comment(&lines[at]) else {
            (at, is_fenced) = (at + 1, false);
            continue;
        };
        is_fenced ^= body.starts_with("```");
        let is_kept = is_fenced || body.starts_with('|') || lines[at].chars().count() <= width;
        let Some((kept, moved)) = (!is_kept).then(|| split(body, width, lead.len())).flatten()
        else {
            at += 1;
            continue;
        };
        let (kept, moved) = (format!("{lead}{kept}"), moved.to_owned());
        let lead = continuation(lead, body);
        lines[at] = kept;
        match lines.get(at + 1).and_then(|next| comment(next)) {
            Some((next_lead, next)) if next_lead.len() == lead.len() && is_running_text(next) => {
                lines[at + 1] = format!("{next_lead}{moved} {next}");
            }
            _ => lines.insert(at + 1, format!("{lead}{moved}")),
        }
        at += 1;
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

/// (indentation, marker and blanks; the rest) of a line that is a comment only.
fn comment(line: &str) -> Option<(&str, &str)> {
    let slashes = line.trim_start();
    let marker = ["//!", "///", "//"].into_iter().find(|marker| slashes.starts_with(marker))?;
    let body = slashes[marker.len()..].trim_start();
    (!body.is_empty()).then(|| line.split_at(line.len() - body.len()))
}

/// Splits at the last blank that leaves the first part within `width`.
fn split(body: &str, width: usize, lead: usize) -> Option<(&str, &str)> {
    let blanks = body.match_indices(' ').map(|(at, _)| at);
    let fits = |at: &usize| lead + body[..*at].chars().count() <= width;
    let at = blanks.take_while(fits).last()?;
    Some((body[..at].trim_end(), &body[at + 1..]))
}

/// The beginning of a further line of the same paragraph: items of lists are indented.
fn continuation(lead: &str, body: &str) -> String {
    let is_item = body.starts_with("- ") || body.starts_with("* ");
    format!("{lead}{}", if is_item { "  " } else { "" })
}

/// Whether words may be put before it: no item, table, fence, heading.
fn is_running_text(body: &str) -> bool {
    !["- ", "* ", "|", "```", "#", "[", "> "].iter().any(|start| body.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_move_on_within_a_paragraph() {
        let text = "//! aaa bbb ccc ddd\n//! eee\n\nfn f() {}\n";
        assert_eq!(wrap(text, 15), "//! aaa bbb ccc\n//! ddd eee\n\nfn f() {}\n");
        let text = "    // aaa bbb ccc\n    f();\n";
        assert_eq!(wrap(text, 14), "    // aaa bbb\n    // ccc\n    f();\n");
    }

    #[test]
    fn items_stay_items() {
        let text = "//! - I1 aa bb cc\n//!   dd\n//! - I2 ee\n";
        assert_eq!(wrap(text, 14), "//! - I1 aa bb\n//!   cc dd\n//! - I2 ee\n");
        let text = "//! - I1 aa bb cc\n//! - I2 ee\n";
        assert_eq!(wrap(text, 14), "//! - I1 aa bb\n//!   cc\n//! - I2 ee\n");
    }

    #[test]
    fn what_has_a_shape_keeps_it() {
        for text in [
            "//! ```text\n//! a b c d e f g h i j\n//! ```\n",
            "//! | a b c d e f g h i j |\n",
            "let a = b + c + d + e + f;\n",
            "//! aaaaaaaaaaaaaaaaaaaaaaa\n",
        ] {
            assert_eq!(wrap(text, 12), text);
        }
    }

    #[test]
    fn wrapping_twice_is_wrapping_once() {
        let text = "/// aaa bbb ccc ddd eee fff ggg hhh iii\n/// jjj kkk\n///\n/// lll\n";
        let once = wrap(text, 16);
        assert!(once.lines().all(|line| line.len() <= 16), "{once}");
        assert_eq!(wrap(&once, 16), once);
    }
}
