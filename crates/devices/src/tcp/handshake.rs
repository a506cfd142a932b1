//! Admission: both sides prove that they know the job's key, before any other data of theirs is read.
//!
//! ```text
//!  dialler                                                    listener
//!   Hello: who, to whom, by which interfaces, epoch, nonce  ->            48 bytes
//!                                                           <-  Challenge: nonce, MAC over (Hello, nonce)
//!   Proof: MAC over (Hello, Challenge)                      ->            32 bytes
//!                                                           <-  Verdict: code, epoch, MAC over all
//! ```
//!
//! A process that is not the one a hello is for answers [`NOT_HERE`] in place of a challenge and closes: it
//! has got the port of one that has ended. That proves nothing, as little as a host's refusal, and means the
//! same.
//!
//! Every message has one length. The MACs are BLAKE3 keyed with the job's key, each with a label of its own,
//! so that none can be replayed as another; the nonces are fresh on both sides, so that none can be replayed
//! at all. A hello is trusted only after its proof. This keeps out callers without the key; it does not hide
//! or protect later data from an attacker on the wire (see docs/cluster.md).
//!
//! Here are the messages, without any socket; `acceptor.rs` moves them.

use ayatori_core::connect::Verdict;
use ayatori_core::ids::ProcessId;
use std::fmt;

/// Length of a key in bytes.
pub const KEY_BYTES: usize = 32;
const NONCE_BYTES: usize = 16;
const MAC_BYTES: usize = 32;
pub(super) const HELLO_BYTES: usize = 48;
pub(super) const CHALLENGE_BYTES: usize = NONCE_BYTES + MAC_BYTES;
pub(super) const PROOF_BYTES: usize = MAC_BYTES;
pub(super) const VERDICT_BYTES: usize = 8 + MAC_BYTES;

/// "AYATORI" and the version of the handshake and of the frames after it.
const MAGIC: [u8; 8] = *b"AYATORI\x05";

/// The answer to a hello for another process.
pub(super) const NOT_HERE: [u8; CHALLENGE_BYTES] = *b"AYATORI\x05this process is not the one you call.\0\0\0";

/// The job's key. Never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

impl Key {
    /// From random bytes that the launcher of the job draws.
    pub const fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the processes that may know the key.
    pub const fn to_bytes(&self) -> [u8; KEY_BYTES] {
        self.0
    }

    /// A new one from the system's generator.
    ///
    /// # Errors
    /// The system has none.
    pub fn random() -> std::io::Result<Self> {
        random().map(Self)
    }

    /// As 64 hexadecimal digits, for the launcher's store.
    pub fn to_hex(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The inverse of [`to_hex`](Self::to_hex).
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 2 * KEY_BYTES || !text.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        let mut bytes = [0; KEY_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Self(bytes))
    }

    fn mac(&self, label: &[u8; 8], parts: &[&[u8]]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(label);
        for part in parts {
            hasher.update(part);
        }
        hasher.finalize()
    }

    /// Whether the MAC is right; takes the same time whatever it is.
    fn accepts(&self, label: &[u8; 8], parts: &[&[u8]], mac: &[u8; MAC_BYTES]) -> bool {
        self.mac(label, parts) == *mac || cfg!(fuzzing)
    }
}

/// `N` bytes from the system's generator.
///
/// # Errors
/// The system has none.
pub(super) fn random<const N: usize>() -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes)
}

/// A dialler's claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hello {
    pub(super) from: ProcessId,
    pub(super) to: ProcessId,
    /// Interfaces by their place in each side's card.
    pub(super) from_interface: u8,
    pub(super) to_interface: u8,
    /// How many connections these two interfaces have had, this one included, as the dialler counts.
    pub(super) epoch: u32,
    pub(super) nonce: [u8; NONCE_BYTES],
}

/// Why bytes are not a hello.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotHello;

impl Hello {
    pub(super) fn emit(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.from.0.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.to.0.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[20] = self.from_interface;
        bytes[21] = self.to_interface;
        bytes[24..40].copy_from_slice(&self.nonce);
        bytes
    }

