//! AUTH and HELLO: the client's password, and the protocol that it speaks.

use super::REDIS_VERSION;
use super::door::Door;
use crate::exec::{SYNTAX, parse_integer};
use crate::reply::Protocol;

const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_PASSWORD_CONFIGURED: &str = "ERR AUTH <password> called without any password configured for the default user. Are you \
     sure your configuration is correct?";
const NO_AUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH \
     <user> <pass> option can be used to authenticate the client and select the RESP protocol \
     version at the same time";
pub(super) const BAD_NAME: &str =
    "ERR Client names cannot contain spaces, newlines or special characters.";

impl Door {
    /// AUTH [user] password
    pub(super) fn auth(&mut self, args: &[&[u8]]) {
        let (user, password) = match *args {
            [_, password] => {
                if self.config.requirepass.is_none() {
                    self.reply.error(NO_PASSWORD_CONFIGURED);
                    return;
                }
                (&b"default"[..], password)
            }
            [_, user, password] => (user, password),
            _ => {
                self.reply.error(SYNTAX);
                return;
            }
        };
        if self.admits(user, password) {
            self.is_authenticated = true;
            self.reply.ok();
        } else {
            self.reply.error(WRONG_PASSWORD);
        }
    }

    /// There is one user, as in a Redis without an ACL.
    fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let Some(expected) = &self.config.requirepass else { return user == b"default" };
        user == b"default" && is_equal_in_constant_time(expected.as_bytes(), password)
    }

    /// HELLO [version [AUTH user password] [SETNAME name]]
    pub(super) fn hello(&mut self, args: &[&[u8]]) {
        let protocol = match args.get(1) {
            None => self.protocol,
            Some(version) => match parse_integer(version) {
                Some(2) => Protocol::Resp2,
                Some(3) => Protocol::Resp3,
                Some(_) => {
                    self.reply.error("NOPROTO unsupported protocol version");
                    return;
                }
                None => {
                    self.reply.error("ERR Protocol version is not an integer or out of range");
                    return;
                }
            },
        };
        let mut options = args.get(2..).unwrap_or_default();
        while let [option, rest @ ..] = options {
            options = if option.eq_ignore_ascii_case(b"auth")
                && let [user, password, rest @ ..] = rest
            {
                if !self.admits(user, password) {
                    self.reply.error(WRONG_PASSWORD);
                    return;
                }
                self.is_authenticated = true;
                rest
            } else if option.eq_ignore_ascii_case(b"setname")
                && let [name, rest @ ..] = rest
            {
                if !self.set_name(name) {
                    return;
                }
                rest
            } else {
                let mut text = b"ERR Syntax error in HELLO option '".to_vec();
                text.extend_from_slice(option);
                text.push(b'\'');
                self.reply.error(text);
                return;
            };
        }
        if !self.is_authenticated {
            self.reply.error(NO_AUTH_HELLO);
            return;
        }
        self.protocol = protocol;
        let id = self.identity.id as i64;
        let reply = &mut self.reply;
        reply.set_protocol(protocol);
        reply.map(7);
        // Clients read the server's name to know its commands: those of this version of Redis.
        for (name, value) in [("server", "redis"), ("version", REDIS_VERSION)] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"proto");
        reply.integer(if protocol == Protocol::Resp3 { 3 } else { 2 });
        reply.bulk(b"id");
        reply.integer(id);
        // Any member takes any command, so a client need not know the leader.
        let mode = if self.config.is_cluster { "cluster" } else { "standalone" };
        for (name, value) in [("mode", mode), ("role", "master")] {
            reply.bulk(name.as_bytes());
            reply.bulk(value.as_bytes());
        }
        reply.bulk(b"modules");
        reply.array(0);
    }

    /// Names the connection, or answers that the name is not allowed.
    pub(super) fn set_name(&mut self, name: &[u8]) -> bool {
        let is_good = name.iter().all(|byte| (b'!'..=b'~').contains(byte));
        if is_good {
            self.name = name.to_vec();
        } else {
            self.reply.error(BAD_NAME);
        }
        is_good
    }
}

/// The time that this takes depends only on the given text, so it reveals nothing about the
/// expected one.
fn is_equal_in_constant_time(expected: &[u8], given: &[u8]) -> bool {
    let mut difference = expected.len() ^ given.len();
    for (at, byte) in given.iter().enumerate() {
        let other = expected.get(at % expected.len().max(1)).copied().unwrap_or(0);
        difference |= usize::from(byte ^ other);
    }
    difference == 0
}

#[cfg(test)]
mod tests {
    use super::is_equal_in_constant_time;

    #[test]
    fn only_the_same_password_is_equal() {
        for (expected, given, equal) in [
            ("secret", "secret", true),
            ("secret", "secres", false),
            ("secret", "secre", false),
            ("secret", "secretsecret", false),
            ("secret", "", false),
            ("", "", true),
            ("", "x", false),
        ] {
            let found = is_equal_in_constant_time(expected.as_bytes(), given.as_bytes());
            assert_eq!(found, equal, "{expected:?} {given:?}");
        }
    }
}
