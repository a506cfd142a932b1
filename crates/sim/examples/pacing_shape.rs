//! A first look at the packet pacing paper's random ring, on the bare network: time over gap, per number of nodes.
//! `cargo run --release -p ayatori-sim --example pacing_shape [KiB a message] [how many sizes] [NICs a node]`

use std::time::Instant;

use ayatori_sim::machine::tofu_torus;
use ayatori_sim::network::{Gap, NoProbe};
use ayatori_sim::report::LinkReport;
use ayatori_sim::traffic::patterns::RandomRing;
use ayatori_sim::traffic::rounds::{self, Setup};

fn main() {
    let kib: u64 = std::env::args().nth(1).map_or(256, |kib| kib.parse().expect("KiB a message"));
    let largest: usize = std::env::args().nth(2).map_or(6, |count| count.parse().expect("how many sizes"));
    let nics: u16 = std::env::args().nth(3).map_or(1, |count| count.parse().expect("NICs a node"));
    let machines: [[u32; 3]; 6] = [[2, 3, 4], [4, 3, 4], [4, 6, 4], [8, 6, 4], [8, 6, 8], [8, 6, 16]];
    for extents in machines.into_iter().take(largest) {
        let nodes: u32 = extents.iter().product();
        let started = Instant::now();
        let (mut unpaced_ps, mut hops) = (0, 0);
        println!("{nodes:>4} nodes x 16, {nics} NICs, {kib} KiB");
        for gap in [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0] {
            let mut network = tofu_torus(&extents, nics, NoProbe).expect("a valid torus");
            let setup = Setup {
                gap: Gap::packets(gap),
                start_spread_ps: 5_000,
                seed: 1,
                ..Setup::blocks(&network, 16)
            };
            let ring = RandomRing::new(nodes * 16, kib * 1024, 42, 1);
            let report = rounds::run(&mut network, &ring, &setup).expect("no deadlock with dateline");
            hops += network.counters().packet_hop_count;
            if gap == 0.0 {
                unpaced_ps = report.elapsed_ps;
                println!(" {:.2} ms unpaced", report.elapsed_ps as f64 / 1e9);
                println!("{}", LinkReport::of(&network, report.elapsed_ps, 1));
            }
            println!("  gap {gap:>4}: {:.3}", report.elapsed_ps as f64 / unpaced_ps as f64);
        }
        let seconds = started.elapsed().as_secs_f64();
        println!(
            "  {:.1} M packet-hops in {seconds:.1} s: {:.1} M/s",
            hops as f64 / 1e6,
            hops as f64 / seconds / 1e6
        );
    }
}
