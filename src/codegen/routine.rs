//! Routines: which shader computes them, with which constants, operands and tile.

#[cfg(not(target_arch = "wasm32"))]
use crate::codegen::matrices;
use crate::codegen::product::Product;
use crate::codegen::sizes::{Signed, Unsigned};
use crate::codegen::slot::{Shader, Slot};
use crate::codegen::source::Source;
#[cfg(not(target_arch = "wasm32"))]
use crate::kernel::Halves;
use crate::kernel::{class, Attend, Convolution, KernelConfig, Matmul, Tile};

const MATMUL: &str = shader!("matmul");
const MATMUL_LARGE: &str = shader!("matmul_large");
const ATTENTION_FEW: &str = shader!("attention_few");
const ATTENTION: &str = shader!("attention");
// Where threads work alone.
const MATMUL_PLAIN: &str = shader!("matmul_plain");
const CONV2D_PLAIN: &str = shader!("conv2d_plain");

/// The arguments of the product's functions.
const CELL: &[&str] = &["batch", "row", "col"];
/// The same for the transposed product.
const TURNED: &[&str] = &["batch", "col", "row"];

/// The text of a matrix product.
pub fn matmul(matmul: &Matmul, config: KernelConfig) -> Source {
    let mut at = folded("batch", &matmul.batch);
    at.push("i32(row)".to_string());
    at.push("i32(col)".to_string());
    let batch = matmul.batch.iter().product();
    let tile = config.products[class(batch, matmul.m, matmul.n)];
    #[cfg(not(target_arch = "wasm32"))]
    if config.halves == Halves::CooperativeMatrices && matrices::take(matmul) {
        return matrices::product(blocks(matmul, tile, batch, &at));
    }
    if tile == Tile::Thread {
        return row_by_row(matmul, batch, &at);
    }
    product(blocks(matmul, tile, batch, &at))
}

/// The product whose workgroups compute a tile each.
fn blocks<'a>(matmul: &'a Matmul, tile: Tile, batch: usize, at: &'a [String]) -> Product<'a> {
    let Matmul { m, n, k, .. } = *matmul;
    let rank = matmul.batch.len() as u32;
    Product {
        tile,
        batch,
        m,
        n,
        k,
        a_along_k: !matmul.a.lies_along(rank) || matmul.a.lies_along(rank + 1),
        b_along_k: matmul.b.lies_along(rank) && !matmul.b.lies_along(rank + 1),
        a: Slot::operand("a", &matmul.a, CELL, at).quads(rank + 1, &[("row", m), ("col", k)]),
        b: Slot::operand("b", &matmul.b, CELL, at).quads(rank + 1, &[("row", k), ("col", n)]),
        epilogue: Slot::epilogue(&matmul.epilogue, CELL, at)
            .quads(rank + 1, &[("row", m), ("col", n)]),
    }
}

/// Each thread goes through the rows and columns of its results.
fn row_by_row(matmul: &Matmul, batch: usize, at: &[String]) -> Source {
    let Matmul { m, n, k, .. } = *matmul;
    let axis = matmul.batch.len() as u32 + 1;
    let mut shader = Shader::new(MATMUL_PLAIN);
    // A thread's results lie along the columns: where those are few, along the rows, the operands being exchanged.
    let turned = n < 8 && n < m;
    let cell = if turned { TURNED } else { CELL };
    let (a, b) = if turned { (&matmul.b, &matmul.a) } else { (&matmul.a, &matmul.b) };
    let (m, n) = if turned { (n, m) } else { (m, n) };
    let rows = share(m, batch * m * n * k);
    shader.repeat(rows);
    shader.sizes(&[("BATCH", batch.max(1)), ("M", m.max(1)), ("N", n.max(1)), ("K", k)]);
    shader.constants(&[("ROWS", rows)]);
    let mut epilogue = Slot::epilogue(&matmul.epilogue, cell, at);
    if !turned {
        epilogue = epilogue.quads(axis, &[("row", m), ("col", n)]);
    }
    let threads = batch * m.div_ceil(rows) * n.div_ceil(8);
    let slots = vec![Slot::operand("a", a, cell, at), Slot::operand("b", b, cell, at), epilogue];
    shader.fill(slots, threads.div_ceil(8) as u64)
}

