//! Scripts where keys live in several partitions.

use super::*;

const N: usize = 4;

/// A script with keys.
fn script(words: &[&str]) -> Vec<u8> {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut command = Vec::new();
    put_plain(&words, Protocol::Resp2, &mut command);
    command
}

#[test]
fn a_script_over_several_partitions_is_one_command() {
    let mut alone = Alone::new(N, Order::Linearizable, 0);
    let [one, other] = two_keys(N);
    alone.say(&format!("set {one} 5"));
    let swap = "local v = redis.call('GET', KEYS[1]) redis.call('DEL', KEYS[1]) \
        redis.call('SET', KEYS[2], v) return redis.call('EXISTS', KEYS[1], KEYS[2])";
    assert_eq!(alone.ask(&script(&["EVAL", swap, "2", &one, &other])), ":1");
    assert_eq!(alone.say(&format!("get {other}")), "$1 5");
    assert_eq!(alone.say(&format!("get {one}")), "$-1");
    // Each of its partitions knows the script now.
    let sha = crate::script::name_of(swap.as_bytes());
    assert_eq!(alone.ask(&script(&["EVALSHA", &sha, "2", &other, &one])), ":1");
    let stray = format!("return redis.call('GET', '{other}')");
    let refused = alone.ask(&script(&["EVAL", &stray, "1", &one]));
    assert!(refused.contains("did not declare"), "{refused}");
}

#[test]
fn a_loaded_script_is_known_in_every_partition_and_none_knows_a_flushed_one() {
    let mut alone = Alone::new(N, Order::Linearizable, 0);
    let keys = two_keys(N);
    let text = "return redis.call('INCR', KEYS[1])";
    let sha = crate::script::name_of(text.as_bytes());
    assert_eq!(alone.ask(&script(&["SCRIPT", "EXISTS", &sha])), "*1 :0");
    assert_eq!(alone.ask(&script(&["SCRIPT", "LOAD", text])), format!("$40 {sha}"));
    assert_eq!(alone.ask(&script(&["SCRIPT", "EXISTS", &sha, "x"])), "*2 :1 :0");
    for key in &keys {
        assert_eq!(alone.ask(&script(&["EVALSHA", &sha, "1", key])), ":1");
    }
    assert_eq!(alone.ask(&script(&["SCRIPT", "FLUSH"])), "+OK");
    for key in &keys {
        let answer = alone.ask(&script(&["EVALSHA", &sha, "1", key]));
        assert!(answer.starts_with("-NOSCRIPT"), "{answer}");
    }
}

#[test]
fn messages_of_one_command_keep_their_order_whatever_their_partitions() {
    let mut alone = Alone::new(N, Order::Linearizable, 0);
    let [one, other] = two_keys(N);
    let published = |alone: &mut Alone| -> Vec<String> {
        let messages = alone.process.executor.take_published();
        messages.iter().map(|one| String::from_utf8_lossy(&one.message).into_owned()).collect()
    };
    // Whichever of the partitions is the lower one.
    for [one, other] in [[&one, &other], [&other, &one]] {
        let texts =
            [format!("PUBLISH {one} a"), format!("PUBLISH {other} b"), format!("PUBLISH {one} c")];
        let say = "redis.call('PUBLISH', KEYS[1], 'd') redis.call('PUBLISH', KEYS[2], 'e')";
        alone.ask(&transaction(&[], &texts.each_ref().map(String::as_str)));
        alone.ask(&script(&["EVAL", say, "2", other, one]));
        alone.say(&format!("PUBLISH {one} f"));
        alone.say(&format!("PUBLISH {other} g"));
        assert_eq!(published(&mut alone), ["a", "b", "c", "d", "e", "f", "g"]);
    }
}

#[test]
fn a_message_is_published_once_by_its_channel_s_partition() {
    let mut alone = Alone::new(N, Order::Linearizable, 0);
    let keys = two_keys(N);
    alone.ask(&script(&["PUBLISH", "news", "one"]));
    let publish = "redis.call('PUBLISH', 'news', 'two')";
    alone.ask(&script(&["EVAL", publish, "2", &keys[0], &keys[1]]));
    let messages = alone.process.executor.take_published();
    let mut texts: Vec<&[u8]> = messages.iter().map(|one| &one.message[..]).collect();
    texts.sort();
    assert_eq!(texts, [b"one", b"two"]);
    assert!(alone.process.executor.take_published().is_empty());
}
