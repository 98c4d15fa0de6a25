//! Sample kernels of attention, and of products with packed matrices.

use super::{bias_epilogue, operand, plain_epilogue, prologue, strides, All, Draft};
use warpweft::dtype::DType;
use warpweft::kernel::{Attention, Inst, Kernel, Operand, PackedMatmul};
use warpweft::op::{PackedArithmetic, PackedFormat};

pub fn attentions(all: &mut All) {
    // [batch, heads, kv heads, queries, keys, head size, value size]
    let shapes: [[usize; 7]; 13] = [
        [1, 1, 1, 1, 1, 1, 1],
        [2, 2, 2, 33, 33, 16, 16],
        [1, 4, 2, 40, 70, 64, 64],
        [1, 3, 1, 1, 100, 80, 80],
        [2, 1, 1, 65, 31, 7, 9],
        [1, 2, 1, 17, 90, 128, 32],
        [1, 1, 1, 40, 40, 256, 256],
        [1, 2, 2, 9, 5, 33, 40],
        [1, 1, 1, 4, 0, 8, 8],
        [1, 1, 1, 3, 70, 0, 8],
        [1, 1, 1, 5, 0, 8, 8],
        [1, 2, 1, 8, 70, 0, 12],
        [2, 4, 2, 2, 600, 64, 64],
    ];
    for [batch, heads, kv_heads, queries, keys, size, value_size] in shapes {
        for (causal, masked) in [(false, false), (true, false), (false, true), (true, true)] {
            for dtype in [DType::F32, DType::F16] {
                if dtype == DType::F16 && causal != masked {
                    continue;
                }
                let q = strides(&[batch, heads, queries, size]);
                let k = strides(&[batch, kv_heads, keys, size]);
                let v = strides(&[batch, kv_heads, keys, value_size]);
                let mut scale = Draft::default();
                let value = scale.builder.push(Inst::Param { word: 0, dtype: DType::F32 });
                let attend = Attention {
                    causal,
                    window: None,
                    batch,
                    heads,
                    kv_heads,
                    queries,
                    keys,
                    head_size: size,
                    value_size,
                    q: operand(0, dtype, &q),
                    k: operand(1, dtype, &k),
                    v: operand(2, dtype, &v),
                    // The same mask for all batches and heads.
                    mask: masked.then(|| operand(3, dtype, &[0, 0, keys as i64, 1])),
                    scale: Operand { program: scale.builder.finish(), value },
                    length: (causal && !masked).then(|| {
                        let mut length = Draft::default();
                        let value = length.builder.push(Inst::Param { word: 1, dtype: DType::I32 });
                        Operand { program: length.builder.finish(), value }
                    }),
                    epilogue: plain_epilogue(dtype, &[batch, heads, queries, value_size]),
                };
                let name = format!(
                    "attention {dtype} [{batch},{heads}/{kv_heads},{queries}/{keys},{size}/{value_size}]\
                    {}{}",
                    if causal { " causal" } else { "" },
                    if masked { " mask" } else { "" }
                );
                all.push((name, Kernel::Attention(Box::new(attend))));
            }
        }
    }
}

pub fn packed_products(all: &mut All) {
    // Few rows and many, of long matrices and short ones.
    let shapes = [[1, 40, 256], [3, 20_000, 256], [1, 70_000, 512], [8, 300, 1024], [12, 40, 256]];
    for format in PackedFormat::ALL {
        for [m, n, k] in shapes.into_iter().chain([[33, 130, 512], [2, 5, 1 << 20]]) {
            all.push(packed_product(format, [m, n, k], DType::F32));
        }
        all.push(packed_product(format, [3, 40, 256], DType::F16));
    }
    // Rows that are not a multiple of the kernel's unit.
    for format in [PackedFormat::F32, PackedFormat::F16, PackedFormat::BF16] {
        for [m, n, k] in [[1, 40, 1], [3, 40, 36], [20, 40, 33]] {
            all.push(packed_product(format, [m, n, k], DType::F32));
        }
    }
    for m in [2, 20] {
        let (name, kernel) = packed_product(PackedFormat::Q4_K, [m, 40, 256], DType::F32);
        let Kernel::PackedMatmul(mut packed) = kernel else { unreachable!("it is one") };
        packed.x = prologue(0, &[256, 1]);
        packed.epilogue = bias_epilogue(2, &[m, 40], 1);
        all.push((format!("{name} fused"), Kernel::PackedMatmul(packed)));
    }
    all.push(packed_product(PackedFormat::Q8_0, [0, 5, 32], DType::F32));
    if let Some((name, _)) = all.last_mut() {
        *name += " empty";
    }
}

fn packed_product(format: PackedFormat, [m, n, k]: [usize; 3], dtype: DType) -> (String, Kernel) {
    let packed = PackedMatmul {
        format,
        arithmetic: PackedArithmetic::Exact,
        m,
        n,
        k,
        x: operand(0, dtype, &strides(&[m, k])),
        w: operand(1, DType::U32, &strides(&[n, format.row_words(k)])),
        epilogue: plain_epilogue(dtype, &[m, n]),
    };
    (format!("packed {format} {dtype} {m}x{k}x{n}"), Kernel::PackedMatmul(packed))
}
