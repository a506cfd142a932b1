//! The PMI-1 wire format in two tiers: [`Line`] is a checked view over bytes, [`Request`] and [`Reply`] are
//! the meaning. `parse(emit(x)) == x` holds for both (property tests below).

use std::fmt;

/// Longest single-line message, newline included, in bytes. MPICH's client reads into 1,024 bytes, Slurm's
/// limit is 1,024; the header of a `put` with the longest key and value must fit as well:
/// 1,024 (value) + 256 (kvsname) + 64 (key) + 40 (names of the fields), rounded up.
pub const LINE_MAX_BYTES: usize = 2048;
/// Longest multi-line message (`mcmd=spawn … endcmd`), in bytes.
pub const MULTILINE_MAX_BYTES: usize = 65_536;
/// Longest name of a key-value space, in bytes. This and the next two are what Hydra announces.
pub const KVSNAME_MAX_BYTES: usize = 256;
/// Longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 64;
/// Longest value, in bytes.
pub const VALUE_MAX_BYTES: usize = 1024;

/// Why bytes are no PMI-1 message, or a message cannot be put on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WireError {
    /// No newline within the bound (bytes).
    TooLong(usize),
    /// Not UTF-8, or holds a control character.
    NotText,
    /// A word that is not `key=value`, or a message that does not begin with `cmd=`.
    NotAPair(String),
    /// A command this format does not know.
    UnknownCommand(String),
    /// A command lacks a field.
    Missing {
        /// The command.
        command: String,
        /// The field.
        field: &'static str,
    },
    /// A field's value is out of bounds or of the wrong kind.
    BadField {
        /// The field.
        field: &'static str,
        /// Its value.
        value: String,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::TooLong(max) => write!(f, "no end of message within {max} bytes"),
            WireError::NotText => f.write_str("the message is not text"),
            WireError::NotAPair(word) => write!(f, "'{}' is not a key=value pair", word.escape_debug()),
            WireError::UnknownCommand(name) => write!(f, "unknown command '{}'", name.escape_debug()),
            WireError::Missing { command, field } => {
                write!(f, "command '{}' lacks '{field}='", command.escape_debug())
            }
            WireError::BadField { field, value } => {
                write!(f, "'{}' is no valid {field}", value.escape_debug())
            }
        }
    }
}

impl std::error::Error for WireError {}

/// Length in bytes of the first message in `buffer`, its final newline included; `None` when it is not
/// complete.
///
/// # Errors
/// [`WireError::TooLong`] as soon as no valid message can begin this way, so a reader's buffer stays bounded.
pub fn first_message(buffer: &[u8]) -> Result<Option<usize>, WireError> {
    const MULTI: &[u8] = b"mcmd=";
    const END: &[u8] = b"endcmd\n";
    if buffer.starts_with(MULTI) {
        let within = &buffer[..buffer.len().min(MULTILINE_MAX_BYTES)];
        // Only spawn has several lines. Another command will never have its end: cut it off here, to be
        // refused.
        if let Some(first) =
            within.iter().position(|&b| b == b'\n').filter(|&at| &within[..at] != b"mcmd=spawn")
        {
            return Ok(Some(first + 1));
        }
        let end = within.windows(END.len() + 1).position(|w| w[0] == b'\n' && &w[1..] == END);
        return match end {
            Some(at) => Ok(Some(at + 1 + END.len())),
            None if buffer.len() >= MULTILINE_MAX_BYTES => Err(WireError::TooLong(MULTILINE_MAX_BYTES)),
            None => Ok(None),
        };
    }
    match buffer.iter().take(LINE_MAX_BYTES).position(|&b| b == b'\n') {
        Some(at) => Ok(Some(at + 1)),
        None if buffer.len() >= LINE_MAX_BYTES => Err(WireError::TooLong(LINE_MAX_BYTES)),
        None => Ok(None),
    }
}

/// A single-line message that was checked: text, within bounds, `cmd=` first, words of `key=value`.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    command: &'a str,
    rest: &'a str,
}

/// Fields that take the rest of the line, spaces included. They stand last, but in what Intel MPI's Hydra
/// answers where all is well: `rc=0 msg=success value=…`.
const TAIL_FIELDS: [&str; 2] = ["msg", "message"];

