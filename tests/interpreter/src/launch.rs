//! Modules, and the execution of grids.

use crate::error::{Error, ErrorKind, Fault};
use crate::exec::state::{key, lanes, pc_of, Block, Status, Warp};
use crate::exec::sync::BARRIERS;
use crate::float::mix;
use crate::lower::lower;
use crate::memory::{Memory, Region};
use crate::options::{Argument, Launch, Report, Schedule};
use crate::program::{Kernel, Lanes, Placement, Program, SPECIAL_REGISTERS, WARP};
use crate::shadow::Cell;
use crate::types::{Space, FIRST_OFFSET};

/// The threads of a block, as on all CUDA devices.
const MAX_BLOCK_THREADS: u64 = 1024;
/// The instructions that a warp executes before another warp has its turn.
const QUANTUM: usize = 20_000;

/// A parsed PTX module.
pub struct Module {
    program: Program,
}

impl Module {
    /// Parses PTX text.
    ///
    /// # Errors
    /// If the text is malformed or uses something that is not supported. The error names the line and the instruction.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { program: lower(text)? })
    }

    /// The names of the kernels.
    pub fn entries(&self) -> Vec<&str> {
        self.program.kernels.iter().map(|kernel| kernel.name.as_str()).collect()
    }

    /// The sizes of the parameters of a kernel in bytes.
    pub fn parameter_sizes(&self, entry: &str) -> Option<Vec<usize>> {
        let kernel = self.program.kernels.iter().find(|kernel| kernel.name == entry)?;
        Some(kernel.parameters.iter().map(|(_, size)| *size).collect())
    }

    /// The values of `.target` and `.version`.
    pub fn target(&self) -> (&str, &str) {
        (&self.program.target, &self.program.version)
    }

    /// Executes a kernel over a grid.
    ///
    /// Global variables of the module are allocated in `memory` at the first launch, and keep their values after it.
    ///
    /// # Errors
    /// If the launch does not fit the kernel, or at the first access or barrier that breaks a rule.
    pub fn run(
        &self,
        entry: &str,
        launch: &Launch,
        memory: &mut Memory,
        arguments: &[Argument],
    ) -> Result<Report, Error> {
        let program = &self.program;
        let Some(kernel) = program.kernels.iter().find(|kernel| kernel.name == entry) else {
            let names = self.entries().join(", ");
            return Err(error(format!(
                "run: the module must have a kernel `{entry}`, got {names}"
            )));
        };
        check_launch(kernel, launch)?;
        let parameters = parameters(kernel, arguments)?;
        memory.launch += 1;
        let globals = allocate_globals(program, memory)?;
        let constants = constants(program, &globals);
        let mut constant = Region::new("constant", &program.constant);
        for variable in &program.constant.variables {
            for (at, name, offset) in &variable.pointers {
                let address = pointer(program, &globals, name, *offset)?;
                constant.fill(variable.address + *at as u64, &address.to_le_bytes());
            }
        }
        let mut shared = Region::new("shared", &program.shared);
        if program.has_dynamic_shared {
            shared.add(program.dynamic_shared, launch.dynamic_shared);
        }
        let threads = launch.block.iter().product::<u32>() as usize;
        let warps = threads.div_ceil(WARP);
        let per_thread = |name, layout: &crate::program::Layout| {
            let count = if layout.variables.is_empty() { 0 } else { threads };
            vec![Region::new(name, layout); count]
        };
        let seed = match launch.options.schedule {
            Schedule::Random(seed) => seed,
            Schedule::Converging => 0,
        };
        let cells = if launch.options.check_races { shared.bytes.len().div_ceil(2) } else { 0 };
        let mut block = Block {
            program,
            options: &launch.options,
            memory,
            constants: &constants,
            parameters: &parameters,
            constant: &constant,
            shared_cells: vec![Cell::default(); cells],
            shared,
            local: per_thread("local", &program.local),
            call: per_thread("parameter", &program.call),
            warps: (0..warps).map(|number| new_warp(program, number)).collect(),
            arrivals: vec![Vec::new(); BARRIERS],
            threads,
            block_size: launch.block,
            index: [0; 3],
            number: 0,
            time: 1,
            known: Vec::new(),
            counts: vec![(0, 0); program.instructions.len()],
            executed: 0,
            random: mix(seed),
        };
        for number in order(launch) {
            start(&mut block, kernel, launch, number);
            run_block(&mut block)?;
        }
        Ok(report(program, &block.counts))
    }
}

