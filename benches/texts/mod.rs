//! Functions over whole texts, and texts that are hard for them. A test and a benchmark share this
//! table: none of the functions may take quadratic time, because users store the texts.

use std::sync::LazyLock;
use std::time::Duration;

use memoir::sources::retrieval::difference;
use memoir::workbench::claims::Claims;
use memoir_embedded_model::{AnswerChunk, EmbeddedModel, Support, SupportChunk, Vocabulary};
use memoir_index::highlight::Highlighter;
use memoir_policy::built_in::BuiltIn;
use memoir_policy::patterns::{CompiledPatterns, compile};
use memoir_policy::settings::Clipping;
use memoir_policy::steps::{clip, deduplicate};
use memoir_policy::time_limit::TimeLimit;
use memoir_policy::{Candidate, Entry, MemoryType};
use memoir_text::{framing, headings, presets, sentences};
use strum::VariantArray as _;

/// A kind of text of about so many bytes.
pub type Shape = (&'static str, fn(usize) -> String);

/// A function, and the texts that are hard for it.
pub struct Function {
    pub name: &'static str,
    /// Returns the size of what it made of the text.
    pub run: fn(&str) -> usize,
    pub shapes: &'static [&'static [Shape]],
}

/// What a chat or a payload passes through; a test compares their times.
pub const FUNCTIONS: &[Function] = &[
    Function {
        name: "redaction, standard and built-in patterns",
        run: |text| redacted(&BUILT_IN, text),
        shapes: &[PLAIN, SECRETS],
    },
    Function {
        name: "redaction, custom patterns",
        run: |text| redacted(&CUSTOM, text),
        shapes: &[PLAIN, SENTENCES],
    },
    Function {
        name: "clipping",
        run: clipped,
        shapes: &[PLAIN, SENTENCES],
    },
    Function {
        name: "key of a duplicate",
        run: |text| deduplicate::key(text).len(),
        shapes: &[PLAIN],
    },
    Function {
        name: "sentences",
        run: |text| sentences::split(text).len(),
        shapes: &[PLAIN, SENTENCES, LINES],
    },
    Function {
        name: "sentence on one line, cut",
        run: |text| sentences::cut(&sentences::flat(text), text.len() / 2).len(),
        shapes: &[PLAIN],
    },
    Function {
        name: "marks of prompts",
        run: |text| framing::body(text).len(),
        shapes: &[MARKS],
    },
    Function {
        name: "headings",
        run: |text| headings::headings(text).len(),
        shapes: &[PLAIN, LINES],
    },
    Function {
        name: "heading of a position",
        run: |text| {
            let middle = text.chars().count() / 2;
            headings::trail_within(Some("A"), text, middle).map_or(0, |trail| trail.len())
        },
        shapes: &[LINES],
    },
    Function {
        name: "highlights",
        run: |text| HIGHLIGHTER.ranges(text).len(),
        shapes: &[PLAIN],
    },
    Function {
        name: "shared terms",
        run: |text| HIGHLIGHTER.shared(text),
        shapes: &[PLAIN],
    },
    Function {
        name: "difference, every second line",
        run: |text| {
            differing(text, |place, line| match place % 2 {
                0 => format!("{line}x"),
                _ => line.to_owned(),
            })
        },
        shapes: &[PLAIN, LINES],
    },
    Function {
        name: "difference, nothing alike",
        run: |text| differing(text, |place, line| format!("{place} {line}")),
        shapes: &[PLAIN, LINES],
    },
    Function {
        name: "contradicting claims",
        run: |text| Claims::new(text).contradicted_by(text).map_or(0, str::len),
        shapes: &[SENTENCES],
    },
    Function {
        name: "classification of a message",
        run: classified,
        shapes: &[NAMES],
    },
    Function {
        name: "analysis of a question",
        run: analyzed,
        shapes: &[NAMES],
    },
    Function {
        name: "statements of a message",
        run: |text| EmbeddedModel::statements(text, &["I like tea"]).len(),
        shapes: &[NAMES],
    },
    Function {
        name: "proposed terms",
        run: |text| EmbeddedModel::propose_terms(&[text; 3], &[]).len(),
        shapes: &[NAMES],
    },
    Function {
        name: "answer, and its support",
        run: answered,
        shapes: &[LINES, SECTIONS],
    },
    Function {
        name: "excerpts for a task",
        run: excerpted,
        shapes: &[LINES, SECTIONS],
    },
];

/// Texts of one kind of character.
pub const PLAIN: &[Shape] = &[
    ("one sentence", |size| "word ".repeat(size / 5)),
    ("one word", |size| "a".repeat(size)),
    ("one word with accents", |size| "é".repeat(size / 2)),
    ("one Chinese word", |size| "字".repeat(size / 3)),
    ("one letter with accents", |size| {
        format!("a{}", "\u{301}".repeat(size / 2))
    }),
    ("only spaces", |size| " ".repeat(size)),
    ("only line breaks", |size| "\n".repeat(size)),
    ("only full stops", |size| ".".repeat(size)),
];

