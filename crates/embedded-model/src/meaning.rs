//! The meaning of a category name, as a vector. Guarantees the inventory's description for its own
//! names, an extended vector for all others, and a small bounded cache, because the same names
//! occur in every call.

use std::sync::{LazyLock, Mutex, PoisonError};

use hashlink::LruCache;

use super::profile;
use super::table::{self, Vector};
use super::topics::{Inventory, Place, Topic, inventory};

/// Share of the matter in the vector of a topic combined with a matter.
pub const MATTER: f32 = 0.7;
/// Similarity at which an unknown name counts as a synonym of an inventory entry.
pub const SYNONYM: f32 = 0.45;
/// Share of the nearest topic's description in the meaning of an unknown name.
const WIDENING: f32 = 0.7;
/// Maximum size of the cache, which is emptied when it is full.
const KEPT: usize = 512;

/// An existing category.
#[derive(Debug, Clone)]
pub struct Choice {
    pub name: String,
    pub place: Option<Place>,
    /// For a name that is not in the inventory: the subject that it is a synonym of.
    pub kin: Option<usize>,
    pub vector: Vector,
}

impl Choice {
    pub fn new(name: &str) -> Self {
        static READ: LazyLock<Mutex<LruCache<String, Choice>>> =
            LazyLock::new(|| Mutex::new(LruCache::new(KEPT)));

        let memory = || READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = memory().get(name) {
            return known.clone();
        }

        // Others do not wait for it.
        let choice = Self::read(name);
        // A very long name is not cached.
        if name.len() <= 256 {
            memory().insert(name.to_string(), choice.clone());
        }

        choice
    }

    fn read(name: &str) -> Self {
        let all = inventory();
        let place = all.find(name);
        let (vector, kin) = match place {
            Some(Place::Domain(d)) => (all.domains[d].vector, None),
            Some(Place::Topic(t)) => (all.topics[t].vector, None),
            Some(Place::Pair(t, m)) => (pair_vector(all, t, m), None),
            None => widened(&profile::vector_of(name)),
        };

        Self {
            name: name.to_string(),
            place,
            kin,
            vector,
        }
    }
}

/// A name's own words combined with the description of the nearest topic, because two words alone
/// are far from every real chunk.
fn widened(own: &Vector) -> (Vector, Option<usize>) {
    let Some(topic) = nearest_topic(own) else {
        return (*own, None);
    };
    let mut sum = *own;
    table::add(&mut sum, &topic.vector, WIDENING);
    (table::unit(sum), Some(topic.subject))
}

/// The topic that an unknown name is a synonym of.
fn nearest_topic(own: &Vector) -> Option<&'static Topic> {
    let topics = inventory()
        .topics
        .iter()
        .map(|t| (table::dot(&t.vector, own), t));

    let nearest = topics.reduce(|best, next| if next.0 > best.0 { next } else { best });
    nearest
        .filter(|(like, _)| *like >= SYNONYM)
        .map(|(_, topic)| topic)
}

fn pair_vector(all: &Inventory, topic: usize, matter: usize) -> Vector {
    let mut sum = all.topics[topic].vector;
    table::add(&mut sum, &all.matters[matter].vector, MATTER);
    table::unit(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_outside_the_inventory_are_similar_to_its_subjects() {
        for (name, subject) in [
            ("Outer space", "Astronomy and space"),
            ("Football matches", "Football"),
            ("Baking bread", "Baking"),
            ("Automobiles", "Cars"),
        ] {
            let kin = Choice::new(name).kin.map(|s| inventory().topics[s].name);
            assert_eq!(kin, Some(subject), "{name}");
        }
    }

    #[test]
    fn the_cache_is_bounded_and_changes_no_result() {
        let before = Choice::new("Whales").vector;
        for n in 0..2 * KEPT {
            let _ = Choice::new(&format!("Name {n}"));
        }

        let after = Choice::new("Whales").vector;
        assert!(
            before
                .iter()
                .zip(&after)
                .all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
}
