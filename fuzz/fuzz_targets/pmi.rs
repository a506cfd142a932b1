//! What launchers and ranks say to each other by PMI-1.
#![no_main]
use ayatori_launch::pmi::{mapping, wire};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut rest = data;
    while let Ok(Some(length)) = wire::first_message(rest) {
        let (message, behind) = rest.split_at(length);
        if let Ok(request) = wire::Request::parse(message) {
            let _ = request.emit(&mut Vec::new());
        }
        if let Ok(reply) = wire::Reply::parse(message) {
            let _ = reply.emit(&mut Vec::new());
        }
        rest = behind;
    }
    if let Ok(text) = std::str::from_utf8(data) {
        let _ = mapping::nodes(text, 64);
    }
});
