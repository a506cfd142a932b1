//! Layouts against a model that knows no loops: every byte's displacement in a list.

use super::*;
use crate::buffer::Piece;
use alloc::boxed::Box;
use alloc::vec;
use proptest::prelude::*;

/// A type as a program makes it.
#[derive(Clone, Debug)]
enum Spec {
    Basic(Predefined),
    Repeat(usize, isize, Box<Spec>),
    Contiguous(usize, Box<Spec>),
    Indexed(Vec<(usize, isize)>, Box<Spec>),
    Structure(Vec<(usize, isize, Spec)>),
    Resized(isize, isize, Box<Spec>),
}

/// What the model knows of a type: the displacement of each packed byte, and the bounds by their definition.
#[derive(Clone, Debug, Default)]
struct Model {
    bytes: Vec<isize>,
    /// Displacements of lower and upper bounds of the parts.
    ends: Vec<(isize, isize)>,
    lower_markers: Vec<isize>,
    upper_markers: Vec<isize>,
    alignment: isize,
}

impl Model {
    fn lower(&self) -> isize {
        let of_parts = self.ends.iter().map(|(lower, _)| *lower);
        self.lower_markers.iter().copied().min().or(of_parts.min()).unwrap_or(0)
    }

    fn upper(&self) -> isize {
        let of_parts = self.ends.iter().map(|(_, upper)| *upper);
        self.upper_markers.iter().copied().max().or(of_parts.max()).unwrap_or(0)
    }

    fn extent(&self) -> isize {
        self.upper() - self.lower()
    }

    fn add(&mut self, other: &Self, at: isize) {
        if other.bytes.is_empty() && other.lower_markers.is_empty() {
            return;
        }
        self.bytes.extend(other.bytes.iter().map(|byte| byte + at));
        self.ends.push((other.lower() + at, other.upper() + at));
        self.lower_markers.extend(other.lower_markers.iter().map(|marker| marker + at));
        self.upper_markers.extend(other.upper_markers.iter().map(|marker| marker + at));
        self.alignment = self.alignment.max(other.alignment);
    }

    fn of(spec: &Spec) -> Self {
        let mut model = Self::default();
        match spec {
            Spec::Basic(basic) => {
                let size = basic.size_bytes() as isize;
                let (value, index_at) = basic.pair_layout_bytes().unwrap_or((size as usize, 0));
                model.bytes = (0..value as isize).collect();
                model.bytes.extend((0..size - value as isize).map(|byte| byte + index_at as isize));
                model.ends = vec![(0, basic.extent_bytes() as isize)];
                model.alignment = basic.element().alignment_bytes() as isize;
            }
            Spec::Repeat(count, stride, of) => {
                let of = Self::of(of);
                (0..*count as isize).for_each(|i| model.add(&of, i * stride));
            }
            Spec::Contiguous(count, of) => {
                let of = Self::of(of);
                (0..*count as isize).for_each(|i| model.add(&of, i * of.extent()));
            }
            Spec::Indexed(blocks, of) => {
                let of = Self::of(of);
                for (count, at) in blocks {
                    (0..*count as isize).for_each(|i| model.add(&of, at + i * of.extent()));
                }
            }
            Spec::Structure(parts) => {
                for (count, at, of) in parts {
                    let of = Self::of(of);
                    (0..*count as isize).for_each(|i| model.add(&of, at + i * of.extent()));
                }
                if model.upper_markers.is_empty() && model.alignment > 0 {
                    let (extent, upper) = (model.extent(), model.upper());
                    let padding = (model.alignment - extent.rem_euclid(model.alignment)) % model.alignment;
                    model.ends.push((model.lower(), upper + padding));
                }
            }
            Spec::Resized(lower, extent, of) => {
                model = Self::of(of);
                model.lower_markers = vec![*lower];
                model.upper_markers = vec![lower + extent];
            }
        }
        model
    }
}

