//! Loads and stores.

use super::{Lowerer, Memory, Place, Pointer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Access, Address, Class, Cmp, Inst, Op, Operand, Reg, Space, Ty};
use crate::cuda::ptx::types::Type;
use std::rc::Rc;

impl Memory {
    /// Makes a location that the kernel may write.
    pub(super) fn new(space: Space, base: Operand, offset: i64) -> Memory {
        Memory { space, base, offset, is_read_only: false, binding: None }
    }

    pub(super) fn address(&self) -> Address {
        Address { space: self.space, base: self.base, offset: self.offset }
    }

    fn at(&self, bytes: u64) -> Memory {
        Memory { offset: self.offset + bytes as i64, ..self.clone() }
    }
}

impl Lowerer<'_> {
    /// Loads the value that a pointer refers to. If `is_uniform`, all threads load the same value.
    pub(super) fn load(&mut self, pointer: &Pointer, is_uniform: bool) -> Result<Value> {
        let size = pointer.ty.leaves();
        let outside = || Error::new("a variable is used outside its function");
        let leaves = match &pointer.place {
            Place::Promoted { first } => {
                self.b.env.get(*first..first + size).ok_or_else(outside)?.to_vec()
            }
            Place::Element { first, index, count, stride } => {
                let mut result = self.b.env.get(*first..first + size).ok_or_else(outside)?.to_vec();
                for element in 1..*count {
                    let is_this =
                        self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[*index, Operand::u32(element)]);
                    for (leaf, value) in result.iter_mut().enumerate() {
                        let slot = first + element as usize * stride + leaf;
                        let other = self.b.env.get(slot).copied().ok_or_else(outside)?;
                        *value = self.b.select(is_this, other, *value);
                    }
                }
                result
            }
            Place::Memory(memory) => {
                if let Type::Atomic(ty) = pointer.ty {
                    let dst = self.b.reg(ty.class(), is_uniform);
                    self.b.load(memory.address(), Access::Relaxed, ty.bytes(), vec![dst]);
                    return Ok(Value::Data(Type::Scalar(ty), Rc::from([Operand::Reg(dst)])));
                }
                pointer.ty.leaf_types()?;
                let mut leaves = Vec::with_capacity(size);
                self.load_memory(memory, &pointer.ty, is_uniform, &mut leaves)?;
                leaves
            }
        };
        Ok(Value::Data(pointer.ty.clone(), Rc::from(leaves)))
    }

    /// Loads all leaves of a type. Vectors are loaded as vectors.
    pub(super) fn load_memory(
        &mut self,
        memory: &Memory,
        ty: &Type,
        is_uniform: bool,
        leaves: &mut Vec<Operand>,
    ) -> Result<()> {
        match ty {
            Type::Scalar(Ty::Pred) => {
                let byte = self.b.reg(Class::B32, is_uniform);
                self.b.load(memory.address(), Access::Plain, 1, vec![byte]);
                leaves.push(
                    self.b
                        .op(Op::Compare(Cmp::Ne, Ty::U32), &[Operand::Reg(byte), Operand::u32(0)]),
                );
            }
            Type::Scalar(scalar) | Type::Atomic(scalar) => {
                self.load_numbers(memory, *scalar, 1, is_uniform, leaves)
            }
            Type::Vector(size, scalar) if *scalar != Ty::Pred => {
                for (first, count) in chunks(*size).iter().copied() {
                    let memory = memory.at(u64::from(first * scalar.bytes()));
                    self.load_numbers(&memory, *scalar, count, is_uniform, leaves);
                }
            }
            _ => {
                for index in 0..part_count(ty) {
                    let Some((part, _, bytes)) = ty.part(index) else { break };
                    self.load_memory(&memory.at(bytes), &part, is_uniform, leaves)?;
                }
            }
        }
        Ok(())
    }

    fn load_numbers(
        &mut self,
        memory: &Memory,
        ty: Ty,
        count: u32,
        is_uniform: bool,
        leaves: &mut Vec<Operand>,
    ) {
        let is_uniform = is_uniform || memory.is_read_only && self.b.is_uniform(memory.base);
        let access = if memory.is_read_only { Access::ReadOnly } else { Access::Plain };
        let dst: Vec<Reg> = (0..count).map(|_| self.b.reg(ty.class(), is_uniform)).collect();
        leaves.extend(dst.iter().map(|reg| Operand::Reg(*reg)));
        self.b.load(memory.address(), access, ty.bytes(), dst);
    }

    /// Stores all leaves of a type.
    pub(super) fn store_memory(
        &mut self,
        memory: &Memory,
        ty: &Type,
        leaves: &[Operand],
    ) -> Result<()> {
        match ty {
            Type::Scalar(Ty::Pred) => {
                let byte = self.b.op(Op::Select, &[Operand::u32(1), Operand::u32(0), leaves[0]]);
                self.store_numbers(memory, 1, &[byte]);
            }
            Type::Scalar(scalar) | Type::Atomic(scalar) => {
                self.store_numbers(memory, scalar.bytes(), &leaves[..1])
            }
            Type::Vector(size, scalar) if *scalar != Ty::Pred => {
                for (first, count) in chunks(*size).iter().copied() {
                    let memory = memory.at(u64::from(first * scalar.bytes()));
                    self.store_numbers(
                        &memory,
                        scalar.bytes(),
                        &leaves[first as usize..(first + count) as usize],
                    );
                }
            }
            _ => {
                for index in 0..part_count(ty) {
                    let Some((part, first, bytes)) = ty.part(index) else { break };
                    let Some(leaves) = leaves.get(first..first + part.leaves()) else {
                        return Err(Error::new("a stored value has the wrong type"));
                    };
                    self.store_memory(&memory.at(bytes), &part, leaves)?;
                }
            }
        }
        Ok(())
    }

    fn store_numbers(&mut self, memory: &Memory, bytes: u32, values: &[Operand]) {
        let values = values.to_vec();
        self.b.emit(Inst::Store {
            address: memory.address(),
            access: Access::Plain,
            bytes,
            values,
        });
    }
}

/// Returns the pieces in which a vector is accessed, by their first component and number. A vector of three components is
/// aligned like one of four, but the fourth may belong to another variable.
fn chunks(size: u32) -> &'static [(u32, u32)] {
    match size {
        2 => &[(0, 2)],
        3 => &[(0, 2), (2, 1)],
        _ => &[(0, 4)],
    }
}

fn part_count(ty: &Type) -> u32 {
    match ty {
        Type::Struct(members) => members.members.len() as u32,
        _ => ty.elements().and_then(|(_, count, _)| count).unwrap_or(0),
    }
}