/// What a message may name or deny, again and again.
pub const NAMES: &[Shape] = &[
    ("names", |size| "Anna ".repeat(size / 5)),
    ("particles of names", |size| {
        format!("Anna {}", "de ".repeat(size / 3))
    }),
    ("capital particles", |size| "De ".repeat(size / 3)),
    ("denials", |size| "it isn't the lamp ".repeat(size / 18)),
    ("only denials", |size| "not ".repeat(size / 4)),
    ("words before numbers", |size| {
        "order number is 5678 ".repeat(size / 21)
    }),
    ("ids", |size| {
        let one = |number| format!("#{number:05} ");
        (0..size / 7).map(one).collect()
    }),
    ("plus signs", |size| "+ ".repeat(size / 2)),
    ("single digits", |size| "1 ".repeat(size / 2)),
    ("one long version", |size| "1.".repeat(size / 2)),
    ("one long compound", |size| "a-".repeat(size / 2)),
    ("only opening brackets", |size| "(".repeat(size)),
    ("short lines", |size| "- a\n".repeat(size / 4)),
];

/// Headings that a question may name, and what may stand below them.
pub const SECTIONS: &[Shape] = &[
    ("equal sections", |size| {
        "# Next steps\n- a\n".repeat(size / 17)
    }),
    ("a long heading", |size| {
        let heading = (0..size / 12).map(|number| format!("{number:05} "));
        let heading: String = heading.collect();
        format!("# {heading}\n{}", "- a lamp\n".repeat(size / 18))
    }),
    ("short and empty lines", |size| "a\n\n".repeat(size / 3)),
    ("brackets before words", |size| "[a ".repeat(size / 3)),
    ("methods", |size| {
        "    fn a() {\n    }\n\n".repeat(size / 20)
    }),
];

/// Many ends of sentences, and what looks like them.
pub const SENTENCES: &[Shape] = &[
    ("full stops and spaces", |size| ". ".repeat(size / 2)),
    ("sentences of one letter", |size| "A. b! ".repeat(size / 6)),
    ("abbreviations", |size| "Mrs. J. R. R. ".repeat(size / 14)),
    ("dotted letters", |size| "e.g.".repeat(size / 4)),
    ("equal sentences", |size| {
        "The lamp burns oil. ".repeat(size / 20)
    }),
    ("numbered sentences", |size| {
        let one = |number| format!("The lamp burns {number} oil. ");
        (0..size / 24).map(one).collect()
    }),
    ("only quotes", |size| "\"".repeat(size)),
    ("only brackets", |size| "[".repeat(size)),
];

/// Many lines, most of which look like headings.
pub const LINES: &[Shape] = &[
    ("only #", |size| "#".repeat(size)),
    ("headings", |size| "# a\n".repeat(size / 4)),
    ("# before lines", |size| {
        format!("{}{}", "#".repeat(size / 2), "\na".repeat(size / 4))
    }),
    ("spaces before lines", |size| {
        format!("{}{}", " ".repeat(size / 2), "\na".repeat(size / 4))
    }),
    ("lines of one letter", |size| "a\n".repeat(size / 2)),
    ("underlines", |size| "a\n===\n\n".repeat(size / 7)),
    ("chapters", |size| "CHAPTER 1\n\n".repeat(size / 11)),
    ("chapters before empty lines", |size| {
        format!(
            "{}{}",
            "CHAPTER 1\n".repeat(size / 20),
            "\n".repeat(size / 2)
        )
    }),
    ("fences", |size| "```\n".repeat(size / 4)),
    ("keys and values", |size| "key: value\n".repeat(size / 11)),
    ("nested keys", |size| "a:\n  - b: c\n".repeat(size / 12)),
    ("an object whose keys come late", |size| {
        let keys = "  \"k\": {\n".repeat(size / 18);
        format!("{{{}{keys}}}", "\n".repeat(size / 2))
    }),
    ("table", |size| "| a | b |\n".repeat(size / 10)),
];

/// Beginnings and parts of our own marks.
pub const MARKS: &[Shape] = &[
    ("citations", |size| "[chunk 1] ".repeat(size / 10)),
    ("one long citation", |size| {
        format!("[chunk {}", "1, ".repeat(size / 3))
    }),
    ("ids of facts", |size| "F9: ".repeat(size / 4)),
    ("beginnings of marks", |size| {
        "[ ## _end f1 *".repeat(size / 14)
    }),
];

