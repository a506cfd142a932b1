//! Slurm's ways to write lists.

/// Most hosts that a list may name.
const HOSTS_MAX: usize = 1 << 16;
/// Most digits of a number in a name.
const DIGITS_MAX: usize = 18;

/// The names in a node list: `login,n[1-3,7]`, `r[0-1]n[08-11]` (each of the first with each of the second),
/// zeros in front kept as the range's first number has them. `None`: it is no such list, or names too many.
pub(super) fn nodelist(text: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for word in split_outside(text)? {
        let mut expanded = vec![String::new()];
        let mut rest = word;
        while !rest.is_empty() {
            let (plain, set) = match rest.split_once('[') {
                None => (rest, None),
                Some((plain, tail)) => {
                    let (set, tail) = tail.split_once(']')?;
                    rest = tail;
                    (plain, Some(set))
                }
            };
            if !is_name(plain) {
                return None;
            }
            for name in &mut expanded {
                name.push_str(plain);
            }
            let Some(set) = set else { break };
            let numbers = numbers(set)?;
            if expanded.len() * numbers.len() > HOSTS_MAX {
                return None;
            }
            expanded = expanded
                .iter()
                .flat_map(|name| numbers.iter().map(move |number| format!("{name}{number}")))
                .collect();
        }
        // A name that begins so would be an option of a command.
        if word.is_empty() || word.starts_with('-') || names.len() + expanded.len() > HOSTS_MAX {
            return None;
        }
        names.extend(expanded);
    }
    Some(names)
}

/// The words between commas that stand outside of brackets.
fn split_outside(text: &str) -> Option<Vec<&str>> {
    let (mut words, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in text.bytes().enumerate() {
        match (byte, is_inside) {
            (b'[', false) => is_inside = true,
            (b']', true) => is_inside = false,
            (b'[', true) | (b']', false) => return None,
            (b',', false) => {
                words.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(&text[start..]);
    (!is_inside).then_some(words)
}

/// Whether this may be a part of a host's name.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    text.bytes().all(is_part)
}

/// `1-3,07` as texts.
fn numbers(set: &str) -> Option<Vec<String>> {
    let mut numbers = Vec::new();
    for range in set.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let parse = |text: &str| {
            let is_number =
                !text.is_empty() && text.len() <= DIGITS_MAX && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse::<u64>().ok()).flatten()
        };
        let (from, to) = (parse(first)?, parse(last)?);
        if to < from || to - from >= HOSTS_MAX as u64 {
            return None;
        }
        let width = first.len();
        numbers.extend((from..=to).map(|number| format!("{number:0width$}")));
        if numbers.len() > HOSTS_MAX {
            return None;
        }
    }
    Some(numbers)
}

/// Counts by host: `2(x3),1` is 2, 2, 2, 1. `None`: it is no such list.
pub(super) fn counts(text: &str) -> Option<Vec<usize>> {
    let mut counts = Vec::new();
    for word in text.trim().split(',') {
        let (count, times) = match word.split_once("(x") {
            None => (word, 1),
            Some((count, times)) => (count, times.strip_suffix(')')?.parse().ok()?),
        };
        let count: usize = count.parse().ok().filter(|&count| count > 0)?;
        if times == 0 || times > HOSTS_MAX - counts.len() {
            return None;
        }
        counts.extend(std::iter::repeat_n(count, times));
    }
    Some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> String {
        nodelist(text).map_or("none".to_owned(), |names| names.join(" "))
    }

    #[test]
    fn node_lists_are_expanded_in_their_order() {
        assert_eq!(names("n1"), "n1");
        assert_eq!(names("aya[1-2]"), "aya1 aya2");
        assert_eq!(names("login,n[1-3,7],x"), "login n1 n2 n3 n7 x");
        assert_eq!(names("n[08-11]"), "n08 n09 n10 n11");
        assert_eq!(names("n[098-101,7]-ib"), "n098-ib n099-ib n100-ib n101-ib n7-ib");
        assert_eq!(names("r[0-1]n[1-2]"), "r0n1 r0n2 r1n1 r1n2");
        assert_eq!(names("r[0,2]c[00-01]s[3]"), "r0c00s3 r0c01s3 r2c00s3 r2c01s3");
        assert_eq!(names("node-a.example.org"), "node-a.example.org");
    }

    #[test]
    fn what_is_no_node_list_is_refused() {
        for bad in
            ["", ",", "n[", "n]", "n[1-2", "n[2-1]", "n[a]", "n[]", "n[[1]]", "-x", "a b", "n[1-]", "n;x"]
        {
            assert_eq!(nodelist(bad), None, "{bad}");
        }
        assert_eq!(nodelist("n[0-999999999]"), None);
        assert_eq!(nodelist("a[0-999]b[0-999]"), None);
    }

    #[test]
    fn counts_by_host_are_repeated() {
        assert_eq!(counts("2(x3),1"), Some(vec![2, 2, 2, 1]));
        assert_eq!(counts("16"), Some(vec![16]));
        assert_eq!(counts("1,2(x1),3"), Some(vec![1, 2, 3]));
        for bad in ["", "0", "2(x0)", "2(x3", "2x3", "-1", "2(x99999999999)", "a"] {
            assert_eq!(counts(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a_padded_range_gives_each_name_once(first in 0u64..500, more in 0u64..200, width in 1usize..6) {
            let last = first + more;
            let text = format!("n[{first:0width$}-{last}]");
            let names = nodelist(&text).unwrap();
            prop_assert_eq!(names.len() as u64, more + 1);
            for (name, number) in names.iter().zip(first..) {
                prop_assert_eq!(name, &format!("n{number:0width$}"));
            }
        }

        #[test]
        fn no_text_makes_it_panic_or_grow(text in "[a-b0-9,\\[\\]()x-]{0,40}") {
            if let Some(names) = nodelist(&text) {
                prop_assert!(names.len() <= HOSTS_MAX && names.iter().all(|name| !name.is_empty()));
            }
            let _ = counts(&text);
        }
    }
}
