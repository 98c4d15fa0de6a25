//! Tests models from files whose reads have to wait.

use super::tiny::close;
use super::toy_reference::Toy;
use std::cell::Cell;
use std::future::{poll_fn, Future};
use std::io::Cursor;
use std::ops::Range;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use warpweft::device::{Device, Preference};
use warpweft::error::{Error, Result};
use warpweft::io::{Gguf, Source};
use warpweft::model::{LanguageModel, LoadOptions};
use warpweft_native::prelude::*;

/// A file whose reads are pending at first, and that fails at one of its reads.
struct Slow<'a> {
    file: Vec<u8>,
    reads: &'a Cell<usize>,
    fails_at: usize,
}

/// Is pending once.
async fn wait() {
    let mut waited = false;
    poll_fn(|context| {
        context.waker().wake_by_ref();
        match std::mem::replace(&mut waited, true) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

impl Source for Slow<'_> {
    async fn length(&mut self) -> Result<u64> {
        wait().await;
        Ok(self.file.len() as u64)
    }

    async fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        wait().await;
        self.reads.set(self.reads.get() + 1);
        match self.reads.get() == self.fails_at {
            true => Err(Error::format("the line is cut")),
            false => Ok(self.file[range.start as usize..range.end as usize].to_vec()),
        }
    }
}

fn options() -> LoadOptions {
    LoadOptions { context: Some(32), cache: Some(DType::F32), ..LoadOptions::default() }
}

#[test]
fn a_file_that_waits_gives_the_same_model() {
    let device = Device::with_blocking(Preference::Cpu).expect("the CPU");
    let toy = Toy::new(true, Some(5), true);
    let reads = Cell::new(0);
    let parts = |fails_at| {
        let of = |file| Slow { file, reads: &reads, fails_at };
        toy.files(2).into_iter().map(of).collect::<Vec<_>>()
    };
    let loaded = pollster::block_on(LanguageModel::load_from(&device, parts(0), options()));
    let logits = loaded.expect("a model").context().expect("a context").add_all(&[3, 1, 4]);
    close(&logits.expect("logits"), &toy.logits(&[3, 1, 4]).concat(), "of a file that waits");

    let (all, before) = (reads.take(), device.memory().allocated);
    assert!(all > 20, "{all} reads");
    for fails_at in 1..=all {
        reads.set(0);
        let loaded =
            pollster::block_on(LanguageModel::load_from(&device, parts(fails_at), options()));
        let error = loaded.map(drop).expect_err("the line is cut");
        assert!(error.message().contains("the line is cut"), "read {fails_at}: {error}");
        assert_eq!(device.memory().allocated, before, "after a failure of read {fails_at}");
    }
    // A load that is dropped also frees its memory.
    for polls in 1..=all {
        let mut loading = pin!(LanguageModel::load_from(&device, parts(0), options()));
        for _ in 0..polls {
            assert!(loading.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }
    assert_eq!(device.memory().allocated, before, "after loadings that were dropped");
}

#[test]
fn a_head_may_be_longer_than_what_is_read_first() {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let note = |name: &str, length: usize| {
        [text(name), 8u32.to_le_bytes().to_vec(), text(&"x".repeat(length))].concat()
    };
    for length in [1 << 20, (1 << 20) + 1, 5 << 20] {
        let head = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &2u64.to_le_bytes()];
        let file = [head.concat(), note("a", length - 40), note("b", 100)].concat();
        let read = Gguf::read(&mut Cursor::new(&file)).expect("a head");
        assert_eq!(read.metadata["b"].as_str().map(str::len), Some(100), "{length}");
        let cut = Gguf::read(&mut Cursor::new(&file[..file.len() - 1])).expect_err("it is cut");
        let at = file.len() - 100;
        let must = format!(
            "gguf: at byte {at}: \"b\" must fit into the rest of the file, 99 bytes, got 100"
        );
        assert_eq!(cut.message(), must);
    }
}
