//! What `ayatori run` and its agents say to each other. The files of the command itself, laid out as there: it is no library.
#![no_main]
#![allow(dead_code, unreachable_pub)]

mod run;
mod why;

libfuzzer_sys::fuzz_target!(|data: &[u8]| run::cluster::read(data));
