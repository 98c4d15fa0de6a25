//! Tests the ways in which arguments may be written: axes, shapes, ranges, operands, and the dtypes of new tensors.

use super::array::{integers, Array};
use super::check::{exact, near, Check, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::{Axes, Extents, Operand, Scan, Tensor};

pub fn cases() -> Suite {
    let mut suite = Suite::new("arguments");
    axes(&mut suite);
    positions(&mut suite);
    shapes(&mut suite);
    ranges(&mut suite);
    pieces(&mut suite);
    operands(&mut suite);
    made(&mut suite);
    numbers(&mut suite);
    suite
}

fn same(what: &str, got: Tensor, want: Array<f64>) -> Check {
    near(what, got, want, Tolerance::EXACT)
}

fn sum(x: &Array<f64>, axes: &[usize]) -> Array<f64> {
    x.reduce(axes, |x| x.iter().sum::<f64>())
}

fn axes(suite: &mut Suite) {
    suite.add("axes as numbers, arrays, lists, and kept", |device| {
        let x = integers(&[2, 3, 4], -9, 9, 1);
        let a = x.f32(device)?;
        let last = sum(&x, &[2]);
        let two = sum(&x, &[0, 2]);
        let all = sum(&x, &[0, 1, 2]);
        let axis: isize = -1;
        Ok(vec![
            same("-1", a.sum(-1)?, last.squeeze(&[2])),
            same("isize", a.sum(axis)?, last.squeeze(&[2])),
            same("an array", a.sum([0, -1])?, two.squeeze(&[0, 2])),
            same("a reference", a.sum(&[0, -1])?, two.squeeze(&[0, 2])),
            same("a list", a.sum(vec![0isize, 2])?, two.squeeze(&[0, 2])),
            same("a slice", a.sum(&[2isize, 0][..])?, two.squeeze(&[0, 2])),
            same("nothing", a.sum(())?, all.reshape(&[])),
            same("an empty list", a.sum(&[])?, all.reshape(&[])),
            same("one, kept", a.sum(Axes::from(-1).keepdim(true))?, last),
            same("two, kept", a.sum(Axes::from([2, 0]).keepdim(true))?, two),
            same("all, kept", a.sum(Axes::from(()).keepdim(true))?, all),
            same(
                "not kept",
                a.sum(Axes::from(()).keepdim(false))?,
                sum(&x, &[0, 1, 2]).reshape(&[]),
            ),
        ])
    });
    suite.add("a number has the axes 0 and -1", |device| {
        let x = device.tensor(&[-2.5f32], &[])?;
        let want = |v: f64| Array::new(&[], vec![v]);
        let (values, indices) = x.sort(-1, false)?;
        let (largest, first) = x.topk(1, 0, true)?;
        let (kth, _) = x.kthvalue(1, -1)?;
        Ok(vec![
            same("sum", x.sum(0)?, want(-2.5)),
            same("mean", x.mean(Axes::from(-1).keepdim(true))?, want(-2.5)),
            same("softmax", x.softmax(-1)?, want(1.0)),
            same("log_softmax", x.log_softmax(0)?, want(0.0)),
            same("cumsum", x.cumsum(0)?, want(-2.5)),
            same("cumprod", x.cumprod(Scan::from(-1).exclusive(true))?, want(1.0)),
            same("sort", values, want(-2.5)),
            same("topk", largest, want(-2.5)),
            same("kthvalue", kth, want(-2.5)),
            exact("argsort", indices, DType::I32, want(0.0)),
            exact("the first", first, DType::I32, want(0.0)),
            exact("argmax", x.argmax(0)?, DType::I32, want(0.0)),
            exact("argmin of all", x.argmin(())?, DType::I32, want(0.0)),
        ])
    });
}

fn positions(suite: &mut Suite) {
    suite.add("positions of all elements, and kept", |device| {
        let x = Array::new(&[2, 3], vec![1.0, 7.0, 2.0, 7.0, -3.0, 5.0]);
        let a = x.f32(device)?;
        let one = |shape: &[usize], v: f64| Array::new(shape, vec![v]);
        let rows = |shape: &[usize]| Array::new(shape, vec![1.0, 0.0]);
        let kept = |axes: Axes| axes.keepdim(true);
        Ok(vec![
            exact("the first of equal ones", a.argmax(())?, DType::I32, one(&[], 1.0)),
            exact("the smallest", a.argmin(())?, DType::I32, one(&[], 4.0)),
            exact("all, kept", a.argmax(kept(().into()))?, DType::I32, one(&[1, 1], 1.0)),
            exact("of rows", a.argmax(-1)?, DType::I32, rows(&[2])),
            exact("of rows, kept", a.argmax(kept(Axes::from(1)))?, DType::I32, rows(&[2, 1])),
            exact("of a vector", a.ravel().argmax(&[])?, DType::I32, one(&[], 1.0)),
        ])
    });
}

fn shapes(suite: &mut Suite) {
    suite.add("shapes with an open extent", |device| {
        let x = integers(&[2, 3, 4], -9, 9, 2);
        let a = x.f32(device)?;
        let column = x.slice(2, 0, 1, 1);
        let wide = column.expand(&[5, 2, 3, 4]);
        let b = column.f32(device)?;
        Ok(vec![
            same("reshape to [6, -1]", a.reshape(&[6, -1])?, x.reshape(&[6, 4])),
            same("reshape to [-1]", a.reshape([-1])?, x.reshape(&[24])),
            same("reshape by usize", a.reshape(&[a.shape()[2], 6])?, x.reshape(&[4, 6])),
            same("reshape by isize", a.reshape(vec![4usize, 6])?, x.reshape(&[4, 6])),
            same("reshape to another's", a.reshape(a.shape())?, x.clone()),
            same("expand to [5, -1, -1, 4]", b.expand(&[5, -1, -1, 4])?, wide),
            same("expand to its own", a.expand(Extents::from(a.shape()))?, x.clone()),
        ])
    });
    suite.add("fewer axes", |device| {
        let x = integers(&[2, 1, 3, 1], -9, 9, 3);
        let a = x.f32(device)?;
        Ok(vec![
            same("flatten of all", a.flatten(..)?, x.reshape(&[6])),
            same("flatten from 1", a.flatten(1..)?, x.reshape(&[2, 3])),
            same("flatten up to 2", a.flatten(..=2)?, x.reshape(&[6, 1])),
            same("flatten up to -1", a.flatten(..-1)?, x.reshape(&[6, 1])),
            same(
                "flatten of a number",
                a.sum(())?.flatten(..)?,
                sum(&x, &[0, 1, 2, 3]).reshape(&[1]),
            ),
            same("ravel", a.ravel(), x.reshape(&[6])),
            same("squeeze of one", a.squeeze(-1)?, x.reshape(&[2, 1, 3])),
            same("squeeze of two", a.squeeze([1, 3])?, x.reshape(&[2, 3])),
            same("squeeze of all", a.squeeze(())?, x.reshape(&[2, 3])),
        ])
    });
}

fn ranges(suite: &mut Suite) {
    suite.add("ranges with open ends and from the end", |device| {
        let x = integers(&[5, 2], -9, 9, 4);
        let a = x.f32(device)?;
        let part = |start, len| x.slice(0, start, len, 1);
        let (before_last, last) = (-2isize, -1isize);
        Ok(vec![
            same("1..3", a.slice(0, 1..3)?, part(1, 2)),
            same("1..=3", a.slice(0, 1..=3)?, part(1, 3)),
            same("..2", a.slice(0, ..2)?, part(0, 2)),
            same("2..", a.slice(0, 2..)?, part(2, 3)),
            same("..", a.slice(0, ..)?, x.clone()),
            same("-1..", a.slice(0, -1..)?, part(4, 1)),
            same("..-2", a.slice(0, ..-2)?, part(0, 3)),
            same("-2..-1", a.slice(0, before_last..last)?, part(3, 1)),
            same("..=-1", a.slice(0, ..=-1)?, x.clone()),
            same("5..", a.slice(0, 5..)?, Array::new(&[0, 2], vec![])),
            same("every other one", a.slice_step(0, 1.., 2)?, x.slice(0, 1, 2, 2)),
            same("the first", a.select(0, 0)?, part(0, 1).squeeze(&[0])),
            same("the last but one", a.select(0, -2)?, part(3, 1).squeeze(&[0])),
            same("a column", a.select(-1, -1)?, x.slice(1, 1, 1, 1).squeeze(&[1])),
        ])
    });
}

fn pieces(suite: &mut Suite) {
    suite.add("pieces of one length, and tensors joined", |device| {
        let x = integers(&[5, 2], -9, 9, 5);
        let a = x.f32(device)?;
        let parts = a.split(2, 0)?;
        let lengths = a.split(&[1, 4], 0)?;
        let joined = Tensor::concat(&parts, 0)?;
        let borrowed: Vec<&Tensor> = lengths.iter().collect();
        let twice = Array::concat(&[x.reshape(&[1, 5, 2]), x.reshape(&[1, 5, 2])], 0);
        Ok(vec![
            same("the first", parts[0].clone(), x.slice(0, 0, 2, 1)),
            same("the last", parts[2].clone(), x.slice(0, 4, 1, 1)),
            same("by lengths", lengths[1].clone(), x.slice(0, 1, 4, 1)),
            same("joined", joined, x.clone()),
            same("joined by reference", Tensor::concat(&borrowed, 0)?, x.clone()),
            same("joined alone", Tensor::concat(&[&a], 0)?, x),
            same("stacked", Tensor::stack(&[a.clone(), a], 0)?, twice),
        ])
    });
}

fn operands(suite: &mut Suite) {
    suite.add("numbers of every type, tensors by value, operators", |device| {
        let x = integers(&[4], 1, 9, 6);
        let a = x.f32(device)?;
        let by = |f: fn(f64) -> f64| x.map(f);
        let (i, u) = (x.on(device, DType::I32)?, x.on(device, DType::U32)?);
        Ok(vec![
            same("usize", a.add(3usize)?, by(|x| x + 3.0)),
            same("isize", a.add(-3isize)?, by(|x| x - 3.0)),
            same("i64", a.mul(2i64)?, by(|x| 2.0 * x)),
            same("u64", a.mul(2u64)?, by(|x| 2.0 * x)),
            same("by value", a.add(a.clone())?, by(|x| 2.0 * x)),
            same("an operand", a.add(Operand::from(&a))?, by(|x| 2.0 * x)),
            same("&x + &y", &a + &a, by(|x| 2.0 * x)),
            same("x + y", a.clone() + a.clone(), by(|x| 2.0 * x)),
            same("x - &y", a.clone() - &a, by(|_| 0.0)),
            same("&x * 2", &a * 2, by(|x| 2.0 * x)),
            same("2.0 * &x", 2.0 * &a, by(|x| 2.0 * x)),
            same("1.0 - &x", (1.0 - &a).neg(), by(|x| x - 1.0)),
            same("1 - x", 1 - a.clone(), by(|x| 1.0 - x)),
            same("8 / &x", 8.0 / &(&a * 0.0 + 2.0), by(|_| 4.0)),
            same("-x", -a.clone(), by(|x| -x)),
            exact("9 % x of i32", 9 % &i, DType::I32, by(|x| 9.0 % x)),
            exact("10 - x of u32", 10 - &u, DType::U32, by(|x| 10.0 - x)),
            same("fmod", (&a - 5.0).fmod(3)?, by(|x| (x - 5.0) % 3.0)),
            same("remainder", (&a - 5.0).remainder(3)?, by(|x| (x - 5.0).rem_euclid(3.0))),
        ])
    });
    suite.add("true and false, and a tensor for masked places", |device| {
        let x = integers(&[2, 3], -9, 9, 7);
        let a = x.f32(device)?;
        let mask = a.gt(0.0)?;
        let row = Array::new(&[3], vec![10.0, 20.0, 30.0]);
        let filled = a.masked_fill(&mask, &row.f32(device)?)?;
        let want = x.zip(&row, |x, row| if x > 0.0 { row } else { x });
        let not = x.map(|x| f64::from(x <= 0.0));
        Ok(vec![same("filled", filled, want), exact("false", mask.eq(false)?, DType::Bool, not)])
    });
}

fn made(suite: &mut Suite) {
    suite.add("types of what is made", |device| {
        let all = |shape: &[usize], v: f64| Array::from_fn(shape, |_| v);
        let x = device.full(&[2, 3], 7.0, DType::I32)?;
        let eye = |n: usize, m: usize| Array::from_fn(&[n, m], |at| f64::from(at[0] == at[1]));
        Ok(vec![
            exact("full", x.clone(), DType::I32, all(&[2, 3], 7.0)),
            same("zeros", device.zeros(&[2])?, all(&[2], 0.0)),
            same("ones by a count", device.ones(3)?, all(&[3], 1.0)),
            exact(
                "zeros of u32",
                device.zeros((&[2, 2], DType::U32))?,
                DType::U32,
                all(&[2, 2], 0.0),
            ),
            exact("ones of bool", device.ones(([2], DType::Bool))?, DType::Bool, all(&[2], 1.0)),
            exact("zeros_like", x.zeros_like(), DType::I32, all(&[2, 3], 0.0)),
            exact("ones_like", x.ones_like(), DType::I32, all(&[2, 3], 1.0)),
            exact("full_like", x.full_like(-5.0)?, DType::I32, all(&[2, 3], -5.0)),
            same("eye", device.eye(3)?, eye(3, 3)),
            exact("eye of i32", device.eye((2, DType::I32))?, DType::I32, eye(2, 2)),
            same("eye of two extents", device.eye([2, 4])?, eye(2, 4)),
            same("arange", device.arange(4.0)?, Array::new(&[4], vec![0.0, 1.0, 2.0, 3.0])),
            same("arange of a part", device.arange(2.5)?, Array::new(&[3], vec![0.0, 1.0, 2.0])),
            same("arange of less than nothing", device.arange(-1.0)?, Array::new(&[0], vec![])),
            same(
                "down",
                device.arange_step(1.0, -1.0, -0.5)?,
                Array::new(&[4], vec![1.0, 0.5, 0.0, -0.5]),
            ),
            exact("linspace", device.linspace(0.0, 6.0, (4, DType::I32))?, DType::I32, {
                Array::new(&[4], vec![0.0, 2.0, 4.0, 6.0])
            }),
            exact(
                "bernoulli",
                device.bernoulli((&[5], DType::Bool), 1.0, 3)?,
                DType::Bool,
                all(&[5], 1.0),
            ),
            exact(
                "uniform",
                device.uniform((5, DType::I32), 4.0, 5.0, 3)?,
                DType::I32,
                all(&[5], 4.0),
            ),
        ])
    });
}

fn numbers(suite: &mut Suite) {
    suite.add("running sums by value", |device| {
        let x = integers(&[2, 4], -9, 9, 8);
        let a = x.f32(device)?;
        let up = |exclusive: usize| {
            Array::from_fn(&[2, 4], |at| {
                (0..at[1] + 1 - exclusive).map(|n| x.at(&[at[0], n])).sum()
            })
        };
        let down = Array::from_fn(&[2, 4], |at| (at[1]..4).map(|n| x.at(&[at[0], n])).sum());
        Ok(vec![
            same("cumsum", a.cumsum(-1)?, up(0)),
            same("exclusive", a.cumsum(Scan::from(1).exclusive(true))?, up(1)),
            same("reverse", a.cumsum(Scan::from(1isize).reverse(true))?, down),
        ])
    });
}