impl Spec {
    fn layout(&self) -> Layout {
        match self {
            Self::Basic(basic) => Layout::of(*basic),
            Self::Repeat(count, stride, of) => of.layout().repeat(*count, *stride).unwrap(),
            Self::Contiguous(count, of) => of.layout().contiguous(*count).unwrap(),
            Self::Indexed(blocks, of) => of.layout().indexed(blocks.iter().copied()).unwrap(),
            Self::Structure(parts) => {
                let layouts: Vec<_> = parts.iter().map(|(_, _, of)| of.layout()).collect();
                let parts = parts.iter().zip(&layouts).map(|((count, at, _), layout)| (*count, *at, layout));
                Layout::structure(parts).unwrap()
            }
            Self::Resized(lower, extent, of) => of.layout().resized(*lower, *extent).unwrap(),
        }
    }

    fn signature(&self) -> Signature {
        match self {
            Self::Basic(basic) => Signature::of(*basic),
            Self::Repeat(count, _, of) | Self::Contiguous(count, of) => {
                of.signature().repeat(*count).unwrap()
            }
            Self::Indexed(blocks, of) => {
                of.signature().repeat(blocks.iter().map(|(count, _)| *count).sum()).unwrap()
            }
            Self::Structure(parts) => {
                let parts = parts.iter().map(|(count, _, of)| of.signature().repeat(*count).unwrap());
                Signature::sequence(parts).unwrap()
            }
            Self::Resized(_, _, of) => of.signature(),
        }
    }

    /// The basic types one by one.
    fn basics(&self, to: &mut Vec<Predefined>) {
        match self {
            Self::Basic(basic) => to.push(*basic),
            Self::Repeat(count, _, of) | Self::Contiguous(count, of) => {
                (0..*count).for_each(|_| of.basics(to));
            }
            Self::Indexed(blocks, of) => {
                (0..blocks.iter().map(|(count, _)| *count).sum()).for_each(|_| of.basics(to));
            }
            Self::Structure(parts) => {
                for (count, _, of) in parts {
                    (0..*count).for_each(|_| of.basics(to));
                }
            }
            Self::Resized(_, _, of) => of.basics(to),
        }
    }
}

fn any_spec() -> impl Strategy<Value = Spec> {
    use Predefined as P;
    let basics =
        [P::Char, P::Short, P::Int, P::Double, P::LongDouble, P::DoubleInt, P::ShortInt, P::Complex4];
    let basic = proptest::sample::select(basics.to_vec()).prop_map(Spec::Basic);
    basic.prop_recursive(4, 24, 4, |inner| {
        let blocks = proptest::collection::vec((0..4_usize, -80..200_isize), 0..6);
        let parts = proptest::collection::vec((0..4_usize, -80..200_isize, inner.clone()), 0..4);
        prop_oneof![
            (0..12_usize, -40..120_isize, inner.clone()).prop_map(|(count, stride, of)| Spec::Repeat(
                count,
                stride,
                Box::new(of)
            )),
            (0..5_usize, inner.clone()).prop_map(|(count, of)| Spec::Contiguous(count, Box::new(of))),
            (blocks, inner.clone()).prop_map(|(blocks, of)| Spec::Indexed(blocks, Box::new(of))),
            // Equal blocks: the forms that loops express.
            (proptest::collection::vec(-80..200_isize, 2..9), 1..3_usize, inner.clone()).prop_map(
                |(places, count, of)| {
                    Spec::Indexed(places.into_iter().map(|at| (count, at)).collect(), Box::new(of))
                }
            ),
            parts.prop_map(Spec::Structure),
            (-30..30_isize, -60..150_isize, inner).prop_map(|(lower, extent, of)| Spec::Resized(
                lower,
                extent,
                Box::new(of)
            )),
        ]
    })
}

