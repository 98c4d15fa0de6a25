//! Reads and writes of elements along a walk.

use crate::backend::cpu::lower::walk::Walk;

impl Walk {
    /// Calls `visit` for each plane of the two fastest dimensions, for `len` elements from `start` on.
    #[inline(always)]
    fn planes(&self, start: usize, len: usize, mut visit: impl FnMut(Plane)) {
        let Some((&(extent, stride), slower)) = self.dims.split_last() else { return };
        let (&(runs, step), slowest) = slower.split_last().unwrap_or((&(1, 0), &[]));
        if len == 0 || extent == 0 || runs == 0 {
            return;
        }
        let (mut at, rest) = (start % extent, start / extent);
        let (mut run, mut rest) = (rest % runs, rest / runs);
        let (mut few, mut many) = ([0usize; 8], Vec::new());
        let coords = match few.get_mut(..slowest.len()) {
            Some(coords) => coords,
            None => {
                many.resize(slowest.len(), 0);
                &mut many[..]
            }
        };
        let mut base = self.offset;
        for (coord, &(extent, stride)) in coords.iter_mut().zip(slowest).rev() {
            *coord = rest % extent.max(1);
            rest /= extent.max(1);
            base = base.wrapping_add(*coord as i64 * stride);
        }
        let mut done = 0;
        while done < len {
            let left = len - done;
            let (count, each) = match at == 0 && left >= extent {
                true => ((left / extent).min(runs - run), extent),
                false => (1, (extent - at).min(left)),
            };
            let position = base.wrapping_add(run as i64 * step).wrapping_add(at as i64 * stride);
            visit(Plane { done, position, count, step, len: each, stride });
            done += count * each;
            at = 0;
            run += count;
            if run < runs {
                continue;
            }
            run = 0;
            for (coord, &(extent, stride)) in coords.iter_mut().zip(slowest).rev() {
                *coord += 1;
                base = base.wrapping_add(stride);
                if *coord < extent {
                    break;
                }
                *coord = 0;
                base = base.wrapping_sub(extent as i64 * stride);
            }
        }
    }

    /// Reads elements into `out`, from `start` on, with positions moved by `by`. Positions outside of `data` read as 0.
    pub fn load<T: Copy>(
        &self,
        (start, by): (usize, i64),
        data: &[T],
        out: &mut [u32],
        word: impl Fn(T) -> u32 + Copy,
    ) {
        self.planes(start, out.len(), |plane| {
            let plane = Plane { position: plane.position.wrapping_add(by), ..plane };
            let out = &mut out[plane.done..plane.done + plane.count * plane.len];
            match plane.inside(data.len()) {
                true => plane.load(data, out, word),
                false => plane.each(|i, at| {
                    let value = usize::try_from(at).ok().and_then(|at| data.get(at));
                    out[i] = value.map_or(0, |&x| word(x));
                }),
            }
        });
    }

    /// Writes the positions from `start` on into `out`.
    pub fn positions(&self, start: usize, out: &mut [i64]) {
        self.planes(start, out.len(), |plane| {
            let out = &mut out[plane.done..];
            plane.each(|i, at| out[i] = at);
        });
    }

    /// Writes the positions from `start` on into `out`, as `i32` values.
    pub fn indices(&self, start: usize, out: &mut [u32]) {
        self.planes(start, out.len(), |plane| {
            let out = &mut out[plane.done..plane.done + plane.count * plane.len];
            if plane.step == 0 && plane.count > 1 {
                Plane { count: 1, ..plane }.each(|i, at| out[i] = at as u32);
                again(plane.len, out);
                return;
            }
            plane.each(|i, at| out[i] = at as u32);
        });
    }

    /// Writes `values` to the elements from `start` on. `out` begins at position `base`.
    pub fn store<T: Copy>(
        &self,
        start: usize,
        base: i64,
        values: &[u32],
        out: &mut [T],
        element: impl Fn(u32) -> T + Copy,
    ) {
        self.planes(start, values.len(), |plane| {
            let plane = Plane { position: plane.position.wrapping_sub(base), ..plane };
            let values = &values[plane.done..plane.done + plane.count * plane.len];
            if plane.stride != 1 {
                plane.each(|i, at| {
                    if let Some(out) = usize::try_from(at).ok().and_then(|at| out.get_mut(at)) {
                        *out = element(values[i]);
                    }
                });
                return;
            }
            for (run, values) in values.chunks_exact(plane.len).enumerate() {
                let at = plane.position.wrapping_add(run as i64 * plane.step);
                let place = usize::try_from(at).ok().and_then(|at| out.get_mut(at..at + plane.len));
                let Some(place) = place else { continue };
                for (out, &value) in place.iter_mut().zip(values) {
                    *out = element(value);
                }
            }
        });
    }
}

/// Repeats the first `len` elements until `out` is full. Each copy doubles the filled part.
fn again(len: usize, out: &mut [u32]) {
    let mut ready = len;
    while ready < out.len() {
        let more = ready.min(out.len() - ready);
        out.copy_within(..more, ready);
        ready += more;
    }
}

