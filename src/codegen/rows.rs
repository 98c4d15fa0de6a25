//! Loop kernels with inner dimensions: reductions and row programs. A row has one thread or several. All reductions of a
//! stage share one walk over the row. The values of a short row stay in registers from walk to walk.
//!
//! Floats are summed in blocks. A sum that grows by one element at a time is rounded for each of them. If the elements have
//! one sign, all roundings may go in one direction, so 10,000 times 0.1 would be 999.903. Therefore the four steps of a loop
//! are added in pairs. [`BLOCK`] loops are a block, [`BLOCK`] blocks are a larger block, and so on. Each element passes
//! through about `BLOCK` additions at each level.

mod reduce;
mod threads;

use crate::codegen::analysis::{bind_quads, coordinates, decompose};
use crate::codegen::dialect::Dialect;
use crate::codegen::memory::{shared_type, type_name};
use crate::codegen::module::{Module, ENTRY};
use crate::codegen::program::{guarded, literal, Place};
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Inst, Program, Space, Store, ValueId};
use crate::op::{Const, Reduction};
use crate::schedule::{varying, RowSchedule, Schedule, Vector};

/// The loops of four steps, or the smaller blocks, in a block that is summed separately.
const BLOCK: usize = 16;

struct Writer<'a> {
    program: &'a Program,
    module: &'a Module,
    schedule: &'a RowSchedule,
    live: Vec<bool>,
    varying: Vec<bool>,
    stages: Vec<u32>,
    /// The inner extents. `used` has the used coordinates, as a bit set.
    inner: &'a [usize],
    outer: usize,
    used: u64,
    /// The rows, and the elements or vectors of each.
    rows: usize,
    columns: usize,
    /// Whether each varying value was printed already.
    done: Vec<bool>,
    /// The nesting of blocks around the loop that is being printed.
    level: usize,
    text: String,
}

/// Prints a kernel that walks rows.
pub fn wgsl(
    (space, program): (&Space, &Program),
    rows: &RowSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let live = program.live(&[]);
    let mut module = Module::new(dialect);
    module.bind(&[program]);
    module.features.subgroups = rows.subgroups;
    let quad = rows.vector.as_ref().map(|vector| vector.axis);
    bind_quads(&mut module, &[program], &[quad]);
    let used = coordinates(program, &live);
    let (count, columns) = rows.extents(space);
    let mut writer = Writer {
        program,
        module: &module,
        schedule: rows,
        done: vec![false; live.len()],
        level: 0,
        live,
        varying: varying(program, space.outer),
        stages: program.stages(),
        inner: &space.dims[space.outer..],
        outer: space.outer,
        used,
        rows: count,
        columns,
        text: String::new(),
    };
    writer.shared_memory();
    let size = schedule.workgroup_size;
    let width = if rows.subgroups { ", @builtin(subgroup_size) width: u32" } else { "" };
    let [arguments, number] = ENTRY;
    put!(writer.text, "@compute @workgroup_size({size})\n{arguments}{width}{number}");
    writer.text += &writer.find_row(schedule.workgroups);
    if rows.subgroups {
        let lanes = rows.lanes;
        put!(
            writer.text,
            "let side = min(width, {lanes}u);\nlet first = (lane - row_lane) / side;\n"
        );
    }
    writer.text += &decompose("row", &space.dims[..space.outer], 0, used, "", quad);
    writer.body();
    module.finish(&(writer.text + "}\n"), schedule.workgroups)
}

