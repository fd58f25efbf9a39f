//! Porter's stemmer (M. F. Porter, 1980, with his later `logi` and `bli`). Joins "heated",
//! "heating" and "heats". It changes only words of plain a-z, so other scripts pass unchanged.
//! Words of other languages in a-z lose endings too, but alike in chunk and query, which may cost
//! precision but never a match.

/// Endings of step 2, removed after at least one syllable. Where one ending is the tail of another,
/// the longer comes first.
const STEP2: [(&str, &str); 21] = [
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("ousli", "ous"),
    ("eli", "e"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("logi", "log"),
];
const STEP3: [(&str, &str); 7] = [
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];
/// Endings of step 4, removed after at least two syllables.
const STEP4: [(&str, &str); 19] = [
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Reduces `word` to its stem in place. Short words and words with other characters than a-z stay
/// as they are.
pub fn stem(word: &mut String) {
    if word.len() < 3 || !word.bytes().all(|b| b.is_ascii_lowercase()) {
        return;
    }

    plural(word);
    past(word);
    if word.ends_with('y') && has_vowel(&word.as_bytes()[..word.len() - 1]) {
        word.pop();
        word.push('i');
    }

    replace(word, &STEP2, 1);
    replace(word, &STEP3, 1);
    replace(word, &STEP4, 2);
    silent_letters(word);
}

fn plural(word: &mut String) {
    if word.ends_with("sses") || word.ends_with("ies") {
        word.truncate(word.len() - 2);
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

fn past(word: &mut String) {
    if let Some(before) = word.strip_suffix("eed") {
        if syllables(before.as_bytes()) > 0 {
            word.pop();
        }
        return;
    }

    let Some(before) = word.strip_suffix("ed").or_else(|| word.strip_suffix("ing")) else {
        return;
    };
    if !has_vowel(before.as_bytes()) {
        return;
    }

    word.truncate(before.len());
    let bytes = word.as_bytes();
    if ["at", "bl", "iz"].iter().any(|end| word.ends_with(end)) {
        word.push('e');
    } else if doubled(bytes) && !word.ends_with(['l', 's', 'z']) {
        word.pop();
    } else if syllables(bytes) == 1 && closed(bytes) {
        word.push('e');
    }
}

fn silent_letters(word: &mut String) {
    if let Some(before) = word.strip_suffix('e').map(str::as_bytes) {
        let count = syllables(before);
        if count > 1 || (count == 1 && !closed(before)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && syllables(word.as_bytes()) > 1 {
        word.pop();
    }
}

/// Changes the longest listed ending when at least `least` syllables precede it.
fn replace(word: &mut String, endings: &[(&str, &str)], least: usize) {
    // The last letter rules out nearly all of them, faster than a comparison of strings.
    let letter = word.as_bytes().last();
    let found = endings
        .iter()
        .filter(|(end, _)| end.as_bytes().last() == letter && word.ends_with(end))
        .max_by_key(|(end, _)| end.len());

    let Some((end, new)) = found else { return };
    let before = &word[..word.len() - end.len()];

    // "-ion" is removed only after s and t: "adoption", not "onion".
    let fits = *end != "ion" || before.ends_with(['s', 't']);
    if fits && syllables(before.as_bytes()) >= least {
        word.truncate(before.len());
        word.push_str(new);
    }
}

fn is_consonant(word: &[u8], at: usize) -> bool {
    match word[at] {
        b'a' | b'e' | b'i' | b'o' | b'u' => false,
        // A run of y alternates, so its length decides, without recursion.
        b'y' => {
            let run = word[..at].iter().rev().take_while(|b| **b == b'y').count();
            let first = at - run;
            let first_is =
                first == 0 || matches!(word[first - 1], b'a' | b'e' | b'i' | b'o' | b'u');
            first_is == (run % 2 == 0)
        }
        _ => true,
    }
}

/// Porter's measure: how often a vowel run is followed by a consonant run.
fn syllables(word: &[u8]) -> usize {
    let mut count = 0;
    let mut after_vowel = false;
    for at in 0..word.len() {
        let consonant = is_consonant(word, at);
        count += usize::from(consonant && after_vowel);
        after_vowel = !consonant;
    }

    count
}

fn has_vowel(word: &[u8]) -> bool {
    (0..word.len()).any(|at| !is_consonant(word, at))
}

fn doubled(word: &[u8]) -> bool {
    matches!(word, [.., a, b] if a == b) && is_consonant(word, word.len() - 1)
}

/// Consonant, vowel, consonant at the end, the last not w, x or y: "hop".
fn closed(word: &[u8]) -> bool {
    let n = word.len();
    n >= 3
        && is_consonant(word, n - 1)
        && !is_consonant(word, n - 2)
        && is_consonant(word, n - 3)
        && !matches!(word[n - 1], b'w' | b'x' | b'y')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_the_examples_of_the_paper() {
        for (word, wanted) in [
            ("caresses", "caress"),
            ("ponies", "poni"),
            ("cats", "cat"),
            ("feed", "feed"),
            ("agreed", "agre"),
            ("plastered", "plaster"),
            ("bled", "bled"),
            ("motoring", "motor"),
            ("sing", "sing"),
            ("hopping", "hop"),
            ("falling", "fall"),
            ("filing", "file"),
            ("happy", "happi"),
            ("sky", "sky"),
            ("relational", "relat"),
            ("conditional", "condit"),
            ("digitizer", "digit"),
            ("vietnamization", "vietnam"),
            ("hopefulness", "hope"),
            ("formaliti", "formal"),
            ("electrical", "electr"),
            ("goodness", "good"),
            ("replacement", "replac"),
            ("adoption", "adopt"),
            ("onion", "onion"),
            ("probate", "probat"),
            ("rate", "rate"),
            ("controll", "control"),
            ("generalizations", "gener"),
            ("oscillators", "oscil"),
            ("aeroelastic", "aeroelast"),
        ] {
            let mut stemmed = word.to_string();
            stem(&mut stemmed);
            assert_eq!(stemmed, wanted, "{word}");
        }
    }

    #[test]
    fn other_words_are_left_alone() {
        for word in ["", "s", "is", "mp3s", "études", "дома", "1990s"] {
            let mut stemmed = word.to_string();
            stem(&mut stemmed);
            assert_eq!(stemmed, word);
        }
    }

    #[test]
    fn odd_words_are_stemmed_quickly() {
        for letter in ["y", "s", "ing", "ational"] {
            stem(&mut letter.repeat(5_000));
        }
    }
}
