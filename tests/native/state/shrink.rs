//! Shrinking: finds a smaller program with the same kind of fault.
//!
//! First, actions are removed, many at once and then one by one. Then single actions are replaced by simpler ones. Both are
//! repeated until nothing helps.

use super::actions::{Action, Binary, Body, Inner, Unary};

/// The most programs that are tried.
const TRIALS: usize = 4_000;

/// Returns the smallest program found for which `wanted` is true, as it is for `program`.
pub fn shrink(program: &[Action], mut wanted: impl FnMut(&[Action]) -> bool) -> Vec<Action> {
    let (mut best, mut trials) = (program.to_vec(), 0);
    let mut is_wanted = |program: &[Action]| {
        trials += 1;
        trials <= TRIALS && wanted(program)
    };
    loop {
        let before = best.clone();
        leave_out(&mut best, &mut is_wanted);
        join_copies(&mut best, &mut is_wanted);
        simplify(&mut best, &mut is_wanted);
        if best == before {
            return best;
        }
    }
}

/// Removes actions.
fn leave_out(best: &mut Vec<Action>, is_wanted: &mut impl FnMut(&[Action]) -> bool) {
    let mut size = (best.len() / 2).max(1);
    loop {
        let mut at = best.len();
        while at > 0 {
            let start = at.saturating_sub(size);
            let fewer = [&best[..start], &best[at.min(best.len())..]].concat();
            if is_wanted(&fewer) {
                *best = fewer;
            }
            at = start;
        }
        if size == 1 {
            return;
        }
        size /= 2;
    }
}

/// Removes copies. Their users take the original.
fn join_copies(best: &mut Vec<Action>, is_wanted: &mut impl FnMut(&[Action]) -> bool) {
    let mut at = 0;
    while at < best.len() {
        let copied = match best[at] {
            Action::Unary { op: Unary::Copy, a, to } => Some((a, to)),
            _ => None,
        };
        if let Some((a, to)) = copied {
            let mut joined = best.clone();
            joined.remove(at);
            for action in &mut joined[at..] {
                action.each_tensor(&mut |slot| *slot = if *slot == to { a } else { *slot });
            }
            if is_wanted(&joined) {
                *best = joined;
                continue;
            }
        }
        at += 1;
    }
}

/// Replaces actions by simpler ones.
fn simplify(best: &mut Vec<Action>, is_wanted: &mut impl FnMut(&[Action]) -> bool) {
    for at in 0..best.len() {
        let mut found = true;
        while found {
            found = false;
            for simpler in simpler(&best[at]) {
                let mut other = best.clone();
                other[at] = simpler;
                if other != *best && is_wanted(&other) {
                    *best = other;
                    found = true;
                    break;
                }
            }
        }
    }
}

/// Returns all lists with one element less.
fn shorter<T: Clone>(list: &[T], least: usize) -> Vec<Vec<T>> {
    if list.len() <= least {
        return Vec::new();
    }
    let without = |n: usize| [&list[..n], &list[n + 1..]].concat();
    (0..list.len()).map(without).collect()
}

/// Returns simpler actions that can replace an action, the simplest first. The relation has no cycles.
fn simpler(action: &Action) -> Vec<Action> {
    let a = action.clone();
    match a {
        Action::Starved(inner) | Action::Profiled(inner) => vec![*inner],
        Action::Data { to, shape, seed } => {
            let smaller = (0..shape).map(|shape| Action::Data { to, shape, seed });
            let first = (seed > 0).then_some(Action::Data { to, shape, seed: 0 });
            smaller.chain(first).collect()
        }
        Action::Unary { op, a, to } => {
            let rank = |op: Unary| match op {
                Unary::Copy => 0,
                Unary::Halve => 1,
                Unary::Square => 2,
                _ => 3,
            };
            let simple = [Unary::Copy, Unary::Halve, Unary::Square];
            let simple = simple.into_iter().filter(|&other| rank(other) < rank(op));
            simple.map(|op| Action::Unary { op, a, to }).collect()
        }
        Action::Binary { op, a, b, to } => {
            let mut all = vec![Action::Unary { op: Unary::Copy, a, to }];
            all.push(Action::Unary { op: Unary::Copy, a: b, to });
            if op != Binary::Add {
                all.push(Action::Binary { op: Binary::Add, a, b, to });
            }
            all
        }
        Action::Where { a, b, to, .. } => vec![Action::Binary { op: Binary::Add, a, b, to }],
        Action::Away { a, to } => vec![Action::Unary { op: Unary::Detach, a, to }],
        Action::Checkpoint { a, body, to } => {
            let mut all = vec![Action::Unary { op: Unary::Copy, a, to }];
            let bodies = simpler_bodies(&body).into_iter();
            all.extend(bodies.map(|body| Action::Checkpoint { a, body, to }));
            all
        }
        Action::ReadPart { t, .. } => vec![Action::Read { t }],
        Action::ReadTogether { a, b } => vec![Action::Read { t: a }, Action::Read { t: b }],
        Action::RunBatch { a, b } => vec![Action::Run { t: a }, Action::Run { t: b }],
        Action::Blame { t, read: true } => vec![Action::Blame { t, read: false }],
        Action::Swap { v, w } => {
            vec![Action::Assign { v, from: 0 }, Action::Assign { v: w, from: 0 }]
        }
        _ => simpler_state(action),
    }
}

