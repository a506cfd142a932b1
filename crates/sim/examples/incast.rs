//! Many hosts send to one over a switch that drops frames: when each message arrives, and what TCP did for
//! it.
//!
//! `cargo run --release -p ayatori-sim --example incast -- SENDERS BYTES QUEUE_FRAMES [RATE_MBPS [SEED]]`
//!
//! With a seed other than 0 the senders start within a millisecond of each other.
//! `studies/network/incast.py` runs the same in ns-3 and over Linux' own TCP.

use ayatori_fabric::description::Machine;
use ayatori_sim::machine::simulate;
use ayatori_sim::network::{Gap, Message, NicId, NoProbe, Occurrence};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let numbers: Result<Vec<u64>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let (senders, bytes, frames, rate_mbps, seed) = match numbers?[..] {
        [senders, bytes, frames] => (senders, bytes, frames, 1_000, 0),
        [senders, bytes, frames, rate_mbps] => (senders, bytes, frames, rate_mbps, 0),
        [senders, bytes, frames, rate_mbps, seed] => (senders, bytes, frames, rate_mbps, seed),
        _ => return Err("usage: incast SENDERS BYTES QUEUE_FRAMES [RATE_MBPS [SEED]]".into()),
    };
    let hosts = senders + 1;
    let rate = rate_mbps as f64 / 1_000.0;
    let text = format!(
        "name = \"incast\"\n[switch_models.s]\nports = {hosts}\nrate_gbps = {rate}\npause = false\n\
         buffer_bytes = 100000000\nqueue_bytes = {}\n[host_models.h]\n\
         nic = [{{ name = \"eth0\", rate_gbps = {rate} }}]\n[topology]\nkind = \"star\"\nswitches = 1\n\
         switch_model = \"s\"\n[hosts]\nmodel = \"h\"\nper_switch = {hosts}\n",
        frames * 1_538,
    );
    let machine = Machine::parse("incast.toml", &text)?;
    let mut network = simulate(&machine, NoProbe)?.network;
    for from in 1..=senders as u32 {
        network.set_timer(u64::from(from) * 7_919 * seed % 1_000 * 1_000_000, from);
    }
    let mut done_ps = Vec::new();
    while let Some(occurrence) = network.advance()? {
        match occurrence {
            Occurrence::Timer { token: from } => network.send(Message {
                from: NicId(from),
                to: NicId(0),
                bytes,
                gap: Gap::NONE,
                flow: from,
                token: from,
                notify_injected: false,
            }),
            Occurrence::Delivered { .. } => done_ps.push(network.now_ps()),
            Occurrence::Injected { .. } => {}
        }
    }
    let ms = |at: usize| done_ps[at] as f64 / 1e9;
    let counters = network.counters();
    println!(
        "{senders} senders of {bytes} B, queue of {frames} frames: first {:.3} ms, median {:.3}, last {:.3}; \
         lost {}, sent again {}, timeouts {}",
        ms(0),
        ms(done_ps.len() / 2),
        ms(done_ps.len() - 1),
        counters.dropped_packet_count,
        counters.resent_packet_count,
        counters.timeout_count,
    );
    Ok(())
}
