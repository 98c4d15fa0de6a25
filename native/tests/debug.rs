//! Tests the environment variable for debugging, in separate processes, because it affects all devices.

use std::process::Command;
use warpweft_native::debug::set_debug;
use warpweft_native::prelude::*;

/// Returns the standard error of the demo.
fn printed(words: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpweft"));
    let command = command.args(["demo"]).env("WARPWEFT_DEVICE", "cpu").env("WARPWEFT_DEBUG", words);
    let output = command.output().expect("the program starts");
    assert!(output.status.success());
    String::from_utf8(output.stderr).expect("it prints text")
}

#[test]
fn the_environment_says_what_is_printed() {
    let time = printed("time");
    assert!(time.contains("times by the host's clock"), "{time}");
    assert!(time.contains("on the device; recording"), "{time}");
    assert!(!time.contains("results:"), "{time}");
    let all = printed("graph,plan,kernel");
    for part in ["= data f32 [", "results: %", " operations, ", " kernels, ", "there is no text"] {
        assert!(all.contains(part), "{part}: {all}");
    }
    assert_eq!(printed(""), "");
    let wrong = printed("plans");
    assert!(
        wrong.starts_with("WARPWEFT_DEBUG: debug: a word must be one of graph, plan"),
        "{wrong}"
    );
}

#[test]
fn reports_say_where_tensors_were_made() -> Result<()> {
    let device = Device::with_blocking(Preference::Cpu)?;
    let before = device.ones(&[8])?;
    before.run()?;
    set_debug("memory")?;
    let (x, line) = (device.tensor(&[1.0f32; 64], &[64])?, line!());
    let y = &x + &x;
    y.run()?;
    set_debug("")?;
    let memory = device.memory();
    let place = |op: &str| {
        let found = memory.largest.iter().find(|held| held.op == op);
        found.and_then(|held| held.made_at.clone()).unwrap_or_default()
    };
    assert!(place("data").contains(&format!("tests/debug.rs:{line}:")), "{}", place("data"));
    assert!(place("add").contains(&format!("tests/debug.rs:{}:", line + 1)), "{}", place("add"));
    assert!(memory.largest.iter().any(|held| held.made_at.is_none()));
    assert!(memory.to_string().contains("made at "), "{memory}");
    Ok(())
}