fn error(message: String) -> Error {
    Error::new(ErrorKind::Launch, 0, message)
}

fn check_launch(kernel: &Kernel, launch: &Launch) -> Result<(), Error> {
    let [grid, block] =
        [launch.grid, launch.block].map(|size| size.iter().map(|n| u64::from(*n)).product::<u64>());
    if block == 0 || block > MAX_BLOCK_THREADS || launch.block[2] > 64 {
        return Err(error(format!(
            "launch: a block must have 1 to {MAX_BLOCK_THREADS} threads, got {:?}",
            launch.block
        )));
    }
    if grid == 0
        || launch.grid[0] > i32::MAX as u32
        || launch.grid[1] > 65535
        || launch.grid[2] > 65535
    {
        return Err(error(format!(
            "launch: the grid must be within the limits of CUDA, got {:?}",
            launch.grid
        )));
    }
    if launch.dynamic_shared > 227 * 1024 {
        let size = launch.dynamic_shared;
        return Err(error(format!(
            "launch: dynamic shared memory must be at most 227 KiB, got {size} bytes"
        )));
    }
    if let Some(required) = kernel.required_block.filter(|required| *required != launch.block) {
        return Err(error(format!(
            "launch: .reqntid requires the block {required:?}, got {:?}",
            launch.block
        )));
    }
    match kernel.max_block.map(|max| max.iter().map(|n| u64::from(*n)).product::<u64>()) {
        Some(max) if block > max => {
            Err(error(format!("launch: .maxntid allows {max} threads, got {block}")))
        }
        _ => Ok(()),
    }
}

fn parameters(kernel: &Kernel, arguments: &[Argument]) -> Result<Region, Error> {
    if kernel.parameters.len() != arguments.len() {
        let (want, got) = (kernel.parameters.len(), arguments.len());
        return Err(error(format!("run: `{}` must have {want} arguments, got {got}", kernel.name)));
    }
    let mut region = Region::new("parameter", &crate::program::Layout::default());
    for (index, ((address, size), argument)) in kernel.parameters.iter().zip(arguments).enumerate()
    {
        let bytes = argument.bytes();
        if bytes.len() != *size {
            return Err(error(format!(
                "run: argument {index} must have {size} bytes, got {}",
                bytes.len()
            )));
        }
        region.add(*address, *size);
        region.fill(*address, &bytes);
    }
    Ok(region)
}

/// The generic address of a variable in an initializer.
fn pointer(program: &Program, globals: &[u64], name: &str, offset: i64) -> Result<u64, Error> {
    let global = program.globals.iter().position(|variable| variable.name == name);
    let constant = || program.constant.variables.iter().find(|variable| variable.name == name);
    let address = match global {
        Some(index) => globals[index],
        None => match constant() {
            Some(variable) => variable.address + Space::Const.window(),
            None => {
                return Err(error(format!(
                    "initializer: `{name}` must be a global or constant variable"
                )))
            }
        },
    };
    Ok(address.wrapping_add_signed(offset))
}

fn allocate_globals(program: &Program, memory: &mut Memory) -> Result<Vec<u64>, Error> {
    let mut addresses = Vec::new();
    let mut fresh: Vec<&Placement> = Vec::new();
    for variable in &program.globals {
        let address = memory.symbol(&variable.name).unwrap_or_else(|| {
            fresh.push(variable);
            let address = memory.alloc_aligned(variable.size, variable.align);
            memory.set_symbol(&variable.name, address);
            address
        });
        addresses.push(address);
    }
    for variable in fresh {
        let address = memory.symbol(&variable.name).unwrap_or(0);
        memory.write(address, &variable.bytes)?;
        for (at, name, offset) in &variable.pointers {
            let target = pointer(program, &addresses, name, *offset)?;
            memory.write(address + *at as u64, &target.to_le_bytes())?;
        }
    }
    Ok(addresses)
}