impl<'a> Line<'a> {
    /// Checks `bytes`, with or without the final newline.
    ///
    /// # Errors
    /// The error in them.
    pub fn new(bytes: &'a [u8]) -> Result<Self, WireError> {
        if bytes.len() > LINE_MAX_BYTES {
            return Err(WireError::TooLong(LINE_MAX_BYTES));
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes).map_err(|_| WireError::NotText)?;
        if text.chars().any(char::is_control) {
            return Err(WireError::NotText);
        }
        let text = text.trim_matches(' ');
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let Some(command) = first.strip_prefix("cmd=") else {
            return Err(WireError::NotAPair(first.to_owned()));
        };
        let line = Line { command, rest };
        match line.words().find(|word| !word.contains('=')) {
            Some(word) => Err(WireError::NotAPair(word.to_owned())),
            None => Ok(line),
        }
    }

    /// The value of `cmd=`.
    pub fn command(&self) -> &'a str {
        self.command
    }

    /// The value of the first `key=`.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.words().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    fn words(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut rest = self.rest;
        let is_success = rest.starts_with("rc=0 ");
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(' ');
            if rest.is_empty() {
                return None;
            }
            let is_tail =
                TAIL_FIELDS.iter().any(|f| rest.strip_prefix(f).is_some_and(|r| r.starts_with('=')));
            let (word, after) = match rest.split_once(' ') {
                Some(split) if !is_tail || is_success => split,
                _ => (rest, ""),
            };
            rest = after;
            Some(word)
        })
    }

    fn required(&self, field: &'static str) -> Result<&'a str, WireError> {
        self.get(field).ok_or_else(|| WireError::Missing { command: self.command.to_owned(), field })
    }

    fn text(&self, field: &'static str, max_bytes: usize) -> Result<&'a str, WireError> {
        checked(field, self.required(field)?, max_bytes)
    }

    fn optional_text(&self, field: &'static str, max: usize) -> Result<Option<&'a str>, WireError> {
        self.get(field).map(|value| checked(field, value, max)).transpose()
    }

    fn number<T: std::str::FromStr>(&self, field: &'static str) -> Result<T, WireError> {
        let value = self.required(field)?;
        value.parse().map_err(|_| WireError::BadField { field, value: value.to_owned() })
    }

    fn optional_number<T: std::str::FromStr>(&self, field: &'static str) -> Result<Option<T>, WireError> {
        if self.get(field).is_some() { self.number(field).map(Some) } else { Ok(None) }
    }
}

/// A word of the format: not empty where it names something, within its bound, without space or control.
fn checked<'a>(field: &'static str, value: &'a str, max_bytes: usize) -> Result<&'a str, WireError> {
    let is_name = matches!(field, "key" | "kvsname" | "service");
    let bad = value.len() > max_bytes
        || value.chars().any(|c| c == ' ' || c.is_control())
        || (is_name && value.is_empty())
        || (field == "key" && value.contains('='));
    if bad { Err(WireError::BadField { field, value: clip(value) }) } else { Ok(value) }
}

/// Text for a tail field: within the bound, no control characters, no spaces at the ends (they are not kept).
fn checked_tail<'a>(field: &'static str, value: &'a str) -> Result<&'a str, WireError> {
    let bad = value.len() > VALUE_MAX_BYTES
        || value.chars().any(char::is_control)
        || value != value.trim_matches(' ');
    if bad { Err(WireError::BadField { field, value: clip(value) }) } else { Ok(value) }
}

/// At most 60 characters of something from outside, for a message.
fn clip(value: &str) -> String {
    value.chars().take(60).collect()
}

/// What a rank asks its launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// First message over an inherited socket.
    Init {
        /// Major version, 1.
        version: u32,
        /// Minor version, 1.
        subversion: u32,
    },
    /// First message over a socket opened to `PMI_PORT`.
    InitAck {
        /// `PMI_ID`.
        id: u32,
    },
    /// Ask for the longest name, key and value.
    GetMaxes,
    /// Which of the program's parts (MPMD) this rank belongs to.
    GetAppnum,
    /// How many processes the job could have.
    GetUniverseSize,
    /// The name of the job's key-value space.
    GetKvsName,
    /// Store a value.
    Put {
        /// The space; the job's own when absent.
        kvsname: Option<&'a str>,
        /// The key.
        key: &'a str,
        /// The value.
        value: &'a str,
    },
    /// Fetch a value.
    Get {
        /// The space; the job's own when absent.
        kvsname: Option<&'a str>,
        /// The key.
        key: &'a str,
    },
    /// Wait for all.
    BarrierIn,
    /// Publish a name (`MPI_Publish_name`).
    Publish {
        /// The service's name.
        service: &'a str,
        /// Where it is.
        port: &'a str,
    },
    /// Take a published name back.
    Unpublish {
        /// The service's name.
        service: &'a str,
    },
    /// Look a published name up.
    Lookup {
        /// The service's name.
        service: &'a str,
    },
    /// Start more processes: the lines of the message (what they mean: [`spawn`](super::spawn)).
    Spawn(&'a str),
    /// This rank needs the launcher no more.
    Finalize,
    /// End the job.
    Abort {
        /// The job's exit code.
        exitcode: i32,
        /// Why, in words.
        message: Option<&'a str>,
    },
}

impl<'a> Request<'a> {
    /// The meaning of one message (as [`first_message`] cut it).
    ///
    /// # Errors
    /// The error in the message.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        if let Some(multi) = message.strip_prefix(b"mcmd=") {
            let name = multi.split(|&b| b == b'\n').next().unwrap_or_default();
            return if name == b"spawn" {
                let text = std::str::from_utf8(message).map_err(|_| WireError::NotText)?;
                Ok(Request::Spawn(text.strip_suffix('\n').unwrap_or(text)))
            } else {
                Err(WireError::UnknownCommand(clip(&String::from_utf8_lossy(name))))
            };
        }
        let line = Line::new(message)?;
        let kvsname = || line.optional_text("kvsname", KVSNAME_MAX_BYTES);
        let service = || line.text("service", VALUE_MAX_BYTES);
        Ok(match line.command() {
            "init" => Request::Init {
                version: line.number("pmi_version")?,
                subversion: line.number("pmi_subversion")?,
            },
            "initack" => Request::InitAck { id: line.number("pmiid")? },
            "get_maxes" => Request::GetMaxes,
            "get_appnum" => Request::GetAppnum,
            "get_universe_size" => Request::GetUniverseSize,
            "get_my_kvsname" => Request::GetKvsName,
            "put" => Request::Put {
                kvsname: kvsname()?,
                key: line.text("key", KEY_MAX_BYTES)?,
                value: line.text("value", VALUE_MAX_BYTES)?,
            },
            "get" => Request::Get { kvsname: kvsname()?, key: line.text("key", KEY_MAX_BYTES)? },
            "barrier_in" => Request::BarrierIn,
            "publish_name" => {
                Request::Publish { service: service()?, port: line.text("port", VALUE_MAX_BYTES)? }
            }
            "unpublish_name" => Request::Unpublish { service: service()? },
            "lookup_name" => Request::Lookup { service: service()? },
            "finalize" => Request::Finalize,
            "abort" => Request::Abort {
                exitcode: line.optional_number("exitcode")?.unwrap_or(1),
                message: line.get("message").map(|m| checked_tail("message", m)).transpose()?,
            },
            other => return Err(WireError::UnknownCommand(clip(other))),
        })
    }

    /// Appends the message to `out`.
    ///
    /// # Errors
    /// [`WireError::BadField`] where a field does not fit the format; `out` is then as it was.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let mut w = Writer::new(out);
        match *self {
            Request::Init { version, subversion } => {
                w.cmd("init").number("pmi_version", version).number("pmi_subversion", subversion)
            }
            Request::InitAck { id } => w.cmd("initack").number("pmiid", id),
            Request::GetMaxes => w.cmd("get_maxes"),
            Request::GetAppnum => w.cmd("get_appnum"),
            Request::GetUniverseSize => w.cmd("get_universe_size"),
            Request::GetKvsName => w.cmd("get_my_kvsname"),
            Request::Put { kvsname, key, value } => w
                .cmd("put")
                .optional("kvsname", kvsname, KVSNAME_MAX_BYTES)
                .text("key", key, KEY_MAX_BYTES)
                .text("value", value, VALUE_MAX_BYTES),
            Request::Get { kvsname, key } => {
                w.cmd("get").optional("kvsname", kvsname, KVSNAME_MAX_BYTES).text("key", key, KEY_MAX_BYTES)
            }
            Request::BarrierIn => w.cmd("barrier_in"),
            Request::Publish { service, port } => w
                .cmd("publish_name")
                .text("service", service, VALUE_MAX_BYTES)
                .text("port", port, VALUE_MAX_BYTES),
            Request::Unpublish { service } => {
                w.cmd("unpublish_name").text("service", service, VALUE_MAX_BYTES)
            }
            Request::Lookup { service } => w.cmd("lookup_name").text("service", service, VALUE_MAX_BYTES),
            Request::Spawn(text) => w.raw(text),
            Request::Finalize => w.cmd("finalize"),
            Request::Abort { exitcode, message } => {
                w.cmd("abort").number("exitcode", exitcode).tail("message", message)
            }
        };
        w.finish()
    }
}

