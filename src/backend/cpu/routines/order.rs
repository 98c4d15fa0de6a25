//! Sorting rows, and selecting the first elements of sorted rows.
//!
//! An element becomes an item of 64 bits. The upper half is a key whose unsigned order is the requested order, and the lower
//! half is the element's position. So no two items are equal, and any sort of them is stable. For example, `[2.0, -0.0, NaN]`
//! has the keys `[0xc0000000, 0x80000000, 0xffffffff]`.
//!
//! A row that is sorted completely is cut into a part for each thread. The parts are sorted, and then merged by the standard
//! library's stable sort, which detects sorted runs. If few elements are requested, items are collected until there are a few
//! times as many. Selection then keeps the first ones. The last of those is the limit, and further items are collected only
//! below it. In a random row few items are, so the cost is little more than one read of the row. In the worst case every item
//! is collected, which takes about as long as a selection among all.

use crate::alloc::try_vec;
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::output::too_short;
use crate::backend::cpu::exec::parallel;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::Order;
use bytemuck::cast_slice;
use std::borrow::Cow;

/// A row is sorted completely if at least one in this many of its elements is requested.
const MANY: usize = 4;
/// The elements of a row that are compared with the limit together.
const BLOCK: usize = 32;
/// The fewest items that are collected before a selection.
const COLLECTED: usize = 256;
/// The fewest elements of rows for a task.
const ELEMENTS_PER_TASK: usize = 1 << 14;
/// The elements of a part of a row that a thread selects from.
const PART: usize = 1 << 16;

/// Runs the sort.
pub fn run(order: &Order, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
    let &Order { rows, count, most, .. } = order;
    if rows == 0 || most == 0 {
        return Ok(());
    }
    if most > count {
        let message = format!("cpu: rows of a kernel must have {most} elements, got {count}");
        return Err(Error::state(message));
    }
    let words = inputs.buffers.first().copied().unwrap_or_default();
    let out = outputs.first_mut().and_then(|out| out.get_mut(..rows.saturating_mul(most)));
    let out = out.ok_or_else(too_short)?;
    let row = |n: usize, threads: bool, out: &mut [u32]| {
        let values =
            values(order.dtype, words, n.saturating_mul(count), count).ok_or_else(too_short)?;
        let items = match most >= count.div_ceil(MANY) {
            true => sorted(order, &values, threads)?,
            false => selected(order, &values, threads)?,
        };
        out.iter_mut().zip(items).for_each(|(out, item)| *out = item as u32);
        Ok(())
    };
    if rows < parallel::threads() {
        return out.chunks_mut(most).enumerate().try_for_each(|(n, out)| row(n, true, out));
    }
    let each = (ELEMENTS_PER_TASK / count).max(1);
    let tasks = out.chunks_mut(most * each).enumerate().collect();
    let done = parallel::map(tasks, |(task, out): (usize, &mut [u32])| {
        let mut rows = out.chunks_mut(most).enumerate();
        rows.try_for_each(|(n, out)| row(task * each + n, false, out))
    });
    done.into_iter().collect()
}

/// Returns `count` elements from `first` on, as kernel values.
fn values(dtype: DType, words: &[u32], first: usize, count: usize) -> Option<Cow<'_, [u32]>> {
    let place = first..first.checked_add(count)?;
    Some(match dtype.size() {
        4 => Cow::Borrowed(words.get(place)?),
        _ => {
            let halves = cast_slice::<u32, u16>(words).get(place)?;
            Cow::Owned(halves.iter().map(|&half| dtype.load(u32::from(half))).collect())
        }
    })
}

/// The keys of values. Their unsigned order is the requested order.
#[derive(Clone, Copy)]
struct Keys {
    float: bool,
    /// The mask that is XORed with ascending keys. It has all bits set for a descending order.
    turn: u32,
    /// The sign bit for signed integers, whose order it corrects.
    sign: u32,
}

impl Keys {
    fn of(order: &Order) -> Keys {
        let signed = order.dtype.range().is_some_and(|(low, _)| low < 0.0);
        Keys {
            float: order.dtype.is_float(),
            turn: if order.descending { u32::MAX } else { 0 },
            sign: if signed { 1 << 31 } else { 0 },
        }
    }

    #[inline]
    fn key(self, bits: u32) -> u32 {
        if !self.float {
            return bits ^ self.sign ^ self.turn;
        }
        let magnitude = bits & (u32::MAX >> 1);
        // Both zeros are equal. Among negative numbers, larger magnitudes come first.
        let bits = if magnitude == 0 { 0 } else { bits };
        let key = bits ^ ((bits as i32 >> 31) as u32 | 1 << 31) ^ self.turn;
        if magnitude > f32::INFINITY.to_bits() {
            u32::MAX
        } else {
            key
        }
    }

    #[inline]
    fn item(self, bits: u32, at: usize) -> u64 {
        u64::from(self.key(bits)) << 32 | at as u64
    }
}

/// Returns all items of a row, sorted.
fn sorted(order: &Order, values: &[u32], threads: bool) -> Result<Vec<u64>> {
    let keys = Keys::of(order);
    let mut items: Vec<u64> = try_vec("sort", values.len())?;
    items.extend(values.iter().enumerate().map(|(at, &bits)| keys.item(bits, at)));
    let part = items.len().div_ceil(parallel::threads());
    if !threads || part < ELEMENTS_PER_TASK {
        items.sort_unstable();
        return Ok(items);
    }
    parallel::for_each(items.chunks_mut(part).collect(), <[u64]>::sort_unstable);
    items.sort();
    Ok(items)
}

/// Returns the first items of a row, sorted.
fn selected(order: &Order, values: &[u32], threads: bool) -> Result<Vec<u64>> {
    let (keys, most) = (Keys::of(order), order.most);
    let part = PART.max(MANY * most);
    let mut items = if threads && values.len() > part {
        let parts = values.chunks(part).enumerate().collect();
        let found = parallel::map(parts, |(n, values): (usize, &[u32])| {
            collect(keys, values, n * part, most)
        });
        found.into_iter().collect::<Result<Vec<_>>>()?.concat()
    } else {
        collect(keys, values, 0, most)?
    };
    if items.len() > most {
        items.select_nth_unstable(most - 1);
        items.truncate(most);
    }
    items.sort_unstable();
    Ok(items)
}

/// Returns the first `most` items of values, unsorted, or all if there are fewer. `first` is the position of the first value.
fn collect(keys: Keys, values: &[u32], first: usize, most: usize) -> Result<Vec<u64>> {
    let full = (2 * most).max(COLLECTED);
    let mut items: Vec<u64> = try_vec("sort", full + BLOCK)?;
    let mut limit: Option<u64> = None;
    for (n, block) in values.chunks(BLOCK).enumerate() {
        let below = limit.map_or(u32::MAX, |limit| (limit >> 32) as u32);
        // A later item with an equal key comes after the limit.
        let some = block.iter().fold(false, |some, &bits| some | (keys.key(bits) < below));
        if limit.is_some() && !some {
            continue;
        }
        for (i, &bits) in block.iter().enumerate() {
            if limit.is_none() || keys.key(bits) < below {
                items.push(keys.item(bits, first + n * BLOCK + i));
            }
        }
        if items.len() >= full {
            let last = *items.select_nth_unstable(most - 1).1;
            (limit, _) = (Some(last), items.truncate(most));
        }
    }
    if items.len() > most {
        items.select_nth_unstable(most - 1);
        items.truncate(most);
    }
    Ok(items)
}
