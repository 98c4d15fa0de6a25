//! Variables of the module, and the built-in values of an entry point.

use super::{Flow, Lowerer, Memory, Place, Pointer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Access, Address, Class, Cmp, Inst, Op, Operand, Space, Special, Ty};
use crate::cuda::ptx::types::Type;
use naga::valid::FunctionInfo;
use naga::{AddressSpace, Binding, BuiltIn, FunctionArgument, TypeInner};
use std::rc::Rc;

/// The most 16-byte stores that zero memory without a loop.
const MAX_ZERO_STORES: u32 = 16;
/// Lanes of a subgroup.
pub const LANES: u32 = 32;

impl<'m> Lowerer<'m> {
    /// Declares the variables that the entry point uses, and zeroes workgroup memory.
    pub(super) fn declare_globals(&mut self, info: &FunctionInfo) -> Flow {
        self.enter_globals();
        for (handle, variable) in self.module.global_variables.iter() {
            if info[handle].is_empty() {
                continue;
            }
            self.span = self.module.global_variables.get_span(handle);
            let ty = Type::new(self.module, variable.ty)?;
            let place = match variable.space {
                AddressSpace::Storage { .. } | AddressSpace::Uniform => {
                    self.declare_buffer(variable)?
                }
                AddressSpace::WorkGroup => {
                    let start = self.shared_bytes.next_multiple_of(16);
                    let end = u64::from(start) + ty.bytes();
                    self.shared_bytes = u32::try_from(end)
                        .map_err(|_| Error::new("workgroup memory is too large"))?;
                    let base = self.b.entry_op(Op::SharedBase, &[], true);
                    Place::Memory(Memory::new(Space::Shared, base, i64::from(start)))
                }
                AddressSpace::Private => {
                    let id = (usize::MAX, handle.index());
                    let init = match variable.init {
                        Some(init) => Some(self.data(init)?.1),
                        None => None,
                    };
                    self.declare_variable(id, &ty, init)?
                }
                AddressSpace::Immediate => {
                    return Err(Error::new("immediates are not supported").into())
                }
                _ => {
                    return Err(Error::new(
                        "only buffers, workgroup and private variables are supported",
                    )
                    .into())
                }
            };
            self.variables.insert(handle, Pointer { ty, place });
        }
        if self.shared_bytes > 0 && self.options.zero_workgroup_memory {
            let index = self.local_index();
            let [x, y, z] = self.workgroup_size;
            let base = self.b.entry_op(Op::SharedBase, &[], true);
            self.zero_memory(Space::Shared, base, self.shared_bytes, index, x * y * z);
            self.b.emit(Inst::Barrier);
        }
        Ok(())
    }

    fn declare_buffer(&mut self, variable: &naga::GlobalVariable) -> Result<Place> {
        let Some(at) = &variable.binding else { return Err(Error::new("a buffer has no binding")) };
        let is_this = |binding: &crate::cuda::ptx::options::Binding| {
            (binding.group, binding.binding) == (at.group, at.binding)
        };
        let Some(index) = self.bindings.iter().position(is_this) else {
            return Err(Error::new("a buffer has no parameter"));
        };
        let generic = self.b.entry_op(Op::Param(2 * index as u32), &[], true);
        let base = self.b.entry_op(Op::GlobalAddress, &[generic], true);
        let is_read_only = self.bindings[index].is_read_only;
        Ok(Place::Memory(Memory {
            is_read_only,
            binding: Some(index as u32),
            ..Memory::new(Space::Global, base, 0)
        }))
    }

    /// Zeroes `bytes`, rounded up to 16, at the base. The thread stores every `step`-th 16 bytes from the index `first`.
    pub(super) fn zero_memory(
        &mut self,
        space: Space,
        base: Operand,
        bytes: u32,
        first: Operand,
        step: u32,
    ) {
        let count = bytes.div_ceil(16);
        let zero = |lowerer: &mut Self, index: Operand, offset: u32| {
            let base = lowerer.scaled_address(space, base, index, 16);
            let address = Address { space, base, offset: i64::from(offset) };
            let values = vec![Operand::u32(0); 4];
            lowerer.b.emit(Inst::Store { address, access: Access::Plain, bytes: 4, values });
        };
        let rounds = count.div_ceil(step.max(1));
        if rounds > MAX_ZERO_STORES {
            let index = self.b.reg(Class::B32, false);
            let (again, end) = (self.b.label(), self.b.label());
            self.b.emit(Inst::Copies(vec![(index, first)]));
            self.b.place(again);
            let is_done = self
                .b
                .op(Op::Compare(Cmp::Ge, Ty::U32), &[Operand::Reg(index), Operand::u32(count)]);
            self.b.emit(Inst::Jump { label: end, condition: Some((is_done, true)) });
            zero(self, Operand::Reg(index), 0);
            let next = self.b.op(Op::Add(Ty::U32), &[Operand::Reg(index), Operand::u32(step)]);
            self.b.emit(Inst::Copies(vec![(index, next)]));
            self.b.emit(Inst::Jump { label: again, condition: None });
            self.b.place(end);
            return;
        }
        for round in 0..rounds {
            let left = count - round * step;
            if left >= step {
                zero(self, first, 16 * round * step);
                continue;
            }
            let end = self.b.label();
            let is_done = self.b.op(Op::Compare(Cmp::Ge, Ty::U32), &[first, Operand::u32(left)]);
            self.b.emit(Inst::Jump { label: end, condition: Some((is_done, true)) });
            zero(self, first, 16 * round * step);
            self.b.place(end);
        }
    }