/// Displacements of all bytes of `count` elements.
fn displacements(model: &Model, count: usize) -> Vec<isize> {
    let element = |i| model.bytes.iter().map(move |byte| byte + i as isize * model.extent());
    (0..count).flat_map(element).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn packing_is_as_a_walk_over_every_byte(
        spec in any_spec(), count in 0..4_usize, from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
    ) {
        let (model, layout) = (Model::of(&spec), spec.layout());
        prop_assert_eq!(layout.size(), model.bytes.len());
        prop_assert_eq!((layout.lower_bound(), layout.extent()), (model.lower(), model.extent()));
        let lowest = model.bytes.iter().copied().min().unwrap_or(0);
        let highest = model.bytes.iter().copied().max().map_or(0, |highest| highest + 1);
        prop_assert_eq!((layout.true_lower_bound(), layout.true_extent()), (lowest, highest - lowest));

        let places = displacements(&model, count);
        let span = layout.span(count).unwrap();
        prop_assert_eq!(span.lowest, places.iter().copied().min().unwrap_or(0));
        let memory = Buffer::leaked(span.len);
        let original: Vec<u8> = (0..span.len).map(|i| (i * 7 + i / 251) as u8).collect();
        memory.scatter(0, Piece::Bytes(&original));
        let region = Region::new(layout, count, memory).unwrap();
        prop_assert_eq!(region.len(), places.len());

        // Any range of the packed stream.
        let (a, b) = (from.index(places.len() + 1), to.index(places.len() + 1));
        let (a, b) = (a.min(b), a.max(b));
        let at = |place: isize| (place - span.lowest) as usize;
        let expected: Vec<u8> = places[a..b].iter().map(|place| original[at(*place)]).collect();
        let mut packed = vec![0; b - a];
        region.pack(a, &mut packed[..]);
        prop_assert_eq!(&packed, &expected);
        let pieces: Vec<u8> = region.pieces(a, b - a).flat_map(|piece| piece.to_vec().unwrap()).collect();
        prop_assert_eq!(&pieces, &expected);
        if let Some(all) = region.as_contiguous() {
            let all = all.to_vec().unwrap();
            prop_assert_eq!(&all[a..b], &expected[..]);
        }

        // Back into other memory: the bytes of the range and no others.
        let other = Buffer::leaked(span.len);
        let target = Region::new(spec.layout(), count, other).unwrap();
        let values: Vec<u8> = (0..b - a).map(|i| i as u8 | 1).collect();
        target.unpack(a, &values[..]);
        // A byte that the type names twice has any of its values: MPI-5.0 §5.1.11 forbids receiving into it.
        let mut allowed = vec![Vec::new(); span.len];
        places[a..b].iter().zip(&values).for_each(|(place, value)| allowed[at(*place)].push(*value));
        for (got, allowed) in other.to_vec().unwrap().iter().zip(&allowed) {
            prop_assert!(allowed.contains(got) || (*got == 0 && allowed.is_empty()));
        }
    }

    #[test]
    fn signatures_count_every_basic_element(spec in any_spec()) {
        let signature = spec.signature();
        let mut basics = Vec::new();
        spec.basics(&mut basics);
        let mut walked = Vec::new();
        signature.for_each(&mut |basic, count| -> Result<(), ()> {
            walked.extend(core::iter::repeat_n(basic, count));
            Ok(())
        }).unwrap();
        prop_assert_eq!(&walked, &basics);
        prop_assert_eq!(signature.bytes(), spec.layout().size());

        let mut ends = vec![0];
        for basic in &basics {
            let end = ends.last().unwrap();
            let (size, end) = (basic.size_bytes(), *end);
            basic.pair_layout_bytes().iter().for_each(|(value, _)| ends.push(end + value));
            ends.push(end + size);
        }
        prop_assert_eq!(signature.elements(), ends.len() - 1);
        for (elements, bytes) in ends.iter().enumerate() {
            prop_assert_eq!(signature.bytes_of(elements), *bytes);
            prop_assert_eq!(signature.elements_in(*bytes), Some(elements));
            prop_assert!(ends.contains(&(bytes + 1)) || signature.elements_in(bytes + 1).is_none());
        }
        // The digest is that of the sequence, whatever it was made of; and every basic element counts.
        let digest_of = |basics: &[Predefined]| {
            let parts = basics.iter().map(|basic| Signature::of(*basic));
            Signature::sequence(parts).unwrap().digest(1)
        };
        prop_assert_eq!(signature.digest(3), digest_of(&basics.repeat(3)));
        if let Some(last) = basics.last().filter(|_| digest_of(&basics) != 0) {
            let other = if *last == Predefined::Float { Predefined::Int } else { Predefined::Float };
            let mut others = basics.clone();
            *others.last_mut().unwrap() = other;
            prop_assert_ne!(digest_of(&others), signature.digest(1));
            prop_assert_ne!(digest_of(&basics[1..]), signature.digest(1));
        }

        let single = basics.first().copied().filter(|first| basics.iter().all(|basic| basic == first));
        prop_assert!(signature.single() == single || signature.single().is_none());
    }
}

