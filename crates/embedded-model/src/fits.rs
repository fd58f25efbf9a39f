//! How well a chunk fits the domains, subjects and topics of the inventory and the existing names.
//! Guarantees similarities that depend only on the chunk and the names.

use super::chunk_to_file::{ChunkToFile, Grain, PATIENCE, grain};
use super::meaning::{Choice, MATTER};
use super::table;
use super::topics::{Place, inventory};

/// How sharply the nearest topics of a domain outweigh its others.
const SHARPNESS: f32 = 0.06;

impl ChunkToFile<'_> {
    pub fn best_domain(&self) -> Option<(Place, f32)> {
        let all = inventory();
        let mut mass = vec![0.0f32; all.domains.len()];
        let mut best = vec![0.0f32; all.domains.len()];

        for (number, topic) in all.topics.iter().enumerate() {
            let like = self.best_reading(number);
            mass[topic.domain] += (like / SHARPNESS).exp();
            best[topic.domain] = best[topic.domain].max(like);
        }

        let score = |d: &usize| {
            SHARPNESS * mass[*d].ln()
                + 0.5 * table::dot(&all.domains[*d].vector, &self.profile.vector)
        };

        let top = (0..mass.len()).max_by(|a, b| score(a).total_cmp(&score(b)))?;
        Some((Place::Domain(top), best[top]))
    }

    pub fn best_subject_of_all(&self) -> Option<usize> {
        let best = (0..self.likeness.len())
            .max_by(|a, b| self.likeness[*a].total_cmp(&self.likeness[*b]))?;
        Some(inventory().topics[best].subject)
    }

    pub fn best_subject(&self) -> Option<(Place, f32)> {
        let topic = self
            .topics_below()
            .max_by(|a, b| self.likeness[*a].total_cmp(&self.likeness[*b]))?;
        Some((
            Place::Topic(inventory().topics[topic].subject),
            self.likeness[topic],
        ))
    }

    pub fn best_topic(&self) -> Option<(Place, f32)> {
        let mut best: Option<(Place, f32)> = None;
        let mut offer = |place: Place, fit: f32| {
            if best.is_none_or(|(_, so_far)| fit > so_far) {
                best = Some((place, fit));
            }
        };

        for topic in self.topics_below() {
            offer(Place::Topic(topic), self.likeness[topic]);
            for (matter, like) in &self.matters {
                offer(
                    Place::Pair(topic, *matter),
                    self.pair_fit(topic, *matter, *like),
                );
            }
        }

        best
    }

    /// Similarity to a topic under the matter that explains the chunk best. Without this, "my
    /// top-up is not working" would be about work.
    fn best_reading(&self, topic: usize) -> f32 {
        let under = self
            .matters
            .iter()
            .map(|(m, like)| self.pair_fit(topic, *m, *like));
        under.fold(self.likeness[topic], f32::max)
    }

    /// Similarity to a topic combined with a matter, without computing the sum of their vectors.
    fn pair_fit(&self, topic: usize, matter: usize, like: f32) -> f32 {
        let overlap = inventory().overlap(topic, matter);
        let length = (1.0 + MATTER * MATTER + 2.0 * MATTER * overlap)
            .max(0.01)
            .sqrt();
        (self.likeness[topic] + MATTER * like) / length
    }

    /// Topics that may be below the parent: those of its subject or domain if its name is known,
    /// otherwise all.
    fn topics_below(&self) -> impl Iterator<Item = usize> + use<'_> {
        let all = inventory();
        let parent = self
            .input
            .parent
            .iter()
            .rev()
            .find_map(|name| all.find(name));

        (0..all.topics.len()).filter(move |t| match parent {
            Some(Place::Topic(p)) if all.topics[p].subject == p => {
                all.topics[*t].subject == p && *t != p
            }
            Some(place) => all.topics[*t].domain == all.domain(place),
            None => true,
        })
    }

    /// The existing category nearest to the chunk.
    pub fn nearest<'c>(&self, choices: &'c [Choice]) -> Option<(&'c Choice, f32)> {
        let scored = choices.iter().map(|c| (c, self.fit(c)));
        scored.reduce(|best, next| if next.1 > best.1 { next } else { best })
    }

    fn fit(&self, choice: &Choice) -> f32 {
        let topics = &inventory().topics;
        match choice.place {
            Some(Place::Domain(d)) => {
                let inside = (0..topics.len()).filter(|t| topics[*t].domain == d);
                inside.map(|t| self.best_reading(t)).fold(0.0, f32::max)
            }
            Some(Place::Topic(t)) if self.grain_is_subject() => {
                let inside = topics
                    .iter()
                    .zip(&self.likeness)
                    .filter(|(x, _)| x.subject == t);
                inside.map(|(_, like)| *like).fold(0.0, f32::max)
            }
            // A narrow category created for an enquiry does not fit a whole article.
            Some(Place::Pair(..)) if !self.is_short() => {
                table::dot(&choice.vector, &self.profile.vector) - PATIENCE
            }
            _ => table::dot(&choice.vector, &self.profile.vector),
        }
    }

    fn grain_is_subject(&self) -> bool {
        grain(self.input.level, self.input.depth) == Grain::Subject
    }
}
