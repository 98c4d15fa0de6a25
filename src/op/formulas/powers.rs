//! Powers, with derivatives of every order.

use crate::expr::Expr;

/// x^y as in IEEE 754, computed from the power of |x|.
pub fn pow(x: Expr, y: Expr) -> Expr {
    let p = x.abs().pow(y);
    let half = y * 0.5;
    // From 2^24 on, every `f32` is even.
    let odd = y.floor().eq(y).and(half.floor().ne(half));
    let fraction = y.floor().ne(y);
    let p = x.sign_bit().and(odd).select(-p, p);
    let p = x.lt(0.0).and(fraction).select(f64::NAN, p);
    x.eq(1.0).or(y.eq(0.0)).select(1.0, p)
}

/// The slopes of x^y. By the base it is y x^(y-1). By the exponent it is x^y log x, which is NaN for negative bases, or 0 if
/// the base is 0 and x^y is finite.
pub fn pow_slopes(x: Expr, y: Expr) -> [Expr; 2] {
    [[1.0, 0.0], [0.0, 1.0]].map(|[k, j]| slope(x, y, Expr::lit(k), Expr::lit(j)))
}

/// The derivative of x^y, k times by x and j times by y, for constants k and j. By x alone it is y (y-1) ... (y-k+1) x^(y-k),
/// and 0 if a factor is 0. Each derivative by y multiplies by log x or differentiates the factors.
fn slope(x: Expr, y: Expr, k: Expr, j: Expr) -> Expr {
    let count = |order: Expr| order.literal().unwrap_or_default() as usize;
    let factors: Vec<Expr> = (0..count(k)).map(|n| y - n as f64).collect();
    let power = pow(x, y - k).with_gradient(&[x, y - k], |at, _| pow_slopes(at[0], at[1]).to_vec());
    let none = factors.iter().map(|&factor| factor.eq(0.0)).reduce(|a, b| a.or(b));
    let (value, none) = match count(j) {
        // Factors are multiplied one after the other, because their product may be infinite where the power is 0.
        0 => (factors.iter().fold(power, |value, &factor| factor * value), none),
        j => (sum(x, y, &factors, j) * power, none.map(|none| x.eq(0.0).and(none))),
    };
    let value = none.map_or(value, |none| none.select(0.0, value));
    value.with_gradient(&[x, y, k, j], |arguments, _| {
        let &[x, y, k, j] = arguments else { unreachable!("they are four") };
        let zero = Expr::lit(0.0);
        vec![slope(x, y, k + 1.0, j), slope(x, y, k, j + 1.0), zero, zero]
    })
}

/// Returns the factor of x^(y-k) in the j-th derivative by y of the product of `factors` and the power.
fn sum(x: Expr, y: Expr, factors: &[Expr], j: usize) -> Expr {
    // The logarithm of 0 is replaced by 0, unless a power of it is infinite.
    let log = x.lt(0.0).select(f64::NAN, x.abs().log());
    let log = x.eq(0.0).and(y.ge(0.0)).select(0.0, log);
    // The derivatives of the product. A factor has the first derivative 1, and then 0.
    let mut product = vec![Expr::lit(0.0); j + 1];
    product[0] = Expr::lit(1.0);
    for &factor in factors {
        for n in (0..=j).rev() {
            let before = if n == 0 { Expr::lit(0.0) } else { product[n - 1] * n as f64 };
            product[n] = product[n] * factor + before;
        }
    }
    // The derivatives of both by Leibniz's rule, as a polynomial of the logarithm.
    let (mut sum, mut choices) = (Expr::lit(0.0), 1.0);
    for (n, part) in product.into_iter().enumerate() {
        sum = sum * log + part * choices;
        choices = choices * (j - n) as f64 / (n + 1) as f64;
    }
    sum
}
