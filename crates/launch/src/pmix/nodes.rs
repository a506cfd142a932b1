//! From the hosts' lists of ranks to the host of each rank.

/// The number of the host of each of `count` processes; `None` where some process is on no host, or on two.
/// `ranks` gives those of a host by name.
pub(super) fn of_lists<'a>(
    names: impl Iterator<Item = &'a str>,
    count: u32,
    ranks: impl Fn(&str) -> Option<Vec<u32>>,
) -> Option<Vec<u32>> {
    const NOWHERE: u32 = u32::MAX;
    let mut nodes = vec![NOWHERE; count as usize];
    for (node, name) in names.filter(|name| !name.is_empty()).enumerate() {
        for rank in ranks(name)? {
            let place = nodes.get_mut(rank as usize)?;
            if std::mem::replace(place, node as u32) != NOWHERE {
                return None;
            }
        }
    }
    (!nodes.contains(&NOWHERE)).then_some(nodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(lists: &[(&str, &[u32])], count: u32) -> Option<Vec<u32>> {
        let ranks = |name: &str| lists.iter().find(|list| list.0 == name).map(|list| list.1.to_vec());
        of_lists(lists.iter().map(|list| list.0), count, ranks)
    }

    #[test]
    fn each_process_is_on_the_host_that_lists_it() {
        assert_eq!(nodes(&[("a", &[0, 2]), ("b", &[1, 3])], 4), Some(vec![0, 1, 0, 1]));
        assert_eq!(nodes(&[("a", &[0])], 1), Some(vec![0]));
    }

    #[test]
    fn lists_that_contradict_each_other_or_the_size_are_no_answer() {
        assert_eq!(nodes(&[("a", &[0, 1]), ("b", &[1])], 2), None);
        assert_eq!(nodes(&[("a", &[0])], 2), None);
        assert_eq!(nodes(&[("a", &[0, 1, 2])], 2), None);
        assert_eq!(nodes(&[], 1), None);
    }
}
