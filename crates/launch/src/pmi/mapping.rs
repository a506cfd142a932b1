//! `PMI_process_mapping`: the node of each process, as launchers report it.
//!
//! `(vector,(0,2,4),(2,1,3))`: from node 0 on two nodes with four processes each, then from node 2 on one
//! with three. Where the blocks hold fewer processes than the job has, they are gone through again from the
//! first.

/// Most blocks that are looked at: one each for the processes of a large job.
const BLOCKS_MAX: usize = 1 << 16;

/// The node of each of `count` processes. `None`: the text is no such mapping.
pub fn nodes(text: &str, count: u32) -> Option<Vec<u32>> {
    let blocks = text.trim().strip_prefix("(vector,")?.strip_suffix(')')?;
    let mut parsed: Vec<[u32; 3]> = Vec::new();
    for block in blocks.split("),") {
        let block = block.trim().trim_start_matches('(').trim_end_matches(')');
        let mut numbers = block.split(',').map(|number| number.trim().parse::<u32>().ok());
        let (first, nodes, each) = (numbers.next()??, numbers.next()??, numbers.next()??);
        if numbers.next().is_some() || nodes == 0 || each == 0 || parsed.len() == BLOCKS_MAX {
            return None;
        }
        parsed.push([first, nodes, each]);
    }
    let mut result = Vec::new();
    for &[first, nodes, each] in parsed.iter().cycle() {
        for node in 0..nodes {
            for _ in 0..each {
                if result.len() == count as usize {
                    return Some(result);
                }
                result.push(first.checked_add(node)?);
            }
            if result.len() == count as usize {
                return Some(result);
            }
        }
    }
    None
}

/// The mapping of processes whose nodes are given.
pub fn text(nodes: &[u32]) -> String {
    let mut blocks: Vec<(u32, u32, u32)> = Vec::new();
    for chunk in nodes.chunk_by(|a, b| a == b) {
        let (node, each) = (chunk[0], chunk.len() as u32);
        match blocks.last_mut() {
            Some((first, count, last_each)) if *first + *count == node && *last_each == each => *count += 1,
            _ => blocks.push((node, 1, each)),
        }
    }
    let blocks: Vec<String> =
        blocks.iter().map(|(first, count, each)| format!("({first},{count},{each})")).collect();
    format!("(vector,{})", blocks.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_and_cycles_are_read() {
        assert_eq!(nodes("(vector,(0,1,4))", 4), Some(vec![0; 4]));
        assert_eq!(nodes("(vector,(0,2,2))", 4), Some(vec![0, 0, 1, 1]));
        assert_eq!(nodes("(vector,(0,2,1))", 5), Some(vec![0, 1, 0, 1, 0]));
        assert_eq!(nodes("(vector,(0,2,1),(2,1,3))", 5), Some(vec![0, 1, 2, 2, 2]));
        assert_eq!(nodes("(vector, (0,1,2), (1,1,1))", 3), Some(vec![0, 0, 1]));
    }

    #[test]
    fn nonsense_is_none() {
        for bad in
            ["", "(vector,)", "(vector,(0,0,1))", "(vector,(0,1,0))", "(vector,(1,2))", "(list,(0,1,1))", "x"]
        {
            assert_eq!(nodes(bad, 4), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(list in proptest::collection::vec(0u32..5, 1..40)) {
            prop_assert_eq!(nodes(&text(&list), list.len() as u32), Some(list));
        }

        #[test]
        fn no_text_makes_it_panic(text in "\\(vector,[(),0-9]{0,60}\\)?", count in 0u32..100) {
            let _ = nodes(&text, count);
        }
    }
}
