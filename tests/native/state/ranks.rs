//! Runs a program on several ranks, which are threads. Each rank has a device, a model and all objects of the program. The
//! ranks' trainers train together.

use super::actions::Action;
use super::machine::{Equipment, Team};
use super::model::Setting;
use super::run::{self, Count, Finding, OTHER_RANK};
use super::Place;
use crate::distributed::threads::Worlds;
use std::sync::Arc;
use std::thread;

/// Runs a program. Returns the first finding of a rank.
pub fn run(
    place: Place,
    setting: Setting,
    program: &[Action],
    count: &mut Count,
) -> Option<Finding> {
    let worlds = Arc::new(Worlds::new(setting.ranks()));
    let perform = |rank: usize| {
        let open = |place: Place| place.open().expect("it was there before");
        let mut equipment = Equipment::new(open(place), open(Place::Cpu));
        equipment.team = Some(Team { rank, worlds: worlds.clone() });
        let mut count = Count::default();
        let setting = Setting { rank, ..setting };
        (run::run(&Arc::new(equipment), setting, program, &mut count), count)
    };
    let results: Vec<_> = thread::scope(|scope| {
        let perform = &perform;
        let ranks: Vec<_> =
            (0..setting.ranks()).map(|rank| scope.spawn(move || perform(rank))).collect();
        ranks.into_iter().map(|rank| rank.join().expect("panics are findings")).collect()
    });
    let mut findings = Vec::new();
    for (finding, own) in results {
        count.add(own);
        findings.extend(finding);
    }
    // The others fail because of the first.
    findings.sort_by_key(|finding| (finding.what.contains(OTHER_RANK), finding.at));
    findings.into_iter().next()
}
