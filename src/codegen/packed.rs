//! Products with packed matrices: the code that decodes a format, and the shaders that contain it.
//!
//! Numbers are decoded four neighbors (a quad) at a time, by functions generated from the format's [`Layout`]. A thread that
//! decodes a whole unit of a row, which is eight quads, loads each word of quants once, and computes each group's scale once.

use crate::codegen::dialect::Dialect;
use crate::codegen::module::Module;
use crate::codegen::routine;
use crate::codegen::shader::Shader;
use crate::codegen::sizes::Unsigned;
use crate::codegen::slot::{fill, Slot};
use crate::codegen::source::Source;
use crate::kernel::PackedMatmul;
use crate::op::packed::{Layout, PackedFormat, Planes, Quants, Shared, SUPER};
use crate::schedule::{PackedSchedule, ProductSchedule, Schedule, PACKED_UNIT, VECTOR};

const PACKED_MATMUL: &str = shader!("packed_matmul");

/// The arguments of the function that loads a word of the matrix, which are also its coordinates.
const WORD: &[&str] = &["row", "word"];

/// The code that handles the sums of a thread that works alone.
const RESULTS_ALONE: &str = "
if (row + EACH < M && col + OTHER < N) { epilogue(row + EACH, col + OTHER, sum_each_other); }
";

/// Prints a product whose threads decode whole units of rows.
pub fn units(
    packed: &PackedMatmul,
    units: &PackedSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let &PackedMatmul { m, n, k, .. } = packed;
    let (decoder, module) = (Decoder::new(packed.format, k), Module::new(dialect));
    let mut shader = Shader::new(PACKED_MATMUL);
    shader.replace("w_vec4", &decoder.functions(&module));
    shader.replace_region("unit", &decoder.unit());
    if units.lanes == 1 {
        shader.replace("parts", "");
        shader.replace_region("results", RESULTS_ALONE);
    }
    let bounds: &[_] = match decoder.has_whole_units() {
        true => {
            shader.replace(
                "inside_x",
                "fn inside_x(row: u32, col: u32) -> f32 {\nreturn load_x(row, col);\n}\n",
            );
            &[]
        }
        false => &[("col", k)],
    };
    shader.repeat(units.rows);
    shader.repeat_other(units.columns);
    shader.sizes(&[("M", m.max(1)), ("N", n.max(1)), ("K", k), ("LAST_K", k.saturating_sub(1))]);
    shader.constants(&[
        ("ROWS", units.rows),
        ("COLUMNS", units.columns),
        ("LANES", units.lanes),
        ("THREADS", schedule.workgroup_size),
    ]);
    const CELL: &[&str] = &["row", "col"];
    let (cell, word) = (["i32(row)".to_string(), "i32(col)".to_string()], word());
    let slots = vec![
        Slot::operand("x", &packed.x, CELL, &cell).vector(&units.vector, bounds),
        Slot::operand("w", &packed.w, WORD, &word),
        Slot::epilogue(&packed.epilogue, CELL, &cell),
    ];
    fill(shader, slots, module, schedule.workgroups)
}

/// Prints a product in tiles, whose left operand is the packed matrix.
pub fn tiles(
    packed: &PackedMatmul,
    product: &ProductSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let decoder = Decoder::new(packed.format, packed.k);
    let (mut shader, module) = routine::tiles(product, dialect);
    shader.replace("load_a", &decoder.functions(&module));
    shader.replace("inside_a", "");
    shader.replace("a_vec4", &decoder.quad());
    shader.add("load_w");
    const CELL: &[&str] = &["batch", "row", "col"];
    let (turned, word) = (["i32(col)".to_string(), "i32(row)".to_string()], word());
    let slots = vec![
        Slot::operand("w", &packed.w, WORD, &word),
        Slot::operand("b", &packed.x, CELL, &turned),
        Slot::epilogue(&packed.epilogue, CELL, &turned),
    ];
    fill(shader, slots, module, schedule.workgroups)
}

fn word() -> [String; 2] {
    ["i32(row)".to_string(), "i32(word)".to_string()]
}

/// A printer of the code that decodes the rows of a matrix.
struct Decoder {
    layout: Layout,
    planes: Planes,
    columns: usize,
}

impl Decoder {
    fn new(format: PackedFormat, columns: usize) -> Decoder {
        Decoder { layout: format.layout(), planes: format.planes(columns), columns }
    }

    /// Whether each row is a whole number of units. Only formats without blocks and scales can have other rows.
    fn has_whole_units(&self) -> bool {
        self.columns.is_multiple_of(PACKED_UNIT)
    }

