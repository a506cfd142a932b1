//! The byte stream of a TCP connection: frames, long packets fetched or not.
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ayatori_devices::tcp::fuzzing::stream(data));
