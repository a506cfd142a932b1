//! Capabilities of the rails of shipping devices, as functions of their parameters: the devices report these,
//! and so does a simulated NIC that models one.

use super::{HEADER_BYTES_MAX, Pacing, RailCapabilities, SHORT_HEADER_BYTES};

/// TCP: the head of a frame in bytes.
pub const TCP_HEAD_BYTES: usize = 20;
/// TCP: the longest payload of an ordinary packet in bytes.
pub const TCP_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// TCP: the longest message that goes eagerly, in bytes. A longer one saves the copy that its sender keeps,
/// and takes a round trip more. Over the loopback of two CPUs of an EPYC (Zen 3) 128 KiB take 50 µs so and 87
/// announced, 256 KiB 91 and 118; where congestion control spaces packets by time (BBR, 10 Gbit/s), 128 KiB
/// 67 and 136.
pub const TCP_EAGER_BYTES_MAX: usize = 256 << 10;
/// TCP: the longest payload of a packet of a long message's data in bytes, which is one call of the kernel.
/// With calls of 1 MiB a message of 1 MiB over a veth pair took an Intel Xeon (model 207) 750 µs, with these
/// 230, over the loopback 230 and 215. (An AMD EPYC had found the longer ones 5 to 8 % quicker.)
pub const TCP_LONG_PAYLOAD_BYTES_MAX: usize = 5 << 16;
/// TCP: unsent bytes that the kernel takes per connection, beyond those in flight. Bytes in the kernel cannot
/// go over another rail, and acknowledgements and answers wait behind them: 512 KiB are 2 ms of 2 Gbit/s.
/// Windows of 1 and 4 MiB over the loopback of an Intel Xeon (model 207), GB/s: with half of it 3.8 and 2.2,
/// with it 4.3 and 2.4, with twice as much 4.5 and 2.6.
pub const TCP_UNSENT_BYTES_MAX: u32 = 512 << 10;

/// Headers of IPv4 and of TCP with timestamps.
const SEGMENT_HEADERS_BYTES: usize = 20 + 32;
/// Bytes that the kernel hands to an interface at a time: 64 KiB less its own headers (`MAX_TCP_HEADER`).
const BURST_BYTES_MAX: usize = 65_215;

/// TCP: the longest packet whose frame leaves as whole segments in one burst. A frame a little longer would
/// leave as a burst and a short segment, which costs as much again (6.7 instead of 5.8 GB/s over a veth
/// pair).
pub fn tcp_packet_bytes(mtu_bytes: Option<u32>) -> usize {
    let segment = (mtu_bytes.unwrap_or(1500) as usize).saturating_sub(SEGMENT_HEADERS_BYTES).max(1);
    let burst = BURST_BYTES_MAX / segment * segment;
    // A loopback, for example, has segments longer than a packet.
    if burst < BURST_BYTES_MAX / 2 {
        TCP_PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX
    } else {
        burst - TCP_HEAD_BYTES
    }
}

/// A TCP rail over an interface.
pub fn tcp(
    name: &'static str,
    mtu_bytes: Option<u32>,
    bandwidth_bytes_per_s: u64,
    numa_node: Option<u16>,
) -> RailCapabilities {
    RailCapabilities {
        name,
        packet_bytes_max: tcp_packet_bytes(mtu_bytes),
        long_packet_bytes_max: TCP_LONG_PAYLOAD_BYTES_MAX + HEADER_BYTES_MAX,
        inline_bytes: 0,
        eager_bytes_max: TCP_EAGER_BYTES_MAX,
        put: false,
        get: false,
        transfer_bytes_min: 0,
        streams_awaited: false,
        eager_learnt_bytes: [0; 2],
        learns_beside_receives: false,
        transfer_bytes_max: 1 << 20,
        ordered: true,
        reliable: true,
        may_break: true,
        queue_bytes: TCP_UNSENT_BYTES_MAX as u64,
        bandwidth_bytes_per_s,
        latency_ps: 10_000_000,
        pacing: Pacing::Rate,
        numa_node,
    }
}

/// Shared memory: the longest message of a sender with others under way that is sent at once, where long
/// packets go in blocks, and elsewhere. Two cores of an Intel Xeon (model 207), windows of 32 KiB, at once,
/// and announced, GB/s: one way 9.9 and 12, both ways 12.5 and 20; of 16 KiB 7.9 and 8.2, 11.3 and 11.3.
const SHM_EAGER_BYTES_MAX: [usize; 2] = [32 << 10, 16 << 10];
/// Shared memory: rings that hold longer packets than this have bulk lines.
const SHM_NEAR_BYTES_MAX: usize = 32 << 10;

