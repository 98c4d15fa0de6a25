//! Inlining of function calls for backends that cannot call those functions.

use super::index::ValueId;
use super::program::{Builder, Inst, Program, Store};
use super::Kernel;
use crate::op::Function;
use std::borrow::Cow;

/// A program of a kernel and, if a routine reads an operand by it, the value that is read.
type Part<'a> = (&'a mut Program, Option<&'a mut ValueId>);

impl Program {
    /// Whether the program calls a function that is not `kept` and can be inlined.
    fn calls(&self, kept: &dyn Fn(&Function) -> bool) -> bool {
        let known = |function: &Function| match function {
            Function::Element(element) => element.steps.is_ok(),
            _ => true,
        };
        self.insts.iter().any(|inst| matches!(inst, Inst::Call(f, ..) if !kept(f) && known(f)))
    }

    /// Inlines all functions that are not `kept`. Returns the new program and the new number of each value.
    pub fn inlined(&self, kept: &dyn Fn(&Function) -> bool) -> (Program, Vec<ValueId>) {
        let mut builder = Builder::default();
        let mut moved: Vec<ValueId> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let inst = inst.substitute(None, &moved);
            moved.push(match &inst {
                Inst::Call(function, arguments, dtype) if !kept(function) => {
                    builder.function(function, arguments, *dtype)
                }
                _ => builder.push(inst),
            });
        }
        for store in &self.stores {
            let index = store.index.substitute(None, &moved);
            builder.store(Store { index, value: moved[store.value as usize], ..*store });
        }
        (builder.finish(), moved)
    }
}

impl Kernel {
    /// Inlines the functions that are not `kept` in all programs of the kernel.
    pub fn inlined(&self, kept: &dyn Fn(&Function) -> bool) -> Cow<'_, Kernel> {
        if !self.programs().iter().any(|program| program.calls(kept)) {
            return Cow::Borrowed(self);
        }
        let mut kernel = self.clone();
        for (program, value) in kernel.programs_mut() {
            let mut read = value.as_ref().map(|value| **value);
            // An inlined function may call others.
            while program.calls(kept) {
                let (inlined, moved) = program.inlined(kept);
                *program = inlined;
                read = read.map(|value| moved[value as usize]);
            }
            if let (Some(value), Some(read)) = (value, read) {
                *value = read;
            }
        }
        Cow::Owned(kernel)
    }

    /// Returns every program of the kernel.
    pub fn programs(&self) -> Vec<&Program> {
        match self {
            Kernel::Shader { .. } | Kernel::Order(_) => Vec::new(),
            Kernel::Loop { program, .. } => vec![program],
            Kernel::Matmul(m) => vec![&m.a.program, &m.b.program, &m.epilogue],
            Kernel::Conv2d(c) => vec![&c.x.program, &c.w.program, &c.epilogue],
            Kernel::PackedMatmul(p) => vec![&p.x.program, &p.w.program, &p.epilogue],
            Kernel::Attention(a) => {
                let mut all = vec![&a.epilogue];
                for operand in
                    [&a.q, &a.k, &a.v, &a.scale].into_iter().chain(&a.mask).chain(&a.length)
                {
                    all.push(&operand.program);
                }
                all
            }
        }
    }

    /// Returns every program, with the value that a routine reads if the program is an operand.
    pub fn programs_mut(&mut self) -> Vec<Part<'_>> {
        let (operands, epilogue) = match self {
            Kernel::Shader { .. } | Kernel::Order(_) => return Vec::new(),
            Kernel::Loop { program, .. } => (Vec::new(), program),
            Kernel::Matmul(m) => (vec![&mut m.a, &mut m.b], &mut m.epilogue),
            Kernel::Conv2d(c) => (vec![&mut c.x, &mut c.w], &mut c.epilogue),
            Kernel::PackedMatmul(p) => (vec![&mut p.x, &mut p.w], &mut p.epilogue),
            Kernel::Attention(a) => {
                let mut operands = vec![&mut a.q, &mut a.k, &mut a.v, &mut a.scale];
                operands.extend(a.mask.iter_mut().chain(&mut a.length));
                (operands, &mut a.epilogue)
            }
        };
        let mut all: Vec<Part> = vec![(epilogue, None)];
        for operand in operands {
            all.push((&mut operand.program, Some(&mut operand.value)));
        }
        all
    }
}
