//! What a program that speaks Redis's protocol tells of what it saves, and of what it has.

use std::path::{Path, PathBuf};

/// The questions whose answers [`found`] reads.
pub(super) const QUESTIONS: &[u8] = b"*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$10\r\nappendonly\r\n\
    *3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$3\r\ndir\r\n\
    *3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$10\r\ndbfilename\r\n*1\r\n$4\r\nINFO\r\n";

/// The counts of keys that may end by themselves, or lose all their fields so: of Redis, and of
/// Valkey.
const NOT_LASTING: [&str; 3] = ["expires", "subexpiry", "keys_with_volatile_items"];

/// What the answers tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Found {
    /// A log of writes, with which the program would begin.
    pub(super) has_log: bool,
    /// The file that the program saves to, and otherwise begins with.
    pub(super) path: PathBuf,
    /// The keys that do not expire, where the program tells.
    pub(super) n_lasting: Option<u64>,
    /// The keys that were evicted since it began.
    pub(super) n_evicted: u64,
}

/// What the answers tell, once all are there.
pub(super) fn found(answer: &[u8]) -> Result<Option<Found>, String> {
    let mut rest = answer;
    let mut setting = |name: &str| -> Result<Option<Option<String>>, String> {
        let Some(head) = line(&mut rest) else { return Ok(None) };
        match head {
            b"*0" => Ok(Some(None)), // it knows no such setting
            b"*2" => {
                let values = bulk(&mut rest).and_then(|_| bulk(&mut rest));
                Ok(values.map(|value| Some(String::from_utf8_lossy(value).into_owned())))
            }
            head => {
                let head = String::from_utf8_lossy(head);
                Err(format!("CONFIG GET {name} is answered with {head:?}"))
            }
        }
    };
    let Some(log) = setting("appendonly")? else { return Ok(None) };
    let Some(dir) = setting("dir")? else { return Ok(None) };
    let Some(name) = setting("dbfilename")? else { return Ok(None) };
    let (Some(dir), Some(name)) = (dir, name) else {
        return Err("the program knows no setting dir or dbfilename".to_owned());
    };
    let info = if rest.first() == Some(&b'-') {
        line(&mut rest).map(|_| None)
    } else {
        bulk(&mut rest).map(|info| Some(String::from_utf8_lossy(info).into_owned()))
    };
    let Some(info) = info else { return Ok(None) };
    Ok(Some(Found {
        has_log: log.is_some_and(|log| log != "no"),
        path: Path::new(&dir).join(name),
        n_lasting: info.as_deref().map(lasting),
        n_evicted: info.as_deref().map_or(0, evicted),
    }))
}

/// The next line, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let at = rest.windows(2).position(|two| two == b"\r\n")?;
    let (line, behind) = (&rest[..at], &rest[at + 2..]);
    *rest = behind;
    Some(line)
}

/// The next word behind its length.
fn bulk<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let n = std::str::from_utf8(line(rest)?.strip_prefix(b"$")?).ok()?.parse::<usize>().ok()?;
    let word = rest.get(..n)?;
    *rest = rest.get(n.checked_add(2)?..)?;
    Some(word)
}

/// The keys of all databases that do not expire. (A key that expires, and has fields that do, is
/// subtracted twice: a program that has lost it has no fewer of these than before.)
fn lasting(info: &str) -> u64 {
    let mut n_lasting = 0;
    for line in info.lines() {
        let Some((_, counts)) = line.strip_prefix("db").and_then(|line| line.split_once(':'))
        else {
            continue;
        };
        for (name, n) in counts.split(',').filter_map(|count| count.split_once('=')) {
            let n = n.trim().parse::<i64>().unwrap_or(0);
            if name == "keys" {
                n_lasting += n;
            } else if NOT_LASTING.contains(&name) {
                n_lasting -= n;
            }
        }
    }
    u64::try_from(n_lasting).unwrap_or(0)
}

fn evicted(info: &str) -> u64 {
    let n = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
    n.and_then(|n| n.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: &str = "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n*2\r\n$3\r\ndir\r\n$4\r\n/a/b\r\n\
        *2\r\n$10\r\ndbfilename\r\n$1\r\nc\r\n";

    #[test]
    fn the_answers_tell_the_file_and_the_keys_once_they_are_whole() {
        let info = "# Stats\r\nevicted_keys:4\r\n# Keyspace\r\n\
            db0:keys=10,expires=3,avg_ttl=1,subexpiry=2\r\ndb3:keys=1,expires=0\r\n";
        let whole = format!("{SETTINGS}${}\r\n{info}\r\n", info.len());
        for n in 0..whole.len() {
            assert_eq!(found(&whole.as_bytes()[..n]), Ok(None), "{n}");
        }
        let told = Found {
            has_log: false,
            path: PathBuf::from("/a/b/c"),
            n_lasting: Some(6),
            n_evicted: 4,
        };
        assert_eq!(found(whole.as_bytes()), Ok(Some(told.clone())));
        let logs = whole.replace("$2\r\nno", "$3\r\nyes");
        assert_eq!(found(logs.as_bytes()), Ok(Some(Found { has_log: true, ..told.clone() })));
        let knows_no_log = whole.replace("*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n", "*0\r\n");
        assert_eq!(found(knows_no_log.as_bytes()), Ok(Some(told.clone())));
        let refused = format!("{SETTINGS}-NOPERM it\r\n");
        let silent = Found { n_lasting: None, n_evicted: 0, ..told };
        assert_eq!(found(refused.as_bytes()), Ok(Some(silent)));
        assert!(found(b"-NOAUTH\r\n").unwrap_err().contains("NOAUTH"));
    }
}