fn constants(program: &Program, globals: &[u64]) -> Vec<Lanes> {
    let mut all: Vec<Lanes> = program.constants.iter().map(|value| [*value; WARP]).collect();
    for &(constant, variable, offset) in &program.relocations {
        let base = globals.get(variable).copied().unwrap_or(program.dynamic_shared);
        all[constant as usize] = [base.wrapping_add_signed(offset); WARP];
    }
    all
}

fn new_warp(program: &Program, number: usize) -> Warp {
    Warp {
        number,
        registers: vec![[0; WARP]; program.widths.len()],
        defined: vec![0; program.widths.len()],
        keys: vec![0; WARP],
        status: vec![Status::Exited; WARP],
        stacks: vec![Vec::new(); WARP],
        copies: Vec::new(),
        committed: vec![0; WARP],
        present: 0,
    }
}

/// The numbers of blocks in the order of execution.
fn order(launch: &Launch) -> Vec<u64> {
    let count = launch.grid.iter().map(|n| u64::from(*n)).product();
    let mut all: Vec<u64> = (0..count).collect();
    if let Some(seed) = launch.options.block_order {
        all.sort_by_key(|number| mix(seed ^ mix(*number)));
    }
    all
}

/// Prepares the state for a block.
fn start(block: &mut Block<'_>, kernel: &Kernel, launch: &Launch, number: u64) {
    let [x, y, _] = launch.grid.map(u64::from);
    block.index = [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32];
    block.number = (number % 0xff_fffe) as u32;
    block.time = 1;
    let warps = block.warps.len();
    block.known = vec![vec![0; warps]; warps];
    block.shared.reset();
    block.shared_cells.fill(Cell::default());
    block.local.iter_mut().chain(&mut block.call).for_each(Region::reset);
    block.arrivals.iter_mut().for_each(Vec::clear);
    let entry = block.program.entries[kernel.function];
    for warp in 0..warps {
        let values = special_values(block, launch, warp);
        let threads = block.threads;
        let state = &mut block.warps[warp];
        if !block.options.check_uninitialized {
            state.registers.iter_mut().for_each(|lanes| *lanes = [0; WARP]);
        }
        state.defined.fill(0);
        for (register, lanes) in values.into_iter().enumerate() {
            state.registers[register] = lanes;
            state.defined[register] = u32::MAX;
        }
        let count = (threads - warp * WARP).min(WARP);
        state.present = crate::types::mask(count as u32) as u32;
        state.status.fill(Status::Exited);
        state.set_status(state.present, Status::Runnable);
        state.keys.fill(key(0, entry));
        state.stacks.iter_mut().for_each(Vec::clear);
        state.copies.clear();
        state.committed.fill(0);
    }
}

fn special_values(block: &Block<'_>, launch: &Launch, warp: usize) -> Vec<Lanes> {
    let axis = |name: &str| match name.as_bytes().last() {
        Some(b'y') => 1,
        Some(b'z') => 2,
        _ => 0,
    };
    let each = |f: &dyn Fn(usize) -> u64| std::array::from_fn(f);
    let statics = block.program.shared.end - FIRST_OFFSET;
    let values = SPECIAL_REGISTERS.iter().map(|(name, _)| {
        let (family, _) = name.split_once('.').unwrap_or((name, ""));
        let value = match (family, *name) {
            (_, "%tid.w" | "%ctaid.w") => 0,
            ("%tid", _) => {
                return each(&|lane| u64::from(block.thread_index(warp * WARP + lane)[axis(name)]))
            }
            ("%ntid", _) => u64::from(launch.block[axis(name)]),
            ("%ctaid", _) => u64::from(block.index[axis(name)]),
            ("%nctaid", _) => u64::from(launch.grid[axis(name)]),
            ("%laneid", _) => return each(&|lane| lane as u64),
            ("%warpid", _) => warp as u64,
            ("%nwarpid", _) => block.warps.len() as u64,
            ("%lanemask_eq", _) => return each(&|lane| 1 << lane),
            ("%lanemask_le", _) => return each(&|lane| (2 << lane) - 1),
            ("%lanemask_lt", _) => return each(&|lane| (1 << lane) - 1),
            ("%lanemask_ge", _) => return each(&|lane| 0xffff_ffff & !((1 << lane) - 1)),
            ("%lanemask_gt", _) => return each(&|lane| 0xffff_ffff & !((2 << lane) - 1)),
            ("%dynamic_smem_size", _) => launch.dynamic_shared as u64,
            ("%total_smem_size", _) => statics + launch.dynamic_shared as u64,
            ("%nsmid", _) => 1,
            ("WARP_SZ", _) => WARP as u64,
            _ => 0,
        };
        [value; WARP]
    });
    values.collect()
}

