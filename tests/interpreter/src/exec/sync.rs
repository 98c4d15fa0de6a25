//! Communication between the lanes of a warp, and barriers of the block.

use crate::error::{ErrorKind, Fault};
use crate::exec::state::{lanes, pc_of, Arrival, Block, Status, Warp};
use crate::program::{Atomic, BarrierReduction, Instruction, Op, Shuffle, Vote, WARP};

/// The number of barriers of a block.
pub const BARRIERS: usize = 16;

/// The operand with the mask of members, or `None` for instructions of all lanes.
fn members_of(instruction: &Instruction) -> Option<u32> {
    match instruction.op {
        Op::Product(_) | Op::LoadMatrix { .. } | Op::StoreMatrix { .. } => None,
        _ => instruction.sources.last().copied(),
    }
}

impl Block<'_> {
    /// Executes an instruction that waits for other lanes of the warp. Returns whether all active lanes continue at once.
    ///
    /// Lanes whose partners have not arrived wait. The last lane that arrives executes the instruction for all.
    pub fn warp_sync(&mut self, warp: &mut Warp, pc: u32, active: u32) -> Result<bool, Fault> {
        let program = self.program;
        let instruction = &program.instructions[pc as usize];
        let members = members_of(instruction).map(|operand| *self.operand(warp, operand));
        let any_place = matches!(instruction.op, Op::WarpBarrier);
        let (mut rest, mut is_immediate) = (active, true);
        while rest != 0 {
            let first = rest.trailing_zeros() as usize;
            let mask_of = |lane: usize| members.map_or(u32::MAX, |members| members[lane] as u32);
            let mask = mask_of(first);
            let group = lanes(rest)
                .filter(|&lane| mask_of(lane) == mask)
                .fold(0, |all, lane| all | 1 << lane);
            rest &= !group;
            if group & !mask != 0 {
                let message =
                    format!("membermask: must contain the executing lane, got {mask:#010x}");
                return Err(Fault::new(ErrorKind::Operand, message)
                    .of_lane((group & !mask).trailing_zeros() as usize));
            }
            let key = warp.keys[first];
            let waiting = self.waiting(warp, mask, key, any_place);
            let all = group | waiting;
            if mask & warp.live() & !all != 0 {
                warp.set_status(group, Status::WarpWait(mask));
                is_immediate = false;
                continue;
            }
            self.communicate(warp, pc, all & mask)?;
            if waiting != 0 {
                release(warp, waiting);
                is_immediate = false;
            }
        }
        Ok(is_immediate)
    }

    /// The lanes that wait with a mask of members at a place, or anywhere at a barrier of the warp.
    fn waiting(&self, warp: &Warp, mask: u32, key: u64, any_place: bool) -> u32 {
        lanes(warp.having(|status| status == Status::WarpWait(mask)))
            .filter(|&lane| {
                let place = warp.keys[lane];
                place == key
                    || any_place && matches!(self.instruction(pc_of(place)).op, Op::WarpBarrier)
            })
            .fold(0, |all, lane| all | 1 << lane)
    }

    /// Continues lanes whose missing partners have exited. Returns whether there were any.
    pub fn wake(&mut self, warp: &mut Warp) -> Result<bool, Fault> {
        let mut woke = false;
        for lane in 0..WARP {
            let Status::WarpWait(mask) = warp.status[lane] else { continue };
            let pc = pc_of(warp.keys[lane]);
            let any_place = matches!(self.instruction(pc).op, Op::WarpBarrier);
            let waiting = self.waiting(warp, mask, warp.keys[lane], any_place);
            if mask & warp.live() & !waiting == 0 {
                self.communicate(warp, pc, waiting)?;
                release(warp, waiting);
                woke = true;
            }
        }
        Ok(woke)
    }

    /// Executes an instruction for all its participants.
    fn communicate(&mut self, warp: &mut Warp, pc: u32, all: u32) -> Result<(), Fault> {
        let program = self.program;
        let instruction = &program.instructions[pc as usize];
        match &instruction.op {
            Op::WarpBarrier => {
                self.known[warp.number][warp.number] = self.time;
                self.time += 1;
            }
            Op::Shuffle(mode) => self.shuffle(warp, instruction, *mode, all),
            Op::Vote { vote, negated } => {
                let values = *self.operand(warp, instruction.sources[0]);
                let set = warp.where_true(&values, all, *negated);
                let result = match vote {
                    Vote::All => u64::from(set == all),
                    Vote::Any => u64::from(set != 0),
                    Vote::Uniform => u64::from(set == 0 || set == all),
                    Vote::Ballot => u64::from(set),
                };
                warp.write(instruction.destinations[0], all, &[result; WARP]);
            }
            Op::Match { is_all } => {
                let values = *self.operand(warp, instruction.sources[0]);
                let same = |lane: usize| {
                    lanes(all).filter(|&o| values[o] == values[lane]).fold(0_u32, |m, o| m | 1 << o)
                };
                for lane in lanes(all) {
                    let found = same(lane);
                    let result = if *is_all && found != all { 0 } else { found };
                    warp.write_lane(instruction.destinations[0], lane, u64::from(result));
                    if let Some(&predicate) = instruction.destinations.get(1) {
                        warp.write_lane(predicate, lane, u64::from(found == all));
                    }
                }
            }
            Op::Reduce { operation, is_signed } => {
                let values = *self.operand(warp, instruction.sources[0]);
                let items: Vec<u32> = lanes(all).map(|lane| values[lane] as u32).collect();
                let result = reduce(*operation, *is_signed, &items);
                warp.write(instruction.destinations[0], all, &[u64::from(result); WARP]);
            }
            Op::ElectOne => {
                let leader = all.trailing_zeros() as usize;
                warp.write(instruction.destinations[0], all, &[leader as u64; WARP]);
                if let Some(&predicate) = instruction.destinations.get(1) {
                    let mut is_leader = [0; WARP];
                    is_leader[leader % WARP] = 1;
                    warp.write(predicate, all, &is_leader);
                }
            }
            _ => {
                if all != u32::MAX {
                    let message =
                        format!("all 32 lanes of the warp must execute it together, got the lanes {all:#010x}");
                    return Err(Fault::new(ErrorKind::Barrier, message)
                        .of_lane(all.trailing_zeros() as usize % WARP));
                }
                self.matrix(warp, instruction)?;
            }
        }
        Ok(())
    }

    fn shuffle(&self, warp: &mut Warp, instruction: &Instruction, mode: Shuffle, all: u32) {
        let values = *self.operand(warp, instruction.sources[0]);
        let (b, c) = (
            *self.operand(warp, instruction.sources[1]),
            *self.operand(warp, instruction.sources[2]),
        );
        for lane in lanes(all) {
            let (at, b, c) = (lane as i64, (b[lane] & 31) as i64, c[lane]);
            let (clamp, segment) = ((c & 31) as i64, (c >> 8 & 31) as i64);
            let (lowest, highest) = (at & segment, at & segment | clamp & !segment & 31);
            let (from, is_valid) = match mode {
                Shuffle::Up => (at - b, at - b >= highest),
                Shuffle::Down => (at + b, at + b <= highest),
                Shuffle::Butterfly => (at ^ b, at ^ b <= highest),
                Shuffle::Index => {
                    let from = lowest | b & !segment;
                    (from, from <= highest)
                }
            };
            let from = if is_valid { from as usize & 31 } else { lane };
            let register = instruction.destinations[0];
            warp.write_lane(register, lane, values[from]);
            if all >> from & 1 == 0 && register != crate::program::SINK {
                // The value of a lane that does not take part is undefined.
                warp.defined[register as usize] &= !(1 << lane);
            }
            if let Some(&predicate) = instruction.destinations.get(1) {
                warp.write_lane(predicate, lane, u64::from(is_valid));
            }
        }
    }

    /// Records the arrival of lanes at a barrier of the block. The scheduler completes barriers.
    pub fn arrive(&mut self, warp: &mut Warp, pc: u32, active: u32) -> Result<(), Fault> {
        let program = self.program;
        let instruction = &program.instructions[pc as usize];
        let Op::Barrier { arrives_only, has_count, reduction, negated, .. } = instruction.op else {
            return Ok(());
        };
        let uniform = |operand: u32, what: &str| -> Result<u32, Fault> {
            let values = self.operand(warp, operand);
            let first = values[active.trailing_zeros() as usize % WARP];
            match lanes(active).find(|&lane| values[lane] != first) {
                None => Ok(first as u32),
                Some(lane) => {
                    let message = format!(
                        "barrier: the {what} must be equal in a warp, got {first} and {}",
                        values[lane]
                    );
                    Err(Fault::new(ErrorKind::Barrier, message).of_lane(lane))
                }
            }
        };
        let id = uniform(instruction.sources[0], "number")?;
        if id as usize >= BARRIERS {
            return Err(Fault::new(
                ErrorKind::Operand,
                format!("barrier: the number must be below {BARRIERS}, got {id}"),
            ));
        }
        let expected =
            if has_count { Some(uniform(instruction.sources[1], "thread count")?) } else { None };
        if let Some(count) = expected.filter(|count| *count == 0 || count % WARP as u32 != 0) {
            let message = format!(
                "barrier: the thread count must be a positive multiple of {WARP}, got {count}"
            );
            return Err(Fault::new(ErrorKind::Operand, message));
        }
        let predicate = match (reduction, instruction.sources.last()) {
            (Some(_), Some(&operand)) => {
                warp.where_true(self.operand(warp, operand), active, negated)
            }
            _ => 0,
        };
        let known = if arrives_only {
            let mut known = self.known[warp.number].clone();
            known[warp.number] = self.time;
            self.time += 1;
            Some(known)
        } else {
            warp.set_status(active, Status::BarrierWait(id));
            None
        };
        let arrival = Arrival {
            warp: warp.number,
            mask: active,
            instruction: pc,
            predicate,
            expected,
            known,
        };
        self.arrivals[id as usize].push(arrival);
        Ok(())
    }

    /// Completes barriers at which all expected threads have arrived. Returns whether there were any.
    pub fn complete_barriers(&mut self) -> Result<bool, (Fault, usize, u32)> {
        let mut completed = false;
        for id in 0..BARRIERS {
            if self.arrivals[id].is_empty() {
                continue;
            }
            let arrivals = &self.arrivals[id];
            let fail = |message: String| {
                let last = &arrivals[arrivals.len() - 1];
                let lane = last.mask.trailing_zeros() as usize % WARP;
                Err((
                    Fault::new(ErrorKind::Barrier, message).of_lane(lane),
                    last.warp,
                    last.instruction,
                ))
            };
            let expected = arrivals[0].expected;
            if let Some(other) = arrivals.iter().find(|arrival| arrival.expected != expected) {
                return fail(format!(
                    "barrier {id}: thread counts must be equal, got {expected:?} and {:?}",
                    other.expected
                ));
            }
            let arrived: u32 = arrivals.iter().map(|arrival| arrival.mask.count_ones()).sum();
            let exited = if self.options.allow_exited_at_barrier && expected.is_none() {
                self.warps.iter().map(|warp| (warp.present & !warp.live()).count_ones()).sum()
            } else {
                0
            };
            let needed = expected.unwrap_or(self.threads as u32);
            if arrived + exited < needed {
                continue;
            }
            if arrived + exited > needed {
                return fail(format!("barrier {id}: {needed} threads must arrive, got {arrived}"));
            }
            let first = arrivals[0].instruction;
            let other = arrivals.iter().find(|arrival| arrival.instruction != first);
            if let (Some(other), None, true) =
                (other, expected, self.options.require_uniform_barriers)
            {
                let lines =
                    (self.instruction(first).line, self.instruction(other.instruction).line);
                let message = format!(
                    "barrier {id}: all threads must wait at one instruction, got lines {lines:?}"
                );
                return fail(message);
            }
            if let Some((warp, missing)) = self.unaligned(&self.arrivals[id]) {
                let message =
                    format!("barrier {id}: all threads of warp {warp} must arrive, the lanes {missing:#010x} have not");
                return fail(message);
            }
            self.complete(id);
            completed = true;
        }
        Ok(completed)
    }

    /// A warp of which only some threads arrived at a barrier that requires all, and the lanes that have not.
    fn unaligned(&self, arrivals: &[Arrival]) -> Option<(usize, u32)> {
        let is_aligned =
            |pc: u32| matches!(self.instruction(pc).op, Op::Barrier { is_aligned: true, .. });
        arrivals.iter().filter(|arrival| is_aligned(arrival.instruction)).find_map(|arrival| {
            let warp = &self.warps[arrival.warp];
            let same = arrivals.iter().filter(|other| other.warp == arrival.warp);
            let missing = warp.present & !same.fold(0, |all, other| all | other.mask);
            let missing =
                if self.options.allow_exited_at_barrier { missing & warp.live() } else { missing };
            (missing != 0).then_some((arrival.warp, missing))
        })
    }

    fn complete(&mut self, id: usize) {
        let arrivals = std::mem::take(&mut self.arrivals[id]);
        let arrived: u32 = arrivals.iter().map(|arrival| arrival.mask.count_ones()).sum();
        let set: u32 = arrivals.iter().map(|arrival| arrival.predicate.count_ones()).sum();
        let time = self.time;
        self.time += 1;
        let mut joined = vec![0; self.warps.len()];
        for arrival in &arrivals {
            let known = arrival.known.as_ref().unwrap_or(&self.known[arrival.warp]);
            for (all, one) in joined.iter_mut().zip(known) {
                *all = (*all).max(*one);
            }
            if arrival.known.is_none() {
                joined[arrival.warp] = time;
            }
        }
        let program = self.program;
        for arrival in arrivals.iter().filter(|arrival| arrival.known.is_none()) {
            self.known[arrival.warp].clone_from(&joined);
            let warp = &mut self.warps[arrival.warp];
            let instruction = &program.instructions[arrival.instruction as usize];
            if let Op::Barrier { reduction: Some(reduction), .. } = instruction.op {
                let result = match reduction {
                    BarrierReduction::Count => u64::from(set),
                    BarrierReduction::And => u64::from(set == arrived),
                    BarrierReduction::Or => u64::from(set != 0),
                };
                warp.write(instruction.destinations[0], arrival.mask, &[result; WARP]);
            }
            release(warp, arrival.mask);
        }
    }
}

/// Makes waiting lanes continue after the instruction at which they wait.
fn release(warp: &mut Warp, mask: u32) {
    warp.set_status(mask, Status::Runnable);
    for lane in lanes(mask) {
        warp.keys[lane] += 1;
    }
}

fn reduce(operation: Atomic, is_signed: bool, items: &[u32]) -> u32 {
    let order = |item: &&u32| if is_signed { i64::from(**item as i32) } else { i64::from(**item) };
    match operation {
        Atomic::Min => items.iter().min_by_key(order).copied().unwrap_or(0),
        Atomic::Max => items.iter().max_by_key(order).copied().unwrap_or(0),
        Atomic::And => items.iter().fold(u32::MAX, |a, b| a & b),
        Atomic::Or => items.iter().fold(0, |a, b| a | b),
        Atomic::Xor => items.iter().fold(0, |a, b| a ^ b),
        _ => items.iter().fold(0, |a, b| a.wrapping_add(*b)),
    }
}