/// Shared memory: longer messages of a sender with nothing else under way, to the second length, or to the
/// third where long packets go in blocks, go eagerly or are read by the receiver through the kernel,
/// whichever is quicker by measurement. On 2 CPUs, ping-pong with one buffer a rank / separate ones, µs one
/// way: 16 KiB eagerly 2.2 / 2.3, read 4.6 / 2.0; 64 KiB 5.4 / 5.5 and 11.9 / 4.2; announced packets take
/// 6.8 / 6.8. On two near cores of an EPYC (Zen 3), separate buffers: 128 KiB eagerly 5.1, in announced
/// packets 6.9; and `MPI_Sendrecv` 9.0 and 12.4. On those of a Zen 5 256 KiB eagerly 3.8 and announced 4.5,
/// 512 KiB 9.7 and 9.9; `MPI_Sendrecv` of 512 KiB 16.5 and 18.
const SHM_LEARNT_BYTES: [usize; 3] = [8 << 10, 64 << 10, 512 << 10];

/// Shared memory: from this length on the kernel makes the single copy of a message that no sender waits for.
/// Two copies side by side through bulk lines can take less time still (2 CPUs, ping-pong with one buffer a
/// rank, µs one way, ring / kernel: 256 KiB 23 / 31, 512 KiB 40 / 64, 1 MiB 79 / 140, 4 MiB 384 / 560), but
/// time of both sides, which a caller that waits can spare.
const SHM_KERNEL_COPY_BYTES_MIN: usize = 512 << 10;

/// Shared memory: a get of so many bytes from a process that waits is made by both, where each has a CPU. A
/// shorter one is over before the other process has begun.
const SHM_COOPERATIVE_BYTES_MIN: usize = 64 << 10;
/// Longest piece of such a get. Each is one call of the kernel, and its helper looks for no messages
/// meanwhile.
const SHM_PIECE_BYTES_MAX: usize = 512 << 10;
/// Its pieces begin at pages: each page is pinned once.
const PAGE_BYTES: usize = 4096;

/// Shared memory: the bytes of a piece of a get that two processes make together, two pieces at least.
/// `None`: it is too short for that.
pub fn shm_piece_bytes(bytes: usize) -> Option<usize> {
    let half_bytes = bytes.div_ceil(2).min(SHM_PIECE_BYTES_MAX).next_multiple_of(PAGE_BYTES);
    (bytes >= SHM_COOPERATIVE_BYTES_MIN).then_some(half_bytes)
}

/// Shared memory: the blocks for long packets that each of two ranks begins with, where so many are of a
/// host.
pub fn shm_blocks_count(local_size: u32) -> u32 {
    match local_size {
        0..=2 => 8,
        3..=4 => 4,
        5..=8 => 2,
        _ => 0,
    }
}

/// Shared memory: the longest payload of a packet where so many ranks are of a host.
pub fn shm_payload_bytes_max(local_size: u32, has_long_blocks: bool) -> usize {
    match local_size {
        0..=2 if has_long_blocks => 512 << 10,
        3..=4 if has_long_blocks => 256 << 10,
        0..=8 => 128 << 10,
        9..=16 => SHM_NEAR_BYTES_MAX,
        17..=32 => 8 << 10,
        33..=128 => 4 << 10,
        _ => 2 << 10,
    }
}

/// What the capabilities of shared memory depend on.
#[derive(Clone, Copy, Debug)]
pub struct Shm {
    /// What a slot of a ring holds.
    pub slot_bytes: usize,
    /// What its bulk lines hold.
    pub payload_bytes_max: usize,
    /// The kernel copies between processes.
    pub kernel_copy: bool,
    /// There are more ranks than CPUs, so that a sender and its receiver do not copy at the same time.
    pub is_oversubscribed: bool,
    /// Long packets go in blocks.
    pub has_long_blocks: bool,
}

