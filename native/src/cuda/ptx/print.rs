//! The printer: from the linear IR to the text of a PTX module.
//!
//! Rounding is always explicit (`add.rn`), because an assembler may otherwise combine a product and a sum with one rounding.

use crate::cuda::ptx::ir::{
    Access, Address, AtomicOp, Class, Cmp, Inst, Op, Operand, Program, Reg, Rounding, Shuffle,
    Space,
};
use crate::cuda::ptx::ir::{Special, Ty, Vote};
use crate::cuda::ptx::options::Options;
use std::fmt::Write;

/// The architectures that PTX can name, each with the PTX version that knows it.
const TARGETS: [(u32, &str); 12] = [
    (75, "7.0"),
    (80, "7.0"),
    (86, "7.1"),
    (87, "7.4"),
    (89, "7.8"),
    (90, "7.8"),
    (100, "8.6"),
    (103, "8.8"),
    (110, "9.0"),
    (120, "8.7"),
    (121, "8.8"),
    (u32::MAX, "9.0"),
];

/// The most static shared memory of a kernel, in bytes.
pub const MAX_STATIC_SHARED_BYTES: u32 = 49_152;

/// Prints a kernel as a PTX module for the newest known architecture that is not newer than that of the options.
pub fn print(
    program: &Program,
    symbol: &str,
    workgroup_size: [u32; 3],
    options: &Options,
) -> String {
    let sm = options.sm;
    let (target, version) =
        TARGETS.iter().rev().find(|(target, _)| *target <= sm).copied().unwrap_or(TARGETS[0]);
    let mut printer = Printer {
        body: String::with_capacity(program.instructions.len() * 32),
        names: vec![u32::MAX; program.registers as usize],
        counts: [0; 4],
    };
    for inst in &program.instructions {
        printer.inst(inst);
    }
    let mut text = String::with_capacity(printer.body.len() + 2048);
    let _ = write!(text, ".version {version}\n.target sm_{target}\n.address_size 64\n\n");
    for (at, words) in program.tables.iter().enumerate() {
        let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
        let _ = writeln!(
            text,
            ".const .align 4 .b32 table_{at}[{}] = {{{}}};",
            words.len(),
            words.join(", ")
        );
    }
    let is_dynamic = program.shared_bytes > MAX_STATIC_SHARED_BYTES;
    if is_dynamic {
        text.push_str(".extern .shared .align 16 .b8 shared_memory[];\n");
    }
    let params: Vec<String> =
        (0..program.params).map(|at| format!("    .param .u64 param_{at}")).collect();
    let [x, y, z] = workgroup_size;
    let _ = write!(
        text,
        ".visible .entry {symbol}(\n{}\n)\n.reqntid {x}, {y}, {z}\n",
        params.join(",\n")
    );
    if let Some(registers) = options.max_registers {
        let _ = writeln!(text, ".maxnreg {}", registers.clamp(16, 255));
    }
    text.push_str("{\n");
    for (class, count) in [("pred", 0), ("b16", 1), ("b32", 2), ("b64", 3)] {
        if printer.counts[count] > 0 {
            let _ =
                writeln!(text, "    .reg .{class} {}<{}>;", PREFIXES[count], printer.counts[count]);
        }
    }
    if program.shared_bytes > 0 && !is_dynamic {
        let bytes = program.shared_bytes.next_multiple_of(16);
        let _ = writeln!(text, "    .shared .align 16 .b8 shared_memory[{bytes}];");
    }
    if program.local_bytes > 0 {
        let bytes = program.local_bytes.next_multiple_of(16);
        let _ = writeln!(text, "    .local .align 16 .b8 local_memory[{bytes}];");
    }
    text.push_str(&printer.body);
    text.push_str("}\n");
    text
}

const PREFIXES: [&str; 4] = ["%p", "%h", "%r", "%d"];

struct Printer {
    body: String,
    /// The number of each register among those of its class.
    names: Vec<u32>,
    counts: [u32; 4],
}

/// An operand in text.
#[derive(Clone, Copy)]
enum Text {
    Register(usize, u32),
    F32(u32),
    Integer(u64),
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Text::Register(class, number) => write!(f, "{}{number}", PREFIXES[*class]),
            Text::F32(bits) => write!(f, "0f{bits:08X}"),
            Text::Integer(value) => write!(f, "{value}"),
        }
    }
}

