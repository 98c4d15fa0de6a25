//! Products of matrix fragments, and loads and stores of 8 by 8 matrices.
//!
//! A lane holds elements of a matrix as the PTX specification draws them. With group = lane / 4, part = lane % 4, and e
//! elements in a register: register r of A holds row group + 8 (r mod 2) and columns 4 e (r / 2) + e part onwards; register r
//! of B holds column group and rows 4 e r + e part onwards. C holds two elements per row, at columns 2 part and 2 part + 1,
//! of row group, then of row group + 8. This covers all supported shapes, because larger k only adds registers.

use crate::error::Fault;
use crate::exec::state::{Block, Warp};
use crate::float::{arithmetic, Format, Operation, Rounding};
use crate::program::{Element, Instruction, Lanes, Op, Product, WARP};
use crate::shadow::Kind;
use crate::types::{mask, sign_extend, Space};

/// A matrix in rows, as floats or integers.
#[derive(Clone)]
struct Matrix {
    columns: usize,
    bits: Vec<u64>,
}

impl Matrix {
    fn new(rows: usize, columns: usize) -> Self {
        Self { columns, bits: vec![0; rows * columns] }
    }

    fn at(&mut self, row: usize, column: usize) -> &mut u64 {
        &mut self.bits[row * self.columns + column]
    }
}

/// The operand of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    A,
    B,
    C,
}

/// Row and column of an element of a fragment.
fn position(
    side: Side,
    element: Element,
    lane: usize,
    register: usize,
    index: usize,
) -> (usize, usize) {
    let (group, part) = (lane / 4, lane % 4);
    let per_register = (32 / element.bits() as usize).max(1);
    let along = 4 * per_register;
    match side {
        Side::A => {
            (group + 8 * (register % 2), along * (register / 2) + per_register * part + index)
        }
        Side::B => (along * register + per_register * part + index, group),
        Side::C => {
            let at = register * per_register + index;
            (group + 8 * (at / 2), 2 * part + at % 2)
        }
    }
}

/// Calls `f` with lane, register, bit offset, row and column of each element of a fragment.
fn each(
    side: Side,
    element: Element,
    registers: usize,
    mut f: impl FnMut(usize, usize, u32, usize, usize),
) {
    let per_register = (32 / element.bits() as usize).max(1);
    for lane in 0..WARP {
        for register in 0..registers {
            for index in 0..per_register {
                let (row, column) = position(side, element, lane, register, index);
                f(lane, register, index as u32 * element.bits(), row, column);
            }
        }
    }
}

fn gather(
    side: Side,
    element: Element,
    registers: &[Lanes],
    rows: usize,
    columns: usize,
) -> Matrix {
    let mut matrix = Matrix::new(rows, columns);
    each(side, element, registers.len(), |lane, register, shift, row, column| {
        *matrix.at(row, column) = registers[register][lane] >> shift & mask(element.bits());
    });
    matrix
}

fn integer(element: Element, bits: u64) -> i64 {
    match element {
        Element::Signed(width) => sign_extend(bits, width),
        _ => bits as i64,
    }
}

/// The product of two fragments plus the third, as bits of the result type.
fn multiply(product: &Product, a: &Matrix, b: &Matrix, c: &Matrix) -> Matrix {
    match (product.c, product.d) {
        (Element::Float(Format::F64), _) => products(product, &a.bits, &b.bits, |at, pairs| {
            pairs.fold(c.bits[at], |sum, (x, y)| {
                arithmetic(Operation::Fma, Format::F64, Rounding::Nearest, [x, y, sum])
            })
        }),
        (Element::Float(from), Element::Float(to)) => {
            let decode = |element: Element, matrix: &Matrix| -> Vec<f64> {
                let Element::Float(format) = element else { return vec![0.0; matrix.bits.len()] };
                matrix.bits.iter().map(|bits| format.decode(*bits)).collect()
            };
            // Products are exact in f64, and the sum is rounded once.
            products(product, &decode(product.a, a), &decode(product.b, b), |at, pairs| {
                let sum = pairs.fold(from.decode(c.bits[at]), |sum, (x, y)| sum + x * y);
                to.encode(sum, Rounding::Nearest)
            })
        }
        _ => {
            let decode = |element: Element, matrix: &Matrix| -> Vec<i64> {
                matrix.bits.iter().map(|bits| integer(element, *bits)).collect()
            };
            products(product, &decode(product.a, a), &decode(product.b, b), |at, pairs| {
                let sum = pairs.fold(sign_extend(c.bits[at], 32), |sum, (x, y)| sum + x * y);
                let limit = if product.saturates {
                    sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX))
                } else {
                    sum
                };
                limit as u64 & 0xffff_ffff
            })
        }
    }
}

