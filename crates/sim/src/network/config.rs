//! What routers, packets and NICs are like. Rates and latencies of links are the graph's.

/// When a router may pass a packet on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Switching {
    /// As soon as its head is there and the next buffer has room for all of it (P. Kermani, L. Kleinrock,
    /// 1979).
    CutThrough,
    /// When all of it is there, as most Ethernet switches do.
    StoreAndForward,
}

/// In which order a NIC sends the packets of several messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NicOrder {
    /// One message after the other.
    Fifo,
    /// A packet of each message in turn.
    RoundRobin,
}

/// Which of the packets that could go over a link goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Arbitration {
    /// The lanes in turn.
    #[default]
    RoundRobin,
    /// The packet that left its NIC first, whatever way it has come; among equals, in turn. Fair to those
    /// from afar.
    OldestFirst,
    /// The virtual channels of the link in turn, and for each of them the lanes in turn that want it: what
    /// routers do that first allot a channel (VA) and then the switch (SA; W. Dally, B. Towles, "Principles
    /// and Practices of Interconnection Networks", 2004, chapter 16). Lanes that want the same channel share
    /// that channel's part; a channel is allotted again when its packet has left, and a packet is routed
    /// (RC) when it is the first of its lane; NICs send into all channels.
    ChannelFirst,
}

/// How many packets an input port can pass to outputs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CrossbarInputs {
    /// One for each virtual channel.
    #[default]
    PerChannel,
    /// One. Takes longer to simulate: outputs of a router are then looked at in order of time.
    PerPort,
}

/// Where packets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queueing {
    /// At inputs, by virtual channel, with credits: interconnects.
    Input,
    /// At outputs, in memory that all ports share: Ethernet (`ethernet`).
    Output(SharedBuffer),
}

/// An Ethernet switch's memory, and how it uses several cables to the same neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedBuffer {
    /// What happens before it is full.
    pub when_full: WhenFull,
    /// What decides which cable of an aggregated link a frame takes.
    pub lag_hash: LagHash,
}

/// What an Ethernet switch does when its memory fills up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// It sends pause frames (IEEE 802.3x).
    Pause {
        /// More than this from one cable, and the far end is asked to pause.
        on_bytes: u32,
        /// No more than this, and it may send again.
        off_bytes: u32,
    },
    /// It drops the frame that has come (drop tail), and TCP at the NICs sends it again.
    Drop {
        /// The memory of the whole switch.
        memory_bytes: u64,
        /// The most that waits for one cable.
        queue_bytes: u64,
        /// How TCP does it.
        tcp: Tcp,
    },
}

/// TCP at the NICs, where switches drop frames. The defaults are Linux'; that of `jitter_ps` is assumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tcp {
    /// Segments that may be sent before anything is acknowledged.
    pub initial_window_count: u32,
    /// Most payload on its way: what a receiver keeps room for.
    pub window_max_bytes: u32,
    /// Least time beyond the round trip before a segment is sent again for want of an answer, ps.
    pub timeout_min_ps: u64,
    /// How long an acknowledgement may wait for a second segment or data to go with, ps.
    pub ack_delay_ps: u64,
    /// A host looks at what has arrived up to so much later, at random, ps. Without it senders fall into
    /// step with a full queue, and some are shut out for long (S. Floyd, V. Jacobson, On Traffic Phase
    /// Effects in Packet-Switched Gateways, 1992).
    pub jitter_ps: u64,
}

impl Default for Tcp {
    fn default() -> Tcp {
        const MS_PS: u64 = 1_000_000_000;
        Tcp {
            initial_window_count: 10,
            window_max_bytes: 3 << 20,
            timeout_min_ps: 200 * MS_PS,
            ack_delay_ps: 40 * MS_PS,
            jitter_ps: MS_PS / 100,
        }
    }
}

/// What is hashed to choose a cable of an aggregated link. Frames of one connection always take the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LagHash {
    /// Source and destination: all traffic between two NICs takes one cable.
    Addresses,
    /// These and the connection's ports: what `plan` configures.
    #[default]
    AddressesAndPorts,
}

