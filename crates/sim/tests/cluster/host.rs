//! Hosts with buses, memories and NICs of several stages: differences that can be added up by hand, and the
//! machine of the trunking paper.

use std::cell::Cell;
use std::rc::Rc;

use ayatori_core::Error;
use ayatori_fabric::description::{BusKind, Machine, NicTransfer, Waiting};
use ayatori_sim::cluster::{Cluster, ClusterReport, Config, Mpi, NicUse, Policy};
use ayatori_sim::host::Model;
use ayatori_sim::machine::{cluster_config, simulate};
use ayatori_sim::workloads;

/// Two hosts whose NICs have these stages on this bus.
fn two_hosts(bus: &str, send: &str, receive: &str) -> Machine {
    let text = format!(
        "name = \"two\"\n[switch_models.cable]\nports = 4\nrate_gbps = 80\nswitching = \
        \"virtual-cut-through\"\n\
         [switch_models.cable.router]\nvirtual_channels = 1\nvirtual_channel_buffer_bytes = \
         8192\nflit_bytes = 2\n\
         packet_max_bytes = 1100\npacket_min_bytes = 16\nheader_bytes = 76\n\
         [host_models.node]\nbus = [{{ name = \"bus\", {bus} }}]\n\
         nic = [{{ name = \"nic\", rate_gbps = 80, bus = \"bus\", command_ns = 0, eager_bytes_max = 900, \
         packet_bytes_max = 1024, transfer = \"packets\", send_stages = [{send}], receive_stages = \
         [{receive}] }}]\n\
         software = {{ send_ns = 0, receive_ns = 0, send_copies = 0, receive_copies = 0, system_call_ns \
         = 700, \
         send_system_calls = 1, interrupt_ns = 2000, context_switch_ns = 1000, waiting = \"block\" }}\n\
         [topology]\nkind = \"star\"\nswitches = 1\nswitch_model = \"cable\"\n\
         [hosts]\nmodel = \"node\"\nper_switch = 2\n"
    );
    Machine::parse("two.toml", &text).unwrap_or_else(|error| panic!("{error}"))
}

const EXPRESS: &str = "kind = \"pci-express\", lanes = 16, generation = 5";
const PCI: &str = "kind = \"pci\", width_bits = 64, clock_mhz = 100, write_burst_bytes = 400, \
write_burst_clocks = 10, \
                   read_burst_bytes = 40, read_burst_clocks = 5";

fn cluster(machine: &Machine, change: impl FnOnce(Config) -> Config) -> Cluster {
    let simulated = simulate(machine, None).unwrap();
    let mut notes = simulated.notes;
    let config = cluster_config(machine, simulated.network.config(), 1, &mut notes);
    assert_eq!(notes, Vec::<String>::new());
    Cluster::new(simulated.network, change(config)).unwrap()
}

fn half_round_trip_ps(machine: &Machine, bytes: u64) -> u64 {
    let mut cluster = cluster(machine, |config| config);
    cluster.run(|mpi| workloads::ping_pong(mpi, 1, bytes, 1)).unwrap();
    let report = cluster.run(|mpi| workloads::ping_pong(mpi, 1, bytes, 10)).unwrap();
    assert_eq!(cluster.leftovers(), None);
    report.elapsed_ps / 20
}

/// Time of a message of `count` packets of 900 B, one after the other.
fn stream_ps(machine: &Machine, count: u32) -> u64 {
    let mut cluster = cluster(machine, |config| config);
    let report = cluster
        .run(|mpi| async move {
            let mut requests = Vec::new();
            for _ in 0..count {
                requests.push(match mpi.rank() {
                    0 => mpi.isend(1, 0, 900)?,
                    _ => mpi.irecv(0, 0, 900)?,
                });
            }
            mpi.wait_all(requests).await
        })
        .unwrap();
    assert_eq!(cluster.leftovers(), None);
    report.elapsed_ps
}

