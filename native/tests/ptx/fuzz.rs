//! Random programs. Each is made as a tree, printed as WGSL, and executed here and by the interpreter.

use crate::common::{kernel_with, run_kernel, words};
use ptx::Options;
use warpweft_native::cuda::ptx;

const VARIABLES: usize = 4;
const ELEMENTS: u32 = 12;

enum Expression {
    Constant(u32),
    Variable(usize),
    Element(Box<Expression>),
    Binary(&'static str, Box<Expression>, Box<Expression>),
    Select(Box<Expression>, Box<Expression>, Box<Expression>),
    Call(Box<Expression>, Box<Expression>),
}

enum Statement {
    Assign(usize, Expression),
    Store(Expression, Expression),
    If(Expression, Vec<Statement>, Vec<Statement>),
    /// A loop with a name, a limit and a step.
    For(usize, Expression, u32, Vec<Statement>),
    Switch(Expression, Vec<Vec<Statement>>),
    Bump(Expression),
    /// Moves the first variable to the second, the second to the third, and the third to the first.
    Rotate(usize, usize, usize),
    Break(Expression),
    Continue(Expression),
}

struct Generator {
    random: Vec<u32>,
    loops: usize,
    /// The loops around the statement.
    open: Vec<usize>,
}

impl Generator {
    fn below(&mut self, limit: u32) -> u32 {
        self.random.pop().unwrap_or(0) % limit
    }

    fn expression(&mut self, depth: u32) -> Expression {
        let kind = if depth == 0 { self.below(3) } else { self.below(10) };
        let next = |generator: &mut Self| Box::new(generator.expression(depth - 1));
        match kind {
            0 => Expression::Constant(self.below(20)),
            1 => Expression::Variable(self.below(VARIABLES as u32) as usize),
            2 => match self.open.last() {
                Some(name) => Expression::Variable(VARIABLES + name),
                None => Expression::Variable(0),
            },
            3 => Expression::Element(next(self)),
            4 => Expression::Select(next(self), next(self), next(self)),
            5 => Expression::Call(next(self), next(self)),
            _ => {
                const OPERATORS: [&str; 8] = ["+", "-", "*", "/", "%", "^", "&", "|"];
                let operator = OPERATORS[self.below(8) as usize];
                Expression::Binary(operator, next(self), next(self))
            }
        }
    }

