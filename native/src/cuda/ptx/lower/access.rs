//! Indices into vectors, matrices, arrays and structures.

use super::{Lowerer, Memory, Place, Pointer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Class, Cmp, Op, Operand, Space, Ty};
use crate::cuda::ptx::options::Bounds;
use crate::cuda::ptx::types::Type;
use std::rc::Rc;

/// The most elements of a promoted array whose element is selected by a dynamic index.
const MAX_SELECTED_ELEMENTS: u32 = 8;
/// The most elements of a value, such as a `let`, whose element is selected by a dynamic index.
const MAX_SELECTED_VALUES: u32 = 16;
/// The most bytes of all tables of constants, which is the limit of PTX.
const MAX_TABLE_BYTES: usize = 65_536;

impl Lowerer<'_> {
    /// Returns the element or member of a value, or a reference to that of a variable.
    pub(super) fn index(&mut self, base: Value, index: Operand) -> Result<Value> {
        match (base, index.bits32()) {
            (Value::Pointer(pointer), Some(index)) => {
                Ok(Value::Pointer(self.part_of_pointer(pointer, index)?))
            }
            (Value::Pointer(pointer), None) => {
                Ok(Value::Pointer(self.element_of_pointer(pointer, index)?))
            }
            (Value::Data(ty, leaves), Some(index)) => {
                let last = ty
                    .elements()
                    .and_then(|(_, count, _)| count)
                    .map_or(u32::MAX, |count| count.saturating_sub(1));
                let part = ty.part(index.min(last));
                let (part, first, _) =
                    part.ok_or_else(|| Error::new("an index is out of bounds"))?;
                let slice = leaves.get(first..first + part.leaves());
                let slice = slice.ok_or_else(|| Error::new("an index is out of bounds"))?;
                Ok(Value::Data(part, Rc::from(slice)))
            }
            (Value::Data(ty, leaves), None) => self.element_of_value(&ty, &leaves, index),
        }
    }

    fn part_of_pointer(&mut self, pointer: Pointer, index: u32) -> Result<Pointer> {
        let elements = pointer.ty.elements();
        if let Some((_, None, _)) = elements
            && index > 0
        {
            // The length is only known at run time.
            return self.element_of_pointer(pointer, Operand::u32(index));
        }
        let last = elements
            .and_then(|(_, count, _)| count)
            .map_or(u32::MAX, |count| count.saturating_sub(1));
        let part = pointer.ty.part(index.min(last));
        let (ty, leaf, bytes) = part.ok_or_else(|| Error::new("an index is out of bounds"))?;
        let place = match pointer.place {
            Place::Promoted { first } => Place::Promoted { first: first + leaf },
            Place::Element { first, index, count, stride } => {
                Place::Element { first: first + leaf, index, count, stride }
            }
            Place::Memory(mut memory) => {
                memory.offset += bytes as i64;
                Place::Memory(memory)
            }
        };
        Ok(Pointer { ty, place })
    }

    fn element_of_pointer(&mut self, pointer: Pointer, index: Operand) -> Result<Pointer> {
        let elements = pointer.ty.elements();
        let (ty, count, stride) = elements
            .ok_or_else(|| Error::new("only arrays, vectors and matrices have an index"))?;
        let place = match pointer.place {
            Place::Promoted { first } => match count {
                Some(count) if count <= MAX_SELECTED_ELEMENTS => {
                    Place::Element { first, index, count, stride: ty.leaves() }
                }
                _ => self.needs_memory(first),
            },
            Place::Element { first, .. } => self.needs_memory(first),
            Place::Memory(memory) => {
                let index = self.clamp_index(index, count, stride, &memory)?;
                let base = self.scaled_address(memory.space, memory.base, index, stride);
                Place::Memory(Memory { base, ..memory })
            }
        };
        Ok(Pointer { ty, place })
    }

    /// Notes that a variable needs memory. The rest of this attempt uses any of its values.
    fn needs_memory(&mut self, first: usize) -> Place {
        if let Some(id) = self.owners.get(first) {
            self.dynamic.insert(*id);
        }
        Place::Promoted { first }
    }

    fn clamp_index(
        &mut self,
        index: Operand,
        count: Option<u32>,
        stride: u32,
        memory: &Memory,
    ) -> Result<Operand> {
        if self.options.bounds == Bounds::Unchecked {
            return Ok(index);
        }
        let last = match count {
            Some(count) => Operand::u32(count.saturating_sub(1)),
            None => {
                let length = self.array_length(memory, stride)?;
                let at_least_one =
                    self.b.entry_op(Op::Max(Ty::U32), &[length, Operand::u32(1)], true);
                self.b.entry_op(Op::Sub(Ty::U32), &[at_least_one, Operand::u32(1)], true)
            }
        };
        Ok(self.b.op(Op::Min(Ty::U32), &[index, last]))
    }

    /// Returns the number of elements of an array that ends with its buffer.
    pub(super) fn array_length(&mut self, memory: &Memory, stride: u32) -> Result<Operand> {
        let Some(binding) = memory.binding else {
            return Err(Error::new("an array without a length is not in a buffer"));
        };
        let bytes = self.b.entry_op(Op::Param(2 * binding + 1), &[], true);
        let before = Operand::Const(Class::B64, memory.offset.wrapping_neg() as u64);
        let room = self.b.entry_op(Op::Add(Ty::U64), &[bytes, before], true);
        let count = if stride.is_power_of_two() {
            self.b.entry_op(Op::ShrU64, &[room, Operand::u32(stride.trailing_zeros())], true)
        } else {
            let stride = Operand::Const(Class::B64, u64::from(stride.max(1)));
            self.b.entry_op(Op::Div(Ty::U64), &[room, stride], true)
        };
        let limit = Operand::Const(Class::B64, u64::from(u32::MAX));
        let count = self.b.entry_op(Op::Min(Ty::U64), &[count, limit], true);
        Ok(self.b.entry_op(Op::Convert(Ty::U64, Ty::U32), &[count], true))
    }

    /// Returns `base + index * stride`. Addresses of workgroup memory have 32 bits.
    pub(super) fn scaled_address(
        &mut self,
        space: Space,
        base: Operand,
        index: Operand,
        stride: u32,
    ) -> Operand {
        let stride = Operand::u32(stride);
        if space == Space::Shared {
            let offset = self.b.op(Op::Mul(Ty::U32), &[index, stride]);
            return self.b.op(Op::Add(Ty::U32), &[base, offset]);
        }
        self.b.op(Op::MulAddWide, &[index, stride, base])
    }

    fn element_of_value(
        &mut self,
        ty: &Type,
        leaves: &Rc<[Operand]>,
        index: Operand,
    ) -> Result<Value> {
        let Some((element, Some(count), stride)) = ty.elements() else {
            return Err(Error::new("only arrays, vectors and matrices have an index"));
        };
        if count > MAX_SELECTED_VALUES {
            return self.element_in_memory(ty, leaves, index, (element, count, stride));
        }
        let size = element.leaves();
        let mut result = leaves[..size].to_vec();
        for at in 1..count {
            let is_this = self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[index, Operand::u32(at)]);
            for (leaf, value) in result.iter_mut().enumerate() {
                *value = self.b.select(is_this, leaves[at as usize * size + leaf], *value);
            }
        }
        Ok(Value::Data(element, Rc::from(result)))
    }

    /// Loads an element of a value that is stored in memory for this purpose. Constants are stored once for all threads.
    fn element_in_memory(
        &mut self,
        ty: &Type,
        leaves: &Rc<[Operand]>,
        index: Operand,
        (element, count, stride): (Type, u32, u32),
    ) -> Result<Value> {
        let words: Option<Vec<u32>> = leaves.iter().map(|leaf| leaf.bits32()).collect();
        let is_words = leaves.iter().all(|leaf| leaf.class() == Class::B32);
        let memory = match words {
            Some(words) if is_words => self.table(words)?,
            _ => {
                let start = self.allocate_local(ty.bytes())?;
                let base = self.b.entry_op(Op::LocalBase, &[], false);
                let memory = Memory::new(Space::Local, base, i64::from(start));
                self.store_memory(&memory, ty, leaves)?;
                memory
            }
        };
        let index = self.clamp_index(index, Some(count), stride, &memory)?;
        // A table has no gaps between its leaves.
        let is_table = memory.space == Space::Constant;
        let stride = if is_table { element.leaves() as u32 * 4 } else { stride };
        let base = self.scaled_address(memory.space, memory.base, index, stride);
        let memory = Memory { base, ..memory };
        if is_table {
            let types = element.leaf_types()?;
            let mut result = Vec::with_capacity(types.len());
            for (at, ty) in types.into_iter().enumerate() {
                let memory = Memory { offset: 4 * at as i64, ..memory.clone() };
                self.load_memory(&memory, &Type::Scalar(ty), false, &mut result)?;
            }
            return Ok(Value::Data(element, Rc::from(result)));
        }
        self.load(&Pointer { ty: element, place: Place::Memory(memory) }, false)
    }

    fn table(&mut self, words: Vec<u32>) -> Result<Memory> {
        let at = match self.tables.iter().position(|table| *table == words) {
            Some(at) => at,
            None => {
                let bytes = 4 * (words.len() + self.tables.iter().map(Vec::len).sum::<usize>());
                if bytes > MAX_TABLE_BYTES {
                    return Err(Error::new(format!(
                        "constant arrays must take at most {MAX_TABLE_BYTES} bytes, got {bytes}"
                    )));
                }
                self.tables.push(words);
                self.tables.len() - 1
            }
        };
        let base = self.b.entry_op(Op::TableBase(at as u32), &[], true);
        Ok(Memory { is_read_only: true, ..Memory::new(Space::Constant, base, 0) })
    }
}