const READ: &str = "{ name = \"read\", dma = true }";
const WRITE: &str = "{ name = \"write\", dma = true }";

#[test]
fn latency_is_the_sum_of_stages() {
    let with = |set_up: u64, per_operation: u64, write: u64| {
        let send =
            format!("{{ name = \"set up\", packet_ns = {set_up}, operation_ns = {per_operation} }}, {READ}");
        let receive = format!("{{ name = \"check\", packet_ns = {write} }}, {WRITE}");
        half_round_trip_ps(&two_hosts(EXPRESS, &send, &receive), 8)
    };
    let base_ps = with(100, 0, 100);
    assert_eq!(with(1_100, 0, 100), base_ps + 1_000_000);
    assert_eq!(with(100, 1_000, 100), base_ps + 1_000_000);
    assert_eq!(with(100, 0, 3_100), base_ps + 3_000_000);
}

#[test]
fn data_of_a_pair_take_the_stages_in_turn_or_in_order() {
    let machine = two_hosts(EXPRESS, READ, WRITE);
    super::check_order_of_data(|transfer, data_in_order| {
        cluster(&machine, |config| Config { transfer, data_in_order, ..config })
    });
}

#[test]
fn the_slowest_unit_decides_the_rate() {
    let count = 100;
    let with = |set_up: &str, tell: &str| {
        let send = format!(
            "{{ name = \"set up\", unit = \"{set_up}\", packet_ns = 2000 }}, {READ}, \
             {{ name = \"tell\", unit = \"{tell}\", packet_ns = 3000 }}"
        );
        stream_ps(
            &two_hosts(EXPRESS, &send, &format!("{WRITE}, {{ name = \"done\", packet_ns = 1000 }}")),
            count,
        ) / u64::from(count)
    };
    let near = |time_ps: u64, expected_ps: u64| time_ps.abs_diff(expected_ps) < expected_ps / 20;
    let (apart_ps, together_ps) = (with("a", "b"), with("a", "a"));
    assert!(near(apart_ps, 3_000_000), "{apart_ps}");
    assert!(near(together_ps, 5_000_000), "{together_ps}");
}