#[test]
fn what_a_loop_says_takes_no_list() {
    let double = Layout::of(Predefined::Double);
    // A column block of a matrix: rows in a row are one block.
    let vector = double.contiguous(3).unwrap().repeat(1_000_000_000, 80).unwrap();
    assert!(
        matches!(&vector.0.root, (0, Node::Repeat { count: 1_000_000_000, of, .. }) if **of == Node::Bytes(24))
    );
    // Blocks at equal distances, adjacent blocks, and whole rows of a subarray become loops and rows again.
    let even = double.indexed((0..100).map(|i| (1, 16 * i))).unwrap();
    assert!(matches!(&even.0.root.1, Node::Repeat { count: 100, stride: 16, .. }));
    let row = double.indexed((0..100).map(|i| (1, 8 * i))).unwrap();
    assert_eq!(row.0.root, (0, Node::Bytes(800)));
    assert!(row.is_contiguous());
    let plane = double.repeat(10, 16).unwrap().repeat(10, 160).unwrap();
    assert!(matches!(&plane.0.root.1, Node::Repeat { count: 100, .. }));
}

#[test]
fn the_stack_bounds_no_nesting_of_types() {
    let mut layout = Layout::of(Predefined::Int);
    for _ in 0..10_000 {
        layout = Layout::structure([(1, 8, &layout)]).unwrap();
        layout = layout.indexed([(1, 0), (0, 4)]).unwrap().resized(0, layout.extent()).unwrap();
    }
    assert_eq!((layout.size(), layout.true_lower_bound()), (4, 80_000));
    let mut layout = Layout::of(Predefined::Char);
    while let Ok(twice) = layout.repeat(2, 2 * layout.extent()) {
        layout = twice;
    }
    let span = layout.span(1).unwrap();
    let region = Region::new(layout, 1, Buffer::virtual_of(span.len)).unwrap();
    region.pack(region.len() / 2 - 7, &mut [0; 20][..]);
    assert_eq!(region.pieces(region.len() / 2 - 3, 6).count(), 6);
}

#[test]
fn digests_tell_sequences_of_types_apart() {
    let of = |basics: &[Predefined]| {
        Signature::sequence(basics.iter().map(|basic| Signature::of(*basic))).unwrap()
    };
    let (int, float) = (Predefined::Int, Predefined::Float);
    let sequences: [&[Predefined]; 7] =
        [&[int], &[float], &[int, int], &[int, float], &[float, int], &[int, int, int], &[int, int, float]];
    let digests: alloc::collections::BTreeSet<u64> =
        sequences.iter().map(|basics| of(basics).digest(1)).collect();
    assert!(digests.len() == sequences.len() && !digests.contains(&0));
    assert_eq!(of(&[int]).digest(2), of(&[int, int]).digest(1));
    assert_eq!(of(&[int, float]).digest(3), of(&[int, float].repeat(3)).digest(1));
    // A pair is its value and its index.
    assert_eq!(of(&[Predefined::TwoInt]).digest(2), of(&[int]).digest(4));
    assert_eq!(of(&[Predefined::FloatInt]).digest(1), of(&[float, int]).digest(1));
    for pair in Predefined::ALL.iter().filter(|basic| basic.pair_layout_bytes().is_some()) {
        let (value, index) = pair.pair_types().unwrap();
        assert_eq!(pair.size_bytes(), value.size_bytes() + index.size_bytes(), "{pair:?}");
    }
    // Any types fit packed data, and nothing.
    let packed = of(&[Predefined::Packed]);
    assert_eq!([packed.digest(5), of(&[]).digest(1), of(&[int]).digest(0)], [0; 3]);
}

