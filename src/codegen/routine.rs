//! Prints routines: chooses the shader, and sets its constants and operands.

use crate::codegen::dialect::{Dialect, Features};
use crate::codegen::module::Module;
use crate::codegen::shader::Shader;
use crate::codegen::sizes::{Signed, Unsigned};
use crate::codegen::slot::{copy_bytes, fill, Slot};
use crate::codegen::source::Source;
use crate::kernel::{Attention, Convolution, Matmul};
use crate::schedule::{
    AttentionSchedule, ProductExtents, ProductSchedule, ProductTile, Schedule, WindowSchedule,
};

const MATMUL: &str = shader!("matmul");
const MATMUL_LARGE: &str = shader!("matmul_large");
const ATTENTION_FEW: &str = shader!("attention_few");
const ATTENTION: &str = shader!("attention");
// The shaders for threads that work alone.
const MATMUL_PLAIN: &str = shader!("matmul_plain");
const CONV2D_PLAIN: &str = shader!("conv2d_plain");

/// The arguments of a product's functions.
const CELL: &[&str] = &["batch", "row", "col"];
/// The arguments if the operands are exchanged.
const EXCHANGED: &[&str] = &["batch", "col", "row"];

/// Prints a matrix product.
pub fn matmul(
    matmul: &Matmul,
    product: &ProductSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let mut at = folded("batch", &matmul.batch);
    at.push("i32(row)".to_string());
    at.push("i32(col)".to_string());
    let at = &at[..];
    let ProductExtents { m, n, k, .. } = product.extents;
    let [of_a, of_b, of_results] = &product.vectors;
    if let ProductTile::Registers { rows, exchanged } = product.tile {
        let cell = if exchanged { EXCHANGED } else { CELL };
        let (a, b) = if exchanged { (&matmul.b, &matmul.a) } else { (&matmul.a, &matmul.b) };
        let slots = vec![
            Slot::operand("a", a, cell, at),
            Slot::operand("b", b, cell, at),
            Slot::epilogue(&matmul.epilogue, cell, at)
                .vector(of_results, &[("row", m), ("col", n)]),
        ];
        return registers(product, (rows, exchanged), slots, schedule, dialect);
    }
    let [a, b] = [(&matmul.a, 0), (&matmul.b, 1)].map(|(operand, n)| {
        let axis = matmul.batch.len() + usize::from(!product.transposed[n]);
        copy_bytes(operand, axis as u32)
    });
    let slots = vec![
        Slot::operand("a", &matmul.a, CELL, at).vector(of_a, &[("row", m), ("col", k)]).copied(a),
        Slot::operand("b", &matmul.b, CELL, at).vector(of_b, &[("row", k), ("col", n)]).copied(b),
        Slot::epilogue(&matmul.epilogue, CELL, at).vector(of_results, &[("row", m), ("col", n)]),
    ];
    let (mut shader, module) = tiles(product, dialect);
    if shader.has("COPY_A") {
        shader.constants(&[("COPY_A", a), ("COPY_B", b)]);
    }
    fill(shader, slots, module, schedule.workgroups)
}

/// Prints a product whose threads loop over the rows and columns of their results.
fn registers(
    product: &ProductSchedule,
    (rows, exchanged): (usize, bool),
    slots: Vec<Slot>,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let ProductExtents { batch, m, n, k } = product.extents;
    let (m, n) = if exchanged { (n, m) } else { (m, n) };
    let mut shader = Shader::new(MATMUL_PLAIN);
    shader.repeat(rows);
    shader.sizes(&[("BATCH", batch.max(1)), ("M", m.max(1)), ("N", n.max(1)), ("K", k)]);
    shader.constants(&[("ROWS", rows), ("THREADS", schedule.workgroup_size)]);
    fill(shader, slots, Module::new(dialect), schedule.workgroups)
}