/// Runs a block until all its threads have exited.
fn run_block(block: &mut Block<'_>) -> Result<(), Error> {
    let is_random = matches!(block.options.schedule, Schedule::Random(_));
    let count = block.warps.len();
    loop {
        let mut progressed = false;
        let turn = if is_random { block.next_random() as usize % count } else { 0 };
        for at in 0..count {
            let number = (at + turn) % count;
            let quantum = if is_random { 1 + block.next_random() as usize % 200 } else { QUANTUM };
            progressed |= block.run_warp(number, quantum)?;
        }
        let completed = block.complete_barriers();
        progressed |= completed.map_err(|(fault, warp, pc)| block.locate(fault, warp, pc))?;
        if progressed {
            continue;
        }
        for number in 0..count {
            let mut warp = std::mem::take(&mut block.warps[number]);
            let woke = block.wake(&mut warp);
            let pc = lanes(warp.live()).next().map_or(0, |lane| pc_of(warp.keys[lane]));
            block.warps[number] = warp;
            progressed |= woke.map_err(|fault| block.locate(fault, number, pc))?;
        }
        if progressed {
            continue;
        }
        if block.warps.iter().all(|warp| warp.live() == 0) {
            return Ok(());
        }
        return Err(deadlock(block));
    }
}

/// The error of a block in which no thread can continue.
fn deadlock(block: &Block<'_>) -> Error {
    let exited: u32 =
        block.warps.iter().map(|warp| (warp.present & !warp.live()).count_ones()).sum();
    let mut places: Vec<(u32, u32)> = Vec::new();
    let mut first = None;
    for warp in &block.warps {
        for lane in lanes(warp.live()) {
            let line = block.instruction(pc_of(warp.keys[lane])).line;
            first.get_or_insert((warp.number, lane));
            match places.iter_mut().find(|(place, _)| *place == line) {
                Some((_, count)) => *count += 1,
                None => places.push((line, 1)),
            }
        }
    }
    let (warp, lane) = first.unwrap_or((0, 0));
    let waits: Vec<String> =
        places.iter().map(|(line, count)| format!("{count} at line {line}")).collect();
    let message = format!(
        "barrier: all threads that it names must arrive, got {} waiting and {exited} exited of {} threads",
        waits.join(", "),
        block.threads
    );
    let pc = pc_of(block.warps[warp].keys[lane]);
    block.locate(Fault::new(ErrorKind::Barrier, message).of_lane(lane), warp, pc)
}

fn report(program: &Program, counts: &[(u64, u64)]) -> Report {
    let mut report = Report::default();
    for (instruction, (warps, threads)) in program.instructions.iter().zip(counts) {
        // The return at the end of each body is not in the text.
        if instruction.text == (0, 0) {
            continue;
        }
        if *warps == 0 {
            report.unreached_lines.push(instruction.line);
            continue;
        }
        let entry =
            report.opcodes.entry(program.opcodes[instruction.opcode as usize].clone()).or_default();
        entry.warps += warps;
        entry.threads += threads;
    }
    report
}