/// Beginnings and parts of what redaction looks for.
pub const SECRETS: &[Shape] = &[
    ("only digits", |size| "1".repeat(size)),
    ("digits and spaces", |size| "1 ".repeat(size / 2)),
    ("groups of digits", |size| "4111 ".repeat(size / 5)),
    ("digits and full stops", |size| "1.".repeat(size / 2)),
    ("groups of digits on lines", |size| {
        "4111\n".repeat(size / 5)
    }),
    ("phone numbers", |size| "030 1234567.".repeat(size / 12)),
    ("cells before phone numbers", |size| {
        "1,030 1234567_".repeat(size / 14)
    }),
    ("beginnings of IBANs", |size| "xDE89".repeat(size / 5)),
    ("groups of an IBAN", |size| "DE89 3704 ".repeat(size / 10)),
    ("hex digits and colons", |size| "f:".repeat(size / 2)),
    ("hex digits", |size| "ab12".repeat(size / 4)),
    ("at signs", |size| "a@".repeat(size / 2)),
    ("parts of addresses", |size| "a@a.aa-.".repeat(size / 8)),
    ("parts of accented addresses", |size| {
        "é@é.éé-.".repeat(size / 12)
    }),
    ("beginnings of keys", |size| {
        "-----BEGIN PRIVATE KEY-----".repeat(size / 27)
    }),
    ("beginnings of other keys", |size| {
        "-----BEGIN AAAA ".repeat(size / 16)
    }),
    ("beginnings of tokens", |size| {
        "eyJ.bearer  ".repeat(size / 12)
    }),
    ("prefixes of keys", |size| {
        "sk-ghp_hf_AKIA".repeat(size / 14)
    }),
];

static BUILT_IN: LazyLock<CompiledPatterns> = LazyLock::new(|| patterns(&[], BuiltIn::VARIANTS));
static CUSTOM: LazyLock<CompiledPatterns> = LazyLock::new(|| {
    patterns(
        &[
            "^a",
            r"\bID-\d+",
            r"\w+:\s*.*",
            "[a-f]{2,8}",
            r"\d+",
            "lamp|oil",
        ],
        &[],
    )
});
static HIGHLIGHTER: LazyLock<Highlighter> =
    LazyLock::new(|| Highlighter::new("lamp a 字字 word 4111"));

fn patterns(custom: &[&str], built_in: &[BuiltIn]) -> CompiledPatterns {
    let custom: Vec<String> = custom.iter().map(|&source| source.to_owned()).collect();
    compile(&custom, built_in).unwrap()
}

fn redacted(patterns: &CompiledPatterns, text: &str) -> usize {
    let limit = TimeLimit::of(Duration::from_mins(10));
    let redacted = patterns.redact(text, "***", limit).unwrap();
    redacted.map_or(0, |redacted| redacted.matches)
}

fn clipped(text: &str) -> usize {
    let mut entries = [Entry::new(Candidate {
        id: "1".to_owned(),
        content: text.to_owned(),
        score: 1.0,
        timestamp_micros: 0,
        session_id: String::new(),
        message_id: None,
        memory_type: MemoryType::Message,
        speaker: None,
    })];
    clip::apply(&mut entries, (Clipping::Best, 2), "lamp a 字字 word 4111");
    entries[0].content().len()
}

fn differing(text: &str, change: fn(usize, &str) -> String) -> usize {
    let lines = text.split('\n').enumerate();
    let other: Vec<String> = lines.map(|(place, line)| change(place, line)).collect();
    let names = ["a".to_owned(), "b".to_owned()];
    difference::unified(text, &other.join("\n"), &names).len()
}

/// The entities and topics of a message.
fn classified(text: &str) -> usize {
    with_terms(|terms| {
        let found = EmbeddedModel::enrich(text, terms);
        found.entities.len() + found.topics.len()
    })
}

fn analyzed(text: &str) -> usize {
    with_terms(|terms| {
        let found = EmbeddedModel::analyze(text, terms);
        found.topics.len() + usize::from(EmbeddedModel::fits(text, terms))
    })
}

/// Calls a function with the terms of a preset.
fn with_terms(run: impl FnOnce(&Vocabulary<'_>) -> usize) -> usize {
    let preset = presets::built_in();
    let list = |terms: &[presets::Term]| -> Vec<String> {
        terms.iter().map(|term| term.name.to_owned()).collect()
    };
    run(&Vocabulary {
        topics: &list(&preset.topics),
        categories: &list(&preset.categories),
        message_types: &list(&preset.message_types),
        entity_types: &list(&preset.entity_types),
    })
}

fn answered(text: &str) -> usize {
    let chunks = [AnswerChunk {
        chunk_id: 1,
        path: "",
        about: "",
        text,
    }];
    let each = ["What are the next steps?", "How many lamps burn oil?"].map(|query| {
        let answer = EmbeddedModel::answer(query, &chunks);
        let support = EmbeddedModel::support(query, &answer, &chunks);
        answer.len() + usize::from(support == Support::Full)
    });
    each.iter().sum()
}

fn excerpted(text: &str) -> usize {
    let chunks = [SupportChunk {
        chunk_id: 1,
        about: "",
        text,
    }];
    EmbeddedModel::excerpts("How does a lamp burn oil?", &chunks).len()
}
