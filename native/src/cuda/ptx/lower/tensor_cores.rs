//! Instructions of tensor cores and asynchronous copies, which WGSL does not have.
//!
//! A shader declares them as functions whose names begin with `ptx_` ([`Options::has_intrinsics`]). A call becomes one
//! instruction. The body is not executed. It only names the workgroup variable and the buffer that the instruction accesses,
//! so that both are declared and bound.
//!
//! | function | instruction |
//! | --- | --- |
//! | `ptx_mma(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32>` | `mma.sync` of 16 x 8 x 16 elements |
//! | `ptx_ldmatrix(at: u32) -> vec4<u32>` | `ldmatrix.x4` at a byte of the workgroup variable |
//! | `ptx_ldmatrix_trans(at: u32) -> vec4<u32>` | `ldmatrix.x4.trans` |
//! | `ptx_cp_async_16_NAME(to: u32, at: u32, bytes: u32)` | `cp.async` of 16, 8 or 4 bytes from element `at` to byte `to` |
//! | `ptx_cp_async_commit_group()` | `cp.async.commit_group` |
//! | `ptx_cp_async_wait_group_1()` | `cp.async.wait_group 1`, or another number |
//!
//! A copy sets the bytes after the first `bytes` to 0. A copy that would read beyond its buffer copies nothing, so that a
//! kernel cannot access memory outside of its buffers.
//!
//! [`Options::has_intrinsics`]: crate::cuda::ptx::options::Options::has_intrinsics

use super::{Lowerer, Memory, Place, Pointer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Class, Cmp, Inst, Op, Operand, Reg, Space, Ty};
use crate::cuda::ptx::types::Type;
use naga::{Expression, Function};
use std::rc::Rc;

/// The beginning of the names of instructions.
const PREFIX: &str = "ptx_";
/// The first architecture with these instructions.
const FIRST_SM: u32 = 80;

impl Lowerer<'_> {
    /// Returns the name of the instruction that the function stands for.
    pub(super) fn intrinsic<'f>(&self, function: &'f Function) -> Option<&'f str> {
        let name = function.name.as_deref()?.strip_prefix(PREFIX)?;
        self.options.has_intrinsics.then_some(name)
    }

    /// Emits an instruction, and returns its result.
    pub(super) fn instruction(
        &mut self,
        name: &str,
        function: &Function,
        arguments: &[Value],
    ) -> Result<Option<Value>> {
        if self.options.sm < FIRST_SM {
            return Err(Error::new(format!(
                "{PREFIX}{name}: the device must be sm_{FIRST_SM} or later"
            )));
        }
        let unknown = || Error::new(format!("{PREFIX}{name}: there is no such instruction"));
        let mut words = Vec::new();
        for argument in arguments {
            match argument {
                Value::Data(_, leaves) => words.extend_from_slice(leaves),
                Value::Pointer(_) => return Err(unknown()),
            }
        }
        match (name, words.as_slice()) {
            ("mma", &[a0, a1, a2, a3, b0, b1, c0, c1, c2, c3]) => {
                let dst = self.four();
                let (a, b, c) = ([a0, a1, a2, a3], [b0, b1], [c0, c1, c2, c3]);
                self.b.emit(Inst::MultiplyMatrices { dst, a, b, c });
                Ok(Some(vector(Ty::F32, dst)))
            }
            ("ldmatrix" | "ldmatrix_trans", &[at]) => {
                let memory = self.memory_of(function, Space::Shared)?.0;
                let base = self.b.op(Op::Add(Ty::U32), &[memory.base, at]);
                let (address, dst) = (Memory { base, ..memory }.address(), self.four());
                let is_transposed = name.ends_with("trans");
                self.b.emit(Inst::LoadMatrices { dst, address, is_transposed });
                Ok(Some(vector(Ty::U32, dst)))
            }
            ("cp_async_commit_group", []) => {
                self.b.emit(Inst::CommitCopies);
                Ok(None)
            }
            (_, []) => {
                let groups = name.strip_prefix("cp_async_wait_group_").ok_or_else(unknown)?;
                self.b.emit(Inst::WaitCopies(groups.parse().map_err(|_| unknown())?));
                Ok(None)
            }
            (_, &[to, from, count]) => {
                let rest = name.strip_prefix("cp_async_").ok_or_else(unknown)?;
                let bytes = rest.split('_').next().and_then(|bytes| bytes.parse().ok());
                let bytes = bytes.filter(|bytes| [4, 8, 16].contains(bytes)).ok_or_else(unknown)?;
                self.copy(function, bytes, [to, from, count])?;
                Ok(None)
            }
            _ => Err(unknown()),
        }
    }

    /// Emits an asynchronous copy.
    fn copy(
        &mut self,
        function: &Function,
        bytes: u32,
        [to, from, count]: [Operand; 3],
    ) -> Result<()> {
        let (shared, _) = self.memory_of(function, Space::Shared)?;
        let (global, stride) = self.memory_of(function, Space::Global)?;
        let base = self.b.op(Op::Add(Ty::U32), &[shared.base, to]);
        let to = Memory { base, ..shared }.address();
        // The copy is in the buffer if it begins at least `bytes` before the end.
        let room = self.array_length(&global, stride)?;
        let elements = Operand::u32(bytes.div_ceil(stride));
        let room = self.b.entry_op(Op::Max(Ty::U32), &[room, elements], true);
        let last = self.b.entry_op(Op::Sub(Ty::U32), &[room, elements], true);
        let is_inside = self.b.op(Op::Compare(Cmp::Le, Ty::U32), &[from, last]);
        let count = self.b.select(is_inside, count, Operand::u32(0));
        let base = self.scaled_address(Space::Global, global.base, from, stride);
        let from = Memory { base, ..global }.address();
        self.b.emit(Inst::CopyAsync { to, from, bytes, count });
        Ok(())
    }

    /// Returns the only memory in a space that a function names, and the bytes of its elements.
    fn memory_of(&self, function: &Function, space: Space) -> Result<(Memory, u32)> {
        let mut found = function.expressions.iter().filter_map(|(_, expression)| {
            let Expression::GlobalVariable(handle) = expression else { return None };
            match self.variables.get(handle) {
                Some(Pointer { ty, place: Place::Memory(memory) }) if memory.space == space => {
                    ty.elements().map(|(.., stride)| (memory.clone(), stride))
                }
                _ => None,
            }
        });
        found.next().ok_or_else(|| Error::new("the body of an instruction must name its memory"))
    }

    /// Makes four registers.
    fn four(&mut self) -> [Reg; 4] {
        [(); 4].map(|()| self.b.reg(Class::B32, false))
    }
}

fn vector(ty: Ty, registers: [Reg; 4]) -> Value {
    Value::Data(Type::Vector(4, ty), Rc::from(registers.map(Operand::Reg)))
}