fn simpler_state(action: &Action) -> Vec<Action> {
    match action.clone() {
        Action::Flatten { variables } => {
            let fewer = shorter(&variables, 1).into_iter();
            fewer.map(|variables| Action::Flatten { variables }).collect()
        }
        Action::Grad { of, wrt, to } => {
            let fewer = shorter(&wrt, 1).into_iter();
            fewer.map(|wrt| Action::Grad { of, wrt, to }).collect()
        }
        Action::Vjp { of, wrt, to, .. } => vec![Action::Grad { of, wrt: vec![wrt], to }],
        Action::Backward { of, variables } => {
            let fewer = shorter(&variables, 1).into_iter();
            fewer.map(|variables| Action::Backward { of, variables }).collect()
        }
        Action::Optimizer { o, rule, clip, scaled, variables } => {
            let with = |rule, clip, scaled, variables| Action::Optimizer {
                o,
                rule,
                clip,
                scaled,
                variables,
            };
            let fewer = shorter(&variables, 1).into_iter();
            let mut all: Vec<Action> =
                fewer.map(|variables| with(rule, clip, scaled, variables)).collect();
            if clip > 0 {
                all.push(with(rule, 0, scaled, variables.clone()));
            }
            if scaled {
                all.push(with(rule, clip, false, variables.clone()));
            }
            let rules = (0..rule.min(2)).map(|rule| with(rule, clip, scaled, variables.clone()));
            all.extend(rules);
            all
        }
        Action::AddGroup { o, rule, variables } => {
            let fewer = shorter(&variables, 1).into_iter();
            let rules = (0..rule.min(2)).map(|rule| (rule, variables.clone()));
            let all = rules.chain(fewer.map(|variables| (rule, variables)));
            all.map(|(rule, variables)| Action::AddGroup { o, rule, variables }).collect()
        }
        Action::Compile { p, named, nested, inputs, body } => {
            let with = |named, nested, body| Action::Compile {
                p,
                named,
                nested,
                inputs: inputs.clone(),
                body,
            };
            let bodies = simpler_bodies(&body).into_iter();
            let mut all: Vec<Action> = bodies.map(|body| with(named, nested, body)).collect();
            if nested {
                all.push(with(named, false, body.clone()));
            }
            if named && inputs.iter().flatten().all(Option::is_some) {
                all.push(with(false, nested, body));
            }
            all
        }
        Action::RunProgram { inputs, to, .. } => {
            inputs.into_iter().map(|a| Action::Unary { op: Unary::Copy, a, to }).collect()
        }
        Action::Replay { steps } if steps > 1 => vec![Action::Replay { steps: steps - 1 }],
        Action::Trainer { rule, scaled, stopping } => {
            let mut all = Vec::new();
            if stopping > 0 {
                all.push(Action::Trainer { rule, scaled, stopping: 0 });
            }
            if scaled {
                all.push(Action::Trainer { rule, scaled: false, stopping });
            }
            let rules = (0..rule.min(2)).map(|rule| Action::Trainer { rule, scaled, stopping });
            all.extend(rules);
            all
        }
        _ => Vec::new(),
    }
}

/// Returns bodies with one part less.
fn simpler_bodies(body: &Body) -> Vec<Body> {
    let mut all = Vec::new();
    for operations in shorter(&body.operations, 0) {
        all.push(Body { operations, ..body.clone() });
    }
    for results in shorter(&body.results, 1) {
        all.push(Body { results, ..body.clone() });
    }
    for captured in shorter(&body.captured, 0) {
        all.push(Body { captured, ..body.clone() });
    }
    for variables in shorter(&body.variables, 0) {
        all.push(Body { variables, ..body.clone() });
    }
    for (n, operation) in body.operations.iter().enumerate() {
        let plain = match *operation {
            Inner::One(Unary::Halve, _) => continue,
            Inner::One(_, a) => Inner::One(Unary::Halve, a),
            Inner::Two(_, a, _) => Inner::One(Unary::Halve, a),
        };
        let mut operations = body.operations.clone();
        operations[n] = plain;
        all.push(Body { operations, ..body.clone() });
    }
    all
}

impl Body {
    fn each_tensor(&mut self, f: &mut dyn FnMut(&mut usize)) {
        self.captured.iter_mut().for_each(f);
    }
}

impl Action {
    /// Calls `f` with all slots of tensors that the action reads.
    fn each_tensor(&mut self, f: &mut dyn FnMut(&mut usize)) {
        match self {
            Action::Unary { a, .. } | Action::Away { a, .. } => f(a),
            Action::Binary { a, b, .. }
            | Action::RunBatch { a, b }
            | Action::ReadTogether { a, b } => [a, b].into_iter().for_each(f),
            Action::Where { condition, a, b, .. } => [condition, a, b].into_iter().for_each(f),
            Action::Checkpoint { a, body, .. } => {
                f(a);
                body.each_tensor(f);
            }
            Action::Drop { t }
            | Action::Read { t }
            | Action::ReadPart { t, .. }
            | Action::Run { t }
            | Action::FindNonFinite { t }
            | Action::Blame { t, .. }
            | Action::Refused { t, .. } => f(t),
            Action::Variable { from, .. }
            | Action::Assign { from, .. }
            | Action::AssignSlice { from, .. }
            | Action::AssignFlat { from } => f(from),
            Action::Grad { of, wrt, .. } => {
                f(of);
                wrt.iter_mut().for_each(f);
            }
            Action::Vjp { of, seed, wrt, .. } => [of, seed, wrt].into_iter().for_each(f),
            Action::GradByVariable { of, .. } | Action::Backward { of, .. } => f(of),
            Action::Minimize { loss, .. }
            | Action::MinimizeInfinite { loss, .. }
            | Action::Accumulate { loss, .. } => f(loss),
            Action::Compile { body, .. } => body.each_tensor(f),
            Action::RunProgram { inputs, .. } => inputs.iter_mut().for_each(f),
            Action::Starved(inner) | Action::Profiled(inner) => inner.each_tensor(f),
            _ => {}
        }
    }
}
