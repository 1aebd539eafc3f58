//! Tests of the parser. The oracle test covers the meaning of the bytes; these tests show that
//! cutting them changes nothing, and that no client can make the connection keep much.

use proptest::prelude::*;

use super::*;

/// The requests and errors that a parser finds.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Found {
    Request(Vec<Vec<u8>>),
    TooLong,
    Error(ProtocolError),
}

/// Feeds `input` in pieces that end at `cuts`; returns what is found, and the most bytes that had
/// to be kept.
fn feed(input: &[u8], cuts: &[usize], authenticated: bool) -> (Vec<Found>, usize) {
    let (mut parser, mut kept, mut found) = (Parser::new(authenticated), Vec::new(), Vec::new());
    let (mut kept_max, mut from) = (0, 0);
    for &cut in cuts.iter().chain([&input.len()]) {
        kept.extend_from_slice(&input[from..cut]);
        from = cut;
        loop {
            let consumed = match parser.parse(&kept) {
                Ok(Parse::More { consumed }) => {
                    kept.drain(..consumed);
                    kept_max = kept_max.max(kept.len());
                    break;
                }
                Ok(Parse::Request(request)) => {
                    assert!(request.consumed() <= kept.len(), "I2");
                    assert_eq!(request.args().len(), request.len());
                    let args = request.args().iter().map(|arg| arg.to_vec()).collect();
                    found.push(Found::Request(args));
                    request.consumed()
                }
                Ok(Parse::TooLong { consumed }) => {
                    found.push(Found::TooLong);
                    consumed
                }
                Err(error) => {
                    found.push(Found::Error(error));
                    return (found, kept_max);
                }
            };
            kept.drain(..consumed);
        }
    }
    (found, kept_max)
}

fn whole(input: &[u8]) -> Vec<Found> {
    feed(input, &[], true).0
}

fn request(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Pieces of requests, good and bad, that make interesting bytes when strung together.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let line_end = prop::sample::select(vec!["\r\n", "\n", "\r", ""]);
    prop_oneof![
        3 => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..5)
            .prop_map(|args| request(&args.iter().map(Vec::as_slice).collect::<Vec<_>>())),
        2 => ("[a-c \"'\\\\x\t]{0,12}", line_end).prop_map(|(line, end)| (line + end).into_bytes()),
        1 => ("[*$]-?[0-9]{0,2}", "\r\n|\r|\n|").prop_map(|(head, end)| (head + &end).into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn i1_cutting_changes_nothing(
        pieces in prop::collection::vec(piece(), 0..8),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        authenticated: bool,
    ) {
        let input = pieces.concat();
        let n_places = input.len() + 1;
        let mut cuts: Vec<usize> = places.iter().map(|place| place.index(n_places)).collect();
        cuts.sort_unstable();
        let (expected, _) = feed(&input, &[], authenticated);
        prop_assert_eq!(&feed(&input, &cuts, authenticated).0, &expected);
        let bytewise: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(&feed(&input, &bytewise, authenticated).0, &expected);
    }

    #[test]
    fn what_a_client_sends_arrives(
        requests in prop::collection::vec(
            prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..12), 1..5),
    ) {
        let bytes: Vec<u8> = requests
            .iter()
            .flat_map(|args| request(&args.iter().map(Vec::as_slice).collect::<Vec<_>>()))
            .collect();
        let expected: Vec<Found> = requests.into_iter().map(Found::Request).collect();
        prop_assert_eq!(whole(&bytes), expected);
    }
}

#[test]
fn i3_a_request_over_the_limit_is_skipped_and_the_next_is_found() {
    let small = request(&[b"GET", b"k"]);
    let found = Found::Request(vec![b"GET".to_vec(), b"k".to_vec()]);
    let large = vec![b'x'; REQUEST_BYTES_MAX];
    for long in [
        request(&[b"SET", b"k", &large]),
        request(&[b"SET", &large, b"v"]),
        request(&[&large]),
        request(&[&large[..REQUEST_BYTES_MAX / 2], &large[..REQUEST_BYTES_MAX / 2], b"x"]),
        request(&vec![&b""[..]; ARGS_MAX + 1]),
    ] {
        let bytes = [b"\r\n", &small[..], &long, &small].concat();
        let expected = vec![found.clone(), Found::TooLong, found.clone()];
        let chunks: Vec<usize> = (0..bytes.len()).step_by(16 << 10).collect();
        for cuts in [&[][..], &chunks] {
            let (actual, kept_max) = feed(&bytes, cuts, true);
            assert_eq!(actual, expected);
            assert!(kept_max <= INPUT_BYTES_MAX, "I3: {kept_max}");
        }
    }
}

#[test]
fn i3_the_largest_request_is_taken() {
    let overhead = request(&[b"SET", b"k", b""]).len() + 5;
    let value = vec![b'x'; REQUEST_BYTES_MAX - overhead];
    let bytes = request(&[b"SET", b"k", &value]);
    assert_eq!(bytes.len(), REQUEST_BYTES_MAX);
    assert_eq!(whole(&bytes), [Found::Request(vec![b"SET".into(), b"k".into(), value.clone()])]);
    let longer = [&value[..], b"x"].concat();
    assert_eq!(whole(&request(&[b"SET", b"k", &longer])), [Found::TooLong]);
    let most = vec![&b""[..]; ARGS_MAX];
    assert!(
        matches!(&whole(&request(&most))[..], [Found::Request(args)] if args.len() == ARGS_MAX)
    );
}

#[test]
fn i3_a_line_without_an_end_is_an_error_at_the_same_byte_however_it_is_cut() {
    let fill = |start: &[u8], len: usize| [start, &vec![b'1'; len]].concat();
    for (start, error) in [
        (&b""[..], ProtocolError::InlineTooLong),
        (b"*", ProtocolError::ArrayHeadTooLong),
        (b"*1\r\n$", ProtocolError::BulkHeadTooLong),
    ] {
        let head =
            start.len() - start.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let almost = fill(start, LINE_BYTES_MAX - head);
        assert_eq!(whole(&almost), []);
        for tail in [&b"1"[..], b"1\r\n", b"111111\r\n"] {
            let bytes = [&almost[..], tail].concat();
            let chunks: Vec<usize> = (0..bytes.len()).step_by(1000).collect();
            assert_eq!(whole(&bytes), [Found::Error(error)]);
            assert_eq!(feed(&bytes, &chunks, true).0, [Found::Error(error)]);
        }
    }
}

#[test]
fn a_client_that_has_yet_to_authenticate_may_send_little() {
    let eleven = request(&[&b"x"[..]; 11]);
    let long = request(&[b"AUTH", &vec![b'x'; (16 << 10) + 1]]);
    let found = |bytes: &[u8]| feed(bytes, &[], false).0;
    assert_eq!(found(&eleven), [Found::Error(ProtocolError::UnauthenticatedArrayLength)]);
    assert_eq!(found(&long), [Found::Error(ProtocolError::UnauthenticatedBulkLength)]);
    assert!(matches!(found(&request(&[b"AUTH", b"p"]))[..], [Found::Request(_)]));
    assert!(matches!(whole(&eleven)[..], [Found::Request(_)]));
}