    pub(super) fn parse(bytes: &[u8; HELLO_BYTES]) -> Result<Self, NotHello> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let is_clean = bytes[22..24].iter().chain(&bytes[40..]).all(|&byte| byte == 0);
        if bytes[..8] != MAGIC || !is_clean {
            return Err(NotHello);
        }
        let mut nonce = [0; NONCE_BYTES];
        nonce.copy_from_slice(&bytes[24..40]);
        Ok(Self {
            from: ProcessId(word(8)),
            to: ProcessId(word(12)),
            epoch: word(16),
            from_interface: bytes[20],
            to_interface: bytes[21],
            nonce,
        })
    }
}

/// A listener's answer to a hello, which proves that it knows the key, too.
pub(super) fn challenge(
    key: &Key,
    hello: &[u8; HELLO_BYTES],
    nonce: [u8; NONCE_BYTES],
) -> [u8; CHALLENGE_BYTES] {
    let mut bytes = [0; CHALLENGE_BYTES];
    bytes[..NONCE_BYTES].copy_from_slice(&nonce);
    bytes[NONCE_BYTES..].copy_from_slice(key.mac(b"listener", &[hello, &nonce]).as_bytes());
    bytes
}

/// The dialler's proof, if the listener's own is right.
pub(super) fn prove(
    key: &Key,
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
) -> Option<[u8; PROOF_BYTES]> {
    let (nonce, mac) = challenge.split_at(NONCE_BYTES);
    let mac: &[u8; MAC_BYTES] = mac.try_into().ok()?;
    key.accepts(b"listener", &[hello, nonce], mac)
        .then(|| *key.mac(b"dialler ", &[hello, challenge]).as_bytes())
}

/// Whether the dialler has the key.
pub(super) fn is_proven(
    key: &Key,
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
    proof: &[u8; PROOF_BYTES],
) -> bool {
    key.accepts(b"dialler ", &[hello, challenge], proof)
}

/// A verdict with the epoch that now holds, in bytes.
pub(super) fn emit_verdict(
    key: &Key,
    verdict: Verdict,
    epoch: u32,
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
) -> [u8; VERDICT_BYTES] {
    let mut bytes = [0; VERDICT_BYTES];
    bytes[..4].copy_from_slice(&epoch.to_le_bytes());
    bytes[4] = match verdict {
        Verdict::Welcome => 1,
        Verdict::Duplicate => 2,
        Verdict::Busy => 3,
    };
    let mac = key.mac(b"verdict ", &[&bytes[..8], hello, challenge]);
    bytes[8..].copy_from_slice(mac.as_bytes());
    bytes
}

