//! VLAN identifiers and sets of them, kept as ranges because a plan for 16,384 ports repeats the same
//! set on each.

use std::fmt;

use serde::ser::{Serialize, SerializeSeq, Serializer};
use serde::{Deserialize, Deserializer};

/// An 802.1Q VLAN identifier, 1 to 4094.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, Deserialize)]
#[serde(try_from = "u16")]
pub struct VlanId(u16);

impl VlanId {
    /// The highest identifier 802.1Q allows; 4095 is reserved.
    pub const MAX: u16 = 4094;

    /// `None` unless `vid` lies in 1 to 4094.
    pub fn new(vid: u16) -> Option<VlanId> {
        (1..=VlanId::MAX).contains(&vid).then_some(VlanId(vid))
    }

    /// The number on the wire.
    pub fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for VlanId {
    type Error = String;

    fn try_from(vid: u16) -> Result<VlanId, String> {
        VlanId::new(vid).ok_or_else(|| format!("{vid} is no VLAN: they go from 1 to {}", VlanId::MAX))
    }
}

impl fmt::Display for VlanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of VLANs. Displays as switches write it: `101-104,110`; serialises as a list of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VlanSet {
    /// Inclusive, ascending, never touching.
    ranges: Vec<(u16, u16)>,
}

impl VlanSet {
    /// The empty set.
    pub fn new() -> VlanSet {
        VlanSet::default()
    }

    /// Adds one VLAN; adding it twice changes nothing.
    pub fn insert(&mut self, vlan: VlanId) {
        let vid = vlan.get();
        let at = self.ranges.partition_point(|&(_, last)| last < vid);
        if self.ranges.get(at).is_some_and(|&(first, _)| first <= vid) {
            return;
        }
        let joins_left = at > 0 && self.ranges[at - 1].1 + 1 == vid;
        let joins_right = self.ranges.get(at).is_some_and(|&(first, _)| first == vid + 1);
        match (joins_left, joins_right) {
            (true, true) => {
                self.ranges[at - 1].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (true, false) => self.ranges[at - 1].1 = vid,
            (false, true) => self.ranges[at].0 = vid,
            (false, false) => self.ranges.insert(at, (vid, vid)),
        }
    }

    /// Whether the VLAN is in the set.
    pub fn contains(&self, vlan: VlanId) -> bool {
        let at = self.ranges.partition_point(|&(_, last)| last < vlan.get());
        self.ranges.get(at).is_some_and(|&(first, _)| first <= vlan.get())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Number of VLANs.
    pub fn len(&self) -> usize {
        self.ranges.iter().map(|&(first, last)| usize::from(last - first) + 1).sum()
    }

    /// All VLANs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = VlanId> + '_ {
        self.ranges.iter().flat_map(|&(first, last)| (first..=last).map(VlanId))
    }

    /// Inclusive ranges, ascending, not touching: what a configuration line lists.
    pub fn ranges(&self) -> impl Iterator<Item = (VlanId, VlanId)> + '_ {
        self.ranges.iter().map(|&(first, last)| (VlanId(first), VlanId(last)))
    }

    /// The VLANs of this set that `other` lacks.
    pub fn difference(&self, other: &VlanSet) -> VlanSet {
        self.iter().filter(|&vlan| !other.contains(vlan)).collect()
    }
}

impl FromIterator<VlanId> for VlanSet {
    fn from_iter<I: IntoIterator<Item = VlanId>>(vlans: I) -> VlanSet {
        let mut set = VlanSet::new();
        vlans.into_iter().for_each(|vlan| set.insert(vlan));
        set
    }
}

impl fmt::Display for VlanSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(first, last)) in self.ranges.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl Serialize for VlanSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for vlan in self.iter() {
            list.serialize_element(&vlan)?;
        }
        list.end()
    }
}

impl<'de> Deserialize<'de> for VlanSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<VlanSet, D::Error> {
        Ok(Vec::<VlanId>::deserialize(deserializer)?.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(vids: &[u16]) -> VlanSet {
        vids.iter().map(|&vid| VlanId::new(vid).unwrap()).collect()
    }

    #[test]
    fn identifiers_keep_to_the_standards_range() {
        assert_eq!(VlanId::new(0), None);
        assert_eq!(VlanId::new(4095), None);
        assert_eq!(VlanId::new(4094).map(VlanId::get), Some(4094));
    }

    #[test]
    fn a_set_prints_ranges_whatever_the_order_of_insertion() {
        for vids in [[101, 102, 103, 110], [110, 103, 101, 102], [103, 110, 102, 101]] {
            assert_eq!(set(&vids).to_string(), "101-103,110");
            assert_eq!(set(&vids).len(), 4);
        }
        assert_eq!(set(&[]).to_string(), "");
    }

    #[test]
    fn a_set_holds_exactly_what_was_put_in() {
        let odd: Vec<u16> = (1..=4094).filter(|vid| vid % 3 != 0).collect();
        let odd_set = set(&odd);
        for vid in 1..=4094 {
            assert_eq!(odd_set.contains(VlanId::new(vid).unwrap()), vid % 3 != 0, "{vid}");
        }
        assert_eq!(odd_set.iter().map(VlanId::get).collect::<Vec<_>>(), odd);
        assert_eq!(set(&[1, 2, 3]).difference(&set(&[2])).to_string(), "1,3");
    }
}
