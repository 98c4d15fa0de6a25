//! Cleaning of a lowered program: removes dead instructions, orders parallel copies, and removes jumps to the next instruction.

use crate::cuda::ptx::ir::{Address, AtomicOp, Inst, Op, Operand, Reg};

/// Cleans the instructions. `registers` is the number of register ids, which grows if copies need a temporary register.
pub fn clean(insts: Vec<Inst>, registers: &mut u32) -> Vec<Inst> {
    let live = live_registers(&insts, *registers);
    let is_live = |reg: &Reg| live.get(reg.id as usize).copied().unwrap_or(false);
    let mut result = Vec::with_capacity(insts.len());
    for inst in insts {
        match inst {
            Inst::Pure { dst, .. } | Inst::Shuffle { dst, .. } | Inst::Vote { dst, .. }
                if !is_live(&dst) => {}
            Inst::Load { ref dst, .. } if !dst.iter().any(is_live) => {}
            Inst::Atomic { address, op, ty, dst, value } => {
                result.push(Inst::Atomic { address, op, ty, dst: dst.filter(is_live), value });
            }
            Inst::Copies(copies) => {
                let copies = copies.into_iter().filter(|(dst, _)| is_live(dst)).collect();
                order_copies(copies, registers, &mut result);
            }
            inst => result.push(inst),
        }
    }
    remove_jumps(result)
}

/// Visits the operands that an instruction reads, apart from `Copies`.
pub fn reads(inst: &Inst, visit: &mut impl FnMut(Operand)) {
    let address = |address: &Address, visit: &mut dyn FnMut(Operand)| visit(address.base);
    match inst {
        Inst::Pure { op, args, .. } => args[..op.arity()].iter().for_each(|arg| visit(*arg)),
        Inst::Load { address: from, .. } => address(from, visit),
        Inst::Store { address: to, values, .. } => {
            address(to, visit);
            values.iter().for_each(|value| visit(*value));
        }
        Inst::Atomic { address: at, op, value, .. } => {
            address(at, visit);
            visit(*value);
            if let AtomicOp::CompareExchange(compare) = op {
                visit(*compare);
            }
        }
        Inst::Shuffle { value, lane, mask, .. } => {
            [value, lane, mask].into_iter().for_each(|arg| visit(*arg))
        }
        Inst::Vote { value, mask, .. } => [value, mask].into_iter().for_each(|arg| visit(*arg)),
        Inst::WarpBarrier { mask } => visit(*mask),
        Inst::MultiplyMatrices { a, b, c, .. } => {
            a.iter().chain(b).chain(c).for_each(|arg| visit(*arg))
        }
        Inst::LoadMatrices { address: from, .. } => address(from, visit),
        Inst::CopyAsync { to, from, count, .. } => {
            address(to, visit);
            address(from, visit);
            visit(*count);
        }
        Inst::Jump { condition: Some((condition, _)), .. } => visit(*condition),
        _ => {}
    }
}

/// Returns which registers the program's effects depend on.
fn live_registers(insts: &[Inst], registers: u32) -> Vec<bool> {
    let mut live = vec![false; registers as usize];
    // The instructions that write each register, as lists linked by index.
    let mut last: Vec<u32> = vec![u32::MAX; registers as usize];
    let mut links: Vec<(u32, u32, u32)> = Vec::new();
    let mut work: Vec<u32> = Vec::new();
    let mark = |operand: Operand, live: &mut Vec<bool>, work: &mut Vec<u32>| {
        if let Operand::Reg(reg) = operand
            && let Some(flag) = live.get_mut(reg.id as usize)
            && !*flag
        {
            *flag = true;
            work.push(reg.id);
        }
    };
    for (at, inst) in insts.iter().enumerate() {
        let mut define = |reg: &Reg, part: usize| {
            if let Some(slot) = last.get_mut(reg.id as usize) {
                links.push((at as u32, part as u32, *slot));
                *slot = links.len() as u32 - 1;
            }
        };
        match inst {
            Inst::Pure { dst, .. } | Inst::Shuffle { dst, .. } | Inst::Vote { dst, .. } => {
                define(dst, 0)
            }
            Inst::Load { dst, .. } => dst.iter().for_each(|dst| define(dst, 0)),
            Inst::Copies(copies) => {
                copies.iter().enumerate().for_each(|(part, (dst, _))| define(dst, part))
            }
            inst => reads(inst, &mut |operand| mark(operand, &mut live, &mut work)),
        }
    }
    while let Some(reg) = work.pop() {
        let mut link = last[reg as usize];
        while let Some((at, part, next)) = links.get(link as usize).copied() {
            match &insts[at as usize] {
                Inst::Copies(copies) => mark(copies[part as usize].1, &mut live, &mut work),
                inst => reads(inst, &mut |operand| mark(operand, &mut live, &mut work)),
            }
            link = next;
        }
    }
    live
}