/// Returns the shader of a product whose workgroups compute a tile each, with operands staged in shared memory.
pub fn tiles(product: &ProductSchedule, dialect: Dialect) -> (Shader, Module) {
    let ProductExtents { batch, m, n, k } = product.extents;
    let mut module = Module::new(dialect);
    let mut shader = match (product.tile, dialect.cooperative_matrices) {
        (ProductTile::CooperativeMatrices { across }, Some((_, text))) => {
            let mut shader = Shader::new(text);
            shader.constants(&[("SIZE", ProductTile::MATRIX), ("ACROSS", across)]);
            module.features = Features { f16: true, subgroups: true, cooperative_matrices: true };
            shader
        }
        (ProductTile::CooperativeMatrices { .. }, None) => {
            panic!("the schedule asks for matrices that the dialect does not have")
        }
        (ProductTile::Shared { threads: [rows, columns] }, _) => {
            let mut shader = Shader::new(MATMUL);
            shader.constants(&[("THREADS_M", rows), ("THREADS_N", columns)]);
            shader
        }
        _ => {
            let mut shader = Shader::new(MATMUL_LARGE);
            blocks(&mut shader, k);
            shader
        }
    };
    shader.sizes(&[("BATCH", batch.max(1)), ("M", m.max(1)), ("N", n.max(1)), ("K", k)]);
    shader.sizes(&[("LAST_K", k.saturating_sub(1))]);
    shader.choose("A_ALONG_K", !product.transposed[0]);
    shader.choose("B_ALONG_K", product.transposed[1]);
    (shader, module)
}

/// The most products that a thread of a large tile adds in sequence.
const MAX_SERIAL_PRODUCTS: usize = 1 << 12;

/// The products in a block of a longer sum, which is a power of two.
const BLOCK: usize = 512;

/// Adds the long sums of a large tile in blocks, so that they have fewer roundings. The totals double the registers, so
/// shorter sums have no blocks.
fn blocks(shader: &mut Shader, k: usize) {
    let (mut sums, mut block, mut total) = (String::new(), String::new(), String::new());
    if k > MAX_SERIAL_PRODUCTS {
        put!(block, "if ((start & {}u) == {}u) {{\n", BLOCK - 8, BLOCK - 8);
        for name in (0..8).flat_map(|n| [format!("low{n}"), format!("high{n}")]) {
            put!(sums, "var all_{name} = vec4<f32>();\n");
            put!(block, "all_{name} += {name};\n{name} = vec4<f32>();\n");
            put!(total, "{name} += all_{name};\n");
        }
        block += "}\n";
    }
    for (name, text) in [("sums", &sums), ("block", &block), ("total", &total)] {
        shader.replace_region(name, text);
    }
}

/// Prints a convolution whose threads loop over the windows of their results.
pub fn windows(
    conv: &Convolution,
    window: WindowSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let params = &conv.params;
    const PIXEL: &[&str] = &["image", "channel", "y", "x"];
    const TAP: &[&str] = &["out", "channel", "ky", "kx"];
    const RESULT: &[&str] = &["image", "out", "y", "x"];
    let (channels, out) = (conv.channels / params.groups, conv.out / params.groups);
    let mut shader = Shader::new(CONV2D_PLAIN);
    if let Some(reach) = window.unrolled {
        shader.replace_region("taps", &lines_of_windows(conv, reach));
    }
    shader.repeat(window.rows);
    shader.sizes(&[
        ("BATCH", conv.batch),
        ("GROUPS", params.groups),
        ("CHANNELS", channels),
        ("OUT", out.max(1)),
        ("HEIGHT", conv.height),
        ("WIDTH", conv.width.max(1)),
        ("OUT_HEIGHT", conv.out_height.max(1)),
        ("OUT_WIDTH", conv.out_width.max(1)),
    ]);
    shader.constants(&[
        ("ROWS", window.rows),
        ("THREADS", schedule.workgroup_size),
        ("KERNEL_Y", conv.kernel[0]),
        ("KERNEL_X", conv.kernel[1]),
        ("STRIDE_Y", params.stride[0]),
        ("STRIDE_X", params.stride[1]),
        ("DILATION_Y", params.dilation[0]),
        ("DILATION_X", params.dilation[1]),
        ("BEFORE_Y", params.padding[0].0),
        ("BEFORE_X", params.padding[1].0),
    ]);
    let (at_pixel, at_tap, at_result) = (signed(PIXEL), signed(TAP), signed(RESULT));
    let slots = vec![
        Slot::operand("x", &conv.x, PIXEL, &at_pixel),
        Slot::operand("w", &conv.w, TAP, &at_tap),
        Slot::epilogue(&conv.epilogue, RESULT, &at_result),
    ];
    fill(shader, slots, Module::new(dialect), schedule.workgroups)
}

/// The lines of windows that are summed separately.
const LINES: usize = 32;

