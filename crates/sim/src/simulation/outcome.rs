//! What is told of a run.

use crate::cluster::ClusterReport;
use crate::network::Counters;
use crate::report::{Group, HostReport, LinkReport};

/// A run that came to its end.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The workload's name or file.
    pub workload: String,
    /// Number of processes.
    pub process_count: u32,
    /// Times, by rank and in all.
    pub report: ClusterReport,
    /// How busy links were.
    pub links: LinkReport,
    /// How busy hosts were.
    pub hosts: HostReport,
    /// What the network counted.
    pub counters: Counters,
}

/// Nothing in no time is 0, not NaN.
fn per(count: f64, time: f64) -> f64 {
    if time > 0.0 { count / time } else { 0.0 }
}

impl Outcome {
    /// Payload through the network over the time taken, bytes/s.
    pub fn bandwidth_bytes_per_s(&self) -> f64 {
        per(self.counters.delivered_bytes as f64, self.report.elapsed_ps as f64 / 1e12)
    }

    /// What limited the run, in one line.
    pub fn bottleneck(&self) -> String {
        self.links.bottleneck(&self.hosts)
    }

    /// In words; the simulation took `wall_s` seconds.
    pub fn summary(&self, wall_s: f64) -> String {
        let Outcome { workload, process_count, report, links, counters, .. } = self;
        let (microseconds, gigabytes) =
            (report.elapsed_ps as f64 / 1e6, counters.delivered_bytes as f64 / 1e9);
        let rate = self.bandwidth_bytes_per_s() / 1e9;
        let hops = counters.packet_hop_count as f64 / 1e6;
        let noun = if *process_count == 1 { "process" } else { "processes" };
        let lost = match counters.dropped_packet_count {
            0 => String::new(),
            count => format!(
                "lost: {count} frames; TCP sent {} segments again, after {} timeouts\n",
                counters.resent_packet_count, counters.timeout_count
            ),
        };
        format!(
            "{workload} on {process_count} {noun}: {microseconds:.3} us, {gigabytes:.3} GB through the \
             network, {rate:.3} GB/s\n{links}{lost}bottleneck: {}\n\
             simulated {hops:.2} M packet-hops in {wall_s:.2} s, {:.2} M/s\n",
            self.bottleneck(),
            per(hops, wall_s),
        )
    }

    /// As JSON: times in ps, parts of the time from 0 to 1.
    pub fn json(&self) -> serde_json::Value {
        let Outcome { workload, process_count, report, links, hosts, counters } = self;
        let group = |group: &Group| {
            serde_json::json!({
                "links": group.channel_count,
                "utilisation_max": group.max,
                "utilisation_mean": group.mean,
                "wait_mean_ps": group.mean_wait_ps,
            })
        };
        let worst = links.worst.iter().map(|link| {
            serde_json::json!({
                "link": link.name, "utilisation": link.utilisation, "wait_mean_ps": link.mean_wait_ps,
            })
        });
        // How long packets wait in a NIC is not measured.
        let mut injection = group(&links.injection);
        injection["wait_mean_ps"] = serde_json::Value::Null;
        serde_json::json!({
            "workload": workload,
            "processes": process_count,
            "elapsed_ps": report.elapsed_ps,
            "finished_ps": report.finished_ps,
            "network_bytes": counters.delivered_bytes,
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s(),
            "packet_hops": counters.packet_hop_count,
            "lost_frames": counters.dropped_packet_count,
            "resent_segments": counters.resent_packet_count,
            "timeouts": counters.timeout_count,
            "injection": injection,
            "network": group(&links.network),
            "ejection": group(&links.ejection),
            "software_max": hosts.software_max,
            "software_mean": hosts.software_mean,
            "memory_max": hosts.memory_max,
            "worst": worst.collect::<Vec<_>>(),
            "bottleneck": self.bottleneck(),
        })
    }
}