    /// Prints the functions for a group's scale and minimum, and for the numbers that quants represent.
    fn functions(&self, module: &Module) -> String {
        let (layout, planes) = (&self.layout, &self.planes);
        let mut text = String::new();
        let scale = (planes.scales, layout.scale_bits, planes.super_scales);
        if layout.scale != Shared::Nothing {
            let scale = shared(module, layout, layout.scale, scale);
            put!(text, "fn scale_w(row: u32, group: u32) -> f32 {{\nreturn {scale};\n}}\n");
        }
        let minimum = (planes.minima, layout.minimum_bits, planes.super_minima);
        if layout.minimum != Shared::Nothing {
            let sign = if layout.minimum.in_supers() { "-" } else { "" };
            let minimum = shared(module, layout, layout.minimum, minimum);
            put!(
                text,
                "fn minimum_w(row: u32, group: u32) -> f32 {{\nreturn {sign}{minimum};\n}}\n"
            );
        }
        let kind = if self.is_integer() { "f32" } else { "u32" };
        put!(text, "fn numbers_w(quants: vec4<{kind}>) -> vec4<f32> {{\n");
        match layout.quants {
            Quants::Single => text += "return bitcast<vec4<f32>>(quants);\n",
            Quants::Half => {
                let half = module.fill("{half_of}({x})", true, "quants", "");
                put!(text, "return {half};\n");
            }
            Quants::Brain => text += "return bitcast<vec4<f32>>(quants << vec4<u32>(16u));\n",
            // `integers` adds 128 to all bytes except the last, whose sign is the sign of the word.
            Quants::Signed => text += "return quants - vec4<f32>(128.0, 128.0, 128.0, 0.0);\n",
            Quants::From(0) => text += "return quants;\n",
            Quants::From(zero) => put!(text, "return quants - {zero}.0;\n"),
            Quants::Table(table) => {
                let word =
                    |n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|i| table[4 * n + i] as u8));
                let choose = |name: &str, n: usize, below: u32| {
                    let (yes, no) = (word(n), word(n + 1));
                    format!(
                        "let {name} = select(vec4<u32>({no}u), vec4<u32>({yes}u), quants < vec4<u32>({below}u));\n"
                    )
                };
                text += &choose("low", 0, 4);
                text += &choose("high", 2, 12);
                put!(
                    text,
                    "let words = select(high, low, quants < vec4<u32>(8u));
                    let moved = words << (vec4<u32>(24u) - ((quants & vec4<u32>(3u)) << vec4<u32>(3u)));
                    return vec4<f32>(bitcast<vec4<i32>>(moved) >> vec4<u32>(24u));\n"
                );
            }
        }
        text + "}\n"
    }

    /// Returns the load of a word of a row, in a plane that begins at `start`.
    fn load(&self, row: &str, start: usize, at: &str) -> String {
        let at = if start == 0 { at.to_string() } else { format!("{} + {at}", Unsigned(start)) };
        match self.has_whole_units() {
            true => format!("load_w({row}, {at})"),
            false => format!("load_w({row}, min({at}, {}))", Unsigned(self.planes.words - 1)),
        }
    }

    /// Whether quants are integers, which [`integers`] converts to floats.
    fn is_integer(&self) -> bool {
        matches!(self.layout.quants, Quants::Signed | Quants::From(_))
    }

    /// Returns four quants of a plane from their words. The first begins at bit `shift`.
    fn fields(&self, width: u32, words: &[String], shift: &str) -> String {
        match self.is_integer() {
            true => integers(width, &words[0], shift, self.layout.quants == Quants::Signed),
            false => fields(width, words, shift),
        }
    }

    /// Combines four quants from their two planes.
    fn quants(&self, low: &str, high: Option<String>) -> String {
        match high {
            Some(high) if self.is_integer() => {
                format!("({low} + {high} * {}.0)", 1 << self.layout.bits[0])
            }
            Some(high) => format!("{low} | ({high} << vec4<u32>({}u))", self.layout.bits[0]),
            None => low.to_string(),
        }
    }

    /// Returns the numbers of a quad, from its quants and the names of its group's scale and minimum.
    fn numbers(&self, quants: &str, scale: &str, minimum: &str) -> String {
        let mut text = format!("numbers_w({quants})");
        if self.layout.scale != Shared::Nothing {
            put!(text, " * {scale}");
        }
        if self.layout.minimum != Shared::Nothing {
            put!(text, " + {minimum}");
        }
        text
    }

    /// Returns a quad that begins at `col`, with 0 for columns out of range.
    fn inside(&self, quad: &str, col: &str) -> String {
        match self.has_whole_units() {
            true => quad.to_string(),
            false => {
                let columns = Unsigned(self.columns);
                let at = format!("vec4<u32>({col}) + vec4<u32>(0u, 1u, 2u, 3u)");
                format!("select(vec4<f32>(), {quad}, {at} < vec4<u32>({columns}))")
            }
        }
    }

    /// Returns the statements that multiply a unit with rows of the other operand. Each step takes a quad of the first half
    /// and a quad of the second half, because quants of 4 bits have both in one word.
    fn unit(&self) -> String {
        let layout = &self.layout;
        let (mut before, mut each) = (String::new(), String::new());
        let groups = PACKED_UNIT / layout.group;
        for group in 0..groups {
            let at = format!("{groups}u * unit + {group}u");
            if layout.scale != Shared::Nothing {
                put!(before, "let scale{group}_other = scale_w(col_other, {at});\n");
            }
            if layout.minimum != Shared::Nothing {
                put!(before, "let minimum{group}_other = minimum_w(col_other, {at});\n");
            }
        }
        let low = self.pair(0, &mut before, &mut each);
        let high = match layout.bits[1] {
            0 => [None, None],
            _ => self.pair(1, &mut before, &mut each).map(Some),
        };
        for (half, (low, high)) in low.iter().zip(high).enumerate() {
            let (name, group) = (["near", "far"][half], half * (groups - 1));
            let (scale, minimum) = (format!("scale{group}_other"), format!("minimum{group}_other"));
            let col = format!("{PACKED_UNIT}u * unit + {}u + 4u * pair", half * PACKED_UNIT / 2);
            let numbers = self.numbers(&self.quants(low, high), &scale, &minimum);
            put!(each, "let {name}_other = {};\n", self.inside(&numbers, &col));
            put!(each, "let x_{name}_each = x_vec4(row_each, {col});\n");
        }
        format!(
            "{before}for (var pair = 0u; pair < 4u; pair++) {{\n{each}\
            sum_each_other += dot(near_other, x_near_each) + dot(far_other, x_far_each);\n}}\n"
        )
    }

    /// Returns the quants of both quads in a plane. Their words are loaded in `each`, or in `before` if all quads of a half
    /// share them.
    fn pair(&self, plane: usize, before: &mut String, each: &mut String) -> [String; 2] {
        let (name, width) = (["low", "high"][plane], self.layout.bits[plane]);
        let load = |text: &mut String, number: usize, at: &str| {
            let load = self.load("col_other", self.planes.quants[plane], at);
            put!(text, "let {name}{number}_other = {load};\n");
            format!("{name}{number}_other")
        };
        match width {
            1 => {
                let word = [load(before, 0, "unit")];
                [self.fields(1, &word, "4u * pair"), self.fields(1, &word, "16u + 4u * pair")]
            }
            2 => [0, 1].map(|half| {
                let word = load(before, half, &format!("2u * unit + {half}u"));
                self.fields(2, &[word], "8u * pair")
            }),
            4 => {
                let word = [load(each, 0, "4u * unit + pair")];
                [self.fields(4, &word, "0u"), self.fields(4, &word, "4u")]
            }
            _ => [0, 1].map(|half| {
                let count = width as usize / 8;
                let mut words = Vec::with_capacity(count);
                for n in 0..count {
                    let at = 4 * half * count + n;
                    let at = format!("{width}u * unit + {count}u * pair + {at}u");
                    words.push(load(each, half * count + n, &at));
                }
                self.fields(width, &words, "0u")
            }),
        }
    }

    /// Returns the function for a quad of a tile: `VECTOR` neighbors of a row. Rows out of range use the last row.
    fn quad(&self) -> String {
        let (layout, planes) = (&self.layout, &self.planes);
        let mut each = Vec::with_capacity(2);
        for (plane, width) in layout.bits.into_iter().enumerate().filter(|(_, width)| *width > 0) {
            let words: Vec<String> = (0..(width as usize / 8).max(1))
                .map(|word| self.load("row", planes.quants[plane], &word_of_quad(width, word)))
                .collect();
            each.push(self.fields(width, &words, &shift_of_quad(width)));
        }
        let high = each.get(1).cloned();
        let quants = self.quants(&each[0], high);
        let numbers = self.numbers(&quants, "scale_w(row, group)", "minimum_w(row, group)");
        let group = layout.group / VECTOR;
        format!(
            "fn a_vec4(batch: u32, any_row: u32, col: u32) -> vec4<f32> {{
            let row = min(any_row, M - 1u);
            let quad = min(col, LAST_K) / {VECTOR}u;
            let group = quad / {group}u;
            return {};
            }}\n",
            self.inside(&numbers, "col")
        )
    }
}

