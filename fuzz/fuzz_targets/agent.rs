//! What `ayatori run` and its agents say to each other.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ayatori_launch::fuzz_agent_frames(data));