    fn block(&mut self, depth: u32) -> Vec<Statement> {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: u32) -> Statement {
        let kind = if depth == 0 { self.below(4) } else { self.below(10) };
        match kind {
            0 | 1 => Statement::Assign(self.below(VARIABLES as u32) as usize, self.expression(2)),
            2 => Statement::Store(self.expression(1), self.expression(2)),
            3 if self.below(2) == 0 => {
                let mut any = || self.below(VARIABLES as u32) as usize;
                Statement::Rotate(any(), any(), any())
            }
            3 | 4 if !self.open.is_empty() => match self.below(2) {
                0 => Statement::Break(self.expression(1)),
                _ => Statement::Continue(self.expression(1)),
            },
            3 | 4 => Statement::Bump(self.expression(1)),
            5 | 6 => {
                Statement::If(self.expression(2), self.block(depth - 1), self.block(depth - 1))
            }
            7 => {
                let selector = self.expression(1);
                // A `break` would leave the switch, so loops in it have their own.
                let open = std::mem::take(&mut self.open);
                let cases = (0..3).map(|_| self.block(depth - 1)).collect();
                self.open = open;
                Statement::Switch(selector, cases)
            }
            _ => {
                let limit = if self.below(2) == 0 {
                    Expression::Constant(self.below(9))
                } else {
                    self.expression(1)
                };
                self.loops += 1;
                let name = self.loops;
                let step = 1 + self.below(3);
                self.open.push(name);
                let body = self.block(depth - 1);
                self.open.pop();
                Statement::For(name, limit, step, body)
            }
        }
    }
}

fn name(variable: usize) -> String {
    if variable < VARIABLES {
        format!("v{variable}")
    } else {
        format!("k{}", variable - VARIABLES)
    }
}

fn show(e: &Expression) -> String {
    match e {
        Expression::Constant(value) => format!("{value}u"),
        Expression::Variable(variable) => name(*variable),
        Expression::Element(index) => format!("a[{} % {ELEMENTS}u]", show(index)),
        Expression::Binary(operator, x, y) => {
            // The divisor of a constant expression must not be zero.
            let y = if matches!(*operator, "/" | "%") {
                format!("({} | v1)", show(y))
            } else {
                show(y)
            };
            format!("({} {operator} {y})", show(x))
        }
        Expression::Select(c, x, y) => {
            format!("select({}, {}, ({} & 1u) == 1u)", show(y), show(x), show(c))
        }
        Expression::Call(x, y) => format!("f({}, {})", show(x), show(y)),
    }
}

fn print(block: &[Statement], text: &mut String) {
    for statement in block {
        *text += &match statement {
            Statement::Assign(variable, value) => {
                format!("{} = {};\n", name(*variable), show(value))
            }
            Statement::Store(index, value) => {
                format!("a[{} % {ELEMENTS}u] = {};\n", show(index), show(value))
            }
            Statement::Bump(value) => format!("bump(&v2, &a, {});\n", show(value)),
            Statement::Rotate(a, b, c) => {
                let [a, b, c] = [a, b, c].map(|variable| name(*variable));
                format!("{{ let t = {c}; {c} = {b}; {b} = {a}; {a} = t; }}\n")
            }
            Statement::Break(c) => format!("if (({} & 7u) == 3u) {{ break; }}\n", show(c)),
            Statement::Continue(c) => format!("if (({} & 3u) == 2u) {{ continue; }}\n", show(c)),
            Statement::If(c, accept, reject) => {
                let (mut a, mut b) = (String::new(), String::new());
                print(accept, &mut a);
                print(reject, &mut b);
                format!("if (({} & 1u) == 0u) {{\n{a}}} else {{\n{b}}}\n", show(c))
            }
            Statement::For(k, limit, step, body) => {
                let mut inner = String::new();
                print(body, &mut inner);
                format!(
                    "for (var k{k} = 0u; k{k} < min({}, 9u); k{k} += {step}u) {{\n{inner}}}\n",
                    show(limit)
                )
            }
            Statement::Switch(selector, cases) => {
                let mut inner = String::new();
                for (value, case) in cases.iter().enumerate() {
                    inner += &if value == 2 {
                        "default: {\n".to_string()
                    } else {
                        format!("case {value}u: {{\n")
                    };
                    print(case, &mut inner);
                    inner += "}\n";
                }
                format!("switch ({} % 4u) {{\n{inner}}}\n", show(selector))
            }
        };
    }
}

/// The state of a thread. It stops counting after a limit, so that no program takes long.
struct State {
    variables: Vec<u32>,
    a: [u32; ELEMENTS as usize],
    steps: u32,
}

#[derive(PartialEq)]
enum Exit {
    Next,
    Break,
    Continue,
}

fn f(x: u32, y: u32) -> u32 {
    for k in 0..3 {
        if x.wrapping_add(k) % 5 == y % 5 {
            return x.wrapping_mul(3).wrapping_add(k);
        }
    }
    x ^ y
}

const FUNCTIONS: &str = "
fn f(x: u32, y: u32) -> u32 { for (var k = 0u; k < 3u; k++) { if ((x + k) % 5u == y % 5u) { return x * 3u + k; } }
  return x ^ y; }
fn bump(p: ptr<function, u32>, q: ptr<function, array<u32, 12>>, x: u32) {
  if (x % 3u == 0u) { return; }
  *p += x; (*q)[x % 12u] ^= *p;
}";

impl State {
    fn evaluate(&self, e: &Expression) -> u32 {
        match e {
            Expression::Constant(value) => *value,
            Expression::Variable(variable) => self.variables[*variable],
            Expression::Element(index) => self.a[(self.evaluate(index) % ELEMENTS) as usize],
            Expression::Select(c, x, y) => {
                if self.evaluate(c) & 1 == 1 {
                    self.evaluate(x)
                } else {
                    self.evaluate(y)
                }
            }
            Expression::Call(x, y) => f(self.evaluate(x), self.evaluate(y)),
            Expression::Binary(operator, x, y) => {
                let (x, y) = (self.evaluate(x), self.evaluate(y));
                match *operator {
                    "+" => x.wrapping_add(y),
                    "-" => x.wrapping_sub(y),
                    "*" => x.wrapping_mul(y),
                    "/" => x.checked_div(y | self.variables[1]).unwrap_or(x),
                    "%" => x.checked_rem(y | self.variables[1]).unwrap_or(0),
                    "^" => x ^ y,
                    "&" => x & y,
                    _ => x | y,
                }
            }
        }
    }