/// Returns the index of the `nth` word with the fields of `quad`, which is a number at run time.
fn word_of_quad(width: u32, nth: usize) -> String {
    match width {
        4 => "quad / 8u * 4u + quad % 4u".to_string(),
        8.. => format!("quad * {}u + {nth}u", width / 8),
        _ => format!("quad / {}u", 8 / width),
    }
}

/// Returns the shift of the first of those fields.
fn shift_of_quad(width: u32) -> String {
    match width {
        4 => "quad % 8u / 4u * 4u".to_string(),
        8.. => "0u".to_string(),
        _ => format!("quad % {}u * {}u", 8 / width, 4 * width),
    }
}

/// Returns four neighboring fields of `width` bits from their words. The first begins at bit `shift`.
fn fields(width: u32, words: &[String], shift: &str) -> String {
    let (word, mask) = (&words[0], u32::MAX >> (32 - width));
    match width {
        32 => format!("vec4<u32>({})", words.join(", ")),
        16 => {
            let second = &words[1];
            let both = format!("vec4<u32>({word}, {word}, {second}, {second})");
            format!("(({both} >> vec4<u32>(0u, 16u, 0u, 16u)) & vec4<u32>({mask}u))")
        }
        _ => {
            let word = if shift == "0u" { word.clone() } else { format!("{word} >> ({shift})") };
            // For 4 bits, byte j of 32 neighbors has elements j and j + 16.
            let step = if width == 4 { 8 } else { width };
            let steps = format!("vec4<u32>(0u, {step}u, {}u, {}u)", 2 * step, 3 * step);
            format!("((vec4<u32>({word}) >> {steps}) & vec4<u32>({mask}u))")
        }
    }
}

