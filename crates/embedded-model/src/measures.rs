//! What is measured, and the words and units that stand beside its values: a question that asks how
//! heavy something is, is answered by a number of kilograms and not by a number of houses.

/// Something that can be measured.
#[derive(Debug, PartialEq, Eq)]
pub struct Measure {
    /// The words that ask for it.
    pub asked: &'static [&'static str],
    /// Words and units beside a value.
    pub cues: &'static [&'static str],
}

const LENGTHS: [&str; 26] = [
    "inch",
    "inches",
    "foot",
    "feet",
    "ft",
    "yard",
    "yards",
    "mile",
    "miles",
    "metre",
    "metres",
    "meter",
    "meters",
    "m",
    "cm",
    "mm",
    "km",
    "centimetre",
    "centimetres",
    "kilometre",
    "kilometres",
    "kilometers",
    "fathom",
    "fathoms",
    "league",
    "leagues",
];
const SPANS: [&str; 22] = [
    "second",
    "seconds",
    "minute",
    "minutes",
    "min",
    "hour",
    "hours",
    "h",
    "day",
    "days",
    "night",
    "nights",
    "week",
    "weeks",
    "month",
    "months",
    "year",
    "years",
    "decade",
    "decades",
    "century",
    "centuries",
];

const MEASURES: [Measure; 11] = [
    Measure {
        asked: &["heavy", "weigh", "weight"],
        cues: &[
            "weigh",
            "weighs",
            "weighed",
            "weight",
            "kg",
            "kilo",
            "kilos",
            "kilogram",
            "kilograms",
            "g",
            "gram",
            "grams",
            "mg",
            "pound",
            "pounds",
            "lb",
            "lbs",
            "ounce",
            "ounces",
            "oz",
            "ton",
            "tons",
            "tonne",
            "tonnes",
        ],
    },
    Measure {
        asked: &[
            "tall", "high", "height", "deep", "depth", "wide", "width", "thick", "far", "distance",
        ],
        cues: &LENGTHS,
    },
    Measure {
        asked: &["old", "age"],
        cues: &["year", "years", "age", "aged", "old", "months", "born"],
    },
    Measure {
        asked: &["long", "duration"],
        cues: &SPANS,
    },
    Measure {
        asked: &["hot", "cold", "warm", "temperature"],
        cues: &[
            "degree",
            "degrees",
            "°",
            "°c",
            "°f",
            "celsius",
            "fahrenheit",
            "c",
            "f",
            "k",
        ],
    },
    Measure {
        asked: &["fast", "speed"],
        cues: &[
            "mph", "kph", "knots", "km/h", "m/s", "mb/s", "miles", "times", "seconds", "ms",
        ],
    },
    Measure {
        asked: &["large", "big", "size", "small"],
        cues: &[
            "square",
            "m²",
            "km²",
            "acre",
            "acres",
            "hectare",
            "hectares",
            "bytes",
            "kb",
            "mb",
            "gb",
            "tb",
            "kib",
            "mib",
            "gib",
            "kwh",
            "kw",
            "litre",
            "litres",
            "liters",
            "euros",
            "dollars",
            "percent",
            "%",
            "people",
            "inhabitants",
            "by",
            "x",
        ],
    },
    Measure {
        asked: &[
            "cost",
            "costs",
            "price",
            "expensive",
            "pay",
            "paid",
            "rent",
            "fee",
            "charge",
            "salary",
        ],
        cues: &[
            "euro",
            "euros",
            "eur",
            "€",
            "dollar",
            "dollars",
            "usd",
            "$",
            "£",
            "gbp",
            "pound",
            "pounds",
            "pence",
            "cent",
            "cents",
            "bucks",
            "franc",
            "francs",
            "guineas",
            "shillings",
        ],
    },
    Measure {
        asked: &["often", "frequently"],
        cues: &[
            "once", "twice", "times", "every", "daily", "weekly", "monthly", "yearly", "hourly",
            "nightly", "annually", "per", "each",
        ],
    },
    Measure {
        asked: &["rate", "percentage"],
        cues: &["%", "percent", "per"],
    },
    Measure {
        asked: &["phone", "telephone"],
        cues: &["phone", "tel", "telephone", "fax", "mobile"],
    },
];

/// What a word asks to measure.
pub fn asked_by(word: &str) -> Option<&'static Measure> {
    MEASURES
        .iter()
        .find(|measure| measure.asked.contains(&word))
}

impl Measure {
    /// Whether a word in lower case stands beside a value of this measure: a unit, or a number that
    /// ends with one, such as `40cm`.
    pub fn has_cue(&self, word: &str) -> bool {
        let unit = word.trim_start_matches(|c: char| c.is_ascii_digit() || ",.".contains(c));
        self.cues.contains(&word)
            || (unit.len() < word.len() && self.cues.contains(&unit))
            || word.starts_with(['$', '€', '£']) && self.cues.contains(&"$")
            || word.ends_with(['€', '%']) && self.cues.iter().any(|cue| word.ends_with(cue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_unit_of_what_is_asked() {
        for (asked, cue, other) in [
            ("heavy", "4kg", "4"),
            ("tall", "inches", "kg"),
            ("cost", "$3.95", "3.95"),
            ("rate", "3.4%", "3.4"),
        ] {
            let measure = asked_by(asked).unwrap();
            assert!(measure.has_cue(cue) && !measure.has_cue(other), "{asked}");
        }
        assert!(asked_by("blue").is_none());
    }
}
