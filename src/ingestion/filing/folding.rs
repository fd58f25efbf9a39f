//! Where a name belongs that a model gave without seeing the others: onto an existing category that
//! means the same, by name, by subject and by what is filed there; otherwise it is new.

use memoir_embedded_model::EmbeddedModel;

/// How alike two names must be to mean the same: fields are far apart, topics within one are not.
const SAME_FIELD: f32 = 0.5;
const SAME_TOPIC: f32 = 0.6;
/// How much less will do if the subject is near to what is filed there.
const ALLOWANCE: f32 = 0.2;
/// From when on it is.
const NEAR: f32 = 0.6;

/// A name to fold, with the subject of its chunk.
pub struct GivenName<'n> {
    pub name: &'n str,
    pub subject: Option<&'n str>,
    pub level: i64,
}

/// A category that it may mean.
pub struct Candidate {
    pub name: String,
    /// Subjects or beginnings of chunks below it.
    pub told: Vec<std::sync::Arc<str>>,
}

/// The index of the category that means the same as a name, if there is one; or, if `must_fit`, of
/// the nearest.
pub fn fold(given: &GivenName<'_>, candidates: &[Candidate], must_fit: bool) -> Option<usize> {
    let name = EmbeddedModel::embed(given.name);
    let subject = given.subject.map(EmbeddedModel::embed);
    let least = if given.level <= 1 {
        SAME_FIELD
    } else {
        SAME_TOPIC
    };
    let scored = candidates.iter().enumerate().map(|(at, candidate)| {
        let alike = cosine(&name, &EmbeddedModel::embed(&candidate.name));
        let near = nearness(subject.as_deref(), &candidate.told);
        (at, alike, near)
    });

    let means_the_same = |(_, alike, near): &(usize, f32, f32)| {
        *alike >= least || (*alike >= least - ALLOWANCE && *near >= NEAR)
    };
    let sum = |(_, alike, near): &(usize, f32, f32)| alike + near;
    let best = scored
        .filter(|one| must_fit || means_the_same(one))
        .max_by(|one, other| sum(one).total_cmp(&sum(other)));
    best.map(|(at, ..)| at)
}

/// How near a subject is to the nearest of these texts.
fn nearness(subject: Option<&[f32]>, told: &[std::sync::Arc<str>]) -> f32 {
    let Some(subject) = subject else {
        return 0.0;
    };
    told.iter()
        .map(|text| cosine(subject, &EmbeddedModel::embed(text)))
        .fold(0.0, f32::max)
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(names: &[&str]) -> Vec<Candidate> {
        let candidate = |name: &&str| Candidate {
            name: (*name).to_owned(),
            told: Vec::new(),
        };
        names.iter().map(candidate).collect()
    }

    #[test]
    fn names_that_mean_the_same_are_one() {
        let fields = candidates(&["Finance", "Automotive", "Recipes", "Animals", "Medical"]);
        for (name, wanted) in [
            ("Vehicle", Some(1)),
            ("Cooking", Some(2)),
            ("Pet", Some(3)),
            ("Health", Some(4)),
            ("Music", None),
            ("Travel", None),
            ("Gardening", None),
        ] {
            let given = GivenName {
                name,
                subject: None,
                level: 1,
            };
            assert_eq!(fold(&given, &fields, false), wanted, "{name}");
            assert!(fold(&given, &fields, true).is_some());
        }

        let none = GivenName {
            name: "Vehicle",
            subject: None,
            level: 1,
        };
        assert_eq!(fold(&none, &[], true), None);
    }

    #[test]
    fn a_near_subject_makes_up_for_a_less_similar_name() {
        let given = GivenName {
            name: "Banking",
            subject: Some("monthly account statement"),
            level: 1,
        };
        let mut fields = candidates(&["Finance", "Music"]);
        assert_eq!(fold(&given, &fields, false), None);
        fields[0].told = vec!["statement of the account".into()];
        assert_eq!(fold(&given, &fields, false), Some(0));
    }
}
