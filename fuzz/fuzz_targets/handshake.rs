//! The messages of a handshake.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ayatori_devices::tcp::fuzzing::handshake(data));
