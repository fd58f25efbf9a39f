//! Searches that see few groups, such as those of a few named sources: their rows are scored one by
//! one, so that the cost depends on them and not on the size of the space. Guarantees the order
//! that a search through all rows would give.

use super::super::vectors::unit;
use super::scoring::Scores;
use super::{Filter, Index, Place};

/// Most groups that are looked up.
const GROUPS: usize = 16;
/// The rows must be fewer than one in so many.
const SHARE: usize = 4;

impl Index {
    /// The rows of the groups that a filter names, if they are few.
    pub(super) fn few(
        &self,
        filter: &Filter,
        wanted: impl Fn(Place) -> bool,
    ) -> Option<Vec<Place>> {
        let groups = filter.groups.as_ref().filter(|all| all.len() <= GROUPS)?;
        let most = self.len() / SHARE;
        let mut places = Vec::new();
        for (number, segment) in self.segments.iter().enumerate() {
            let rows = &segment.rows;
            for group in groups.keys().filter_map(|id| rows.group_number(id)) {
                let some = rows.rows_in(group).take(most + 1);
                places.extend(some.map(|row| Place::new(number, row)));
                if places.len() > most {
                    return None;
                }
            }
        }

        places.retain(|place| wanted(*place));
        Some(places)
    }

    /// The `count` best of some rows by keyword, best first; ties go to the lower entry.
    pub(super) fn best_of(
        &self,
        places: &[Place],
        scores: &Scores<'_>,
        count: usize,
    ) -> Vec<(Place, f64)> {
        let each = places.iter().map(|place| (*place, scores.of(*place)));
        let mut found: Vec<(Place, f64)> = each.filter(|(_, score)| *score > 0.0).collect();
        found.sort_by(|a, b| {
            let entries = (self.entry_id(a.0), self.entry_id(b.0));
            b.1.total_cmp(&a.1).then(entries.0.cmp(&entries.1))
        });
        found.truncate(count);
        found
    }

    /// The `count` nearest of some rows to a vector, nearest first; ties go to the earlier row.
    pub(super) fn nearest_of(
        &self,
        places: &[Place],
        asked: &[f32],
        count: usize,
    ) -> Vec<(Place, f64)> {
        if asked.iter().all(|value| *value == 0.0) {
            return Vec::new();
        }

        let asked: Vec<f32> = unit(asked).collect();
        let near = |place: &Place| {
            let cosine = self.cosine(*place, &asked)?;
            Some((*place, f64::from(cosine)))
        };
        let mut found: Vec<(Place, f64)> = places.iter().filter_map(near).collect();
        found.sort_by(|a, b| {
            let at = |place: Place| (place.segment(), place.row());
            b.1.total_cmp(&a.1).then(at(a.0).cmp(&at(b.0)))
        });
        found.truncate(count);
        found
    }
}