#[test]
fn only_packed_data_fits_any_type() {
    let digests: alloc::collections::BTreeSet<u64> =
        Predefined::ALL.iter().map(|datatype| Signature::of(*datatype).digest(1)).collect();
    assert_eq!(digests.len(), Predefined::ALL.len());
    let of_none = Predefined::ALL.iter().filter(|datatype| Signature::of(**datatype).digest(1) == 0);
    assert_eq!(of_none.collect::<Vec<_>>(), [&Predefined::Packed]);
}

#[test]
fn some_elements_of_a_region_lie_where_all_have_them() {
    let memory = Buffer::leaked(4);
    let region = Region::new(Layout::bytes(1), 4, memory).unwrap();
    for (first, count) in [(0, 4), (2, 1), (3, 1), (1, 2)] {
        let some = region.elements(first, count).as_contiguous().unwrap();
        assert_eq!((some.as_ptr(), some.len()), (memory.part(first, count).as_ptr(), count));
    }
    let none = Region::new(Layout::bytes(4), 0, Buffer::EMPTY).unwrap();
    assert!(none.elements(0, 0).is_empty() && region.elements(4, 0).is_empty());
}

#[test]
fn elements_without_bytes_repeated_are_no_bytes_in_a_row() {
    let empty = Layout::bytes(0).resized(0, 16).unwrap().repeat(2, 16).unwrap();
    assert_eq!(empty.contiguous_at(1), Some(0));
    let mut bytes = Vec::new();
    empty.emit(1, &mut bytes).unwrap();
    assert_eq!(Layout::parse(&bytes).map(|layout| layout.size()), Ok(0));
}

#[test]
fn elements_without_bytes_leave_no_trace_in_what_is_packed() {
    let empty = Layout::bytes(0).resized(0, 16).unwrap().repeat(2, 16).unwrap();
    assert_eq!((empty.size(), empty.extent()), (0, 32));
    let all = Layout::structure([(3, 0, &empty), (1, 4, &Layout::bytes(4)), (1, 8, &empty)]).unwrap();
    let memory = Buffer::leaked(all.span(2).unwrap().len);
    let bytes: Vec<u8> = (0..memory.len() as u8).collect();
    memory.scatter(0, Piece::Bytes(&bytes));
    let extent = all.extent() as u8;
    let mut packed = [0; 8];
    Region::new(all, 2, memory).unwrap().pack(0, &mut packed[..]);
    // The memory begins where the first byte is.
    assert_eq!(packed, [0, 1, 2, 3, extent, extent + 1, extent + 2, extent + 3]);
}

#[test]
fn what_exceeds_the_address_space_is_an_error() {
    let half = Layout::bytes(1 << 62);
    assert_eq!(half.contiguous(2), Err(Error::Count));
    assert_eq!(half.repeat(2, 0), Err(Error::Count));
    assert_eq!(Layout::bytes(1).repeat(3, isize::MAX), Err(Error::Count));
    assert_eq!(Layout::bytes(1).indexed([(1, isize::MAX)]), Err(Error::Count));
    assert_eq!(Layout::bytes(1).indexed([(1, isize::MIN), (1, 8)]), Err(Error::Count));
    assert_eq!(Layout::bytes(1).resized(isize::MAX, 1), Err(Error::Count));
    assert_eq!(half.span(2), Err(Error::Count));
    // No end of it is too far, but one from the other.
    let wide = Layout::bytes(1).resized(isize::MIN / 2, isize::MAX - 1).unwrap();
    assert_eq!(wide.repeat(2, 100), Err(Error::Count));
    assert_eq!(Layout::bytes(1).resized(0, isize::MIN).unwrap().span(3), Err(Error::Count));
    // More bytes than addresses, all in one place.
    assert_eq!(Layout::structure([(1, 0, &half), (1, 0, &half)]), Err(Error::Count));
    assert_eq!(Layout::bytes(8).resized(0, 0).unwrap().span(1 << 60), Err(Error::Count));
    // Bounds that were set are as far apart, or what lies within such as are not.
    let byte = Layout::bytes(1);
    let far = [isize::MIN / 2 - 100, isize::MAX / 2 + 100];
    let [a, b] = far.map(|at| byte.resized(at, 1).unwrap());
    assert_eq!(Layout::structure([(1, 0, &a), (1, 0, &b)]), Err(Error::Count));
    let [a, b] = far.map(|at| byte.indexed([(1, at)]).unwrap().resized(0, 1).unwrap());
    assert_eq!(Layout::structure([(1, 0, &a), (1, 0, &b)]), Err(Error::Count));
    // The bytes behind the last one, up to a multiple of the alignment.
    let word = Layout::of(Predefined::Double);
    let (first, last) = ((1, -(1 << 62), &word), (1, (1 << 62) - 2, &byte));
    assert_eq!(Layout::structure([first, last]), Err(Error::Count));
}

