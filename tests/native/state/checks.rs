//! Tests of the fuzz test itself: it finds faults, shrinks them, and its reference has the right gradients.
//!
//! Faults are put into the reference, because the library cannot be changed here. The comparison does not know which of the two
//! is wrong.

use super::actions::{text, Action, Binary, Unary};
use super::generator;
use super::model::{Fault, Setting};
use super::reference::array::Array;
use super::reference::number::Number;
use super::reference::rules::{Rule, RULES};
use super::reference::tape::{self, Tensor};
use super::run::Count;
use super::shrink::shrink;
use super::{Bench, Place};
use std::collections::BTreeSet;

/// The number of programs, of which one must find a fault.
const SEEDS: u64 = 400;

/// Returns the smallest program that finds a fault of the reference, and that passes without it.
fn found(fault: Fault, ranks: usize) -> Vec<Action> {
    let mut bench = Bench::open(Place::Cpu, ranks).expect("the CPU is there");
    let right = bench.setting;
    let wrong = Setting { fault, ..right };
    let mut finds = |program: &[Action]| {
        let mut run = |setting: Setting| {
            bench.setting = setting;
            bench.run(program, &mut Count::default()).is_some()
        };
        run(wrong) && !run(right)
    };
    let programs = (0..SEEDS).map(|seed| generator::program(seed, right));
    let program = programs.into_iter().find(|program| finds(program));
    shrink(&program.unwrap_or_else(|| panic!("{fault:?} is not found")), finds)
}

fn names(program: &[Action]) -> BTreeSet<String> {
    program.iter().map(Action::name).collect()
}

#[test]
fn a_wrong_gradient_is_found() {
    let program = found(Fault::Tanh, 1);
    let text = text(&program);
    assert!(text.contains("tanh"), "{text}");
    assert!(program.len() <= 6, "{text}");
}

#[test]
fn a_wrong_rule_of_an_optimizer_is_found() {
    let program = found(Fault::NoMomentum, 1);
    let names = names(&program);
    assert!(names.contains("Optimizer") || names.contains("Trainer"), "{}", text(&program));
    assert!(program.len() <= 8, "{}", text(&program));
}

#[test]
fn shared_gradients_of_variables_are_found() {
    let program = found(Fault::SharedVariables, 1);
    assert!(names(&program).contains("Variable"), "{}", text(&program));
    assert!(program.len() <= 7, "{}", text(&program));
}

#[test]
fn a_program_that_captures_late_is_found() {
    let program = found(Fault::LateCapture, 1);
    let names = names(&program);
    let all = ["Compile", "RunProgram"];
    assert!(all.iter().all(|name| names.contains(*name)), "{}", text(&program));
    assert!(program.len() <= 16, "{}", text(&program));
}

#[test]
fn a_program_that_draws_nothing_is_found() {
    let program = found(Fault::NoDraws, 1);
    let names = names(&program);
    let draws = names.contains("Compile") && names.contains("RunProgram");
    assert!(draws, "{}", text(&program));
    assert!(program.len() <= 8, "{}", text(&program));
}

#[test]
fn weights_that_are_not_the_best_are_found() {
    let program = found(Fault::LastWeights, 1);
    assert!(text(&program).contains("STOPPING"), "{}", text(&program));
    assert!(program.len() <= 9, "{}", text(&program));
}

#[test]
fn averages_of_lost_parameters_are_found() {
    let program = found(Fault::LostAverages, 1);
    assert!(names(&program).contains("Average"), "{}", text(&program));
    assert!(program.len() <= 6, "{}", text(&program));
}

#[test]
fn ranks_that_train_alone_are_found() {
    let program = found(Fault::OwnGradients, 2);
    assert!(names(&program).contains("Trainer"), "{}", text(&program));
    assert!(program.len() <= 4, "{}", text(&program));
}

#[test]
fn programs_are_various() {
    let setting = Setting { f16: true, ..Setting::default() };
    let mut seen = BTreeSet::new();
    for seed in 0..300 {
        seen.extend(names(&generator::program(seed, setting)));
    }
    // There are about sixty kinds of actions and operations.
    assert!(seen.len() > 65, "{} kinds: {seen:?}", seen.len());
    let again = generator::program(5, setting);
    assert_eq!(again, generator::program(5, setting), "a seed is a program");
}