impl<'a> Writer<'a> {
    fn place(&self, step: Option<usize>) -> Place<'_> {
        Place {
            module: self.module,
            program: self.program,
            varying: &self.varying,
            outer: self.outer,
            step,
            vector: self.schedule.vector.as_ref(),
        }
    }

    /// Returns the live reductions of `stage`, each with its kind and its operand.
    fn reduces(&self, stage: u32) -> Vec<(ValueId, Reduction, ValueId)> {
        let mut reduces = Vec::new();
        for (i, inst) in self.program.insts.iter().enumerate() {
            let here = self.live[i] && self.stages[i] == stage + 1;
            if let (Inst::Reduce(op, x), true) = (inst, here) {
                reduces.push((i as ValueId, *op, *x));
            }
        }
        reduces
    }

    fn last_stage(&self) -> u32 {
        (0..).take_while(|&stage| !self.reduces(stage).is_empty()).count() as u32
    }

    fn dtype(&self, id: ValueId) -> DType {
        self.program.types[id as usize]
    }

    /// Returns the names of the arrays for a stage's partial results.
    fn arrays(&self, stage: u32) -> Vec<(String, DType)> {
        let mut arrays: Vec<(String, DType)> = Vec::new();
        for (id, ..) in self.reduces(stage) {
            let dtype = self.dtype(id);
            let same = arrays.iter().filter(|array| array.1 == dtype).count();
            arrays.push((format!("part_{}_{same}", dtype.name()), dtype));
        }
        arrays
    }

    fn shared_memory(&mut self) {
        if self.schedule.lanes == 1 {
            return;
        }
        let size = self.schedule.rows * self.schedule.lanes;
        for stage in 0..self.last_stage() {
            for (name, dtype) in self.arrays(stage) {
                let element = shared_type(dtype);
                let declared = format!("var<workgroup> {name}: array<{element}, {size}>;\n");
                // Stages share the arrays.
                if !self.text.contains(&declared) {
                    self.text += &declared;
                }
            }
        }
    }

    /// Returns the condition that a row exists, if a workgroup may have rows out of range.
    fn valid(&self) -> Option<String> {
        (self.schedule.lanes > 1 && self.schedule.rows > 1).then(|| "valid".to_string())
    }

    fn body(&mut self) {
        if let Some(steps) = self.schedule.unrolled {
            self.unrolled_coordinates(steps);
        }
        let last = self.last_stage();
        for stage in 0..=last {
            for id in 0..self.program.insts.len() {
                let reduces = matches!(self.program.insts[id], Inst::Reduce(..));
                if self.live[id] && !self.varying[id] && !reduces && self.stages[id] == stage {
                    self.text += &self.place(None).define(id as ValueId);
                }
            }
            if stage < last {
                self.reduce(stage);
            }
        }
        self.element_stores();
        self.row_stores();
    }

    /// Whether step `k` of an unrolled row may be out of range.
    fn is_tail(&self, k: usize) -> bool {
        self.schedule.unrolled.is_some() && (k + 1) * self.schedule.lanes > self.columns
    }

    /// Returns the condition that a step is in range, if it may be out of range.
    fn inside(&self, step: Option<usize>) -> Option<String> {
        step.filter(|&k| self.is_tail(k)).map(|k| format!("inside_{k}"))
    }

    fn unrolled_coordinates(&mut self, steps: usize) {
        for k in 0..steps {
            let start = k * self.schedule.lanes;
            let mut j = match (self.schedule.lanes, start) {
                (1, _) => format!("{start}u"),
                (_, 0) => "row_lane".to_string(),
                _ => format!("row_lane + {start}u"),
            };
            if self.is_tail(k) {
                put!(self.text, "let inside_{k} = {j} < {};\n", Unsigned(self.columns));
                j = format!("min({j}, {})", Unsigned(self.columns - 1));
            }
            put!(self.text, "let j_{k} = {j};\n");
            self.text += &self.coordinates(&format!("j_{k}"), &format!("_{k}"));
        }
    }

    /// Returns the varying values that `roots` need and that were not printed yet, in order.
    fn needed(&self, roots: &[ValueId]) -> Vec<ValueId> {
        let mut needed = vec![false; self.live.len()];
        let mut stack = roots.to_vec();
        while let Some(id) = stack.pop() {
            let i = id as usize;
            if self.varying[i] && !self.done[i] && !std::mem::replace(&mut needed[i], true) {
                stack.extend(self.program.insts[i].operands());
            }
        }
        let mut ids = Vec::new();
        for (id, needed) in needed.into_iter().enumerate() {
            if needed {
                ids.push(id as ValueId);
            }
        }
        ids
    }

    /// Visits every element of the row. Prints the values that `roots` need, and then `each` for a step. Short rows are
    /// unrolled. A long row is a loop over four elements at a time, so that their loads are in flight together, and a loop
    /// over the rest. The first loop adds `sums` in blocks.
    fn walk(
        &mut self,
        roots: &[ValueId],
        sums: &[(ValueId, Reduction, ValueId)],
        each: &dyn Fn(&Self, Option<usize>) -> String,
    ) {
        let needed = self.needed(roots);
        let (columns, lanes) = (self.columns, self.schedule.lanes);
        if let Some(steps) = self.schedule.unrolled {
            self.written_out(&needed, steps, each);
            for id in needed {
                self.done[id as usize] = true;
            }
            return;
        }
        let start = if lanes == 1 { "0u" } else { "row_lane" };
        let whole = columns / (4 * lanes) * 4 * lanes;
        if whole > 0 {
            let step = 4 * lanes;
            let (mut levels, mut loops) = (0, whole / step);
            while !sums.is_empty() && loops > BLOCK {
                (levels, loops) = (levels + 1, loops.div_ceil(BLOCK));
            }
            let (mut from, mut end) = (start.to_string(), Unsigned(whole).to_string());
            for level in (1..=levels).rev() {
                let (i, span) = (format!("i{level}"), step * BLOCK.pow(level));
                self.level += 1;
                put!(self.text, "for (var {i} = {from}; {i} < {end}; {i} += {span}u) {{\n");
                put!(self.text, "let end{level} = min({i} + {span}u, {end});\n");
                for &(id, op, x) in sums {
                    let identity = self.identity(op, self.dtype(id), x);
                    let name = self.accumulator(id);
                    put!(self.text, "var {name} = {identity};\n");
                }
                (from, end) = (i, format!("end{level}"));
            }
            put!(self.text, "for (var j = {from}; j < {end}; j += {step}u) {{\n");
            for k in 0..4 {
                put!(self.text, "let j_{k} = j + {}u;\n", k * lanes);
                self.text += &self.coordinates(&format!("j_{k}"), &format!("_{k}"));
            }
            self.written_out(&needed, 4, each);
            self.text += "}\n";
            for _ in 0..levels {
                let blocks: Vec<String> = sums.iter().map(|sum| self.accumulator(sum.0)).collect();
                self.level -= 1;
                for (&(id, op, x), block) in sums.iter().zip(blocks) {
                    let (all, dtype, wide) =
                        (self.accumulator(id), self.dtype(id), self.gathers(x));
                    let sum = self.place(None).combine(op, &all, &block, dtype, wide);
                    put!(self.text, "{all} = {sum};\n");
                }
                self.text += "}\n";
            }
        }
        if whole < columns {
            let (from, end) = (Unsigned(whole), Unsigned(columns));
            let start = format!("{from} + {start}");
            put!(self.text, "for (var j = {start}; j < {end}; j += {lanes}u) {{\n");
            self.text += &self.coordinates("j", "");
            for id in needed {
                self.text += &self.place(None).define(id);
            }
            self.text += &each(self, None);
            self.text += "}\n";
        }
    }

    /// Returns the variable that accumulates a reduction. Inside a block, a sum has a variable for the block.
    fn accumulator(&self, id: ValueId) -> String {
        match self.level {
            level if level > 0 && self.is_rounded(id) => format!("r{id}_{level}"),
            _ => format!("r{id}"),
        }
    }

    /// Whether each step of a reduction rounds, because it is a sum of floats.
    fn is_rounded(&self, id: ValueId) -> bool {
        matches!(self.program.insts[id as usize], Inst::Reduce(Reduction::Sum, _))
            && self.dtype(id).is_float()
    }

    fn written_out(
        &mut self,
        needed: &[ValueId],
        steps: usize,
        each: &dyn Fn(&Self, Option<usize>) -> String,
    ) {
        for &id in needed {
            for k in 0..steps {
                self.text += &self.place(Some(k)).define(id);
            }
        }
        for k in 0..steps {
            self.text += &each(self, Some(k));
        }
    }

    fn coordinates(&self, from: &str, suffix: &str) -> String {
        let quad = self.vector().map(|vector| vector.axis);
        decompose(from, self.inner, self.outer, self.used, suffix, quad)
    }

    fn vector(&self) -> Option<&'a Vector> {
        self.schedule.vector.as_ref()
    }

    /// Whether vectors are along a row.
    fn in_row(&self) -> bool {
        self.vector().is_some_and(|vector| vector.axis as usize >= self.outer)
    }

    /// Whether `x` is reduced four elements at a time.
    fn gathers(&self, x: ValueId) -> bool {
        self.in_row() || self.vector().is_some_and(|vector| vector.values[x as usize])
    }

    /// Returns the initial value of a reduction of `x`, as wide as its accumulator.
    fn identity(&self, op: Reduction, dtype: DType, x: ValueId) -> String {
        let value = literal(Const { dtype, bits: op.identity(dtype) });
        format!("{}({value})", type_name(dtype, self.gathers(x)))
    }

    /// Prints one walk over the row. `r7` accumulates the elements of this thread, and `v7` combines the threads' results.
    fn reduce(&mut self, stage: u32) {
        let reduces = self.reduces(stage);
        let (mut roots, mut walked) = (Vec::new(), Vec::new());
        for &(id, op, x) in &reduces {
            let (dtype, wide) = (self.dtype(id), self.gathers(x));
            let mut first = self.identity(op, dtype, x);
            // The extreme of one value is that value. Without this case, Lavapipe's compiler does not terminate in reasonable
            // time.
            let is_known = self.columns > 0
                && !self.varying[x as usize]
                && !matches!(op, Reduction::Sum | Reduction::Prod);
            if is_known {
                let place = self.place(None);
                first = place.combine(op, &first, &place.operand(x, wide), dtype, wide);
            } else {
                roots.push(x);
                walked.push((id, op, x));
            }
            put!(self.text, "var r{id} = {first};\n");
        }
        let mut sums = walked.clone();
        sums.retain(|&(id, ..)| self.is_rounded(id));
        let each = |writer: &Self, step| {
            let mut text = String::new();
            for &(id, op, x) in &walked {
                let (dtype, wide) = (writer.dtype(id), writer.gathers(x));
                let combine = |x: &str, y: &str| writer.place(None).combine(op, x, y, dtype, wide);
                let operand = |step| writer.place(step).operand(x, wide);
                let mut value = operand(step);
                let looped = writer.schedule.unrolled.is_none();
                if let (Some(k), true, true) = (step, looped, writer.is_rounded(id)) {
                    // The four steps are added in pairs, after the last of them.
                    if k < 3 {
                        continue;
                    }
                    value = if writer.varying[x as usize] {
                        let low = combine(&operand(Some(0)), &operand(Some(1)));
                        let high = combine(&operand(Some(2)), &operand(Some(3)));
                        format!("({})", combine(&format!("({low})"), &format!("({high})")))
                    } else {
                        // All four are the same value. The product is exact, like the sum in pairs would be.
                        format!("(4.0 * {})", operand(Some(0)))
                    };
                }
                if let Some(inside) = writer.inside(step) {
                    value = format!("select({}, {value}, {inside})", writer.identity(op, dtype, x));
                }
                let all = writer.accumulator(id);
                let sum = combine(&all, &value);
                put!(text, "{all} = {sum};\n");
            }
            text
        };
        if !walked.is_empty() {
            self.walk(&roots, &sums, &each);
        }
        if self.schedule.lanes > 1 {
            self.combine_lanes(stage, &reduces);
            return;
        }
        for &(id, op, _) in &reduces {
            let result = self.horizontal(id, op);
            put!(self.text, "let v{id} = {result};\n");
        }
    }

    /// Combines the four elements of a `vec4` if they are in one row.
    fn horizontal(&self, id: ValueId, op: Reduction) -> String {
        if !self.in_row() {
            return format!("r{id}");
        }
        let (place, dtype) = (self.place(None), self.dtype(id));
        let combine = |x: &str, y: &str| place.combine(op, x, y, dtype, false);
        let low = combine(&format!("r{id}.x"), &format!("r{id}.y"));
        let high = combine(&format!("r{id}.z"), &format!("r{id}.w"));
        combine(&format!("({low})"), &format!("({high})"))
    }

    fn is_element(&self, store: &Store) -> bool {
        self.varying[store.value as usize] || store.index.varies(self.outer, &self.varying)
    }

    /// Returns the stores of elements, or of rows.
    fn stores(&self, step: Option<usize>, elements: bool) -> String {
        let mut text = String::new();
        for store in self.program.stores.iter().filter(|s| self.is_element(s) == elements) {
            text += &self.place(step).store(store);
        }
        text
    }

    fn element_stores(&mut self) {
        let mut roots = Vec::new();
        for store in self.program.stores.iter().filter(|store| self.is_element(store)) {
            roots.push(store.value);
            roots.extend(store.index.values());
        }
        if roots.is_empty() {
            return;
        }
        self.walk(&roots, &[], &|writer, step| {
            guarded([writer.valid(), writer.inside(step)], &writer.stores(step, true))
        });
    }

    fn row_stores(&mut self) {
        let text = self.stores(None, false);
        let first = (self.schedule.lanes > 1).then(|| "row_lane == 0u".to_string());
        self.text += &guarded([first, self.valid()], &text);
    }
}