/// Of how many rows a thread has results, about as many for every thread: at most eight, but where there are few products
/// to compute two, because compiling more takes longer than it saves.
fn share(rows: usize, products: usize) -> usize {
    let most = if products <= 1 << 20 { 2 } else { 8 };
    rows.div_ceil(rows.div_ceil(most).max(1)).max(1)
}

/// The text of a convolution.
pub fn conv2d(conv: &Convolution, config: KernelConfig) -> Source {
    let (groups, pixels) = (conv.params.groups, conv.batch * conv.out_height * conv.out_width);
    match config.convolutions[class(groups, conv.out / groups, pixels)] {
        Tile::Thread => window_by_window(conv),
        tile => product_of_windows(conv, tile),
    }
}

/// Each thread goes through the window of its results.
fn window_by_window(conv: &Convolution) -> Source {
    let params = &conv.params;
    const PIXEL: &[&str] = &["image", "channel", "y", "x"];
    const TAP: &[&str] = &["out", "channel", "ky", "kx"];
    const RESULT: &[&str] = &["image", "out", "y", "x"];
    let (channels, out) = (conv.channels / params.groups, conv.out / params.groups);
    let pixels = conv.batch * conv.out_height * conv.out_width;
    let taps = channels * conv.kernel[0] * conv.kernel[1];
    let rows = share(out, conv.out * pixels * taps);
    let mut shader = Shader::new(CONV2D_PLAIN);
    if let Some(lines) = lines_of_windows(conv, rows) {
        shader.replace_between("\n  for (var tap", "* far;\n  }\n", &lines);
    }
    shader.repeat(rows);
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
        ("ROWS", rows),
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
    let strips = conv.out_width.div_ceil(8) * conv.out_height;
    let threads = conv.batch * params.groups * out.div_ceil(rows) * strips;
    let slots = vec![
        Slot::operand("x", &conv.x, PIXEL, &at_pixel),
        Slot::operand("w", &conv.w, TAP, &at_tap),
        Slot::epilogue(&conv.epilogue, RESULT, &at_result),
    ];
    shader.fill(slots, threads.div_ceil(8) as u64)
}