/// Reads a verdict; `None`: it is none of the listener that was challenged.
pub(super) fn parse_verdict(
    key: &Key,
    bytes: &[u8; VERDICT_BYTES],
    hello: &[u8; HELLO_BYTES],
    challenge: &[u8; CHALLENGE_BYTES],
) -> Option<(Verdict, u32)> {
    let mac: &[u8; MAC_BYTES] = bytes[8..].try_into().ok()?;
    if !key.accepts(b"verdict ", &[&bytes[..8], hello, challenge], mac) {
        return None;
    }
    let verdict = match bytes[4] {
        1 => Verdict::Welcome,
        2 => Verdict::Duplicate,
        3 => Verdict::Busy,
        _ => return None,
    };
    Some((verdict, u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hello() -> Hello {
        Hello {
            from: ProcessId(3),
            to: ProcessId(70_000),
            from_interface: 1,
            to_interface: 2,
            epoch: 9,
            nonce: [5; 16],
        }
    }

    #[test]
    fn every_byte_is_drawn() {
        // That all of them are 0 by chance happens once in 2^256 runs.
        assert!((0..32).any(|_| random::<1>().expect("a generator") != [0]));
    }

    #[test]
    fn two_sides_with_the_same_key_agree() {
        let key = Key::new([7; 32]);
        let hello_bytes = hello().emit();
        assert_eq!(Hello::parse(&hello_bytes), Ok(hello()));
        let challenge = challenge(&key, &hello_bytes, [1; 16]);
        let proof = prove(&key, &hello_bytes, &challenge).expect("the listener's proof is right");
        assert!(is_proven(&key, &hello_bytes, &challenge, &proof));
        for said in [Verdict::Welcome, Verdict::Duplicate, Verdict::Busy] {
            let verdict = emit_verdict(&key, said, 0x0403_0201, &hello_bytes, &challenge);
            let parsed = parse_verdict(&key, &verdict, &hello_bytes, &challenge);
            assert_eq!(parsed, Some((said, 0x0403_0201)));
        }
    }

    /// Else what one side proves could be shown to it as the other's proof.
    #[test]
    fn a_code_for_one_use_is_none_for_another() {
        let key = Key::new([7; 32]);
        let parts: [&[u8]; 2] = [b"hello", b"challenge"];
        let codes = [b"listener", b"dialler ", b"verdict "].map(|label| key.mac(label, &parts));
        assert!(codes[0] != codes[1] && codes[1] != codes[2] && codes[0] != codes[2]);
    }

    #[test]
    fn a_hello_of_another_version_or_with_reserved_bytes_is_refused() {
        let good = hello().emit();
        let is_reserved = |at: usize| at < 8 || (22..24).contains(&at) || at >= 40;
        for at in 0..HELLO_BYTES {
            let mut bytes = good;
            bytes[at] ^= 1;
            let parsed = Hello::parse(&bytes);
            assert_eq!(parsed.is_err(), is_reserved(at), "byte {at}");
            assert!(parsed != Ok(hello()), "byte {at}");
        }
    }

    #[test]
    fn the_version_is_the_same_wherever_it_stands() {
        assert!(NOT_HERE.starts_with(&MAGIC));
        let ear = include_str!("../../../../xtask/src/net_test/ear.rs");
        let expected = format!(r#"MAGIC: &[u8; 8] = b"AYATORI\x{:02x}";"#, MAGIC[7]);
        assert!(ear.contains(&expected), "{expected}");
    }

    #[test]
    fn another_key_convinces_neither_side() {
        let (ours, theirs) = (Key::new([7; 32]), Key::new([8; 32]));
        let hello = hello().emit();
        let foreign = challenge(&theirs, &hello, [1; 16]);
        assert_eq!(prove(&ours, &hello, &foreign), None);
        let challenge = challenge(&ours, &hello, [1; 16]);
        let forged = *theirs.mac(b"dialler ", &[&hello, &challenge]).as_bytes();
        assert!(!is_proven(&ours, &hello, &challenge, &forged));
    }

    #[test]
    fn a_replayed_proof_fails_at_the_next_challenge() {
        let key = Key::new([7; 32]);
        let hello = hello().emit();
        let first = challenge(&key, &hello, [1; 16]);
        let proof = prove(&key, &hello, &first).expect("proof");
        let second = challenge(&key, &hello, [2; 16]);
        assert!(!is_proven(&key, &hello, &second, &proof));
    }

    #[test]
    fn a_listeners_proof_does_not_serve_as_a_diallers() {
        let key = Key::new([7; 32]);
        let hello = hello().emit();
        let challenge = challenge(&key, &hello, [1; 16]);
        let reflected: [u8; PROOF_BYTES] = challenge[16..].try_into().expect("32 bytes");
        assert!(!is_proven(&key, &hello, &challenge, &reflected));
    }

    #[test]
    fn a_key_survives_hexadecimal_and_is_not_printed() {
        let key = Key::random().expect("random bytes");
        assert_eq!(Key::from_hex(&key.to_hex()), Some(key.clone()));
        assert_eq!(Key::from_hex("zz"), None);
        assert!(!format!("{key:?}").contains(&key.to_hex()[..4]));
    }

    proptest! {
        #[test]
        fn any_changed_bit_breaks_the_proof(bit in 0usize..HELLO_BYTES * 8) {
            let key = Key::new([7; 32]);
            let honest = hello().emit();
            let challenge = challenge(&key, &honest, [1; 16]);
            let proof = prove(&key, &honest, &challenge).expect("proof");
            let mut changed = honest;
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_proven(&key, &changed, &challenge, &proof));
        }

        #[test]
        fn no_bytes_make_the_parsers_panic(
            bytes: [u8; HELLO_BYTES],
            verdict in proptest::collection::vec(any::<u8>(), VERDICT_BYTES),
        ) {
            let key = Key::new([7; 32]);
            let _ = Hello::parse(&bytes);
            let verdict: [u8; VERDICT_BYTES] = verdict.try_into().expect("length");
            prop_assert_eq!(parse_verdict(&key, &verdict, &bytes, &[0; CHALLENGE_BYTES]), None);
        }
    }
}
