//! Requests as a client writes them, and replies as it reads them.

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Error(String),
    Number(i64),
    Bytes(Option<Vec<u8>>),
    List(Option<Vec<Value>>),
}

/// Whether a member may give this error while faults last.
pub(super) fn may_pass(why: &str) -> bool {
    ["UNKNOWN ", "TRYAGAIN ", "LOADING "].iter().any(|word| why.starts_with(word))
}

/// Appends a request of these words.
pub(super) fn request(words: &[&[u8]], out: &mut Vec<u8>) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// The first reply in `bytes` and its length; `None` if more bytes have to come.
///
/// # Errors
/// The bytes that are not a reply.
pub(super) fn reply(bytes: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let Some(end) = bytes.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = std::str::from_utf8(&bytes[..end]).map_err(|error| error.to_string())?;
    let Some(kind) = line.chars().next() else { return Err("an empty line".to_owned()) };
    let (rest, mut at) = (&line[kind.len_utf8()..], end + 2);
    let number = || rest.parse::<i64>().map_err(|error| format!("{line:?}: {error}"));
    let value = match kind {
        '+' => Value::Text(rest.to_owned()),
        '-' => Value::Error(rest.to_owned()),
        ':' => Value::Number(number()?),
        '$' => match usize::try_from(number()?) {
            Err(_) => Value::Bytes(None),
            Ok(n_bytes) => {
                let Some(body) = bytes.get(at..at + n_bytes + 2) else { return Ok(None) };
                at += n_bytes + 2;
                Value::Bytes(Some(body[..n_bytes].to_vec()))
            }
        },
        '*' => match usize::try_from(number()?) {
            Err(_) => Value::List(None),
            Ok(n) => {
                let mut list = Vec::new();
                for _ in 0..n {
                    let Some((value, n_bytes)) = reply(&bytes[at..])? else { return Ok(None) };
                    list.push(value);
                    at += n_bytes;
                }
                Value::List(Some(list))
            }
        },
        _ => return Err(format!("{line:?} is no reply")),
    };
    Ok(Some((value, at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_is_read_when_all_of_it_is_there() {
        let bytes = b"*3\r\n:7\r\n$2\r\nab\r\n*-1\r\n";
        let list = vec![Value::Number(7), Value::Bytes(Some(b"ab".to_vec())), Value::List(None)];
        assert_eq!(reply(bytes), Ok(Some((Value::List(Some(list)), bytes.len()))));
        for n in 0..bytes.len() {
            assert_eq!(reply(&bytes[..n]), Ok(None), "{n} bytes");
        }
        assert_eq!(reply(b"$-1\r\n+OK\r\n"), Ok(Some((Value::Bytes(None), 5))));
        assert!(reply(b"?\r\n").is_err());
    }

    #[test]
    fn a_request_is_a_list_of_words() {
        let mut out = Vec::new();
        request(&[b"GET", b"a"], &mut out);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    }
}