fn index(class: Class) -> usize {
    match class {
        Class::Pred => 0,
        Class::B16 => 1,
        Class::B32 => 2,
        Class::B64 => 3,
    }
}

fn bits(class: Class) -> &'static str {
    ["pred", "b16", "b32", "b64"][index(class)]
}

fn name(ty: Ty) -> &'static str {
    match ty {
        Ty::Pred => "pred",
        Ty::F16 => "f16",
        Ty::U32 => "u32",
        Ty::S32 => "s32",
        Ty::F32 => "f32",
        Ty::U64 => "u64",
    }
}

fn braces(names: &[Text]) -> String {
    let list: Vec<String> = names.iter().map(Text::to_string).collect();
    format!("{{{}}}", list.join(", "))
}

/// Prints one line.
macro_rules! line {
    ($printer:expr, $($arg:tt)*) => {{
        let _ = writeln!($printer.body, $($arg)*);
    }};
}

impl Printer {
    fn fresh(&mut self, class: Class) -> Text {
        let at = index(class);
        self.counts[at] += 1;
        Text::Register(at, self.counts[at] - 1)
    }

    fn reg(&mut self, reg: Reg) -> Text {
        let at = index(reg.class);
        match self.names.get(reg.id as usize) {
            Some(&name) if name != u32::MAX => return Text::Register(at, name),
            _ => {}
        }
        let text = self.fresh(reg.class);
        if let (Some(slot), Text::Register(_, name)) = (self.names.get_mut(reg.id as usize), text) {
            *slot = name;
        }
        text
    }

    /// Returns the text of an operand. A constant of `f16` or `bool` needs a register.
    fn operand(&mut self, operand: Operand, ty: Ty) -> Text {
        match (operand, ty) {
            (Operand::Reg(reg), _) => self.reg(reg),
            (Operand::Const(..), Ty::Pred | Ty::F16) => self.in_register(operand),
            (Operand::Const(_, bits), Ty::F32) => Text::F32(bits as u32),
            (Operand::Const(_, bits), _) => Text::Integer(bits),
        }
    }

    /// Returns the text of an operand that must be a register.
    fn in_register(&mut self, operand: Operand) -> Text {
        match operand {
            Operand::Reg(reg) => self.reg(reg),
            Operand::Const(class, bits) => {
                let text = self.fresh(class);
                self.constant(text, class, bits);
                text
            }
        }
    }

    fn constant(&mut self, dst: Text, class: Class, value: u64) {
        match class {
            Class::Pred => {
                let cmp = if value != 0 { "eq" } else { "ne" };
                let zero = self.fresh(Class::B32);
                line!(self, "    mov.b32 {zero}, 0;");
                line!(self, "    setp.{cmp}.u32 {dst}, {zero}, 0;");
            }
            _ => line!(self, "    mov.{} {dst}, {value};", bits(class)),
        }
    }