/// Which request a [`Reply`] answers; the `cmd=` of the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of the commands answered")]
pub enum Answer {
    Init,
    InitAck,
    Maxes,
    Appnum,
    UniverseSize,
    KvsName,
    Put,
    Get,
    Barrier,
    Publish,
    Unpublish,
    Lookup,
    Spawn,
    Finalize,
}

/// Every kind of reply and its name on the wire.
const ANSWERS: [(Answer, &str); 14] = [
    (Answer::Init, "response_to_init"),
    (Answer::InitAck, "initack"),
    (Answer::Maxes, "maxes"),
    (Answer::Appnum, "appnum"),
    (Answer::UniverseSize, "universe_size"),
    (Answer::KvsName, "my_kvsname"),
    (Answer::Put, "put_result"),
    (Answer::Get, "get_result"),
    (Answer::Barrier, "barrier_out"),
    (Answer::Publish, "publish_result"),
    (Answer::Unpublish, "unpublish_result"),
    (Answer::Lookup, "lookup_result"),
    (Answer::Spawn, "spawn_result"),
    (Answer::Finalize, "finalize_ack"),
];

impl Answer {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        ANSWERS.iter().find(|(answer, _)| *answer == self).map_or("", |(_, name)| name)
    }
}

/// What the launcher answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reply<'a> {
    /// To [`Request::Init`].
    Init {
        /// Major version the server speaks.
        version: u32,
        /// Minor version the server speaks.
        subversion: u32,
    },
    /// To [`Request::InitAck`]. Three lines `cmd=set …` say the same again and follow it.
    InitAck {
        /// The rank, where the server says it here.
        rank: Option<u32>,
        /// The job's size, where the server says it here.
        size: Option<u32>,
    },
    /// To [`Request::GetMaxes`]; lengths in bytes.
    Maxes {
        /// Longest name of a key-value space.
        kvsname_max: usize,
        /// Longest key.
        keylen_max: usize,
        /// Longest value.
        vallen_max: usize,
    },
    /// To [`Request::GetAppnum`].
    Appnum(i32),
    /// To [`Request::GetUniverseSize`].
    UniverseSize(i32),
    /// To [`Request::GetKvsName`].
    KvsName(&'a str),
    /// To [`Request::Get`].
    Value(&'a str),
    /// To [`Request::Lookup`].
    Port(&'a str),
    /// Done, with nothing more to say: put, barrier, publish, unpublish, spawn, finalize.
    Done(Answer),
    /// Not done.
    Failed {
        /// The request.
        answer: Answer,
        /// Not 0.
        rc: i32,
        /// Why, in words.
        msg: Option<&'a str>,
    },
}

impl<'a> Reply<'a> {
    /// The meaning of one message.
    ///
    /// # Errors
    /// The error in the message.
    pub fn parse(message: &'a [u8]) -> Result<Self, WireError> {
        let line = Line::new(message)?;
        let answer = ANSWERS.iter().find(|(_, name)| *name == line.command()).map(|(answer, _)| *answer);
        let Some(answer) = answer else {
            return Err(WireError::UnknownCommand(clip(line.command())));
        };
        // Flux and old servers leave `rc` out where all is well; PMI-1.1 has `found=FALSE` as well.
        let mut rc = line.optional_number("rc")?.unwrap_or(0);
        if rc == 0 && line.get("found").is_some_and(|found| found.eq_ignore_ascii_case("false")) {
            rc = 1;
        }
        if rc != 0 {
            let msg = line.get("msg").map(|m| checked_tail("msg", m)).transpose()?;
            return Ok(Reply::Failed { answer, rc, msg });
        }
        Ok(match answer {
            Answer::Init => Reply::Init {
                version: line.number("pmi_version")?,
                subversion: line.number("pmi_subversion")?,
            },
            Answer::InitAck => {
                Reply::InitAck { rank: line.optional_number("rank")?, size: line.optional_number("size")? }
            }
            Answer::Maxes => Reply::Maxes {
                kvsname_max: line.number("kvsname_max")?,
                keylen_max: line.number("keylen_max")?,
                vallen_max: line.number("vallen_max")?,
            },
            Answer::Appnum => Reply::Appnum(line.number("appnum")?),
            Answer::UniverseSize => Reply::UniverseSize(line.number("size")?),
            Answer::KvsName => Reply::KvsName(line.text("kvsname", KVSNAME_MAX_BYTES)?),
            Answer::Get => Reply::Value(line.text("value", VALUE_MAX_BYTES)?),
            Answer::Lookup => Reply::Port(line.text("port", VALUE_MAX_BYTES)?),
            done => Reply::Done(done),
        })
    }

    /// Appends the message to `out`.
    ///
    /// # Errors
    /// [`WireError::BadField`] where a field does not fit the format; `out` is then as it was.
    pub fn emit(&self, out: &mut Vec<u8>) -> Result<(), WireError> {
        let mut w = Writer::new(out);
        match *self {
            Reply::Init { version, subversion } => {
                w.ok(Answer::Init).number("pmi_version", version).number("pmi_subversion", subversion)
            }
            Reply::InitAck { rank, size } => {
                let w = w.ok(Answer::InitAck);
                if let Some(rank) = rank {
                    w.number("rank", rank);
                }
                match size {
                    Some(size) => w.number("size", size),
                    None => w,
                }
            }
            Reply::Maxes { kvsname_max, keylen_max, vallen_max } => w
                .ok(Answer::Maxes)
                .number("kvsname_max", kvsname_max)
                .number("keylen_max", keylen_max)
                .number("vallen_max", vallen_max),
            Reply::Appnum(appnum) => w.ok(Answer::Appnum).number("appnum", appnum),
            Reply::UniverseSize(size) => w.ok(Answer::UniverseSize).number("size", size),
            Reply::KvsName(name) => w.ok(Answer::KvsName).text("kvsname", name, KVSNAME_MAX_BYTES),
            Reply::Value(value) => w.ok(Answer::Get).text("value", value, VALUE_MAX_BYTES),
            Reply::Port(port) => w.ok(Answer::Lookup).text("port", port, VALUE_MAX_BYTES),
            Reply::Done(answer) => w.ok(answer),
            Reply::Failed { answer, rc, msg } => w.cmd(answer.name()).number("rc", rc).tail("msg", msg),
        };
        w.finish()
    }
}

/// Writes one message, remembering the first field that does not fit.
struct Writer<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    error: Option<WireError>,
}

impl<'o> Writer<'o> {
    fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        Writer { out, start, error: None }
    }

    fn raw(&mut self, text: &str) -> &mut Self {
        self.out.extend_from_slice(text.as_bytes());
        self
    }

    fn cmd(&mut self, name: &str) -> &mut Self {
        self.raw("cmd=").raw(name)
    }

    fn ok(&mut self, answer: Answer) -> &mut Self {
        self.cmd(answer.name()).raw(" rc=0")
    }

    fn number(&mut self, field: &str, value: impl fmt::Display) -> &mut Self {
        let text = format!(" {field}={value}");
        self.raw(&text)
    }

    fn pair(&mut self, field: &'static str, value: Result<&str, WireError>) -> &mut Self {
        match value {
            Ok(value) => self.raw(" ").raw(field).raw("=").raw(value),
            Err(error) => {
                self.error.get_or_insert(error);
                self
            }
        }
    }

    fn text(&mut self, field: &'static str, value: &str, max_bytes: usize) -> &mut Self {
        self.pair(field, checked(field, value, max_bytes))
    }

    fn optional(&mut self, field: &'static str, value: Option<&str>, max_bytes: usize) -> &mut Self {
        match value {
            Some(value) => self.text(field, value, max_bytes),
            None => self,
        }
    }

    fn tail(&mut self, field: &'static str, value: Option<&str>) -> &mut Self {
        match value {
            Some(value) => self.pair(field, checked_tail(field, value)),
            None => self,
        }
    }

    fn finish(&mut self) -> Result<(), WireError> {
        self.raw("\n");
        let result = match self.error.take() {
            Some(error) => Err(error),
            None if self.out.len() - self.start > LINE_MAX_BYTES => Err(WireError::TooLong(LINE_MAX_BYTES)),
            None => Ok(()),
        };
        if result.is_err() {
            self.out.truncate(self.start);
        }
        result
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