/// The number of lines of a transposition that are read together.
const LINES: usize = 8;

/// Runs of elements: `count` runs, `step` apart, each of `len` elements, `stride` apart.
#[derive(Clone, Copy, Debug)]
struct Plane {
    /// The number of elements before the plane.
    done: usize,
    position: i64,
    count: usize,
    step: i64,
    len: usize,
    stride: i64,
}

impl Plane {
    /// Whether the whole plane is inside a buffer of `len` elements.
    fn inside(&self, len: usize) -> bool {
        let down = self.step.saturating_mul(self.count as i64 - 1);
        let across = self.stride.saturating_mul(self.len as i64 - 1);
        let low = self.position.saturating_add(down.min(0)).saturating_add(across.min(0));
        let high = self.position.saturating_add(down.max(0)).saturating_add(across.max(0));
        low >= 0 && high < len as i64
    }

    /// Calls `visit` with each element's number and position.
    #[inline(always)]
    fn each(&self, mut visit: impl FnMut(usize, i64)) {
        for run in 0..self.count {
            let position = self.position.wrapping_add(run as i64 * self.step);
            for i in 0..self.len {
                visit(run * self.len + i, position.wrapping_add(i as i64 * self.stride));
            }
        }
    }

    /// Reads a plane that is inside `data`.
    #[inline(always)]
    fn load<T: Copy>(&self, data: &[T], out: &mut [u32], word: impl Fn(T) -> u32 + Copy) {
        match (self.stride, self.len) {
            (0, 2) => self.repeat::<2, T>(data, out, word),
            (0, 4) => self.repeat::<4, T>(data, out, word),
            (0, 8) => self.repeat::<8, T>(data, out, word),
            (0, 16) => self.repeat::<16, T>(data, out, word),
            (0, 32) => self.repeat::<32, T>(data, out, word),
            _ => self.runs(data, out, word),
        }
    }

    /// Reads each element and repeats it `N` times.
    #[inline(always)]
    fn repeat<const N: usize, T: Copy>(
        &self,
        data: &[T],
        out: &mut [u32],
        word: impl Fn(T) -> u32,
    ) {
        let (mut at, step) = (self.position as usize, self.step as usize);
        for out in out.chunks_exact_mut(N) {
            out.copy_from_slice(&[word(data[at]); N]);
            at = at.wrapping_add(step);
        }
    }

    /// Reads other runs: one element, one repeated run, contiguous runs, or runs with a stride.
    #[inline(always)]
    fn runs<T: Copy>(&self, data: &[T], out: &mut [u32], word: impl Fn(T) -> u32 + Copy) {
        let at = |run: usize| (self.position + run as i64 * self.step) as usize;
        match self.stride {
            0 if self.len >= 8 || self.count == 1 => {
                for (run, out) in out.chunks_exact_mut(self.len).enumerate() {
                    out.fill(word(data[at(run)]));
                }
            }
            1 if self.step == 0 && self.count > 1 => {
                // One run is repeated.
                let (first, len) = (&data[at(0)..at(0) + self.len], self.len);
                out[..len].iter_mut().zip(first).for_each(|(out, &x)| *out = word(x));
                again(len, out);
            }
            1 => {
                for (run, out) in out.chunks_exact_mut(self.len).enumerate() {
                    let from = &data[at(run)..at(run) + self.len];
                    out.iter_mut().zip(from).for_each(|(out, &x)| *out = word(x));
                }
            }
            _ if self.step == 1 && self.count >= 4 => self.transposed(data, out, word),
            2.. if self.len >= 4 => {
                for (run, out) in out.chunks_exact_mut(self.len).enumerate() {
                    let from = data[at(run)..].iter().step_by(self.stride as usize);
                    out.iter_mut().zip(from).for_each(|(out, &x)| *out = word(x));
                }
            }
            _ => self.each(|i, at| out[i] = word(data[at as usize])),
        }
    }

    /// Reads a transposition along its contiguous lines. Several lines are read together, so that their cache misses overlap.
    #[inline(always)]
    fn transposed<T: Copy>(&self, data: &[T], out: &mut [u32], word: impl Fn(T) -> u32 + Copy) {
        let line = |i: usize| {
            let from = (self.position + i as i64 * self.stride) as usize;
            &data[from..from + self.count]
        };
        let some = self.len / LINES * LINES;
        for i in (0..some).step_by(LINES) {
            let lines: [&[T]; LINES] = std::array::from_fn(|n| line(i + n));
            for (at, out) in out.chunks_exact_mut(self.len).enumerate() {
                for (out, line) in out[i..i + LINES].iter_mut().zip(lines) {
                    *out = word(line[at]);
                }
            }
        }
        for i in some..self.len {
            for (out, &x) in out[i..].iter_mut().step_by(self.len).zip(line(i)) {
                *out = word(x);
            }
        }
    }
}