/// The pairs of elements of a row of A and a column of B.
type Pairs<'a, T> = &'a mut dyn Iterator<Item = (T, T)>;

/// Calls `sum` for each element of the result, with its position and pairs.
fn products<T: Copy>(
    product: &Product,
    a: &[T],
    b: &[T],
    sum: impl Fn(usize, Pairs<'_, T>) -> u64,
) -> Matrix {
    let (n, k) = (product.n, product.k);
    let mut result = Matrix::new(product.m, n);
    for (at, target) in result.bits.iter_mut().enumerate() {
        let (row, column) = (&a[at / n * k..], &b[at % n..]);
        *target = sum(at, &mut (0..k).map(|i| (row[i], column[i * n])));
    }
    result
}

impl Block<'_> {
    /// Executes a matrix instruction in all lanes.
    pub fn matrix(&mut self, warp: &mut Warp, instruction: &Instruction) -> Result<(), Fault> {
        match &instruction.op {
            Op::Product(product) => self.product(warp, instruction, product),
            Op::LoadMatrix { count, is_transposed, offset, space } => {
                self.load_matrix(warp, instruction, (*count, *is_transposed, *offset, *space))?;
            }
            Op::StoreMatrix { count, is_transposed, offset, space } => {
                self.store_matrix(warp, instruction, (*count, *is_transposed, *offset, *space))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn product(&self, warp: &mut Warp, instruction: &Instruction, product: &Product) {
        let all: Vec<Lanes> =
            instruction.sources.iter().map(|&source| *self.operand(warp, source)).collect();
        let [count_a, count_b, _] = product.registers;
        let (a, rest) = all.split_at(count_a);
        let (b, c) = rest.split_at(count_b);
        let a = gather(Side::A, product.a, a, product.m, product.k);
        let b = gather(Side::B, product.b, b, product.k, product.n);
        let c = gather(Side::C, product.c, c, product.m, product.n);
        let result = multiply(product, &a, &b, &c);
        let mut registers = vec![[0; WARP]; instruction.destinations.len()];
        each(Side::C, product.d, registers.len(), |lane, register, shift, row, column| {
            registers[register][lane] |= result.bits[row * product.n + column] << shift;
        });
        for (&destination, values) in instruction.destinations.iter().zip(&registers) {
            warp.write(destination, u32::MAX, values);
        }
    }

    /// Lane 8 i + r has the address of row r of matrix i.
    fn load_matrix(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        (count, is_transposed, offset, space): (usize, bool, i64, Space),
    ) -> Result<(), Fault> {
        let addresses = *self.operand(warp, instruction.sources[0]);
        for matrix in 0..count {
            let mut values = [[0_u16; 8]; 8];
            for (row, value) in values.iter_mut().enumerate() {
                let lane = matrix * 8 + row;
                let address = addresses[lane].wrapping_add_signed(offset);
                let bytes = self.read(warp.number, lane, space, address, 16, Kind::Read);
                let bytes = bytes.map_err(|fault| fault.of_lane(lane))?;
                for (column, element) in value.iter_mut().enumerate() {
                    *element = u16::from_le_bytes([bytes[2 * column], bytes[2 * column + 1]]);
                }
            }
            let mut register = [0; WARP];
            for (lane, target) in register.iter_mut().enumerate() {
                let (group, first) = (lane / 4, lane % 4 * 2);
                let element = |index: usize| {
                    u64::from(if is_transposed {
                        values[first + index][group]
                    } else {
                        values[group][first + index]
                    })
                };
                *target = element(0) | element(1) << 16;
            }
            warp.write(instruction.destinations[matrix], u32::MAX, &register);
        }
        Ok(())
    }

    fn store_matrix(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        (count, is_transposed, offset, space): (usize, bool, i64, Space),
    ) -> Result<(), Fault> {
        let addresses = *self.operand(warp, instruction.sources[0]);
        for matrix in 0..count {
            let register = *self.operand(warp, instruction.sources[1 + matrix]);
            let mut rows = [[0_u8; 16]; 8];
            for (lane, value) in register.iter().enumerate() {
                for index in 0..2 {
                    let (group, first) = (lane / 4, lane % 4 * 2 + index);
                    let (row, column) = if is_transposed { (first, group) } else { (group, first) };
                    let element = ((value >> (16 * index)) as u16).to_le_bytes();
                    rows[row][2 * column..2 * column + 2].copy_from_slice(&element);
                }
            }
            for (row, bytes) in rows.iter().enumerate() {
                let lane = matrix * 8 + row;
                let address = addresses[lane].wrapping_add_signed(offset);
                let written = self.write(warp.number, lane, space, address, bytes, Kind::Write);
                written.map_err(|fault| fault.of_lane(lane))?;
            }
        }
        Ok(())
    }
}
