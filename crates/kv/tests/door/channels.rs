//! Publish and subscribe at one member's connections.

use kv::connection::Config;
use kv::store::Published;

use crate::driver::{Driver, encode};

fn published(message: Vec<u8>) -> Published {
    Published { channel: b"news".to_vec(), message }
}

#[test]
fn a_subscriber_hears_what_was_published_in_the_log() {
    let mut driver = Driver::new(Config::default());
    let (mut hearer, mut speaker) = (driver.connect(), driver.connect());
    let heard = driver.call(&mut hearer, &[b"SUBSCRIBE", b"news", b"other"]);
    assert_eq!(
        heard,
        b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n\
          *3\r\n$9\r\nsubscribe\r\n$5\r\nother\r\n:2\r\n"
    );
    driver.call(&mut hearer, &[b"PSUBSCRIBE", b"n?ws"]);
    driver.call(&mut speaker, &[b"PUBLISH", b"news", b"hi"]);
    driver.call(&mut speaker, &[b"EVAL", b"redis.call('PUBLISH', 'news', 'ho')", b"0"]);
    let messages = driver.machine.take_published();
    assert_eq!(messages.len(), 2);
    assert_eq!(hearer.hear(&messages[0]), 2);
    assert_eq!(
        hearer.output(),
        b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n\
          *4\r\n$8\r\npmessage\r\n$4\r\nn?ws\r\n$4\r\nnews\r\n$2\r\nhi\r\n"
    );
    assert_eq!(speaker.hear(&messages[0]), 0);
}

#[test]
fn a_subscriber_in_resp2_does_nothing_else_until_it_has_unsubscribed() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    driver.call(&mut client, &[b"SUBSCRIBE", b"news"]);
    let refused = driver.call(&mut client, &[b"GET", b"k"]);
    assert!(refused.starts_with(b"-ERR Can't execute 'get'"), "{}", refused.escape_ascii());
    assert_eq!(driver.call(&mut client, &[b"PING"]), b"*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    let left = driver.call(&mut client, &[b"UNSUBSCRIBE"]);
    assert_eq!(left, b"*3\r\n$11\r\nunsubscribe\r\n$4\r\nnews\r\n:0\r\n");
    assert_eq!(driver.call(&mut client, &[b"GET", b"k"]), b"$-1\r\n");
    driver.call(&mut client, &[b"SUBSCRIBE", b"news"]);
    assert_eq!(driver.call(&mut client, &[b"RESET"]), b"+RESET\r\n");
    assert!(!client.is_subscribed());
}

/// As in Redis 7.0: CLIENT REPLY is about replies, and a message answers no request.
#[test]
fn a_subscriber_without_replies_hears_messages() {
    let mut driver = Driver::new(Config::default());
    let mut hearer = driver.connect();
    assert_eq!(driver.call(&mut hearer, &[b"CLIENT", b"REPLY", b"OFF"]), b"");
    let heard = driver.call(&mut hearer, &[b"SUBSCRIBE", b"news"]);
    assert_eq!(heard, b"*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
    assert_eq!(hearer.hear(&published(b"hi".to_vec())), 1);
    assert_eq!(hearer.output(), b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n");
}

#[test]
fn c13_a_subscriber_that_does_not_read_is_cut_off() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    client.feed(&encode(&[b"SUBSCRIBE", b"news"]), base::Instant::ZERO);
    assert!(driver.ask(&mut client).is_none());
    let message = published(vec![b'x'; 1 << 20]);
    let mut n = 0;
    let now = base::Instant::ZERO;
    while !client.is_over_limit(now) {
        assert_eq!(client.hear(&message), 1);
        n += 1;
        assert!(n <= 32, "it is bounded");
    }
    assert_eq!(n, 32, "by the limit of its kind");
}

#[test]
fn what_nobody_takes_is_dropped_beyond_a_bound() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    let message = vec![b'x'; 512 << 10];
    for _ in 0..40 {
        driver.call(&mut client, &[b"PUBLISH", b"news", &message]);
    }
    let kept: usize = driver.machine.take_published().iter().map(|one| one.message.len()).sum();
    assert!(kept <= kv::store::PUBLISHED_BYTES_MAX && kept > 0);
}

