//! Lists of hosts as files and variables of other batch systems have them.

/// A name a line, once for each slot (`PBS_NODEFILE`, `LSB_DJOB_HOSTFILE`).
pub(super) fn names(text: &str) -> Vec<(String, usize)> {
    text.split_whitespace().map(|name| (name.to_owned(), 1)).collect()
}

/// `NAME SLOTS NAME SLOTS …` (`LSB_MCPU_HOSTS`). `None`: it is no such list.
pub(super) fn pairs(text: &str) -> Option<Vec<(String, usize)>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let pair = |pair: &[&str]| match pair {
        [name, slots] => Some(((*name).to_owned(), slots.parse().ok().filter(|&slots| slots > 0)?)),
        _ => None,
    };
    words.chunks(2).map(pair).collect()
}

/// `NAME SLOTS QUEUE PROCESSORS` a line (`PE_HOSTFILE`); the last two may be missing. `None`: a line is none
/// of these.
pub(super) fn pe_hostfile(text: &str) -> Option<Vec<(String, usize)>> {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        Some((name, words.next()?.parse().ok().filter(|&slots| slots > 0)?))
    };
    text.lines().filter(|text| !text.trim().is_empty()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(list: Option<Vec<(String, usize)>>) -> String {
        let text = |list: Vec<(String, usize)>| {
            list.iter().map(|(name, slots)| format!("{name}:{slots}")).collect::<Vec<_>>().join(" ")
        };
        list.map_or("none".to_owned(), text)
    }

    #[test]
    fn each_form_is_read() {
        assert_eq!(read(Some(names("n1\nn1\nn2\n"))), "n1:1 n1:1 n2:1");
        assert_eq!(read(pairs("hostA 2 hostB 4 ")), "hostA:2 hostB:4");
        assert_eq!(read(pairs("hostA 2 hostB")), "none");
        assert_eq!(read(pairs("hostA 0")), "none");
        let file = "node1.local 8 all.q@node1.local UNDEFINED\nnode2.local 4 all.q@node2.local 0,0:0,1\n\n";
        assert_eq!(read(pe_hostfile(file)), "node1.local:8 node2.local:4");
        assert_eq!(read(pe_hostfile("node1\n")), "none");
    }

    proptest! {
        #[test]
        fn no_text_makes_them_panic(text in "[a-b0-9 \n.-]{0,60}") {
            let _ = (names(&text), pairs(&text), pe_hostfile(&text));
        }
    }
}