    /// Returns the value of an argument of the entry point.
    pub(super) fn entry_argument(&mut self, argument: &FunctionArgument) -> Result<Value> {
        let ty = Type::new(self.module, argument.ty)?;
        let mut leaves = Vec::new();
        match &argument.binding {
            Some(binding) => self.built_in(binding, &mut leaves)?,
            None => {
                let TypeInner::Struct { members, .. } = &self.module.types[argument.ty].inner
                else {
                    return Err(Error::new("an argument of the entry point has no @builtin"));
                };
                for member in members {
                    let Some(binding) = &member.binding else {
                        return Err(Error::new("a member of an argument has no @builtin"));
                    };
                    self.built_in(binding, &mut leaves)?;
                }
            }
        }
        Ok(Value::Data(ty, Rc::from(leaves)))
    }

    fn built_in(&mut self, binding: &Binding, leaves: &mut Vec<Operand>) -> Result<()> {
        let Binding::BuiltIn(built_in) = binding else {
            return Err(Error::new("an argument of a compute entry point must be a @builtin"));
        };
        let [x, y, z] = self.workgroup_size;
        let threads = Operand::u32(x.saturating_mul(y).saturating_mul(z));
        match built_in {
            BuiltIn::LocalInvocationId => (0..3).for_each(|axis| leaves.push(self.thread(axis))),
            BuiltIn::WorkGroupId => {
                (0..3).for_each(|axis| leaves.push(self.special(Special::Group(axis))))
            }
            BuiltIn::NumWorkGroups => {
                (0..3).for_each(|axis| leaves.push(self.special(Special::Groups(axis))))
            }
            BuiltIn::WorkGroupSize => leaves.extend([x, y, z].map(Operand::u32)),
            BuiltIn::GlobalInvocationId => {
                for axis in 0..3 {
                    let group = self.special(Special::Group(axis));
                    let size = Operand::u32(self.workgroup_size[usize::from(axis)]);
                    let first = self.b.entry_op(Op::Mul(Ty::U32), &[group, size], true);
                    let thread = self.thread(axis);
                    leaves.push(self.b.entry_op(Op::Add(Ty::U32), &[first, thread], false));
                }
            }
            BuiltIn::LocalInvocationIndex => leaves.push(self.local_index()),
            BuiltIn::SubgroupSize => leaves.push(Operand::u32(LANES)),
            BuiltIn::NumSubgroups => {
                leaves.push(Operand::u32(threads.bits32().unwrap_or(0).div_ceil(LANES)))
            }
            BuiltIn::SubgroupInvocationId => leaves.push(self.lane()),
            BuiltIn::SubgroupId => {
                let index = self.local_index();
                leaves.push(self.b.entry_op(Op::Shr(Ty::U32), &[index, Operand::u32(5)], false));
            }
            _ => return Err(Error::new("this @builtin is not supported in compute shaders")),
        }
        Ok(())
    }

    fn special(&mut self, special: Special) -> Operand {
        let is_uniform = !matches!(special, Special::Thread(_));
        self.b.entry_op(Op::Special(special), &[], is_uniform)
    }

    fn thread(&mut self, axis: u8) -> Operand {
        match self.workgroup_size[usize::from(axis)] {
            1 => Operand::u32(0),
            _ => self.special(Special::Thread(axis)),
        }
    }

    /// Returns the index of the thread in the workgroup.
    pub(super) fn local_index(&mut self) -> Operand {
        let [width, height, _] = self.workgroup_size;
        let [x, y, z] = [0, 1, 2].map(|axis| self.thread(axis));
        let plane = self.b.entry_op(Op::Mul(Ty::U32), &[z, Operand::u32(height)], false);
        let row = self.b.entry_op(Op::Add(Ty::U32), &[plane, y], false);
        let before = self.b.entry_op(Op::Mul(Ty::U32), &[row, Operand::u32(width)], false);
        self.b.entry_op(Op::Add(Ty::U32), &[before, x], false)
    }

    /// Returns the index of the thread in its subgroup.
    pub(super) fn lane(&mut self) -> Operand {
        let index = self.local_index();
        self.b.entry_op(Op::And, &[index, Operand::u32(LANES - 1)], false)
    }
}