/// Shared memory's one rail.
pub fn shm(shm: &Shm) -> RailCapabilities {
    let Shm { slot_bytes, payload_bytes_max, kernel_copy, is_oversubscribed, has_long_blocks } = *shm;
    let [with_blocks, without] = SHM_EAGER_BYTES_MAX;
    let [learnt_above, learnt_without, learnt_with] = SHM_LEARNT_BYTES;
    let learnt_bytes = [learnt_above, if has_long_blocks { learnt_with } else { learnt_without }];
    RailCapabilities {
        name: "shm",
        packet_bytes_max: payload_bytes_max + SHORT_HEADER_BYTES,
        long_packet_bytes_max: 0,
        inline_bytes: slot_bytes,
        // Measured (bench shm_rings): through the ring 8 KiB take as long as a rendezvous and the kernel's
        // copy; where both sides copy at once longer packets still save round trips.
        eager_bytes_max: payload_bytes_max.min(match (kernel_copy, is_oversubscribed) {
            (true, true) => 8 << 10,
            (true, false) if !has_long_blocks => without,
            _ => with_blocks,
        }),
        transfer_bytes_min: if is_oversubscribed { 0 } else { SHM_KERNEL_COPY_BYTES_MIN },
        streams_awaited: !is_oversubscribed && payload_bytes_max > SHM_NEAR_BYTES_MAX,
        eager_learnt_bytes: match kernel_copy && !is_oversubscribed {
            true => learnt_bytes.map(|bytes| bytes.min(payload_bytes_max)),
            false => [0; 2],
        },
        learns_beside_receives: has_long_blocks,
        put: kernel_copy,
        get: kernel_copy,
        // Between two calls of the kernel the sides wait for each other: in pieces of 1 MiB, 4 MiB both ways
        // take 413 µs, in one 398. Nothing else goes on meanwhile, for up to a millisecond.
        transfer_bytes_max: 4 << 20,
        ordered: true,
        reliable: true,
        may_break: false,
        queue_bytes: 0,
        bandwidth_bytes_per_s: 12_000_000_000,
        latency_ps: 150_000,
        pacing: Pacing::None,
        numa_node: None,
    }
}

