//! Parts of axes: the spans of slices, pad amounts, and windows. Offsets may be data.

/// An offset along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offset {
    /// A constant, which is part of the structure.
    Static(usize),
    /// This factor times a number that is data. The number is an extra `i32` operand of rank 0, after all others, in the
    /// order of axes.
    Dynamic(usize),
}

/// One axis of a slice: `len` elements from `start`, `step` apart. A span with a negative step has a static start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: Offset,
    pub len: usize,
    pub step: isize,
}

impl Span {
    /// A span whose start is part of the structure.
    pub fn at(start: usize, len: usize, step: isize) -> Span {
        Span { start: Offset::Static(start), len, step }
    }

    /// A span of all `len` elements of an axis.
    pub fn whole(len: usize) -> Span {
        Span::at(0, len, 1)
    }

    /// The last valid start on an axis of `extent` elements. `None` if the span does not fit or has a negative step.
    pub fn latest(&self, extent: usize) -> Option<usize> {
        let step = usize::try_from(self.step).ok()?;
        extent.checked_sub(self.len.saturating_sub(1).checked_mul(step)?.checked_add(1)?)
    }
}

/// The padding of one axis: `more` elements in all, of which `before` are before the first element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PadAmount {
    pub before: Offset,
    pub more: usize,
}

impl PadAmount {
    /// Static padding before and after.
    pub fn of(before: usize, after: usize) -> PadAmount {
        // If the sum overflows, it saturates and is still too large.
        PadAmount { before: Offset::Static(before), more: before.saturating_add(after) }
    }

    /// Static padding of each axis.
    pub fn all(amounts: &[(usize, usize)]) -> Vec<PadAmount> {
        amounts.iter().map(|&(before, after)| PadAmount::of(before, after)).collect()
    }
}

/// Windows over an axis: `size` elements, `dilation` apart, from every `step`-th position on, as far as they fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    pub axis: usize,
    pub size: usize,
    pub step: usize,
    pub dilation: usize,
}

impl Windows {
    /// Returns the number of windows over an axis of this extent, or `None` if no window fits.
    pub fn count(&self, extent: usize) -> Option<usize> {
        let reach = self.dilation.checked_mul(self.size.checked_sub(1)?)?.checked_add(1)?;
        Some(extent.checked_sub(reach)?.checked_div(self.step)? + 1)
    }

    /// Whether an element may be in several windows.
    pub fn overlap(&self) -> bool {
        self.size > 1 && self.step <= self.dilation * (self.size - 1)
    }
}