/// Returns four neighboring integers of `width` bits as floats. The first begins at bit `shift` of the word. Each integer is
/// masked in place, which multiplies it by a power of two, and then divided by that power. This is faster than shifts,
/// because software GPUs need several instructions to shift a vector. For signed bytes, the highest keeps its sign, and 128
/// is added to the other three.
fn integers(width: u32, word: &str, shift: &str, is_signed: bool) -> String {
    let step = if width == 4 { 8 } else { width };
    let word = match (is_signed, shift) {
        (true, _) => format!("{word} ^ 0x808080u"),
        (false, "0u") => word.to_string(),
        (false, shift) => format!("{word} >> ({shift})"),
    };
    let mask = u32::MAX >> (32 - width);
    let masks = [0, 1, 2, 3].map(|n| format!("{}u", mask << (n * step)));
    let factors = [0, 1, 2, 3].map(|n| format!("0x1p-{}f", n * step));
    let placed = format!("bitcast<vec4<i32>>(vec4<u32>({word}) & vec4<u32>({}))", masks.join(", "));
    format!("(vec4<f32>({placed}) * vec4<f32>({}))", factors.join(", "))
}

/// Returns the scale or minimum of a group, from the offsets of its planes, their bits, and the offset of the super-blocks'
/// plane.
fn shared(
    module: &Module,
    layout: &Layout,
    shared: Shared,
    (starts, bits, above): ([usize; 2], [u32; 2], usize),
) -> String {
    let field = |start: usize, bits: u32, at: &str| {
        let (each, mask) = (32 / bits, (1u32 << bits) - 1);
        let word = format!("load_w(row, {} + {at} / {each}u)", Unsigned(start));
        format!("(({word} >> ({at} % {each}u * {bits}u)) & {mask}u)")
    };
    let mut own = field(starts[0], bits[0], "group");
    if bits[1] > 0 {
        own = format!("({own} | ({} << {}u))", field(starts[1], bits[1], "group"), bits[0]);
    }
    let own = match shared {
        Shared::Nothing => "0.0".to_string(),
        Shared::Half => module.fill("{half_of}({x})", false, &own, ""),
        Shared::Power => module.fill("{half_of_power}({x})", false, &own, ""),
        Shared::Signed => format!("f32(bitcast<i32>({own} << 24u) >> 24u)"),
        Shared::From(0) => format!("f32({own})"),
        Shared::From(zero) => format!("(f32({own}) - {zero}.0)"),
    };
    if !shared.in_supers() {
        return own;
    }
    let block = format!("(group / {}u)", SUPER / layout.group);
    let supers = module.fill("{half_of}({x})", false, &field(above, 16, &block), "");
    format!("{supers} * {own}")
}