    fn inst(&mut self, inst: &Inst) {
        match inst {
            Inst::Pure { op, dst, args } => self.pure(*op, *dst, args),
            Inst::Load { address, access, bytes, dst } => {
                let at = self.address(address);
                let names: Vec<Text> = dst.iter().map(|reg| self.reg(*reg)).collect();
                let (vector, list) = self.vector(&names);
                let access = match (access, address.space) {
                    (Access::ReadOnly, Space::Global) => ".global.nc",
                    (Access::Relaxed, Space::Global) => ".relaxed.gpu.global",
                    (Access::Relaxed, Space::Shared) => ".relaxed.cta.shared",
                    (_, space) => space_name(space),
                };
                line!(self, "    ld{access}{vector}.{} {list}, {at};", memory_type(*bytes));
            }
            Inst::Store { address, access, bytes, values } => {
                let names: Vec<Text> =
                    values.iter().map(|value| self.in_register(*value)).collect();
                let at = self.address(address);
                let (vector, list) = self.vector(&names);
                let access = match (access, address.space) {
                    (Access::Relaxed, Space::Global) => ".relaxed.gpu.global",
                    (Access::Relaxed, Space::Shared) => ".relaxed.cta.shared",
                    (_, space) => space_name(space),
                };
                line!(self, "    st{access}{vector}.{} {at}, {list};", memory_type(*bytes));
            }
            Inst::Atomic { address, op, ty, dst, value } => {
                self.atomic(address, *op, *ty, *dst, *value)
            }
            Inst::Shuffle { mode, dst, value, lane, mask } => {
                let value = self.in_register(*value);
                let (lane, mask) = (self.operand(*lane, Ty::U32), self.operand(*mask, Ty::U32));
                let dst = self.reg(*dst);
                let (mode, clamp) = match mode {
                    Shuffle::Index => ("idx", 31),
                    Shuffle::Up => ("up", 0),
                    Shuffle::Down => ("down", 31),
                    Shuffle::Xor => ("bfly", 31),
                };
                line!(self, "    shfl.sync.{mode}.b32 {dst}, {value}, {lane}, {clamp}, {mask};");
            }
            Inst::Vote { mode, dst, value, mask } => {
                let value = self.in_register(*value);
                let mask = self.operand(*mask, Ty::U32);
                let dst = self.reg(*dst);
                let mode = match mode {
                    Vote::All => "all.pred",
                    Vote::Any => "any.pred",
                    Vote::Ballot => "ballot.b32",
                };
                line!(self, "    vote.sync.{mode} {dst}, {value}, {mask};");
            }
            Inst::ActiveMask { dst } => {
                let dst = self.reg(*dst);
                line!(self, "    activemask.b32 {dst};");
            }
            Inst::Barrier => line!(self, "    bar.sync 0;"),
            Inst::WarpBarrier { mask } => {
                let mask = self.operand(*mask, Ty::U32);
                line!(self, "    bar.warp.sync {mask};");
            }
            Inst::MultiplyMatrices { .. }
            | Inst::LoadMatrices { .. }
            | Inst::CopyAsync { .. }
            | Inst::CommitCopies
            | Inst::WaitCopies(_) => self.tensor_core(inst),
            Inst::Label(label) => line!(self, "$L{label}:"),
            Inst::Jump { label, condition: None } => line!(self, "    bra $L{label};"),
            Inst::Jump { label, condition: Some((condition, expected)) } => {
                let condition = self.in_register(*condition);
                let not = if *expected { "" } else { "!" };
                line!(self, "    @{not}{condition} bra $L{label};");
            }
            Inst::Copies(copies) => {
                for (dst, value) in copies {
                    self.pure(Op::Move, *dst, &[*value; 3]);
                }
            }
            Inst::Exit => line!(self, "    ret;"),
        }
    }

    /// Prints an instruction of tensor cores or asynchronous copies.
    fn tensor_core(&mut self, inst: &Inst) {
        match inst {
            Inst::MultiplyMatrices { dst, a, b, c } => {
                let [a, b, c] = [&a[..], b, c].map(|args| self.list(args));
                let dst = self.list(&dst.map(Operand::Reg));
                let shape = "m16n8k16.row.col.f32.f16.f16.f32";
                line!(self, "    mma.sync.aligned.{shape} {dst}, {a}, {b}, {c};");
            }
            Inst::LoadMatrices { dst, address, is_transposed } => {
                let at = self.address(address);
                let dst = self.list(&dst.map(Operand::Reg));
                let transposed = if *is_transposed { ".trans" } else { "" };
                line!(
                    self,
                    "    ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {dst}, {at};"
                );
            }
            Inst::CopyAsync { to, from, bytes, count } => {
                let (to, from) = (self.address(to), self.address(from));
                let count = self.operand(*count, Ty::U32);
                // Copies of 16 bytes bypass the first cache, because a tile is read once.
                let cache = if *bytes == 16 { "cg" } else { "ca" };
                line!(self, "    cp.async.{cache}.shared.global {to}, {from}, {bytes}, {count};");
            }
            Inst::CommitCopies => line!(self, "    cp.async.commit_group;"),
            Inst::WaitCopies(groups) => line!(self, "    cp.async.wait_group {groups};"),
            _ => {}
        }
    }

    fn address(&mut self, address: &Address) -> String {
        let base = self.in_register(address.base);
        match address.offset {
            0 => format!("[{base}]"),
            offset => format!("[{base}+{offset}]"),
        }
    }

