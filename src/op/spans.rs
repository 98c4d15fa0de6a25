//! Parts of axes: what slices take, padding adds and windows see. Where they begin may be data.

/// Where along an axis something begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start {
    /// Here, which is part of the structure.
    At(usize),
    /// At so many times a number that is data: one more operand, `i32` of rank 0, behind all others in the order of axes.
    Times(usize),
}

/// One axis of a slice: `len` elements from `start`, `step` apart (negative steps walk backwards, from where the structure
/// says).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    pub start: Start,
    pub len: usize,
    pub step: isize,
}

impl Span {
    /// A span whose start is part of the structure.
    pub fn at(start: usize, len: usize, step: isize) -> Span {
        Span { start: Start::At(start), len, step }
    }

    /// All of an axis of `len` elements.
    pub fn whole(len: usize) -> Span {
        Span::at(0, len, 1)
    }

    /// The last place on an axis of `extent` elements where it can begin; `None` if it does not fit, or walks backwards.
    pub fn latest(&self, extent: usize) -> Option<usize> {
        let step = usize::try_from(self.step).ok()?;
        extent.checked_sub(self.len.saturating_sub(1).checked_mul(step)?.checked_add(1)?)
    }
}

/// What is added to one axis: `more` elements in all, of which so many before it that the axis begins at `before`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Margin {
    pub before: Start,
    pub more: usize,
}

impl Margin {
    /// So many elements before and after, which are part of the structure.
    pub fn of(before: usize, after: usize) -> Margin {
        // What is too large is so after saturating, too.
        Margin { before: Start::At(before), more: before.saturating_add(after) }
    }

    /// The margins of each axis, all of them part of the structure.
    pub fn all(amounts: &[(usize, usize)]) -> Vec<Margin> {
        amounts.iter().map(|&(before, after)| Margin::of(before, after)).collect()
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
    /// How many there are over an axis of this extent; `None` if not even one fits.
    pub fn count(&self, extent: usize) -> Option<usize> {
        let reach = self.dilation.checked_mul(self.size.checked_sub(1)?)?.checked_add(1)?;
        Some(extent.checked_sub(reach)?.checked_div(self.step)? + 1)
    }

    /// Whether an element may be in more than one.
    pub fn overlap(&self) -> bool {
        self.size > 1 && self.step <= self.dilation * (self.size - 1)
    }
}