/// The loop over the lines of a window instead of that over its places: each number that several of a thread's results
/// need is read once. `None` where that would be a text that takes longer to compile than it saves, or has nothing to save.
fn lines_of_windows(conv: &Convolution, rows: usize) -> Option<String> {
    let (width, step) = (conv.kernel[1], conv.params.stride[1]);
    let apart = conv.params.dilation[1];
    if width < 2 || rows * width > 24 {
        return None;
    }
    let reach = step.checked_mul(7)?.checked_add(apart.checked_mul(width - 1)?)?;
    if reach > 24 {
        return None;
    }
    let mut text = String::from(
        "
for (var line = 0u; line < CHANNELS * KERNEL_Y; line++) {
let ky = line % KERNEL_Y;
let c = line / KERNEL_Y;
let from_y = y * STRIDE_Y + ky * DILATION_Y - BEFORE_Y;
let from_x = x * STRIDE_X - BEFORE_X;
",
    );
    for n in 0..=reach {
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
        put!(
            text,
            ");
let w{tap}_0 = load_w(row_0, c, ky, {tap}u);
near_0 += w{tap}_0 * n{tap};
far_0 += w{tap}_0 * f{tap};
"
        );
    }
    text += "}\n";
    Some(text)
}

/// The arguments as coordinates.
fn signed(names: &[&str]) -> Vec<String> {
    let mut at = Vec::new();
    for name in names {
        at.push(format!("i32({name})"));
    }
    at
}

/// A convolution as a product: per group the product of the weights `[out, channel ky kx]` and the windows
/// `[channel ky kx, batch y x]`, which are gathered while they are read.
fn product_of_windows(conv: &Convolution, tile: Tile) -> Source {
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
    let mut windows = Slot::operand("b", &conv.x, CELL, &at_x);
    windows.condition = padded.then_some(inside);
    product(Product {
        tile,
        batch: params.groups,
        m: out,
        n: conv.batch * conv.out_height * conv.out_width,
        k: channels * kh * kw,
        a_along_k: true,
        b_along_k: false,
        a: Slot::operand("a", &conv.w, CELL, &[out_channel.clone(), wc, wy, wx]),
        b: windows,
        epilogue: Slot::epilogue(&conv.epilogue, CELL, &[image, out_channel, oy, ox]),
    })
}

/// The text of an attention.
pub fn attention(a: &Attend) -> Source {
    let (queries, size) = (a.queries.max(1), a.head_size);
    let (value_size, repeat) = (a.value_size.max(1), a.heads / a.kv_heads.max(1));
    const QUERY: &[&str] = &["batch", "head", "query", "d"];
    const KEY: &[&str] = &["batch", "head", "key", "d"];
    const SCORE: &[&str] = &["batch", "head", "query", "key"];
    let (at_query, at_key, at_score) = (signed(QUERY), signed(KEY), signed(SCORE));
    let mut slots = vec![
        Slot::operand("q", &a.q, QUERY, &at_query).quads(3, &[("d", size)]),
        Slot::operand("k", &a.k, KEY, &at_key).quads(3, &[("key", a.keys), ("d", size)]),
        Slot::operand("v", &a.v, KEY, &at_key).quads(3, &[("key", a.keys), ("d", value_size)]),
        Slot::operand("scale", &a.scale, &[], &[]),
        Slot::epilogue(&a.epilogue, QUERY, &at_query).quads(3, &[("d", value_size)]),
    ];
    if let Some(mask) = &a.mask {
        slots.push(Slot::operand("mask", mask, SCORE, &at_score));
    }
    if let Some(length) = &a.length {
        slots.push(Slot::operand("length", length, &[], &[]));
    }
    // Heads that a thread can hold; for few queries a workgroup each, where 32 would leave most of its rows empty.
    let rows = repeat * a.queries;
    let (text, groups) = match queries {
        ..=4 if size <= 1024 && value_size <= 1024 => (ATTENTION_FEW, a.batch * a.kv_heads * rows),
        _ => (ATTENTION, a.batch * a.kv_heads * rows.div_ceil(32)),
    };
    let mut shader = Shader::new(text);
    shader.sizes(&[
        ("BATCH", a.batch.max(1)),
        ("KV_HEADS", a.kv_heads.max(1)),
        ("REPEAT", repeat.max(1)),
        ("QUERIES", queries),
        ("KEYS", a.keys),
        // A wider one sees all keys.
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
    shader.fill(slots, if a.value_size == 0 { 0 } else { groups as u64 })
}

fn product(product: Product) -> Source {
    let Product { batch, m, n, k, .. } = product;
    let (text, threads) = match threads(product.tile, m, n) {
        None => (MATMUL_LARGE, None),
        some => (MATMUL, some),
    };
    let mut shader = Shader::new(text);
    shader.sizes(&[("BATCH", batch.max(1)), ("M", m.max(1)), ("N", n.max(1)), ("K", k)]);
    shader.sizes(&[("LAST_K", k.saturating_sub(1))]);
    let mut tile = (128, 128);
    if let Some((threads_m, threads_n)) = threads {
        shader.constants(&[("THREADS_M", threads_m), ("THREADS_N", threads_n)]);
        tile = (4 * threads_m, 4 * threads_n);
    }
    shader.choose("A_ALONG_K", product.a_along_k);
    shader.choose("B_ALONG_K", product.b_along_k);
    let groups = batch * m.div_ceil(tile.0) * n.div_ceil(tile.1);
    shader.fill(vec![product.a, product.b, product.epilogue], groups as u64)
}

/// A workgroup's threads along rows and columns, each with 4 x 4 results, or `None` for the shader for large products.
/// Narrow products get narrow tiles.
fn threads(tile: Tile, m: usize, n: usize) -> Option<(usize, usize)> {
    match (m, n) {
        (..=8, _) => Some((2, 32)),
        (_, ..=8) => Some((32, 2)),
        (..=16, _) => Some((4, 16)),
        (_, ..=16) => Some((16, 4)),
        _ if tile == Tile::Large => None,
        _ if tile == Tile::Medium => Some((16, 16)),
        _ => Some((8, 8)),
    }
}

/// Coordinates along `dims` from a number that counts them all.
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