    fn vector(&mut self, names: &[Text]) -> (&'static str, String) {
        match names {
            [single] => ("", single.to_string()),
            _ => (if names.len() == 2 { ".v2" } else { ".v4" }, braces(names)),
        }
    }

    /// Returns the list of the registers of a matrix.
    fn list(&mut self, args: &[Operand]) -> String {
        let names: Vec<Text> = args.iter().map(|arg| self.in_register(*arg)).collect();
        braces(&names)
    }

    fn atomic(
        &mut self,
        address: &Address,
        op: AtomicOp,
        ty: Ty,
        dst: Option<Reg>,
        value: Operand,
    ) {
        let value = self.in_register(value);
        let compare = match op {
            AtomicOp::CompareExchange(compare) => Some(self.in_register(compare)),
            _ => None,
        };
        let at = self.address(address);
        let space = space_name(address.space);
        let op = match op {
            AtomicOp::Add => format!("add.{}", if ty == Ty::F32 { "f32" } else { "u32" }),
            AtomicOp::And => "and.b32".to_string(),
            AtomicOp::Or => "or.b32".to_string(),
            AtomicOp::Xor => "xor.b32".to_string(),
            AtomicOp::Min => format!("min.{}", name(ty)),
            AtomicOp::Max => format!("max.{}", name(ty)),
            AtomicOp::Exchange => "exch.b32".to_string(),
            AtomicOp::CompareExchange(_) => "cas.b32".to_string(),
        };
        let needs_result = op.starts_with("exch") || op.starts_with("cas");
        let dst = match dst {
            Some(dst) => self.reg(dst),
            None if needs_result => self.fresh(Class::B32),
            None => {
                line!(self, "    red{space}.{op} {at}, {value};");
                return;
            }
        };
        match compare {
            Some(compare) => line!(self, "    atom{space}.{op} {dst}, {at}, {compare}, {value};"),
            None => line!(self, "    atom{space}.{op} {dst}, {at}, {value};"),
        }
    }

    fn pure(&mut self, op: Op, dst: Reg, args: &[Operand; 3]) {
        if op == Op::Move {
            let name = self.reg(dst);
            match args[0] {
                Operand::Reg(source) => {
                    let source = self.reg(source);
                    line!(self, "    mov.{} {name}, {source};", bits(dst.class));
                }
                Operand::Const(class, value) => self.constant(name, class, value),
            }
            return;
        }
        let (opcode, types) = opcode(op, args[0].class());
        let mut names = [Text::Integer(0); 3];
        for ((name, arg), ty) in names.iter_mut().zip(args).zip(types).take(op.arity()) {
            *name = self.operand(*arg, ty);
        }
        let dst = self.reg(dst);
        match op {
            Op::Param(at) => line!(self, "    ld.param.u64 {dst}, [param_{at}];"),
            Op::SharedBase => line!(self, "    mov.u32 {dst}, shared_memory;"),
            Op::LocalBase => line!(self, "    mov.u64 {dst}, local_memory;"),
            Op::TableBase(at) => line!(self, "    mov.u64 {dst}, table_{at};"),
            Op::Special(special) => {
                let (name, axis) = match special {
                    Special::Thread(axis) => ("tid", axis),
                    Special::Group(axis) => ("ctaid", axis),
                    Special::Groups(axis) => ("nctaid", axis),
                };
                let axis = ["x", "y", "z"][usize::from(axis.min(2))];
                line!(self, "    mov.u32 {dst}, %{name}.{axis};");
            }
            _ => {
                let [a, b, c] = names;
                match op.arity() {
                    1 => line!(self, "    {opcode} {dst}, {a};"),
                    2 => line!(self, "    {opcode} {dst}, {a}, {b};"),
                    _ => line!(self, "    {opcode} {dst}, {a}, {b}, {c};"),
                }
            }
        }
    }
}

fn space_name(space: Space) -> &'static str {
    match space {
        Space::Global => ".global",
        Space::Shared => ".shared",
        Space::Local => ".local",
        Space::Constant => ".const",
    }
}

fn memory_type(bytes: u32) -> &'static str {
    match bytes {
        1 => "u8",
        2 => "b16",
        8 => "b64",
        _ => "b32",
    }
}

