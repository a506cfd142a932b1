//! What the kernel's copies between two processes take, without messages, and what the library takes for a
//! message that goes so.

use super::samples::{
    KERNEL_COPY, KERNEL_COPY_AT_ONCE, KERNEL_COPY_BYTES_MAX, KERNEL_COPY_FRESH, KERNEL_COPY_IN_TURN,
    KERNEL_COPY_ROUND, KERNEL_COPY_UNCACHED, LONG_BYTES, RATE_MAX_GBYTES_PER_S, RENDEZVOUS, RENDEZVOUS_BOTH,
    SHORT_BYTES, Sample, UNCACHED_BYTES, slope, times_ns, value_of,
};

/// Costs of the kernel's copies between two processes.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelCopyFit {
    /// A call without its bytes, of a rank that has just waited for the other, ns.
    pub call_ns: f64,
    /// The same while the other copies from this one, ns.
    pub at_once_ns: f64,
    /// The library's software for a message that is copied so, beside the call, ns.
    pub get_ns: f64,
    /// The same while the other copies from this one, ns.
    pub get_at_once_ns: f64,
    /// Copies of what is in the cache, GB/s.
    pub hot_gbytes_per_s: f64,
    /// Copies of what is not, GB/s.
    pub gbytes_per_s: f64,
    /// Copies of who goes through so many bytes, GB/s.
    pub rates: Vec<(u64, f64)>,
    /// The same of what its owner has just written.
    pub fresh: Vec<(u64, f64)>,
}

/// The call from the shortest copy by both ranks in turn (by one again and again it takes less than after a
/// wait), the rates from the slopes of the others. A message that the kernel copies
/// takes a short message's time besides, the word that it is in place, and the library's software for it.
/// Where both ranks send at once they wait for that word, too, which takes what a short message does.
pub(super) fn fit(samples: &[Sample], short_ns: f64, software_ns: f64) -> Option<KernelCopyFit> {
    let rate = |name: &str| {
        let times = times_ns(samples, name);
        let long: Vec<(u64, f64)> = times.into_iter().filter(|time| time.0 >= LONG_BYTES).collect();
        Some(1.0 / slope(&long)?.max(1.0 / RATE_MAX_GBYTES_PER_S))
    };
    let hot_gbytes_per_s = rate(KERNEL_COPY)?;
    let gbytes_per_s = rate(KERNEL_COPY_UNCACHED)?.min(hot_gbytes_per_s);
    let short = |name| value_of(samples, name, SHORT_BYTES).ok().map(|us| 1e3 * us);
    let again_ns = short(KERNEL_COPY)?;
    let call_ns = short(KERNEL_COPY_IN_TURN).unwrap_or(again_ns).max(again_ns);
    let at_once_ns = short(KERNEL_COPY_AT_ONCE).unwrap_or(call_ns).max(call_ns);
    let rates_of = |name| rates(&times_ns(samples, name), again_ns);
    let fresh = rates_of(KERNEL_COPY_FRESH);
    let in_turn = rates_of(KERNEL_COPY_IN_TURN);
    let mut rates = rates_of(KERNEL_COPY);
    let from_bytes = in_turn.first().map_or(u64::MAX, |rate| rate.0);
    rates.retain(|rate| (2 * LONG_BYTES..from_bytes).contains(&rate.0));
    rates.extend(in_turn);
    rates.extend(rates_of(KERNEL_COPY_ROUND));
    let beyond_bytes = rates.last().map_or(0, |rate| 2 * rate.0);
    rates.push((UNCACHED_BYTES.max(beyond_bytes), gbytes_per_s));
    // What the long one of a benchmark takes more than a short one, without copying.
    let more_ns = |name, call_ns: f64| {
        let meets = times_ns(samples, name);
        let short_ns = meets.iter().find(|time| time.0 == SHORT_BYTES).map_or(short_ns, |time| time.1);
        let &(bytes, ns) = meets.iter().find(|time| time.0 > SHORT_BYTES)?;
        Some(ns - short_ns - call_ns - copied_ns(&rates, bytes, 2 * bytes))
    };
    let get_ns = more_ns(RENDEZVOUS, call_ns).map_or(0.0, |ns| (ns - software_ns).max(0.0));
    let both_ns = more_ns(RENDEZVOUS_BOTH, at_once_ns).map(|ns| ns - short_ns);
    Some(KernelCopyFit {
        call_ns,
        at_once_ns,
        get_ns,
        get_at_once_ns: both_ns.map_or(get_ns, |ns| ns.max(get_ns)),
        hot_gbytes_per_s,
        gbytes_per_s,
        rates,
        fresh,
    })
}