#[test]
fn one_action_is_what_is_left() {
    let setting = Setting { f16: true, ..Setting::default() };
    let has = |program: &[Action]| {
        program.iter().any(|action| matches!(action, Action::Binary { op: Binary::Matmul, .. }))
    };
    let program = (0..SEEDS).map(|seed| generator::program(seed, setting)).find(|x| has(x));
    let small = shrink(&program.expect("one has a product"), has);
    assert!(matches!(small[..], [Action::Binary { op: Binary::Matmul, .. }]), "{}", text(&small));
}

#[test]
fn a_copy_is_joined_with_what_it_copies() {
    let program = [
        Action::Data { to: 0, shape: 0, seed: 0 },
        Action::Unary { op: Unary::Copy, a: 0, to: 3 },
        Action::Read { t: 3 },
    ];
    let reads_data = |program: &[Action]| {
        let mut of_data: Option<usize> = None;
        program.iter().any(|action| match *action {
            Action::Data { to, .. } => {
                of_data = Some(to);
                false
            }
            Action::Unary { op: Unary::Copy, a, to } if of_data == Some(a) => {
                of_data = Some(to);
                false
            }
            Action::Read { t } => of_data == Some(t),
            _ => false,
        })
    };
    let small = shrink(&program, reads_data);
    assert_eq!(text(&small), "    t0 = data([], seed 0);\n    t0.read();\n");
}

/// Returns a function of two matrices that has every operation with a gradient.
fn everything(a: &Tensor, b: &Tensor) -> Tensor {
    let fits = "the operands fit";
    let product = tape::matmul(&tape::tanh(a), &tape::transpose(b).expect(fits)).expect(fits);
    let sum = tape::add(&product, &tape::sum_to(b, &[2, 1])).expect(fits);
    let chosen = tape::choose(&sum, &tape::exp(&tape::scale(&sum, 0.3)), &tape::square(&sum));
    let rows = tape::concat(&tape::slice(b, 1, 1), &tape::relu(&tape::plus(a, 0.1)));
    let element = tape::element(&rows.expect(fits), &tape::expand(&tape::slice(a, 0, 1), &[3, 3]));
    let other = tape::sub(&tape::mul(a, b).expect(fits), a).expect(fits);
    let parts =
        [tape::sum(&chosen.expect(fits)), tape::sum(&element.expect(fits)), tape::sum(&other)];
    let [x, y, z] = parts;
    tape::add(&tape::add(&x, &y).expect(fits), &tape::reshape(&z, &[])).expect(fits)
}

#[test]
fn gradients_of_the_reference_are_slopes() {
    let array = |values: [f64; 6]| Array::new(&[2, 3], values.map(Number::exact).to_vec());
    let first = [0.3, -0.7, 1.1, 0.9, -0.2, 0.4];
    let second = [-0.5, 0.8, 0.2, 1.3, 0.6, -0.9];
    let value = |first: [f64; 6], second: [f64; 6]| {
        let (a, b) = (tape::constant(array(first)), tape::constant(array(second)));
        everything(&a, &b).value.data[0].value
    };
    let (a, b) = (tape::constant(array(first)), tape::constant(array(second)));
    let one = tape::constant(Array::scalar(1.0));
    let found = tape::gradients(&everything(&a, &b), &one, &[a, b]);
    let step = 1e-5;
    for (which, gradient) in found.into_iter().enumerate() {
        let gradient = gradient.expect("both go into it");
        for n in 0..6 {
            let at = |step: f64| {
                let mut both = [first, second];
                both[which][n] += step;
                value(both[0], both[1])
            };
            let slope = (at(step) - at(-step)) / (2.0 * step);
            let got = gradient.value.data[n].value;
            assert!((slope - got).abs() < 1e-6, "{which} {n}: {got} and {slope}");
        }
    }
}

/// Tests that every rule approaches the minimum of a parabola.
#[test]
fn rules_go_downhill() {
    for (rule, lr) in RULES {
        let mut p = Number::exact(1.5);
        let memory = rule.memory().into_iter();
        let mut memory: Vec<Number> = memory.map(|(_, first)| Number::exact(first)).collect();
        for t in 1..=40 {
            p = rule.update(p, p * 2.0, &mut memory, lr, t);
        }
        assert!(p.value.abs() < 1.2, "{rule:?}: {p:?}");
    }
    let plain = Rule::Sgd { momentum: 0.0, dampening: 0.0, decay: 0.0, nesterov: false };
    let p = plain.update(Number::exact(1.0), Number::exact(0.5), &mut [], 0.5, 1);
    assert_eq!(p.value, 0.75);
}