/// A NIC that puts and gets by itself, over a network that loses nothing. No shipping device is one yet.
pub fn rdma(name: &'static str, bandwidth_bytes_per_s: u64) -> RailCapabilities {
    RailCapabilities {
        name,
        packet_bytes_max: (16 << 10) + HEADER_BYTES_MAX,
        eager_bytes_max: 16 << 10,
        put: true,
        get: true,
        transfer_bytes_max: 1 << 30,
        bandwidth_bytes_per_s,
        latency_ps: 1_000_000,
        pacing: Pacing::Rate,
        ..RailCapabilities::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcps_packets_fill_bursts_of_whole_segments() {
        let bytes = |mtu| tcp_packet_bytes(mtu);
        assert_eq!(bytes(None), bytes(Some(1500)));
        assert_eq!(bytes(Some(1500)), 45 * 1448 - 20);
        assert_eq!(bytes(Some(9000)), 7 * 8948 - 20);
        assert_eq!(bytes(Some(53)), BURST_BYTES_MAX - 20);
        assert_eq!(bytes(Some(0)), BURST_BYTES_MAX - 20);
        // Just more than half of a burst, and a loopback's.
        assert_eq!(bytes(Some(32_660)), 2 * 32_608 - 20 - 32_608);
        assert_eq!(bytes(Some(65_536)), (64 << 10) + HEADER_BYTES_MAX);
    }

    #[test]
    fn tcps_rail_breaks_and_puts_nothing() {
        let rail = tcp("eth0", Some(1500), 7, Some(3));
        assert_eq!((rail.name, rail.bandwidth_bytes_per_s, rail.numa_node), ("eth0", 7, Some(3)));
        assert_eq!((rail.packet_bytes_max, rail.long_packet_bytes_max), (65_140, 327_680 + HEADER_BYTES_MAX));
        assert_eq!(rail.eager_bytes_max, TCP_EAGER_BYTES_MAX, "more than an ordinary packet");
        assert_eq!([rail.put, rail.get, rail.streams_awaited], [false; 3]);
        assert_eq!([rail.ordered, rail.reliable, rail.may_break], [true; 3]);
        assert_eq!((rail.inline_bytes, rail.transfer_bytes_min), (0, 0));
        assert_eq!((rail.transfer_bytes_max, rail.queue_bytes), (1 << 20, 512 << 10));
    }

    #[test]
    fn the_more_ranks_are_of_a_host_the_less_is_between_two() {
        let sizes = [2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 128, 129];
        assert_eq!(sizes.map(shm_blocks_count), [8, 4, 4, 2, 2, 0, 0, 0, 0, 0, 0, 0]);
        let kib = |has_long_blocks| sizes.map(|size| shm_payload_bytes_max(size, has_long_blocks) >> 10);
        assert_eq!(kib(true), [512, 256, 256, 128, 128, 32, 32, 8, 8, 4, 4, 2]);
        assert_eq!(kib(false), [128, 128, 128, 128, 128, 32, 32, 8, 8, 4, 4, 2]);
    }

    #[test]
    fn shared_memorys_limits_follow_the_kernels_copy_and_the_load() {
        let base = Shm {
            slot_bytes: 64,
            payload_bytes_max: 100_000,
            kernel_copy: true,
            is_oversubscribed: false,
            has_long_blocks: true,
        };
        let of = |kernel_copy, is_oversubscribed| {
            let rail = shm(&Shm { kernel_copy, is_oversubscribed, ..base });
            assert_eq!([rail.put, rail.get], [kernel_copy; 2]);
            assert_eq!([rail.ordered, rail.reliable, rail.may_break], [true, true, false]);
            assert_eq!((rail.packet_bytes_max, rail.inline_bytes), (100_000 + SHORT_HEADER_BYTES, 64));
            assert_eq!((rail.long_packet_bytes_max, rail.queue_bytes), (0, 0));
            assert_eq!(rail.transfer_bytes_max, 4 << 20);
            (rail.eager_bytes_max, rail.transfer_bytes_min, rail.streams_awaited, rail.eager_learnt_bytes)
        };
        assert_eq!(of(true, true), (8 << 10, 0, false, [0; 2]));
        assert_eq!(of(true, false), (32 << 10, 512 << 10, true, [8 << 10, 100_000]));
        assert_eq!(of(false, true), (32 << 10, 0, false, [0; 2]));
        assert_eq!(of(false, false), (32 << 10, 512 << 10, true, [0; 2]));
        let with = |payload_bytes_max| shm(&Shm { payload_bytes_max, ..base });
        assert_eq!(with(20_000).eager_learnt_bytes, [8 << 10, 20_000]);
        let learnt = |has_long_blocks| {
            let [_, most] =
                shm(&Shm { payload_bytes_max: 1 << 20, has_long_blocks, ..base }).eager_learnt_bytes;
            most
        };
        assert_eq!([true, false].map(learnt), [512 << 10, 64 << 10]);
        assert_eq!(with(1000).eager_bytes_max, 1000);
        assert_eq!([32 << 10, (32 << 10) + 1].map(|most| with(most).streams_awaited), [false, true]);
        let without = |kernel_copy, is_oversubscribed| {
            shm(&Shm { kernel_copy, is_oversubscribed, has_long_blocks: false, ..base }).eager_bytes_max
        };
        assert_eq!([without(true, false), without(true, true)], [16 << 10, 8 << 10]);
        assert_eq!([without(false, false), without(false, true)], [32 << 10; 2]);
    }

    #[test]
    fn a_nic_with_memory_access_puts_and_gets() {
        let rail = rdma("nic", 9);
        assert_eq!((rail.name, rail.bandwidth_bytes_per_s), ("nic", 9));
        assert_eq!([rail.put, rail.get, rail.may_break], [true, true, false]);
        assert_eq!((rail.packet_bytes_max, rail.eager_bytes_max), (16_384 + HEADER_BYTES_MAX, 16 << 10));
        assert_eq!(rail.transfer_bytes_max, 1 << 30);
    }

    #[test]
    fn a_rail_of_which_nothing_is_said_takes_short_packets_only() {
        let rail = RailCapabilities::default();
        let bytes = [rail.long_packet_bytes_max, rail.inline_bytes, rail.transfer_bytes_min];
        assert_eq!((bytes, rail.queue_bytes, rail.eager_learnt_bytes), ([0; 3], 0, [0; 2]));
        assert_eq!(rail.transfer_bytes_max, 1 << 20);
    }

    #[test]
    fn no_length_is_learnt_where_the_limits_are_one() {
        let learnt = |most| {
            let eager_learnt_bytes = [3_000, most];
            RailCapabilities { get: true, eager_learnt_bytes, ..RailCapabilities::default() }
                .eager_learnt_payload_bytes()
        };
        assert_eq!([3_000, 3_001].map(learnt), [[0; 2], [3_000, 3_001]]);
    }

    #[test]
    fn pieces_of_a_get_begin_at_pages() {
        for (len, count, piece_bytes) in
            [(64 << 10, 2, 32 << 10), (100_001, 2, 53_248), (1 << 20, 2, 512 << 10), (4 << 20, 8, 512 << 10)]
        {
            assert_eq!(shm_piece_bytes(len), Some(piece_bytes), "{len}");
            assert_eq!(len.div_ceil(piece_bytes), count, "{len}");
        }
        assert_eq!(shm_piece_bytes((64 << 10) - 1), None);
    }
}
