use super::*;
use proptest::prelude::*;

fn request_bytes(request: Request<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    request.emit(&mut out).expect("valid request");
    out
}

fn reply_bytes(reply: Reply<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    reply.emit(&mut out).expect("valid reply");
    out
}

#[test]
fn requests_are_the_bytes_mpich_sends() {
    let put = Request::Put { kvsname: Some("kvs_0"), key: "P0-card", value: "a=b" };
    assert_eq!(request_bytes(put), b"cmd=put kvsname=kvs_0 key=P0-card value=a=b\n");
    assert_eq!(
        request_bytes(Request::Init { version: 1, subversion: 1 }),
        b"cmd=init pmi_version=1 pmi_subversion=1\n"
    );
}

#[test]
fn replies_recorded_from_hydra_are_understood() {
    let recorded: [(&[u8], Reply<'_>); 7] = [
        (
            b"cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=2\n",
            Reply::Init { version: 1, subversion: 2 },
        ),
        (
            b"cmd=maxes rc=0 kvsname_max=256 keylen_max=64 vallen_max=1024\n",
            Reply::Maxes { kvsname_max: 256, keylen_max: 64, vallen_max: 1024 },
        ),
        (b"cmd=get_result rc=0 value=(vector,(0,1,2))\n", Reply::Value("(vector,(0,1,2))")),
        // Intel MPI 2021.18.
        (b"cmd=get_result rc=0 msg=success value=/proc/7/fd/13\n", Reply::Value("/proc/7/fd/13")),
        (b"cmd=get_result rc=1\n", Reply::Failed { answer: Answer::Get, rc: 1, msg: None }),
        (b"cmd=barrier_out tag=0\n", Reply::Done(Answer::Barrier)),
        (
            b"cmd=initack rc=0 rank=0 size=1 appnum=0 debug=0\n",
            Reply::InitAck { rank: Some(0), size: Some(1) },
        ),
    ];
    for (bytes, meaning) in recorded {
        assert_eq!(Reply::parse(bytes), Ok(meaning));
    }
}

#[test]
fn a_message_to_the_end_of_the_line_keeps_its_spaces() {
    let line = b"cmd=abort exitcode=7 message=MPI_Abort(MPI_COMM_WORLD, 7) at=x.c\n";
    let message = Some("MPI_Abort(MPI_COMM_WORLD, 7) at=x.c");
    assert_eq!(Request::parse(line), Ok(Request::Abort { exitcode: 7, message }));
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing_behind() {
    let long = "k".repeat(KEY_MAX_BYTES + 1);
    for key in ["", "a b", "a=b", "a\nb", &long] {
        let mut out = b"before".to_vec();
        let refused = Request::Put { kvsname: None, key, value: "" }.emit(&mut out);
        assert!(matches!(refused, Err(WireError::BadField { field: "key", .. })), "{key:?}: {refused:?}");
        assert_eq!(out, b"before");
    }
}

#[test]
fn messages_are_cut_at_their_end_and_bounded() {
    assert_eq!(first_message(b"cmd=get_maxes"), Ok(None));
    assert_eq!(first_message(b"cmd=get_maxes\ncmd=x"), Ok(Some(14)));
    let spawn = b"mcmd=spawn\nexecname=./endcmd\nendcmd\nrest";
    assert_eq!(first_message(spawn), Ok(Some(spawn.len() - 4)));
    assert_eq!(first_message(&[b'x'; LINE_MAX_BYTES]), Err(WireError::TooLong(LINE_MAX_BYTES)));
    let mut endless = b"mcmd=spawn\n".to_vec();
    endless.resize(MULTILINE_MAX_BYTES, b'\n');
    assert_eq!(first_message(&endless), Err(WireError::TooLong(MULTILINE_MAX_BYTES)));
}

#[test]
fn nonsense_gets_an_error_that_names_it() {
    for (bytes, part) in [
        (&b"hello\n"[..], "'hello' is not"),
        (b"cmd=frobnicate\n", "unknown command 'frobnicate'"),
        (b"cmd=put key=k\n", "lacks 'value='"),
        (b"cmd=init pmi_version=one pmi_subversion=1\n", "'one' is no valid pmi_version"),
        (b"cmd=get key=a b\n", "'b' is not a key=value pair"),
        (b"\xff\xfe\n", "not text"),
        (b"\n", "'' is not"),
    ] {
        let error = Request::parse(bytes).expect_err("nonsense").to_string();
        assert!(error.contains(part), "{error}");
    }
}

fn word(max_bytes: usize) -> impl Strategy<Value = String> {
    proptest::string::string_regex(&format!("[!-<>-~]{{1,{max_bytes}}}")).expect("regex")
}

fn value() -> impl Strategy<Value = String> {
    proptest::string::string_regex("[!-~]{0,1024}").expect("regex")
}

fn sentence() -> impl Strategy<Value = Option<String>> {
    proptest::option::of("[!-~]([ -~]{0,60}[!-~])?")
}

proptest! {
    #[test]
    fn a_request_survives_the_wire(
        which in 0..15, number in any::<i32>(), kvs in proptest::option::of(word(256)), key in word(64),
        name in word(500), value in value(), message in sentence(),
    ) {
        let (id, kvsname) = (number.unsigned_abs(), kvs.as_deref());
        let short = &value[..value.len().min(1000)];
        let request = match which {
            0 => Request::Init { version: id, subversion: id / 2 },
            1 => Request::InitAck { id },
            2 => Request::GetMaxes,
            3 => Request::GetAppnum,
            4 => Request::GetUniverseSize,
            5 => Request::GetKvsName,
            6 => Request::Put { kvsname, key: &key, value: &value },
            7 => Request::Get { kvsname, key: &key },
            8 => Request::BarrierIn,
            9 => Request::Publish { service: &name, port: short },
            10 => Request::Unpublish { service: &name },
            11 => Request::Lookup { service: &name },
            12 => Request::Spawn("mcmd=spawn\nendcmd"),
            13 => Request::Finalize,
            _ => Request::Abort { exitcode: number, message: message.as_deref() },
        };
        let bytes = request_bytes(request);
        prop_assert_eq!(first_message(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(Request::parse(&bytes), Ok(request));
    }

    #[test]
    fn a_reply_survives_the_wire(
        which in 0..10, number in any::<i32>(), size in proptest::option::of(any::<u32>()), kvs in word(256),
        value in value(), kind in 0..ANSWERS.len(), message in sentence(),
    ) {
        let count = number.unsigned_abs();
        let done = [Answer::Put, Answer::Barrier, Answer::Publish, Answer::Spawn, Answer::Finalize];
        let reply = match which {
            0 => Reply::Init { version: count, subversion: count / 2 },
            1 => Reply::InitAck { rank: size.map(|s| s / 2), size },
            2 => Reply::Maxes { kvsname_max: count as usize, keylen_max: 1, vallen_max: 2 },
            3 => Reply::Appnum(number),
            4 => Reply::UniverseSize(number),
            5 => Reply::KvsName(&kvs),
            6 => Reply::Value(&value),
            7 => Reply::Port(&value),
            8 => Reply::Done(done[kind % done.len()]),
            _ => Reply::Failed { answer: ANSWERS[kind].0, rc: number.max(1), msg: message.as_deref() },
        };
        let bytes = reply_bytes(reply);
        prop_assert_eq!(first_message(&bytes), Ok(Some(bytes.len())));
        prop_assert_eq!(Reply::parse(&bytes), Ok(reply));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..3000)) {
        let _ = first_message(&bytes);
        let _ = Request::parse(&bytes);
        let _ = Reply::parse(&bytes);
    }

    #[test]
    fn arbitrary_words_never_panic(text in "(m?cmd=)?[a-z_]{0,12}( [a-z_]{0,9}=?[!-~]{0,9}){0,6}\n?") {
        let _ = Request::parse(text.as_bytes());
        let _ = Reply::parse(text.as_bytes());
    }
}
