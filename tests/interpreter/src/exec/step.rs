//! Execution of the instructions of a warp.

use crate::error::{Error, ErrorKind, Fault};
use crate::exec::state::{key, lanes, pc_of, Block, Frame, Status, Warp, MAX_DEPTH};
use crate::float::approximate;
use crate::options::Schedule;
use crate::program::{Call, Instruction, Lanes, Op, Place, WARP};
use crate::types::mask;

/// How a warp continues after an instruction.
enum Flow {
    Next,
    Jump(u32),
    /// The program counters of all lanes are set.
    Reschedule,
}

impl Block<'_> {
    /// Adds the place to a fault.
    pub fn locate(&self, fault: Fault, warp: usize, pc: u32) -> Error {
        let instruction = self.instruction(pc);
        let lane = fault.lane.unwrap_or(0);
        Error {
            kind: fault.kind,
            line: instruction.line,
            instruction: self.program.text[instruction.text.0..instruction.text.1].to_string(),
            thread: Some((self.index, self.thread_index(warp * WARP + lane))),
            address: fault.address,
            message: fault.message,
        }
    }

    /// Runs a warp until no lane can run or `quantum` instructions have been executed. Returns whether any were.
    pub fn run_warp(&mut self, number: usize, quantum: usize) -> Result<bool, Error> {
        let mut warp = std::mem::take(&mut self.warps[number]);
        let mut left = quantum;
        let result = loop {
            let runnable = warp.runnable();
            if runnable == 0 || left == 0 {
                break Ok(left < quantum);
            }
            let (pc, group, next) = self.select(&warp, runnable);
            if let Err((fault, pc)) = self.run_group(&mut warp, pc, group, next, &mut left) {
                break Err(self.locate(fault, number, pc));
            }
        };
        self.warps[number] = warp;
        result
    }

    /// The lanes to run: program counter, lanes, and the key at which others wait to join.
    fn select(&mut self, warp: &Warp, runnable: u32) -> (u32, u32, u64) {
        let mut chosen = lanes(runnable).map(|lane| warp.keys[lane]).min().unwrap_or(0);
        let is_random = matches!(self.options.schedule, Schedule::Random(_));
        if is_random {
            let pick = self.next_random() as usize % runnable.count_ones() as usize;
            chosen = lanes(runnable).nth(pick).map_or(chosen, |lane| warp.keys[lane]);
        }
        let same = lanes(runnable).filter(|&lane| warp.keys[lane] == chosen);
        let mut group = same.fold(0_u32, |all, lane| all | 1 << lane);
        if is_random && self.next_random().is_multiple_of(4) {
            let part = group & self.next_random() as u32;
            group = if part == 0 { group } else { part };
        }
        // A random group runs for a while, even if others wait at a barrier.
        let next = if is_random {
            0
        } else {
            lanes(runnable & !group).map(|lane| warp.keys[lane]).min().unwrap_or(u64::MAX)
        };
        (pc_of(chosen), group, next)
    }

    /// Runs lanes together until they diverge, block, or reach lanes that wait to join.
    fn run_group(
        &mut self,
        warp: &mut Warp,
        mut pc: u32,
        group: u32,
        next: u64,
        left: &mut usize,
    ) -> Result<(), (Fault, u32)> {
        let program = self.program;
        let depth = warp.keys[group.trailing_zeros() as usize % WARP] & !0xffff_ffff;
        let is_random = matches!(self.options.schedule, Schedule::Random(_));
        let mut budget = if is_random { 1 + self.next_random() as usize % 32 } else { usize::MAX };
        let first = group.trailing_zeros() as usize % WARP;
        loop {
            let Some(instruction) = program.instructions.get(pc as usize) else {
                return Err((
                    Fault::new(ErrorKind::Operand, "the program counter left the program"),
                    0,
                ));
            };
            let active = match instruction.guard {
                None => group,
                Some(guard) => {
                    self.check_defined(warp, &[guard.register], group)
                        .map_err(|fault| (fault, pc))?;
                    warp.where_true(&warp.registers[guard.register as usize], group, guard.negated)
                }
            };
            let count = &mut self.counts[pc as usize];
            count.0 += u64::from(active != 0);
            count.1 += u64::from(active.count_ones());
            self.executed += u64::from(group.count_ones());
            if self.executed > self.options.instruction_limit {
                let limit = self.options.instruction_limit;
                let fault = Fault::new(
                    ErrorKind::Limit,
                    format!("the launch must end within {limit} thread instructions"),
                );
                return Err((fault.of_lane(first), pc));
            }
            *left = left.saturating_sub(1);
            budget -= 1;
            let flow = if active == 0 {
                Flow::Next
            } else {
                self.step(warp, instruction, pc, active, group).map_err(|fault| (fault, pc))?
            };
            pc = match flow {
                Flow::Next => pc + 1,
                Flow::Jump(target) => target,
                Flow::Reschedule => return Ok(()),
            };
            if depth | u64::from(pc) >= next || *left == 0 || budget == 0 {
                if is_random && budget > 0 && *left > 0 {
                    continue;
                }
                warp.set_pc(group, pc);
                return Ok(());
            }
        }
    }

    fn step(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        pc: u32,
        active: u32,
        group: u32,
    ) -> Result<Flow, Fault> {
        let is_strict =
            self.options.check_uninitialized && !matches!(instruction.op, Op::Move | Op::Select);
        if is_strict {
            self.check_defined(warp, &instruction.sources, active)?;
        }
        match &instruction.op {
            Op::Compute(compute) => {
                let mut result = [0; WARP];
                compute(self.sources(warp, instruction), &mut result);
                warp.write(instruction.destinations[0], active, &result);
            }
            Op::ComputeTwo(compute) => {
                let (mut first, mut second) = ([0; WARP], [0; WARP]);
                compute(self.sources(warp, instruction), &mut first, &mut second);
                warp.write(instruction.destinations[0], active, &first);
                warp.write(instruction.destinations[1], active, &second);
            }
            Op::Approximate { .. } => self.approximate(warp, instruction, active),
            Op::Move => {
                self.move_value(warp, instruction.destinations[0], instruction.sources[0], active)
            }
            Op::Select => self.select_value(warp, instruction, active)?,
            Op::Unpack(bits) => {
                let value = *self.operand(warp, instruction.sources[0]);
                for (index, &register) in instruction.destinations.iter().enumerate() {
                    let part = value.map(|value| value >> (index as u32 * bits) & mask(*bits));
                    warp.write(register, active, &part);
                }
            }
            Op::Load(access) => self.load(warp, instruction, access, active)?,
            Op::Store(access) => self.store(warp, instruction, access, active)?,
            Op::Atomic { operation, ty, access } => {
                self.atomic(warp, instruction, (*operation, *ty, access), active)?
            }
            Op::CopyAsync { size, destination, source, has_source_size } => {
                let copy = (*size, *destination, *source, *has_source_size);
                self.copy_async(warp, instruction, copy, active)?;
            }
            Op::CommitGroup => lanes(active).for_each(|lane| warp.committed[lane] += 1),
            Op::WaitGroup(pending) => self.wait_copies(warp, *pending, active)?,
            Op::ActiveMask => {
                warp.write(instruction.destinations[0], active, &[u64::from(active); WARP])
            }
            Op::Nothing => {}
            Op::Trap => {
                let fault = Fault::new(ErrorKind::Trap, "trap: a thread must not reach it");
                return Err(fault.of_lane(active.trailing_zeros() as usize));
            }
            _ => return self.control(warp, instruction, pc, active, group),
        }
        Ok(Flow::Next)
    }

    /// Branches, calls, exits, and instructions that wait.
    fn control(
        &mut self,
        warp: &mut Warp,
        instruction: &Instruction,
        pc: u32,
        active: u32,
        group: u32,
    ) -> Result<Flow, Fault> {
        match &instruction.op {
            Op::Branch(target) if active == group => return Ok(Flow::Jump(*target)),
            Op::Branch(target) => {
                warp.set_pc(group & !active, pc + 1);
                warp.set_pc(active, *target);
            }
            Op::BranchIndex(targets) => {
                let values = *self.operand(warp, instruction.sources[0]);
                warp.set_pc(group & !active, pc + 1);
                for lane in lanes(active) {
                    let Some(&target) = targets.get(values[lane] as usize) else {
                        let message = format!(
                            "brx.idx: the index must be below {}, got {}",
                            targets.len(),
                            values[lane]
                        );
                        return Err(Fault::new(ErrorKind::Operand, message).of_lane(lane));
                    };
                    warp.set_pc(1 << lane, target);
                }
            }
            Op::Call(call) => {
                warp.set_pc(group & !active, pc + 1);
                self.call(warp, call, pc, active)?;
            }
            Op::Return => {
                warp.set_pc(group & !active, pc + 1);
                self.return_from(warp, active)?;
            }
            Op::Exit => {
                warp.set_pc(group & !active, pc + 1);
                warp.set_status(active, Status::Exited);
            }
            Op::Barrier { .. } => {
                warp.set_pc(group & !active, pc + 1);
                warp.set_pc(active, pc);
                self.arrive(warp, pc, active)?;
                if matches!(instruction.op, Op::Barrier { arrives_only: true, .. }) {
                    warp.set_pc(active, pc + 1);
                }
            }
            _ => {
                warp.set_pc(group, pc);
                if self.warp_sync(warp, pc, active)? {
                    return Ok(Flow::Next);
                }
                // Lanes that are not waiting have executed the instruction or skipped it.
                let waiting = warp.having(|status| matches!(status, Status::WarpWait(_)));
                warp.set_pc(group & !waiting, pc + 1);
            }
        }
        Ok(Flow::Reschedule)
    }

    fn sources<'w>(&'w self, warp: &'w Warp, instruction: &Instruction) -> [&'w Lanes; 4] {
        const ZEROS: &Lanes = &[0; WARP];
        let mut all = [ZEROS; 4];
        for (target, &source) in all.iter_mut().zip(&instruction.sources) {
            *target = self.operand(warp, source);
        }
        all
    }

    fn approximate(&self, warp: &mut Warp, instruction: &Instruction, active: u32) {
        let Op::Approximate { function, bound, format, is_packed, ftz } = &instruction.op else {
            return;
        };
        let sources = self.sources(warp, instruction);
        let (seed, mut result) = (self.options.perturb, [0; WARP]);
        let element = |a: u64, b: u64| {
            let (a, b) = if *ftz { (format.flush(a), format.flush(b)) } else { (a, b) };
            let value = function(format.decode(a), format.decode(b));
            let bits = approximate(*format, *bound, seed, a ^ b.rotate_left(9), value);
            if *ftz {
                format.flush(bits)
            } else {
                bits
            }
        };
        for lane in lanes(active) {
            let (a, b) = (sources[0][lane], sources[1][lane]);
            result[lane] = if *is_packed {
                element(a & 0xffff, b & 0xffff) | element(a >> 16, b >> 16) << 16
            } else {
                element(a, b)
            };
        }
        warp.write(instruction.destinations[0], active, &result);
    }

    /// Copies a value. A value that is undefined stays undefined.
    fn move_value(&self, warp: &mut Warp, destination: u32, source: u32, active: u32) {
        let values = *self.operand(warp, source);
        let defined = self.defined(warp, source);
        warp.write(destination, active, &values);
        if destination != crate::program::SINK {
            warp.defined[destination as usize] &= !active | defined;
        }
    }

    fn select_value(
        &self,
        warp: &mut Warp,
        instruction: &Instruction,
        active: u32,
    ) -> Result<(), Fault> {
        let [a, b, predicate] = instruction.sources[..] else { return Ok(()) };
        if self.options.check_uninitialized {
            self.check_defined(warp, &[predicate], active)?;
        }
        let first = warp.where_true(self.operand(warp, predicate), active, false);
        let (left, right) = (*self.operand(warp, a), *self.operand(warp, b));
        let defined = self.defined(warp, a) & first | self.defined(warp, b) & !first;
        let mut result = right;
        for lane in lanes(first) {
            result[lane] = left[lane];
        }
        let destination = instruction.destinations[0];
        warp.write(destination, active, &result);
        if destination != crate::program::SINK {
            warp.defined[destination as usize] &= !active | defined;
        }
        Ok(())
    }

    fn copy_place(
        &mut self,
        warp: &mut Warp,
        (from, to): (Place, Place),
        lane: usize,
    ) -> Result<(), Fault> {
        match (from, to) {
            (Place::Register(from), Place::Register(to)) => {
                self.move_value(warp, to, from, 1 << lane)
            }
            (Place::Memory(from, size), Place::Memory(to, _)) => {
                let thread = warp.number * WARP + lane;
                let Some(region) = self.call.get_mut(thread) else { return Ok(()) };
                let (source, target) = (region.place(from, size)?, region.place(to, size)?);
                region.copy_within(source, target, size);
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self, warp: &mut Warp, call: &Call, pc: u32, active: u32) -> Result<(), Fault> {
        for lane in lanes(active) {
            if warp.stacks[lane].len() >= MAX_DEPTH {
                return Err(
                    Fault::new(ErrorKind::Limit, "call: too many nested calls").of_lane(lane)
                );
            }
            for &copy in &call.arguments {
                self.copy_place(warp, copy, lane)?;
            }
            warp.stacks[lane].push(Frame { call: pc });
            warp.keys[lane] = key(warp.stacks[lane].len(), self.program.entries[call.function]);
        }
        Ok(())
    }

    fn return_from(&mut self, warp: &mut Warp, active: u32) -> Result<(), Fault> {
        let program = self.program;
        for lane in lanes(active) {
            let Some(frame) = warp.stacks[lane].pop() else {
                warp.status[lane] = Status::Exited;
                continue;
            };
            if let Op::Call(call) = &program.instructions[frame.call as usize].op {
                for &copy in &call.results {
                    self.copy_place(warp, copy, lane)?;
                }
            }
            warp.keys[lane] = key(warp.stacks[lane].len(), frame.call + 1);
        }
        Ok(())
    }
}
