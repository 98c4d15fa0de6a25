//! Elementwise kernels, byte access, structs by value, constant, global and local memory.

use crate::common::{address, run, Random};
use ptx_interpreter::{Argument, Launch, Memory, Module};

#[test]
fn saxpy() {
    let (x, y) = (Random(1).floats(1000, -5.0, 5.0), Random(2).floats(1000, -5.0, 5.0));
    let want: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 1.5f32.mul_add(*x, *y)).collect();
    for (entry, fmas) in [("saxpy", 1000), ("saxpy4", 1000)] {
        let setup = |m: &mut Memory| {
            vec![
                Argument::U32(1000),
                Argument::F32(1.5),
                Argument::Pointer(m.alloc_f32(&x)),
                Argument::Pointer(m.alloc_f32(&y)),
            ]
        };
        run(("basic", entry), &Launch::linear(8, 128), setup, |m, a, report| {
            assert_eq!(m.read_f32(address(&a[3]), 1000).unwrap(), want);
            assert_eq!(report.count("fma.f32").threads, fmas);
            let loads = report.count("ld.global.v4.f32").threads;
            assert_eq!(loads, if entry == "saxpy4" { 500 } else { 0 }, "{:?}", report.opcodes);
        });
    }
}

#[test]
fn struct_by_value() {
    let mut bytes = Vec::new();
    for scale in [0.5f32, 2.0, -3.0] {
        bytes.extend(scale.to_le_bytes());
    }
    bytes.extend(7i32.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(0.125f64.to_le_bytes());
    let setup = |m: &mut Memory| {
        vec![Argument::Bytes(bytes.clone()), Argument::U32(40), Argument::Pointer(m.alloc(320))]
    };
    run(("basic", "by_value"), &Launch::linear(1, 64), setup, |m, a, _| {
        let out = m.read(address(&a[2]), 320).unwrap();
        for (i, bytes) in out.chunks_exact(8).enumerate() {
            let want = [0.5, 2.0, -3.0][i % 3] * i as f64 + 7.0 + 0.125;
            assert_eq!(f64::from_le_bytes(bytes.try_into().unwrap()), want, "{i}");
        }
    });
}

#[test]
fn constant_memory() {
    let setup = |m: &mut Memory| vec![Argument::U32(32), Argument::Pointer(m.alloc(128))];
    run(("basic", "constants"), &Launch::linear(1, 32), setup, |m, a, report| {
        let table = [0.5, -1.5, 2.25, 3.0, -4.0, 5.5, 6.0, -7.0];
        let small = [-3.0, 7.0, -32768.0, 32767.0];
        let out = m.read_f32(address(&a[1]), 32).unwrap();
        for (i, value) in out.iter().enumerate() {
            assert_eq!(*value, table[(i * 5) & 7] * small[i & 3], "{i}");
        }
        assert_eq!(report.count("ld.const").threads, 64);
    });
}

#[test]
fn byte_access() {
    let mut random = Random(3);
    let (a, b): (Vec<u8>, Vec<u8>) =
        (0..500).map(|_| (random.next() as u8, random.next() as u8)).unzip();
    let setup = |m: &mut Memory| {
        let (pa, pb) = (m.alloc_bytes(&a), m.alloc_bytes(&b));
        vec![
            Argument::U32(500),
            Argument::Pointer(pa),
            Argument::Pointer(pb),
            Argument::Pointer(m.alloc(1000)),
            Argument::Pointer(m.alloc(1000)),
        ]
    };
    run(("basic", "bytes"), &Launch::linear(4, 128), setup, |m, args, _| {
        let (c, d) = (
            m.read_u16(address(&args[3]), 500).unwrap(),
            m.read_u16(address(&args[4]), 500).unwrap(),
        );
        for i in 0..500 {
            let s = i32::from(a[i] as i8) * i32::from(b[i]);
            assert_eq!(c[i], s as u16);
            assert_eq!(d[i], (s >> 3) as u16 ^ (a[i] as i8) as u16, "{i}");
        }
    });
}

#[test]
fn global_variables_keep_their_values() {
    let module = Module::parse(&crate::common::golden("basic", 80)).unwrap();
    let mut memory = Memory::new();
    let out = memory.alloc(64 * 4);
    for launch in 1..3 {
        module
            .run("globals", &Launch::linear(1, 64), &mut memory, &[Argument::Pointer(out)])
            .unwrap();
        let total = memory.symbol("total").expect("a symbol");
        assert_eq!(memory.read_u32(total, 1).unwrap(), [100 + launch * 128]);
    }
    let want: Vec<u32> = (0..64).map(|i| [10i32, -20, 30, -40][i & 3] as u32).collect();
    assert_eq!(memory.read_u32(out, 64).unwrap(), want);
}

#[test]
fn local_memory() {
    let index: Vec<u32> = (0..128).map(|i| i * 13 % 29).collect();
    let setup = |m: &mut Memory| {
        vec![Argument::Pointer(m.alloc_u32(&index)), Argument::Pointer(m.alloc(128))]
    };
    run(("basic", "local_array"), &Launch::linear(1, 32), setup, |m, a, report| {
        let mut values = [0.0; 16];
        for i in 0..16 {
            values[(i * 7 + index[0] as usize) & 15] = i as f32 * 1.5;
        }
        let out = m.read_f32(address(&a[1]), 32).unwrap();
        for (t, got) in out.iter().enumerate() {
            let want =
                (0..4).fold(0.0, |sum, i| sum * 2.0 + values[index[t * 4 + i] as usize & 15]);
            assert_eq!(*got, want);
        }
        assert!(report.count("st.local").threads + report.count("st").threads > 0);
    });
}