/// Emits parallel copies as moves in an order that reads each register before it is overwritten.
fn order_copies(mut copies: Vec<(Reg, Operand)>, registers: &mut u32, result: &mut Vec<Inst>) {
    copies.retain(|(dst, value)| Operand::Reg(*dst) != *value);
    let mut readers = std::collections::HashMap::new();
    for (_, value) in &copies {
        if let Operand::Reg(reg) = value {
            *readers.entry(reg.id).or_insert(0u32) += 1;
        }
    }
    let mut push = |dst: Reg, value: Operand| {
        result.push(Inst::Pure { op: Op::Move, dst, args: [value; 3] });
    };
    while !copies.is_empty() {
        let before = copies.len();
        copies.retain(|(dst, value)| {
            let is_free = readers.get(&dst.id).is_none_or(|count| *count == 0);
            if is_free {
                push(*dst, *value);
                if let Operand::Reg(reg) = value
                    && let Some(count) = readers.get_mut(&reg.id)
                {
                    *count -= 1;
                }
            }
            !is_free
        });
        if copies.len() == before {
            // All that is left are cycles. One value is saved, which opens its cycle.
            let saved = copies[0].0;
            let temporary = Reg { id: *registers, class: saved.class };
            *registers += 1;
            push(temporary, Operand::Reg(saved));
            for (_, value) in copies.iter_mut().filter(|(_, value)| *value == Operand::Reg(saved)) {
                *value = Operand::Reg(temporary);
            }
            readers.insert(saved.id, 0);
            readers.insert(temporary.id, u32::MAX / 2);
        }
    }
}

/// Removes jumps to the next instruction, unreachable instructions after jumps, and labels without jumps. A conditional jump
/// over a jump becomes one jump.
fn remove_jumps(insts: Vec<Inst>) -> Vec<Inst> {
    let mut result: Vec<Inst> = Vec::with_capacity(insts.len());
    let mut is_reachable = true;
    for inst in insts {
        if let Inst::Label(label) = inst {
            is_reachable = true;
            loop {
                let count = result.len();
                match result.as_slice() {
                    [.., Inst::Jump { label: to, .. }] if *to == label => {
                        result.truncate(count - 1)
                    }
                    [.., Inst::Jump { label: over, condition: Some((c, expected)) }, Inst::Jump { label: to, condition: None }]
                        if *over == label =>
                    {
                        let jump = Inst::Jump { label: *to, condition: Some((*c, !*expected)) };
                        result.truncate(count - 2);
                        result.push(jump);
                    }
                    _ => break,
                }
            }
        }
        if is_reachable {
            is_reachable = !matches!(inst, Inst::Exit | Inst::Jump { condition: None, .. });
            result.push(inst);
        }
    }
    let used: std::collections::HashSet<u32> = result
        .iter()
        .filter_map(|inst| match inst {
            Inst::Jump { label, .. } => Some(*label),
            _ => None,
        })
        .collect();
    result.retain(|inst| !matches!(inst, Inst::Label(label) if !used.contains(label)));
    result
}