/// Returns the opcode of an operation with its suffixes, and the types of its operands.
fn opcode(op: Op, first: Class) -> (String, [Ty; 3]) {
    let same = |text: String, ty: Ty| (text, [ty; 3]);
    // Integers wrap, so their sign does not matter.
    let integer = |opcode: &str, ty: Ty| same(format!("{opcode}.{}", name(ty)), ty);
    let float = |opcode: &str, ty: Ty| same(format!("{opcode}.rn.{}", name(ty)), ty);
    let bitwise = |opcode: &str, class: Class| {
        let ty = if class == Class::Pred { Ty::Pred } else { Ty::U32 };
        same(format!("{opcode}.{}", bits(class)), ty)
    };
    match op {
        Op::Add(ty) if ty.is_float() => float("add", ty),
        Op::Sub(ty) if ty.is_float() => float("sub", ty),
        Op::Mul(ty) if ty.is_float() => float("mul", ty),
        Op::Div(ty) if ty.is_float() => float("div", ty),
        Op::Fma(ty) => float("fma", ty),
        Op::Add(ty) => integer("add", ty),
        Op::Sub(ty) => integer("sub", ty),
        Op::Mul(ty) => integer("mul.lo", ty),
        Op::Div(ty) => integer("div", ty),
        Op::Rem(ty) => integer("rem", ty),
        Op::Neg(Ty::U32) => integer("neg", Ty::S32),
        Op::Neg(ty) => integer("neg", ty),
        Op::Abs(ty) => integer("abs", ty),
        Op::Min(ty) => integer("min", ty),
        Op::Max(ty) => integer("max", ty),
        Op::Shr(ty) => integer("shr", ty),
        Op::MulHigh => same("mul.hi.u32".to_string(), Ty::U32),
        Op::MulAddWide => ("mad.wide.u32".to_string(), [Ty::U32, Ty::U32, Ty::U64]),
        Op::And => bitwise("and", first),
        Op::Or => bitwise("or", first),
        Op::Xor => bitwise("xor", first),
        Op::Not => bitwise("not", first),
        Op::Shl => same("shl.b32".to_string(), Ty::U32),
        Op::ShrU64 => ("shr.u64".to_string(), [Ty::U64, Ty::U32, Ty::U32]),
        Op::Compare(cmp, ty) => {
            let cmp = match cmp {
                Cmp::Eq => "eq",
                Cmp::Ne if ty.is_float() => "neu",
                Cmp::Ne => "ne",
                Cmp::Lt => "lt",
                Cmp::Le => "le",
                Cmp::Gt => "gt",
                Cmp::Ge => "ge",
            };
            same(format!("setp.{cmp}.{}", name(ty)), ty)
        }
        Op::Select => (format!("selp.{}", bits(first)), [Ty::U32, Ty::U32, Ty::Pred]),
        Op::Sqrt => same("sqrt.rn.f32".to_string(), Ty::F32),
        Op::Round(mode) => {
            let mode = match mode {
                Rounding::Down => "rmi",
                Rounding::Up => "rpi",
                Rounding::Zero => "rzi",
                Rounding::NearestEven => "rni",
            };
            same(format!("cvt.{mode}.f32.f32"), Ty::F32)
        }
        Op::Convert(from, to) => {
            let rounding = match (from, to) {
                (Ty::F32, Ty::U32 | Ty::S32) => ".rzi",
                (Ty::F32, Ty::F16) | (Ty::U32 | Ty::S32, Ty::F32) => ".rn",
                _ => "",
            };
            same(format!("cvt{rounding}.{}.{}", name(to), name(from)), from)
        }
        Op::Widen => same("cvt.u32.u16".to_string(), Ty::F16),
        Op::Narrow => same("cvt.u16.u32".to_string(), Ty::U32),
        Op::Popc => same("popc.b32".to_string(), Ty::U32),
        Op::Clz => same("clz.b32".to_string(), Ty::U32),
        Op::Brev => same("brev.b32".to_string(), Ty::U32),
        Op::Dot4(ty) => same(format!("dp4a.{0}.{0}", name(ty)), Ty::U32),
        Op::GlobalAddress => same("cvta.to.global.u64".to_string(), Ty::U64),
        Op::Move
        | Op::Special(_)
        | Op::Param(_)
        | Op::SharedBase
        | Op::LocalBase
        | Op::TableBase(_) => same(String::new(), Ty::U32),
    }
}