#[test]
fn memory_of_another_length_than_the_span_is_refused() {
    let layout = Layout::of(Predefined::DoubleInt);
    assert_eq!(layout.span(3).unwrap(), Span { lowest: 0, len: 44 });
    assert!(Region::new(layout.clone(), 3, Buffer::virtual_of(48)).is_err());
    let region = Region::new(layout, 3, Buffer::virtual_of(44)).unwrap();
    assert_eq!((region.len(), region.as_contiguous().is_none()), (36, true));
}

#[test]
fn bytes_may_not_be_further_apart_than_an_address_tells() {
    let (byte, far) = (Layout::bytes(1), 1_isize << (isize::BITS - 2));
    let two = Layout::structure([(1, -far, &byte), (1, 0, &byte)]).unwrap();
    // Its bounds say nothing of where its bytes are.
    let two = two.resized(0, 1).unwrap();
    assert!(two.repeat(2, far - 2).is_ok());
    assert!(two.repeat(2, far).is_err());
}

#[test]
fn a_type_without_bytes_has_no_true_extent() {
    let layout = Layout::bytes(0).resized(-3, 8).unwrap().repeat(4, 8).unwrap();
    assert_eq!((layout.lower_bound(), layout.extent()), (-3, 32));
    assert_eq!((layout.true_lower_bound(), layout.true_extent()), (0, 0));
}

/// Elements of several blocks, so many and so far apart that they are packed by parts.
#[test]
fn elements_beyond_a_cache_are_packed_in_their_order() {
    let byte = Layout::bytes(1);
    let blocks = byte.indexed([(3, 0), (5, 8)]).unwrap();
    let column = Layout::bytes(2).repeat(3, 5).unwrap();
    let mixed = Layout::structure([(1, 0, &column), (3, 16, &byte)]).unwrap();
    for (layout, bytes) in
        [(blocks, vec![0, 1, 2, 8, 9, 10, 11, 12]), (mixed, vec![0, 1, 5, 6, 10, 11, 16, 17, 18])]
    {
        for (extent, count) in [(20, 5_000), (-20, 5_000), (1_000, 100), (7_000, 40), (-7_000, 40)] {
            let layout = layout.resized(0, extent).unwrap();
            let span = layout.span(count).unwrap();
            let at = |element: usize, byte: usize| {
                (bytes[byte] as isize + element as isize * extent - span.lowest) as usize
            };
            let places: Vec<usize> = (0..count)
                .flat_map(|element| (0..bytes.len()).map(move |byte| (element, byte)))
                .map(|(element, byte)| at(element, byte))
                .collect();
            let original: Vec<u8> = (0..span.len).map(|i| (i * 7 + i / 251) as u8).collect();
            let memory = Buffer::leaked(span.len);
            memory.scatter(0, Piece::Bytes(&original));
            let region = Region::new(layout.clone(), count, memory).unwrap();
            let expected: Vec<u8> = places.iter().map(|place| original[*place]).collect();
            let mut packed = vec![0; region.len()];
            region.pack(0, &mut packed[..]);
            assert!(packed == expected, "extent {extent}");
            let other = Buffer::leaked(span.len);
            Region::new(layout, count, other).unwrap().unpack(0, &packed[..]);
            let mut unpacked = vec![0; span.len];
            places.iter().for_each(|place| unpacked[*place] = original[*place]);
            assert!(other.to_vec().unwrap() == unpacked, "extent {extent}");
        }
    }
}
