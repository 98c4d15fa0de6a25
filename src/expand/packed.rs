//! The meaning of packed matrices, as ordinary operations on the words of their rows.

use super::Writer;
use crate::dtype::DType;
use crate::error::Result;
use crate::op::packed::{PackedFormat, Quants, Shared, SUPER};
use crate::op::{Op, Pointwise, Span};

impl Writer<'_> {
    /// Multiplies `x [m, k]` by the transpose of a packed matrix.
    pub fn packed_matmul(&mut self, format: PackedFormat, x: usize, words: usize) -> Result<usize> {
        let columns = self.shape(x)[1];
        let matrix = self.unpack(format, columns, words)?;
        let turned = self.transpose(matrix)?;
        (self.product)(self, x, turned)
    }

    /// Returns the numbers of a packed matrix with this number of columns.
    pub fn unpack(&mut self, format: PackedFormat, columns: usize, words: usize) -> Result<usize> {
        let (layout, planes) = (format.layout(), format.planes(columns));
        let rows = self.shape(words)[0];
        let mut quants = self.fields(words, planes.quants[0], columns, layout.bits[0])?;
        if layout.bits[0] == 4 {
            // Byte j of 32 neighbors holds elements j and j + 16.
            let bytes = self.reshape(quants, &[rows, columns / 32, 16, 2])?;
            let turned = self.transpose(bytes)?;
            quants = self.reshape(turned, &[rows, columns])?;
        }
        if layout.bits[1] > 0 {
            let upper = self.fields(words, planes.quants[1], columns, layout.bits[1])?;
            quants = self.above(quants, upper, layout.bits[0])?;
        }
        let numbers = match layout.quants {
            Quants::Single => return self.bitcast(quants, DType::F32),
            Quants::Half => return self.half(quants),
            Quants::Brain => {
                let bits = self.shift_left(quants, 16)?;
                return self.bitcast(bits, DType::F32);
            }
            Quants::Signed => self.signed(quants)?,
            Quants::From(zero) => self.less(quants, zero)?,
            Quants::Table(table) => self.looked_up(quants, table)?,
        };
        let scale = (planes.scales, layout.scale_bits, planes.super_scales);
        let minimum = (planes.minima, layout.minimum_bits, planes.super_minima);
        let size = (columns, layout.group);
        let scale = self.shared(words, layout.scale, scale, size)?;
        let scaled = self.pointwise(Pointwise::mul, &[numbers, scale])?;
        if layout.minimum == Shared::Nothing {
            return Ok(scaled);
        }
        let minima = self.shared(words, layout.minimum, minimum, size)?;
        match layout.minimum.in_supers() {
            true => self.pointwise(Pointwise::sub, &[scaled, minima]),
            false => self.pointwise(Pointwise::add, &[scaled, minima]),
        }
    }

    /// Returns the value that a group shares, repeated for each element.
    fn shared(
        &mut self,
        words: usize,
        shared: Shared,
        (planes, bits, above): ([usize; 2], [u32; 2], usize),
        (columns, group): (usize, usize),
    ) -> Result<usize> {
        let groups = columns / group;
        let mut fields = self.fields(words, planes[0], groups, bits[0])?;
        if bits[1] > 0 {
            let upper = self.fields(words, planes[1], groups, bits[1])?;
            fields = self.above(fields, upper, bits[0])?;
        }
        let own = match shared {
            Shared::Nothing => fields,
            Shared::Half => self.half(fields)?,
            Shared::Power => self.half_of_power(fields)?,
            Shared::Signed => self.signed(fields)?,
            Shared::From(zero) => self.less(fields, zero)?,
        };
        let own = self.spread(own, group)?;
        if !shared.in_supers() {
            return Ok(own);
        }
        let supers = self.fields(words, above, columns / SUPER, 16)?;
        let supers = self.half(supers)?;
        let supers = self.spread(supers, SUPER)?;
        self.pointwise(Pointwise::mul, &[supers, own])
    }

    /// Repeats each element of the last axis.
    fn spread(&mut self, node: usize, times: usize) -> Result<usize> {
        let (rows, count) = (self.shape(node)[0], self.shape(node)[1]);
        let one = self.reshape(node, &[rows, count, 1])?;
        let to = crate::shape::Shape::new("expand", &[rows, count, times])?;
        let many = self.trace.push(Op::Expand(to), &[one])?;
        self.reshape(many, &[rows, count * times])
    }

    /// Returns the entries of a plane as `u32`. `bits` is the size of an entry.
    fn fields(&mut self, words: usize, start: usize, count: usize, bits: u32) -> Result<usize> {
        let rows = self.shape(words)[0];
        let (each, length) = (32 / bits as usize, (count * bits as usize).div_ceil(32));
        let spans = vec![Span::whole(rows), Span::at(start, length, 1)];
        let plane = self.trace.push(Op::Slice(spans), &[words])?;
        if bits == 32 {
            return Ok(plane);
        }
        let word = self.reshape(plane, &[rows, length, 1])?;
        let shape = crate::shape::Shape::new("expand", &[each])?;
        let place = self.trace.push(Op::Iota { shape, axis: 0 }, &[])?;
        let place = self.cast(place, DType::U32)?;
        let bits_each = self.constant(DType::U32, f64::from(bits))?;
        let shift = self.pointwise(Pointwise::mul, &[place, bits_each])?;
        let shifted = self.pointwise(Pointwise::bitwise_right_shift, &[word, shift])?;
        let mask = self.constant(DType::U32, f64::from((1u32 << bits) - 1))?;
        let fields = self.pointwise(Pointwise::bitwise_and, &[shifted, mask])?;
        let all = self.reshape(fields, &[rows, length * each])?;
        if length * each == count {
            return Ok(all);
        }
        let spans = vec![Span::whole(rows), Span::at(0, count, 1)];
        self.trace.push(Op::Slice(spans), &[all])
    }

    fn bitcast(&mut self, node: usize, to: DType) -> Result<usize> {
        self.trace.push(Op::Bitcast(to), &[node])
    }

    fn shift_left(&mut self, node: usize, bits: u32) -> Result<usize> {
        let bits = self.constant(DType::U32, f64::from(bits))?;
        self.pointwise(Pointwise::bitwise_left_shift, &[node, bits])
    }

    /// Joins the entries of two planes to one number. The upper entry is shifted left.
    fn above(&mut self, low: usize, upper: usize, bits: u32) -> Result<usize> {
        let upper = self.shift_left(upper, bits)?;
        self.pointwise(Pointwise::bitwise_or, &[low, upper])
    }

    /// Converts 8-bit integers in two's complement to floats.
    fn signed(&mut self, fields: usize) -> Result<usize> {
        let high = self.shift_left(fields, 24)?;
        let high = self.cast(high, DType::I32)?;
        let bits = self.constant(DType::I32, 24.0)?;
        let signed = self.pointwise(Pointwise::bitwise_right_shift, &[high, bits])?;
        self.cast(signed, DType::F32)
    }

    fn less(&mut self, fields: usize, zero: u8) -> Result<usize> {
        let numbers = self.cast(fields, DType::F32)?;
        if zero == 0 {
            return Ok(numbers);
        }
        let zero = self.constant(DType::F32, f64::from(zero))?;
        self.pointwise(Pointwise::sub, &[numbers, zero])
    }

    /// Looks up entries in a table of 16. The table is four words, and the upper two bits choose the word.
    fn looked_up(&mut self, fields: usize, table: &[i8; 16]) -> Result<usize> {
        let word = |n: usize| {
            let bytes = [0, 1, 2, 3].map(|i| table[4 * n + i] as u8);
            f64::from(u32::from_le_bytes(bytes))
        };
        let mut found = self.constant(DType::U32, word(3))?;
        for n in (0..3).rev() {
            let past = self.constant(DType::U32, f64::from(4 * n as u32 + 4))?;
            let below = self.pointwise(Pointwise::lt, &[fields, past])?;
            let this = self.constant(DType::U32, word(n))?;
            found = self.pointwise(Pointwise::where_cond, &[below, this, found])?;
        }
        let three = self.constant(DType::U32, 3.0)?;
        let place = self.pointwise(Pointwise::bitwise_and, &[fields, three])?;
        let shift = self.shift_left(place, 3)?;
        let byte = self.pointwise(Pointwise::bitwise_right_shift, &[found, shift])?;
        self.signed(byte)
    }

    /// Converts the bits of finite `f16` numbers. Their exponents are 112 less than those of `f32`. Numbers below the smallest
    /// exponent are multiples of 2^-24.
    fn half(&mut self, bits: usize) -> Result<usize> {
        let low = self.constant(DType::U32, f64::from(0x7fff))?;
        let size = self.pointwise(Pointwise::bitwise_and, &[bits, low])?;
        let sign = self.constant(DType::U32, f64::from(0x8000))?;
        let sign = self.pointwise(Pointwise::bitwise_and, &[bits, sign])?;
        let sign = self.shift_left(sign, 16)?;
        let moved = self.shift_left(size, 13)?;
        let offset = self.constant(DType::U32, f64::from(112u32 << 23))?;
        let normal = self.pointwise(Pointwise::add, &[moved, offset])?;
        let small = self.cast(size, DType::F32)?;
        let step = self.constant(DType::F32, 2f64.powi(-24))?;
        let small = self.pointwise(Pointwise::mul, &[small, step])?;
        let small = self.bitcast(small, DType::U32)?;
        let least = self.constant(DType::U32, f64::from(0x400))?;
        let is_small = self.pointwise(Pointwise::lt, &[size, least])?;
        let size = self.pointwise(Pointwise::where_cond, &[is_small, small, normal])?;
        let bits = self.pointwise(Pointwise::bitwise_or, &[size, sign])?;
        self.bitcast(bits, DType::F32)
    }

    fn half_of_power(&mut self, exponents: usize) -> Result<usize> {
        let one = self.constant(DType::U32, 1.0)?;
        let below = self.pointwise(Pointwise::sub, &[exponents, one])?;
        let normal = self.shift_left(below, 23)?;
        let least = self.constant(DType::U32, f64::from(0x0020_0000))?;
        let small = self.pointwise(Pointwise::bitwise_left_shift, &[least, exponents])?;
        let two = self.constant(DType::U32, 2.0)?;
        let is_small = self.pointwise(Pointwise::lt, &[exponents, two])?;
        let bits = self.pointwise(Pointwise::where_cond, &[is_small, small, normal])?;
        self.bitcast(bits, DType::F32)
    }
}
