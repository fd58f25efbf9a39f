//! Frames, schemas and answers of classification.

use super::*;

fn task(may_create: bool) -> Classify {
    Classify {
        contextual_helper: Some("A letter.\nOf 1900.".into()),
        is_title: false,
        helpers: vec!["A household note.".into()],
        level: 2,
        depth: 3,
        parent: [String::from("Physics")].into(),
        categories: [String::from("Quantum"), String::from("Optics")].into(),
        may_create,
        free_names: false,
        hint: Hint::default(),
        chunks: vec![(1, "First \"\"\" text".into()), (2, "Second\n".into())],
    }
}

#[test]
fn the_prompt_has_exactly_this_form() {
    assert_eq!(
        task(true).frame(),
        "contextual_helper: A letter. Of 1900.\nlevel: 2 of 3\nparent: Physics\ncategories:\n- Quantum\n- Optics\n\
         new categories: allowed\nChunk 1:\n\"\"\"\nFirst \\\"\\\"\\\" text\n\"\"\"\nChunk 2:\n\"\"\"\nSecond\n\n\"\"\""
    );

    let root = Classify {
        contextual_helper: None,
        parent: [].into(),
        categories: [].into(),
        ..task(false)
    };

    assert!(root.frame().starts_with(
        "contextual_helper: none\nlevel: 2 of 3\nparent: (root)\ncategories:\n(none yet)\nnew categories: not allowed\n"
    ));
}

#[test]
fn a_closed_choice_closes_the_schema() {
    let mut schema = schema::of::<Classify>();
    assert_eq!(
        schema.to_string(),
        r#"{"type":"object","additionalProperties":false,"properties":{"chunks":{"type":"array","items":{"type":"object","properties":{"id":{"description":"The number of the chunk.","type":"integer"},"category":{"description":"The category it belongs to.","type":"string"}},"additionalProperties":false,"required":["id","category"]}}},"required":["chunks"]}"#
    );

    let open = schema.clone();
    task(true).narrow(&mut schema);
    assert_eq!(schema, open);
    task(false).narrow(&mut schema);

    assert_eq!(
        schema
            .pointer("/properties/chunks/items/properties/category/enum")
            .unwrap(),
        &serde_json::json!(["Quantum", "Optics"])
    );
}

#[test]
fn similar_names_match_existing_ones_and_invalid_ones_are_rejected() {
    let long = "x".repeat(101);
    for (given, may_create, wanted) in [
        (" quantum ", false, Some("Quantum")),
        ("- OPTICS", false, Some("Optics")),
        ("Thermo / Heat", true, Some("Thermo/Heat")),
        ("Thermo", false, None),
        ("", true, None),
        ("<category>", true, None),
        ("(none yet)", true, None),
        ("contextual_helper", true, None),
        ("---", true, None),
        ("Level 1", true, Some("Level 1")),
        ("Category 2", true, Some("Category 2")),
        ("garden_shed", true, Some("Garden shed")),
        ("household_note", true, None),
        ("Household Notes", true, None),
        ("Household", true, Some("Household")),
        ("Physics / Heat", true, Some("Heat")),
        ("Physics / Optics", false, Some("Optics")),
        ("Astronomy", true, None),
        ("boilerService", true, Some("Boiler service")),
        ("snake", true, Some("snake")),
        ("physics", true, None),
        ("A Letter. Of 1900", true, None),
        ("category", true, None),
        ("2024", true, Some("2024")),
        ("根", true, Some("根")),
        ("a\u{7}b", true, None),
        (&long, true, None),
    ] {
        let task = task(may_create);
        let given = ClassifyOutput {
            chunks: vec![ClassifiedChunk::new(1, given.to_owned())],
        };
        let settled = task.settle(given);
        let accepted = task
            .check(&settled)
            .is_empty()
            .then(|| settled.chunks[0].category.as_str());
        assert_eq!(accepted, wanted);
    }
}

#[test]
fn an_entry_of_a_shortlist_is_recognised_and_nothing_else_is_accepted() {
    let entries = ["Home / Heating / Boiler", "Home", shortlist::NONE];
    let task = Classify {
        level: 0,
        parent: [].into(),
        categories: entries.map(String::from).into(),
        ..task(false)
    };
    assert_ne!(task.instruction(), Classify::SYSTEM);
    for (given, wanted) in [
        ("- home / heating / boiler", Some("Home / Heating / Boiler")),
        ("HOME", Some("Home")),
        ("None of these", Some(shortlist::NONE)),
        ("Boiler", None),
        ("Home / Heating", None),
        ("Garden", None),
    ] {
        let settled = task.settle(ClassifyOutput {
            chunks: vec![ClassifiedChunk::new(1, given.to_owned())],
        });
        let accepted = task.check(&settled).is_empty();
        let accepted = accepted.then(|| settled.chunks[0].category.as_str());
        assert_eq!(accepted, wanted, "{given}");
    }
}

#[test]
fn a_title_may_be_the_name_of_a_category() {
    let repeats = |is_title| {
        let task = Classify {
            contextual_helper: Some("Insurance".into()),
            is_title,
            ..task(true)
        };
        let given = ClassifyOutput {
            chunks: vec![ClassifiedChunk::new(1, "Insurance".to_owned())],
        };
        !task.check(&given).is_empty()
    };
    assert!(repeats(false) && !repeats(true));
}

#[test]
fn an_entry_that_is_not_in_the_shortlist_is_none_of_it() {
    let list = ["Home / Heating", "Home", shortlist::NONE].map(str::to_owned);
    let task = Classify {
        level: 0,
        parent: [].into(),
        categories: list.into(),
        may_create: false,
        ..task(false)
    };
    let given = |name: &str| ClassifyOutput {
        chunks: vec![ClassifiedChunk::new(1, name.to_owned())],
    };
    for (name, wanted) in [("Heating", shortlist::NONE), ("Home", "Home")] {
        let settled = task.last_resort(given(name)).unwrap();
        assert_eq!(settled.chunks[0].category, wanted);
    }
}

#[test]
fn a_weak_name_is_accepted_if_the_model_insists() {
    let given = |name: &str| ClassifyOutput {
        chunks: vec![ClassifiedChunk::new(1, name.to_owned())],
    };
    let task = task(true);
    assert!(
        task.check(&given("Physics"))[0]
            .message
            .contains("narrower")
    );
    assert!(task.last_resort(given("Physics")).is_some());
    assert!(task.last_resort(given("")).is_none());
}