    fn run(&mut self, block: &[Statement]) -> Exit {
        for statement in block {
            self.steps += 1;
            let exit = match statement {
                Statement::Assign(variable, value) => {
                    self.variables[*variable] = self.evaluate(value);
                    Exit::Next
                }
                Statement::Store(index, value) => {
                    let (index, value) = (self.evaluate(index) % ELEMENTS, self.evaluate(value));
                    self.a[index as usize] = value;
                    Exit::Next
                }
                Statement::Bump(value) => {
                    let x = self.evaluate(value);
                    if !x.is_multiple_of(3) {
                        self.variables[2] = self.variables[2].wrapping_add(x);
                        self.a[(x % ELEMENTS) as usize] ^= self.variables[2];
                    }
                    Exit::Next
                }
                Statement::Rotate(a, b, c) => {
                    let t = self.variables[*c];
                    self.variables[*c] = self.variables[*b];
                    self.variables[*b] = self.variables[*a];
                    self.variables[*a] = t;
                    Exit::Next
                }
                Statement::Break(c) if self.evaluate(c) & 7 == 3 => Exit::Break,
                Statement::Continue(c) if self.evaluate(c) & 3 == 2 => Exit::Continue,
                Statement::Break(_) | Statement::Continue(_) => Exit::Next,
                Statement::If(c, accept, reject) => {
                    if self.evaluate(c) & 1 == 0 {
                        self.run(accept)
                    } else {
                        self.run(reject)
                    }
                }
                Statement::Switch(selector, cases) => {
                    let case = (self.evaluate(selector) % 4).min(2);
                    self.run(&cases[case as usize])
                }
                Statement::For(k, limit, step, body) => {
                    let k = VARIABLES + k;
                    self.variables[k] = 0;
                    while self.variables[k] < self.evaluate(limit).min(9) {
                        if self.run(body) == Exit::Break {
                            break;
                        }
                        self.variables[k] += step;
                    }
                    Exit::Next
                }
            };
            if exit != Exit::Next {
                return exit;
            }
        }
        Exit::Next
    }
}

#[test]
fn random_programs() {
    let count: u64 =
        std::env::var("WARPWEFT_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(60);
    let first: u64 =
        std::env::var("WARPWEFT_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + count {
        let mut generator = Generator { random: words(4000, seed), loops: 0, open: Vec::new() };
        let program: Vec<Statement> = (0..4).flat_map(|_| generator.block(3)).collect();
        let mut text = String::new();
        print(&program, &mut text);
        let wgsl = format!(
            "{FUNCTIONS}
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) i: u32) {{
var v0 = x[i]; var v1 = i; var v2 = 3u; var v3 = x[i] >> 20u;
var a: array<u32, {ELEMENTS}>;
{text}
for (var k = 0u; k < {ELEMENTS}u; k++) {{ v0 = v0 * 31u + a[k]; }}
y[i] = ((v0 * 31u + v1) * 31u + v2) * 31u + v3;
}}"
        );
        let x = words(32, seed + 1000);
        let expected = |i: usize| {
            let mut variables = vec![0; VARIABLES + 1 + generator.loops];
            variables[..VARIABLES].copy_from_slice(&[x[i], i as u32, 3, x[i] >> 20]);
            let mut state = State { variables, a: [0; ELEMENTS as usize], steps: 0 };
            state.run(&program);
            let v = &state.variables;
            let mix = |sum: u32, value: u32| sum.wrapping_mul(31).wrapping_add(value);
            let v0 = state.a.iter().fold(v[0], |sum, value| mix(sum, *value));
            v[1..VARIABLES].iter().fold(v0, |sum, value| mix(sum, *value))
        };
        for max_unrolled in [0, 10_240] {
            let kernel =
                kernel_with(&wgsl, &Options { sm: 80, max_unrolled, ..Options::default() });
            let y = run_kernel(&kernel, 1, &[x.clone(), vec![0; 32]]).pop().unwrap();
            for i in 0..32 {
                assert_eq!(
                    y[i],
                    expected(i),
                    "seed {seed}, thread {i}, unrolled {max_unrolled}\n{wgsl}"
                );
            }
        }
    }
}

/// Changes shaders at random. The translator must not panic, whether they are still valid or not.
#[test]
fn damaged_shaders_do_not_panic() {
    const SHADER: &str = include_str!("damaged.wgsl");
    let count: u64 =
        std::env::var("WARPWEFT_FUZZ").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let mut sources = vec![SHADER.to_string()];
    // Kernels that the library generated.
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/snapshots");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|end| end == "wgsl") {
            sources.push(std::fs::read_to_string(path).unwrap());
        }
    }
    assert!(sources.len() > 10);
    let mut translated = 0;
    for seed in 0..count {
        let random = words(64, seed + 7);
        let source = &sources[random[0] as usize % sources.len()];
        let tokens: Vec<&str> =
            source.split_inclusive([' ', '(', ')', '[', ']', ';', ',', '.']).collect();
        let mut tokens = tokens;
        for change in random[1..].chunks(3).take(1 + random[1] as usize % 3) {
            let (at, other) =
                (change[0] as usize % tokens.len(), change[1] as usize % tokens.len());
            match change[2] % 4 {
                0 => tokens[at] = tokens[other],
                1 => tokens.swap(at, other),
                2 => tokens.insert(at, tokens[other]),
                _ => drop(tokens.remove(at)),
            }
        }
        let text = tokens.concat();
        let options =
            Options { max_unrolled: [0, 10_240][random[2] as usize % 2], ..Options::default() };
        match std::panic::catch_unwind(|| ptx::translate(&text, &options)) {
            Ok(result) => translated += usize::from(result.is_ok()),
            Err(_) => panic!("seed {seed} panics:\n{text}"),
        }
    }
    println!("{translated} of {count} were valid");
}
