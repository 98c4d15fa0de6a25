//! Programs of actions that once found a fault in loading.

use super::actions::{text, Action};
use super::run::Count;
use super::{absent, Bench, Place};

/// Runs a program on each device. All of its actions must have an effect.
fn agrees(name: &str, program: &[Action]) {
    for place in [Place::Cpu, Place::Wgpu] {
        let mut bench = match Bench::open(place, 1) {
            Ok(bench) => bench,
            Err(error) => {
                absent(place, name, &error);
                continue;
            }
        };
        let mut count = Count::default();
        let found = bench.run(program, &mut count);
        assert!(found.is_none(), "{}: {found:?}\n{}", place.name(), text(program));
        assert_eq!(count.skipped, 0, "{}", text(program));
    }
}

#[test]
fn a_loss_from_before_a_failed_load_can_be_accumulated() {
    let program = [
        Action::Trainer { rule: 0, scaled: false, stopping: 0 },
        Action::Save,
        Action::Trainer { rule: 1, scaled: false, stopping: 0 },
        Action::Value { v: 0, to: 5 },
        // The file lacks the state of momentum.
        Action::Load,
        Action::Accumulate { o: 0, loss: 5 },
        Action::Step { o: 0 },
        Action::Value { v: 0, to: 0 },
        Action::Read { t: 0 },
    ];
    agrees("a load that fails", &program);
}