#[test]
fn two_servers_of_a_unit_do_two_packets_at_once() {
    let with = |servers: u32| {
        let send = format!("{{ name = \"set up\", servers = {servers}, packet_ns = 4000 }}, {READ}");
        stream_ps(&two_hosts(EXPRESS, &send, WRITE), 100)
    };
    let ratio = with(1) as f64 / with(2) as f64;
    assert!((1.9..2.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_shared_bus_costs_its_bursts() {
    let machine = two_hosts(PCI, READ, WRITE);
    let model = Model::of(&machine.host_models[0], 1_024).unwrap();
    // 800 MB/s and 10 ns a clock: 1,000 B take 1.25 us, 25 reads of 5 clocks more, 3 writes of 10 clocks
    // more.
    let [read_ps, write_ps] = model.dma_ps(0, 1_000, 0);
    assert_eq!((read_ps, write_ps), (1_250_000 + 25 * 50_000, 1_250_000 + 3 * 100_000));
}

#[test]
fn pci_express_costs_headers_and_outstanding_requests() {
    let machine = two_hosts(
        "kind = \"pci-express\", lanes = 4, generation = 1, payload_bytes = 128, header_bytes = 24, \
        completion_bytes = 64, \
         completion_header_bytes = 16, read_request_bytes = 256, read_ns = 1000",
        READ,
        WRITE,
    );
    let mut model = Model::of(&machine.host_models[0], 1_024).unwrap();
    // 1 GB/s: 1,024 B are 8 writes of 152 B, or 16 answers of 80 B a microsecond after the request.
    assert_eq!(model.dma_ps(0, 1_024, 0), [1_280_000 + 1_000_000, 1_216_000]);
    if let BusKind::PciExpress { reads_max, .. } = &mut model.buses[0].0 {
        *reads_max = Some(1);
    }
    // One request of 256 B at a time: four microseconds.
    assert_eq!(model.dma_ps(0, 1_024, 0)[0], 4_000_000 + 1_000_000);
}

#[test]
fn callers_and_sleepers_pay_for_the_operating_system() {
    let mut machine = two_hosts(EXPRESS, READ, WRITE);
    let blocked_ps = half_round_trip_ps(&machine, 8);
    let mut cluster_of = cluster(&machine, |config| config);
    let report = cluster_of.run(|mpi| workloads::ping_pong(mpi, 1, 8, 10)).unwrap();
    // Each sends ten times and is woken ten times.
    let each_ps = 10 * (700_000 + 3_000_000);
    assert_eq!(report.usage.kernel_ps, [each_ps, each_ps]);
    let software = &mut machine.host_models[0].software;
    (software.waiting, software.interrupt_ps, software.context_switch_ps) = (Waiting::Poll, None, None);
    assert_eq!(half_round_trip_ps(&machine, 8), blocked_ps - 3_000_000);
}

#[test]
fn data_arrive_as_they_were_sent_through_all_stages() {
    let send = format!("{{ name = \"set up\", servers = 3, packet_ns = 500 }}, {READ}");
    let machine = two_hosts(EXPRESS, &send, WRITE);
    let mut cluster = cluster(&machine, |config| config);
    let data: Vec<u8> = (0..20_000u32).map(|index| (index * 7 % 251) as u8).collect();
    let expected = data.clone();
    let outcome = cluster.run(move |mpi| {
        let data = data.clone();
        async move {
            for bytes in [1, 800, 20_000] {
                if mpi.rank() == 0 {
                    let request = mpi.isend_data(1, 0, &data[..bytes])?;
                    mpi.wait(request).await?;
                } else {
                    let request = mpi.irecv_data(0, 0, bytes as u64)?;
                    let came = mpi.wait_data(request).await?;
                    assert_eq!(came, data[..bytes]);
                }
            }
            Ok(())
        }
    });
    assert!(outcome.is_ok() && expected.len() == 20_000, "{outcome:?}");
    assert_eq!(cluster.leftovers(), None);
}

/// Messages of `bytes` from rank 0 to rank 1, one after the other, each answered by 4 B.
async fn answered(mpi: Mpi, bytes: u64, count: u32) -> Result<(), Error> {
    for _ in 0..count {
        if mpi.rank() == 0 {
            mpi.send(1, 0, bytes).await?;
            mpi.recv(1, 1, 4).await?;
        } else {
            mpi.recv(0, 0, bytes).await?;
            mpi.send(0, 1, 4).await?;
        }
    }
    Ok(())
}

fn run(cluster: &mut Cluster, bytes: u64, count: u32) -> ClusterReport {
    let report = cluster.run(|mpi| answered(mpi, bytes, count)).unwrap();
    assert_eq!(cluster.leftovers(), None);
    report
}

/// The NICs used, the nodes of the sender's and the receiver's memory, and how data are spread.
#[derive(Clone, Copy)]
struct Trunk<'a> {
    nics: &'a [u16],
    sender: &'a [u16],
    receiver: &'a [u16],
    policy: Policy,
}

/// All four links of the trunking paper, with each part of both memories near its link.
const ALL_NEAR: Trunk<'_> =
    Trunk { nics: &[0, 1, 2, 3], sender: &[0, 0, 1, 1], receiver: &[0, 0, 1, 1], policy: Policy::Even };

/// GB/s of the trunking paper's benchmark with messages of `bytes`.
fn trunked_with(trunk: Trunk<'_>, bytes: u64) -> f64 {
    let text = include_str!("../../../../machines/yampii-openib.toml");
    let machine = Machine::parse("yampii-openib.toml", text).unwrap_or_else(|error| panic!("{error}"));
    let nic_use = NicUse::Only(trunk.nics.iter().map(|nic| 1 << nic).sum());
    let (memory_nodes, policy) = (vec![trunk.sender.to_vec(), trunk.receiver.to_vec()], trunk.policy);
    let mut cluster = cluster(&machine, |config| Config { policy, memory_nodes, nic_use, ..config });
    let small_ps = run(&mut cluster, 4, 10).elapsed_ps as f64 / 20.0;
    bytes as f64 / (run(&mut cluster, bytes, 2).elapsed_ps as f64 / 2.0 - small_ps) * 1e3
}

fn trunked(nics: &[u16], sender: &[u16], receiver: &[u16]) -> f64 {
    trunked_with(Trunk { nics, sender, receiver, policy: Policy::Even }, 16 << 20)
}

#[test]
fn the_shortest_rendezvous_message_is_divided_among_rails() {
    let bytes = 32 << 10;
    let one = Trunk { nics: &[0], sender: &[0], receiver: &[0], ..ALL_NEAR };
    let (one, four) = (trunked_with(one, bytes), trunked_with(ALL_NEAR, bytes));
    assert!(four > 1.2 * one, "{four} over four links, {one} over one");
}

#[test]
fn adaptive_striping_begins_where_even_striping_does() {
    let bytes = 16 << 20;
    let (even, adaptive) =
        (trunked_with(ALL_NEAR, bytes), trunked_with(Trunk { policy: Policy::Adaptive, ..ALL_NEAR }, bytes));
    assert!(adaptive > 0.95 * even, "{adaptive} adaptive, {even} even");
    // One part far from its link: the others take from its end, and even shares wait for it.
    let one_far = Trunk { receiver: &[0, 0, 1, 0], ..ALL_NEAR };
    let (even, adaptive) =
        (trunked_with(one_far, bytes), trunked_with(Trunk { policy: Policy::Adaptive, ..one_far }, bytes));
    assert!(adaptive > 1.1 * even, "{adaptive} adaptive, {even} even");
}

#[test]
fn far_memory_costs_the_receiver_and_not_the_sender() {
    let near = trunked(&[0], &[0], &[0]);
    let sender_far = trunked(&[0], &[1], &[0]);
    let receiver_far = trunked(&[0], &[0], &[1]);
    assert!(sender_far > 0.97 * near && receiver_far < 0.75 * near, "{near} {sender_far} {receiver_far}");
}

#[test]
fn links_carry_what_the_trunking_paper_measured() {
    for (what, paper, part, ours) in [
        ("one", 1.6, 0.05, trunked(&[0], &[0], &[0])),
        ("two", 3.0, 0.05, trunked(&[0, 2], &[0, 1], &[0, 1])),
        ("four", 6.17, 0.05, trunked(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0, 0, 1, 1])),
        ("two far", 2.1, 0.1, trunked(&[0, 2], &[1, 0], &[1, 0])),
    ] {
        println!("{what}: {ours:.3} GB/s, the paper {paper}");
        assert!((ours / paper - 1.0).abs() < part, "{what}: {ours:.3} GB/s, the paper {paper}");
    }
    // The far link's memory is that of two near links, which close its rows.
    let one_far = trunked(&[0, 1, 2, 3], &[0, 0, 1, 1], &[0, 0, 1, 0]);
    println!("four, one receiver far: {one_far:.3} GB/s, the paper at most 3.7, unstable");
    assert!(one_far <= 3.9 && one_far > 3.0, "{one_far:.3} GB/s");
}

/// Rank 5 receives beside four others that copy.
const PER_HOST: u32 = 5;
/// What each copies by itself, bytes/s.
const COPY_RATE: f64 = 4e9;

/// Two hosts of one memory, and an adapter that writes to it with so many bytes on their way.
fn shared_memory(memory_gbytes_per_s: &str, writes_max_bytes: u64) -> Machine {
    let mut text = two_hosts(&format!("{EXPRESS}, writes_max_bytes = {writes_max_bytes}"), READ, WRITE);
    let host = &mut text.host_models[0];
    host.memory_bytes_per_s = memory_gbytes_per_s.parse().ok().map(|rate: f64| (rate * 1e9) as u64);
    (host.memory_ps, host.nics[0].transfer) = (Some(100_000), Some(NicTransfer::Put));
    (host.software.copy_bytes_per_s, host.software.system_call_ps) = (Some(COPY_RATE as u64), None);
    (host.software.waiting, host.socket_count, host.cores_per_socket_count) = (Waiting::Poll, 1, PER_HOST);
    text
}

/// Bytes/s that rank 5 receives by puts, and that so many others of its host copy meanwhile.
fn received_and_copied(machine: &Machine, copier_count: u32) -> [f64; 2] {
    const BYTES: u64 = 10_000_000;
    let simulated = simulate(machine, None).unwrap();
    let mut notes = simulated.notes;
    let config = cluster_config(machine, simulated.network.config(), PER_HOST, &mut notes);
    let mut cluster = Cluster::new(simulated.network, config).unwrap();
    let (copied, is_over) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let shared = (copied.clone(), is_over);
    let report = cluster
        .run(move |mpi| {
            let (copied, is_over) = shared.clone();
            async move {
                match mpi.rank() {
                    0 => mpi.send(PER_HOST, 0, BYTES).await?,
                    PER_HOST => {
                        mpi.recv(0, 0, BYTES).await?;
                        is_over.set(true);
                    }
                    rank if rank > PER_HOST && rank <= PER_HOST + copier_count => {
                        while !is_over.get() {
                            mpi.copy(5_000).await;
                            copied.set(copied.get() + 5_000);
                        }
                    }
                    _ => {}
                }
                Ok(())
            }
        })
        .unwrap();
    assert_eq!(cluster.leftovers(), None);
    let elapsed_s = report.finished_ps[PER_HOST as usize] as f64 * 1e-12;
    [BYTES, copied.get()].map(|bytes| bytes as f64 / elapsed_s)
}

fn assert_near(ours: f64, expected: f64, what: &str) {
    assert!((ours / expected - 1.0).abs() < 0.03, "{what}: {:.3} of {:.3} GB/s", ours / 1e9, expected / 1e9);
}

#[test]
fn an_adapter_waits_for_memory_that_processors_use() {
    // 500 B on their way for 100 ns: 5 GB/s. Four copies ask for 4 x 2 x 4 GB/s of 8, so an access takes
    // 32 / (8 - D) times as long: D = 5 (8 - D) / 32 GB/s. The copies get the rest, half of it each way.
    let machine = shared_memory("8", 500);
    assert_near(received_and_copied(&machine, 0)[0], 5e9, "nobody copies");
    let [received, copied] = received_and_copied(&machine, 4);
    assert_near(received, 5e9 * 8.0 / 37.0, "four copy");
    assert_near(received + 2.0 * copied, 8e9, "the memory");
    // Two copies of 4 GB/s fit into the memory with that.
    assert_near(received_and_copied(&shared_memory("22", 500), 2)[0], 5e9, "two copy");
}

#[test]
fn an_adapter_with_much_on_its_way_takes_from_copies() {
    let machine = shared_memory("16", 100_000);
    let [alone, _] = received_and_copied(&machine, 0);
    let [received, copied] = received_and_copied(&machine, 4);
    assert_near(received, alone, "the adapter");
    assert_near(2.0 * copied, 16e9 - received, "copies");
    // One copy fits in.
    assert_near(received_and_copied(&shared_memory("18", 100_000), 1)[1], COPY_RATE, "one copy");
}

#[test]
fn copies_and_adapters_do_not_meet_where_memory_has_no_limit() {
    let machine = shared_memory("none", 500);
    let [received, copied] = received_and_copied(&machine, 4);
    assert_near(received, 5e9, "the adapter");
    assert_near(copied, 4.0 * COPY_RATE, "copies");
}