/// Rates without calls: the first is what 8 B took, where they were measured so, and others come right after
/// it.
fn rates(times: &[(u64, f64)], call_ns: f64) -> Vec<(u64, f64)> {
    let short_ns = times.iter().find(|time| time.0 == SHORT_BYTES).map_or(call_ns, |time| time.1);
    let rate = |&(bytes, ns): &(u64, f64)| {
        let more_calls = (bytes.div_ceil(KERNEL_COPY_BYTES_MAX) - 1) as f64;
        let copied_ns = ns - short_ns - more_calls * call_ns;
        (2 * bytes, bytes as f64 / copied_ns.max(bytes as f64 / RATE_MAX_GBYTES_PER_S))
    };
    times.iter().filter(|time| time.0 > SHORT_BYTES).map(rate).collect()
}

/// Time of so many bytes by who goes through so many, ns. Between two rates it is interpolated, as in the
/// model.
fn copied_ns(rates: &[(u64, f64)], bytes: u64, within_bytes: u64) -> f64 {
    let ns = |rate: f64| bytes as f64 / rate;
    let above = rates.partition_point(|rate| rate.0 < within_bytes);
    match (above.checked_sub(1).and_then(|below| rates.get(below)), rates.get(above)) {
        (Some(low), Some(high)) => {
            let part = (within_bytes - low.0) as f64 / (high.0 - low.0) as f64;
            ns(low.1) + (ns(high.1) - ns(low.1)) * part
        }
        (Some(&(_, rate)), None) | (None, Some(&(_, rate))) => ns(rate),
        (None, None) => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{costs, facts, simulated};
    use super::super::{machine_text, one_host};
    use super::*;
    use ayatori_fabric::description::Machine;

    fn sample(name: &str, bytes: u64, ns: f64) -> Sample {
        Sample { name: name.into(), ranks: 2, bytes, value: ns / 1e3 }
    }

    fn kib(n: u64, rate: f64) -> (u64, f64) {
        (n << 10, rate)
    }

    fn assert_rates(found: &[(u64, f64)], expected: &[(u64, f64)]) {
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (&(within, found), &(bytes, made_up)) in found.iter().zip(expected) {
            assert!(
                within == bytes && (found / made_up - 1.0).abs() < 1e-6,
                "{within}: {found} for {made_up}"
            );
        }
    }

    #[test]
    fn rates_by_working_set_are_found_without_calls() {
        // A call takes 1 µs, and one of them copies 4 MiB at most.
        let once = |name, bytes, rate| sample(name, bytes, 1_000.0 + bytes as f64 / rate);
        let samples = [
            sample(KERNEL_COPY, 8, 1_000.0),
            once(KERNEL_COPY, 64 << 10, 12.0),
            once(KERNEL_COPY, 256 << 10, 12.0),
            once(KERNEL_COPY, 1 << 20, 12.0),
            once(KERNEL_COPY_IN_TURN, 1 << 20, 10.0),
            sample(KERNEL_COPY_IN_TURN, 16 << 20, 4_000.0 + f64::from(16 << 20) / 8.0),
            once(KERNEL_COPY_UNCACHED, 64 << 10, 5.0),
            once(KERNEL_COPY_UNCACHED, 1 << 20, 5.0),
        ];
        let found = fit(&samples, 300.0, 50.0).unwrap();
        let expected =
            [kib(128, 12.0), kib(512, 12.0), kib(2048, 10.0), kib(32_768, 8.0), (UNCACHED_BYTES, 5.0)];
        assert_rates(&found.rates, &expected);
    }

    #[test]
    fn what_a_call_after_a_wait_takes_is_not_taken_for_copying() {
        // A call takes 0.4 µs, after a wait 0.7.
        let once = |bytes: u64, rate: f64| (bytes, 700.0 + bytes as f64 / rate);
        let times = [once(8, 1e9), once(8 << 10, 60.0), once(64 << 10, 20.0)];
        let long = (16 << 20, 700.0 + 3.0 * 400.0 + f64::from(16 << 20) / 10.0);
        let found = rates(&[times.as_slice(), &[long]].concat(), 400.0);
        assert_rates(&found, &[kib(16, 60.0), kib(128, 20.0), kib(32_768, 10.0)]);
        assert_rates(&rates(&times[1..2], 700.0), &[kib(16, 60.0)]);
    }

    #[test]
    fn calls_after_a_wait_and_at_once_are_found() {
        let copy = |name, ns| {
            [sample(name, 8, ns), sample(name, 64 << 10, ns + 2e3), sample(name, 1 << 20, ns + 3e4)]
        };
        let samples = [
            copy(KERNEL_COPY, 400.0),
            copy(KERNEL_COPY_UNCACHED, 400.0),
            copy(KERNEL_COPY_IN_TURN, 700.0),
            copy(KERNEL_COPY_AT_ONCE, 900.0),
        ];
        let calls = |count: usize| {
            let found = fit(&samples[..count].concat(), 300.0, 50.0).unwrap();
            (found.call_ns, found.at_once_ns)
        };
        assert_eq!([2, 3, 4].map(calls), [(400.0, 400.0), (700.0, 700.0), (700.0, 900.0)]);
    }

    #[test]
    fn copies_between_two_rates_are_interpolated() {
        let rates = [(100, 40.0), (200, 20.0)];
        let times = [50, 100, 150, 200, 300].map(|within| copied_ns(&rates, 80, within));
        assert_eq!(times, [2.0, 2.0, 3.0, 4.0, 4.0]);
        assert_eq!(copied_ns(&[], 80, 100), 0.0);
    }

    /// Half a round trip of messages that the simulated library may not send another way, or both ways at
    /// once: as `bench/rendezvous.c`, with a receive under way beside them.
    fn rendezvous_us(bytes: u64, is_both: bool) -> f64 {
        const TURNS: u32 = 64;
        let machine = Machine::parse("made-up.toml", &machine_text(&facts(), &costs(), None)).unwrap();
        let mut cluster = one_host(&machine, 2).unwrap();
        let report = cluster.run(|mpi| async move {
            let other = 1 - mpi.rank();
            let unmatched = mpi.irecv(other, 8, 1)?;
            if is_both {
                mpi.goes_through(2 * bytes);
                for _ in 0..2 * TURNS {
                    mpi.sendrecv(other, other, 1, bytes).await?;
                }
            } else {
                ayatori_sim::workloads::ping_pong(mpi.clone(), 1, bytes, TURNS).await?;
            }
            mpi.send(other, 8, 1).await?;
            mpi.wait(unmatched).await.map(drop)
        });
        report.unwrap().elapsed_ps as f64 / f64::from(2 * TURNS) / 1e6
    }

    #[test]
    fn software_of_messages_that_the_kernel_copies_is_found_again() {
        let long_bytes = 48 << 10;
        let [short_us, long_us] = [SHORT_BYTES, long_bytes].map(|bytes| rendezvous_us(bytes, false));
        let figure = |bytes, value| Sample { name: RENDEZVOUS.into(), ranks: 2, bytes, value };
        let assert_found = |figures: &[Sample]| {
            let samples = [simulated().as_slice(), figures].concat();
            let found = super::super::fit(&samples, Some(costs().core_to_core_ns)).unwrap();
            let [found, made_up] = [found, costs()].map(|fit| fit.kernel_copy.unwrap().get_ns);
            assert!((found / made_up - 1.0).abs() < 0.1, "{found} for {made_up}");
        };
        assert_found(&[figure(long_bytes, long_us)]);
        // What the receive beside them takes is in the figure of 8 B, too.
        assert_found(&[figure(SHORT_BYTES, short_us + 1.0), figure(long_bytes, long_us + 1.0)]);
    }

    #[test]
    fn software_of_messages_both_ways_is_found_again() {
        let long_bytes = 48 << 10;
        let both = |bytes| sample(RENDEZVOUS_BOTH, bytes, 1e3 * rendezvous_us(bytes, true));
        let KernelCopyFit { at_once_ns, get_ns, get_at_once_ns, .. } = costs().kernel_copy.unwrap();
        let figures = [
            sample(KERNEL_COPY_AT_ONCE, SHORT_BYTES, at_once_ns),
            sample(RENDEZVOUS, long_bytes, 1e3 * rendezvous_us(long_bytes, false)),
            both(SHORT_BYTES),
            both(long_bytes),
        ];
        let fit = |count: usize| {
            let samples = [simulated().as_slice(), &figures[..count]].concat();
            super::super::fit(&samples, Some(costs().core_to_core_ns)).unwrap().kernel_copy.unwrap()
        };
        let near = |found: f64, made_up: f64| (found / made_up - 1.0).abs() < 0.1;
        let found = fit(4);
        assert!(near(found.get_ns, get_ns) && near(found.get_at_once_ns, get_at_once_ns), "{found:?}");
        let alone = fit(2);
        assert_eq!(alone.get_at_once_ns, alone.get_ns, "taken as one way");
    }
}
