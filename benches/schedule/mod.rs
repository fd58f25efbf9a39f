//! The shortest schedule for the calls of a complete hierarchy, in calls: levels one after another,
//! waves of one parent one after another (1, 2, 4, 8 …), parents in parallel, with a limit on
//! concurrent calls.

use std::collections::BTreeMap;

use serde_json::Value;

/// Length of the ideal schedule of a job's batches.
pub fn ideal(batches: &[Value], places: usize) -> usize {
    let mut levels: BTreeMap<i64, BTreeMap<&str, usize>> = BTreeMap::new();
    for batch in batches {
        let level = levels.entry(batch["level"].as_i64().unwrap()).or_default();
        *level
            .entry(batch["parent_path"].as_str().unwrap())
            .or_default() += 1;
    }

    levels
        .values()
        .map(|groups| level_length(groups.values().copied().collect(), places))
        .sum()
}

/// Every step fills its slots from the groups with the most remaining calls; a group contributes at
/// most its wave.
fn level_length(groups: Vec<usize>, places: usize) -> usize {
    let mut groups: Vec<(usize, usize)> = groups.into_iter().map(|calls| (calls, 1)).collect();
    let mut steps = 0;
    while groups.iter().any(|(left, _)| *left > 0) {
        steps += 1;
        groups.sort_by_key(|(left, _)| std::cmp::Reverse(*left));
        let mut free = places;

        for (left, wave) in &mut groups {
            let taken = (*left).min(*wave).min(free);
            free -= taken;
            *left -= taken;
            if taken == *wave {
                *wave = (*wave * 2).min(places);
            }
        }
    }

    steps
}