#[test]
fn c1_a_message_follows_the_replies_to_what_was_asked_before_it() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    let mut input = encode(&[b"SET", b"k", b"v"]);
    input.extend_from_slice(&encode(&[b"SUBSCRIBE", b"news"]));
    client.feed(&input, base::Instant::ZERO);
    let set = driver.ask(&mut client).expect("the SET");
    assert!(driver.ask(&mut client).is_none());
    // The SET is not decided yet; a RESP2 client would take the message for its reply.
    assert_eq!(client.hear(&published(b"hi".to_vec())), 1);
    assert_eq!(client.hear(&published(b"ho".to_vec())), 1);
    assert_eq!(client.output().escape_ascii().to_string(), "");
    driver.answer(&mut client, &set);
    assert_eq!(
        client.output().escape_ascii().to_string(),
        b"+OK\r\n*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n\
          *3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nhi\r\n\
          *3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$2\r\nho\r\n"
            .escape_ascii()
            .to_string()
    );
}

#[test]
fn c13_a_message_to_many_patterns_takes_no_more_than_the_limit() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    let patterns: Vec<Vec<u8>> = (0..100).map(|n| vec![b'*'; n + 1]).collect();
    let mut words: Vec<&[u8]> = vec![b"PSUBSCRIBE"];
    words.extend(patterns.iter().map(|pattern| &pattern[..]));
    driver.call(&mut client, &words);
    let message = published(vec![b'x'; 1 << 20]);
    for _ in 0..3 {
        client.hear(&message);
        assert!(client.output().len() < 34 << 20, "{} bytes", client.output().len());
    }
    assert!(client.is_finished(), "and its connection ends");
}

#[test]
fn channels_and_patterns_have_a_longest_name() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    let (long, longest) = (vec![b'x'; 1025], vec![b'x'; 1024]);
    for command in [&b"SUBSCRIBE"[..], b"PSUBSCRIBE"] {
        let refused = driver.call(&mut client, &[command, b"short", &long]);
        assert!(refused.starts_with(b"-ERR") && !client.is_subscribed(), "{refused:?}");
    }
    assert!(driver.call(&mut client, &[b"PUBLISH", &long, b"hi"]).starts_with(b"-ERR channel"));
    assert_eq!(driver.machine.take_published().len(), 0);
    driver.call(&mut client, &[b"PUBLISH", &longest, b"hi"]);
    assert_eq!(driver.machine.take_published().len(), 1);
    driver.call(&mut client, &[b"SUBSCRIBE", &longest]);
    assert!(client.is_subscribed());
}

/// A pattern for channels, parameters or commands is no longer than one for keys.
#[test]
fn no_command_takes_a_pattern_that_is_longer_than_the_longest() {
    let mut driver = Driver::new(Config::default());
    let mut client = driver.connect();
    let long = vec![b'x'; 1025];
    let commands: [&[&[u8]]; 3] = [
        &[b"CONFIG", b"GET", &long],
        &[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", &long],
        &[b"PUBSUB", b"CHANNELS", &long],
    ];
    for command in commands {
        let answer = driver.call(&mut client, command);
        let answer = answer.escape_ascii().to_string();
        assert!(answer.starts_with("-ERR"), "{}: {answer}", command[0].escape_ascii());
    }
}

/// Every member matches one PUBLISH against all patterns.
#[test]
fn the_patterns_of_a_connection_are_bounded() {
    let mut driver = Driver::new(Config::default());
    let mut hearer = driver.connect();
    let pattern = |n: u16| format!("{n:01024}").into_bytes();
    for n in 0..64 {
        assert!(!driver.call(&mut hearer, &[b"PSUBSCRIBE", &pattern(n)]).starts_with(b"-"));
    }
    assert!(driver.call(&mut hearer, &[b"PSUBSCRIBE", b"more"]).starts_with(b"-ERR"));
    driver.call(&mut hearer, &[b"PUNSUBSCRIBE", &pattern(3)]);
    assert!(!driver.call(&mut hearer, &[b"PSUBSCRIBE", b"more"]).starts_with(b"-"));
    assert!(driver.call(&mut hearer, &[b"PSUBSCRIBE", &pattern(3)]).starts_with(b"-ERR"));
}