/// See the module's documentation. All sizes in bytes, all times in ps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The longest packet, header included.
    pub mtu_bytes: u32,
    /// The header of every packet.
    pub header_bytes: u32,
    /// The shortest packet, header included; shorter ones are padded.
    pub packet_min_bytes: u32,
    /// Packets are padded to a multiple of this; a router looks at a packet when one flit of it has arrived.
    pub flit_bytes: u32,
    /// Where packets wait. With [`Queueing::Output`] there are no virtual channels and no credits.
    pub queueing: Queueing,
    /// Room of each virtual channel at each input port; credits count it.
    pub vc_buffer_bytes: u32,
    /// Virtual channels of each link. More than the routing needs are shared out by destination.
    pub vc_count: u8,
    /// Which packet goes next.
    pub arbitration: Arbitration,
    /// How many packets leave an input port at once.
    pub crossbar_inputs: CrossbarInputs,
    /// Routing computation (RC).
    pub route_ps: u64,
    /// Virtual channel allocation (VA).
    pub vc_allocation_ps: u64,
    /// Switch allocation (SA).
    pub switch_allocation_ps: u64,
    /// Switch traversal (ST).
    pub switch_traversal_ps: u64,
    /// When a router may pass a packet on.
    pub switching: Switching,
    /// In which order a NIC sends.
    pub nic_order: NicOrder,
}

impl Config {
    /// The network of the packet pacing paper's table 3 (NSIM as Tofu), but that the lanes which want a link
    /// take it in turn; links there are 5 GB/s a direction.
    pub fn nsim() -> Config {
        // One flit of 16 B at 5 GB/s: 16 B / 5 GB/s = 3.2 ns.
        const FLIT_PS: u64 = 3_200;
        Config {
            mtu_bytes: 2_048,
            header_bytes: 128,
            packet_min_bytes: 32,
            flit_bytes: 16,
            queueing: Queueing::Input,
            vc_buffer_bytes: 4 * 2_048,
            vc_count: 2,
            arbitration: Arbitration::RoundRobin,
            crossbar_inputs: CrossbarInputs::PerChannel,
            route_ps: FLIT_PS,
            vc_allocation_ps: FLIT_PS,
            switch_allocation_ps: FLIT_PS,
            switch_traversal_ps: FLIT_PS,
            switching: Switching::CutThrough,
            nic_order: NicOrder::RoundRobin,
        }
    }

    /// From the arrival of a packet's first flit to its start on the next link, if nothing is in the way.
    pub fn pipeline_ps(&self) -> u64 {
        self.route_ps + self.vc_allocation_ps + self.switch_allocation_ps + self.switch_traversal_ps
    }

    /// Most payload a packet can carry.
    pub fn payload_max_bytes(&self) -> u32 {
        self.mtu_bytes - self.header_bytes
    }

    /// What a packet with this payload takes on the wire and in buffers.
    pub fn packet_bytes(&self, payload_bytes: u32) -> u32 {
        (payload_bytes + self.header_bytes).max(self.packet_min_bytes).next_multiple_of(self.flit_bytes)
    }

    /// Packets of a message; an empty one is a header.
    pub fn packet_count(&self, message_bytes: u64) -> u64 {
        message_bytes.div_ceil(u64::from(self.payload_max_bytes())).max(1)
    }

    /// Whether the numbers can work together.
    ///
    /// # Errors
    /// Says in words which cannot.
    pub fn check(&self) -> Result<(), String> {
        let Config { mtu_bytes, header_bytes, flit_bytes, vc_buffer_bytes, vc_count, .. } = *self;
        if flit_bytes == 0 || flit_bytes > mtu_bytes {
            return Err(format!("a flit of {flit_bytes} B in packets of at most {mtu_bytes} B"));
        }
        if mtu_bytes > 1 << 24 || self.packet_min_bytes > mtu_bytes {
            let least = self.packet_min_bytes;
            return Err(format!("packets of {least} to {mtu_bytes} B; at most 16 MiB can be"));
        }
        if header_bytes >= mtu_bytes {
            return Err(format!("a header of {header_bytes} B leaves no payload in {mtu_bytes} B"));
        }
        if let Queueing::Output(buffer) = self.queueing {
            buffer.check(mtu_bytes)?;
        }
        let longest = mtu_bytes.next_multiple_of(flit_bytes);
        if vc_buffer_bytes < longest || vc_buffer_bytes > 1 << 30 {
            return Err(format!(
                "a buffer of {vc_buffer_bytes} B: cut-through and store-and-forward need room for a whole packet \
                 of {longest} B (and 1 GiB is the most)"
            ));
        }
        if vc_count == 0 || vc_count > super::VC_COUNT_MAX {
            return Err(format!("{vc_count} virtual channels: 1 to {}", super::VC_COUNT_MAX));
        }
        Ok(())
    }
}