/// Returns a loop over the lines of a window, instead of a loop over its positions. Several results of a thread share numbers
/// of a line. The loop reads each of these `reach` numbers once. Short sums have no blocks, with which a depthwise convolution
/// of 3 x 3 took 1.4 times as long on a software GPU.
fn lines_of_windows(conv: &Convolution, reach: usize) -> String {
    let (width, step, apart) = (conv.kernel[1], conv.params.stride[1], conv.params.dilation[1]);
    let has_blocks = conv.channels / conv.params.groups * conv.kernel[0] > LINES;
    let mut text = String::new();
    if has_blocks {
        put!(
            text,
            "
for (var first = 0u; first < CHANNELS * KERNEL_Y; first += {LINES}u) {{
let end = min(first + {LINES}u, CHANNELS * KERNEL_Y);
var some_near_each = vec4<f32>();
var some_far_each = vec4<f32>();
for (var line = first; line < end; line++) {{
"
        );
    } else {
        text += "\nfor (var line = 0u; line < CHANNELS * KERNEL_Y; line++) {\n";
    }
    text += "let ky = line % KERNEL_Y;
let c = line / KERNEL_Y;
let from_y = y * STRIDE_Y + ky * DILATION_Y - BEFORE_Y;
let from_x = x * STRIDE_X - BEFORE_X;
";
    for n in 0..reach {
        put!(text, "let p{n} = seen(image, part * CHANNELS + c, from_y, from_x + {n}u);\n");
    }
    for tap in 0..width {
        put!(text, "let n{tap} = vec4<f32>(");
        for result in 0..8 {
            if result == 4 {
                put!(text, ");\nlet f{tap} = vec4<f32>(");
            }
            put!(text, "p{},", result * step + tap * apart);
        }
        let sums = if has_blocks { "some_" } else { "" };
        put!(
            text,
            ");
let w{tap}_each = load_w(row_each, c, ky, {tap}u);
{sums}near_each += w{tap}_each * n{tap};
{sums}far_each += w{tap}_each * f{tap};
"
        );
    }
    text += "}\n";
    if has_blocks {
        text += "near_each += some_near_each;\nfar_each += some_far_each;\n}\n";
    }
    text
}

/// Converts the arguments to coordinates.
fn signed(names: &[&str]) -> Vec<String> {
    let mut at = Vec::new();
    for name in names {
        at.push(format!("i32({name})"));
    }
    at
}

/// Prints a convolution as a product for each group, of the weights `[out, channel ky kx]` and the windows
/// `[channel ky kx, batch y x]`. The windows are gathered while they are read.
pub fn product_of_windows(
    conv: &Convolution,
    product: &ProductSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let params = &conv.params;
    let (channels, out) = (conv.channels / params.groups, conv.out / params.groups);
    let [kh, kw] = conv.kernel;
    let [oh, ow] = [conv.out_height.max(1), conv.out_width.max(1)];
    let split = |name: &str, [_, h, w]: [usize; 3]| {
        [
            format!("i32({name} / {})", Unsigned(h * w)),
            format!("i32({name} / {} % {})", Unsigned(w), Unsigned(h)),
            format!("i32({name} % {})", Unsigned(w)),
        ]
    };
    let out_channel = format!("i32(batch * {} + row)", Unsigned(out));
    let [channel, ky, kx] = split("row", [channels, kh, kw]);
    let [image, oy, ox] = split("col", [conv.batch, oh, ow]);
    let position = |axis: usize, o: &str, k: &str| {
        let (s, d, p) = (params.stride[axis], params.dilation[axis], params.padding[axis].0);
        format!("{o} * {s} + {k} * {d} - {p}")
    };
    let (y, x) = (position(0, &oy, &ky), position(1, &ox, &kx));
    let padded = params.padding != [(0, 0); 2];
    let inside =
        format!("u32({y}) < {} && u32({x}) < {}", Unsigned(conv.height), Unsigned(conv.width));
    let nearest = |position: String, extent: usize| match padded {
        true => format!("clamp({position}, 0, {})", Signed(extent.max(1) as u64 - 1)),
        false => position,
    };
    let at_x = [
        image.clone(),
        format!("i32(batch) * {} + {channel}", Signed(channels as u64)),
        nearest(y, conv.height),
        nearest(x, conv.width),
    ];
    let [wc, wy, wx] = split("col", [channels, kh, kw]);
    let exchanged = matches!(product.tile, ProductTile::Registers { exchanged: true, .. });
    let cell = if exchanged { EXCHANGED } else { CELL };
    let at_w = [out_channel.clone(), wc, wy, wx];
    let at_result = [image, out_channel, oy, ox];
    let (weights, seen) = if exchanged { ("b", "a") } else { ("a", "b") };
    let mut windows = Slot::operand(seen, &conv.x, cell, &at_x);
    windows.condition = padded.then_some(inside);
    let slots = vec![
        Slot::operand(weights, &conv.w, cell, &at_w),
        windows,
        Slot::epilogue(&conv.epilogue, cell, &at_result),
    ];
    match product.tile {
        ProductTile::Registers { rows, exchanged } => {
            registers(product, (rows, exchanged), slots, schedule, dialect)
        }
        _ => {
            let (shader, module) = tiles(product, dialect);
            fill(shader, slots, module, schedule.workgroups)
        }
    }
}

/// Prints attention.
pub fn attention(
    a: &Attention,
    attention: &AttentionSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let (queries, size) = (a.queries.max(1), a.head_size);
    let (value_size, repeat) = (a.value_size.max(1), a.heads / a.kv_heads.max(1));
    const QUERY: &[&str] = &["batch", "head", "query", "d"];
    const KEY: &[&str] = &["batch", "head", "key", "d"];
    const SCORE: &[&str] = &["batch", "head", "query", "key"];
    let (at_query, at_key, at_score) = (signed(QUERY), signed(KEY), signed(SCORE));
    let [of_q, of_k, of_v, of_results] = &attention.vectors;
    let copied = [&a.k, &a.v].map(|operand| copy_bytes(operand, 3));
    let mut slots = vec![
        Slot::operand("q", &a.q, QUERY, &at_query).vector(of_q, &[("d", size)]),
        Slot::operand("k", &a.k, KEY, &at_key)
            .vector(of_k, &[("key", a.keys), ("d", size)])
            .copied(copied[0]),
        Slot::operand("v", &a.v, KEY, &at_key)
            .vector(of_v, &[("key", a.keys), ("d", value_size)])
            .copied(copied[1]),
        Slot::operand("scale", &a.scale, &[], &[]),
        Slot::epilogue(&a.epilogue, QUERY, &at_query).vector(of_results, &[("d", value_size)]),
    ];
    if let Some(mask) = &a.mask {
        slots.push(Slot::operand("mask", mask, SCORE, &at_score));
    }
    if let Some(length) = &a.length {
        slots.push(Slot::operand("length", length, &[], &[]));
    }
    let text = if attention.rows == 1 { ATTENTION_FEW } else { ATTENTION };
    let with_matrices = dialect.f16_attention.filter(|_| attention.matrices);
    let mut shader = Shader::new(with_matrices.unwrap_or(text));
    let mut module = Module::new(dialect);
    if with_matrices.is_some() {
        shader.constants(&[("COPY_K", copied[0]), ("COPY_V", copied[1])]);
        module.features.cooperative_matrices = true;
    }
    shader.sizes(&[
        ("BATCH", a.batch.max(1)),
        ("KV_HEADS", a.kv_heads.max(1)),
        ("REPEAT", repeat.max(1)),
        ("QUERIES", queries),
        ("KEYS", a.keys),
        // A wider window contains all keys.
        ("WINDOW", a.window.map_or(0, |window| window.min(queries + a.keys))),
        ("LAST_KEY", a.keys.saturating_sub(1)),
    ]);
    shader.constants(&[
        ("SIZE", size),
        ("VALUE_SIZE", value_size),
        ("LAST_D", size.saturating_sub(1)),
    ]);
    shader.choose("CAUSAL", a.causal);
    shader.choose("MASK", a.mask.is_some());
    fill(shader, slots, module, schedule.workgroups)
}

/// Splits a number that counts all of `dims` into coordinates.
fn folded(name: &str, dims: &[usize]) -> Vec<String> {
    let mut each = Vec::new();
    for (i, &extent) in dims.iter().enumerate() {
        let mut after = 1;
        for &extent in &dims[i + 1..] {
            after *= extent.max(1);
        }
        each.push(format!("i32({name} / {} % {})", Unsigned(after), Unsigned(extent.max(1))));
    }
    each
}