impl SharedBuffer {
    fn check(&self, mtu_bytes: u32) -> Result<(), String> {
        match self.when_full {
            WhenFull::Pause { on_bytes: on, off_bytes: off } if off > on => {
                Err(format!("pause goes off at {off} B, above the {on} B at which it goes on"))
            }
            WhenFull::Drop { memory_bytes, queue_bytes, .. }
                if memory_bytes.min(queue_bytes) < mtu_bytes.into() =>
            {
                Err(format!(
                    "{queue_bytes} B for a queue and {memory_bytes} B for a switch: no frame of \
                     {mtu_bytes} B has room"
                ))
            }
            WhenFull::Drop { tcp, .. } if tcp.initial_window_count == 0 => {
                Err("an initial window of no segment: nothing is ever sent".into())
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ethernet(when_full: WhenFull) -> Config {
        let buffer = SharedBuffer { when_full, lag_hash: LagHash::Addresses };
        Config { queueing: Queueing::Output(buffer), ..Config::nsim() }
    }

    #[test]
    fn numbers_that_cannot_work_together_are_named() {
        let pause = |on_bytes, off_bytes| ethernet(WhenFull::Pause { on_bytes, off_bytes });
        let drop = |memory_bytes, queue_bytes, initial_window_count| {
            let tcp = Tcp { initial_window_count, ..Tcp::default() };
            ethernet(WhenFull::Drop { memory_bytes, queue_bytes, tcp })
        };
        let nsim = Config::nsim;
        let most = Config { mtu_bytes: 1 << 24, vc_buffer_bytes: 1 << 24, ..nsim() };
        let whole = Config { flit_bytes: 2_048, header_bytes: 2_047, vc_buffer_bytes: 2_048, ..nsim() };
        // The last that works, and the first that does not.
        let cases = [
            (Config { flit_bytes: 1, ..nsim() }, Config { flit_bytes: 0, ..nsim() }, "a flit of 0 B"),
            (whole.clone(), Config { flit_bytes: 2_049, ..whole.clone() }, "a flit of 2049 B"),
            (most.clone(), Config { mtu_bytes: (1 << 24) + 1, ..most }, "at most 16 MiB"),
            (
                Config { packet_min_bytes: 2_048, ..nsim() },
                Config { packet_min_bytes: 2_049, ..nsim() },
                "packets of 2049 to 2048 B",
            ),
            (whole.clone(), Config { header_bytes: 2_048, ..whole.clone() }, "no payload"),
            (whole.clone(), Config { vc_buffer_bytes: 2_047, ..whole }, "a buffer of 2047 B"),
            (
                Config { vc_buffer_bytes: 1 << 30, ..nsim() },
                Config { vc_buffer_bytes: (1 << 30) + 1, ..nsim() },
                "a buffer of 1073741825 B",
            ),
            (Config { vc_count: 1, ..nsim() }, Config { vc_count: 0, ..nsim() }, "0 virtual channels"),
            (Config { vc_count: 16, ..nsim() }, Config { vc_count: 17, ..nsim() }, "17 virtual channels"),
            (pause(5_000, 5_000), pause(5_000, 5_001), "pause goes off at 5001 B"),
            (drop(2_048, 2_048, 1), drop(2_047, 2_048, 1), "2047 B for a switch"),
            (drop(2_048, 2_048, 1), drop(2_048, 2_047, 1), "2047 B for a queue"),
            (drop(2_048, 2_048, 1), drop(2_048, 2_048, 0), "no segment"),
        ];
        for (good, bad, words) in cases {
            assert_eq!(good.check(), Ok(()), "{words}");
            let said = bad.check().unwrap_err();
            assert!(said.contains(words), "{said:?} without {words:?}");
        }
    }
}
